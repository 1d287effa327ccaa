//! Compiles the C side of the engines of Berkeley DB and RocksDB, and links them and libpmemobj, under feature `peers-all` only.

fn main() {
    println!("cargo:rerun-if-changed=src/bdb_bank.c");
    println!("cargo:rerun-if-changed=src/rocksdb_bank.c");
    #[cfg(feature = "peers-all")]
    compile_the_banks();
}

/// Needs `db.h` and `libdb-5.3` (Debian: `libdb5.3-dev`), `rocksdb/c.h` and `librocksdb` (`librocksdb-dev`); `libpmemobj`
/// (`libpmemobj-dev`) is linked, too.
#[cfg(feature = "peers-all")]
fn compile_the_banks() {
    for bank in ["bdb_bank", "rocksdb_bank"] {
        cc::Build::new()
            .file(format!("src/{bank}.c"))
            .opt_level(2)
            .warnings(true)
            .extra_warnings(true)
            .flag("-Wno-unused-parameter")
            .compile(bank);
    }
    println!("cargo:rustc-env=ROCKSDB_VERSION={}", rocksdb_version());
    for library in ["db-5.3", "rocksdb", "pmemobj"] {
        println!("cargo:rustc-link-lib={library}");
    }
}

/// RocksDB's interface for C has no call that says the version, but a header for C++ has it.
#[cfg(feature = "peers-all")]
fn rocksdb_version() -> String {
    let header = std::fs::read_to_string("/usr/include/rocksdb/version.h").unwrap_or_default();
    let number = |name: &str| {
        let line = header.lines().find_map(|line| line.strip_prefix(&format!("#define {name} ")));
        line.map_or("?", str::trim).to_owned()
    };
    ["ROCKSDB_MAJOR", "ROCKSDB_MINOR", "ROCKSDB_PATCH"].map(number).join(".")
}

//! Compiles the C side of the Berkeley DB engine, and links libpmemobj, under feature `peers` only.

fn main() {
    println!("cargo:rerun-if-changed=src/bdb_bank.c");
    #[cfg(feature = "peers")]
    compile_the_berkeley_db_bank();
}

/// Needs `db.h` and `libdb-5.3` (Debian: `apt-get install libdb5.3-dev`). `libpmemobj` (`libpmemobj-dev`) is linked, too.
#[cfg(feature = "peers")]
fn compile_the_berkeley_db_bank() {
    cc::Build::new()
        .file("src/bdb_bank.c")
        .opt_level(2)
        .warnings(true)
        .extra_warnings(true)
        .flag("-Wno-unused-parameter")
        .compile("bdb_bank");
    println!("cargo:rustc-link-lib=db-5.3");
    println!("cargo:rustc-link-lib=pmemobj");
}

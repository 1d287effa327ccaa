//! Stores the commit (if git tracks this file) and the compiler in `tp-bench`, for its reports.
//!
//! With the feature `peers`, also compiles stock SQLite, unless the feature `sql` brings libtp's SQLite. With the
//! feature `peers-all`, also compiles the C code that calls Berkeley DB and RocksDB, and links both libraries and
//! libpmemobj.

/// Finds SQLite's source: the unchanged source that `libtp-sqlite` starts from.
#[cfg(all(feature = "peers", not(feature = "sql")))]
#[path = "../sqlite/build/source.rs"]
mod source;

use std::path::Path;
use std::process::Command;

/// The C files that call each library, and the name of the static library that they become.
const CALLS: [(&str, [&str; 3]); 2] = [
    ("bdb_calls", ["bdb_open.c", "bdb_bank.c", "bdb_tables.c"]),
    ("rocksdb_calls", ["rocksdb_open.c", "rocksdb_bank.c", "rocksdb_tables.c"]),
];
const HEADERS: [&str; 3] = ["bdb_open.h", "rocksdb_open.h", "pairs.h"];

fn main() {
    let sources = CALLS.iter().flat_map(|(_, sources)| sources);
    sources.chain(&HEADERS).for_each(|file| println!("cargo:rerun-if-changed=src/{file}"));
    note_the_source();
    #[cfg(all(feature = "peers", not(feature = "sql")))]
    compile_sqlite();
    #[cfg(feature = "peers-all")]
    compile_the_calls();
}

fn note_the_source() {
    let commit = match output_of("git", &["ls-files", "--error-unmatch", "build.rs"]) {
        Some(_) => output_of("git", &["describe", "--always", "--exclude=*", "--abbrev=12", "--dirty= and changes"]),
        None => None,
    };
    // Cargo runs this script again when a commit or a checkout changes one of these files. It also runs the script when
    // the source changes, because the reports say whether the source differs from the commit.
    for name in ["HEAD", "logs/HEAD"] {
        let path = output_of("git", &["rev-parse", "--git-path", name]).filter(|path| Path::new(path).exists());
        path.iter().for_each(|path| println!("cargo::rerun-if-changed={path}"));
    }
    ["..", "../../Cargo.lock"].iter().for_each(|path| println!("cargo::rerun-if-changed={path}"));
    let compiler = std::env::var("RUSTC").ok().and_then(|rustc| output_of(&rustc, &["--version"]));
    let unknown = || "unknown".to_owned();
    println!("cargo::rustc-env=TP_COMMIT={}", commit.unwrap_or_else(unknown));
    println!("cargo::rustc-env=TP_COMPILER={}", compiler.unwrap_or_else(unknown));
}

/// Returns the text that a program prints, without the line's end; `None` if the program fails or prints nothing.
fn output_of(program: &str, words: &[&str]) -> Option<String> {
    // With this variable, git does not write into its index.
    let mut command = Command::new(program);
    let ended =
        command.args(words).env("GIT_OPTIONAL_LOCKS", "0").output().ok().filter(|ended| ended.status.success())?;
    let line = String::from_utf8(ended.stdout).ok()?.trim().to_owned();
    Some(line).filter(|line| !line.is_empty())
}

/// The options with which the package `libsqlite3-sys` compiles SQLite.
#[cfg(all(feature = "peers", not(feature = "sql")))]
const OPTIONS: [&str; 19] = [
    "SQLITE_CORE",
    "SQLITE_DEFAULT_FOREIGN_KEYS=1",
    "SQLITE_ENABLE_API_ARMOR",
    "SQLITE_ENABLE_COLUMN_METADATA",
    "SQLITE_ENABLE_DBSTAT_VTAB",
    "SQLITE_ENABLE_FTS3",
    "SQLITE_ENABLE_FTS3_PARENTHESIS",
    "SQLITE_ENABLE_FTS5",
    "SQLITE_ENABLE_JSON1",
    "SQLITE_ENABLE_LOAD_EXTENSION=1",
    "SQLITE_ENABLE_RTREE",
    "SQLITE_ENABLE_STAT4",
    "SQLITE_SOUNDEX",
    "SQLITE_THREADSAFE=1",
    "SQLITE_USE_URI",
    "HAVE_USLEEP=1",
    "HAVE_ISNAN",
    "_POSIX_THREAD_SAFE_FUNCTIONS",
    "HAVE_LOCALTIME_R",
];

/// Compiles SQLite, because `rusqlite` links no SQLite in this workspace (see the workspace's Cargo.toml).
#[cfg(all(feature = "peers", not(feature = "sql")))]
fn compile_sqlite() {
    let source = source::find(libsqlite3_sys::SQLITE_VERSION_NUMBER).unwrap_or_else(|sentence| panic!("{sentence}"));
    let mut compiler = cc::Build::new();
    compiler.file(source.join("sqlite3.c")).warnings(false);
    for option in OPTIONS {
        compiler.flag(format!("-D{option}"));
    }
    compiler.compile("sqlite3");
}

/// Compiles the C files. They need `db.h` and `libdb-5.3` (Debian: `libdb5.3-dev`), `rocksdb/c.h` and `librocksdb`
/// (`librocksdb-dev`); `libpmemobj` (`libpmemobj-dev`) is linked, too.
#[cfg(feature = "peers-all")]
fn compile_the_calls() {
    for (library, sources) in CALLS {
        cc::Build::new()
            .files(sources.map(|source| format!("src/{source}")))
            .opt_level(2)
            .warnings(true)
            .extra_warnings(true)
            .flag("-Wno-unused-parameter")
            .compile(library);
    }
    println!("cargo:rustc-env=ROCKSDB_VERSION={}", rocksdb_version());
    println!("cargo:rustc-env=PMEMOBJ_VERSION={}", pmemobj_version());
    for library in ["db-5.3", "rocksdb", "pmemobj"] {
        println!("cargo:rustc-link-lib={library}");
    }
}

/// Returns RocksDB's version from a header for C++: the interface for C has no call that returns it.
#[cfg(feature = "peers-all")]
fn rocksdb_version() -> String {
    let header = std::fs::read_to_string("/usr/include/rocksdb/version.h").unwrap_or_default();
    let number = |name: &str| {
        let line = header.lines().find_map(|line| line.strip_prefix(&format!("#define {name} ")));
        line.map_or("?", str::trim).to_owned()
    };
    ["ROCKSDB_MAJOR", "ROCKSDB_MINOR", "ROCKSDB_PATCH"].map(number).join(".")
}

/// Returns libpmemobj's version from its file for pkg-config: its header has only the version of its interface.
#[cfg(feature = "peers-all")]
fn pmemobj_version() -> String {
    let path = format!("/usr/lib/{}-linux-gnu/pkgconfig/libpmemobj.pc", std::env::consts::ARCH);
    let file = std::fs::read_to_string(path).unwrap_or_default();
    file.lines().find_map(|line| line.strip_prefix("version=")).map_or("?", str::trim).to_owned()
}

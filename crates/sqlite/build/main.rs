//! Compiles SQLite with a second B-tree layer on libtp.
//!
//! The source is the amalgamation in the package `libsqlite3-sys` (`source.rs`); this repository has no copy of it. The
//! build makes a changed copy (`vary.rs`, `patches.rs`) and compiles it together with the shim in `c/`. If the source
//! does not have the place for a patch, the build fails. So an unknown version of SQLite is noticed at the build, and
//! not when a program uses it.

mod patches;
mod source;
mod stock;
mod text;
mod vary;

use std::path::{Path, PathBuf};

/// The files of the shim, in the order in which the varied source includes them.
const SHIM: [&str; 6] = ["handle.c", "transaction.c", "tree.c", "cursor.c", "statement.c", "copy.c"];

/// The options of SQLite: the options of `libsqlite3-sys` and of Debian, except two. `dbstat` would read the pages of a
/// file. The amalgamation's parser does not have LIMIT for UPDATE and DELETE.
const OPTIONS: [&str; 22] = [
    "SQLITE_CORE",
    "SQLITE_THREADSAFE=1",
    "SQLITE_USE_URI",
    "SQLITE_SOUNDEX",
    "SQLITE_MAX_VARIABLE_NUMBER=250000",
    "SQLITE_ENABLE_COLUMN_METADATA",
    "SQLITE_ENABLE_FTS3",
    "SQLITE_ENABLE_FTS3_PARENTHESIS",
    "SQLITE_ENABLE_FTS3_TOKENIZER",
    "SQLITE_ENABLE_FTS4",
    "SQLITE_ENABLE_FTS5",
    "SQLITE_ENABLE_LOAD_EXTENSION=1",
    "SQLITE_ENABLE_MATH_FUNCTIONS",
    "SQLITE_ENABLE_PREUPDATE_HOOK",
    "SQLITE_ENABLE_RTREE",
    "SQLITE_ENABLE_SESSION",
    "SQLITE_ENABLE_STMTVTAB",
    "SQLITE_ENABLE_UNLOCK_NOTIFY",
    "SQLITE_LIKE_DOESNT_MATCH_BLOBS",
    "HAVE_ISNAN",
    "HAVE_USLEEP=1",
    "HAVE_LOCALTIME_R",
];

/// The exported names, as a version script for the linker: SQLite's names, and the names of its session extension.
const EXPORTS: &str =
    "{ global: sqlite3_*; sqlite3session_*; sqlite3changeset_*; sqlite3changegroup_*; sqlite3rebaser_*; };\n";

fn main() {
    println!("cargo::rerun-if-changed=build");
    println!("cargo::rerun-if-changed=c");
    if let Err(sentence) = build() {
        println!("cargo::error={}", sentence.replace('\n', " "));
        std::process::exit(1);
    }
}

fn build() -> Result<(), String> {
    let out = PathBuf::from(std::env::var("OUT_DIR").map_err(|_| "cargo sets OUT_DIR for a build script")?);
    let source = source::find(libsqlite3_sys::SQLITE_VERSION_NUMBER)?;
    let amalgamation = read(&source.join("sqlite3.c"))?;
    let here = std::env::current_dir().map_err(|error| error.to_string())?.join("c");
    let shim = SHIM.iter().map(|part| read(&here.join(part))).collect::<Result<Vec<String>, String>>()?;
    let varied = vary::vary(amalgamation, &shim, &SHIM.map(|part| here.join(part)))
        .map_err(|what| format!("{}: {what}", source.join("sqlite3.c").display()))?;
    let (varied_path, exports) = (out.join("sqlite3.c"), out.join("exports.map"));
    write(&varied_path, &varied)?;
    write(&exports, EXPORTS)?;
    compile(&varied_path, &source, &here);
    // The tests compile both amalgamations with the same options.
    println!("cargo::rustc-env=TPSQL_SOURCE={}", source.display());
    println!("cargo::rustc-env=TPSQL_OPTIONS={}", OPTIONS.join(" "));
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libsqlite3.so.0");
    // The library calls its own functions, even if another SQLite is linked into the program.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-Bsymbolic");
    // rustc passes a version script with the functions of Rust, and this is a second version script. The linker must
    // accept both; lld, which rustc uses by default from 1.90 on, accepts both.
    println!("cargo::rustc-cdylib-link-arg=-Wl,--version-script={}", exports.display());
    println!("cargo::rustc-cdylib-link-arg=-Wl,-u,sqlite3_open_v2");
    Ok(())
}

fn compile(varied: &Path, source: &Path, here: &Path) {
    let mut compiler = cc::Build::new();
    compiler.file(varied).include(source).include(here).warnings(false);
    // Levels above 2 make the library larger, but not faster.
    let level = std::env::var("OPT_LEVEL").ok().and_then(|level| level.parse::<u32>().ok());
    compiler.opt_level(level.unwrap_or(2).min(2));
    for option in OPTIONS {
        compiler.flag(format!("-D{option}"));
    }
    compiler.flag(format!("-DTP_VERSION=\"{}\"", env!("CARGO_PKG_VERSION")));
    compiler.compile("tpsqlite3");
}

fn read(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("{} cannot be read: {error}", path.display()))
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    std::fs::write(path, text).map_err(|error| format!("{} cannot be written: {error}", path.display()))
}

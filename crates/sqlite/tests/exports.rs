//! Does the library have every name and option that a program linked with Debian's SQLite uses? Pitfall 34 of
//! docs/sql.md.
#![allow(clippy::unwrap_used)] // The whole file is tests.

mod sql;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use sql::Connection;

/// Debian's library.
const STOCK: &str = "/usr/lib/x86_64-linux-gnu/libsqlite3.so.0";
/// The prefixes of the names that programs call.
const BEGINNINGS: [&str; 5] =
    ["sqlite3_", "sqlite3session_", "sqlite3changeset_", "sqlite3changegroup_", "sqlite3rebaser_"];
/// A name with each prefix, for a machine without Debian's library.
const SAMPLE_NAMES: [&str; 5] = [
    "sqlite3_open_v2",
    "sqlite3session_create",
    "sqlite3changeset_apply",
    "sqlite3changegroup_new",
    "sqlite3rebaser_create",
];

fn library() -> PathBuf {
    std::env::current_exe().unwrap().with_file_name("liblibtp_sqlite.so")
}

/// Returns the names that a library exports, or `None` on a machine without `nm`.
fn names(library: &Path) -> Option<BTreeSet<String>> {
    let output = Command::new("nm").args(["-D", "--defined-only"]).arg(library).output().ok()?;
    let text = String::from_utf8(output.stdout).unwrap();
    let names = text.lines().filter_map(|line| line.split_whitespace().last()?.split('@').next());
    Some(names.filter(|name| BEGINNINGS.iter().any(|called| name.starts_with(called))).map(str::to_owned).collect())
}

#[test]
fn the_library_has_all_names_that_programs_call() {
    let Some(ours) = names(&library()) else {
        return sql::skipped("there is no nm (Debian: binutils)");
    };
    let missing = |names: &BTreeSet<String>| names.difference(&ours).cloned().collect::<Vec<String>>();
    assert_eq!(missing(&SAMPLE_NAMES.map(str::to_owned).into()), Vec::<String>::new());
    if !Path::new(STOCK).exists() {
        return sql::skipped(&format!("there is no {STOCK} (Debian: libsqlite3-0)"));
    }
    let stock = names(Path::new(STOCK)).unwrap();
    assert!(stock.len() > 200, "{}", stock.len());
    assert_eq!(missing(&stock), Vec::<String>::new());
}

#[test]
fn the_library_has_the_options_of_debian() {
    let ours = Connection::open(Path::new(":memory:"));
    for option in [
        "ENABLE_COLUMN_METADATA",
        "ENABLE_FTS3",
        "ENABLE_FTS3_PARENTHESIS",
        "ENABLE_FTS3_TOKENIZER",
        "ENABLE_FTS4",
        "ENABLE_FTS5",
        "ENABLE_LOAD_EXTENSION",
        "ENABLE_MATH_FUNCTIONS",
        "ENABLE_PREUPDATE_HOOK",
        "ENABLE_RTREE",
        "ENABLE_SESSION",
        "ENABLE_STMTVTAB",
        "ENABLE_UNLOCK_NOTIFY",
        "LIKE_DOESNT_MATCH_BLOBS",
        "MAX_VARIABLE_NUMBER=250000",
        "SOUNDEX",
        "THREADSAFE=1",
        "USE_URI",
    ] {
        let asked = format!("SELECT sqlite_compileoption_used('{option}')");
        assert_eq!(ours.one(&asked), "1", "{option}");
    }
}

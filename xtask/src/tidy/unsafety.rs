//! The files that may contain `unsafe`.
//!
//! All `unsafe` code is in the files of one list. Every crate without such a file forbids `unsafe`, and the compiler
//! checks these crates. This rule checks the other crates.

use super::source::{code, line_of, word_places, File};
use crate::workspace::Package;

/// The files that may contain `unsafe`.
const HOMES: [&str; 48] = [
    "crates/bench/src/c_tables.rs",
    "crates/bench/src/memory/pmemobj.rs",
    "crates/bench/src/peers/bdb.rs",
    "crates/bench/src/peers/lmdb.rs",
    "crates/bench/src/peers/rocksdb.rs",
    "crates/capi/src/arguments.rs",
    "crates/capi/src/db.rs",
    "crates/capi/src/db/alone.rs",
    "crates/capi/src/db/current.rs",
    "crates/capi/src/db/dbt.rs",
    "crates/capi/src/db/info.rs",
    "crates/capi/src/handles.rs",
    "crates/capi/src/transaction.rs",
    "crates/io/src/fork.rs",
    "crates/io/src/posix.rs",
    "crates/log/src/flush.rs",
    "crates/process/src/latch.rs",
    "crates/process/src/os.rs",
    "crates/rio/examples/fault_cost.rs",
    "crates/rio/examples/long_range_cost.rs",
    "crates/rio/examples/undo_cost.rs",
    "crates/rio/src/anchor.rs",
    "crates/rio/src/bytes.rs",
    "crates/rio/src/flush.rs",
    "crates/rio/src/guard.rs",
    "crates/rio/src/keys.rs",
    "crates/rio/src/map.rs",
    "crates/rio/src/racing.rs",
    "crates/rio/src/region/reference.rs",
    "crates/rio/src/region/remembered.rs",
    "crates/rio/src/shared.rs",
    "crates/rio/src/short_crc.rs",
    "crates/rio/src/undo/quick.rs",
    "crates/rio/src/view.rs",
    "crates/rio/src/wiped.rs",
    "crates/sql/src/complete.rs",
    "crates/sqlite/src/arguments.rs",
    "crates/sqlite/src/owned.rs",
    "crates/sqlite/tests/sql/mod.rs",
    "crates/vista/src/auto_range.rs",
    "crates/vista/src/segment/owner.rs",
    "crates/vista/src/threads/worker.rs",
    "tests/lab/port.rs",
    "tests/lab/second.rs",
    "tests/src/forking.rs",
    "tests/vista/mappings.rs",
    "tests/vista/trace.rs",
    "tests/vista/wild.rs",
];

const FORBID: &str = "#![forbid(unsafe_code)]";

/// Returns `unsafe` outside these files.
pub fn strayed(files: &[File]) -> Vec<String> {
    let mut complaints = Vec::new();
    for file in files.iter().filter(|file| file.is_rust() && !HOMES.contains(&file.path.as_str())) {
        let code = code(&file.text);
        if let Some(place) = word_places(&code, "unsafe").first() {
            complaints.push(format!(
                "{}:{}: unsafe outside the files that may have it ({})",
                file.path,
                line_of(&code, *place),
                HOMES.join(", ")
            ));
        }
    }
    complaints
}

/// Returns crates that use no `unsafe` and do not forbid it.
pub fn not_forbidden(files: &[File], packages: &[Package]) -> Vec<String> {
    let mut complaints = Vec::new();
    for package in packages {
        let inside = format!("{}/", package.folder);
        if HOMES.iter().any(|home| home.starts_with(&inside)) {
            continue;
        }
        for target in package.targets.iter().filter(|target| target.kind == "lib" || target.kind == "bin") {
            let root = files.iter().find(|file| file.path == target.source);
            if root.is_some_and(|root| !code(&root.text).contains(FORBID)) {
                complaints.push(format!("{}: has no unsafe code, so add {FORBID}", target.source));
            }
        }
    }
    complaints
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::Target;

    fn file(path: &str, text: &str) -> File {
        File { path: path.into(), text: text.into() }
    }

    fn package(folder: &str) -> Package {
        let source = format!("{folder}/src/lib.rs");
        let target = Target { name: "x".into(), kind: "lib".into(), source };
        Package {
            name: "x".into(),
            folder: folder.into(),
            dependencies: Vec::new(),
            targets: vec![target],
            features: Vec::new(),
            is_published: true,
        }
    }

    #[test]
    fn unsafe_is_found_outside_its_files_and_not_in_comments() {
        let files = [
            file("crates/rio/src/map.rs", "unsafe { a() }"),
            file("crates/log/src/tail.rs", "// unsafe\n#![forbid(unsafe_code)]"),
            file("crates/log/src/lsn.rs", "\nunsafe fn b() {}"),
        ];
        let complaints = strayed(&files);
        assert_eq!(complaints.len(), 1);
        assert!(complaints[0].starts_with("crates/log/src/lsn.rs:2"));
    }

    #[test]
    fn a_crate_without_unsafe_must_forbid_it() {
        let packages = [package("crates/txn"), package("crates/rio"), package("crates/lock")];
        let files = [
            file("crates/txn/src/lib.rs", "//! Txn.\n"),
            file("crates/rio/src/lib.rs", "//! Rio.\n"),
            file("crates/lock/src/lib.rs", "//! Lock.\n#![forbid(unsafe_code)]\n"),
        ];
        let complaints = not_forbidden(&files, &packages);
        assert_eq!(complaints.len(), 1);
        assert!(complaints[0].starts_with("crates/txn/src/lib.rs"));
    }
}

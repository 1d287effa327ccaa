//! Does `--check` report the SQLite of a program?
#![allow(clippy::unwrap_used)] // The whole file is tests.

mod tp_sql;

use std::path::Path;
use std::process::Command;

use tempfile::tempdir;
use tp_sql::{command, run, sql};

/// Returns the file of Python's SQLite module, which is linked to the system's SQLite. If there is no such file, prints
/// a message and returns `None`, or fails in CI.
fn module_of_python() -> Option<String> {
    let outcome = Command::new("/usr/bin/python3").args(["-c", "import _sqlite3; print(_sqlite3.__file__)"]).output();
    let file =
        outcome.ok().and_then(|outcome| String::from_utf8(outcome.stdout).ok()).map(|file| file.trim().to_owned());
    let found = file.filter(|file| Path::new(file).is_file());
    if found.is_none() {
        let missing = "there is no /usr/bin/python3 with an SQLite module (Debian: python3)";
        assert!(std::env::var("CI").as_deref() != Ok("true"), "{missing}");
        println!("skipped: {missing}");
    }
    found
}

#[test]
fn check_reports_which_sqlite_a_program_has() {
    let home = tempdir().unwrap();
    let itself = sql(home.path(), &["--check", env!("CARGO_BIN_EXE_tp-sql")]).text();
    assert!(itself.contains("has SQLite on libtp") && itself.contains("in its own file"), "{itself}");
    let nothing = sql(home.path(), &["--check", "/bin/sh"]);
    assert_eq!(nothing.code, Some(1));
    assert!(String::from_utf8(nothing.out).unwrap().contains("has no SQLite"));
    std::fs::write(home.path().join("script"), "#!/usr/bin/env sh\n").unwrap();
    assert_eq!(sql(home.path(), &["--check", "script"]).code, Some(1));
    assert!(sql(home.path(), &["--check", "no-such-program"]).refused(1).contains("no-such-program"));
    let Some(module) = module_of_python() else { return };
    for program in [module.as_str(), "/usr/bin/python3", Path::new(&module).parent().unwrap().to_str().unwrap()] {
        let outcome = sql(home.path(), &["--check", program]);
        let text = String::from_utf8(outcome.out).unwrap();
        assert!(
            outcome.code == Some(1) && text.contains("has the SQLite of 20") && text.contains("LD_LIBRARY_PATH="),
            "{text}"
        );
        // Cargo builds the library into the directory of this test.
        let library = std::env::current_exe().unwrap().with_file_name("liblibtp_sqlite.so");
        std::fs::copy(library, home.path().join("libsqlite3.so.0")).unwrap();
        let mut check = command(home.path(), &["--check", program]);
        check.env("LD_LIBRARY_PATH", home.path());
        let text = run(check, b"").text();
        assert!(text.contains("has SQLite on libtp") && text.contains("dynamically linked"), "{text}");
    }
}

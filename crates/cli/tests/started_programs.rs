//! `tp bench` and `tp sql`: start `tp-bench` and `tp-sql`. If the program is not installed, the error names the remedy.
#![allow(clippy::unwrap_used)] // The whole file is tests.

mod tp;

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::tempdir;
use tp::{run, tp_words, Finished};

/// A program that prints its name and its words, and ends with code 3.
const STAND_IN: &str = "#!/bin/sh\necho \"$0 $*\"\nexit 3\n";

/// Puts a stand-in for a program into a directory.
fn stand_in(directory: &Path, program: &str) -> PathBuf {
    let program = directory.join(program);
    std::fs::write(&program, STAND_IN).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    program
}

#[test]
fn a_program_in_the_directory_of_tp_is_preferred_to_a_program_in_path_and_gets_all_words() {
    for (verb, program) in [("bench", "tp-bench"), ("sql", "tp-sql")] {
        let (home, elsewhere) = (tempdir().unwrap(), tempdir().unwrap());
        let tp = home.path().join("tp");
        std::fs::copy(env!("CARGO_BIN_EXE_tp"), &tp).unwrap();
        let start = |words: &[&str]| -> Finished {
            let mut command = Command::new(&tp);
            let path = std::env::join_paths([elsewhere.path(), Path::new("/usr/bin"), Path::new("/bin")]).unwrap();
            command.args(words).env("PATH", path);
            run(command, b"")
        };
        let missing = start(&[verb, "one"]);
        assert!(missing.refused(1).contains(program) && missing.err.contains("cargo xtask install"), "{}", missing.err);
        let in_path = stand_in(elsewhere.path(), program);
        let said = start(&[verb, "one", "--seconds", "1", "--help", "-x"]);
        assert_eq!(said.code, Some(3), "{}", said.err);
        assert_eq!(String::from_utf8(said.out).unwrap(), format!("{} one --seconds 1 --help -x\n", in_path.display()));
        let beside = stand_in(home.path(), program);
        let said = start(&["--json", verb, "two"]);
        assert_eq!(String::from_utf8(said.out).unwrap(), format!("{} --json two\n", beside.display()));
    }
}

#[test]
fn the_help_names_each_verb_and_its_program() {
    let help = tp_words(&["--help"], b"").text();
    for (verb, program) in [("bench", "tp-bench"), ("sql", "tp-sql")] {
        assert!(help.contains(&format!("\n  {verb} ")) && help.contains(program), "{help}");
        assert!(tp_words(&["help", verb], b"").text().contains(program));
    }
}

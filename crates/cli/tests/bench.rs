//! `tp bench`: starts `tp-bench`. If `tp-bench` is not installed, the error names the remedy.
#![allow(clippy::unwrap_used)] // The whole file is tests.

mod tp;

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::tempdir;
use tp::{run, tp_words, Said};

/// A program that prints its name and its words, and ends with code 3.
const STAND_IN: &str = "#!/bin/sh\necho \"$0 $*\"\nexit 3\n";

/// Puts the stand-in for `tp-bench` into a directory.
fn stand_in(directory: &Path) -> PathBuf {
    let program = directory.join("tp-bench");
    std::fs::write(&program, STAND_IN).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    program
}

#[test]
fn the_program_beside_this_one_comes_before_one_in_path_and_gets_all_words() {
    let (home, elsewhere) = (tempdir().unwrap(), tempdir().unwrap());
    let tp = home.path().join("tp");
    std::fs::copy(env!("CARGO_BIN_EXE_tp"), &tp).unwrap();
    let bench = |words: &[&str]| -> Said {
        let mut command = Command::new(&tp);
        let path = std::env::join_paths([elsewhere.path(), Path::new("/usr/bin"), Path::new("/bin")]).unwrap();
        command.args(words).env("PATH", path);
        run(command, b"")
    };
    let missing = bench(&["bench", "tpcb"]);
    assert!(missing.refused(1).contains("tp-bench") && missing.err.contains("cargo xtask install"), "{}", missing.err);
    let in_path = stand_in(elsewhere.path());
    let words = ["bench", "tpcb", "--seconds", "1", "--help", "-x"];
    let said = bench(&words);
    assert_eq!(said.code, Some(3), "{}", said.err);
    assert_eq!(String::from_utf8(said.out).unwrap(), format!("{} tpcb --seconds 1 --help -x\n", in_path.display()));
    let beside = stand_in(home.path());
    let said = bench(&["--json", "bench", "paper"]);
    assert_eq!(String::from_utf8(said.out).unwrap(), format!("{} --json paper\n", beside.display()));
}

#[test]
fn the_help_names_the_verb_and_its_program() {
    let help = tp_words(&["--help"], b"").text();
    assert!(help.contains("\n  bench ") && help.contains("tp-bench"), "{help}");
    assert!(tp_words(&["help", "bench"], b"").text().contains("tp-bench"));
}

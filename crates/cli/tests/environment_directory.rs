//! The directory of a command's environment: the value of `--env`, else of `TP_ENV`, else the current directory. Also
//! tests the short options `-e` and `-j`.
#![allow(clippy::unwrap_used)] // The whole file is tests.

mod tp;

use std::ffi::OsStr;
use std::path::Path;

use tempfile::{tempdir, TempDir};
use tp::{tp, tp_in};

/// Makes an environment in which its own name is stored as a record.
fn environment(name: &str) -> TempDir {
    let directory = tempdir().unwrap();
    tp("put", directory.path(), &["names", "own", name]).text();
    directory
}

fn files(directory: &Path) -> usize {
    std::fs::read_dir(directory).unwrap().count()
}

#[test]
fn the_option_comes_before_the_variable_and_the_variable_before_the_current_directory() {
    let (option, variable, current) = (environment("option"), environment("variable"), environment("current"));
    let named = Some(variable.path().as_os_str());
    let get = ["get", "names", "own"].map(OsStr::new);
    let with_option = [&get[..], &[OsStr::new("-e"), option.path().as_os_str()]].concat();
    assert_eq!(tp_in(current.path(), named, &with_option).text(), "option\n");
    assert_eq!(tp_in(current.path(), named, &get).text(), "variable\n");
    assert_eq!(tp_in(current.path(), None, &get).text(), "current\n");
    assert_eq!(tp_in(current.path(), Some(OsStr::new("")), &get).text(), "current\n", "an empty variable is ignored");
}

#[test]
fn every_verb_of_an_environment_takes_the_current_directory() {
    let current = environment("current");
    let parent = tempdir().unwrap();
    let backup = parent.path().join("backup");
    let backup = backup.to_str().unwrap();
    for words in [
        &["list"][..],
        &["stat"],
        &["sessions"],
        &["locks"],
        &["locks", "--wait-for"],
        &["txns"],
        &["snapshots"],
        &["files"],
        &["deadlock"],
        &["printlog"],
        &["checkpoint"],
        &["recover"],
        &["archive"],
        &["upgrade"],
        &["verify"],
        &["scan", "names"],
        &["dump", "names"],
        &["shell"],
        &["compact"],
        &["put", "names", "other", "1"],
        &["del", "names", "other"],
        &["backup", backup],
        &["backup", backup, "--check"],
    ] {
        let said = tp_in(current.path(), None, &[words, &["-j"]].concat());
        assert_eq!(said.code, Some(0), "{words:?}: {}", said.err);
        assert!(said.json().iter().all(serde_json::Value::is_object), "{words:?}");
    }
}

#[test]
fn without_an_environment_nothing_is_made_and_the_remedies_are_named() {
    let parent = tempdir().unwrap();
    let directory = parent.path().join("plain");
    std::fs::create_dir(&directory).unwrap();
    let dump = parent.path().join("dump");
    std::fs::write(&dump, "VERSION=3\nformat=print\ntype=btree\nHEADER=END\n k\n v\nDATA=END\n").unwrap();
    let dump = dump.to_str().unwrap();
    for words in [
        &["get", "db", "key"][..],
        &["put", "db", "key", "value"],
        &["load", "db", dump],
        &["shell"],
        &["salvage", dump, "db"],
        &["stat"],
        &["locks"],
        &["sessions"],
        &["upgrade"],
        &["backup", "copy"],
    ] {
        let said = tp_in(&directory, None, words);
        for remedy in ["--env DIR", "TP_ENV", "change to its directory"] {
            assert!(said.refused(2).contains(remedy), "{words:?}: {}", said.err);
        }
        assert_eq!(files(&directory), 0, "{words:?} made a file");
    }
    let said = tp_in(&directory, None, &["restore", "copy"]);
    assert!(said.refused(2).contains("--env DIR") && said.err.contains("TP_ENV"), "{}", said.err);
    let json = tp_in(&directory, None, &["get", "db", "key", "-j"]).json();
    assert!(json[0]["error"].as_str().unwrap().contains("TP_ENV"), "{json:?}");
}

#[test]
fn an_environment_is_made_where_the_variable_names_it_and_not_in_the_current_directory() {
    let parent = tempdir().unwrap();
    let made = parent.path().join("made");
    let named = Some(made.as_os_str());
    let elsewhere = tempdir().unwrap();
    tp_in(elsewhere.path(), named, &["put", "db", "key", "value"]).text();
    assert_eq!(tp_in(elsewhere.path(), named, &["get", "db", "key"]).text(), "value\n");
    let (backup, restored) = (parent.path().join("backup"), parent.path().join("restored"));
    tp_in(elsewhere.path(), named, &["backup", backup.to_str().unwrap()]).text();
    let restore = ["restore", backup.to_str().unwrap()];
    tp_in(elsewhere.path(), Some(restored.as_os_str()), &restore).text();
    assert_eq!(tp("get", &restored, &["db", "key"]).text(), "value\n");
    assert_eq!(files(elsewhere.path()), 0);

    // An empty control file is the beginning of an environment. Only a named directory may become an environment.
    std::fs::write(elsewhere.path().join("control"), "").unwrap();
    let said = tp_in(elsewhere.path(), None, &["put", "db", "key", "value"]);
    assert!(said.refused(1).contains("not an environment"), "{}", said.err);
    assert_eq!(files(elsewhere.path()), 1);
}

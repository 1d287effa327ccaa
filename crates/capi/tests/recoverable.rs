//! Runs programs in C with `vista.h`. Some of the programs end in the middle of a transaction.
#![allow(clippy::unwrap_used)]

mod c;

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Output};

use c::{compiled, workshop, Link};

fn run(program: &Path, file: &Path, what: &[&str]) -> Output {
    Command::new(program).arg(file).args(what).output().unwrap()
}

fn run_under_valgrind(program: &Path, file: &Path, what: &[&str]) -> Output {
    let ends_with_open_segment = program.ends_with("vista_fork") || what.contains(&"die");
    let leaks = if ends_with_open_segment { c::Leaks::Unsought } else { c::Leaks::Errors };
    c::valgrind(program, &[&[file.to_str().unwrap()], what].concat(), leaks).output().unwrap()
}

#[test]
fn a_program_in_c_keeps_exactly_its_ended_transactions() {
    let workshop = workshop();
    let program = compiled("examples/list.c", workshop.path(), Link::Static);
    let file = workshop.path().join("segment");
    keeps_what_it_ended(&program, &file, run);
    std::fs::remove_file(&file).unwrap();
    keeps_what_it_ended(&program, &file, run_under_valgrind);
}

/// Runs the program's commands on a file that does not exist yet.
fn keeps_what_it_ended(program: &Path, file: &Path, run: impl Fn(&Path, &Path, &[&str]) -> Output) {
    let says = |what: &[&str]| {
        let output = run(program, file, what);
        assert!(output.status.success(), "{what:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(says(&["show"]), "0 of 0, sum 0\n");
    assert_eq!(says(&["add", "3"]), "3 of 3, sum 6\n");
    assert_eq!(says(&["undo"]), "3 of 3, sum 6\n");
    assert_eq!(run(program, file, &["die", "2"]).status.code(), Some(9));
    assert_eq!(says(&["show"]), "4 of 4, sum 10\n", "the first of the two transactions is kept, the second is undone");
    assert_eq!(says(&["drop"]), "3 of 3, sum 6\n");
    let refused = says(&["wrong"]);
    for part in [
        "vista_set_range: no transaction is running",
        "vista_end_transaction: no transaction is running",
        "a transaction is running",
        "the 4 bytes at",
        "the 4097 bytes at 0",
        "no allocated memory begins at",
        "NULL was given for a segment of vista.h",
        "is not a handle of this library",
        "a segment of vista.h was given that was ended or closed before",
        "3 of 3, sum 6",
    ] {
        assert!(refused.contains(part), "{part:?} is missing in:\n{refused}");
    }
}

/// This test does not run under valgrind, which takes a minute to guard all addresses into which a segment can grow.
#[test]
fn under_vista_map_guarded_a_store_to_undeclared_memory_ends_the_process() {
    let workshop = workshop();
    let program = compiled("examples/list.c", workshop.path(), Link::Shared);
    let file = workshop.path().join("segment");
    assert!(run(&program, &file, &["add", "3"]).status.success());
    let stopped = run(&program, &file, &["wild"]);
    let told = String::from_utf8(stopped.stderr).unwrap();
    assert_eq!(stopped.status.signal(), Some(11), "a fault: {told}");
    assert_eq!(String::from_utf8(stopped.stdout).unwrap(), "4 of 4, sum 10\n", "a store to a declared range succeeds");
    assert!(told.contains("was stopped by the guard") && told.contains(file.to_str().unwrap()), "{told}");
    let shown = run(&program, &file, &["show"]);
    assert_eq!(String::from_utf8(shown.stdout).unwrap(), "4 of 4, sum 10\n", "the wild store has no effect");
}

/// Runs valgrind without suppressions, as the tests of a user's program do.
#[test]
fn valgrind_finds_nothing_in_a_program_that_closes_its_environment() {
    if !c::is_installed("valgrind", "valgrind") {
        return;
    }
    let workshop = workshop();
    let program = compiled("tests/c/closed.c", workshop.path(), Link::Shared);
    for round in ["made", "opened again"] {
        let output = Command::new("valgrind")
            .args(["--quiet", "--error-exitcode=99", "--leak-check=full"])
            .args([&program, &workshop.path().join("env")])
            .output()
            .unwrap();
        assert!(output.status.success(), "{round}: {}", c::told(&output));
    }
}

#[test]
fn a_segment_that_another_process_has_mapped_is_refused_with_an_error() {
    let workshop = workshop();
    let program = compiled("examples/list.c", workshop.path(), Link::Shared);
    let file = workshop.path().join("segment");
    let segment = vista::Segment::open(&file, 4096).unwrap();
    let refused = run(&program, &file, &["show"]);
    assert_eq!(refused.status.code(), Some(1));
    let told = String::from_utf8(refused.stderr).unwrap();
    assert!(told.contains("is open in another process"), "{told}");
    drop(segment);
    assert!(run(&program, &file, &["show"]).status.success());
}

#[test]
fn the_calls_of_a_child_fail_in_its_parents_transaction_and_do_not_disturb_it() {
    let workshop = workshop();
    let program = compiled("tests/c/vista_fork.c", workshop.path(), Link::Shared);
    let file = workshop.path().join("segment");
    let rounds = ["0 and 0", "0 and 0", "1 and 1", "1 and 1"];
    let expected = rounds.map(|has| format!("the child ended with 0\nthe parent has {has}\n")).concat();
    for run in [run, run_under_valgrind] {
        let output = run(&program, &file, &[]);
        assert!(output.status.success(), "{}", c::told(&output));
        assert_eq!(String::from_utf8(output.stdout).unwrap(), expected);
        std::fs::remove_file(&file).unwrap();
    }
}

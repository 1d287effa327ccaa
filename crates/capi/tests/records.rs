//! Programs in C with `libtp.h`: the examples, what must not be done, threads and forks, as they are and under valgrind.
#![allow(clippy::unwrap_used)]

mod c;

use std::process::{Command, Stdio};
use std::time::Duration;

use c::{compiled, says, says_under_valgrind, told, workshop, Link};

/// A program, what it is told besides the environment's directory, and what it prints, line by line. The first letters of a
/// line are enough where it goes on with what is not the same each time.
const PROGRAMS: &[(&str, &[&str], &[&str])] = &[
    (
        "examples/words.c",
        &[],
        &[
            "keys of up to 2048 bytes",
            "plum: zwetschge, 9 bytes",
            "pear: there is no such record, or none further on",
            "fig: the key is there already; nothing was changed",
            "first: apple APFEL",
            "next: fig FEIGE",
            "next: plum zwetschge",
            "last: plum zwetschge",
            "prev: fig FEIGE",
            "prev: apple APFEL",
            "from b on: fig",
        ],
    ),
    (
        "examples/records.c",
        &[],
        &[
            "records of 8 bytes",
            "the last is 5",
            "get: 3 wed....",
            "5: there is no such record, or none further on",
            "long: a record of 5 bytes: this database takes records of 8 bytes",
            "first: 1 monday.",
            "next: 2 tuesday",
            "next: 3 midweek",
            "next: 4 thursd.",
            "last: 4 thursd.",
            "prev: 3 midweek",
            "seek: 2 tuesday",
        ],
    ),
    (
        "examples/parts.c",
        &[],
        &[
            "in the part: apples 2",
            "taken back: apples 3",
            "taken back: pears there is no such record, or none further on",
            "before: apples there is no such record, or none further on",
            "after: apples 3",
            "after: figs 2",
        ],
    ),
    (
        "examples/look.c",
        &[],
        &["libtp.h 0.1.0, the library 0.1.0", "database pages", "opened {\"how\":\"created\",", "stat {\"directory\":"],
    ),
    ("tests/c/misuse.c", &[], &["0 wrong"]),
    ("tests/c/threads.c", &[], &["counted 800 of 800", "6 of 6 refused, here: there is no such record", "handed on"]),
    ("tests/c/fork.c", &["handles"], &["the child ended with 0", "parent: goes on", "child: its own"]),
    ("tests/c/fork.c", &["killed"], &["the child was ended by signal 9", "shared: by the parent"]),
];

#[test]
fn programs_in_c_do_what_they_are_told_and_valgrind_finds_nothing() {
    let workshop = workshop();
    for (source, arguments, expected) in PROGRAMS {
        let program = compiled(source, workshop.path(), Link::Shared);
        for run in [says, says_under_valgrind] {
            let home = tempfile::tempdir().unwrap();
            let directory = home.path().join("environment");
            let mut all = vec![directory.to_str().unwrap()];
            all.extend(*arguments);
            let said = run(&program, &all);
            let agrees = said.lines().zip(*expected).all(|(line, expected)| line.starts_with(expected));
            assert!(agrees && said.lines().count() == expected.len(), "{source}:\n{said}");
        }
    }
}

#[test]
fn an_environment_that_is_not_there_is_not_made_where_that_was_asked() {
    let workshop = workshop();
    let program = compiled("examples/look.c", workshop.path(), Link::Shared);
    let nowhere = workshop.path().join("nowhere");
    let refused = Command::new(program).arg("-n").arg(&nowhere).output().unwrap();
    assert_eq!(refused.status.code(), Some(1), "{}", told(&refused));
    assert!(
        told(&refused).contains("(the directory is no environment, or cannot be opened here)"),
        "{}",
        told(&refused)
    );
    assert!(!nowhere.exists());
}

#[test]
fn a_bank_in_c_keeps_its_money_through_deaths() {
    let workshop = workshop();
    for link in [Link::Static, Link::Shared] {
        let program = compiled("examples/bank.c", workshop.path(), link);
        let home = tempfile::tempdir().unwrap();
        let bank = home.path().join("bank");
        let bank = bank.to_str().unwrap();
        says(&program, &[bank, "open", "20"]);
        assert_eq!(says(&program, &[bank, "audit"]), "20 accounts, sum 2000, no transfers\n");
        says_under_valgrind(&program, &[bank, "transfer", "20"]);
        let died = Command::new(&program).args([bank, "die", "5"]).output().unwrap();
        assert_eq!(died.status.code(), Some(9), "{}", told(&died));
        assert_eq!(says(&program, &[bank, "audit"]), "20 accounts, sum 2000, with a history\n");
        assert_eq!(says(&program, &[bank, "show"]).lines().count(), 21);
        let twice = Command::new(&program).args([bank, "open", "20"]).output().unwrap();
        assert!(told(&twice).contains("open: the key is there already"), "{}", told(&twice));
    }
}

/// Two processes at work in one environment: one is killed, and the other, which shares its records, goes on to its end.
#[test]
fn of_two_programs_in_c_one_is_killed_and_the_other_goes_on() {
    let workshop = workshop();
    let program = compiled("examples/bank.c", workshop.path(), Link::Shared);
    let bank = workshop.path().join("accounts");
    let bank = bank.to_str().unwrap();
    says(&program, &[bank, "open", "4"]);
    for round in 0..5 {
        let transfers = |count: &str| {
            let mut command = Command::new(&program);
            command.args([bank, "transfer", count]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        };
        let mut victim = transfers("100000000");
        let survivor = transfers("20000");
        std::thread::sleep(Duration::from_millis(50 + 37 * round));
        victim.kill().unwrap();
        victim.wait().unwrap();
        let ended = survivor.wait_with_output().unwrap();
        assert!(ended.status.success(), "round {round}: {}", told(&ended));
        assert_eq!(says(&program, &[bank, "audit"]), "4 accounts, sum 400, with a history\n", "round {round}");
    }
}

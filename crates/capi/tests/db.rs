//! Programs in C with `db.h`: what the manual pages of db(3) say, in plain mode and in shared mode, by one process and several.
#![allow(clippy::unwrap_used)]

mod c;

use std::process::{Command, Stdio};
use std::time::Duration;

use c::{compiled, says, says_under_valgrind, told, workshop, Link};

#[test]
fn what_the_manual_of_db_says_is_so_in_every_mode_and_valgrind_finds_nothing() {
    let workshop = workshop();
    let program = compiled("tests/c/db3.c", workshop.path(), Link::Shared);
    for mode in ["memory", "plain", "lock", "txn", "within"] {
        for run in [says, says_under_valgrind] {
            let home = tempfile::tempdir().unwrap();
            let directory = home.path().join("files");
            assert_eq!(run(&program, &[directory.to_str().unwrap(), mode]), "0 wrong\n", "{mode}");
        }
    }
}

/// `DB_LOCK | DB_SHMEM`, as a number.
const LOCK_AND_SHMEM: &str = "1610612736";

#[test]
fn a_telephone_book_is_kept_in_two_files_at_once() {
    let workshop = workshop();
    let program = compiled("examples/phones.c", workshop.path(), Link::Shared);
    let expected = "the number 34 again: 1\nada 12\nada 56\nbob 34\norders: -1 1 -1\n";
    for run in [says, says_under_valgrind] {
        let home = tempfile::tempdir().unwrap();
        assert_eq!(run(&program, &[home.path().join("book").to_str().unwrap()]), expected);
    }
}

#[test]
fn processes_with_one_shared_file_see_each_other_at_once() {
    let workshop = workshop();
    let program = compiled("tests/c/db3_many.c", workshop.path(), Link::Shared);
    let home = tempfile::tempdir().unwrap();
    assert_eq!(says(&program, &[home.path().to_str().unwrap(), "shared", LOCK_AND_SHMEM, "500"]), "1000\n");
}

#[test]
fn a_shared_file_does_not_go_through_a_fork_and_is_opened_anew() {
    let workshop = workshop();
    let program = compiled("tests/c/db3_many.c", workshop.path(), Link::Shared);
    let home = tempfile::tempdir().unwrap();
    assert_eq!(says(&program, &[home.path().to_str().unwrap(), "forked"]), "3\n");
}

#[test]
fn processes_take_turns_with_a_plain_file() {
    let workshop = workshop();
    let program = compiled("tests/c/db3_many.c", workshop.path(), Link::Shared);
    let home = tempfile::tempdir().unwrap();
    assert_eq!(says(&program, &[home.path().to_str().unwrap(), "turns", "50"]), "200\n");
}

/// Transactions of several processes over two files; one process after the other is killed in the middle.
#[test]
fn processes_move_money_between_files_and_one_is_killed() {
    let workshop = workshop();
    let program = compiled("tests/c/db3_many.c", workshop.path(), Link::Shared);
    let bank = workshop.path().join("bank");
    let bank = bank.to_str().unwrap();
    says(&program, &[bank, "open", "4"]);
    let mut least = 0;
    for round in 0..4 {
        let transfers = |seed: &str, count: &str| {
            let mut command = Command::new(&program);
            command.args([bank, "transfers", seed, count]);
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        };
        let mut victim = transfers("1", "0");
        let survivors = [transfers("2", "300"), transfers("3", "300")];
        std::thread::sleep(Duration::from_millis(60 + 41 * round));
        victim.kill().unwrap();
        victim.wait().unwrap();
        for survivor in survivors {
            let ended = survivor.wait_with_output().unwrap();
            assert!(ended.status.success(), "round {round}: {}", told(&ended));
        }
        least += 600;
        let said = says(&program, &[bank, "audit"]);
        let entries: u64 = said
            .trim()
            .strip_prefix("4 accounts, sum 400, ")
            .unwrap_or_else(|| panic!("{said}"))
            .strip_suffix(" entries")
            .unwrap()
            .parse()
            .unwrap();
        assert!(entries >= least, "round {round}: {said}");
    }
}

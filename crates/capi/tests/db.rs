//! Runs programs in C with `db.h`. The programs check the behaviour that the manual pages of db(3) describe, in plain
//! mode and in shared mode, with one process and with several processes.
#![allow(clippy::unwrap_used)]

mod c;

use std::io::BufRead;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use c::{
    compiled, compiled_together, is_deep, is_turn_of, plainly, say_together_under_valgrind, says, says_under_valgrind,
    told, under_valgrind, workshop, Link,
};

#[test]
fn the_calls_of_db_agree_with_the_manual_in_every_mode_and_valgrind_finds_nothing() {
    let workshop = workshop();
    let home = tempfile::tempdir().unwrap();
    let at = |mode: &str| home.path().join(mode).display().to_string();
    // The shared modes take ten times as long as the other modes, so they run under valgrind only on one of six days.
    let modes = [("memory", 0, 1), ("plain", 0, 1), ("lock", 0, 6), ("txn", 2, 6), ("within", 4, 6)];
    let (under_valgrind, others): (Vec<_>, Vec<_>) =
        modes.into_iter().partition(|&(_, number, of)| is_turn_of(number, of));
    // All modes run in one process, because valgrind takes seconds to start and to translate the library.
    let program = compiled_together(&["tests/c/db3.c"], workshop.path());
    let arguments = under_valgrind.iter().map(|(mode, ..)| vec!["db3".into(), at(mode), (*mode).to_owned()]);
    let outputs = say_together_under_valgrind(&program, &arguments.collect::<Vec<_>>());
    assert_eq!(outputs, vec!["0 wrong\n"; under_valgrind.len()]);
    let program = compiled("tests/c/db3.c", workshop.path(), Link::Shared);
    let directly = others.into_iter().chain(under_valgrind.into_iter().filter(|_| is_deep()));
    for (number, (mode, ..)) in directly.enumerate() {
        assert_eq!(says(&program, &[&at(&format!("directly-{number}")), mode]), "0 wrong\n", "{mode}");
    }
}

#[test]
fn the_calls_of_db_agree_with_the_manual_for_several_processes_in_one_environment() {
    let workshop = workshop();
    let program = compiled("tests/c/db3.c", workshop.path(), Link::Shared);
    let home = tempfile::tempdir().unwrap();
    let directory = home.path().join("files");
    let begun = ["lock", "txn", "within", "within", "plain"].iter().enumerate().map(|(number, mode)| {
        let mut command = Command::new(&program);
        command.arg(&directory).arg(mode).arg(format!("{number}-"));
        (mode, command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
    });
    for (mode, process) in begun.collect::<Vec<_>>() {
        let ended = process.wait_with_output().unwrap();
        assert!(ended.status.success() && ended.stdout == b"0 wrong\n", "{mode}: {}", told(&ended));
    }
}

/// Several processes move records of one file. Another process writes through a cursor to a record that the moves
/// renumber all the time. In each round one process is killed in the middle of its work.
#[test]
fn processes_renumber_the_records_of_one_file_and_one_is_killed() {
    const CARDS: usize = 400;
    let workshop = workshop();
    let program = compiled("tests/c/db3_records.c", workshop.path(), Link::Shared);
    let table = workshop.path().join("table");
    let table = table.to_str().unwrap();
    says(&program, &[table, "open", &CARDS.to_string()]);
    for round in 0..3 {
        let begin = |what: &str, prefix: &str, count: &str| {
            let mut command = Command::new(&program);
            command.args([table, what, &format!("{prefix}{round}"), count]);
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        };
        let mut victim = begin("moves", "victim", "0");
        let survivors = [begin("moves", "one", "150"), begin("moves", "two", "150"), begin("marks", "cursor", "150")];
        std::thread::sleep(Duration::from_millis(60 + 41 * round));
        victim.kill().unwrap();
        victim.wait().unwrap();
        for survivor in survivors {
            let ended = survivor.wait_with_output().unwrap();
            assert!(ended.status.success(), "round {round}: {}", told(&ended));
        }
        let message = says(&program, &[table, "audit"]);
        let marks = round + 1;
        let expected = format!("{CARDS} cards, sum {}, {marks} marks, ", CARDS * (CARDS - 1) / 2);
        assert!(message.starts_with(&expected) && message.lines().count() == 1, "round {round}: {message}");
        // The text file agrees with the list: each mark has the number that was last written for it.
        let text = std::fs::read_to_string(workshop.path().join("table/cards")).unwrap();
        let marked = text.lines().filter(|line| line.starts_with("mark") && line.ends_with(" 150")).count() as u64;
        assert_eq!((text.lines().count() as u64, marked), (CARDS as u64 + marks, marks), "round {round}");
    }
}

/// Runs all programs with several processes, with smaller counts than the other tests. On one of six days each process
/// runs under valgrind.
#[test]
fn valgrind_finds_nothing_in_processes_that_share_files() {
    let workshop = workshop();
    let many = compiled("tests/c/db3_many.c", workshop.path(), Link::Shared);
    let records = compiled("tests/c/db3_records.c", workshop.path(), Link::Shared);
    let home = tempfile::tempdir().unwrap();
    let at = |name: &str| home.path().join(name).display().to_string();
    let is_its_turn = is_turn_of(1, 6);
    let says = if is_its_turn { says_under_valgrind } else { says };
    let command = if is_its_turn { under_valgrind } else { plainly };
    assert_eq!(says(&many, &[&at("shared"), "shared", LOCK_AND_SHMEM, "5"]), "10\n");
    assert_eq!(says(&many, &[&at("forked"), "forked"]), "3\n");
    assert_eq!(says(&many, &[&at("turns"), "turns", "2"]), "8\n");
    says(&many, &[&at("bank"), "open", "4"]);
    says(&records, &[&at("table"), "open", "30"]);
    // Two processes of each kind run at the same time.
    let both = |program: &Path, one: &[&str], two: &[&str]| {
        let begun = [one, two].map(|arguments| {
            let mut command = command(program, arguments);
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        });
        for process in begun {
            let ended = process.wait_with_output().unwrap();
            assert!(ended.status.success(), "{}", told(&ended));
        }
    };
    both(&many, &[&at("bank"), "transfers", "1", "10"], &[&at("bank"), "transfers", "2", "10"]);
    assert_eq!(says(&many, &[&at("bank"), "audit"]), "4 accounts, sum 400, 20 entries\n");
    both(&records, &[&at("table"), "moves", "one", "10"], &[&at("table"), "marks", "two", "10"]);
    assert_eq!(says(&records, &[&at("table"), "audit"]), "30 cards, sum 435, 1 marks, 10 lines\n");
}

/// Runs the cases of 4.4BSD's and NetBSD's own tests of db(3). `db3_lists.c` names each case, and lists the cases with
/// other answers here.
#[test]
fn the_test_lists_of_4_4bsd_and_netbsd_pass_in_each_mode() {
    let shared = [("within", "1"), ("txn", "1"), ("lock", "20")];
    let modes_of_today = (0..).zip(shared).filter(|&(number, _)| is_turn_of(number, 3)).map(|(_, mode)| mode);
    perform_lists(&[("plain", "1")].into_iter().chain(modes_of_today).collect::<Vec<_>>(), plainly);
}

#[test]
fn valgrind_finds_nothing_in_the_test_lists() {
    let turns = [("plain", 3), ("within", 3), ("txn", 5)];
    let modes = turns.into_iter().filter(|&(_, number)| is_turn_of(number, 6)).map(|(mode, _)| (mode, "40"));
    perform_lists(&modes.collect::<Vec<_>>(), under_valgrind);
}

/// Runs the test lists in several modes in parallel. The second value of each pair divides the counts of the large
/// tests.
fn perform_lists(modes: &[(&str, &str)], command: impl Fn(&Path, &[&str]) -> Command) {
    let workshop = workshop();
    let program = compiled("tests/c/db3_lists.c", workshop.path(), Link::Shared);
    let home = tempfile::tempdir().unwrap();
    let begun = modes.iter().map(|&(mode, share)| {
        let directory = home.path().join(mode);
        let mut command = command(&program, &[directory.to_str().unwrap(), mode, share]);
        (mode, command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
    });
    for (mode, process) in begun.collect::<Vec<_>>() {
        let ended = process.wait_with_output().unwrap();
        assert!(ended.status.success() && ended.stdout == b"0 wrong\n", "{mode}: {}", told(&ended));
    }
}

/// `DB_LOCK | DB_SHMEM`, as a number.
const LOCK_AND_SHMEM: &str = "1610612736";

/// Makes the calls of db(3) that the editor nvi makes. An editor opens its text only for reading. After the editor is
/// killed, its synced lines are recovered from the file of `bfname`.
#[test]
fn the_lines_that_a_killed_editor_has_synced_are_recovered() {
    let workshop = workshop();
    let program = compiled("tests/c/editor.c", workshop.path(), Link::Shared);
    let home = tempfile::tempdir().unwrap();
    let (text, kept) = (home.path().join("text"), home.path().join("kept"));
    let mut lines: Vec<String> = (1..=1000).map(|number| format!("line {number}")).collect();
    let before = lines.join("\n") + "\n";
    std::fs::write(&text, &before).unwrap();
    // An editor makes this empty file with mkstemp.
    std::fs::write(&kept, "").unwrap();
    let arguments = |what| [what, text.to_str().unwrap(), kept.to_str().unwrap()].map(str::to_owned);
    let mut editor = Command::new(&program).args(arguments("edit")).stdout(Stdio::piped()).spawn().unwrap();
    let mut message = String::new();
    std::io::BufReader::new(editor.stdout.take().unwrap()).read_line(&mut message).unwrap();
    editor.kill().unwrap();
    editor.wait().unwrap();
    assert_eq!((message.as_str(), std::fs::read_to_string(&text).unwrap()), ("safe\n", before));
    says(&program, &arguments("recover").each_ref().map(String::as_str));
    (1..=100).for_each(|number| lines.insert(number * 2 - 1, "inserted".to_owned()));
    lines[0] = "the first line".to_owned();
    lines.insert(0, "a line before all".to_owned());
    lines.push("the end".to_owned());
    lines.drain(4..7);
    let recovered = std::fs::read_to_string(&text).unwrap();
    assert_eq!(recovered.lines().collect::<Vec<_>>(), lines);
}

#[test]
fn a_telephone_book_in_two_files_is_changed_in_transactions() {
    let workshop = workshop();
    let program = compiled("examples/phones.c", workshop.path(), Link::Shared);
    let expected = "the number 34 again: 1\nada 12\nada 56\nbob 34\norders: -1 1 -1\n";
    for run in [says, says_under_valgrind] {
        let home = tempfile::tempdir().unwrap();
        assert_eq!(run(&program, &[home.path().join("book").to_str().unwrap()]), expected);
    }
}

#[test]
fn a_comparison_function_of_the_program_orders_plain_files_and_shared_files() {
    let workshop = workshop();
    let program = compiled("examples/numbers.c", workshop.path(), Link::Shared);
    for run in [says, says_under_valgrind] {
        for mode in [&[][..], &["shared"]] {
            let home = tempfile::tempdir().unwrap();
            let directory = home.path().join("files").display().to_string();
            let message = run(&program, &[&[directory.as_str()], mode].concat());
            assert_eq!(message, "9 23 24 100 1000 from 99 on: 100\n", "{mode:?}");
        }
    }
}

#[test]
fn o_trunc_replaces_only_databases_that_it_may_replace() {
    let workshop = workshop();
    let program = compiled("tests/c/db3_anew.c", workshop.path(), Link::Shared);
    for what in ["refused", "bfname", "kinds", "others", "race"] {
        let home = tempfile::tempdir().unwrap();
        assert_eq!(says(&program, &[home.path().to_str().unwrap(), what]), "0 wrong\n", "{what}");
    }
}

/// If a process is killed while O_TRUNC replaces a database, the old database stays, and the next process with O_TRUNC
/// replaces it.
#[test]
fn a_death_during_o_trunc_leaves_the_old_database() {
    let workshop = workshop();
    let program = compiled("tests/c/db3_anew.c", workshop.path(), Link::Shared);
    for (place, left) in
        [("create: has a number", "the B-tree\n"), ("create: made, still locked", "the B-tree, and another\n")]
    {
        let home = tempfile::tempdir().unwrap();
        let directory = home.path().to_str().unwrap();
        std::fs::write(home.path().join("libtp.toml"), "[database.stock]\npage_bytes = \"64 KiB\"\n").unwrap();
        assert_eq!(says(&program, &[directory, "make"]), "0 wrong\n");
        let killed = plainly(&program, &[directory, "anew"]).env("LIBTP_FAILPOINT", place).output().unwrap();
        if killed.status.success() {
            // The library was built without failpoints, so the program was not killed.
            return;
        }
        assert_eq!(killed.status.signal(), Some(9), "{place}: {}", told(&killed));
        assert_eq!(says(&program, &[directory, "look"]), left, "{place}");
        assert_eq!(says(&program, &[directory, "anew"]), "0 wrong\n", "{place}");
        assert_eq!(says(&program, &[directory, "look"]), "the hash file\n", "{place}");
        // The new database has the page size of libtp.toml (its place in the header: docs/formats/file.md).
        let file = std::fs::read(home.path().join("stock.tp")).unwrap();
        assert_eq!(file[44..48], (64_u32 << 10).to_le_bytes(), "{place}");
    }
}

#[test]
fn processes_with_one_shared_file_see_each_others_changes_at_once() {
    let workshop = workshop();
    let program = compiled("tests/c/db3_many.c", workshop.path(), Link::Shared);
    let home = tempfile::tempdir().unwrap();
    assert_eq!(says(&program, &[home.path().to_str().unwrap(), "shared", LOCK_AND_SHMEM, "500"]), "1000\n");
}

#[test]
fn the_child_of_a_fork_cannot_use_a_shared_file_and_opens_it_again() {
    let workshop = workshop();
    let program = compiled("tests/c/db3_many.c", workshop.path(), Link::Shared);
    let home = tempfile::tempdir().unwrap();
    assert_eq!(says(&program, &[home.path().to_str().unwrap(), "forked"]), "3\n");
}

#[test]
fn no_file_of_the_library_gets_the_number_of_a_closed_standard_descriptor() {
    let workshop = workshop();
    let program = compiled("tests/c/standard.c", workshop.path(), Link::Shared);
    let home = tempfile::tempdir().unwrap();
    let ended = Command::new(&program).arg(home.path()).status().unwrap();
    assert_eq!(
        ended.code(),
        Some(0),
        "the exit status is the number of a failed step in crates/capi/tests/c/standard.c"
    );
}

#[test]
fn processes_take_turns_with_a_plain_file() {
    let workshop = workshop();
    let program = compiled("tests/c/db3_many.c", workshop.path(), Link::Shared);
    let home = tempfile::tempdir().unwrap();
    assert_eq!(says(&program, &[home.path().to_str().unwrap(), "turns", "50"]), "200\n");
}

/// Transactions of several processes change two files. In each round one process is killed in the middle of its work.
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
        let message = says(&program, &[bank, "audit"]);
        let entries: u64 = message
            .trim()
            .strip_prefix("4 accounts, sum 400, ")
            .unwrap_or_else(|| panic!("{message}"))
            .strip_suffix(" entries")
            .unwrap()
            .parse()
            .unwrap();
        assert!(entries >= least, "round {round}: {message}");
    }
}

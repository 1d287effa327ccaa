//! Runs programs in C with `libtp.h`: examples, misuse, threads and forks. Each program also runs under valgrind on some days.
//! The program with a guarded segment never runs under valgrind.
#![allow(clippy::unwrap_used)]

mod c;

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use c::{
    compiled, compiled_together, is_deep, is_turn_of, plainly, say_together_under_valgrind, says, says_under_valgrind,
    told, under_valgrind, workshop, Link, FOUND,
};

/// For each program: the arguments that follow the environment's directory, and the beginnings of the lines that it
/// prints. An argument that begins with @ is the name of a file next to that directory.
const PROGRAMS: &[Program] = &[
    (
        "examples/waits.c",
        &[],
        &[
            "the error names the record",
            "the program ended the wait for a lock with tp_cancel_waits; abort the transaction",
            "another transaction of this thread holds the lock; end that transaction first, or use one transaction",
        ],
    ),
    (
        "examples/words.c",
        &[],
        &[
            "keys of up to 2048 bytes",
            "plum: zwetschge, 9 bytes",
            "pear: there is no such record, or no further record",
            "fig: the key is there already; nothing was changed",
            "both: Zwetschge, no kiwi",
            "first: apple APFEL",
            "next: fig FEIGE",
            "next: plum Zwetschge",
            "last: plum Zwetschge",
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
            "5: there is no such record, or no further record",
            "long: a record of 5 bytes was given, and this database takes records of 8 bytes",
            "first: 1 monday.",
            "next: 2 tuesday",
            "next: 3 midweek",
            "next: 4 thursd!",
            "last: 4 thursd!",
            "prev: 3 midweek",
            "seek: 2 tuesday",
            "visits: 5",
        ],
    ),
    (
        "examples/parts.c",
        &[],
        &[
            "in the part: apples 2",
            "rolled back: apples 3",
            "rolled back: pears there is no such record, or no further record",
            "before: apples there is no such record, or no further record",
            "after: apples 3",
            "after: figs 2",
        ],
    ),
    (
        "examples/look.c",
        &[],
        &["libtp.h 0.1.0, the library 0.1.0", "database pages", "opened {\"how\":\"created\",", "stat {\"directory\":"],
    ),
    (
        "examples/counters.c",
        &[],
        &[
            "pages of 8160 bytes",
            "the note has 0 bytes, and was \"\"",
            "one committed, one undone: 101",
            "the note has 8160 bytes, and was \"by the first\"",
            "not locked: the database is of another kind, or its name is not a valid file name",
            "the note has 8160 bytes, and was \"by the first\"",
        ],
    ),
    (
        "examples/saved.c",
        &["@copy", "@one", "@two"],
        &[
            "1 files, progress was reported: yes",
            "begins with the first backup: yes, ends with the second: yes",
            "again: a backup cannot be taken there, or nothing can be restored from it",
            "at the end: 20",
            "before that: 10",
            "restored again: the directory is no environment, or cannot be opened here",
        ],
    ),
    (
        "examples/history.c",
        &[],
        &[
            "last LSN before the first change: 0",
            "back: btree update, of 8 bytes or more, and one before",
            "back: btree insert, of 8 bytes or more, and one before",
            "back: btree insert, of 8 bytes or more, the first",
            "the last: btree update, of 8 bytes or more, and one before",
            "forwards: the last change and the end",
            "later: there is no such record, or no further record",
        ],
    ),
    (
        "examples/ranges.c",
        &[],
        &[
            "all: apple fig grape peach pear plum",
            "from b up to peach: fig grape peach",
            "2 begin with pe",
            "2 removed above peach",
            "left: apple fig grape peach",
            "each: apple fig grape; the program's function returned 3, and the cursor is at the last pair visited",
            "then peach",
            "after banana: fig",
            "by length: fig pear plum apple grape peach",
            "backwards: plum pear peach grape fig apple",
            "the hinge has a screw of steel",
            "the screw is no longer there",
            "in another order: the database is of another kind",
        ],
    ),
    (
        "examples/tags.c",
        &[],
        &[
            "key and value of up to ",
            "sorted: fig-sweet pear-fruit pear-green pear-soft plum-blue",
            "listed: fig-sweet fig-sweet pear-green pear-fruit pear-soft plum-blue",
            "pear: fruit green soft",
            "next key: plum blue",
            "key before: pear soft",
            "last: plum blue",
            "before: pear soft",
            "back at: pear soft",
            "pear: green fruit soft",
            "next key: plum blue",
            "key before: pear soft",
            "last: plum blue",
            "before: pear soft",
            "back at: pear soft",
            "the first of 3: fruit",
            "plum: the key is there already; nothing was changed",
            "1 values of the plum removed",
            "the first of 3: green",
            "2 values of the plum removed",
            "sorted: pear-fruit pear-green",
            "listed: fig-sweet pear-green pear-fruit",
            "up to the pear: pear pear",
            "2 pairs counted, 2 removed",
            "up to the pear: fig pear pear",
            "3 pairs counted, 3 removed",
        ],
    ),
    (
        "examples/lines.c",
        &["@text"],
        &[
            "read: 1 one 2 two 3 three",
            "three is one",
            "two is ONE",
            "six was number 4, there are 5 records",
            "by number: 1 zero 2 ONE 3 two 4 three 5 six",
            "before the last: 4 three",
            "here is 5",
            "by cursor: 1 ONE 2 two 3 before 4 here 5 after 6 six 7 seven",
            "written",
            "nothing to write",
            "in the file: ONE",
            "in the file: two",
            "in the file: before",
            "in the file: here",
            "in the file: after",
            "in the file: six",
            "in the file: seven",
        ],
    ),
    (
        "examples/accounts.c",
        &["@etc"],
        &[
            "undone: the program's function returned 1, and the transaction was aborted",
            "passwd: margo:x:1001:",
            "group: staff:x:50:margo",
            "group: already renamed, for this transaction",
            "passwd: margo:x:1001:",
            "passwd: mike:x:1002:",
            "group: none",
            "all files are in their places",
            "nothing to give up",
        ],
    ),
    (
        "examples/people.c",
        &[],
        &[
            "nemo: the function of the index `people by town` refuses the record: it returned 7; nothing was changed",
            "the first of 2 in London: ada, London: countess",
            "towns with L: London-ada London-alan",
            "from C on: Erlangen emmy Erlangen: algebraist",
            "last: London alan",
            "before: London ada",
            "later: Brno-kurt Erlangen-emmy Manchester-alan",
            "the index: nothing is wrong",
            "the database: nothing is wrong",
            "the function was called",
        ],
    ),
    (
        "examples/bulk.c",
        &[],
        &[
            "20000 loaded in order",
            "not in order: records that should be sorted are not; nothing was loaded",
            "20000 sorted and loaded, with reports",
            "20000 pairs",
            "twice: the database is not empty, and records can be loaded only into an empty database; nothing was loaded",
            "the record of number 12345",
            "pages: most were merged",
            "0 full pages were merged",
        ],
    ),
    (
        "examples/handed.c",
        &[],
        &[
            "the other process sees 3 apples",
            "again: the transaction cannot be detached, or is not waiting to be attached",
            "3 apples",
            "7 pears",
        ],
    ),
    (
        "examples/memory.c",
        &[],
        &[
            "3 in 16 bytes: 3 kurt 2 alan 1 ada",
            "3 in 16 bytes: 3 kurt 2 alan 1 ada",
            "2 in 16 bytes: 2 alan 1 ada",
            "elsewhere: survives a crash of the system, as declared",
        ],
    ),
    (
        "examples/catalogue.c",
        &[],
        &["catalogue: btree, 2 records, a file", "catalogue: btree, 0 records, a file", "2 records were removed"],
    ),
    ("tests/c/refused.c", &[], &["0 wrong"]),
    ("tests/c/apart.c", &["fork"], &["the child ended with 0", "memory 4711", "index ada", "several one, a list of 1"]),
    (
        "tests/c/apart.c",
        &["threads"],
        &["the index: nothing is wrong", "8 records, 8 in the index, 180 lines", "begun here: 1", "passed on: 1"],
    ),
    ("tests/c/misuse.c", &[], &["0 wrong"]),
    ("tests/c/threads.c", &[], &["counted 800 of 800", "6 of 6 refused, here: there is no such record", "handed on"]),
    ("tests/c/fork.c", &["handles"], &["the child ended with 0", "parent: goes on", "child: its own"]),
    ("tests/c/fork.c", &["killed"], &["the child was ended by signal 9", "shared: by the parent"]),
];

/// A program, its arguments and the lines that it prints.
type Program = (&'static str, &'static [&'static str], &'static [&'static str]);

#[test]
fn programs_in_c_print_the_expected_output_and_valgrind_finds_nothing() {
    // Under valgrind the examples run in one process, because the start of valgrind and its translation of the library
    // take longer than an example. `handed` starts processes itself, so it runs in its own process.
    let is_example = |source: &str| source.starts_with("examples/") && !source.ends_with("handed.c");
    let turns = PROGRAMS.iter().enumerate().map(|(number, program)| (program, is_turn_of(number, 6)));
    let (together, alone): (Vec<_>, Vec<_>) = turns.partition(|((source, ..), is_turn)| *is_turn && is_example(source));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let workshop = workshop();
            for (program, is_turn) in alone {
                run_and_check(program, if is_turn { says_under_valgrind } else { says }, workshop.path());
            }
        });
        let programs: Vec<&Program> = together.into_iter().map(|(program, _)| program).collect();
        let workshop = workshop();
        run_together_and_check(&programs, workshop.path());
        for program in PROGRAMS.iter().filter(|_| is_deep()) {
            run_and_check(program, says, workshop.path());
        }
    });
}

/// Returns a program's name and arguments, with paths in the directory `home`.
fn arguments_of(&(source, arguments, _): &Program, home: &Path) -> Vec<String> {
    let name = Path::new(source).file_stem().unwrap().to_str().unwrap();
    let at = |name: &str| home.join(name).display().to_string();
    let given = arguments.iter().map(|argument| argument.strip_prefix('@').map_or_else(|| (*argument).to_owned(), at));
    [name.to_owned(), at("environment")].into_iter().chain(given).collect()
}

fn check_output(&(source, _, expected): &Program, message: &str) {
    let agrees = message.lines().zip(expected).all(|(line, expected)| line.starts_with(expected));
    assert!(agrees && message.lines().count() == expected.len(), "{source}:\n{message}");
}

fn run_together_and_check(programs: &[&Program], workshop: &Path) {
    if programs.is_empty() {
        return;
    }
    let sources: Vec<&str> = programs.iter().map(|(source, ..)| *source).collect();
    let all = compiled_together(&sources, workshop);
    let homes: Vec<_> = programs.iter().map(|_| tempfile::tempdir().unwrap()).collect();
    let arguments = programs.iter().zip(&homes).map(|(program, home)| arguments_of(program, home.path()));
    let outputs = say_together_under_valgrind(&all, &arguments.collect::<Vec<_>>());
    assert_eq!(outputs.len(), programs.len());
    programs.iter().zip(&outputs).for_each(|(program, output)| check_output(program, output));
}

fn run_and_check(program: &Program, run: fn(&Path, &[&str]) -> String, workshop: &Path) {
    let compiled = compiled(program.0, workshop, Link::Shared);
    let home = tempfile::tempdir().unwrap();
    let arguments = arguments_of(program, home.path());
    check_output(program, &run(&compiled, &arguments[1..].iter().map(String::as_str).collect::<Vec<_>>()));
}

/// This test does not run under valgrind, which takes a minute to guard all addresses into which a segment can grow.
#[test]
fn in_a_guarded_segment_a_store_to_undeclared_memory_ends_the_process() {
    let workshop = workshop();
    let program = compiled("tests/c/guarded.c", workshop.path(), Link::Shared);
    let home = tempfile::tempdir().unwrap();
    let directory = home.path().join("environment");
    let directory = directory.to_str().unwrap();
    assert_eq!(says(&program, &[directory]), "1 in the declared range, 0 outside it\n");
    let stopped = plainly(&program, &[directory, "wild"]).output().unwrap();
    assert_eq!(stopped.status.signal(), Some(11), "a fault: {}", told(&stopped));
    assert!(told(&stopped).contains("was stopped by the guard"), "{}", told(&stopped));
    assert_eq!(
        says(&program, &[directory]),
        "3 in the declared range, 0 outside it\n",
        "no change of the stopped process is there"
    );
}

#[test]
fn with_tp_no_create_a_missing_environment_is_not_created() {
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

/// A function that makes the command for a program.
type Run = fn(&Path, &[&str]) -> Command;

#[test]
fn a_bank_in_c_keeps_its_money_when_a_process_dies() {
    let workshop = workshop();
    let mut ways: Vec<(Link, Run)> = vec![(Link::Static, plainly), (Link::Shared, plainly)];
    if is_turn_of(2, 6) {
        ways.push((Link::Shared, under_valgrind));
    }
    for (link, way) in ways {
        let program = compiled("examples/bank.c", workshop.path(), link);
        let home = tempfile::tempdir().unwrap();
        let bank = home.path().join("bank");
        let run =
            |arguments: &[&str]| way(&program, &[&[bank.to_str().unwrap()], arguments].concat()).output().unwrap();
        let says = |arguments: &[&str]| {
            let output = run(arguments);
            assert!(output.status.success(), "{arguments:?}: {}", told(&output));
            String::from_utf8(output.stdout).unwrap()
        };
        says(&["open", "20"]);
        assert_eq!(says(&["audit"]), "20 accounts, sum 2000, no transfers\n");
        says(&["transfer", "20"]);
        let died = run(&["die", "5"]);
        assert_eq!(died.status.code(), Some(9), "{}", told(&died));
        assert_eq!(says(&["audit"]), "20 accounts, sum 2000, with a history\n");
        assert_eq!(says(&["show"]).lines().count(), 21);
        let twice = run(&["open", "20"]);
        assert!(
            twice.status.code() != Some(FOUND) && told(&twice).contains("open: the key is there already"),
            "{}",
            told(&twice)
        );
    }
}

/// Two processes change the same records of one environment. One process is killed, and the other runs to its end.
#[test]
fn a_program_in_c_continues_after_another_program_was_killed() {
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

//! Planted bugs in the order of writes and syncs, which a build can switch on. One of the other tests notices each bug.

use std::process::Command;

/// A bug, and the test that must fail.
const PLANTED: [(&str, &str); 5] = [
    ("rvm: the log is not synced", "crashes::the_machine_crashes_between_any_two_calls"),
    ("rvm: the log is truncated before the database is synced", "crashes::the_machine_crashes_between_any_two_calls"),
    ("rvm: a failed log accepts more writes", "failing::any_call_fails"),
    (
        "rvm: growth outside of transactions is not logged",
        "growth::a_memory_that_an_aborted_transaction_has_made_larger_is_truncated_completely",
    ),
    ("rvm: a late opener creates the log again", "late::a_late_opening_finds_the_memory_of_another_process"),
];

#[test]
fn planted_bugs_are_noticed() {
    for (bug, test) in PLANTED {
        let run = |bug: &str| {
            let mut child = Command::new(std::env::current_exe().unwrap());
            child.args(["--exact", test, "--test-threads=1"]).env("LIBTP_PLANTED", bug).output().unwrap()
        };
        let noticed = run(bug);
        let message = String::from_utf8_lossy(&noticed.stdout).into_owned();
        let what =
            message.lines().skip_while(|line| !line.contains("panicked at")).nth(1).unwrap_or_default().to_owned();
        assert!(!noticed.status.success() && message.contains("1 failed"), "no test noticed {bug:?}: {message}");
        println!("  {bug}: noticed: {what}");
    }
}

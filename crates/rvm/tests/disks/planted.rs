//! Bugs that a build can switch on in the order of writes and syncs: each is noticed by one of the other tests.

use std::process::Command;

/// A bug, and the test that is to fail.
const PLANTED: [(&str, &str); 3] = [
    ("rvm: the log is not synced", "crashes::the_machine_crashes_between_any_two_calls"),
    ("rvm: the log begins anew before the database is synced", "crashes::the_machine_crashes_between_any_two_calls"),
    ("rvm: a log that failed is written further", "failing::any_call_fails"),
];

#[test]
fn planted_bugs_are_noticed() {
    for (bug, test) in PLANTED {
        let run = |bug: &str| {
            let mut child = Command::new(std::env::current_exe().unwrap());
            child.args(["--exact", test, "--test-threads=1"]).env("LIBTP_PLANTED", bug).output().unwrap()
        };
        let noticed = run(bug);
        let said = String::from_utf8_lossy(&noticed.stdout).into_owned();
        let what = said.lines().skip_while(|line| !line.contains("panicked at")).nth(1).unwrap_or_default().to_owned();
        assert!(!noticed.status.success() && said.contains("1 failed"), "nobody noticed {bug:?}: {said}");
        println!("  {bug}: noticed: {what}");
    }
}

//! Programs in C with `db.h`: what the manual pages of db(3) say, in plain mode and in shared mode, by one process and several.
#![allow(clippy::unwrap_used)]

mod c;

use c::{compiled, says, says_under_valgrind, workshop, Link};

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

//! A leader that dies of a failed sync does not lose commits that are acknowledged later.

use libtp_tests::dead_leader::a_dead_leaders_writes_are_written_again;

#[test]
fn the_next_leader_after_a_failed_sync_writes_everything_again() {
    for seed in 1..=5 {
        a_dead_leaders_writes_are_written_again(seed).unwrap();
    }
}

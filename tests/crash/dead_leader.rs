//! A leader that dies of a failed sync does not lose commits that are acknowledged later.

use libtp_tests::dead_leader::what_a_dead_leader_had_written_is_written_again;

#[test]
fn who_leads_after_a_leader_that_died_of_a_failed_sync_writes_all_of_it_again() {
    for seed in 1..=5 {
        what_a_dead_leader_had_written_is_written_again(seed).unwrap();
    }
}

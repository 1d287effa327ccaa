//! Records that were never synced and that a restart finds must be durable before commits that follow them.

use libtp_tests::found_tail::a_found_tail_is_written_again;

#[test]
fn a_tail_found_by_a_restart_is_durable_before_new_commits_follow_it() {
    for seed in 1..=5 {
        a_found_tail_is_written_again(seed).unwrap();
    }
}

//! A limit of one process must not stop other processes.

use libtp_tests::limited_process::others_continue_while_a_process_is_limited;

#[test]
fn a_limit_of_one_process_is_not_a_failure_of_the_disk() {
    for seed in 1..=5 {
        others_continue_while_a_process_is_limited(seed).unwrap();
    }
}

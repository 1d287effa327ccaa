//! A limit of one process must not stop other processes.

use libtp_tests::limited_process::others_go_on_beside_a_limited_process;

#[test]
fn a_limit_of_one_process_is_not_a_failure_of_the_disk() {
    for seed in 1..=5 {
        others_go_on_beside_a_limited_process(seed).unwrap();
    }
}

//! A log record from before a crash must not come back, even if the log later ends exactly where this record begins.

use libtp_tests::stale_log::stale_records_stay_out_of_the_log;

#[test]
fn records_after_a_torn_flush_never_come_back() {
    for seed in 1..=5 {
        stale_records_stay_out_of_the_log(seed).unwrap();
    }
}

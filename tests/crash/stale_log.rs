//! A record of an earlier life of the log does not come back, even if the log now ends exactly where that record
//! begins.

use libtp_tests::stale_log::stale_records_stay_dead;

#[test]
fn records_behind_a_torn_flush_never_come_back() {
    for seed in 1..=5 {
        stale_records_stay_dead(seed).unwrap();
    }
}

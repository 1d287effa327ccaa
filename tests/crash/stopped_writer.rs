//! A checkpoint does not count a stopped process's pages as durable.

use libtp_tests::stopped_writer::a_checkpoint_passes_no_page_in_flight;

#[test]
fn written_is_not_taken_for_synced() {
    a_checkpoint_passes_no_page_in_flight(1).unwrap();
}

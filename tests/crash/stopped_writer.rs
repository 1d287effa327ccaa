//! A checkpoint must not count pages as durable that a stopped process has written and not synced.

use libtp_tests::stopped_writer::a_checkpoint_passes_no_page_in_flight;

#[test]
fn written_pages_of_a_stopped_process_are_not_taken_for_synced() {
    a_checkpoint_passes_no_page_in_flight(1).unwrap();
}

//! A stopped process does not make a checkpoint believe that its pages are safe.

use libtp_tests::stopped_writer::a_checkpoint_passes_no_page_in_flight;

#[test]
fn written_is_not_taken_for_synced() {
    a_checkpoint_passes_no_page_in_flight(1).unwrap();
}

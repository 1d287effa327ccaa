//! Power cuts and damage after pages were written whole.

use libtp_tests::whole_writes::{
    a_page_that_a_failed_write_tore_has_an_image, an_older_image_replaces_no_page_written_whole,
};

#[test]
fn damage_to_a_page_that_was_written_whole_brings_no_older_page_back() {
    for seed in 1..=5 {
        an_older_image_replaces_no_page_written_whole(seed).unwrap();
    }
}

#[test]
fn a_disk_that_breaks_its_promise_loses_no_page() {
    for seed in 1..=5 {
        a_page_that_a_failed_write_tore_has_an_image(seed).unwrap();
    }
}

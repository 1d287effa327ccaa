//! Segments made by different processes can probably be opened together. Segments that one process makes, one after
//! another, can certainly be opened together.
//!
//! This test is the only test of its process: otherwise a test that closes and reopens a segment could find the
//! segment's address taken by this test.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;

use vista::Options;

#[test]
fn a_process_draws_no_address_twice() {
    let directory = tempfile::tempdir().unwrap();
    // No segment stays mapped, as between a draw and its mapping, so the next draw sees every earlier address as free.
    let drawn = |nth: u64| {
        let segment = Options::new(64).open(&directory.path().join(nth.to_string())).unwrap();
        let address = segment.address();
        segment.close().map(|()| address).unwrap()
    };
    const DRAWS: u64 = 300;
    let all: BTreeSet<usize> = (0..DRAWS).map(drawn).collect();
    assert_eq!(all.len() as u64, DRAWS);
}

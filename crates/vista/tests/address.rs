//! Segments that were made apart can probably be opened together, and segments that one process makes one after the
//! other surely.
//!
//! Alone in its process: another test that closes and opens a segment could find its address taken by one of these.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;

use vista::Options;

#[test]
fn what_a_process_has_drawn_it_does_not_draw_again() {
    let directory = tempfile::tempdir().unwrap();
    // No segment stays mapped, as between a draw and the mapping: the next draw does not see the address as taken.
    let drawn = |nth: u64| {
        let segment = Options::new(64).open(&directory.path().join(nth.to_string())).unwrap();
        let address = segment.address();
        segment.close().map(|()| address).unwrap()
    };
    const DRAWS: u64 = 300;
    let all: BTreeSet<usize> = (0..DRAWS).map(drawn).collect();
    assert_eq!(all.len() as u64, DRAWS);
}

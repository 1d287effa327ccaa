//! Segments that are made apart can presumably be opened together, and those that one process makes one after the other surely.
//!
//! Alone in its process: a segment that is closed and opened again beside it could find its address taken by one of these.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;

use vista::Options;

#[test]
fn what_a_process_has_drawn_it_does_not_draw_again() {
    let directory = tempfile::tempdir().unwrap();
    // None stays mapped, as between the draw and the mapping: whoever draws next does not see it.
    let drawn = |nth: u64| {
        let segment = Options::new(64).open(&directory.path().join(nth.to_string())).unwrap();
        let address = segment.address();
        segment.close().map(|()| address).unwrap()
    };
    const DRAWS: u64 = 300;
    let all: BTreeSet<usize> = (0..DRAWS).map(drawn).collect();
    assert_eq!(all.len() as u64, DRAWS);
}

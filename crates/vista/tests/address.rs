//! Segments that are made apart can presumably be opened together, and those that one process makes one after the other surely.
//!
//! Alone in its process: a segment that is closed and opened again beside it could find its address taken by one of these.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;

use vista::Options;

/// So many draws of a process in a row differ.
const TURNS: u64 = 64;

#[test]
fn what_was_drawn_of_late_is_not_drawn_again() {
    let directory = tempfile::tempdir().unwrap();
    // None stays mapped, as between the draw and the mapping: whoever draws next does not see it.
    let drawn = |nth: u64| {
        let segment = Options::new(64).open(&directory.path().join(nth.to_string())).unwrap();
        let address = segment.address();
        segment.close().map(|()| address).unwrap()
    };
    for round in 0..40 {
        let half = TURNS / 2;
        let all: BTreeSet<usize> = (0..half).map(|nth| drawn(round * half + nth)).collect();
        assert_eq!(all.len() as u64, half);
    }
}

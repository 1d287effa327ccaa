//! The memory order of a word's swaps and loads, under every interleaving (docs/design/0021, rule 12).
//!
//! Each rule of the order has a variant that breaks it, which loom must refuse.

use loom::sync::atomic::{AtomicU64, Ordering};
use loom::sync::{Arc, Mutex};

const FAT: u64 = 1;
/// The values of a word with an owner: each gap has a different tag.
const GAP: u64 = 2;
const OTHER_GAP: u64 = 4;

/// A leaf, whose latch guards its number of records, and the word of two gaps.
struct Leaf {
    records: Mutex<u32>,
    word: AtomicU64,
}

/// Locks the gap if its word is free, and returns the number of records in the leaf at that time.
fn scan(leaf: &Leaf, gap: u64) -> Option<u32> {
    let records = leaf.records.lock().unwrap();
    let is_taken = leaf.word.compare_exchange(0, gap, Ordering::AcqRel, Ordering::Acquire).is_ok();
    is_taken.then_some(*records)
}

/// Returns whether an insertion may enter the gap without the latch of the bucket.
fn is_free(leaf: &Leaf) -> bool {
    let seen = leaf.word.load(Ordering::Acquire);
    seen & FAT == 0 && seen & GAP == 0
}

/// Runs a scan of the gap, an insertion into the gap, and a locker of another gap of the word, in parallel.
fn scan_beside_an_insertion(looks_early: bool) {
    loom::model(move || {
        let leaf = Arc::new(Leaf { records: Mutex::new(0), word: AtomicU64::new(0) });
        let (inserter, other) = (leaf.clone(), leaf.clone());
        let inserter = loom::thread::spawn(move || {
            let early = looks_early && is_free(&inserter);
            let mut records = inserter.records.lock().unwrap();
            *records += u32::from(early || !looks_early && is_free(&inserter));
        });
        let other = loom::thread::spawn(move || {
            if scan(&other, OTHER_GAP).is_some() {
                let released = other.word.compare_exchange(OTHER_GAP, 0, Ordering::AcqRel, Ordering::Acquire);
                released.unwrap();
            }
        });
        if let Some(seen) = scan(&leaf, GAP) {
            assert_eq!(*leaf.records.lock().unwrap(), seen, "a record came into a gap that is locked");
        }
        inserter.join().unwrap();
        other.join().unwrap();
    });
}

#[test]
fn loom_an_insertion_sees_the_lock_of_a_scan_that_has_released_the_leaf() {
    scan_beside_an_insertion(false);
}

#[test]
#[should_panic(expected = "a record came into a gap that is locked")]
fn loom_finds_the_fault_of_an_insertion_that_looks_before_it_latches() {
    scan_beside_an_insertion(true);
}

/// Runs an owner that fills its request and takes the word, and a rival that marks the word and reads the request.
fn mark_beside_a_lock(swap: Ordering) {
    loom::model(move || {
        let both = Arc::new((AtomicU64::new(0), AtomicU64::new(0)));
        let owner = both.clone();
        let owner = loom::thread::spawn(move || {
            let (request, word) = &*owner;
            request.store(7, Ordering::Relaxed);
            let _ = word.compare_exchange(0, GAP, swap, Ordering::Acquire);
        });
        let (request, word) = &*both;
        let seen = word.load(Ordering::Acquire);
        let marked = word.compare_exchange(seen, seen | FAT, Ordering::AcqRel, Ordering::Acquire);
        if marked.is_ok() && seen == GAP {
            assert_eq!(request.load(Ordering::Relaxed), 7, "the request is not filled");
        }
        owner.join().unwrap();
    });
}

#[test]
fn loom_a_rival_sees_the_request_of_the_word_that_it_marks() {
    mark_beside_a_lock(Ordering::AcqRel);
}

#[test]
#[should_panic(expected = "the request is not filled")]
fn loom_finds_the_fault_of_a_swap_without_release() {
    mark_beside_a_lock(Ordering::Relaxed);
}

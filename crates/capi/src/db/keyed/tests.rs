//! Tests that plain mode and shared mode give the same answers to the same calls.

use std::collections::BTreeSet;
use std::path::Path;

use super::*;
use crate::db::flags::DB_TXN;
use crate::db::info::{FileInfo, PairsInfo};
use crate::db::open::open;
use crate::db::open_mode::OpenMode;
use crate::db::Store;

const STEPS: u32 = 1500;

struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

fn opened(path: &Path, modes: u32, given: &PairsInfo) -> Keyed {
    let flags = u32::try_from(libc::O_RDWR | libc::O_CREAT).unwrap() | modes;
    match open(Some(path), &OpenMode::new(flags, 0o644).unwrap(), FileInfo::Pairs(given.clone())).unwrap() {
        Store::Keyed(keyed) => keyed,
        Store::Numbered(_) => panic!("records were not asked for"),
    }
}

/// Returns the answer of a call as text that is the same for all modes.
fn words<T: std::fmt::Debug>(answer: Answer<T>) -> String {
    match answer {
        Ok(answer) => format!("{answer:?}"),
        Err(refused) => format!("refused: {}", refused.errno),
    }
}

fn step(keyed: &mut Keyed, chance: &mut Chance) -> (String, String) {
    let key = format!("{:02}", chance.below(40)).into_bytes();
    let value = format!("{}", chance.below(1000)).into_bytes();
    let flags = [0, 0, 0, R_CURSOR, R_SETCURSOR, R_NOOVERWRITE][usize::try_from(chance.below(6)).unwrap()];
    let which = [R_FIRST, R_LAST, R_NEXT, R_NEXT, R_NEXT, R_PREV, R_PREV, R_PREV, R_CURSOR];
    let seek = which[usize::try_from(chance.below(9)).unwrap()];
    match chance.below(10) {
        0..3 => (format!("put {key:?} {value:?} {flags}"), words(keyed.put(&key, &value, flags))),
        3 => (format!("del {key:?}"), words(keyed.delete(&key, 0))),
        4 => ("del at the cursor".into(), words(keyed.delete(&key, R_CURSOR))),
        5 => (format!("get {key:?}"), words(keyed.get(&key, 0))),
        _ => (format!("seq {key:?} {seek}"), words(keyed.seek(&key, seek))),
    }
}

fn compare(given: PairsInfo, seed: u64) {
    let home = tempfile::tempdir().unwrap();
    let (one, two) = (home.path().join("plain"), home.path().join("shared"));
    let (mut plain, mut shared) = (opened(&one, 0, &given), opened(&two, DB_TXN, &given));
    let (mut first, mut second) = (Chance(seed), Chance(seed));
    for number in 0..STEPS {
        let (call, message) = step(&mut plain, &mut first);
        let (_, other) = step(&mut shared, &mut second);
        assert_eq!(message, other, "seed {seed}, step {number}: {call}");
        if number % 300 == 299 {
            plain.sync(0).unwrap();
            // Both files lose their cursors.
            (plain, shared) = (opened(&one, 0, &given), opened(&two, DB_TXN, &given));
        }
    }
}

#[test]
fn a_tree_is_the_same_in_plain_and_in_shared_mode() {
    for seed in 1..4 {
        compare(PairsInfo::Btree { has_duplicates: false, compare: None, page_bytes: 0 }, seed);
    }
}

#[test]
fn a_tree_with_duplicates_is_the_same_in_plain_and_in_shared_mode() {
    for seed in 1..4 {
        compare(PairsInfo::Btree { has_duplicates: true, compare: None, page_bytes: 0 }, seed);
    }
}

/// The order of the pairs differs between the modes; the contents are the same.
#[test]
fn a_hash_file_has_the_same_pairs_in_plain_and_in_shared_mode() {
    let given = PairsInfo::Hash { hash: None, page_bytes: 0 };
    let home = tempfile::tempdir().unwrap();
    let mut files =
        [opened(&home.path().join("plain"), 0, &given), opened(&home.path().join("shared"), DB_TXN, &given)];
    let mut chance = Chance(5);
    for _ in 0..STEPS {
        let (key, value) = (chance.below(60).to_string().into_bytes(), chance.below(1000).to_string().into_bytes());
        let flags = if chance.below(2) == 0 { 0 } else { R_NOOVERWRITE };
        let which = chance.below(3);
        let message = files.each_mut().map(|file| match which {
            0 => words(file.put(&key, &value, flags)),
            1 => words(file.delete(&key, 0)),
            _ => words(file.get(&key, 0)),
        });
        assert_eq!(message[0], message[1]);
    }
    let all = files.each_mut().map(|file| {
        let (mut all, mut how) = (BTreeSet::new(), R_FIRST);
        while let Some(pair) = file.seek(b"", how).unwrap() {
            assert!(all.insert(pair), "a cursor returned a pair twice");
            how = R_NEXT;
        }
        all
    });
    assert_eq!(all[0], all[1]);
    assert!(!all[0].is_empty());
}

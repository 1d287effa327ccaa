//! Tests that plain mode and shared mode give the same answers to the same calls. Plain mode is so simple that it
//! serves as the model.
#![allow(clippy::unwrap_used)]

use std::path::Path;

use super::{Length, Numbered, Stored};
use crate::db::flags::{
    DB_TXN, R_CURSOR, R_FIRST, R_IAFTER, R_IBEFORE, R_LAST, R_NEXT, R_NOOVERWRITE, R_PREV, R_SETCURSOR,
};
use crate::db::info::{FileInfo, RecordsInfo};
use crate::db::open::open;
use crate::db::open_mode::OpenMode;
use crate::db::refusal::Answer;
use crate::db::Store;

const STEPS: u32 = 1500;

struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: u32) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        u32::try_from((self.0 >> 33) % u64::from(limit)).unwrap()
    }
}

fn opened(path: &Path, modes: u32, length: Length) -> Numbered {
    let flags = u32::try_from(libc::O_RDWR | libc::O_CREAT).unwrap() | modes;
    let given = RecordsInfo { length, end: b'\n', is_without_keys: false, kept_in: None };
    match open(Some(path), &OpenMode::new(flags, 0o644).unwrap(), FileInfo::Recno(given)).unwrap() {
        Store::Numbered(numbered) => numbered,
        Store::Keyed(_) => panic!("keys were not asked for"),
    }
}

/// Returns the answer of a call as text that is the same for both modes.
fn words<T: std::fmt::Debug>(answer: Answer<T>) -> String {
    match answer {
        Ok(answer) => format!("{answer:?}"),
        Err(refused) => format!("refused: {}", refused.errno),
    }
}

/// Makes a random call and returns it with its answer.
fn step(records: &mut Numbered, chance: &mut Chance) -> (String, String) {
    let number = chance.below(45);
    let (key, value) = (number.to_ne_bytes(), chance.below(10_000).to_string().into_bytes());
    let flags = [0, 0, R_CURSOR, R_SETCURSOR, R_NOOVERWRITE, R_IAFTER, R_IBEFORE][chance.below(7) as usize];
    let seek = [R_FIRST, R_LAST, R_NEXT, R_NEXT, R_NEXT, R_PREV, R_PREV, R_PREV, R_CURSOR][chance.below(9) as usize];
    match chance.below(10) {
        0..=2 => (
            format!("put {number} {flags}"),
            words(records.put(&key, value, flags).map(|stored| match stored {
                Stored::No => None,
                Stored::There => Some(0),
                Stored::As(number) => Some(number),
            })),
        ),
        3 | 4 => (format!("delete {number}"), words(records.delete(&key, 0))),
        5 => ("delete at the cursor".into(), words(records.delete(&key, R_CURSOR))),
        6 => (format!("get {number}"), words(records.get(&key, 0))),
        _ => (format!("seek {number} {seek}"), words(records.seek(&key, seek))),
    }
}

fn compare(length: Length, seed: u64) {
    let home = tempfile::tempdir().unwrap();
    let (one, two) = (home.path().join("plain"), home.path().join("shared"));
    let (mut plain, mut shared) = (opened(&one, 0, length), opened(&two, DB_TXN, length));
    let (mut first, mut second) = (Chance(seed), Chance(seed));
    for number in 0..STEPS {
        let (call, message) = step(&mut plain, &mut first);
        let (_, other) = step(&mut shared, &mut second);
        assert_eq!(message, other, "seed {seed}, step {number}: {call}");
        if number % 250 == 249 {
            plain.sync(0).unwrap();
            shared.sync(0).unwrap();
            assert_eq!(std::fs::read(&one).unwrap(), std::fs::read(&two).unwrap(), "seed {seed}, step {number}");
            // Both files lose their cursors.
            (plain, shared) = (opened(&one, 0, length), opened(&two, DB_TXN, length));
        }
    }
}

#[test]
fn records_of_any_length_behave_the_same_in_both_modes() {
    compare(Length::Variable, 1);
    compare(Length::Variable, 2);
}

#[test]
fn records_of_one_length_behave_the_same_in_both_modes() {
    compare(Length::Fixed(4, b'.'), 3);
}

/// The records of a database of `tp_recno_open` keep their numbers, because other programs may have stored the numbers.
#[test]
fn a_database_whose_records_keep_their_numbers_refuses_to_renumber_them() {
    let home = tempfile::tempdir().unwrap();
    {
        let env = libtp::Env::open_or_create(home.path()).unwrap();
        let recno = env.recno("kept", 4).unwrap();
        env.run(|txn| (1..=3).try_for_each(|number| recno.put(txn, number, b"once"))).unwrap();
    }
    let path = home.path().join("kept");
    let mut records = opened(&path, DB_TXN, Length::Fixed(4, b'.'));
    let key = |number: u32| number.to_ne_bytes();
    assert_eq!(records.get(&key(2), 0).unwrap().as_deref(), Some(&b"once"[..]));
    assert_eq!(records.delete(&key(1), 0).unwrap_err().errno, libc::EOPNOTSUPP);
    assert_eq!(
        records.put(&key(1), b"x".to_vec(), R_IBEFORE).err().map(|refused| refused.errno),
        Some(libc::EOPNOTSUPP)
    );
    assert_eq!(records.get(&key(1), 0).unwrap().as_deref(), Some(&b"once"[..]));
    // An insertion after the last record changes no number.
    assert!(matches!(records.put(&key(3), b"x".to_vec(), R_IAFTER).unwrap(), Stored::As(4)));
    assert_eq!(records.seek(&key(0), R_LAST).unwrap(), Some((4, b"x...".to_vec())));
    assert!(records.delete(&key(0), R_CURSOR).unwrap());
    assert!(!records.delete(&key(4), 0).unwrap());
    assert_eq!(records.seek(&key(0), R_PREV).unwrap(), Some((3, b"once".to_vec())));
    records.sync(0).unwrap();
    assert!(!path.exists(), "the database has no text file");
    let other = RecordsInfo { length: Length::Variable, end: b'\n', is_without_keys: false, kept_in: None };
    let flags = u32::try_from(libc::O_RDWR).unwrap() | DB_TXN;
    let refused = open(Some(&path), &OpenMode::new(flags, 0).unwrap(), FileInfo::Recno(other)).err().unwrap();
    assert_eq!(refused.errno, libc::EINVAL);
}

//! Files of plain mode, torn, damaged, changed for ever, and by two at once.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::path::Path;

use super::*;
use crate::db::plain_file::Kind;

const TREE: Kind = Kind { is_hash: false, has_duplicates: false, hash_of_text: 0 };

fn file(path: &Path) -> File {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).unwrap()
}

fn open(path: &Path) -> Answer<Plain> {
    Plain::open(Rule::Bytes, false, Some(PlainFile::open(file(path), path, TREE)?))
}

fn all(plain: &Plain) -> BTreeMap<Vec<u8>, Vec<u8>> {
    plain.pairs.iter().map(|(entry, value)| (entry.key.to_vec(), value.to_vec())).collect()
}

fn put(plain: &mut Plain, key: &str, value: &str) {
    plain.put(key.as_bytes(), value.as_bytes(), false).unwrap().unwrap();
}

/// A crash leaves of what was written since the last sync any part, in any order. None of it may count.
#[test]
fn whatever_is_left_of_a_sync_that_did_not_end_the_file_says_what_the_last_one_made_it_say() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("file");
    let mut plain = open(&path).unwrap();
    for number in 0..50 {
        put(&mut plain, &format!("key {number}"), "before");
    }
    plain.sync().unwrap();
    let (before, image) = (all(&plain), fs::read(&path).unwrap());
    put(&mut plain, "key 7", "after");
    plain.delete(b"key 9").unwrap();
    plain.sync().unwrap();
    let (after, whole) = (all(&plain), fs::read(&path).unwrap());
    // Without the slot that was written last, any bytes behind the end may be there or not.
    for kept in image.len()..=whole.len() {
        let mut torn = whole[..kept].to_vec();
        torn[32..96].copy_from_slice(&image[32..96]);
        fs::write(&path, &torn).unwrap();
        assert_eq!(all(&open(&path).unwrap()), before, "{kept} bytes are left");
    }
    fs::write(&path, &whole).unwrap();
    assert_eq!(all(&open(&path).unwrap()), after);
}

#[test]
fn a_damaged_file_is_refused_and_never_read_as_something_else() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("file");
    let mut plain = open(&path).unwrap();
    for number in 0..20 {
        put(&mut plain, &format!("key {number}"), "value");
    }
    plain.sync().unwrap();
    let whole = fs::read(&path).unwrap();
    for at in 0..whole.len() {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x40;
        fs::write(&path, &damaged).unwrap();
        let refused = open(&path).map(|_| ()).unwrap_err();
        assert!(refused.text.contains("file") && refused.errno == libc::EINVAL, "byte {at}: {}", refused.text);
    }
    fs::write(&path, &whole[..whole.len() - 1]).unwrap();
    assert!(open(&path).is_err(), "its end is cut off");
    fs::write(&path, b"root:x:0:0:root:/root:/bin/bash\n and so on, a file of another kind than this is").unwrap();
    assert!(open(&path).is_err());
}

#[test]
fn a_file_that_is_changed_for_ever_stays_as_long_as_what_is_in_it() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("file");
    let mut plain = open(&path).unwrap();
    let (value, mut longest) = ("v".repeat(1000), 0);
    for round in 0..2000 {
        put(&mut plain, &format!("key {}", round % 20), &format!("{round} {value}"));
        if round % 7 == 0 {
            plain.sync().unwrap();
            longest = longest.max(fs::metadata(&path).unwrap().len());
            if round % 49 == 0 {
                let expected = all(&plain);
                drop(plain);
                plain = open(&path).unwrap();
                assert_eq!(all(&plain), expected, "round {round}");
            }
        }
    }
    assert!(longest < 300_000, "20 pairs of 1000 bytes took {longest}");
}

#[test]
fn who_has_changed_a_file_meanwhile_is_not_written_over() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("file");
    let mut first = open(&path).unwrap();
    put(&mut first, "a", "1");
    first.sync().unwrap();
    let mut second = open(&path).unwrap();
    put(&mut second, "b", "2");
    second.sync().unwrap();
    put(&mut first, "c", "3");
    let refused = first.sync().unwrap_err();
    assert!(refused.errno == libc::ESTALE && refused.text.contains("another program"), "{}", refused.text);
    assert_eq!(all(&open(&path).unwrap()), all(&second));
}

//! Tests of files of plain mode: torn, damaged, changed many times, and changed by two programs at once.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::path::Path;

use super::*;
use crate::db::plain_file::{faults, Kind};

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

/// After a crash, any of the bytes that were written since the last sync may be on the disk, in any combination. None
/// of these combinations may change the contents.
#[test]
fn after_any_part_of_an_unfinished_sync_the_file_has_the_contents_of_the_last_sync() {
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
    // The new slot is missing, and any number of the new bytes after the old end is on the disk.
    for kept in image.len()..=whole.len() {
        let mut torn = whole[..kept].to_vec();
        torn[32..96].copy_from_slice(&image[32..96]);
        fs::write(&path, &torn).unwrap();
        assert_eq!(all(&open(&path).unwrap()), before, "the file has {kept} bytes");
    }
    fs::write(&path, &whole).unwrap();
    assert_eq!(all(&open(&path).unwrap()), after);
}

#[test]
fn a_damaged_file_is_refused_and_never_read_as_another_kind() {
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
    assert!(open(&path).is_err(), "the end of the file is missing");
    fs::write(&path, b"root:x:0:0:root:/root:/bin/bash\n and so on, a file of another kind than this is").unwrap();
    assert!(open(&path).is_err());
}

#[test]
fn a_file_whose_pairs_are_replaced_again_and_again_does_not_grow() {
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
fn a_sync_does_not_overwrite_changes_of_another_program() {
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

/// The size of a value that is larger than the limit for unwritten frames.
const MUCH: usize = 1_200_000;

/// A program that has the file open, in the model.
struct Party {
    plain: Plain,
    /// The index of the file's state that this program knows.
    knows: usize,
    is_changed: bool,
}

impl Party {
    fn new(path: &Path) -> Party {
        Party { plain: open(path).unwrap(), knows: 0, is_changed: false }
    }

    fn note(&mut self, step: usize) {
        self.plain.put(&[u8::try_from(step).unwrap()], &vec![b'v'; MUCH], false).unwrap().unwrap();
        self.is_changed = true;
    }

    /// Syncs this program's changes, and checks the result. Returns whether the sync has written the file. The sync
    /// must write if the file had the state that this program knew and the program has changed a pair, or if the file
    /// was still empty.
    fn sync(&mut self, states: usize, is_made: bool) -> bool {
        let done = self.plain.sync();
        match (self.knows == states, self.is_changed) {
            (true, is_changed) => {
                done.unwrap();
                self.is_changed = false;
                is_changed || !is_made
            }
            (false, true) => {
                let refused = done.unwrap_err();
                assert_eq!(refused.errno, libc::ESTALE, "{}", refused.text);
                false
            }
            (false, false) => {
                done.unwrap();
                false
            }
        }
    }
}

/// Regression test for two bugs. A program with many unwritten changes did not wait for `sync`, but wrote them after
/// the last end of the file that it knew, and so overwrote bytes that another program had written there. And when two
/// programs made a file, the second overwrote the file of the first.
#[test]
fn if_two_programs_change_a_file_in_any_order_one_sync_is_kept_and_the_other_is_refused() {
    let home = tempfile::tempdir().unwrap();
    // With pairs in the file, a sync appends frames after the existing frames; in a new file all frames are new.
    for is_new in [true, false] {
        for order in 0..4_usize.pow(4) {
            let path = home.path().join(format!("{is_new} {order}"));
            let mut expected = BTreeMap::new();
            if !is_new {
                let mut first = open(&path).unwrap();
                put(&mut first, "before", &"v".repeat(2 * MUCH));
                first.sync().unwrap();
                expected = all(&first);
            }
            let (mut parties, mut states) = ([Party::new(&path), Party::new(&path)], 0);
            for step in 0..4 {
                let what = order / 4_usize.pow(u32::try_from(step).unwrap()) % 4;
                let party = &mut parties[what % 2];
                if what < 2 {
                    party.note(step);
                } else if party.sync(states, states > 0 || !is_new) {
                    states += 1;
                    party.knows = states;
                    expected = all(&party.plain);
                }
                if what < 2 && step < 3 {
                    continue;
                }
                // A program that opens the file now must find this state, also after a crash that kept all written
                // bytes.
                let says = open(&path).unwrap_or_else(|refused| panic!("order {order}, step {step}: {}", refused.text));
                assert!(all(&says) == expected, "order {order}, step {step}, is_new {is_new}");
            }
            fs::remove_file(&path).unwrap();
        }
    }
}

#[test]
fn a_sync_without_changes_in_a_new_file_does_not_overwrite_another_programs_pairs() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("file");
    let (mut first, mut second) = (open(&path).unwrap(), open(&path).unwrap());
    put(&mut first, "a", "1");
    first.sync().unwrap();
    second.sync().unwrap();
    assert_eq!(all(&open(&path).unwrap()), all(&first));
}

#[test]
fn a_file_that_another_program_has_emptied_is_not_overwritten() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("file");
    let mut first = open(&path).unwrap();
    put(&mut first, "a", "1");
    first.sync().unwrap();
    put(&mut first, "b", "2");
    let emptied = File::create(&path).unwrap();
    assert_eq!(first.sync().unwrap_err().errno, libc::ESTALE);
    assert_eq!(emptied.metadata().unwrap().len(), 0);
    let mut second = Plain::open(Rule::Bytes, false, Some(PlainFile::open(file(&path), &path, TREE).unwrap())).unwrap();
    put(&mut second, "c", "3");
    second.sync().unwrap();
    assert_eq!(first.sync().unwrap_err().errno, libc::ESTALE);
    assert_eq!(all(&open(&path).unwrap()), all(&second));
}

/// Makes a sync fail, and checks its error.
fn sync_that_fails(plain: &mut Plain, syncs_before: u32) {
    faults::SYNCS_LEFT.set(Some(syncs_before));
    let refused = plain.sync().unwrap_err();
    assert!(refused.errno == libc::EIO && refused.text.contains("cannot be synced"), "{}", refused.text);
}

/// Makes a file with enough free bytes before its frames for all its live frames.
fn with_room_in_front(path: &Path) -> Plain {
    let mut plain = open(path).unwrap();
    for round in 0..3 {
        put(&mut plain, "a", &format!("{round}{}", "v".repeat(100_000)));
        plain.sync().unwrap();
    }
    let bytes = fs::read(path).unwrap();
    // The start of the range in the second slot, which the third sync has written.
    let start = u64::from_le_bytes(bytes[32 + 32 + 8..][..8].try_into().unwrap());
    assert!(start > 200_000, "the frames begin at {start}");
    plain
}

/// After a failed sync, the written bytes may or may not be on the disk. Later writes neither overwrite the file's
/// contents nor rely on these bytes.
#[test]
fn after_a_failed_sync_the_file_keeps_its_contents_and_the_next_sync_writes_all_frames() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("file");
    let mut plain = with_room_in_front(&path);
    let before = all(&plain);
    for _ in 0..3 {
        // The new frames go before the file's frames, most of which are dead.
        put(&mut plain, "a", "short");
        sync_that_fails(&mut plain, 0);
        assert!(all(&open(&path).unwrap()) == before);
        put(&mut plain, "b", &"v".repeat(MUCH));
        assert!(all(&open(&path).unwrap()) == before);
        sync_that_fails(&mut plain, 0);
        assert!(all(&open(&path).unwrap()) == before);
        plain.delete(b"b").unwrap();
    }
    put(&mut plain, "c", "3");
    plain.sync().unwrap();
    assert!(all(&open(&path).unwrap()) == all(&plain));
}

/// A slot whose sync failed may or may not be on the disk. Until a later slot is on the disk, the frames of both slots
/// must stay.
#[test]
fn after_a_failed_sync_of_a_slot_the_frames_of_both_slots_stay() {
    let home = tempfile::tempdir().unwrap();
    let (path, crashed) = (home.path().join("file"), home.path().join("crashed"));
    let mut plain = with_room_in_front(&path);
    let (before, old) = (all(&plain), fs::read(&path).unwrap());
    put(&mut plain, "a", "short");
    sync_that_fails(&mut plain, 1);
    let (between, doubtful) = (all(&plain), fs::read(&path).unwrap());
    for round in 0..3 {
        put(&mut plain, "b", &format!("{round}"));
        sync_that_fails(&mut plain, 0);
        for (slots, message) in [(&old, &before), (&doubtful, &between)] {
            let mut image = fs::read(&path).unwrap();
            image[32..96].copy_from_slice(&slots[32..96]);
            fs::write(&crashed, image).unwrap();
            assert!(all(&open(&crashed).unwrap()) == *message, "round {round}");
        }
    }
    plain.sync().unwrap();
    assert!(all(&open(&path).unwrap()) == all(&plain));
    plain.sync().unwrap();
}

#[test]
fn if_two_programs_sync_at_once_the_file_has_exactly_the_pairs_of_the_syncs_that_succeeded() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    let mut first = open(&path).unwrap();
    put(&mut first, "before", "there");
    first.sync().unwrap();
    for round in 0..100 {
        let parties = ["one", "other"].map(|name| (name, open(&path).unwrap()));
        let kept: Vec<(String, bool)> = std::thread::scope(|scope| {
            let syncing = parties.map(|(name, mut plain)| {
                scope.spawn(move || {
                    let key = format!("{name} {round}");
                    // The lengths differ, so that a mixture of the two programs' bytes does not form a complete frame.
                    put(&mut plain, &key, &name.repeat(1 + round % 7));
                    (key, plain.sync().is_ok())
                })
            });
            syncing.map(|thread| thread.join().unwrap()).into()
        });
        assert!(kept.iter().any(|(_, is_kept)| *is_kept), "{kept:?}");
        let found = all(&open(&path).unwrap());
        for (key, is_kept) in kept {
            assert_eq!(found.contains_key(key.as_bytes()), is_kept, "{key}");
        }
    }
}

#[test]
fn a_sync_does_not_wait_for_a_lock_of_its_own_process() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    let mut plain = open(&path).unwrap();
    put(&mut plain, "key", "value");
    let own = locked_whole(&path);
    plain.sync().unwrap();
    drop(own);
    assert_eq!(all(&open(&path).unwrap()).len(), 1);
}

/// Locks the whole file for this process with `fcntl`.
fn locked_whole(path: &Path) -> File {
    let file = file(path);
    rustix::fs::fcntl_lock(&file, rustix::fs::FlockOperation::LockExclusive).unwrap();
    file
}

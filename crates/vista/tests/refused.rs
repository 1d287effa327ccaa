//! Files of another version, and incomplete files, that a user may try to open as a segment. Each file is refused with
//! a message, and is not changed.
#![allow(clippy::unwrap_used)]

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;

use vista::{Error, Membership, Options};

/// The offsets of these words in a region's header (docs/formats/region.md).
const VERSION: u64 = 8;
const LAYOUT: u64 = 16;
const USED: u64 = 104;
const MEMBER_HEADER: u64 = 184;

const FLAT: u64 = 3 << 20;
const UNIT: u64 = 64 << 10;

fn word(file: &File, at: u64) -> u64 {
    let mut word = [0; 8];
    file.read_exact_at(&mut word, at).unwrap();
    u64::from_ne_bytes(word)
}

fn open_file(path: &Path) -> File {
    OpenOptions::new().read(true).write(true).open(path).unwrap()
}

/// Makes a segment with data in each part. Returns the file offset of its flat part, and the address of one block of
/// its heap.
fn make(path: &Path) -> (u64, u64) {
    let mut segment = Options::new(FLAT).anywhere().open(path).unwrap();
    let mut txn = segment.begin();
    txn.set_range(0, 3 << 20).unwrap().fill(1);
    // The table needs more entries than it had at first. So it has grown, and its second part follows blocks in the
    // file.
    let blocks: Vec<u64> = (0..20).map(|_| txn.malloc(1 << 20).unwrap()).collect();
    for at in &blocks {
        txn.set_range(*at, 100).unwrap().fill(2);
    }
    txn.end().unwrap();
    segment.close().unwrap();
    let file = open_file(path);
    let header = word(&file, 128 + 6 * 8);
    (word(&file, header + 8), blocks[19])
}

fn assert_as_it_was(path: &Path, block: u64) {
    let segment = Options::new(0).anywhere().open(path).unwrap();
    assert!(segment.bytes().iter().all(|byte| *byte == 1));
    assert_eq!(segment.get(block, 100).unwrap(), [2; 100]);
    assert_eq!(segment.verify().unwrap().blocks, 20);
}

#[test]
fn a_segment_of_another_version_is_refused_with_both_versions() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("segment");
    let (_, block) = make(&path);
    let file = open_file(&path);
    for (at, message) in [(VERSION, "its header version is"), (LAYOUT, "another version")] {
        let found = word(&file, at);
        for other in [found + 1, 0, u64::MAX] {
            file.write_all_at(&other.to_ne_bytes(), at).unwrap();
            let before = std::fs::read(&path).unwrap();
            let refused = Options::new(0).anywhere().open(&path).unwrap_err();
            assert!(matches!(&refused, Error::Memory(rio::Error::Unusable { .. })), "{refused}");
            let text = refused.to_string();
            let numbers = [format!("{other:#x}"), format!("expected {found:#x}"), path.display().to_string()];
            assert!(text.contains(message) && numbers.iter().all(|number| text.contains(number)), "{text}");
            assert!(std::fs::read(&path).unwrap() == before, "nothing was changed");
        }
        file.write_all_at(&found.to_ne_bytes(), at).unwrap();
    }
    assert_as_it_was(&path, block);
}

#[test]
fn an_environments_segment_of_another_version_is_refused_with_a_message() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("segment");
    let member = Membership { environment: [7; 16], number: 3 };
    let open = || Options::new(4096).anywhere().open_member(&path, member);
    drop(open().unwrap());
    let file = open_file(&path);
    let header = word(&file, MEMBER_HEADER);
    let found = word(&file, header);
    file.write_all_at(&(found ^ 1).to_ne_bytes(), header).unwrap();
    // The segment is opened as a member of its environment, and without the environment.
    for refused in [open().map(drop).unwrap_err(), Options::new(0).anywhere().open(&path).map(drop).unwrap_err()] {
        assert!(matches!(&refused, Error::Damaged { .. }), "{refused}");
        assert!(refused.to_string().contains("another layout, of another version of the library"), "{refused}");
    }
    file.write_all_at(&found.to_ne_bytes(), header).unwrap();
    file.write_all_at(&u64::MAX.to_ne_bytes(), MEMBER_HEADER).unwrap();
    assert!(open().map(drop).unwrap_err().to_string().contains("is outside the file"));
    file.write_all_at(&header.to_ne_bytes(), MEMBER_HEADER).unwrap();
    open().unwrap();
}

/// If the library read bytes that the file does not have, `SIGBUS` would kill the whole test.
#[test]
fn a_truncated_segment_is_refused_and_not_changed() {
    let directory = tempfile::tempdir().unwrap();
    let (path, cut) = (directory.path().join("segment"), directory.path().join("cut"));
    let (flat, block) = make(&path);
    let file = open_file(&path);
    let (used, length) = (word(&file, USED), file.metadata().unwrap().len());
    // In the file, the table's second part follows the blocks that have entries in the first part.
    let ends = [
        ("nothing", 0),
        ("a part of the header", 100),
        ("only the header", 4096),
        ("a part of the front", flat / 2),
        ("a part of the flat part", flat + FLAT / 2),
        ("the flat part, and no heap", flat + FLAT),
        ("a part of the heap, and of the table", flat + FLAT + (used - flat - FLAT) / 3),
        ("a part of the heap, and of the table", flat + FLAT + 2 * (used - flat - FLAT) / 3),
        ("all before the last block", flat + block),
        ("all but a unit", used - UNIT),
        ("all but a page", length - 4096),
        ("all but a byte", length - 1),
    ];
    for (left, bytes) in ends {
        assert!(bytes < length);
        std::fs::copy(&path, &cut).unwrap();
        open_file(&cut).set_len(bytes).unwrap();
        // The header says that the segment was closed in good order, or that it is in use.
        for is_clean in [true, false] {
            if bytes >= 4096 {
                open_file(&cut).write_all_at(&u64::from(is_clean).to_ne_bytes(), 120).unwrap();
            }
            let before = std::fs::read(&cut).unwrap();
            let refused = Options::new(0).anywhere().open(&cut).map(drop).unwrap_err();
            assert!(matches!(&refused, Error::Memory(rio::Error::Unusable { .. })), "{left}: {refused}");
            let message = if bytes < 4096 { "its header alone" } else { "its sizes contradict each other" };
            assert!(refused.to_string().contains(message), "{left}: {refused}");
            assert!(
                std::fs::read(&cut).unwrap() == before,
                "only {left} was left, and the refused opening has changed the file"
            );
        }
        // The file gets its old length again. The missing bytes are now zeros, so the tables do not match their seal.
        open_file(&cut).set_len(length).unwrap();
        if bytes >= 4096 && bytes <= flat + FLAT {
            open_file(&cut).write_all_at(&1_u64.to_ne_bytes(), 120).unwrap();
            let opened = Options::new(0).anywhere().open(&cut);
            assert!(opened.is_err(), "a file that has only {left}, and then zeros, was opened");
        }
    }
    assert_as_it_was(&path, block);
}

#[test]
fn a_full_heap_refuses_more_blocks_and_stays_usable() {
    const RESERVE: u64 = 16 << 20;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("segment");
    let options = Options::new(4096).reserve(RESERVE).anywhere();
    let mut segment = options.open(&path).unwrap();
    let mut have = Vec::new();
    // Blocks of several kinds are allocated, each kind until the segment has no room for another block of it.
    for bytes in [1 << 20, 100_000, 20_000, 100] {
        let full = loop {
            let mut txn = segment.begin();
            match txn.malloc(bytes) {
                Ok(at) => {
                    let fill = u8::try_from(have.len() % 251).unwrap();
                    txn.set_range(at, usize::try_from(bytes).unwrap()).unwrap().fill(fill);
                    txn.end().unwrap();
                    have.push((at, usize::try_from(bytes).unwrap(), fill));
                }
                Err(full) => {
                    // The refusal does not abort the transaction: its earlier and later changes are kept.
                    txn.set_range(0, 8).unwrap().fill(9);
                    txn.end().unwrap();
                    break full;
                }
            }
        };
        assert!(matches!(&full, Error::Memory(rio::Error::Reserve { reserve: RESERVE, .. })), "{full}");
        let text = full.to_string();
        assert!(text.contains("has reached the 16777216 bytes") && text.contains("nothing was changed"), "{text}");
        assert!(text.contains(path.to_str().unwrap()), "{text}");
        assert_eq!(segment.bytes()[..8], [9; 8]);
    }
    let is_there = |segment: &vista::Segment, have: &[(u64, usize, u8)]| {
        let is_whole =
            |&(at, bytes, fill): &(u64, usize, u8)| segment.get(at, bytes).unwrap().iter().all(|it| *it == fill);
        assert_eq!((have.iter().all(is_whole), segment.verify().unwrap().blocks), (true, have.len() as u64));
    };
    assert!(have.len() > 15, "{}", have.len());
    is_there(&segment, &have);
    // Refused calls take no memory, even if they are repeated and whether their transaction ends or aborts.
    for is_ended in [true, false] {
        let mut txn = segment.begin();
        for _ in 0..100 {
            txn.malloc(1 << 20).unwrap_err();
        }
        if is_ended {
            txn.end().unwrap();
        } else {
            txn.abort();
        }
        is_there(&segment, &have);
    }
    // Freed blocks can be allocated again, in the next transaction and after the segment was opened again.
    for _ in 0..3 {
        let (at, bytes, fill) = have.remove(0);
        let mut txn = segment.begin();
        txn.free(at).unwrap();
        txn.malloc(bytes as u64).unwrap_err();
        txn.end().unwrap();
        is_there(&segment, &have);
        let mut txn = segment.begin();
        let at = txn.malloc(bytes as u64).unwrap();
        txn.set_range(at, bytes).unwrap().fill(fill);
        txn.end().unwrap();
        have.push((at, bytes, fill));
        is_there(&segment, &have);
        drop(segment);
        segment = options.open(&path).unwrap();
        is_there(&segment, &have);
    }
    let mut txn = segment.begin();
    have.iter().for_each(|(at, ..)| txn.free(*at).unwrap());
    txn.end().unwrap();
    assert_eq!(segment.verify().unwrap().blocks, 0);
    segment.begin().malloc(4 << 20).unwrap();
}

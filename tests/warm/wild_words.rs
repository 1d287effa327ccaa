//! A wild store hits a word of the memory that has acknowledged commits, and the process that did the store dies. The
//! next process finds the commits nevertheless, and does not report them as lost.

use std::os::unix::fs::FileExt;
use std::path::Path;

use libtp::OpenedBy;
#[cfg(feature = "failpoints")]
use libtp_tests::process::{Process, FAILPOINT};

#[cfg(feature = "failpoints")]
use crate::basics::DIRECTORY;
use crate::basics::{apples, found, killed, region_of, start_machine_again};

/// A word that no code stores.
const NONSENSE: u64 = 0x1357_9BDF_0246_8ACE;
/// Offset in the region's header of the word with the offset of the log's header (docs/formats/region.md).
const LOG_ROOT: u64 = 128 + 8;
/// The words of the log's header that are hit: all words before its directory, and the directory's first words.
const WORDS: std::ops::Range<u64> = 0..36;
/// The word with the log's end.
const TAIL: u64 = 1;

fn hit(directory: &Path, word: u64) {
    let file = std::fs::OpenOptions::new().read(true).write(true).open(region_of(directory)).unwrap();
    let mut header = [0; 8];
    file.read_exact_at(&mut header, LOG_ROOT).unwrap();
    file.write_all_at(&NONSENSE.to_ne_bytes(), u64::from_ne_bytes(header) + 8 * word).unwrap();
}

fn with_a_commit_only_in_memory() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    found(directory.path(), "region_survives = \"system\"\ndurability = \"rio\"");
    killed(directory.path());
    directory
}

#[test]
fn commits_survive_a_hit_of_any_word_of_the_log_and_a_restart() {
    for word in WORDS {
        let directory = with_a_commit_only_in_memory();
        hit(directory.path(), word);
        start_machine_again(directory.path());
        let kept = (OpenedBy::Survived, false, Some(b"3".to_vec()));
        assert_eq!(apples(directory.path()), kept, "word {word} was hit");
    }
}

#[test]
fn no_loss_is_reported_where_all_commits_were_found() {
    let directory = with_a_commit_only_in_memory();
    hit(directory.path(), TAIL);
    assert_eq!(apples(directory.path()), (OpenedBy::Restarted, false, Some(b"3".to_vec())));
}

/// A panic while the log is read from memory means that the memory cannot be trusted. The opening process reports a
/// loss, and does not end with the panic.
#[cfg(feature = "failpoints")]
#[test]
fn a_panic_at_the_salvage_of_the_log_is_reported_as_a_loss() {
    for word in [None, Some(TAIL)] {
        let directory = with_a_commit_only_in_memory();
        match word {
            Some(word) => hit(directory.path(), word),
            None => start_machine_again(directory.path()),
        }
        let panics = "rescue: a piece written, not synced!panic";
        let variables = [(DIRECTORY, directory.path().display().to_string()), (FAILPOINT, panics.to_owned())];
        let mut child = Process::start("basics::opens", &variables);
        child.order("end");
        assert!(child.wait().success(), "word {word:?}: the opening process panicked");
        child.says("lost");
        let (_, lost, _) = apples(directory.path());
        assert!(!lost, "the loss is reported once");
    }
}

#[test]
fn a_loss_is_reported_where_a_commit_itself_was_hit() {
    let directory = with_a_commit_only_in_memory();
    hit(directory.path(), TAIL);
    // The bytes of the commit's record are changed, too.
    let file = std::fs::OpenOptions::new().read(true).write(true).open(region_of(directory.path())).unwrap();
    let memory = std::fs::read(region_of(directory.path())).unwrap();
    let places: Vec<usize> =
        memory.windows(6).enumerate().filter(|(_, six)| six == b"apples").map(|(at, _)| at).collect();
    places.iter().for_each(|&at| file.write_all_at(b"APPLES", at as u64).unwrap());
    let (how, lost, value) = apples(directory.path());
    assert_eq!((how, lost, value), (OpenedBy::Restarted, true, None));
}

//! The announcements of a machine before it crashed: one line for each ended transaction, sent at once.
//!
//! A separate line marks the beginning of each life of the machine. A crash may cut off the last line of a life; an
//! incomplete line is ignored.

use std::collections::HashMap;
use std::fs;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// One life of a machine.
#[derive(Debug, Default)]
pub struct Life {
    /// The number of ended transactions of the segment, in the first announcement of the life and in the last.
    pub segment: (u64, u64),
    /// The environment whose memory is kept.
    pub records: Line,
    /// The environment whose memory is not kept.
    pub lost: Line,
}

/// The announcements about an environment: the number of committed transfers in the first announcement and in the last,
/// and for each number `n` the digest of the first `n` transfers.
#[derive(Debug, Default)]
pub struct Line {
    pub began: u64,
    pub last: u64,
    pub digests: HashMap<u64, u64>,
}

impl Line {
    /// Returns the number of transfers committed in this life.
    pub fn steps(&self) -> u64 {
        self.last - self.began
    }

    fn says(&mut self, committed: u64, digest: u64, is_beginning: bool) {
        if is_beginning {
            *self = Line { began: committed, ..Line::default() };
        }
        self.last = committed;
        self.digests.insert(committed, digest);
    }
}

/// The announcements of a machine, life by life.
pub struct Announcements {
    path: PathBuf,
    /// The place where the next life begins, or the end of the bytes read.
    at: u64,
}

impl Announcements {
    pub fn new(path: &Path) -> Announcements {
        Announcements { path: path.to_owned(), at: 0 }
    }

    /// Returns the next life. Announcements of a later life are left for the next call.
    pub fn life(&mut self) -> Life {
        let mut bytes = Vec::new();
        if let Ok(mut file) = fs::File::open(&self.path) {
            let _ = file.seek(SeekFrom::Start(self.at)).and_then(|_| file.read_to_end(&mut bytes));
        }
        let (life, length) = first_life(&bytes);
        self.at += length;
        life
    }
}

/// Returns the first life, and its length in bytes.
fn first_life(bytes: &[u8]) -> (Life, u64) {
    let (mut life, mut length, mut has_begun) = (Life::default(), 0, false);
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        let said = std::str::from_utf8(line).unwrap_or_default().trim_end();
        let (letter, rest) = (said.get(..1).unwrap_or_default(), said.get(1..).unwrap_or_default());
        let hex = |from: usize, to: usize| rest.get(from..to).and_then(|digits| u64::from_str_radix(digits, 16).ok());
        match (letter, rest.len(), hex(0, 12), hex(12, 28)) {
            ("b", 12, Some(_), _) if has_begun => break,
            ("b", 12, Some(ended), _) => (life.segment, has_begun) = ((ended, ended), true),
            ("k", 12, Some(ended), _) => life.segment.1 = ended,
            ("R" | "r", 28, Some(committed), Some(digest)) => life.records.says(committed, digest, letter == "R"),
            ("L" | "l", 28, Some(committed), Some(digest)) => life.lost.says(committed, digest, letter == "L"),
            // The line was cut off.
            _ => {}
        }
        length += line.len() as u64;
    }
    (life, length)
}

#[cfg(test)]
mod tests {
    use super::first_life;

    #[test]
    fn a_life_ends_where_the_next_life_begins_and_incomplete_lines_are_ignored() {
        let told = "\nb000000000005\nR0000000000020000000000000007\nk000000000006\nr00000000000300000000000000ff\nr0000000000040\n\
                    \nb000000000006\nk000000000007\n";
        let (life, length) = first_life(told.as_bytes());
        assert_eq!((life.segment, life.records.began, life.records.last), ((5, 6), 2, 3));
        assert_eq!(life.records.digests.get(&3), Some(&0xff));
        let (next, _) = first_life(&told.as_bytes()[usize::try_from(length).unwrap()..]);
        assert_eq!((next.segment, next.records.last), ((6, 7), 0));
    }
}

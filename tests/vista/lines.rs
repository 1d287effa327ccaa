//! The possible states of memory that outlives the cache: more states than the program has stored.
//!
//! For each line that was stored to since its last write-back, memory has the bytes that the write-back wrote, or the
//! bytes after any later store. The file has the length that it had at its last sync.

use std::collections::BTreeMap;

use crate::business::Draw;
use crate::trace::Event;

/// Bytes of a line.
pub const LINE: usize = 64;

/// The states of memory that outlives the cache.
pub struct Lines {
    /// The bytes that are certainly in memory. Their number is the file's length on its disk.
    memory: Vec<u8>,
    /// The bytes stored last.
    stored: Vec<u8>,
    /// For each line, the versions that were stored after the version in `memory`. Memory may have any of these
    /// versions instead.
    since: BTreeMap<usize, Vec<Vec<u8>>>,
    /// For each line, the number of versions in `since` that a write-back has begun to write.
    underway: BTreeMap<usize, usize>,
    draw: Draw,
}

impl Lines {
    /// Begins with memory that has all stored bytes.
    pub fn new(stored: &[u8], seed: u64) -> Lines {
        let (memory, stored) = (stored.to_vec(), stored.to_vec());
        Lines { memory, stored, since: BTreeMap::new(), underway: BTreeMap::new(), draw: Draw(seed) }
    }

    /// Updates the possible states after an event. `stored` is the stored bytes after the event.
    pub fn told(&mut self, event: Event, stored: &[u8]) {
        if matches!(event, Event::Store | Event::Sync) {
            self.note(stored);
        }
        match event {
            Event::Store | Event::Answered => {}
            Event::WriteBack(line) => {
                self.underway.insert(line, self.since.get(&line).map_or(0, Vec::len));
            }
            Event::Fence => {
                for (line, count) in std::mem::take(&mut self.underway) {
                    let Some(versions) = self.since.get_mut(&line) else { continue };
                    if let Some(version) = versions.drain(..count).next_back() {
                        // A line after the end of the file on its disk is lost.
                        if let Some(there) = self.memory.get_mut(line..line + LINE) {
                            there.copy_from_slice(&version);
                        }
                    }
                    if versions.is_empty() {
                        self.since.remove(&line);
                    }
                }
            }
            // The file may have grown. Its new bytes were written by system calls and not by stores into the mapping,
            // so the sync has put them on the disk.
            Event::Sync => {
                let known = self.memory.len();
                self.memory.extend_from_slice(&stored[known.min(stored.len())..]);
            }
        }
    }

    /// Notes the present versions of the lines that were stored to.
    fn note(&mut self, stored: &[u8]) {
        self.stored.resize(stored.len(), 0);
        for (line, now) in stored.chunks(LINE).enumerate() {
            let line = line * LINE;
            if self.stored[line..line + LINE] != *now {
                self.since.entry(line).or_default().push(now.to_vec());
                self.stored[line..line + LINE].copy_from_slice(now);
            }
        }
    }

    /// Returns a possible state of memory: for each line the certain bytes, or a later version.
    pub fn state(&mut self) -> Vec<u8> {
        let mut state = self.memory.clone();
        for (line, versions) in self.since.iter().filter(|(line, _)| **line < self.memory.len()) {
            // The first and the last version are drawn more often than the versions in between.
            let drawn = match self.draw.below(3) {
                0 => None,
                1 => usize::try_from(self.draw.below(versions.len() as u64)).ok(),
                _ => Some(versions.len() - 1),
            };
            if let Some(drawn) = drawn {
                state[*line..line + LINE].copy_from_slice(&versions[drawn]);
            }
        }
        state
    }
}

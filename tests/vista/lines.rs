//! What memory has where it outlives the cache: more states than what was stored.
//!
//! Of each line that was stored to since it was last written back, memory has what it had then, or what it had after any of the
//! stores since. And the file is as long as it was when it was synced last.

use std::collections::BTreeMap;

use crate::business::Draw;
use crate::trace::Event;

/// Bytes of a line.
pub const LINE: usize = 64;

/// What memory has where it outlives the cache.
pub struct Lines {
    /// What is there for certain; as long as the file is on its disk.
    memory: Vec<u8>,
    /// What was stored last.
    stored: Vec<u8>,
    /// What each line has been since: one of these may be there instead.
    since: BTreeMap<usize, Vec<Vec<u8>>>,
    /// How many of those are on their way, in part or whole.
    underway: BTreeMap<usize, usize>,
    draw: Draw,
}

impl Lines {
    /// In the beginning nothing is under way.
    pub fn new(stored: &[u8], seed: u64) -> Lines {
        let (memory, stored) = (stored.to_vec(), stored.to_vec());
        Lines { memory, stored, since: BTreeMap::new(), underway: BTreeMap::new(), draw: Draw(seed) }
    }

    /// What happened, and what is stored after it.
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
                        // What lies behind the end of the file on its disk is nowhere.
                        if let Some(there) = self.memory.get_mut(line..line + LINE) {
                            there.copy_from_slice(&version);
                        }
                    }
                    if versions.is_empty() {
                        self.since.remove(&line);
                    }
                }
            }
            // What is new was filled by calls, not by stores into the mapping.
            Event::Sync => {
                let known = self.memory.len();
                self.memory.extend_from_slice(&stored[known.min(stored.len())..]);
            }
        }
    }

    /// Notes what the lines that were stored to are now.
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

    /// What memory may have now: of each line what is there, or what it was after any store since.
    pub fn state(&mut self) -> Vec<u8> {
        let mut state = self.memory.clone();
        for (line, versions) in self.since.iter().filter(|(line, _)| **line < self.memory.len()) {
            // The first and the last more often than one in between.
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

//! Plain mode: the pairs of one file, in this process's memory and in the order of the file's rule. `sync` writes the
//! changes to the file.
//!
//! Paper: none; this is db(3) without LIBTP. Plain mode has no log, no locks on records and no shared memory, so only
//! one program at a time may use a file.

use std::collections::BTreeMap;
use std::ffi::c_int;
use std::ops::Bound;

use crate::db::keyed::{Found, Pairs, Place, SeekTo};
use crate::db::plain_file::{Frame, PlainFile};
use crate::db::refusal::{copied, Answer, Refusal};
use crate::db::rule::{Entry, Rule};

/// The length of a pair's number, in bytes. A place is the pair's number and then its key.
const NUMBER_BYTES: usize = 8;

/// The pairs, with their file if there is one.
pub(crate) struct Plain {
    rule: Rule,
    pairs: BTreeMap<Entry, Box<[u8]>>,
    file: Option<PlainFile>,
    has_duplicates: bool,
    /// The number of the next pair in a file with duplicates.
    next: u64,
    /// Total size of the frames of all pairs, in bytes.
    live_bytes: u64,
}

impl Plain {
    /// Reads the pairs of a file. Without a file there are no pairs.
    pub(crate) fn open(rule: Rule, has_duplicates: bool, mut file: Option<PlainFile>) -> Answer<Plain> {
        let mut plain = Plain { rule, pairs: BTreeMap::new(), file: None, has_duplicates, next: 1, live_bytes: 0 };
        if let Some(file) = &mut file {
            file.read(|frame| match frame {
                Frame::Put { key, number, value } => plain.insert(key, number, value),
                Frame::Delete { key, number } => {
                    plain.take(&Entry::new(rule, key, number));
                }
            })?;
        }
        plain.file = file;
        Ok(plain)
    }

    fn insert(&mut self, key: &[u8], number: u64, value: &[u8]) {
        let entry = Entry::new(self.rule, key, number);
        self.next = self.next.max(number + 1);
        // An equal key may have different bytes. The bytes of the last put stay.
        self.take(&entry);
        self.live_bytes += Frame::Put { key, number, value }.bytes();
        self.pairs.insert(entry, value.into());
    }

    /// Removes a pair and returns its entry.
    fn take(&mut self, entry: &Entry) -> Option<Entry> {
        let (entry, value) = self.pairs.remove_entry(entry)?;
        let gone = Frame::Put { key: &entry.key, number: entry.number, value: &value };
        self.live_bytes = self.live_bytes.saturating_sub(gone.bytes());
        Some(entry)
    }

    /// Inserts a pair and notes it for the file's next sync.
    fn store(&mut self, key: &[u8], number: u64, value: &[u8]) -> Place {
        self.insert(key, number, value);
        if let Some(file) = &mut self.file {
            file.note(Frame::Put { key, number, value }, self.live_bytes);
        }
        place(key, number)
    }

    fn remove(&mut self, entry: &Entry) -> bool {
        let Some(entry) = self.take(entry) else { return false };
        if let Some(file) = &mut self.file {
            file.note(Frame::Delete { key: &entry.key, number: entry.number }, self.live_bytes);
        }
        true
    }

    /// Returns the first pair with a key.
    fn first_of(&self, key: &[u8]) -> Option<(&Entry, &[u8])> {
        let sought = Entry::new(self.rule, key, 0);
        let (entry, value) = self.pairs.range((Bound::Included(&sought), Bound::Unbounded)).next()?;
        entry.has_key_of(&sought).then_some((entry, value))
    }

    fn entry(&self, place: &Place) -> Answer<Entry> {
        let (number, key) =
            place.split_first_chunk::<NUMBER_BYTES>().ok_or_else(|| Refusal::invalid("a cursor has no place"))?;
        Ok(Entry::new(self.rule, key, u64::from_le_bytes(*number)))
    }
}

fn check_length(what: &str, bytes: &[u8]) -> Answer<()> {
    match u32::try_from(bytes.len()) {
        Ok(_) => Ok(()),
        Err(_) => Err(Refusal::invalid(format!(
            "{what} of {} bytes was given, and the limit is 4 GiB less one byte",
            bytes.len()
        ))),
    }
}

fn place(key: &[u8], number: u64) -> Place {
    [&number.to_le_bytes()[..], key].concat()
}

impl Pairs for Plain {
    fn get(&mut self, key: &[u8]) -> Answer<Option<Vec<u8>>> {
        self.first_of(key).map(|(_, value)| copied(value)).transpose()
    }

    fn put(&mut self, key: &[u8], value: &[u8], is_new: bool) -> Answer<Option<Place>> {
        if is_new && self.first_of(key).is_some() {
            return Ok(None);
        }
        check_length("a key", key)?;
        check_length("data", value)?;
        let number = if self.has_duplicates { self.next } else { 0 };
        Ok(Some(self.store(key, number, value)))
    }

    fn put_at(&mut self, old: &Place, key: &[u8], value: &[u8]) -> Answer<Option<Place>> {
        let old = self.entry(old)?;
        if !self.pairs.contains_key(&old) {
            return Ok(None);
        }
        let new = Entry::new(self.rule, key, old.number);
        check_length("a key", key)?;
        check_length("data", value)?;
        if new.has_key_of(&old) {
            return Ok(Some(self.store(key, old.number, value)));
        }
        self.remove(&old);
        self.put(key, value, false)
    }

    fn delete(&mut self, key: &[u8]) -> Answer<bool> {
        let mut found = false;
        while let Some((entry, _)) = self.first_of(key) {
            let entry = Entry::new(self.rule, &entry.key, entry.number);
            // If the program's comparison function defines no order, the pair may not be found again.
            if !self.remove(&entry) {
                break;
            }
            found = true;
        }
        Ok(found)
    }

    fn delete_at(&mut self, place: &Place) -> Answer<bool> {
        let entry = self.entry(place)?;
        Ok(self.remove(&entry))
    }

    fn seek(&mut self, sought: SeekTo<'_>) -> Answer<Option<Found>> {
        let found = match sought {
            SeekTo::First => self.pairs.first_key_value(),
            SeekTo::Last => self.pairs.last_key_value(),
            SeekTo::From(key) => self.pairs.range(Entry::new(self.rule, key, 0)..).next(),
            SeekTo::Behind(place) => {
                let entry = self.entry(place)?;
                self.pairs.range((Bound::Excluded(&entry), Bound::Unbounded)).next()
            }
            SeekTo::Before(place) => self.pairs.range(..self.entry(place)?).next_back(),
        };
        let Some((entry, value)) = found else { return Ok(None) };
        let (key, value) = (copied(&entry.key)?, copied(value)?);
        Ok(Some(Found { place: place(&entry.key, entry.number), key, value }))
    }

    fn sync(&mut self) -> Answer<()> {
        let Some(file) = &mut self.file else { return Ok(()) };
        let live = self.pairs.iter().map(|(entry, value)| Frame::Put { key: &entry.key, number: entry.number, value });
        file.sync(live, self.live_bytes)
    }

    fn descriptor(&mut self) -> Answer<c_int> {
        match &self.file {
            Some(file) => Ok(file.descriptor()),
            None => Err(Refusal::new(libc::ENOENT, "the database is only in memory, and has no file")),
        }
    }
}

#[cfg(test)]
mod tests;

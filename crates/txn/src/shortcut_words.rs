//! The words of the shortcuts (`shortcuts.rs`): sets of entries for short, long and very long records.
//!
//! Invariant: the edition of an entry is odd while a session writes the entry. A reader that finds an odd edition, or
//! another edition after it has read, discards the bytes.
//!
//! If the session dies here: the edition stays odd, and the entry is invalid until another session writes it. So the
//! write needs no section.

use libtp_log::Lsn;
use libtp_process::SessionId;
use rio::{failpoint, planted, Word};

/// The number of entries of one set. The hashes of their names select the same set.
const WAYS: usize = 4;
/// The number of sets for short records.
const SETS: usize = 256;
/// The number of words for a record's name and version.
const WORDS: usize = 59;
/// The number of sets for longer records.
const LONG_SETS: usize = 16;
/// The number of words for a longer record.
const LONG_WORDS: usize = 251;
/// The number of sets for the longest records: up to a quarter of the largest page, the limit of trees and hash files.
/// A longer record has no entry.
const LONGEST_SETS: usize = 2;
/// The number of words for one of the longest records.
const LONGEST_WORDS: usize = 2099;
rio::shared! {
    /// The head of one entry.
    pub struct Shortcut {
        /// The session that writes the entry; zero if no session writes it.
        pub writer: Word<SessionId>,
        /// The edition: odd while a session writes the entry.
        pub edition: Word<u64>,
        /// The log's tail when the record had that version; `Lsn::NONE` if the entry is empty.
        pub place: Word<Lsn>,
        /// The version.
        pub lsn: Word<Lsn>,
        /// The length of the name, the length of the stored value, and flags: sixteen bits each.
        pub lengths: Word<u64>,
    } size 40
}

rio::shared! {
    /// The entries of one set.
    pub struct ShortcutEntries {
        /// The hash of each entry's name.
        pub hashes: [Word<u64>; WAYS],
        /// For each entry, the number of further searches for room that it survives. One in eight changes of its record
        /// adds one to the number.
        pub used: [Word<u64>; WAYS],
        /// The entries.
        pub entries: [Shortcut; WAYS],
    } size 224
}

rio::shared! {
    /// A set, and for each entry the name, then the stored value.
    pub struct ShortcutSet {
        /// The entries.
        pub set: ShortcutEntries,
        /// Their words.
        pub words: [[Word<u64>; WORDS]; WAYS],
    } size 2112
}

rio::shared! {
    /// As [`ShortcutSet`], for longer records.
    pub struct LongShortcutSet {
        /// The entries.
        pub set: ShortcutEntries,
        /// Their words.
        pub words: [[Word<u64>; LONG_WORDS]; WAYS],
    } size 8256
}

rio::shared! {
    /// As [`ShortcutSet`], for the longest records.
    pub struct LongestShortcutSet {
        /// The entries.
        pub set: ShortcutEntries,
        /// Their words.
        pub words: [[Word<u64>; LONGEST_WORDS]; WAYS],
    } size 67392
}

rio::shared! {
    /// All sets.
    pub struct Shortcuts {
        /// The sets for short records, by hash.
        pub sets: [ShortcutSet; SETS],
        /// The sets for longer records, by hash.
        pub long_sets: [LongShortcutSet; LONG_SETS],
        /// The sets for the longest records, by hash. A set to which no record belongs is never touched.
        pub longest_sets: [LongestShortcutSet; LONGEST_SETS],
    } size 807552
}

/// A version of a record, as the access method stores it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OldVersion {
    /// The log record that made it.
    pub lsn: Lsn,
    /// Its flags.
    pub flags: u8,
    /// The stored bytes.
    pub stored: Vec<u8>,
}

/// One set of any length.
#[derive(Clone, Copy)]
pub(crate) struct Set<'s> {
    pub(crate) set: &'s ShortcutEntries,
    pub(crate) words: [&'s [Word<u64>]; WAYS],
}

impl Shortcuts {
    /// Returns the set for a record of that hash whose name and stored value have `bytes` bytes; `None` if no entry has
    /// room for them.
    pub(crate) fn set_for(&self, hash: u64, bytes: usize) -> Option<Set<'_>> {
        self.sets_of(hash).into_iter().find(|found| bytes <= found.words[0].len() * 8)
    }

    /// Returns the sets where a record of that hash may be: it may have been shorter or longer. The sets for short
    /// records come first.
    fn sets_of(&self, hash: u64) -> [Set<'_>; 3] {
        let nth = usize::try_from(hash >> 32).unwrap_or(0);
        let short = &self.sets[nth % SETS];
        let long = &self.long_sets[nth % LONG_SETS];
        let longest = &self.longest_sets[nth % LONGEST_SETS];
        [
            Set { set: &short.set, words: short.words.each_ref().map(<[_; WORDS]>::as_slice) },
            Set { set: &long.set, words: long.words.each_ref().map(<[_; LONG_WORDS]>::as_slice) },
            Set { set: &longest.set, words: longest.words.each_ref().map(<[_; LONGEST_WORDS]>::as_slice) },
        ]
    }

    /// Returns the oldest version that the record of that name is known to have had at `from` or later.
    pub(crate) fn find(&self, hash: u64, name: &[u8], from: Lsn) -> Option<OldVersion> {
        let of_set = |Set { set, words }| {
            let known = (0..WAYS).filter(|way| set.hashes[*way].load() == hash);
            known.filter_map(|way| set.entries[way].read(words[way], name, from)).min_by_key(|version| version.lsn)
        };
        self.sets_of(hash).into_iter().filter_map(of_set).min_by_key(|version| version.lsn)
    }
}

impl ShortcutEntries {
    /// Returns the number of the entry for a new shortcut. If all entries are in use, returns `None` and lowers the
    /// count `used` of each entry by one.
    pub(crate) fn room(&self, hash: u64, place: Lsn) -> Option<usize> {
        // A record has at most two shortcuts, for the newest snapshots.
        let own = (0..WAYS).filter(|way| self.hashes[*way].get() == hash);
        let mut own: Vec<usize> = own.collect();
        own.sort_by_key(|way| self.entries[*way].place.load());
        if let [oldest, _, ..] = own[..] {
            return Some(oldest);
        }
        let first = usize::try_from(place.raw() / 8 % WAYS as u64).unwrap_or(0);
        let mut ways = (0..WAYS).map(|way| (first + way) % WAYS);
        let is_new = |way: &usize| self.entries[*way].place.load() == Lsn::NONE;
        let found = ways.clone().find(is_new).or_else(|| ways.find(|way| self.used[*way].get() == 0));
        if found.is_none() {
            self.used.iter().for_each(|used| used.init(used.get().saturating_sub(1)));
        }
        found
    }
}

fn sixteen_bits(word: u64, at: u32) -> usize {
    usize::from(u16::from_le_bytes([word.to_le_bytes()[at as usize], word.to_le_bytes()[at as usize + 1]]))
}

impl Shortcut {
    /// Writes the entry. The caller is its writer.
    pub(crate) fn write(&self, words: &[Word<u64>], place: Lsn, name: &[u8], version: &OldVersion) {
        let edition = self.edition.load() | 1;
        self.edition.publish(edition);
        // Release, for all these stores: a reader that sees any of them also sees the odd edition.
        self.place.publish(place);
        self.lsn.publish(version.lsn);
        let lengths = name.len() as u64 | (version.stored.len() as u64) << 16 | u64::from(version.flags) << 32;
        self.lengths.publish(lengths);
        failpoint("shortcut: being written");
        let bytes = [name, &version.stored].concat();
        for (word, chunk) in words.iter().zip(bytes.chunks(8)) {
            let mut eight = [0; 8];
            eight[..chunk.len()].copy_from_slice(chunk);
            word.publish(u64::from_le_bytes(eight));
        }
        self.edition.publish(edition + 1);
    }

    /// Returns the version that the entry has for the record of that name at `from` or later.
    fn read(&self, words: &[Word<u64>], name: &[u8], from: Lsn) -> Option<OldVersion> {
        // Acquire, for all these loads and the loads of the words: the second load of the edition comes after them.
        let edition = self.edition.load();
        let (place, lsn, lengths) = (self.place.load(), self.lsn.load(), self.lengths.load());
        let (name_bytes, stored_bytes) = (sixteen_bits(lengths, 0), sixteen_bits(lengths, 2));
        if place < from && !planted("snapshot: a snapshot uses shortcuts of any age") {
            return None;
        }
        if name_bytes != name.len() || place == Lsn::NONE || name_bytes + stored_bytes > words.len() * 8 {
            return None;
        }
        let words = words.iter().take((name_bytes + stored_bytes).div_ceil(8));
        let mut bytes: Vec<u8> = words.flat_map(|word| word.load().to_le_bytes()).collect();
        let is_whole = edition % 2 == 0 && self.edition.load() == edition;
        if !is_whole || bytes[..name_bytes] != *name {
            return None;
        }
        bytes.truncate(name_bytes + stored_bytes);
        Some(OldVersion { lsn, flags: lengths.to_le_bytes()[4], stored: bytes.split_off(name_bytes) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_returns_only_a_complete_version_of_its_own_name() {
        let region = rio::Region::anonymous(1 << 20).unwrap();
        let entry = region.at(region.allocate::<Shortcut>(1).unwrap());
        let words = region.at(region.allocate::<[Word<u64>; WORDS]>(1).unwrap());
        assert_eq!(entry.read(words, b"name", Lsn::NONE), None);
        let version = OldVersion { lsn: Lsn::new(80), flags: 2, stored: (0..100).collect() };
        entry.write(words, Lsn::new(800), b"name", &version);
        assert_eq!(entry.read(words, b"name", Lsn::new(800)), Some(version.clone()));
        assert_eq!(entry.read(words, b"nama", Lsn::new(800)), None);
        assert_eq!(entry.read(words, b"nam", Lsn::new(800)), None);
        assert_eq!(entry.read(words, b"name", Lsn::new(808)), None, "the entry is not valid for later places");
        let edition = entry.edition.load();
        entry.edition.publish(edition + 1);
        assert_eq!(entry.read(words, b"name", Lsn::new(800)), None, "its writer may have died");
        let shorter = OldVersion { stored: Vec::new(), ..version };
        entry.write(words, Lsn::new(808), b"name", &shorter);
        assert_eq!(entry.read(words, b"name", Lsn::new(808)), Some(shorter));
    }
}

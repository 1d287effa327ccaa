//! Shortcuts through long histories: the version that a record had a few changes after a snapshot's place.
//!
//! Not in the paper (PROTOCOLS S4). A record that is changed very often has as many versions as changes, and a late
//! reader would walk through all of them. So while a snapshot is held, a session that changes a record which was
//! changed since leaves a copy of its version here, one time in eight, if there is no copy yet. The copy has the log's
//! tail at that moment: *at this place of the log the record had this version*. A reader whose snapshot ends there or
//! before begins its walk at that version, usually a few steps from the one it sees. A record that is changed once or
//! twice costs nothing here, and needs nothing.
//!
//! The shortcuts are a cache. The statement of an entry stays true whatever becomes of the record, and a missing entry
//! costs a longer walk. Entries of records that are changed again and again keep their places. A record of more than 16
//! KiB in a page has no entry.
//!
//! Invariants
//! 1. The edition of an entry is odd while it is written. A reader that finds an odd edition, or another one
//!    afterwards, has read nothing.
//! 2. An entry is written by the session that it names. Any session may take over an entry that names a dead session.
//!
//! If the session dies here: the entry stays odd, and states nothing until another session writes it. So it needs no
//! section.

use std::sync::atomic::{fence, Ordering};

use libtp_log::Lsn;
use libtp_process::{Session, SessionId};
use rio::{failpoint, planted, Word};

use crate::Managers;

/// Entries of one set: their names have the same place by their hashes.
const WAYS: usize = 4;
/// Sets in all.
const SETS: usize = 256;
/// Words for a record's name and version.
const WORDS: usize = 59;
/// Sets for longer records.
const LONG_SETS: usize = 16;
/// Words for a longer record.
const LONG_WORDS: usize = 251;
/// Sets for the longest records: of a quarter of the largest page, the limit of trees and hash files. A longer record
/// has no entry.
const LONGEST_SETS: usize = 2;
/// Words for one of the longest records.
const LONGEST_WORDS: usize = 2099;
/// The most looks for room in an entry's set before the entry goes.
const CHANCES: u64 = 15;
/// One change in two to this power leaves a shortcut where there is none.
const SELDOM_BITS: u32 = 3;
/// Of the changes that find a shortcut, one in sixteen checks whether any session reads: by other bits of the same
/// number.
const SELDOM_ASKED: u64 = 0xF << 40;

rio::shared! {
    /// The head of one entry.
    pub struct Shortcut {
        /// The session that writes it, zero if none does.
        pub writer: Word<SessionId>,
        /// Odd while it is written.
        pub edition: Word<u64>,
        /// The log's tail when the record had that version; `Lsn::NONE` if the entry is empty.
        pub place: Word<Lsn>,
        /// The version.
        pub lsn: Word<Lsn>,
        /// Bytes of the name, bytes of the stored value, flags: sixteen bits each.
        pub lengths: Word<u64>,
    } size 40
}

rio::shared! {
    /// Entries whose names have the same place.
    pub struct ShortcutEntries {
        /// The hash of each entry's name.
        pub hashes: [Word<u64>; WAYS],
        /// How many looks for room the entry outlives: raised by one change of its record in eight.
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
    /// The same for longer records.
    pub struct LongShortcutSet {
        /// The entries.
        pub set: ShortcutEntries,
        /// Their words.
        pub words: [[Word<u64>; LONG_WORDS]; WAYS],
    } size 8256
}

rio::shared! {
    /// The same for the longest.
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
        /// By hash.
        pub sets: [ShortcutSet; SETS],
        /// The longer ones, by hash.
        pub long_sets: [LongShortcutSet; LONG_SETS],
        /// The longest, by hash. Memory that no record comes to is never touched.
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
struct Set<'s> {
    set: &'s ShortcutEntries,
    words: [&'s [Word<u64>]; WAYS],
}

impl Shortcuts {
    /// Returns the set for a record of that hash whose name and stored value have `bytes` bytes; `None` if no entry
    /// holds that.
    fn set_for(&self, hash: u64, bytes: usize) -> Option<Set<'_>> {
        self.sets_of(hash).into_iter().find(|found| bytes <= found.words[0].len() * 8)
    }

    /// Returns the sets where a record of that hash may be: it may have been shorter or longer. Those for short records
    /// come first.
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
}

/// Returns a number drawn for a version: its LSN, mixed twice, since versions may lie evenly.
fn mixed(lsn: Lsn) -> u64 {
    let once = lsn.raw().wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (once ^ once >> 32).wrapping_mul(0xD6E8_FEB8_6659_FD93)
}

/// Returns whether the change of a version leaves a shortcut.
fn is_sampled(lsn: Lsn) -> bool {
    mixed(lsn) >> (u64::BITS - SELDOM_BITS) == 0
}

impl ShortcutEntries {
    /// Returns where a shortcut may go. Returns `None` if all entries are in use: each of them has one chance less
    /// then.
    fn room(&self, hash: u64, place: Lsn) -> Option<usize> {
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

fn sixteen(word: u64, at: u32) -> usize {
    usize::from(u16::from_le_bytes([word.to_le_bytes()[at as usize], word.to_le_bytes()[at as usize + 1]]))
}

impl Shortcut {
    fn write(&self, words: &[Word<u64>], place: Lsn, name: &[u8], version: &OldVersion) {
        let edition = self.edition.load() | 1;
        self.edition.publish(edition);
        // Release, all of them: a reader that sees any of these sees the odd edition.
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

    /// Returns the version that the entry states for the record of that name at `from` or later.
    fn read(&self, words: &[Word<u64>], name: &[u8], from: Lsn) -> Option<OldVersion> {
        // Acquire, all of them.
        let edition = self.edition.load();
        let (place, lsn, lengths) = (self.place.load(), self.lsn.load(), self.lengths.load());
        let (name_bytes, stored_bytes) = (sixteen(lengths, 0), sixteen(lengths, 2));
        if place < from && !planted("snapshot: a shortcut of before is taken") {
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

impl Managers {
    /// Returns whether a session that changes a record of this version calls [`Managers::leave_shortcut`]: a snapshot
    /// is held, or was a moment ago, the record was changed since, and the version is drawn. A record that was not
    /// changed since is one step away, for now.
    #[inline]
    pub fn wants_shortcut(&self, lsn: Lsn) -> bool {
        // Relaxed: a stale answer is rare and costs little.
        let pinned_to = self.txns.header.pinned_to.get();
        pinned_to != Lsn::NONE && lsn >= pinned_to && is_sampled(lsn)
    }

    /// Returns whether a session that changes a record may have to leave a shortcut, for tests and tools: a snapshot is
    /// held, or was at the last look.
    pub fn wants_shortcuts(&self) -> bool {
        self.txns.header.pinned_to.load() != Lsn::NONE
    }

    /// Leaves a shortcut to the version of a record that is about to be changed, if there is none yet. The record's
    /// page is latched, and [`Managers::wants_shortcut`] has returned true for `lsn`, which is the version's. `name`
    /// and `version` are called only if a shortcut is left, and have `bytes` bytes together.
    pub fn leave_shortcut(
        &self,
        by: &Session,
        lsn: Lsn,
        hash: u64,
        bytes: usize,
        name: impl FnOnce() -> Vec<u8>,
        version: impl FnOnce() -> OldVersion,
    ) {
        let pinned_to = self.txns.header.pinned_to.get();
        if planted("snapshot: no shortcuts are left") {
            return;
        }
        let Some(Set { set, words }) = self.txns.shortcuts.set_for(hash, bytes) else { return };
        let mut is_known = false;
        for (way, _) in set.hashes.iter().enumerate().filter(|(_, known)| known.get() == hash) {
            let used = &set.used[way];
            if used.get() < CHANCES {
                used.init(used.get() + 1);
            }
            let entry = &set.entries[way];
            // An entry whose writer died states nothing.
            is_known |= entry.place.load() >= pinned_to && entry.writer.load() == SessionId::NONE;
        }
        // Looking at all pins is expensive while their owners write them. Where there is no shortcut to leave, it is
        // done now and then, so that the word is cleared even if all sessions change the same record.
        let is_asked = !is_known || mixed(lsn) & SELDOM_ASKED == 0;
        if (is_asked && !self.has_readers()) || is_known {
            return;
        }
        let (name, version) = (name(), version());
        debug_assert_eq!(name.len() + version.stored.len(), bytes, "the length that was told");
        // The page is latched: no session changes the record between this place and the caller's own log record.
        let place = self.log.tail();
        let Some(way) = set.room(hash, place) else { return };
        let entry = &set.entries[way];
        let writer = entry.writer.load();
        let is_free = writer == SessionId::NONE || !self.processes.is_alive(writer);
        if !is_free || entry.writer.compare_exchange(writer, by.id()).is_err() {
            return;
        }
        set.hashes[way].init(hash);
        set.used[way].init(1);
        entry.write(words[way], place, &name, &version);
        entry.writer.publish(SessionId::NONE);
    }

    /// Returns the oldest version that the record of that name is known to have had at `from` or later.
    pub fn find_shortcut(&self, hash: u64, name: &[u8], from: Lsn) -> Option<OldVersion> {
        let of_set = |Set { set, words }| {
            let known = (0..WAYS).filter(|way| set.hashes[*way].load() == hash);
            known.filter_map(|way| set.entries[way].read(words[way], name, from)).min_by_key(|version| version.lsn)
        };
        self.txns.shortcuts.sets_of(hash).into_iter().filter_map(of_set).min_by_key(|version| version.lsn)
    }

    /// Requests shortcuts to the versions of now, after a snapshot was taken and its pin can be seen. Where nothing is
    /// logged, no shared line is written for it.
    pub(crate) fn want_shortcuts(&self) {
        let (tail, pinned_to) = (self.log.tail(), &self.txns.header.pinned_to);
        // Behind the fence of `begin_snapshot`, which pairs with that of `has_readers`: either this load sees the
        // cleared word, or that session sees the pin.
        if pinned_to.load() < tail {
            pinned_to.fetch_max(tail);
        }
    }

    /// Returns whether a snapshot is held. If the last one has ended, withdraws the request for shortcuts: so a session
    /// that ends a snapshot need not look at all other pins.
    fn has_readers(&self) -> bool {
        let pinned_to = &self.txns.header.pinned_to;
        let seen = pinned_to.load();
        if self.is_pinned() {
            return true;
        }
        if pinned_to.compare_exchange(seen, Lsn::NONE).is_ok() {
            fence(Ordering::SeqCst);
            if self.is_pinned() {
                // A snapshot was begun between the look and the exchange, and may have found the word as it was.
                pinned_to.fetch_max(self.log.tail());
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_says_what_was_written_of_that_name_and_nothing_of_before_or_while_it_is_written() {
        let region = rio::Region::anonymous(1 << 20).unwrap();
        let entry = region.at(region.allocate::<Shortcut>(1).unwrap());
        let words = region.at(region.allocate::<[Word<u64>; WORDS]>(1).unwrap());
        assert_eq!(entry.read(words, b"name", Lsn::NONE), None);
        let version = OldVersion { lsn: Lsn::new(80), flags: 2, stored: (0..100).collect() };
        entry.write(words, Lsn::new(800), b"name", &version);
        assert_eq!(entry.read(words, b"name", Lsn::new(800)), Some(version.clone()));
        assert_eq!(entry.read(words, b"nama", Lsn::new(800)), None);
        assert_eq!(entry.read(words, b"nam", Lsn::new(800)), None);
        assert_eq!(entry.read(words, b"name", Lsn::new(808)), None, "of a place beyond nothing is known");
        let edition = entry.edition.load();
        entry.edition.publish(edition + 1);
        assert_eq!(entry.read(words, b"name", Lsn::new(800)), None, "its writer may have died");
        let shorter = OldVersion { stored: Vec::new(), ..version };
        entry.write(words, Lsn::new(808), b"name", &shorter);
        assert_eq!(entry.read(words, b"name", Lsn::new(808)), Some(shorter));
    }
    #[test]
    fn one_change_in_eight_is_drawn_however_evenly_versions_lie() {
        // Among the distances are Fibonacci's numbers, which the golden ratio alone would draw in clumps.
        for bytes in [8, 16, 64, 96, 104, 144, 160, 233 * 8, 2584, 4096] {
            let drawn =
                |from: u64| (from..from + 100).filter(|nth| is_sampled(Lsn::new((1 << 20) + nth * bytes))).count();
            let counts: Vec<usize> = (0..20).map(|hundred| drawn(hundred * 100)).collect();
            assert!(counts.iter().all(|count| (1..40).contains(count)), "{bytes}: {counts:?}");
        }
    }
}

//! Shortcuts through the long histories of records: copies of a version that a record had a few changes after a
//! snapshot's place in the log.
//!
//! Not in the paper (PROTOCOLS S4). A record that is changed very often has as many versions as changes, and a reader
//! of an old snapshot would undo all of them one by one. So if a record was changed since the beginning of a snapshot
//! that is still held, a session that changes the record again may leave a copy of the record's version here. It leaves
//! a copy one time in eight, if there is no copy yet. The copy has the log's tail at that moment: *at this place of the
//! log the record had this version*. A reader whose snapshot has this place or an earlier one begins at that version,
//! usually a few changes from the version that it may see. A record that is changed once or twice needs no shortcut and
//! gets no shortcut.
//!
//! The shortcuts are a cache. An entry stays true even if the record is changed or deleted, and a missing entry costs
//! only time. Entries of records that are changed again and again are not replaced. A record with more than 16 KiB in a
//! page has no entry.
//!
//! Invariant: an entry is written by the session that it names. Any session may take over an entry that names a dead
//! session. `shortcut_words.rs` has the words, and the order in which they are written.

use std::sync::atomic::{fence, Ordering};

use libtp_log::Lsn;
use libtp_process::{Session, SessionId};
use rio::planted;

use crate::shortcut_words::{OldVersion, Set};
use crate::Managers;

/// The largest number of searches for room that an entry survives without a further change of its record.
const CHANCES: u64 = 15;
/// If a record has no shortcut, a change of it leaves one with a chance of 1 in 2^3.
const SELDOM_BITS: u32 = 3;
/// If a record has a shortcut, a change of it checks with a chance of 1 in 16 whether any session still reads in a
/// snapshot. Other bits of the same pseudo-random number decide.
const SELDOM_ASKED: u64 = 0xF << 40;

/// Returns a pseudo-random number for a version: its LSN, mixed twice, since the distances between LSNs may be equal.
fn mixed(lsn: Lsn) -> u64 {
    let once = lsn.raw().wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (once ^ once >> 32).wrapping_mul(0xD6E8_FEB8_6659_FD93)
}

/// Returns whether the change of a version leaves a shortcut.
fn is_sampled(lsn: Lsn) -> bool {
    mixed(lsn) >> (u64::BITS - SELDOM_BITS) == 0
}

impl Managers {
    /// Returns whether a session that changes a record of this version calls [`Managers::leave_shortcut`]: a snapshot
    /// is held, or was held a moment ago, the record was changed since, and the version is selected at random. If the
    /// record was not changed since, a reader needs only one step.
    #[inline]
    pub fn wants_shortcut(&self, lsn: Lsn) -> bool {
        // Relaxed: a stale answer is rare and costs little.
        let pinned_to = self.txns.header.pinned_to.get();
        pinned_to != Lsn::NONE && lsn >= pinned_to && is_sampled(lsn)
    }

    /// Returns whether a session that changes a record may have to leave a shortcut, for tests and tools: a snapshot is
    /// held, or was held at the last check.
    pub fn wants_shortcuts(&self) -> bool {
        self.txns.header.pinned_to.load() != Lsn::NONE
    }

    /// Leaves a shortcut to the version of a record that is about to be changed, if the record has no shortcut yet. The
    /// record's page is latched, and [`Managers::wants_shortcut`] has returned true for `lsn`, the version's LSN.
    /// `name` and `version` are called only if a shortcut is left, and together have `bytes` bytes.
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
        if planted("snapshot: writers make no shortcuts") {
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
            // An entry whose writer died is not valid.
            is_known |= entry.place.load() >= pinned_to && entry.writer.load() == SessionId::NONE;
        }
        // A check of all pins is expensive while their owners write them. If no shortcut is to be left, the check is
        // still made now and then, so that the word is cleared even if all sessions change the same record.
        let is_asked = !is_known || mixed(lsn) & SELDOM_ASKED == 0;
        if (is_asked && !self.has_readers()) || is_known {
            return;
        }
        let (name, version) = (name(), version());
        debug_assert_eq!(name.len() + version.stored.len(), bytes, "`bytes` is the length of both");
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
        self.txns.shortcuts.find(hash, name, from)
    }

    /// Requests shortcuts to the present versions, after a snapshot was taken and its pin is visible. If nothing was
    /// logged since the last request, writes no shared cache line.
    pub(crate) fn want_shortcuts(&self) {
        let (tail, pinned_to) = (self.log.tail(), &self.txns.header.pinned_to);
        // This load comes after the fence of `begin_snapshot`, which pairs with the fence of `has_readers`: either this
        // load sees the cleared word, or the session in `has_readers` sees the pin.
        if pinned_to.load() < tail {
            pinned_to.fetch_max(tail);
        }
    }

    /// Returns whether a snapshot is held. If the last snapshot has ended, withdraws the request for shortcuts: so a
    /// session that ends a snapshot need not check all other pins.
    fn has_readers(&self) -> bool {
        let pinned_to = &self.txns.header.pinned_to;
        let seen = pinned_to.load();
        if self.is_pinned() {
            return true;
        }
        if pinned_to.compare_exchange(seen, Lsn::NONE).is_ok() {
            fence(Ordering::SeqCst);
            if self.is_pinned() {
                // A snapshot began between the check and the exchange, and may have seen the old word.
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
    fn one_change_in_eight_is_selected_even_if_the_distances_of_versions_are_equal() {
        // Among the distances are Fibonacci numbers, for which a single mixing by the golden ratio would not be random.
        for bytes in [8, 16, 64, 96, 104, 144, 160, 233 * 8, 2584, 4096] {
            let drawn =
                |from: u64| (from..from + 100).filter(|nth| is_sampled(Lsn::new((1 << 20) + nth * bytes))).count();
            let counts: Vec<usize> = (0..20).map(|hundred| drawn(hundred * 100)).collect();
            assert!(counts.iter().all(|count| (1..40).contains(count)), "{bytes}: {counts:?}");
        }
    }
}

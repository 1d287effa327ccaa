//! Reserving: before the first latch, a session makes sure that an append cannot fail for lack of room (PROTOCOLS D11).
//!
//! A reservation gives a session no part of the log, so nothing has to be released. A reservation is a promise that the
//! ring and the files reach far enough beyond the tail for *every* session that may append before it reserves again:
//! each session may append as much as the largest reservation ever made. So a session that dies with a reservation
//! leaves nothing.
//!
//! Why this suffices: each session enters itself in the shared count, and makes sure of room for all counted sessions
//! from the tail at that moment. Suppose that session A has just entered itself. Each later append is by a session that
//! A has counted, or by a session that entered itself after A and so has also counted A.
//!
//! The words promise each session the largest reservation, but most sessions ask for little. So a session that asked
//! for at most [`AHEAD_BYTES`] has a credit of as many bytes in its private memory. Each append subtracts its bytes
//! from the credit, and a reservation that the credit covers reads only one shared word, the poison.
//!
//! Why the credit is covered:
//! 1. A session appends only bytes that it has asked for (asserted in debug builds). Since it last entered
//!    itself, each of its requests was the request for which it did that, or a request that its credit covered. So it
//!    appends at most the larger of that request and the credit, and neither exceeds the largest reservation. A request
//!    for undo is rounded up to a multiple of the least reservation.
//! 2. Flushes append marks without a reservation. Each mark follows at least one record that was not durable. While a
//!    credit is used up, its records and their marks take at most [`CREDIT_BYTES`], less than the least reservation.
//! 3. A reservation of more than [`AHEAD_BYTES`] leaves no credit: small records could use up a credit of that size,
//!    and their marks would take more room than there is. The next reservation counts again.
//! 4. The bytes that all credits may take are added to the bytes that are reserved for deletes on a full disk. After
//!    the last count that found room, sessions may still append on their credits, and these appends do not use the
//!    bytes reserved for deletes.
//! 5. A refused reservation leaves no credit. A reservation that used bytes reserved for deletes or for undo leaves
//!    none either.
//!
//! A reserving session holds no latch while it waits: it may flush, and prepare a segment.

use libtp_process::Session;
use rio::{failpoint, planted};

use crate::restart::MARK_BYTES;
use crate::ring::{RingBounds, Room};
use crate::tail::POISONED;
use crate::{Error, LogManager, Lsn, Result, RECORD_BYTES_MAX, RECORD_HEADER_BYTES};

/// The least number of bytes that a session may append on one reservation.
pub(crate) const RESERVE_BYTES_MIN: u64 = 64 << 10;
/// The credit of a session, and the largest reservation that leaves one.
const AHEAD_BYTES: u64 = 8 << 10;
/// The largest number of bytes that the records on one credit take: each record is the smallest possible, and a flush
/// mark follows it.
pub(crate) const CREDIT_BYTES: u64 = AHEAD_BYTES + AHEAD_BYTES / RECORD_HEADER_BYTES as u64 * MARK_BYTES as u64;
const _: () = assert!(CREDIT_BYTES <= RESERVE_BYTES_MIN);
/// Room for the marks that flushes append without reserving.
const MARKS_BYTES: u64 = 4096;
/// Room for one mark, in a reservation for undo.
const MARK_BYTES_LEFT: u64 = 512;
/// The largest possible demands; larger values are damage. Session indexes have 16 bits, one reservation is at most 16
/// MiB, and no disk has more room than `PROMISED_MAX`.
const SESSIONS_MAX: u64 = 1 << 16;
const LARGEST_MAX: u64 = (16 * RECORD_BYTES_MAX) as u64 + RESERVE_BYTES_MIN;
const PROMISED_MAX: u64 = 1 << 44;
/// Bytes of log file kept for each session, beyond its appends, to undo a transaction that has promised nothing
/// ([`LogManager::promise`]). A transaction that has logged this much must promise the rest.
pub const UNDO_SHARE_BYTES: u64 = 64 << 10;

/// Bytes of log file reserved on a full disk for work that frees space: a delete, a checkpoint. The number is larger
/// than the log that a checkpoint must free to be worth its work ([`WORTH_BYTES`]).
pub const KEPT_BACK_BYTES: u64 = 128 << 10;
/// The number of logged bytes since the last checkpoint that make a checkpoint on a full disk worth its work.
pub const WORTH_BYTES: u64 = 8 << 10;

/// The purpose of a reservation.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Use {
    /// Any work.
    Any,
    /// Work that frees space, or work that is needed to free space.
    Freeing,
}

impl LogManager {
    /// Makes sure that this session can append `bytes` (of whole records, [`record_bytes`](crate::record_bytes) each)
    /// until it reserves again, without waiting and without failing. May flush the log and prepare a segment.
    ///
    /// # Errors
    /// [`Error::Full`] when the disk or the memory has no room, or when the ring cannot hold that many bytes for every
    /// session; [`Error::Io`]: nothing was changed, and the next call tries again. [`Error::Failed`] after a failed
    /// write or sync.
    ///
    /// # Panics
    /// If a latch is held, in debug builds; if `bytes` is more than 16 records of the largest size.
    #[inline]
    pub fn reserve(&self, session: &Session, bytes: usize) -> Result<()> {
        debug_assert!(
            session.latch_count() == 0,
            "log room is reserved before the first latch: it may wait for the disk"
        );
        let room = session.log_room();
        if bytes as u64 <= room.credit() && self.header.poison.get() == 0 {
            room.ask(bytes as u64);
            return Ok(());
        }
        self.reserve_anew(session, bytes)
    }

    /// Reserves by the shared words.
    #[inline(never)]
    fn reserve_anew(&self, session: &Session, bytes: usize) -> Result<()> {
        let room = session.log_room();
        room.set_credit(0);
        let is_kept_back_used = self.has_no_room(session, bytes) && self.reserve_slowly(session, bytes)?;
        room.ask(bytes as u64);
        if bytes as u64 <= AHEAD_BYTES && !is_kept_back_used {
            room.set_credit(AHEAD_BYTES);
        } else if planted("log: a large reservation gives the session a credit") {
            room.set_credit(bytes as u64);
        }
        Ok(())
    }

    /// Returns whether the session must count: it is not counted yet, or the ring or the files do not reach far enough.
    #[inline]
    fn has_no_room(&self, session: &Session, bytes: usize) -> bool {
        let header = &*self.header;
        let (high, largest) = (header.session_high.get(), header.reserve_largest.get());
        let is_counted = session_index(session) <= high && bytes as u64 <= largest;
        // Acquire: chunks and segments up to the ends were made before the ends were published.
        let end = header.tail.load().plus(high * largest + MARKS_BYTES);
        let has_ring = end <= header.ring_end.load();
        let has_files = end.plus(self.kept_bytes(Use::Any)) <= header.file_end.load();
        !(is_counted && has_ring && has_files && header.poison.get() == 0)
    }

    /// Makes room. Returns whether that room is part of the bytes reserved on a full disk.
    #[cold]
    fn reserve_slowly(&self, session: &Session, bytes: usize) -> Result<bool> {
        self.raise_reservation(session, bytes)?;
        let what = match session.is_freeing() && !planted("log: no room is reserved for deletes") {
            true => Use::Freeing,
            false => Use::Any,
        };
        self.make_sure(session, || (self.ring_end_wanted(), self.file_end_wanted(what)))?;
        Ok(what == Use::Freeing)
    }

    /// Returns the LSN up to which the ring must have chunks for all sessions that may append.
    fn ring_end_wanted(&self) -> Lsn {
        let header = &*self.header;
        header.tail.load().plus(header.session_high.load() * header.reserve_largest.load() + MARKS_BYTES)
    }

    /// Returns the LSN up to which the files must have blocks for all sessions that may append, and for their undo.
    pub(crate) fn file_end_wanted(&self, what: Use) -> Lsn {
        self.ring_end_wanted().plus(self.kept_bytes(what))
    }

    /// Returns the bytes of file that are kept beyond all appends.
    #[inline]
    fn kept_bytes(&self, what: Use) -> u64 {
        let (high, promised) = (self.header.session_high.get(), self.header.promised.get());
        let credit =
            if planted("log: appends on credit use the bytes reserved for deletions") { 0 } else { CREDIT_BYTES };
        let (share, kept_back) = match what {
            Use::Any => (UNDO_SHARE_BYTES + credit, KEPT_BACK_BYTES),
            Use::Freeing => (UNDO_SHARE_BYTES, 0),
        };
        high * share + promised + kept_back
    }

    /// As [`LogManager::reserve`], for undo: it uses the promised bytes, so undo never fails because of a full disk.
    ///
    /// # Errors
    /// As [`LogManager::reserve`]; `Full` only if more is undone than was promised.
    ///
    /// # Panics
    /// As [`LogManager::reserve`].
    pub fn reserve_undo(&self, session: &Session, bytes: usize) -> Result<()> {
        debug_assert!(session.latch_count() == 0, "log room is reserved before the first latch");
        session.log_room().set_credit(0);
        self.raise_reservation(session, bytes)?;
        let file_end = || self.header.tail.load().plus(bytes as u64 + MARK_BYTES_LEFT);
        self.make_sure(session, || (self.ring_end_wanted(), file_end()))?;
        // A compensation record may be longer than the request, so the reservation has at least the least number of
        // bytes.
        session.log_room().ask((bytes as u64).next_multiple_of(RESERVE_BYTES_MIN));
        Ok(())
    }

    /// Counts the session among the appenders, and raises the largest reservation to `bytes`. Refuses more than the
    /// ring can hold for every session: otherwise the raised words would cause the refusal of every later reservation.
    fn raise_reservation(&self, session: &Session, bytes: usize) -> Result<()> {
        assert!(bytes <= 16 * RECORD_BYTES_MAX, "one reservation is at most 16 MiB");
        self.check_demands();
        let (header, bytes) = (&*self.header, (bytes as u64).next_multiple_of(RESERVE_BYTES_MIN));
        let high = header.session_high.load().max(session_index(session));
        self.ring.check_bytes(high * header.reserve_largest.load().max(bytes) + MARKS_BYTES)?;
        header.session_high.fetch_max(session_index(session));
        failpoint("log: half counted among appenders");
        header.reserve_largest.fetch_max(bytes);
        Ok(())
    }

    /// Waits for room up to the two ends that `ends` returns: the ring's and the files'.
    fn make_sure(&self, session: &Session, ends: impl Fn() -> (Lsn, Lsn)) -> Result<()> {
        loop {
            self.check_poison()?;
            self.check_demands();
            let (end, file_end) = ends();
            if file_end > self.header.file_end.load() {
                self.prepare_segment(session, file_end)?;
            } else if end > self.header.ring_end.load() {
                if self.ring.make_room(session, end, RingBounds::new(&self.settings))? == Room::FlushFirst {
                    self.force_all(session)?;
                }
            } else {
                return Ok(());
            }
        }
    }

    /// Discards the region if its demands are larger than sessions can make: no room would ever be sufficient.
    fn check_demands(&self) {
        let header = &*self.header;
        let (high, largest) = (header.session_high.load(), header.reserve_largest.load());
        let is_possible = high <= SESSIONS_MAX && largest <= LARGEST_MAX && header.promised.load() <= PROMISED_MAX;
        if !is_possible {
            self.processes.give_up("the log's reserved bytes are more than can be asked for");
        }
    }

    /// Promises `bytes` of log file for undo, beyond the room that appenders reserve. Then an abort, now or at the next
    /// restart, never fails because of a full disk. [`LogManager::release_promise`] releases the bytes.
    ///
    /// # Errors
    /// As [`LogManager::reserve`]; nothing is promised then.
    pub fn promise(&self, session: &Session, bytes: u64) -> Result<()> {
        self.header.promised.fetch_add(bytes);
        // The ordinary reservation counts promised bytes.
        failpoint("log: room promised, not made");
        let made = self.reserve_anew(session, 0);
        if made.is_err() {
            self.release_promise(bytes);
        }
        made
    }

    /// Releases promised bytes: their transactions have ended.
    pub fn release_promise(&self, bytes: u64) {
        failpoint("log: promise about to be given back");
        self.header.promised.fetch_add(0_u64.wrapping_sub(bytes));
    }

    /// Returns whether a write or a sync of the log has failed: then nothing more becomes durable (PROTOCOLS L3).
    #[inline]
    pub fn is_poisoned(&self) -> bool {
        // Acquire: pairs with the publish by the leader that failed.
        match self.header.poison.load() {
            0 => false,
            POISONED => true,
            other => panic!("the log's word for a failed write is {other:#x}, a value that the library does not store"),
        }
    }

    /// Poisons the log: a sync of the log, a data file, the control file or a directory has failed. No further commit
    /// is acknowledged (PROTOCOLS L3).
    pub fn poison(&self) {
        self.header.poison.publish(POISONED);
        self.wake_waiters(Lsn::new(u64::MAX));
    }

    /// Returns an error after a failed write or sync.
    ///
    /// # Errors
    /// [`Error::Failed`].
    #[inline]
    pub fn check_poison(&self) -> Result<()> {
        if self.is_poisoned() {
            return Err(Error::Failed { cause: "an earlier write or sync failed".to_string() });
        }
        Ok(())
    }
}

/// Returns the session's place in the table of sessions, counted from one. The lowest free slot is given out first.
#[inline]
fn session_index(session: &Session) -> u64 {
    u64::from(session.id().index())
}

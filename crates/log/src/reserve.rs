//! Reserving: making sure, before the first latch, of all that an append may need (PROTOCOLS D11).
//!
//! Nothing is handed out and nothing is taken back. A reservation is a promise that the ring and the files reach far
//! enough beyond the tail for *every* session that may append before it reserves again, each as much as the largest
//! reservation ever made. So a reservation is two comparisons, and a session that dies with one leaves nothing.
//!
//! Why that is enough: a session that reserves counts all sessions that have reserved before, itself included, from the
//! tail at that moment. A later append is by a session that was counted, or by a session that reserved later and then
//! counted this one.
//!
//! A reserving session holds no latch while it waits: it may flush, and prepare a segment.

use libtp_process::Session;
use rio::{failpoint, planted};

use crate::ring::{RingBounds, Room};
use crate::tail::POISONED;
use crate::{Error, LogManager, Lsn, Result, RECORD_BYTES_MAX};

/// The least number of bytes that a session may append on one reservation.
pub(crate) const RESERVE_BYTES_MIN: u64 = 64 << 10;
/// Room for the marks that flushes append without reserving.
const MARKS_BYTES: u64 = 4096;
/// Room for one mark, in a reservation for undo.
const MARK_BYTES_LEFT: u64 = 512;
/// Larger demands are damage: session indexes have 16 bits, one reservation is 16 MiB at most, and no disk has that
/// room.
const SESSIONS_MAX: u64 = 1 << 16;
const LARGEST_MAX: u64 = (16 * RECORD_BYTES_MAX) as u64 + RESERVE_BYTES_MIN;
const PROMISED_MAX: u64 = 1 << 44;
/// Bytes of log file kept for each session, beyond its appends, to undo a transaction that has promised nothing
/// ([`LogManager::promise`]). A transaction that has logged this much must promise the rest.
pub const UNDO_SHARE_BYTES: u64 = 64 << 10;

/// Bytes of log file kept back on a full disk for work that frees space: a delete, a checkpoint. More than a checkpoint
/// has to free before it is worth its work ([`WORTH_BYTES`]).
pub const KEPT_BACK_BYTES: u64 = 128 << 10;
/// On a full disk a checkpoint is worth its work when this number of bytes was logged since the last one.
pub const WORTH_BYTES: u64 = 8 << 10;

/// The purpose of a reservation.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Use {
    /// Anything.
    Any,
    /// Work that frees space, or is needed for that.
    Freeing,
}

impl LogManager {
    /// Makes sure that this session can append `bytes` (of whole records, [`record_bytes`](crate::record_bytes) each)
    /// until it reserves again, without waiting and without failing. May flush the log and prepare a segment.
    ///
    /// # Errors
    /// [`Error::Full`] when disk or memory have no room, [`Error::Io`]: nothing was changed, and the next call tries
    /// again. [`Error::Failed`] after a failed write or sync.
    ///
    /// # Panics
    /// If a latch is held, in debug builds; if `bytes` is more than 16 records of the largest size.
    #[inline]
    pub fn reserve(&self, session: &Session, bytes: usize) -> Result<()> {
        debug_assert!(
            session.latch_count() == 0,
            "log room is reserved before the first latch: it may wait for the disk"
        );
        let header = &*self.header;
        let (high, largest) = (header.session_high.get(), header.reserve_largest.get());
        let is_counted = session_index(session) <= high && bytes as u64 <= largest;
        // Acquire: chunks and segments up to the ends were made before the ends were published.
        let end = header.tail.load().plus(high * largest + MARKS_BYTES);
        let has_ring = end <= header.ring_end.load();
        let kept = high * UNDO_SHARE_BYTES + header.promised.get() + KEPT_BACK_BYTES;
        let has_files = end.plus(kept) <= header.file_end.load();
        if is_counted && has_ring && has_files && header.poison.get() == 0 {
            return Ok(());
        }
        self.reserve_slowly(session, bytes)
    }

    #[cold]
    fn reserve_slowly(&self, session: &Session, bytes: usize) -> Result<()> {
        self.raise_reservation(session, bytes);
        if session.is_freeing() && !planted("log: no room is reserved for deletes") {
            return self.make_sure(session, || (self.ring_end_wanted(), self.file_end_wanted(Use::Freeing)));
        }
        self.make_sure(session, || (self.ring_end_wanted(), self.file_end_wanted(Use::Any)))
    }

    /// Returns how far the ring must reach for all sessions that may append.
    fn ring_end_wanted(&self) -> Lsn {
        let header = &*self.header;
        header.tail.load().plus(header.session_high.load() * header.reserve_largest.load() + MARKS_BYTES)
    }

    /// Returns how far the files must reach for all sessions that may append, and for their undo.
    pub(crate) fn file_end_wanted(&self, what: Use) -> Lsn {
        let kept_back = if what == Use::Any { KEPT_BACK_BYTES } else { 0 };
        let shares = self.header.session_high.load() * UNDO_SHARE_BYTES;
        self.ring_end_wanted().plus(shares + self.header.promised.load() + kept_back)
    }

    /// As [`LogManager::reserve`], for undo: the promised bytes are there for it, so undo never finds the disk full.
    ///
    /// # Errors
    /// As [`LogManager::reserve`]; `Full` only if more is undone than was promised.
    ///
    /// # Panics
    /// As [`LogManager::reserve`].
    pub fn reserve_undo(&self, session: &Session, bytes: usize) -> Result<()> {
        debug_assert!(session.latch_count() == 0, "log room is reserved before the first latch");
        let header = &*self.header;
        self.raise_reservation(session, bytes);
        self.make_sure(session, || {
            let tail = header.tail.load();
            let ring_end = tail.plus(header.session_high.load() * header.reserve_largest.load() + MARKS_BYTES);
            (ring_end, tail.plus(bytes as u64 + MARK_BYTES_LEFT))
        })
    }

    /// Counts the session among the appenders, and raises the largest reservation to `bytes`.
    fn raise_reservation(&self, session: &Session, bytes: usize) {
        assert!(bytes <= 16 * RECORD_BYTES_MAX, "one reservation is at most 16 MiB");
        self.header.session_high.fetch_max(session_index(session));
        failpoint("log: half counted among appenders");
        self.header.reserve_largest.fetch_max((bytes as u64).next_multiple_of(RESERVE_BYTES_MIN));
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

    /// Gives the region up if its demands are more than sessions can ask for: no room would ever be enough.
    fn check_demands(&self) {
        let header = &*self.header;
        let (high, largest) = (header.session_high.load(), header.reserve_largest.load());
        let is_possible = high <= SESSIONS_MAX && largest <= LARGEST_MAX && header.promised.load() <= PROMISED_MAX;
        if !is_possible {
            self.processes.give_up("the log's reserved bytes are more than can be asked for");
        }
    }

    /// Promises `bytes` of log file, beyond what appenders reserve, for undo: an abort, in this life or at the next
    /// restart, then never finds the disk full. [`LogManager::release_promise`] gives them back.
    ///
    /// # Errors
    /// As [`LogManager::reserve`]; nothing is promised then.
    pub fn promise(&self, session: &Session, bytes: u64) -> Result<()> {
        self.header.promised.fetch_add(bytes);
        // The ordinary reservation counts promised bytes.
        failpoint("log: room promised, not made");
        let made = self.reserve(session, 0);
        if made.is_err() {
            self.release_promise(bytes);
        }
        made
    }

    /// Gives back promised bytes: their transactions have ended.
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
            other => panic!("the log says of itself {other:#x} where it says whether a write failed"),
        }
    }

    /// Poisons the log: a sync failed of the log, a data file, the control file or a directory, and the log's promises
    /// rest on it. Nothing more is acknowledged (PROTOCOLS L3).
    pub fn poison(&self) {
        self.header.poison.publish(POISONED);
        self.wake_waiters(Lsn::new(u64::MAX));
    }

    /// Refuses to go on after a failed sync.
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

/// Returns the session's place in the table of sessions, counted from one: slots are given out from the lowest.
#[inline]
fn session_index(session: &Session) -> u64 {
    u64::from(session.id().index())
}

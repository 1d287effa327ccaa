//! Snapshots: the view of a read-only transaction, taken in one step, and the log that is kept for it.
//!
//! Not in the paper (docs/design/0008: the log is the version store; PROTOCOLS S1, S2). A [`View`] is a place in the
//! log, the transactions that had a record before it and no end before it, and the horizon: the least first record of
//! these transactions. Each record of a database has the LSN of the log record that made it, and the view decides by
//! that LSN whether the version is seen. A session that holds a snapshot notes it in its slot (a *pin*). One word, the
//! time of the pin, makes the pin valid, so a pin needs no section. The pin is cleared with the slot when the process
//! dies.
//!
//! A view is taken without a latch, while other sessions continue. First the place is read, then the notes of appends,
//! then each slot: the transaction that runs there now, and then the transactions that have ended there. A transaction
//! with a record before the place was in its slot, or noted, when the place was read. If it has left its slot since, it
//! is in the slot's list of ended transactions. If it may have been overwritten there, because too many transactions
//! have ended since, the view is taken again, at a later place.
//!
//! Invariants
//! 1. A transaction is remembered as ended after its commit record was published and before its locks are released. A
//!    view may consider a transaction running although its commit record is below the place. Then no transaction that
//!    the view shows has read or overwritten that transaction's changes.
//! 2. An aborted transaction need not be remembered: when it leaves its slot, all its changes are undone (S3).
//! 3. The horizon of a view is never below the horizon of an earlier view.
//!
//! If a session dies here: its pin counts until the slot is freed. While a view is being taken, its pin keeps all log
//! that an earlier view could have needed.

use std::sync::atomic::{fence, Ordering};
use std::time::{Duration, SystemTime};

use libtp_log::{Lsn, TxnId};
use libtp_process::{boot_micros, wall_time, SessionId};
use rio::{failpoint, planted};

use crate::slot::{State, TxnSlot, ENDED};
use crate::{Error, Managers, Result, TxnSession};

/// The largest number of attempts to take a view. Transactions that happen to end at the same time disturb far fewer
/// attempts.
const TRIES: u32 = 1_000_000;

/// The view of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    lsn: Lsn,
    horizon: Lsn,
    /// The transactions with a record below the place and no end below it, sorted.
    open: Vec<TxnId>,
    /// The log's tail when the view was taken.
    taken_at: Lsn,
    /// Versions below this LSN are sure: when the view was taken, their commits were on disk or had been answered.
    sure: Lsn,
    /// Versions below this LSN are seen, and sure.
    plain: Lsn,
}

/// A view's judgement of a version, if only the version's LSN is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sight {
    /// The version is seen.
    Seen,
    /// The version is not seen.
    Hidden,
    /// The version is seen, unless its transaction was open.
    Ask,
}

impl View {
    /// Returns the view's place: records below may be seen, records at or above are not.
    #[inline]
    pub fn lsn(&self) -> Lsn {
        self.lsn
    }

    /// Returns the LSN below which no log is needed.
    #[inline]
    pub fn horizon(&self) -> Lsn {
        self.horizon
    }

    /// Returns the length of the log when the view was taken. The view can judge a page as it was at that moment or
    /// later: in an earlier state of the page, an undone change may look like a committed one.
    #[inline]
    pub fn taken_at(&self) -> Lsn {
        self.taken_at
    }

    /// Returns whether the version's LSN alone shows that the version is seen.
    #[inline]
    pub fn shows_plainly(&self, version: Lsn) -> bool {
        version < self.plain
    }

    /// Returns whether a version that is seen was not sure when the view was taken: a crash of the machine may undo it.
    /// A reader waits before it shows the version ([`Managers::wait_view_durable`]).
    #[inline]
    pub fn is_unsure(&self, version: Lsn) -> bool {
        version >= self.sure
    }

    /// Judges a version by its LSN.
    #[inline]
    pub fn sight(&self, version: Lsn) -> Sight {
        if version < self.horizon
            || (version < self.lsn && planted("snapshot: records of running transactions are visible"))
        {
            Sight::Seen
        } else if version >= self.lsn {
            Sight::Hidden
        } else {
            Sight::Ask
        }
    }

    /// Returns whether those changes of a transaction that are below [`View::lsn`] are seen.
    pub fn sees(&self, txn: TxnId) -> bool {
        self.open.binary_search(&txn).is_err()
    }
}

/// A snapshot that a session holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotInfo {
    /// The session that holds it.
    pub session: SessionId,
    /// Since when.
    pub since: SystemTime,
    /// Its place in the log; `Lsn::NONE` while it is being taken.
    pub lsn: Lsn,
    /// The LSN from which on it needs the log.
    pub horizon: Lsn,
    /// Whether the log that it needs is kept: it is neither too old nor too far back.
    pub is_kept: bool,
}

/// A place in the log (PROTOCOLS S2). The log that is kept for the place begins at `begins` or earlier. `begins` is the
/// place itself, or the beginning of the record that contains the place.
#[derive(Clone, Copy)]
struct Place {
    lsn: Lsn,
    begins: Lsn,
}

impl Place {
    /// Returns the place just after the beginning of a record: no record begins within another record's first eight
    /// bytes.
    fn after(record: Lsn) -> Place {
        Place { lsn: record.plus(8), begins: record }
    }
}

/// A transaction that the slots show.
struct Open {
    id: TxnId,
    first: Lsn,
}

impl TxnSlot {
    /// Remembers that a transaction has ended here, so that a session that takes a snapshot finds it although the slot
    /// has another transaction.
    #[inline]
    pub(crate) fn remember_end(&self, id: TxnId, first: Lsn, end: Lsn) {
        if planted("snapshot: ended transactions are dropped too early") {
            return;
        }
        let count = self.ended_count.get();
        let place = &self.ended[place_of(count)];
        // Release, for all these stores: a session that sees any of them also sees the count, which shows that the
        // place is reused.
        place.id.publish(id);
        place.first_lsn.publish(first);
        place.end_lsn.publish(end);
        // Release: a session that sees the count sees the transaction.
        self.ended_count.publish(count + 1);
    }

    /// Returns whether the transaction that ended here last has this commit record.
    pub(crate) fn remembers_end(&self, end: Lsn) -> bool {
        let count = self.ended_count.load();
        count > 0 && self.ended[place_of(count - 1)].end_lsn.load() == end
    }

    /// Returns the transaction that runs here now, if it has logged something. `notes` has the first record of a
    /// transaction whose slot does not have it yet. `Err` if another transaction has begun in the slot meanwhile.
    fn running_now(&self, notes: &[Open]) -> std::result::Result<Option<Open>, ()> {
        // Acquire, for all these loads: if a load sees a store of one transaction, no later load sees a store of an
        // earlier transaction. The number is loaded first: a transaction that is found running under this number has
        // stored its first LSN, or [`Lsn::NONE`] while it has logged nothing.
        let id = self.id.load();
        if State::from_word(self.state.load()) == State::Idle {
            return Ok(None);
        }
        let first = self.first_lsn.load();
        if self.id.load() != id {
            return Err(());
        }
        let noted = || notes.iter().find(|note| note.id == id).map(|note| note.first);
        let first = if first == Lsn::NONE { noted() } else { Some(first) };
        Ok(first.map(|first| Open { id, first }))
    }

    /// Adds the transactions that were open in this slot at `lsn`; `Err` if the slot has overwritten them.
    fn open_at(&self, lsn: Lsn, notes: &[Open], open: &mut Vec<Open>) -> std::result::Result<(), ()> {
        let mut running = self.running_now(notes)?;
        let count = self.ended_count.load();
        for back in 1..=count.min(ENDED as u64) {
            let place = &self.ended[place_of(count - back)];
            let (id, first, end) = (place.id.load(), place.first_lsn.load(), place.end_lsn.load());
            // The session may be overwriting the oldest place.
            if self.ended_count.load() - (count - back) >= ENDED as u64 {
                return Err(());
            }
            running = running.filter(|running| running.id != id);
            if end < lsn {
                break;
            }
            if first < lsn {
                open.push(Open { id, first });
            }
        }
        open.extend(running.filter(|running| running.first < lsn));
        Ok(())
    }

    /// Releases a snapshot's pin, and the pin of a session that copies the log, if there are any.
    pub(crate) fn unpin_all(&self) {
        self.unpin();
        self.kept_from.publish(Lsn::NONE);
    }

    /// Releases a snapshot's pin, if there is one.
    fn unpin(&self) {
        self.pinned_since.publish(0);
        self.pinned_lsn.init(Lsn::NONE);
        self.pinned_horizon.init(Lsn::NONE);
    }
}

fn place_of(number: u64) -> usize {
    usize::try_from(number % ENDED as u64).expect("a remainder of eight is small")
}

impl Managers {
    /// Returns the place below which every commit is sure: it is on disk, or it was answered before it was on disk.
    fn sure_place(&self) -> Place {
        let (durable, answered) = (self.log.durable(), self.txns.header.answered.load());
        match answered >= durable && answered != Lsn::NONE {
            true => Place::after(answered),
            false => Place { lsn: durable, begins: durable },
        }
    }

    /// Returns the place up to which a snapshot shows commits: all commits whose locks are released, because other
    /// sessions may have read their changes and reported them (PROTOCOLS S1). After a failed sync no further commit
    /// becomes sure.
    fn visible_place(&self, sure: Place) -> Place {
        let last = self.txns.header.last_commit.load();
        let is_after = planted("snapshot: commits that other sessions read are not visible") || self.log.is_poisoned();
        match last >= sure.lsn && !is_after {
            true => Place::after(last),
            false => sure,
        }
    }

    /// Returns the transactions that were open at a place; `None` if too many ended meanwhile.
    fn open_at(&self, lsn: Lsn) -> Option<Vec<Open>> {
        let (mut notes, mut open) = (Vec::new(), Vec::new());
        let noted = self.processes.noted_appends().filter(|&(at, id)| id != 0 && at < lsn.raw());
        noted.for_each(|(at, id)| notes.push(Open { id: TxnId::new(id), first: Lsn::new(at) }));
        self.txns.used().try_for_each(|slot| slot.open_at(lsn, &notes, &mut open)).ok()?;
        Some(open)
    }

    /// Returns the horizon at a place; `None` if too many transactions ended meanwhile.
    fn horizon_at(&self, place: Place) -> Option<Lsn> {
        Some(self.open_at(place.lsn)?.iter().map(|open| open.first).fold(place.begins, Lsn::min))
    }

    /// Takes a view now; `None` if too many transactions ended meanwhile.
    fn try_view(&self) -> Option<View> {
        let sure_place = self.sure_place();
        let place = self.visible_place(sure_place);
        failpoint("snapshot: place chosen, nothing looked at");
        let open = self.open_at(place.lsn)?;
        let horizon = open.iter().map(|open| open.first).fold(place.begins, Lsn::min);
        let mut open: Vec<TxnId> = open.into_iter().map(|open| open.id).collect();
        open.sort_unstable();
        let sure = match place.lsn == sure_place.lsn || planted("snapshot: commits that are not durable are visible") {
            true => Lsn::new(u64::MAX),
            // Versions below the horizon of the sure place were committed before that place. If that horizon is not
            // known, all versions are unsure.
            false => self.horizon_at(sure_place).unwrap_or(Lsn::NONE),
        };
        // The tail is read last: a transaction that aborted and was not found in a slot has undone its changes below
        // the tail.
        let plain = horizon.min(sure);
        Some(View { lsn: place.lsn, horizon, open, taken_at: self.log.tail(), sure, plain })
    }

    fn view(&self) -> Result<View> {
        for _ in 0..TRIES {
            if let Some(view) = self.try_view() {
                return Ok(view);
            }
            std::thread::yield_now();
        }
        let what = "the slots do not show which transactions have ended and which are running".to_string();
        Err(Error::Broken { what })
    }

    /// Takes a snapshot for a session that runs no transaction, and keeps the log that the snapshot needs until
    /// [`Managers::end_snapshot`].
    ///
    /// # Errors
    /// `Broken`.
    ///
    /// # Panics
    /// If the session runs a transaction or holds a snapshot.
    pub fn begin_snapshot(&self, txn: &TxnSession) -> Result<View> {
        assert_eq!(txn.state(), State::Idle, "a session that holds a snapshot runs no transaction");
        let slot = txn.slot();
        assert_eq!(slot.pinned_since.get(), 0, "a session holds one snapshot");
        // The log is pinned before the view is taken: a later view needs no older log than a view of this moment.
        let is_late = planted("snapshot: the log is pinned after the view is taken");
        if !is_late {
            slot.pinned_horizon.init(self.early_horizon(txn)?);
            slot.pinned_since.publish(boot_micros().max(1));
        }
        failpoint("snapshot: pinned, not taken");
        // Pairs with the fence of a session that reclaims log or ghosts. Either the reclaiming session sees the pin, or
        // the place of this snapshot is read after the place that the reclaiming session has read.
        fence(Ordering::SeqCst);
        let view = self.view().inspect_err(|_| slot.unpin())?;
        failpoint("snapshot: taken, pin lower than needed");
        slot.pinned_lsn.init(view.lsn);
        slot.pinned_horizon.publish(view.horizon);
        if is_late {
            slot.pinned_since.publish(boot_micros().max(1));
        }
        txn.last_horizon.set(view.horizon);
        self.want_shortcuts();
        failpoint("snapshot: taken");
        Ok(view)
    }

    /// Returns a horizon at or below the horizon of every view that is taken from now on: the horizon of the session's
    /// last view if that keeps only a little log, and otherwise the horizon of a view taken now.
    fn early_horizon(&self, txn: &TxnSession) -> Result<Lsn> {
        let last = txn.last_horizon.get();
        let is_near = last != Lsn::NONE && self.log.tail().since(last) <= self.snapshot_log_bytes() / 4;
        if is_near {
            return Ok(last);
        }
        Ok(self.view()?.horizon)
    }

    /// Releases the pin of the session's snapshot.
    pub fn end_snapshot(&self, txn: &TxnSession) {
        failpoint("snapshot: about to end");
        txn.slot().unpin();
    }

    /// Waits until all that the view shows is on disk.
    ///
    /// # Errors
    /// `Log` if a sync fails.
    pub fn wait_view_durable(&self, txn: &TxnSession, view: &View) -> Result<()> {
        if view.lsn > self.log.durable() {
            self.log.force(txn.session(), view.lsn.minus(8))?;
        }
        Ok(())
    }

    /// Returns every snapshot that is held.
    pub fn snapshots(&self) -> Vec<SnapshotInfo> {
        let now = boot_micros();
        let pinned = self.txns.used().filter_map(|slot| {
            // Acquire: a pin that is seen was made after the previous pin was released.
            let since = slot.pinned_since.load();
            let (horizon, lsn) = (slot.pinned_horizon.load(), slot.pinned_lsn.load());
            (since != 0 && horizon != Lsn::NONE).then(|| SnapshotInfo {
                session: slot.owner.load(),
                since: wall_time(since),
                lsn,
                horizon,
                is_kept: self.keeps(horizon, Duration::from_micros(now.saturating_sub(since))),
            })
        });
        pinned.collect()
    }

    /// Returns whether any session holds a snapshot.
    pub(crate) fn is_pinned(&self) -> bool {
        self.txns.used().any(|slot| slot.pinned_since.load() != 0)
    }

    fn snapshot_log_bytes(&self) -> u64 {
        self.txns.header.snapshot_log.load().max(self.settings.snapshot_log_bytes)
    }

    /// Returns whether the log that a snapshot needs is kept for it, by its horizon and its age.
    fn keeps(&self, horizon: Lsn, age: Duration) -> bool {
        let is_small = self.log.tail().since(horizon) <= self.snapshot_log_bytes();
        let most = self.settings.snapshot_age.max(Duration::from_micros(self.txns.header.snapshot_age.load()));
        (is_small && age <= most) || planted("snapshot: a snapshot keeps log without a bound")
    }

    /// Returns the LSN from which on the log is kept for snapshots. A snapshot that is pinned later needs only log that
    /// the caller keeps anyway.
    pub(crate) fn needed_by_snapshots(&self) -> Lsn {
        let none = Lsn::new(u64::MAX);
        if planted("snapshot: log that a snapshot needs is recycled") {
            return none;
        }
        // Pairs with the fence of `begin_snapshot`.
        fence(Ordering::SeqCst);
        let kept = self.snapshots().into_iter().filter(|held| held.is_kept);
        kept.map(|held| held.horizon).fold(none, Lsn::min)
    }

    /// Returns an LSN such that every present and later snapshot sees all versions below it. So no snapshot needs an
    /// older version of a record whose version is below this LSN, and no snapshot needs a ghost below it. Takes no
    /// latch and does not wait. Returns `Lsn::NONE` if the LSN is not known at this moment.
    pub fn reclaim_horizon(&self) -> Lsn {
        if planted("snapshot: ghosts that a snapshot needs are removed") {
            return Lsn::new(u64::MAX);
        }
        // A ghost stays until its deletion is sure: by the ghost a reader knows that it has to wait.
        let Some(now) = self.horizon_at(self.sure_place()) else { return Lsn::NONE };
        // Pairs with the fence of `begin_snapshot`.
        fence(Ordering::SeqCst);
        let kept = self.snapshots().into_iter().filter(|held| held.is_kept);
        kept.map(|held| held.horizon).fold(now, Lsn::min)
    }
}

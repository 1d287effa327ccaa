//! Snapshots: what a read-only transaction sees, taken in one step, and what is kept for it.
//!
//! Not in the paper (DESIGN 7: the log is the version store; PROTOCOLS S1, S2). A [`View`] is a place in the log, the
//! transactions that had a record before it and no end before it, and the horizon: the least first record of those. Each
//! record of a database names the log record that made it, and the view says of that place whether it is to be seen.
//! Whoever holds a snapshot has noted so in the slot of its session (a *pin*): one word says since when, so it needs no
//! section, and goes with the slot when the process dies.
//!
//! How a view is taken while everybody goes on, without a latch: first the place, then the notes of appends, then each slot:
//! what runs there now, and then what has ended there. A transaction with a record before the place was in its slot, or noted,
//! when the place was read. If it has left its slot since, it is among those that ended there. Were they so many
//! meanwhile that it may have dropped out, all is looked at again, at a later place.
//!
//! Invariants
//! 1. A transaction is remembered as ended after its commit record was published and before its locks fall. So one that is
//!    taken for running while its commit record is below the place has been read, or overwritten, by nobody that is seen.
//! 2. An aborted transaction need not be remembered: when it leaves its slot, nothing leads to what it wrote (S3).
//! 3. The horizon of a view is never below that of one taken before.
//!
//! If we die here: a pin counts until the slot is given back. While the view is taken it is a pin for all that a view could
//! have needed that was taken before.

use std::sync::atomic::{fence, Ordering};
use std::time::{Duration, SystemTime};

use libtp_log::{Lsn, TxnId};
use libtp_process::{boot_micros, wall_time, SessionId};
use rio::{failpoint, planted};

use crate::slot::{State, TxnSlot, ENDED};
use crate::{Durability, Error, Managers, Result, TxnSession};

/// A view is taken at most so often anew: far more often than ends of transactions can come in between by chance.
const TRIES: u32 = 1_000_000;

/// What a snapshot shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    lsn: Lsn,
    horizon: Lsn,
    /// Those with a record below and no end below, sorted.
    open: Vec<TxnId>,
    /// The log's tail when it was taken.
    taken_at: Lsn,
    /// What is below was on disk when the view was taken, or had been answered before.
    sure: Lsn,
    /// What is below is seen, and sure.
    plain: Lsn,
}

/// What a view says of a version by its LSN alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sight {
    /// It is seen, and nothing before it matters.
    Seen,
    /// It is not seen.
    Hidden,
    /// It is, unless its transaction was open.
    Ask,
}

impl View {
    /// Records below may be seen, none at or above.
    #[inline]
    pub fn lsn(&self) -> Lsn {
        self.lsn
    }

    /// No log below is needed.
    #[inline]
    pub fn horizon(&self) -> Lsn {
        self.horizon
    }

    /// What was on a page when the log was this long, or later, is what this view can judge: what was undone before may look like
    /// what was committed.
    #[inline]
    pub fn taken_at(&self) -> Lsn {
        self.taken_at
    }

    /// Whether a version is seen, and nothing else is to be asked.
    #[inline]
    pub fn shows_plainly(&self, version: Lsn) -> bool {
        version < self.plain
    }

    /// Whether losing the machine can take a version back that is seen, or could when the view was taken: who shows it waits first
    /// ([`Managers::wait_view_durable`]).
    #[inline]
    pub fn is_unsure(&self, version: Lsn) -> bool {
        version >= self.sure
    }

    /// What the LSN of a version says of it.
    #[inline]
    pub fn sight(&self, version: Lsn) -> Sight {
        if version < self.horizon || (version < self.lsn && planted("snapshot: all that was logged before is seen")) {
            Sight::Seen
        } else if version >= self.lsn {
            Sight::Hidden
        } else {
            Sight::Ask
        }
    }

    /// Whether what a transaction wrote below [`View::lsn`] is seen.
    pub fn sees(&self, txn: TxnId) -> bool {
        self.open.binary_search(&txn).is_err()
    }
}

/// A snapshot that somebody holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotInfo {
    /// The session that holds it.
    pub session: SessionId,
    /// Since when.
    pub since: SystemTime,
    /// What it shows ends here; none while it is being taken.
    pub lsn: Lsn,
    /// It needs the log from here on.
    pub horizon: Lsn,
    /// Whether what it needs is kept: it is neither too old nor too much.
    pub is_kept: bool,
}

/// A place in the log, and where the log that is kept for it begins at the latest (PROTOCOLS S2): the same, or the beginning of the record
/// that it lies in.
#[derive(Clone, Copy)]
struct Place {
    lsn: Lsn,
    begins: Lsn,
}

impl Place {
    /// Behind the beginning of a record: no record begins within another's first eight bytes.
    fn behind(record: Lsn) -> Place {
        Place { lsn: record.plus(8), begins: record }
    }
}

/// A transaction that the slots show.
struct Open {
    id: TxnId,
    first: Lsn,
}

impl TxnSlot {
    /// Remembers that a transaction has ended here, so that who takes a snapshot finds it though the slot runs another.
    #[inline]
    pub(crate) fn remember_end(&self, id: TxnId, first: Lsn, end: Lsn) {
        let count = self.ended_count.get();
        let place = &self.ended[place_of(count)];
        // Release, all of them: who finds any of these finds the count that says that the place is used again.
        place.id.publish(id);
        place.first_lsn.publish(first);
        place.end_lsn.publish(end);
        // Release: who sees the count finds the transaction.
        self.ended_count.publish(count + 1);
    }

    /// What runs here now and has logged something; the notes say of the first record of one whose slot does not yet.
    /// `Err` if the slot changed hands meanwhile.
    fn running_now(&self, notes: &[Open]) -> std::result::Result<Option<Open>, ()> {
        // Acquire, all of them: what is found in a slot is from no earlier transaction than what was found before. The number
        // first: one that is found running under it has said that it has logged nothing, or what.
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

    /// Adds what was open in this slot at `lsn`; `Err` if that cannot be told any more.
    fn open_at(&self, lsn: Lsn, notes: &[Open], open: &mut Vec<Open>) -> std::result::Result<(), ()> {
        let mut running = self.running_now(notes)?;
        let count = self.ended_count.load();
        for back in 1..=count.min(ENDED as u64) {
            let place = &self.ended[place_of(count - back)];
            let (id, first, end) = (place.id.load(), place.first_lsn.load(), place.end_lsn.load());
            // The last place but one may be in the middle of being used again.
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

    /// Gives a snapshot's pin back, and that of who copies the log, if there are such.
    pub(crate) fn unpin_all(&self) {
        self.unpin();
        self.kept_from.publish(Lsn::NONE);
    }

    /// Gives a snapshot's pin back, if there is one.
    fn unpin(&self) {
        self.pinned_since.publish(0);
        self.pinned_lsn.init(Lsn::NONE);
        self.pinned_horizon.init(Lsn::NONE);
    }
}

fn place_of(number: u64) -> usize {
    usize::try_from(number % ENDED as u64).expect("a remainder of eight is small")
}

impl TxnSession {
    /// As [`TxnSlot::remember_end`], of the running transaction, or one that was found committed.
    #[inline]
    pub(crate) fn remember_end(&self, end: Lsn) {
        let slot = self.slot();
        if !planted("snapshot: who has ended is forgotten") {
            slot.remember_end(slot.id.get(), slot.first_lsn.get(), end);
        }
    }

    /// The transaction that ran last is answered at that durability: if that is before it is on disk, whoever takes a
    /// snapshot from now on shows it without waiting for the disk (PROTOCOLS S1).
    #[inline]
    pub fn note_answer(&self, managers: &Managers, durability: Durability) {
        let own = self.commit_record();
        if durability != Durability::Sync && own != Lsn::NONE && !planted("snapshot: relaxed commits are waited for") {
            managers.txns.header.answered.fetch_max(own);
        }
    }
}

impl Managers {
    /// Up to where nothing can be taken back by losing the machine: all that is on disk, or was answered before it was.
    fn sure_place(&self) -> Place {
        let (durable, answered) = (self.log.durable(), self.txns.header.answered.load());
        match answered >= durable && answered != Lsn::NONE {
            true => Place::behind(answered),
            false => Place { lsn: durable, begins: durable },
        }
    }

    /// Up to where a snapshot shows what was committed: all whose locks have fallen, which others may have read by now and told of
    /// (PROTOCOLS S1). Behind a failed sync no more becomes sure.
    fn visible_place(&self, sure: Place) -> Place {
        let last = self.txns.header.last_commit.load();
        let is_behind = planted("snapshot: what others have read is not seen") || self.log.is_poisoned();
        match last >= sure.lsn && !is_behind {
            true => Place::behind(last),
            false => sure,
        }
    }

    /// The transactions that were open at a place; none if too much ended meanwhile.
    fn open_at(&self, lsn: Lsn) -> Option<Vec<Open>> {
        let (mut notes, mut open) = (Vec::new(), Vec::new());
        let noted = self.processes.noted_appends().filter(|&(at, id)| id != 0 && at < lsn.raw());
        noted.for_each(|(at, id)| notes.push(Open { id: TxnId::new(id), first: Lsn::new(at) }));
        self.txns.used().try_for_each(|slot| slot.open_at(lsn, &notes, &mut open)).ok()?;
        Some(open)
    }

    /// The horizon at a place; none if too much ended meanwhile.
    fn horizon_at(&self, place: Place) -> Option<Lsn> {
        Some(self.open_at(place.lsn)?.iter().map(|open| open.first).fold(place.begins, Lsn::min))
    }

    /// Takes a view now; none if too much ended meanwhile.
    fn try_view(&self) -> Option<View> {
        let sure_place = self.sure_place();
        let place = self.visible_place(sure_place);
        failpoint("snapshot: place chosen, nothing looked at");
        let open = self.open_at(place.lsn)?;
        let horizon = open.iter().map(|open| open.first).fold(place.begins, Lsn::min);
        let mut open: Vec<TxnId> = open.into_iter().map(|open| open.id).collect();
        open.sort_unstable();
        let sure = match place.lsn == sure_place.lsn || planted("snapshot: what is not durable is shown at once") {
            true => Lsn::new(u64::MAX),
            // What is below the horizon of that place was committed there. Where nobody can tell it all is unsure.
            false => self.horizon_at(sure_place).unwrap_or(Lsn::NONE),
        };
        // After all that: who was not met any more has undone what it undid below.
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
        let what = "the transactions that ended are not to be told apart from those that run".to_string();
        Err(Error::Broken { what })
    }

    /// Takes a snapshot for a session that runs no transaction, and keeps what it needs until [`Managers::end_snapshot`].
    ///
    /// # Errors
    /// `Broken`.
    ///
    /// # Panics
    /// If the session runs a transaction or holds a snapshot.
    pub fn begin_snapshot(&self, who: &TxnSession) -> Result<View> {
        assert_eq!(who.state(), State::Idle, "a session that holds a snapshot runs no transaction");
        let slot = who.slot();
        assert_eq!(slot.pinned_since.get(), 0, "a session holds one snapshot");
        // What the view may need is kept from before it is taken: a later one needs no more than one of now.
        let is_late = planted("snapshot: pinned when it is taken");
        if !is_late {
            slot.pinned_horizon.init(self.early_horizon(who)?);
            slot.pinned_since.publish(boot_micros().max(1));
        }
        failpoint("snapshot: pinned, not taken");
        // Sequentially consistent, with that of who reclaims: either the place is read after that one's, or the pin is seen
        // there.
        fence(Ordering::SeqCst);
        let view = self.view().inspect_err(|_| slot.unpin())?;
        failpoint("snapshot: taken, pinned for more");
        slot.pinned_lsn.init(view.lsn);
        slot.pinned_horizon.publish(view.horizon);
        if is_late {
            slot.pinned_since.publish(boot_micros().max(1));
        }
        who.last_horizon.set(view.horizon);
        self.want_shortcuts();
        failpoint("snapshot: taken");
        Ok(view)
    }

    /// A horizon that no view of now or later is below: that of the session's last view, while the log that keeps is little; else one
    /// of now.
    fn early_horizon(&self, who: &TxnSession) -> Result<Lsn> {
        let last = who.last_horizon.get();
        let is_near = last != Lsn::NONE && self.log.tail().since(last) <= self.settings.snapshot_log_bytes / 4;
        if is_near {
            return Ok(last);
        }
        Ok(self.view()?.horizon)
    }

    /// Gives back what was kept for the session's snapshot.
    pub fn end_snapshot(&self, who: &TxnSession) {
        failpoint("snapshot: about to end");
        who.slot().unpin();
    }

    /// Waits until all that the view shows is on disk.
    ///
    /// # Errors
    /// `Log` when that fails.
    pub fn wait_view_durable(&self, who: &TxnSession, view: &View) -> Result<()> {
        if view.lsn > self.log.durable() {
            self.log.force(who.session(), view.lsn.minus(8))?;
        }
        Ok(())
    }

    /// Every snapshot that is held.
    pub fn snapshots(&self) -> Vec<SnapshotInfo> {
        let now = boot_micros();
        let pinned = self.txns.used().filter_map(|slot| {
            // Acquire: a pin that is seen was made after the one before was given back.
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

    /// Whether somebody holds a snapshot.
    pub(crate) fn is_pinned(&self) -> bool {
        self.txns.used().any(|slot| slot.pinned_since.load() != 0)
    }

    /// Whether what a snapshot needs is kept for it, by its horizon and its age.
    fn keeps(&self, horizon: Lsn, age: Duration) -> bool {
        let is_small = self.log.tail().since(horizon) <= self.settings.snapshot_log_bytes;
        (is_small && age <= self.settings.snapshot_age) || planted("snapshot: what it needs is kept for ever")
    }

    /// The log from here on is kept for snapshots. One that is pinned later needs nothing that who asks does not keep anyway.
    pub(crate) fn needed_by_snapshots(&self) -> Lsn {
        let none = Lsn::new(u64::MAX);
        if planted("snapshot: the log does not wait") {
            return none;
        }
        // As in `begin_snapshot`.
        fence(Ordering::SeqCst);
        let kept = self.snapshots().into_iter().filter(|held| held.is_kept);
        kept.map(|held| held.horizon).fold(none, Lsn::min)
    }

    /// Every snapshot, of now or later, sees versions below this: what they replaced, and the ghosts that they are, nobody
    /// looks for. Takes no latch and does not wait; none if that cannot be told at this moment.
    pub fn reclaim_horizon(&self) -> Lsn {
        if planted("snapshot: ghosts do not wait") {
            return Lsn::new(u64::MAX);
        }
        // A ghost stays until its deletion is sure: by the ghost a reader knows that it has to wait.
        let Some(now) = self.horizon_at(self.sure_place()) else { return Lsn::NONE };
        // As in `begin_snapshot`.
        fence(Ordering::SeqCst);
        let kept = self.snapshots().into_iter().filter(|held| held.is_kept);
        kept.map(|held| held.horizon).fold(now, Lsn::min)
    }
}

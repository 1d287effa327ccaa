//! Taking a lock.
//!
//! Paper: LIBTP 3.2.3, *lock*: "if an incoming lock request cannot be granted, the requesting process is queued for the
//! lock and descheduled". A lock that no other locker wants is one swap of a word (`alone.rs`); every other change
//! happens under the latch of a bucket.
//!
//! Latches: one bucket (rank 60). If the locker has no free slot, the slab's latch (62) is taken and released before
//! that.
//!
//! If we die here: before the section is closed, the lock counts as not requested. After the close, the locker has the
//! request, granted or waiting, on its stack, where the repairer finds the request.

use libtp_process::Session;
use rio::{failpoint, planted};

use crate::change::{before_store, Change};
use crate::locker::LockerSlot;
use crate::name::LockName;
use crate::queue::Queue;
use crate::request::{Place, State, Summary};
use crate::table::{Latched, LONG_CHAIN};
use crate::thin::Thin;
use crate::{Error, LockManager, LockerId, Mode, Result, Wait};

/// A call for a lock: the session, the locker, the object and the mode.
#[derive(Clone, Copy)]
pub(crate) struct Ask<'a> {
    pub(crate) session: &'a Session,
    pub(crate) locker: u32,
    pub(crate) slot: &'a LockerSlot,
    pub(crate) name: LockName,
    pub(crate) mixed: u64,
    pub(crate) mode: Mode,
}

impl Ask<'_> {
    #[cold]
    pub(crate) fn would_block(&self) -> Error {
        Error::WouldBlock { name: self.name, mode: self.mode }
    }
}

impl LockManager {
    /// Takes a lock: the paper's `lock`. If the locker holds the lock in a mode that covers `mode`, nothing changes. If
    /// the locker holds the lock in another mode, the call converts the lock to the weakest mode that covers both
    /// modes; the conversion is granted before all waiting requests.
    ///
    /// With every `wait` except [`Wait::No`] the call may sleep, so the caller holds no latch.
    ///
    /// # Errors
    /// `WouldBlock` with `Wait::No`; `Timeout`; `Deadlock` if the locker was chosen as the victim; `Full` and
    /// `OutOfReach` when the table cannot grow. In each case the locker keeps the locks that it held before.
    ///
    /// # Panics
    /// If the call must wait and the session holds a latch.
    #[inline]
    pub fn lock(&self, session: &Session, locker: LockerId, name: LockName, mode: Mode, wait: Wait) -> Result<()> {
        let ask = self.ask(session, locker, name, mode);
        if !name.is_coarse() && self.lock_thin(&ask) {
            return Ok(());
        }
        self.lock_slowly(ask, wait)
    }

    // Takes the call by value: the fast path above then keeps the fields of the call in registers.
    #[cold]
    #[inline(never)]
    fn lock_slowly(&self, ask: Ask<'_>, wait: Wait) -> Result<()> {
        let ask = &ask;
        if ask.name.is_coarse() {
            return self.lock_coarse(ask, wait);
        }
        if ask.session.latch_count() == 0 {
            self.table.make_postponed_splits(ask.session);
        }
        let place = self.table.next_slot(ask.session, ask.slot)?;
        let latched = self.table.latch(ask.session, ask.mixed);
        self.lock_latched(ask, latched, place, wait)
    }

    /// Takes a lock with the bucket latched and a free slot at hand.
    #[inline]
    pub(crate) fn lock_latched(&self, ask: &Ask<'_>, latched: Latched<'_>, place: Place, wait: Wait) -> Result<()> {
        let may_be_thin = !ask.name.is_coarse();
        if may_be_thin && !planted("lock: a word is not read again under the latch") {
            self.table.fatten(ask.session, latched.bucket, ask.mixed);
        }
        match self.table.find(latched.bucket, ask.name, ask.mixed) {
            Err(passed) => {
                if may_be_thin && self.table.has_no_queue_of_word(latched.bucket, ask.mixed) {
                    self.lock_thin_latched(ask, place);
                    drop(latched);
                } else {
                    self.lock_new(ask, latched, place);
                }
                if passed >= LONG_CHAIN {
                    if ask.session.latch_count() == 0 {
                        self.table.split_one(ask.session);
                    } else {
                        self.table.postpone_split();
                    }
                }
                Ok(())
            }
            Ok(queue) => self.lock_known(ask, latched, queue, place, wait),
        }
    }

    /// Takes a lock if the call need not wait. Callers that hold a latch, and callers that escalate (PROTOCOLS K2),
    /// must take locks with this call.
    ///
    /// # Errors
    /// As [`LockManager::lock`] with [`Wait::No`].
    #[inline]
    pub fn try_lock(&self, session: &Session, locker: LockerId, name: LockName, mode: Mode) -> Result<()> {
        self.lock(session, locker, name, mode, Wait::No)
    }

    /// Makes sure that the locker's next lock needs no room. Called before the first latch (PROTOCOLS D11). A caller
    /// that takes many locks with latches held also calls this in between, while it holds no latch: only then can the
    /// table grow.
    ///
    /// # Errors
    /// `Full`, `OutOfReach`.
    #[inline]
    pub fn reserve(&self, session: &Session, locker: LockerId) -> Result<()> {
        let slot = self.table.locker(locker.0);
        // The count of requests is never too small.
        if slot.count.get() < slot.slots.get() && !self.table.has_postponed_splits() {
            return Ok(());
        }
        self.reserve_slowly(session, slot)
    }

    #[cold]
    #[inline(never)]
    fn reserve_slowly(&self, session: &Session, slot: &LockerSlot) -> Result<()> {
        self.table.make_postponed_splits(session);
        self.table.next_slot(session, slot).map(|_| ())
    }

    #[inline]
    pub(crate) fn ask<'a>(&'a self, session: &'a Session, locker: LockerId, name: LockName, mode: Mode) -> Ask<'a> {
        Ask { session, locker: locker.0, slot: self.table.locker(locker.0), name, mixed: name.mixed(), mode }
    }

    /// Takes a lock on an object that no locker has, under the latch. The word has FAT, but no name of the word has a
    /// queue, so this locker becomes the owner of the word.
    fn lock_thin_latched(&self, ask: &Ask<'_>, place: Place) {
        ask.slot.note_thin(ask, self.table.request(place), place);
        before_store();
        failpoint("lock: thin again, noted");
        // A plain store: no session changes a word with FAT without the latch.
        self.table.word(ask.mixed).publish(Thin::owned(place, ask.mixed, ask.mode));
        failpoint("lock: thin again, latch held");
    }

    /// Makes the first request for an object that no locker has.
    #[inline]
    fn lock_new(&self, ask: &Ask<'_>, latched: Latched<'_>, place: Place) {
        let request = self.table.request(place);
        let chain = latched.bucket.chain(ask.mixed);
        request.fill(ask.name, ask.mixed, ask.locker, State::granted_in(ask.mode));
        request.chain_next.init(chain.get());
        failpoint("lock: new, request filled");
        ask.slot.note_one_more(ask.mixed);
        let mut change = Change::open(ask.session);
        change.set(chain, place);
        failpoint("lock: new, in its chain, not on the stack");
        ask.slot.push(&mut change, place);
        failpoint("lock: new, section open");
        change.close();
        failpoint("lock: new, granted");
        drop(latched);
    }

    /// Takes a lock on an object that has a queue, perhaps with this locker in it.
    fn lock_known(
        &self,
        ask: &Ask<'_>,
        latched: Latched<'_>,
        queue: Queue<'_>,
        place: Place,
        wait: Wait,
    ) -> Result<()> {
        if ask.slot.may_hold(ask.mixed) && !planted("lock: a locker does not look for its own request") {
            if let Some((own, _)) = queue.of_locker(ask.locker) {
                return self.convert(ask, latched, queue, own, wait);
            }
        }
        if let Some(summary) = may_join(queue, ask.mode) {
            self.join(ask, queue, place, summary);
            return Ok(());
        }
        if queue.can_be_overtaken(ask.mode) {
            self.overtake(ask, &latched, queue, place);
            return Ok(());
        }
        if wait == Wait::No {
            return Err(ask.would_block());
        }
        failpoint("lock: about to queue");
        self.enqueue(ask, queue, place);
        let number = self.begin_wait(ask, place);
        failpoint("lock: waits, latch held");
        drop(latched);
        failpoint("lock: waits");
        self.wait(ask, place, number, wait)
    }

    /// Adds a granted request to the queue.
    fn join(&self, ask: &Ask<'_>, queue: Queue<'_>, place: Place, summary: Summary) {
        let (request, head) = (self.table.request(place), queue.head);
        let next = head.queue_next.get();
        request.fill(ask.name, ask.mixed, ask.locker, State::granted_in(ask.mode));
        request.queue_prev.init(queue.place);
        request.queue_next.init(next);
        ask.slot.note_one_more(ask.mixed);
        let mut change = Change::open(ask.session);
        change.set(&head.queue_next, place);
        failpoint("lock: join, linked one way");
        if let Some(next) = next.some() {
            change.set(&self.table.request(next).queue_prev, place);
        }
        failpoint("lock: join, summary old");
        if head.summary.get() != summary {
            change.set(&head.summary, summary);
        }
        failpoint("lock: join, not on the stack");
        ask.slot.push(&mut change, place);
        change.close();
        failpoint("lock: joined");
    }

    /// Adds a waiting request to the end of the queue.
    pub(crate) fn enqueue(&self, ask: &Ask<'_>, queue: Queue<'_>, place: Place) {
        let request = self.table.request(place);
        let (last_place, last) = queue.last();
        request.fill(ask.name, ask.mixed, ask.locker, State::waiting_for(ask.mode));
        request.queue_prev.init(last_place);
        ask.slot.note_one_more(ask.mixed);
        let mut change = Change::open(ask.session);
        change.set(&last.queue_next, place);
        failpoint("lock: enqueue, summary old");
        change.set(&queue.head.summary, queue.head.summary.get().with_waiting());
        failpoint("lock: enqueue, not on the stack");
        ask.slot.push(&mut change, place);
        change.close();
        failpoint("lock: enqueued, not marked as waiting");
    }
}

/// Returns the queue's summary after the grant of `mode` to a further locker; `None` if that locker must wait.
fn may_join(queue: Queue<'_>, mode: Mode) -> Option<Summary> {
    let summary = queue.head.summary.get();
    if summary.waiting() {
        return None;
    }
    if summary.granted() & mode.conflicts() == 0
        || (mode == Mode::S && planted("lock: readers are granted beside a writer"))
    {
        return Some(summary.with(mode.bit()));
    }
    // The summary may have bits of modes that were released, so the queue itself is read.
    let granted = queue.granted();
    (granted & mode.conflicts() == 0).then(|| Summary::new(granted | mode.bit(), false))
}

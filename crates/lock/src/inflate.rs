//! Inflation: a thin lock becomes the first request of a queue, because another locker wants a lock on a name of the
//! same word.
//!
//! An inflation happens under the latch of the bucket. First the session sets FAT in the word, so the owner's swaps
//! fail. Then a section makes the owner's request the head of a queue. Last, the place of the request is removed from
//! the word, which then has only FAT. Before a session searches for a queue, it does the steps that an earlier session
//! has left undone (docs/design/0021, rules 4, 5, 10 and 11).
//!
//! If we die here: the word may have FAT and a place. The state of the request at that place then shows whether the
//! request is in a queue, because one section changes both the state and the queue.

use libtp_process::Session;
use rio::{failpoint, planted};

use crate::change::{before_store, Change};
use crate::locker::LockerSlot;
use crate::mode::Mode;
use crate::name::LockName;
use crate::queue::Queue;
use crate::request::{Place, Request, State, Summary};
use crate::table::{Bucket, Table, LONG_CHAIN};
use crate::thin::{word_number, Thin};

impl Table {
    /// Returns the queue of a name, after the inflation of its thin lock. If the name has no queue, returns the number
    /// of objects in the chain as the error. The caller has the latch of the bucket.
    #[inline]
    pub(crate) fn queue_of(
        &self,
        session: &Session,
        bucket: &Bucket,
        name: LockName,
        mixed: u64,
    ) -> Result<Queue<'_>, u32> {
        if !name.is_coarse() {
            if !self.word(mixed).load().may_be_for(mixed) {
                return Err(0);
            }
            self.fatten(session, bucket, mixed);
        }
        self.find(bucket, name, mixed)
    }

    /// Makes the word of a name FAT, and makes the request of the word's owner the head of a queue. The caller has the
    /// latch.
    #[inline]
    pub(crate) fn fatten(&self, session: &Session, bucket: &Bucket, mixed: u64) {
        let word = self.word(mixed);
        loop {
            let seen = word.load();
            if seen == Thin::FAT {
                return;
            }
            if seen.is_fat() {
                return self.inflate(session, bucket, mixed, seen);
            }
            before_store();
            failpoint("lock: about to mark a word");
            // The swap fails if the owner has released the lock or changed its mode meanwhile, or if another locker has
            // taken the word.
            let _ = word.compare_exchange(seen, seen.with_fat());
        }
    }

    /// Finishes an inflation that has begun: the word has FAT and an owner.
    #[cold]
    #[inline(never)]
    fn inflate(&self, session: &Session, bucket: &Bucket, mixed: u64, seen: Thin) {
        let request = self.request(seen.place());
        request.assert_undamaged();
        assert!(same_word(request.mixed.get(), mixed), "a word of the lock table has the place of another word's lock");
        if request.state.get().is_thin() && !planted("lock: a marked word counts as inflated") {
            let mode = seen.mode().expect("a word with an owner has a mode");
            self.make_queue(session, bucket, seen.place(), request, mode);
        }
        before_store();
        failpoint("lock: inflated, word still names its owner");
        self.word(mixed).publish(Thin::FAT);
    }

    /// Makes the request of a thin lock the head of a queue.
    fn make_queue(&self, session: &Session, bucket: &Bucket, place: Place, request: &Request, mode: Mode) {
        let chain = bucket.chain(request.mixed.get());
        // The request is in no queue yet, so these words have no meaning and need no before-images.
        request.init_queue_words(Summary::new(mode.bit(), false), chain.get());
        let mut change = Change::open(session);
        change.set(chain, place);
        failpoint("lock: request in its chain, state still thin");
        change.set(&request.state, State::granted_in(mode));
        change.close();
        failpoint("lock: inflated");
        if self.chain_length(chain) >= LONG_CHAIN as usize {
            self.postpone_split();
        }
    }

    /// Returns whether no queue of the bucket is for a name that has the word of `mixed`. The caller holds the bucket's
    /// latch.
    pub(crate) fn has_no_queue_of_word(&self, bucket: &Bucket, mixed: u64) -> bool {
        let mut passed = 0;
        for chain in &bucket.chains {
            let mut next = chain.get();
            while let Some(place) = next.some() {
                let head = self.request(place);
                passed += 1;
                // After `WALK_MAX` queues the search stops and returns false: the rest may contain such a queue.
                if passed == WALK_MAX || same_word(head.mixed.get(), mixed) {
                    return false;
                }
                next = head.chain_next.get();
            }
        }
        true
    }

    /// Removes a request's place from the word, under the latch, before the request is released. Returns whether the
    /// request is in a queue.
    pub(crate) fn settle_for_release(&self, mixed: u64, place: Place, request: &Request) -> bool {
        let word = self.word(mixed);
        let (seen, is_queued) = (word.load(), !request.state.get().is_thin());
        if seen.place() != place || planted("lock: a release under the latch does not remove the request from the word")
        {
            return is_queued;
        }
        if is_queued && planted("lock: the release of a queued request does not remove the request from the word") {
            return true;
        }
        #[cfg(test)]
        crate::change::stop::here();
        // The place is removed before the slot becomes free. A plain store is enough: no session changes a word with
        // FAT without the latch, and only the owner changes a word without FAT.
        word.publish(if seen.is_fat() { Thin::FAT } else { Thin::FREE });
        is_queued
    }
}

/// The largest number of queues that a search for a word's queue passes.
const WALK_MAX: usize = 64;

fn same_word(one: u64, other: u64) -> bool {
    word_number(one) == word_number(other)
}

impl LockerSlot {
    /// Returns the mode of the lock that the locker holds by `request`, a request on the locker's stack. Returns `None`
    /// if the request waits, or if the request is thin and the word of the lock's name does not have `place`.
    pub(crate) fn held_mode(table: &Table, place: Place, request: &Request) -> Option<Mode> {
        let state = request.state.get();
        if !state.is_thin() {
            return state.granted();
        }
        let word = table.word(request.mixed.get()).load();
        word.mode().filter(|_| word.place() == place)
    }
}

#[cfg(test)]
mod tests;

//! The transactions that this thread has open.
//!
//! Two decisions depend on this thread's open transactions. A thread that has an open transaction with locks must not
//! wait for a lane when it begins another transaction: other sessions would wait for those locks while the thread waits
//! for a lane. And a transaction that waits for another transaction of its own thread waits for ever: the thread cannot
//! end the other transaction while it waits (`own_thread.rs`).
//!
//! A transaction may move to another thread. Until another thread uses the transaction, it counts as open in the thread
//! that began it. From then on it counts as open in no known thread. A name in the list outlives its transaction, but
//! names are not used again, so an ended transaction is never mistaken for another transaction.

use std::cell::Cell;
use std::sync::{Mutex, PoisonError};

use crate::{LockManager, LockerId};

/// The number of transactions of one thread that are known by name.
const NAMED: usize = 8;

/// A transaction: the number of the lock table, its locker there, and its number. All zero: no transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Named {
    handle: usize,
    locker: u32,
    txn: u64,
}

const NONE: Named = Named { handle: 0, locker: 0, txn: 0 };

impl Named {
    #[inline]
    fn of(locks: &LockManager, locker: LockerId, txn: u64) -> Named {
        Named { handle: locks.number, locker: locker.0, txn }
    }

    /// Returns whether the locker has another transaction now. Returns false for a locker of another table, whose slots
    /// this handle does not have.
    fn has_ended(self, locks: &LockManager) -> bool {
        let is_ours = self.handle == locks.number;
        self == NONE || is_ours && locks.table.locker(self.locker).birth.load() != self.txn
    }
}

struct Here {
    count: Cell<u32>,
    named: [Cell<Named>; NAMED],
}

thread_local! {
    static HERE: Here = const { Here { count: Cell::new(0), named: [const { Cell::new(NONE) }; NAMED] } };
}

/// Transactions that a second thread has used.
static MOVED: Mutex<Vec<Named>> = Mutex::new(Vec::new());

fn moved() -> std::sync::MutexGuard<'static, Vec<Named>> {
    MOVED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns a number that distinguishes this thread from all other running threads.
#[inline]
fn this_thread() -> usize {
    HERE.with(|here| std::ptr::from_ref(here).addr())
}

/// A counted transaction. If a transaction ends in another thread than it began in, the counts of both threads are off
/// by one. The first thread then waits for no lane. This does no harm, because lanes are only advice.
pub struct OpenHere(());

impl OpenHere {
    /// Counts a transaction that this thread begins.
    #[inline]
    #[expect(clippy::new_without_default, reason = "a call counts a transaction, and makes no plain value")]
    pub fn new() -> OpenHere {
        HERE.with(|here| here.count.set(here.count.get() + 1));
        OpenHere(())
    }

    /// Returns whether the thread has an open transaction.
    pub fn any() -> bool {
        HERE.with(|here| here.count.get() != 0)
    }

    /// Returns whether the thread has no other open transaction.
    #[inline]
    pub fn is_only_one(&self) -> bool {
        HERE.with(|here| here.count.get() == 1)
    }
}

impl Drop for OpenHere {
    #[inline]
    fn drop(&mut self) {
        HERE.with(|here| here.count.set(here.count.get().saturating_sub(1)));
    }
}

/// The thread in which a session's transaction is open.
pub struct OpenIn {
    thread: Cell<usize>,
    moved: Cell<Named>,
}

impl Default for OpenIn {
    fn default() -> OpenIn {
        OpenIn { thread: Cell::new(0), moved: Cell::new(NONE) }
    }
}

impl Drop for OpenIn {
    fn drop(&mut self) {
        if self.moved.get().handle != 0 {
            self.forget_move();
        }
    }
}

impl OpenIn {
    /// Notes that the transaction begins in this thread. If a thread has very many open transactions, only some are
    /// known.
    #[inline]
    pub fn begin(&self, locks: &LockManager, locker: LockerId, txn: u64) {
        if self.moved.get().handle != 0 {
            self.forget_move();
        }
        let name = Named::of(locks, locker, txn);
        HERE.with(|here| {
            self.thread.set(std::ptr::from_ref(here).addr());
            match here.count.get() {
                // All transactions in the list have ended, or moved elsewhere.
                1 => here.named[0].set(name),
                _ => add(here, locks, name),
            }
        });
    }

    /// Notes that this thread uses the transaction.
    #[inline]
    pub fn note_use(&self, locks: &LockManager, locker: LockerId, txn: impl FnOnce() -> u64) {
        if self.thread.get() != this_thread() {
            self.note_move(Named::of(locks, locker, txn()));
        }
    }

    #[cold]
    #[inline(never)]
    fn note_move(&self, name: Named) {
        self.thread.set(this_thread());
        if self.moved.replace(name) != name {
            moved().push(name);
        }
    }

    #[cold]
    #[inline(never)]
    fn forget_move(&self) {
        let name = self.moved.replace(NONE);
        moved().retain(|&other| other != name);
    }
}

#[cold]
#[inline(never)]
fn add(here: &Here, locks: &LockManager, name: Named) {
    if let Some(free) = here.named.iter().find(|named| named.get().has_ended(locks)) {
        free.set(name);
    } else {
        here.named.iter().zip(&here.named[1..]).for_each(|(to, from)| to.set(from.get()));
        here.named[NAMED - 1].set(name);
    }
}

/// Returns whether this thread has more than one transaction open.
pub(crate) fn has_several() -> bool {
    HERE.with(|here| here.count.get() > 1)
}

/// Returns whether the transaction `txn`, with that locker, is open in this thread.
pub(crate) fn is_here(locks: &LockManager, locker: u32, txn: u64) -> bool {
    let name = Named::of(locks, LockerId(locker), txn);
    HERE.with(|here| here.named.iter().any(|named| named.get() == name)) && !moved().contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scene::Scene;

    #[test]
    fn each_thread_counts_its_own_transactions() {
        let first = OpenHere::new();
        assert!(first.is_only_one());
        let second = OpenHere::new();
        assert!(!second.is_only_one());
        std::thread::scope(|scope| scope.spawn(|| assert!(OpenHere::new().is_only_one())).join().unwrap());
        drop(first);
        assert!(second.is_only_one());
        std::thread::scope(|scope| scope.spawn(move || drop(second)).join().unwrap());
        assert!(!OpenHere::new().is_only_one(), "a transaction that another thread ended still counts");
    }

    #[test]
    fn a_transaction_is_open_in_its_first_thread_until_another_thread_uses_the_transaction() {
        let scene = Scene::default();
        let (locks, locker) = (&scene.locks, scene.lockers[0]);
        let (_open, open_in) = (OpenHere::new(), OpenIn::default());
        open_in.begin(locks, locker, 7);
        assert!(is_here(locks, locker.0, 7) && !is_here(locks, locker.0, 8) && !is_here(locks, locker.0 + 1, 7));
        let open_in = std::thread::scope(|scope| {
            let there = scope.spawn(move || {
                open_in.note_use(locks, locker, || 7);
                open_in
            });
            there.join().unwrap()
        });
        assert!(!is_here(locks, locker.0, 7), "another thread has used it");
        open_in.begin(locks, locker, 8);
        assert!(is_here(locks, locker.0, 8) && !moved().iter().any(|moved| moved.handle == locks.number));
    }

    #[test]
    fn a_transaction_that_is_open_for_long_is_still_known_after_many_others() {
        let scene = Scene::default();
        let (locks, [outer, inner]) = (&scene.locks, [scene.lockers[0], scene.lockers[1]]);
        let (_open, open_in) = (OpenHere::new(), OpenIn::default());
        locks.set_birth(outer, 1);
        open_in.begin(locks, outer, 1);
        for txn in 2..20 {
            let (_open, open_in) = (OpenHere::new(), OpenIn::default());
            locks.set_birth(inner, txn);
            open_in.begin(locks, inner, txn);
            assert!(is_here(locks, inner.0, txn) && is_here(locks, outer.0, 1), "{txn}");
        }
    }
}

//! Which transactions this thread has open.
//!
//! Two things depend on it. Who begins a transaction while the thread holds another's locks must not be made to wait for its turn: it
//! would keep those others from their locks in the middle of theirs. And a transaction that waits for another of its own thread waits for
//! ever: the thread cannot end the other while it waits (`own_thread.rs`).
//!
//! A transaction may go to another thread. It is open in the thread that began it until another uses it, and then in none that is known.
//! A name outlives its transaction: names are not used again, so nobody is taken for one that has ended.

use std::cell::Cell;
use std::sync::{Mutex, PoisonError};

use crate::{LockManager, LockerId};

/// So many transactions of one thread are known by name.
const NAMED: usize = 8;

/// A transaction: the handle of the lock table, its locker there, and its number. All zero is none.
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

    /// Whether its locker has another transaction by now. Of another handle's nobody can tell.
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

/// Transactions that were used in another thread than they began in.
static MOVED: Mutex<Vec<Named>> = Mutex::new(Vec::new());

fn moved() -> std::sync::MutexGuard<'static, Vec<Named>> {
    MOVED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What tells this thread from others that run now.
#[inline]
fn this_thread() -> usize {
    HERE.with(|here| std::ptr::from_ref(here).addr())
}

/// A transaction that is counted. One that ends in another thread than it began in leaves the counts of both off by one: then
/// the first waits for no turns any more, which is advice.
pub struct OpenHere(());

impl OpenHere {
    /// The thread begins a transaction.
    #[inline]
    #[expect(clippy::new_without_default, reason = "it is no value: a thread counts one more")]
    pub fn new() -> OpenHere {
        HERE.with(|here| here.count.set(here.count.get() + 1));
        OpenHere(())
    }

    /// Whether the thread has any.
    pub fn any() -> bool {
        HERE.with(|here| here.count.get() != 0)
    }

    /// Whether the thread has no other.
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
    /// The transaction begins, in this thread. Of very many of one thread not all are known.
    #[inline]
    pub fn begin(&self, locks: &LockManager, locker: LockerId, txn: u64) {
        if self.moved.get().handle != 0 {
            self.forget_move();
        }
        let name = Named::of(locks, locker, txn);
        HERE.with(|here| {
            self.thread.set(std::ptr::from_ref(here).addr());
            match here.count.get() {
                // All that the list has have ended, or went elsewhere.
                1 => here.named[0].set(name),
                _ => add(here, locks, name),
            }
        });
    }

    /// This thread uses the transaction.
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

/// Whether this thread has more than one transaction open.
pub(crate) fn has_several() -> bool {
    HERE.with(|here| here.count.get() > 1)
}

/// Whether the transaction `txn`, with that locker, is open in this thread.
pub(crate) fn is_here(locks: &LockManager, locker: u32, txn: u64) -> bool {
    let name = Named::of(locks, LockerId(locker), txn);
    HERE.with(|here| here.named.iter().any(|named| named.get() == name)) && !moved().contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::overtake::tests::Scene;

    #[test]
    fn each_thread_counts_its_own() {
        let first = OpenHere::new();
        assert!(first.is_only_one());
        let second = OpenHere::new();
        assert!(!second.is_only_one());
        std::thread::scope(|scope| scope.spawn(|| assert!(OpenHere::new().is_only_one())).join().unwrap());
        drop(first);
        assert!(second.is_only_one());
        std::thread::scope(|scope| scope.spawn(move || drop(second)).join().unwrap());
        assert!(!OpenHere::new().is_only_one(), "one that ended elsewhere counts on");
    }

    #[test]
    fn a_transaction_is_open_where_it_began_until_another_thread_uses_it() {
        let scene = Scene::new();
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
    fn who_is_open_for_long_is_known_among_many_that_end() {
        let scene = Scene::new();
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

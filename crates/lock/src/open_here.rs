//! Which transactions this thread has open.
//!
//! Two things depend on it. Who begins a transaction while the thread holds another's locks must not be made to wait for its turn: it
//! would keep those others from their locks in the middle of theirs. And a transaction that waits for another of its own thread waits for
//! ever: the thread cannot end the other while it waits (`own_thread.rs`).
//!
//! A transaction may go to another thread. It is open in the thread that began it until another uses it, and then in none that is known.

use std::cell::Cell;
use std::sync::{Mutex, PoisonError};

use crate::{LockManager, LockerId};

/// So many transactions of one thread are known by name.
const NAMED: usize = 8;

/// A transaction: the lock table, its locker there, and its number. All zero is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Named {
    table: usize,
    locker: u32,
    txn: u64,
}

const NONE: Named = Named { table: 0, locker: 0, txn: 0 };

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

/// A transaction that is counted, and known by name. One that ends in another thread than it began in leaves the counts of both off
/// by one: then the first waits for no turns any more, which is advice.
pub struct OpenHere {
    /// Where it began.
    thread: usize,
    has_moved: Cell<bool>,
    name: Cell<Named>,
}

impl OpenHere {
    /// The thread begins a transaction.
    #[inline]
    #[expect(clippy::new_without_default, reason = "it is no value: a thread counts one more")]
    pub fn new() -> OpenHere {
        HERE.with(|here| here.count.set(here.count.get() + 1));
        OpenHere { thread: this_thread(), has_moved: Cell::new(false), name: Cell::new(NONE) }
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

    /// Says which transaction it is. Of very many of one thread not all are known.
    #[inline]
    pub fn set_name(&self, locks: &LockManager, locker: LockerId, txn: u64) {
        let name = Named { table: locks.table_address(), locker: locker.0, txn };
        self.name.set(name);
        HERE.with(|here| {
            if let Some(free) = here.named.iter().find(|named| named.get().table == 0) {
                free.set(name);
            } else {
                // The oldest may have ended in another thread.
                here.named.iter().zip(&here.named[1..]).for_each(|(to, from)| to.set(from.get()));
                here.named[NAMED - 1].set(name);
            }
        });
    }

    /// The thread uses it.
    #[inline]
    pub fn note_use(&self) {
        if self.thread != this_thread() {
            self.note_move();
        }
    }

    #[cold]
    #[inline(never)]
    fn note_move(&self) {
        if !self.has_moved.replace(true) {
            moved().push(self.name.get());
        }
    }

    #[cold]
    #[inline(never)]
    fn forget_move(&self) {
        let name = self.name.get();
        moved().retain(|&other| other != name);
    }
}

impl Drop for OpenHere {
    #[inline]
    fn drop(&mut self) {
        if self.has_moved.get() {
            self.forget_move();
        }
        let name = self.name.get();
        HERE.with(|here| {
            here.count.set(here.count.get().saturating_sub(1));
            if let Some(own) = here.named.iter().find(|named| named.get() == name) {
                own.set(NONE);
            }
        });
    }
}

/// Whether this thread has more than one transaction open.
pub(crate) fn has_several() -> bool {
    HERE.with(|here| here.count.get() > 1)
}

/// Whether the transaction `txn`, with that locker, is open in this thread. One that ended meanwhile is not met: its locker has another
/// transaction, or holds nothing.
pub(crate) fn is_here(locks: &LockManager, locker: u32, txn: u64) -> bool {
    let name = Named { table: locks.table_address(), locker, txn };
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
        let locks = &scene.locks;
        let open = OpenHere::new();
        open.set_name(locks, LockerId(3), 7);
        assert!(is_here(locks, 3, 7) && !is_here(locks, 3, 8) && !is_here(locks, 4, 7));
        let open = std::thread::scope(|scope| {
            let there = scope.spawn(|| {
                open.note_use();
                open
            });
            there.join().unwrap()
        });
        assert!(!is_here(locks, 3, 7), "another thread has used it");
        drop(open);
        assert!(!is_here(locks, 3, 7));
        let many: Vec<OpenHere> = (0..20).map(|_| OpenHere::new()).collect();
        many.iter().zip(1..).for_each(|(open, txn)| open.set_name(locks, LockerId(9), txn));
        assert!(is_here(locks, 9, 20), "the newest are known");
    }
}

//! How many transactions this thread has open.
//!
//! Who begins one while it holds another's locks must not be made to wait for its turn: it would keep those others from their
//! locks in the middle of theirs.

use std::cell::Cell;

thread_local! {
    static OPEN: Cell<u32> = const { Cell::new(0) };
}

/// A transaction that is counted. One that ends in another thread than it began in leaves the counts of both off by one: then
/// the first waits for no turns any more, which is advice.
pub(crate) struct OpenHere(());

impl OpenHere {
    #[inline]
    pub(crate) fn new() -> OpenHere {
        OPEN.set(OPEN.get() + 1);
        OpenHere(())
    }

    /// Whether the thread has any.
    pub(crate) fn any() -> bool {
        OPEN.get() != 0
    }

    /// Whether the thread has no other.
    #[inline]
    pub(crate) fn is_only_one(&self) -> bool {
        OPEN.get() == 1
    }
}

impl Drop for OpenHere {
    #[inline]
    fn drop(&mut self) {
        OPEN.set(OPEN.get().saturating_sub(1));
    }
}

#[cfg(test)]
mod tests {
    use super::OpenHere;

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
}

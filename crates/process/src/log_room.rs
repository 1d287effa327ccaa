//! A session's room in the log: a count of the log manager (the credit) in the session's private memory.
//!
//! The credit belongs to one session of one region: a new session begins with a credit of zero, and a repairer of a dead
//! session does not learn the dead session's credit.

use std::cell::Cell;

use rio::planted;

/// Bytes that a session may append to the log.
#[derive(Debug, Default)]
pub struct LogRoom {
    credit: Cell<u64>,
    /// The bytes that the session has asked for and not appended: counted in debug builds.
    asked: Cell<u64>,
}

impl LogRoom {
    pub(crate) fn of_new_session() -> LogRoom {
        let room = LogRoom::default();
        if planted("process: a new session has a credit in the log") {
            room.set_credit(u64::MAX >> 1);
        }
        room
    }

    /// Returns the credit: the bytes that the session may append before it asks the log's shared words again.
    #[inline]
    pub fn credit(&self) -> u64 {
        self.credit.get()
    }

    /// Sets the credit.
    #[inline]
    pub fn set_credit(&self, bytes: u64) {
        self.credit.set(bytes);
    }

    /// Notes that the session has asked for `bytes` and that the log has room for them.
    #[inline]
    pub fn ask(&self, bytes: u64) {
        if cfg!(debug_assertions) {
            self.asked.set(self.asked.get().max(bytes));
        }
    }

    /// Subtracts the bytes of an append from the credit.
    ///
    /// # Panics
    /// In debug builds, if the session has not asked for that many bytes.
    #[inline]
    pub fn take(&self, bytes: u64) {
        if cfg!(debug_assertions) {
            let left = self.asked.get().checked_sub(bytes);
            self.asked.set(left.expect("a record was logged without reserving room for it"));
        }
        self.credit.set(self.credit.get().saturating_sub(bytes));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_append_reduces_the_credit_and_the_bytes_asked_for() {
        let room = LogRoom::default();
        room.set_credit(100);
        room.ask(60);
        room.ask(10);
        room.take(60);
        assert_eq!(room.credit(), 40);
        room.ask(80);
        room.take(80);
        assert_eq!(room.credit(), 0);
    }

    #[test]
    #[should_panic(expected = "without reserving")]
    fn an_append_that_was_not_asked_for_is_noticed() {
        let room = LogRoom::default();
        room.set_credit(1000);
        room.ask(10);
        room.take(11);
    }
}

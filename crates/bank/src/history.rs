//! The history of a bank before a run: clients get numbers that no earlier client had.

use crate::audit::next_client;
use crate::engine::Engine;
use crate::error::Result;
use crate::tpcb::{Table, Transfer};

/// The history of a bank: runs in one bank must not repeat each other's ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct History {
    /// Number of records.
    pub count: u64,
    /// The first client number that was never used.
    pub first_client: u32,
}

impl History {
    /// Reads the history.
    ///
    /// # Errors
    /// The engine's error.
    pub fn read(engine: &dyn Engine) -> Result<History> {
        let mut count = 0;
        let mut greatest: Option<u64> = None;
        engine.walk(Table::History, &mut |_, record| {
            count += 1;
            greatest = greatest.max(Transfer::from_history(record).map(|transfer| transfer.id));
        })?;
        Ok(History { count, first_client: next_client(greatest.as_ref()) })
    }
}

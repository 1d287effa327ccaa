//! The history of a bank before a run. The history has the client numbers that earlier runs used.

use crate::audit::next_client;
use crate::engine::Engine;
use crate::error::Result;
use crate::tpcb::{Table, Transfer};

/// The history that earlier runs left in a bank. A new run begins at `first_client`, so no transfer's id is used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct History {
    /// Number of history records.
    pub count: u64,
    /// The client number above all client numbers of the history.
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

//! Undo: the losers are aborted, by the same code that aborts a running transaction.
//!
//! The losers are undone one after the other, in any order: because of their locks they changed different records, and
//! the changes that they share (splits) are not undone. If the machine crashes during undo, the next restart continues
//! at the LSN in the last compensation record of each loser. So no change is undone twice.

use rio::planted;

use super::analysis::Found;
use super::left::Undo;
use crate::{Managers, Result, TxnSession};

pub(super) fn undo_losers(managers: &Managers, txn: &TxnSession, found: &Found) -> Result<u64> {
    let mut undo = Undo::new(managers, txn);
    undo.undo_left_changes(found)?;
    for loser in found.losers.values().filter(|_| !planted("txn: restart undoes nothing")) {
        undo.undo_loser(loser, found)?;
    }
    Ok(found.losers.len() as u64)
}

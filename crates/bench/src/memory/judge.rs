//! The check of memory after a benchmark: it adds up by the workload's audit, and every byte is as the same
//! transactions leave it in memory without transactions.

use super::change::Bare;
use super::{size, Work};

/// Checks the memory after the transactions with numbers below `ended`.
pub(super) fn judge<W: Work>(work: &W, memory: &[u8], ended: u64) -> Result<(), String> {
    work.audit(memory)?;
    let mut expected = vec![0; size(W::BYTES)];
    work.load(&mut expected);
    work.run(&mut Bare(&mut expected), 0..ended).map_err(|error| error.to_string())?;
    if memory == expected {
        return Ok(());
    }
    let at = memory.iter().zip(&expected).position(|(found, expected)| found != expected);
    let at = at.unwrap_or(memory.len().min(expected.len()));
    Err(format!("at {at} lies another byte than {ended} such transactions leave there"))
}

//! The check of the memory after a benchmark: the workload's audit accepts it, and every byte is the same as after the
//! same work on bare memory.

use super::change::Bare;
use super::{size, Work};

/// Checks the memory after the transactions with numbers below `ended`. Returns a description of the fault, if any.
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
    Err(format!("the byte at offset {at} differs from bare memory after the same {ended} transactions"))
}

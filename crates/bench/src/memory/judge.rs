//! Whether memory is as it should be after a benchmark: what the workload says adds up, and every byte is what the same
//! transactions leave in memory without any.

use super::change::Bare;
use super::{size, Work};

/// What is wrong after the transactions of the numbers below `ended`, if anything is.
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

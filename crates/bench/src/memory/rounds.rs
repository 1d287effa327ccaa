//! Short alternating rounds: the measurement of one thread.
//!
//! The speed of a shared machine changes from one moment to the next. So a figure is the median of very many short
//! rounds, and the rounds of the compared contenders alternate. An overhead is the median of the differences between
//! neighbouring rounds. On a machine that is hardly ever idle, the quickest rounds of each contender tell more.
//!
//! Syncs and truncations serve many transactions at once. A round consists of whole groups of transactions that are
//! synced together, so each round has the same share of syncs. Only few rounds have a truncation, so the median round
//! would have no truncation. So the time of a truncation is subtracted from its round, and an equal share of the time
//! of all truncations is added to each round. A last truncation empties the log at the end of the run. In a short run
//! it is the only truncation.

use std::time::{Duration, Instant};

use super::change::Memory;
use super::response::response_times;
use super::{take, MemoryEngine, MemorySettings, Work};
use crate::bare_disk::BareDisk;
use crate::error::Result;
use crate::Histogram;

/// Approximate length of a round.
pub(super) const ROUND: Duration = Duration::from_micros(300);
/// Approximate length of a round with a log. The bare work between two such rounds evicts the log's data from the
/// processor's cache; a round has many groups of transactions, so that they share this cost.
const ROUND_WITH_LOG: Duration = Duration::from_millis(5);
/// Smallest number of rounds of each contender.
pub(super) const ROUNDS_MIN: usize = 5;
/// Largest number of transactions of a round.
const COUNT_MAX: u64 = 1 << 22;

/// The measurements.
pub(crate) struct Timings {
    /// For each pair of neighbouring rounds, nanoseconds per transaction: of the engine, and of the baseline.
    pub(super) pairs: Vec<(f64, f64)>,
    /// Each transaction's share of the time of truncations, in nanoseconds.
    pub(super) truncation_ns: f64,
    /// Number of truncations.
    pub(super) truncations: u64,
    /// For each round with a log, nanoseconds per transaction: of the engine without truncations, and of bare writes of
    /// the same number of bytes, each with a sync.
    pub(super) synced: Vec<(f64, f64)>,
    /// For each pair of neighbouring rounds of another engine and this library's Vista, nanoseconds per transaction: of
    /// the other engine, and of Vista.
    pub(super) beside_vista: Vec<(f64, f64)>,
    /// The time of each transaction until it was safe, if the run measured it.
    pub(super) responses: Option<Histogram>,
    /// Number of ended transactions, for each part of the memory.
    pub(super) ended: Vec<u64>,
    /// "ok", or a description of the fault that the audit found.
    pub(super) audit: String,
}

/// Measures: rounds of `memory` alternate with rounds of `bare`, the baseline.
pub(super) fn measure<W: Work, M: Memory, B: Memory>(
    settings: &MemorySettings,
    work: &W,
    memory: &mut M,
    bare: &mut B,
) -> Result<Timings> {
    let (mut next, mut bare_next) = (0, 0);
    let (mut disk, round, group) = match settings.engine {
        MemoryEngine::Rvm { group } | MemoryEngine::RvmRio { group } => {
            (Some(BareDisk::of(&settings.directory, settings.log_bytes)?), ROUND_WITH_LOG, u64::from(group))
        }
        MemoryEngine::Vista | MemoryEngine::Pmemobj | MemoryEngine::None => (None, ROUND, 1),
    };
    let mut without = |count: u64| timed(count, || work.run(bare, take(&mut bare_next, count)));
    let bare_count = calibrate(ROUND, &mut without)?;
    let count = calibrate(round, &mut |count| timed(count, || work.run(memory, take(&mut next, count))))?;
    let count = count.next_multiple_of(group.max(1));
    // The rounds must not do work that earlier transactions postponed.
    memory.settle()?;
    let (before, first) = (memory.truncations(), next);
    let mut with = |memory: &mut M| -> Result<f64> {
        let truncating = memory.truncations().1;
        let start = Instant::now();
        work.run(memory, take(&mut next, count))?;
        Ok(nanoseconds(start.elapsed().saturating_sub(memory.truncations().1 - truncating), count))
    };
    let (start, mut pairs, mut synced, mut bytes) = (Instant::now(), Vec::new(), Vec::new(), None);
    let writes = (count / group.max(1)).max(1);
    let mut on_disk = |bytes: Option<usize>| -> Result<Option<f64>> {
        let (Some(disk), Some(bytes)) = (&mut disk, bytes) else { return Ok(None) };
        Ok(Some(nanoseconds(disk.write(bytes, writes)?, count)))
    };
    while pairs.len() < ROUNDS_MIN || start.elapsed() < settings.time {
        let logged = memory.logged();
        // The first round of a pair may leave data in the processor's cache that the second round uses or must evict.
        // So each contender is first in every other pair.
        let (pair, on_disk) = if pairs.len() % 2 == 0 {
            let with = with(memory)?;
            bytes = usize::try_from((memory.logged() - logged) / writes).ok();
            ((with, without(bare_count)?), on_disk(bytes)?)
        } else {
            let on_disk = on_disk(bytes)?;
            let without = without(bare_count)?;
            ((with(memory)?, without), on_disk)
        };
        synced.extend(on_disk.map(|bare| (pair.0, bare)));
        pairs.push(pair);
    }
    let responses = match settings.times_responses {
        true => Some(response_times(work, memory, &mut next, group, settings.time / 2)?),
        false => None,
    };
    memory.settle()?;
    let (truncations, truncating) = memory.truncations();
    let truncation_ns = nanoseconds(truncating - before.1, next - first);
    pairs.iter_mut().for_each(|pair| pair.0 += truncation_ns);
    let truncations = truncations - before.0;
    Ok(Timings {
        pairs,
        truncation_ns,
        truncations,
        synced,
        beside_vista: Vec::new(),
        responses,
        ended: vec![next],
        audit: String::new(),
    })
}

/// Runs `work`, which carries out `count` operations. Returns the nanoseconds per operation.
pub(super) fn timed(count: u64, work: impl FnOnce() -> Result<()>) -> Result<f64> {
    let start = Instant::now();
    work()?;
    Ok(nanoseconds(start.elapsed(), count))
}

pub(super) fn nanoseconds(elapsed: Duration, count: u64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "far fewer than 2^52")]
    let count = count.max(1) as f64;
    elapsed.as_secs_f64() * 1e9 / count
}

/// Returns the number of operations that take at least the time `round`.
pub(super) fn calibrate(round: Duration, run: &mut impl FnMut(u64) -> Result<f64>) -> Result<u64> {
    // The first operation may do work that no later operation repeats, so it is not timed.
    run(1)?;
    let mut count = 1;
    loop {
        let took = Duration::from_secs_f64(run(count)? * 1e-9 * nanoseconds(Duration::from_nanos(count), 1));
        if took >= round || count >= COUNT_MAX {
            return Ok(count);
        }
        count *= 2;
    }
}

//! Short rounds in turns, and what is made of them.
//!
//! A machine that others use is not the same from one moment to the next, so a figure is the median of very many short
//! rounds, and what is compared took turns. An overhead is the median of the differences of neighbours; where the machine is
//! hardly ever ours, the quickest rounds of each tell more.
//!
//! What a memory does seldom, and for many transactions at once, falls into few rounds, and the middle one has none of it. So a
//! round has whole groups of those that are synced together; and truncations are taken out of the rounds that they fell into,
//! and each round gets its share of all of them, with one at the end for what was not truncated yet. (A run too short for
//! another is charged all of that one.)

use std::time::{Duration, Instant};

use super::change::Memory;
use super::response::response_times;
use super::{MemoryEngine, MemorySettings, Work};
use crate::bare_disk::BareDisk;
use crate::error::Result;
use crate::Histogram;

/// A round's length, about.
pub(super) const ROUND: Duration = Duration::from_micros(300);
/// The same where there is a log. The bare work in between leaves nothing of it in the processor's cache, and a few groups of
/// transactions would have to pay for that.
const ROUND_WITH_LOG: Duration = Duration::from_millis(5);
/// Rounds of each, at least.
pub(super) const ROUNDS_MIN: usize = 5;
/// Transactions of a round, at least: one of a slow disk, many of memory.
const COUNT_MAX: u64 = 1 << 22;

/// What was measured.
pub(crate) struct Spent {
    /// Nanoseconds a transaction: with, and what it is compared with.
    pub(super) pairs: Vec<(f64, f64)>,
    /// Of the former, the share of truncations; and how many there were.
    pub(super) truncation_ns: f64,
    pub(super) truncations: u64,
    /// Of each round, where there is a log on a disk: what it took without truncations, and what bare writes of as many bytes,
    /// each with a sync, took beside it. Nanoseconds a transaction.
    pub(super) synced: Vec<(f64, f64)>,
    /// Of another's rounds in turns with this library's Vista, where there were any: nanoseconds a transaction of each.
    pub(super) beside_vista: Vec<(f64, f64)>,
    /// How long each transaction took until it was safe, if that was asked for.
    pub(super) responses: Option<Histogram>,
    /// Transactions that have ended, of each part of the memory.
    pub(super) ended: Vec<u64>,
    pub(super) audit: String,
}

/// Runs rounds with transactions and bare ones in turns.
pub(super) fn measure<W: Work, M: Memory, B: Memory>(
    settings: &MemorySettings,
    work: &W,
    memory: &mut M,
    bare: &mut B,
) -> Result<Spent> {
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
    // Nothing of what was before is paid for in the rounds.
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
        // What comes second may find what the first has left in the cache, or not: each comes first as often.
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
    Ok(Spent {
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

/// The next so many numbers.
pub(super) fn take(next: &mut u64, count: u64) -> std::ops::Range<u64> {
    let from = *next;
    *next += count;
    from..*next
}

/// Nanoseconds each.
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

/// How many make a round.
pub(super) fn calibrate(round: Duration, run: &mut impl FnMut(u64) -> Result<f64>) -> Result<u64> {
    // What is done once only is no part of a round.
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

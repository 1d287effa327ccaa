//! Short rounds in turns, and what is made of them.
//!
//! A machine that others use is not the same from one moment to the next, so a figure is the median of very many short
//! rounds, and what is compared took turns. An overhead is the median of the differences of neighbours; where the machine is
//! hardly ever ours, the quickest rounds of each tell more.

use std::sync::{Barrier, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::Serialize;
use vista::Threads;

use super::change::{Memory, OfThread};
use super::{MemoryEngine, MemorySettings, Work, Workload};
use crate::error::{Error, Result};

/// A round's length, about.
const ROUND: Duration = Duration::from_micros(300);
/// Rounds of each, at least.
const ROUNDS_MIN: usize = 5;
/// Transactions of a round, at least: one of a slow disk, many of memory.
const COUNT_MAX: u64 = 1 << 22;

/// Nanoseconds a transaction, over all rounds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Figures {
    /// The middle one.
    pub median_ns: f64,
    /// The quickest round's.
    pub min_ns: f64,
}

/// What a run says: one JSON object.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MemoryReport {
    /// The benchmark's name.
    pub workload: &'static str,
    /// Bytes that a synthetic transaction changes.
    pub bytes: Option<u64>,
    /// Always at the same place.
    pub is_hot: bool,
    /// The engine's name.
    pub engine: &'static str,
    /// Transactions that RVM writes and syncs at once.
    pub group: Option<u32>,
    /// Whether stores were written back from the processor's cache.
    pub write_back: bool,
    /// Threads at work.
    pub threads: u32,
    /// Whether they locked stripes instead of keeping parts.
    pub is_striped: bool,
    /// Transactions a second, of all threads, by the median.
    pub tps: f64,
    /// What a transaction took.
    pub with: Figures,
    /// What it was compared with: the same work without transactions, or by one of the threads.
    pub compared_with: &'static str,
    /// What that took.
    pub without: Figures,
    /// What the transaction cost beside it: the median of the differences of neighbours.
    pub overhead_ns: f64,
    /// As a part of what it was compared with.
    pub overhead_ratio: f64,
    /// The same of the quickest rounds of each.
    pub quickest_overhead_ns: f64,
    /// As a part of what the quickest took.
    pub quickest_overhead_ratio: f64,
    /// With several threads: how many times one they did, the median of neighbours.
    pub times_one: Option<f64>,
    /// Rounds of each.
    pub rounds: usize,
    /// Transactions in all, of the engine.
    pub transactions: u64,
    /// "ok", or what does not add up.
    pub audit: String,
}

/// What was measured.
pub(crate) struct Spent {
    /// Nanoseconds a transaction: with, and what it is compared with.
    pairs: Vec<(f64, f64)>,
    transactions: u64,
    audit: String,
}

/// Runs rounds with transactions and bare ones in turns.
pub(super) fn measure<W: Work, M: Memory, B: Memory>(
    settings: &MemorySettings,
    work: &W,
    memory: &mut M,
    bare: &mut B,
) -> Result<Spent> {
    let mut next = 0;
    let mut with = |count: u64| timed(count, || work.run(memory, take(&mut next, count)));
    let mut bare_next = 0;
    let mut without = |count: u64| timed(count, || work.run(bare, take(&mut bare_next, count)));
    let counts = (calibrate(&mut with)?, calibrate(&mut without)?);
    let (start, mut pairs) = (Instant::now(), Vec::new());
    while pairs.len() < ROUNDS_MIN || start.elapsed() < settings.time {
        // What comes second may find what the first has left in the cache, or not: each comes first as often.
        if pairs.len() % 2 == 0 {
            let with = with(counts.0)?;
            pairs.push((with, without(counts.1)?));
        } else {
            let without = without(counts.1)?;
            pairs.push((with(counts.0)?, without));
        }
    }
    Ok(Spent { pairs, transactions: next, audit: String::new() })
}

/// The next so many numbers.
fn take(next: &mut u64, count: u64) -> std::ops::Range<u64> {
    let from = *next;
    *next += count;
    from..*next
}

/// Nanoseconds each.
fn timed(count: u64, work: impl FnOnce() -> Result<()>) -> Result<f64> {
    let start = Instant::now();
    work()?;
    Ok(nanoseconds(start.elapsed(), count))
}

fn nanoseconds(elapsed: Duration, count: u64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "far fewer than 2^52")]
    let count = count.max(1) as f64;
    elapsed.as_secs_f64() * 1e9 / count
}

/// How many make a round.
fn calibrate(run: &mut impl FnMut(u64) -> Result<f64>) -> Result<u64> {
    let mut count = 1;
    loop {
        let took = Duration::from_secs_f64(run(count)? * 1e-9 * nanoseconds(Duration::from_nanos(count), 1));
        if took >= ROUND || count >= COUNT_MAX {
            return Ok(count);
        }
        count *= 2;
    }
}

/// Runs rounds of one thread and of all in turns, each with a part of the segment.
pub(super) fn measure_threads<W: Work>(
    settings: &MemorySettings,
    work: &W,
    threads: &Threads,
    part: u64,
) -> Result<Spent> {
    let refused = |why: vista::Error| Error::engine("vista", "giving threads their parts")(why);
    let mut workers = Vec::new();
    for nth in 0..u64::from(settings.threads) {
        let mut worker = threads.worker().map_err(refused)?;
        if !settings.is_striped {
            worker.keep(nth * part, part).map_err(refused)?;
        }
        workers.push((worker, nth * part, 0_u64));
    }
    let mut one = |count: u64| {
        let (worker, from, next) = &mut workers[0];
        let mut memory = OfThread { worker, from: *from };
        timed(count, || work.run(&mut memory, take(next, count)))
    };
    let count = calibrate(&mut one)?;
    let (start, mut pairs) = (Instant::now(), Vec::new());
    while pairs.len() < ROUNDS_MIN || start.elapsed() < settings.time {
        let alone = {
            let (worker, from, next) = &mut workers[0];
            let mut memory = OfThread { worker, from: *from };
            timed(count, || work.run(&mut memory, take(next, count)))?
        };
        let elapsed = all_at_once(work, &mut workers, count)?;
        pairs.push((nanoseconds(elapsed, count * u64::from(settings.threads)), alone));
    }
    let transactions = workers.iter().map(|(_, _, next)| *next).sum();
    Ok(Spent { pairs, transactions, audit: String::new() })
}

/// From the moment that all begin until the last has ended.
fn all_at_once<W: Work>(work: &W, workers: &mut [(vista::Worker<'_>, u64, u64)], count: u64) -> Result<Duration> {
    let (ready, failed) = (Barrier::new(workers.len()), Mutex::new(None));
    let spans = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for (worker, from, next) in workers {
            let (ready, failed, spans) = (&ready, &failed, &spans);
            scope.spawn(move || {
                let mut memory = OfThread { worker, from: *from };
                ready.wait();
                let start = Instant::now();
                let done = work.run(&mut memory, take(next, count));
                let end = Instant::now();
                spans.lock().unwrap_or_else(PoisonError::into_inner).push((start, end));
                if let Err(error) = done {
                    failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
                }
            });
        }
    });
    if let Some(error) = failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
        return Err(error);
    }
    let spans = spans.into_inner().unwrap_or_else(PoisonError::into_inner);
    let (first, last) = (spans.iter().map(|span| span.0).min(), spans.iter().map(|span| span.1).max());
    Ok(first.zip(last).map_or(Duration::ZERO, |(first, last)| last - first))
}

fn median(figures: impl Iterator<Item = f64>) -> f64 {
    let mut figures: Vec<f64> = figures.collect();
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or(0.0)
}

fn figures(all: impl Iterator<Item = f64> + Clone) -> Figures {
    Figures { median_ns: median(all.clone()), min_ns: all.fold(f64::INFINITY, f64::min) }
}

impl Spent {
    pub(super) fn audited(self, audit: std::result::Result<(), String>) -> Spent {
        Spent { audit: audit.map_or_else(|what| what, |()| "ok".into()), ..self }
    }

    pub(super) fn report(self, settings: &MemorySettings) -> MemoryReport {
        let with = figures(self.pairs.iter().map(|pair| pair.0));
        let without = figures(self.pairs.iter().map(|pair| pair.1));
        let overhead_ns = median(self.pairs.iter().map(|pair| pair.0 - pair.1));
        let (workload, bytes, is_hot) = match settings.workload {
            Workload::Synthetic { bytes, is_hot } => ("synthetic", Some(bytes), is_hot),
            Workload::Swap { is_hot } => ("swap", None, is_hot),
            Workload::DebitCredit => ("debit-credit", None, false),
            Workload::OrderEntry => ("order-entry", None, false),
        };
        let (engine, group) = match settings.engine {
            MemoryEngine::Vista => ("vista", None),
            MemoryEngine::Rvm { group } => ("rvm", Some(group)),
            MemoryEngine::None => ("none", None),
        };
        let of_threads = settings.threads > 1 || settings.is_striped;
        MemoryReport {
            workload,
            bytes,
            is_hot,
            engine,
            group,
            write_back: settings.write_back,
            threads: settings.threads,
            is_striped: settings.is_striped,
            tps: 1e9 / with.median_ns,
            with,
            compared_with: if of_threads { "one of the threads" } else { "the bare work" },
            without,
            overhead_ns,
            overhead_ratio: overhead_ns / without.median_ns,
            quickest_overhead_ns: with.min_ns - without.min_ns,
            quickest_overhead_ratio: (with.min_ns - without.min_ns) / without.min_ns,
            times_one: of_threads.then(|| median(self.pairs.iter().map(|pair| pair.1 / pair.0))),
            rounds: self.pairs.len(),
            transactions: self.transactions,
            audit: self.audit,
        }
    }
}

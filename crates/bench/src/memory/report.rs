//! The report of a run, computed from its rounds.

use serde::Serialize;

use super::place::filesystem_of;
use super::rounds::Timings;
use super::{MemoryEngine, MemorySettings, Workload};
use crate::Histogram;

/// Nanoseconds per transaction, over all rounds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Figures {
    /// The median of the rounds.
    pub median_ns: f64,
    /// The quickest round.
    pub min_ns: f64,
}

/// The time of transactions until they were safe, in nanoseconds. All transactions of a group wait for the group's
/// sync.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ResponseTimes {
    /// The median.
    pub p50_ns: u64,
    /// The 99th percentile.
    pub p99_ns: u64,
    /// The longest time.
    pub max_ns: u64,
    /// The number of measured transactions.
    pub count: u64,
}

/// The report of a run: one JSON object.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MemoryReport {
    /// The benchmark's name.
    pub workload: &'static str,
    /// Bytes that a synthetic transaction changes.
    pub bytes: Option<u64>,
    /// Whether all transactions use the same place.
    pub is_hot: bool,
    /// The engine's name.
    pub engine: &'static str,
    /// The engine's description, for people.
    pub about: &'static str,
    /// The filesystem of RVM's log.
    pub log_on: Option<String>,
    /// Number of transactions that RVM writes and syncs together.
    pub group: Option<u32>,
    /// Whether stores were written back from the processor's cache.
    pub write_back: bool,
    /// Number of threads.
    pub threads: u32,
    /// Whether each transaction locked stripes of the segment. Otherwise each thread owned a part of the segment.
    pub is_striped: bool,
    /// Transactions per second of all threads, by the median of the rounds.
    pub tps: f64,
    /// A transaction's time, including its share of the truncations.
    pub with: Figures,
    /// A transaction's share of the truncations.
    pub truncation_ns: f64,
    /// Number of truncations, including the truncation at the end of the run.
    pub truncations: u64,
    /// If there is a log: the time of bare writes and syncs of the same number of bytes, divided by the number of
    /// transactions. They are measured in the same rounds as the transactions.
    pub bare_sync: Option<Figures>,
    /// A transaction's time without truncations, as a multiple of `bare_sync`: the median of the rounds.
    pub times_bare_sync: Option<f64>,
    /// The baseline: the same work without transactions, or the same work by one thread.
    pub compared_with: &'static str,
    /// The baseline's time per transaction.
    pub without: Figures,
    /// A transaction's overhead over the baseline: the median of the differences between neighbouring rounds.
    pub overhead_ns: f64,
    /// The overhead as a part of the baseline.
    pub overhead_ratio: f64,
    /// The overhead by the quickest rounds: the engine's quickest round minus the baseline's quickest round.
    pub quickest_overhead_ns: f64,
    /// The overhead by the quickest rounds, as a part of the baseline's quickest round.
    pub quickest_overhead_ratio: f64,
    /// If the baseline is one thread: the throughput of all threads divided by that of one thread, the median over
    /// pairs of neighbouring rounds.
    pub times_one: Option<f64>,
    /// For libpmemobj: the time of this library's Vista, whose rounds alternated with libpmemobj's.
    pub vista: Option<Figures>,
    /// libpmemobj's time as a multiple of Vista's: the median of neighbouring rounds.
    pub times_vista: Option<f64>,
    /// The time of transactions until they were safe, if the run measured it.
    pub responses: Option<ResponseTimes>,
    /// Number of rounds of each contender.
    pub rounds: usize,
    /// Number of the engine's transactions in all.
    pub transactions: u64,
    /// "ok", or a description of the fault that the audit found.
    pub audit: String,
}

/// Returns the median, or zero if there is no figure.
fn median(figures: impl Iterator<Item = f64>) -> f64 {
    crate::median::median(figures).unwrap_or(0.0)
}

fn figures(all: impl Iterator<Item = f64> + Clone) -> Figures {
    Figures { median_ns: median(all.clone()), min_ns: all.fold(f64::INFINITY, f64::min) }
}

fn response(times: &Histogram) -> ResponseTimes {
    let (p50_ns, p99_ns) = (times.permille(500), times.permille(990));
    ResponseTimes { p50_ns, p99_ns, max_ns: times.max(), count: times.count() }
}

impl Timings {
    /// Adds the verdict of `judge`, which gets the number of ended transactions for each part of the memory.
    pub(super) fn audited(self, judge: impl FnOnce(&[u64]) -> Result<(), String>) -> Timings {
        Timings { audit: judge(&self.ended).map_or_else(|what| what, |()| "ok".into()), ..self }
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
        let (engine, about, group) = match settings.engine {
            MemoryEngine::Vista => {
                ("vista", "before-images in the same memory; a commit writes nothing to a disk", None)
            }
            MemoryEngine::Rvm { group } => {
                ("rvm", "new bytes are written to a redo log on a disk, which is synced", Some(group))
            }
            MemoryEngine::RvmRio { group } => (
                "rvm-rio",
                "new bytes are written to a redo log in memory, where a sync costs nothing: RVM on Rio",
                Some(group),
            ),
            MemoryEngine::Pmemobj => ("pmemobj", "before-images in a pool of libpmemobj", None),
            MemoryEngine::None => {
                ("none", "the work without transactions, compared with itself: the noise of the measurement", None)
            }
        };
        let log_on = group.and_then(|_| filesystem_of(&settings.directory));
        let has_vista = !self.beside_vista.is_empty();
        let has_log = !self.synced.is_empty();
        let of_threads = settings.threads > 1 || settings.is_striped;
        MemoryReport {
            workload,
            bytes,
            is_hot,
            engine,
            about,
            log_on,
            group,
            write_back: settings.write_back,
            threads: settings.threads,
            is_striped: settings.is_striped,
            tps: 1e9 / with.median_ns,
            with,
            truncation_ns: self.truncation_ns,
            truncations: self.truncations,
            bare_sync: has_log.then(|| figures(self.synced.iter().map(|round| round.1))),
            times_bare_sync: has_log.then(|| median(self.synced.iter().map(|round| round.0 / round.1))),
            compared_with: if of_threads { "one thread" } else { "the same work without transactions" },
            without,
            overhead_ns,
            overhead_ratio: overhead_ns / without.median_ns,
            quickest_overhead_ns: with.min_ns - without.min_ns,
            quickest_overhead_ratio: (with.min_ns - without.min_ns) / without.min_ns,
            times_one: of_threads.then(|| median(self.pairs.iter().map(|pair| pair.1 / pair.0))),
            vista: has_vista.then(|| figures(self.beside_vista.iter().map(|round| round.1))),
            times_vista: has_vista.then(|| median(self.beside_vista.iter().map(|round| round.0 / round.1))),
            responses: self.responses.as_ref().map(response),
            rounds: self.pairs.len(),
            transactions: self.ended.iter().sum(),
            audit: self.audit,
        }
    }
}

//! What is made of the rounds.

use serde::Serialize;

use super::place::filesystem_of;
use super::rounds::Spent;
use super::{MemoryEngine, MemorySettings, Workload};
use crate::Histogram;

/// Nanoseconds a transaction, over all rounds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Figures {
    /// The middle one.
    pub median_ns: f64,
    /// The quickest round's.
    pub min_ns: f64,
}

/// How long transactions took until they were safe, in nanoseconds: those of a group all wait for its sync.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ResponseTimes {
    /// Half of them took no longer.
    pub p50_ns: u64,
    /// 99 of 100 took no longer.
    pub p99_ns: u64,
    /// The longest.
    pub max_ns: u64,
    /// How many there were.
    pub count: u64,
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
    /// What that is, for people.
    pub about: &'static str,
    /// The filesystem that RVM's log lies in.
    pub log_on: Option<String>,
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
    /// What a transaction took, its share of the truncations included.
    pub with: Figures,
    /// That share.
    pub truncation_ns: f64,
    /// How many truncations there were, the last of them at the end.
    pub truncations: u64,
    /// Where there is a log: what a bare write of as many bytes and a sync took beside it, a transaction's share of them.
    pub bare_sync: Option<Figures>,
    /// How many times that a transaction took, truncations taken out: the median of neighbours.
    pub times_bare_sync: Option<f64>,
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
    /// For libpmemobj: what this library's Vista took in rounds in turns with it.
    pub vista: Option<Figures>,
    /// How many times that libpmemobj took: the median of neighbours.
    pub times_vista: Option<f64>,
    /// How long each took until it was safe, if that was asked for.
    pub responses: Option<ResponseTimes>,
    /// Rounds of each.
    pub rounds: usize,
    /// Transactions in all, of the engine.
    pub transactions: u64,
    /// "ok", or what does not add up.
    pub audit: String,
}

/// Of nothing: zero.
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

impl Spent {
    /// Notes what `judge` says, which is given the transactions that have ended, of each part of the memory.
    pub(super) fn audited(self, judge: impl FnOnce(&[u64]) -> Result<(), String>) -> Spent {
        Spent { audit: judge(&self.ended).map_or_else(|what| what, |()| "ok".into()), ..self }
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
            MemoryEngine::Vista => ("vista", "old bytes saved in the same memory, nothing written at the end", None),
            MemoryEngine::Rvm { group } => ("rvm", "new bytes to a redo log on a disk, which is synced", Some(group)),
            MemoryEngine::RvmRio { group } => {
                ("rvm-rio", "new bytes to a redo log in memory, which no sync waits for: RVM on Rio", Some(group))
            }
            MemoryEngine::Pmemobj => ("pmemobj", "old bytes saved in a pool, by libpmemobj", None),
            MemoryEngine::None => ("none", "the bare work against itself: the noise", None),
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
            compared_with: if of_threads { "one of the threads" } else { "the bare work" },
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

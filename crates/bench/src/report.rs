//! The report of a run: one line with a JSON object, whose fields always have the same order.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use libtp_console::numbers::{micros, per_second};

use crate::engine::{Durability, Engine};
use crate::tpcb::Scale;
use crate::Histogram;

/// The settings of a run. Sent to client processes as a line of JSON.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunSettings {
    /// The scale with which the bank was loaded.
    pub scale: Scale,
    /// The seed of all clients' transfers.
    pub seed: u64,
    /// Number of clients that work at the same time.
    pub clients: u32,
    /// Duration of the unmeasured run before the measurement.
    pub warmup: Duration,
    /// Duration of the measurement.
    pub measured: Duration,
    /// Whether transactions read three records instead of changing them (§5.1.2).
    pub read_only: bool,
    /// The engine's durability, for the report.
    pub durability: Durability,
    /// Number of transfers after which a client pauses until the end of the run; `None`: no limit.
    #[serde(default)]
    pub most: Option<u64>,
}

impl Default for RunSettings {
    fn default() -> RunSettings {
        RunSettings {
            scale: Scale::PAPER,
            seed: 1,
            clients: 1,
            warmup: Duration::from_secs(1),
            measured: Duration::from_secs(5),
            read_only: false,
            durability: Durability::Sync,
            most: None,
        }
    }
}

/// The result of one client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientReport {
    /// The client's number.
    pub client: u32,
    /// Number of transactions acknowledged before or after the window that all clients share.
    pub committed_outside: u64,
    /// Number of transactions acknowledged in the window.
    pub committed: u64,
    /// Number of aborts by deadlocks in transfers that ended in the window.
    pub aborts: u64,
    /// Nanoseconds from the beginning of the window until the client or the window ended.
    pub elapsed_ns: u64,
    /// Times from a transfer's first attempt to its acknowledgement.
    pub latency: Histogram,
}

/// The result of all clients together, in their shared window.
pub(crate) struct Together {
    pub(crate) committed: u64,
    pub(crate) aborts: u64,
    pub(crate) elapsed_ns: u64,
    pub(crate) latency: Histogram,
}

impl Together {
    /// Adds up the clients' reports. All clients have the same window, but a client that was stopped early has only a
    /// part of it. So the time is the longest time of a client.
    pub(crate) fn of(clients: &[ClientReport]) -> Together {
        let mut latency = Histogram::new();
        clients.iter().for_each(|client| latency.merge(&client.latency));
        Together {
            committed: clients.iter().map(|client| client.committed).sum(),
            aborts: clients.iter().map(|client| client.aborts).sum(),
            elapsed_ns: clients.iter().map(|client| client.elapsed_ns).max().unwrap_or(0),
            latency,
        }
    }

    /// Returns the transactions per second.
    pub(crate) fn tps(&self) -> u64 {
        per_second(self.committed, self.elapsed_ns)
    }

    /// Returns the number of deadlock victims per thousand commits.
    pub(crate) fn aborts_per_1000(&self) -> f64 {
        per_thousand(self.aborts, self.committed)
    }
}

/// Returns the number of transactions acknowledged to clients, in the window or outside of it.
pub(crate) fn sent(clients: &[ClientReport]) -> u64 {
    clients.iter().map(|client| client.committed + client.committed_outside).sum()
}

/// Whether clients are threads or processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ClientsAs {
    /// Threads of this process.
    Threads,
    /// Separate processes.
    Processes,
}

/// The report of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// `tpcb` or `tpcb-read-only`.
    pub workload: String,
    /// The engine's name.
    pub engine: String,
    /// The number of clients.
    pub clients: u32,
    /// Whether the clients were threads or processes.
    #[serde(rename = "as")]
    pub clients_as: ClientsAs,
    /// The events that an acknowledged commit survives.
    pub durability: Durability,
    /// What a lock of the engine covers.
    pub granularity: String,
    /// Whether a transfer first reads each balance under a shared lock, and then locks it for the change.
    pub reads_first: bool,
    /// Number of the bank's accounts.
    pub accounts: u32,
    /// Number of the bank's branches, the hot records.
    pub branches: u32,
    /// Transactions per second of elapsed time, as in the paper.
    pub tps: u64,
    /// Median latency, in microseconds.
    pub p50_us: f64,
    /// 99th percentile of the latency, in microseconds.
    pub p99_us: f64,
    /// Greatest latency, in microseconds.
    pub max_us: f64,
    /// Number of transactions acknowledged in the measurement.
    pub committed: u64,
    /// Number of aborts by deadlocks.
    pub aborts: u64,
    /// Aborts per thousand commits (the paper's figure 9).
    pub aborts_per_1000: f64,
    /// `ok`, or a description of the faults.
    pub audit: String,
    /// Bytes that the engine wrote to its log, including the warm-up.
    pub log_bytes: u64,
    /// The measurement's length in seconds.
    pub seconds: f64,
}

impl Report {
    /// Makes the report from the clients' reports. `audit` is the audit's verdict, and `log_bytes` is the number of
    /// bytes that the run wrote to the log.
    pub fn merge(
        engine: &dyn Engine,
        settings: &RunSettings,
        clients_as: ClientsAs,
        clients: &[ClientReport],
        audit: String,
        log_bytes: u64,
    ) -> Report {
        let together = Together::of(clients);
        let Together { committed, aborts, elapsed_ns, latency } = &together;
        Report {
            workload: if settings.read_only { "tpcb-read-only" } else { "tpcb" }.to_string(),
            engine: engine.name().to_string(),
            clients: settings.clients,
            clients_as,
            durability: settings.durability,
            granularity: engine.lock_granularity().to_string(),
            reads_first: engine.reads_first(),
            accounts: settings.scale.accounts,
            branches: settings.scale.branches,
            tps: together.tps(),
            p50_us: micros(latency.permille(500)),
            p99_us: micros(latency.permille(990)),
            max_us: micros(latency.max()),
            committed: *committed,
            aborts: *aborts,
            aborts_per_1000: together.aborts_per_1000(),
            audit,
            log_bytes,
            seconds: micros(elapsed_ns / 1_000_000 * 1_000) / 1_000.0,
        }
    }

    /// Returns whether the audit found no fault.
    pub fn audit_is_ok(&self) -> bool {
        self.audit == "ok"
    }

    /// Returns the report as one line of JSON.
    pub fn to_json_line(&self) -> String {
        serde_json::to_string(self).expect("a report has only strings and finite numbers")
    }
}

/// Returns 1,000 times `count` divided by `of`, rounded to three decimals.
pub(crate) fn per_thousand(count: u64, of: u64) -> f64 {
    (count as f64 * 1_000_000.0 / of.max(1) as f64).round() / 1_000.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine_in_memory::{InMemory, MapKind};

    fn client(client: u32, committed: u64, elapsed_ns: u64) -> ClientReport {
        let mut latency = Histogram::new();
        (0..committed).for_each(|_| latency.record(2_000));
        ClientReport { client, committed_outside: 1, committed, aborts: 3, elapsed_ns, latency }
    }

    #[test]
    fn the_rate_is_the_work_of_all_clients_in_the_longest_time_of_a_client() {
        let engine = InMemory::new(MapKind::Tree);
        let settings = RunSettings { clients: 2, ..RunSettings::default() };
        let clients = [client(0, 1_000, 1_000_000_000), client(1, 3_000, 2_000_000_000)];
        let ok = "ok".to_string();
        let report = Report::merge(&engine, &settings, ClientsAs::Processes, &clients, ok, 7);
        assert_eq!((report.tps, report.committed, report.aborts), (2_000, 4_000, 6));
        assert_eq!((report.seconds, report.aborts_per_1000), (2.0, 1.5));
        assert!((1.96..2.04).contains(&report.p99_us));
    }

    #[test]
    fn the_line_has_its_fields_in_a_fixed_order_and_counts_are_integers() {
        let engine = InMemory::new(MapKind::Tree);
        let clients = [client(0, 10, 1_000_000_000)];
        let ok = "ok".to_string();
        let settings = RunSettings::default();
        let line = Report::merge(&engine, &settings, ClientsAs::Threads, &clients, ok, 0).to_json_line();
        assert!(
            line.starts_with(
                r#"{"workload":"tpcb","engine":"btreemap","clients":1,"as":"threads","durability":"sync","#
            ),
            "{line}"
        );
        assert!(line.contains(r#""tps":10,"p50_us":2."#), "{line}");
        assert!(
            line.contains(r#""aborts":3,"aborts_per_1000":300.0,"audit":"ok","log_bytes":0,"seconds":1.0"#),
            "{line}"
        );
        assert!(!line.contains('\n'));
    }
}

//! Tests of the driver, with an engine in memory that is correct, faulty or slow.

use super::*;
use crate::engine_in_memory::{InMemory, MapKind};
use crate::tpcb::Scale;

fn quick(clients: u32) -> RunSettings {
    RunSettings {
        scale: Scale::SMALL,
        clients,
        warmup: Duration::from_millis(20),
        measured: Duration::from_millis(60),
        ..RunSettings::default()
    }
}

fn loaded(kind: MapKind) -> InMemory {
    let engine = InMemory::new(kind);
    engine.load(&Scale::SMALL, &mut |_| {}).unwrap();
    engine
}

#[test]
fn a_run_reports_its_work_and_the_audit_of_the_bank_is_ok() {
    for kind in [MapKind::Hash, MapKind::Tree] {
        let engine = loaded(kind);
        let report = run_threads(&engine, &quick(1), &mut |_| {}).unwrap();
        assert_eq!(report.audit, "ok");
        assert!(report.committed > 100, "only {} transactions", report.committed);
        assert!(report.p50_us > 0.0 && report.p50_us <= report.p99_us);
        assert!(report.p99_us <= report.max_us);
        assert!((0.05..10.0).contains(&report.seconds), "{} s", report.seconds);
        let history = Before::look(&engine).unwrap();
        assert!(history.history.count >= report.committed);
    }
}

#[test]
fn several_clients_and_several_runs_share_one_bank() {
    let engine = loaded(MapKind::Tree);
    for run in 1..=3u32 {
        let report = run_threads(&engine, &quick(4), &mut |_| {}).unwrap();
        assert_eq!(report.audit, "ok");
        assert_eq!(Before::look(&engine).unwrap().history.first_client, 4 * run);
    }
}

#[test]
fn a_read_only_run_leaves_no_history() {
    let engine = loaded(MapKind::Hash);
    let settings = RunSettings { read_only: true, ..quick(2) };
    let report = run_threads(&engine, &settings, &mut |_| {}).unwrap();
    assert_eq!((report.workload.as_str(), report.audit.as_str()), ("tpcb-read-only", "ok"));
    assert!(report.committed > 100);
    assert_eq!(Before::look(&engine).unwrap().history.count, 0);
}

#[test]
fn a_client_stops_after_its_largest_number_of_transfers() {
    let engine = loaded(MapKind::Hash);
    let settings = RunSettings { most: Some(70), ..quick(2) };
    let report = run_threads(&engine, &settings, &mut |_| {}).unwrap();
    assert_eq!(report.audit, "ok");
    assert_eq!(Before::look(&engine).unwrap().history.count, 140);
}

#[test]
fn progress_is_reported_while_clients_run() {
    let engine = loaded(MapKind::Hash);
    let settings = RunSettings { measured: PROGRESS_EVERY * 3, ..quick(1) };
    let mut reported = Vec::new();
    let report = run_threads(&engine, &settings, &mut |now| reported.push(*now)).unwrap();
    assert!(reported.len() >= 2, "progress was reported {} times", reported.len());
    assert!(reported.windows(2).all(|pair| pair[0].committed < pair[1].committed));
    assert!(reported[1].tps_now > 0 && reported[1].committed <= 2 * report.committed);
}

#[test]
fn a_planted_wrong_balance_is_in_the_report() {
    let engine = loaded(MapKind::Tree);
    engine.spoil(Table::Teller, 7, 1);
    let report = run_threads(&engine, &quick(1), &mut |_| {}).unwrap();
    assert!(!report.audit_is_ok());
    assert!(report.audit.contains("teller record 7"), "{}", report.audit);
}

/// An engine that can abort every other attempt, forget some commits, or fail.
struct Faulty {
    inner: InMemory,
    abort: bool,
    forget: bool,
    fail: bool,
    refuse: bool,
}

impl Faulty {
    fn new() -> Faulty {
        let inner = loaded(MapKind::Hash);
        Faulty { inner, abort: false, forget: false, fail: false, refuse: false }
    }
}

struct FaultySession<'a> {
    inner: Box<dyn Session + 'a>,
    engine: &'a Faulty,
    attempts: u64,
}

impl Session for FaultySession<'_> {
    fn transact(&mut self, transfer: &Transfer) -> Result<Outcome> {
        self.attempts += 1;
        if self.engine.abort && self.attempts % 2 == 1 {
            return Ok(Outcome::Aborted);
        }
        if self.engine.fail && self.attempts == 5 {
            return Err(Error::Settings("planted".to_string()));
        }
        if self.engine.forget && self.attempts == 5 {
            return Ok(Outcome::Committed { balance: 0 });
        }
        self.inner.transact(transfer)
    }

    fn read_only(&mut self, transfer: &Transfer) -> Result<Outcome> {
        self.inner.read_only(transfer)
    }
}

impl Engine for Faulty {
    fn name(&self) -> &'static str {
        "faulty"
    }
    fn lock_granularity(&self) -> &'static str {
        "none"
    }
    fn load(&self, _: &Scale, _: &mut dyn FnMut(u64)) -> Result<()> {
        Ok(())
    }
    fn session(&self) -> Result<Box<dyn Session + '_>> {
        if self.refuse {
            return Err(Error::Settings("no more sessions".to_string()));
        }
        Ok(Box::new(FaultySession { inner: self.inner.session()?, engine: self, attempts: 0 }))
    }
    fn walk(&self, table: Table, each: &mut dyn FnMut(u64, &[u8])) -> Result<()> {
        self.inner.walk(table, each)
    }
    fn log_bytes(&self) -> Result<u64> {
        Ok(0)
    }
    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

#[test]
fn aborted_transfers_are_sent_again_and_counted() {
    let engine = Faulty { abort: true, ..Faulty::new() };
    let report = run_threads(&engine, &quick(2), &mut |_| {}).unwrap();
    assert_eq!(report.audit, "ok");
    // There is one abort for each commit, except for transfers that were aborted when the time was up.
    assert!(report.aborts.abs_diff(report.committed) <= 4, "{}", report.to_json_line());
}

#[test]
fn the_audit_notices_an_acknowledged_transfer_that_was_lost() {
    let engine = Faulty { forget: true, ..Faulty::new() };
    let report = run_threads(&engine, &quick(1), &mut |_| {}).unwrap();
    assert!(report.audit.contains("were acknowledged"), "{}", report.audit);
}

#[test]
fn a_client_that_fails_ends_the_run_with_its_error() {
    let engine = Faulty { fail: true, ..Faulty::new() };
    let settings = RunSettings { measured: Duration::from_secs(600), ..quick(3) };
    let error = run_threads(&engine, &settings, &mut |_| {}).unwrap_err();
    assert_eq!(error.to_string(), "planted");
    let engine = Faulty { refuse: true, ..Faulty::new() };
    let error = run_threads(&engine, &settings, &mut |_| {}).unwrap_err();
    assert_eq!(error.to_string(), "no more sessions");
}

#[test]
fn settings_without_clients_or_accounts_are_refused() {
    let engine = loaded(MapKind::Hash);
    for settings in [quick(0), RunSettings { scale: Scale::with_accounts(0), ..quick(1) }] {
        assert!(run_threads(&engine, &settings, &mut |_| {}).is_err());
    }
}

/// An engine that runs one transaction at a time, each at least for a millisecond. The first transaction of the second
/// client begins late.
struct OneAtATime {
    inner: InMemory,
    door: Mutex<()>,
    late: Duration,
    sessions: AtomicU64,
}

struct Queueing<'e> {
    inner: Box<dyn Session + 'e>,
    door: &'e Mutex<()>,
    late: Duration,
}

impl Session for Queueing<'_> {
    fn transact(&mut self, transfer: &Transfer) -> Result<Outcome> {
        thread::sleep(std::mem::take(&mut self.late));
        let _one = self.door.lock().unwrap();
        thread::sleep(Duration::from_millis(1));
        self.inner.transact(transfer)
    }
    fn read_only(&mut self, transfer: &Transfer) -> Result<Outcome> {
        self.transact(transfer)
    }
}

impl Engine for OneAtATime {
    fn name(&self) -> &'static str {
        "one at a time"
    }
    fn lock_granularity(&self) -> &'static str {
        "bank"
    }
    fn load(&self, scale: &Scale, progress: &mut dyn FnMut(u64)) -> Result<()> {
        self.inner.load(scale, progress)
    }
    fn session(&self) -> Result<Box<dyn Session + '_>> {
        // Relaxed is enough: the number publishes no other data.
        let is_late = self.sessions.fetch_add(1, Ordering::Relaxed) == 1;
        let late = if is_late { self.late } else { Duration::ZERO };
        Ok(Box::new(Queueing { inner: self.inner.session()?, door: &self.door, late }))
    }
    fn walk(&self, table: Table, each: &mut dyn FnMut(u64, &[u8])) -> Result<()> {
        self.inner.walk(table, each)
    }
    fn log_bytes(&self) -> Result<u64> {
        Ok(0)
    }
    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

#[test]
fn a_client_that_begins_late_does_not_make_the_rate_higher_than_the_engine_s_rate() {
    let time = Duration::from_millis(150);
    let engine =
        OneAtATime { inner: loaded(MapKind::Hash), door: Mutex::new(()), late: time, sessions: AtomicU64::new(0) };
    let settings = RunSettings { measured: time, ..quick(2) };
    let report = run_threads(&engine, &settings, &mut |_| {}).unwrap();
    assert_eq!(report.audit, "ok");
    // The engine commits at most one transfer in each millisecond, and one more that began before the measurement.
    assert!((10..=151).contains(&report.committed) && report.tps <= 1_007, "{}", report.to_json_line());
}

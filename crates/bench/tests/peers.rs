//! Tests of each peer: the audit accepts its bank, the bank survives closing, and the audit notices a wrong number of
//! acknowledged transactions. Without these tests, a figure could compare libtp with a peer that is used wrongly.
#![cfg(feature = "peers")]
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used)] // The whole file is tests.

use std::path::{Path, PathBuf};
use std::time::Duration;

use libtp_bench::{
    open_engine, run_threads, Durability, Engine, EngineKind, OpenSettings, Outcome, RunSettings, Scale, Sharing,
    Table, Transfers,
};

/// Returns the peers of this build.
fn peers() -> impl Iterator<Item = EngineKind> {
    EngineKind::LIGHT.into_iter().chain(EngineKind::HEAVY).filter(|kind| kind.is_built_in())
}

/// A new directory. Dropping the value removes the directory.
struct Fresh(PathBuf);

impl Fresh {
    fn new(name: &str) -> Fresh {
        let path = std::env::temp_dir().join(format!("libtp-bench-peers-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Fresh(path)
    }
}

impl Drop for Fresh {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}

fn open(kind: EngineKind, directory: &Path, durability: Durability) -> Box<dyn Engine> {
    open_engine(kind, &OpenSettings { directory, durability, sharing: Sharing::Alone }).unwrap()
}

fn settings(durability: Durability, clients: u32) -> RunSettings {
    RunSettings {
        scale: Scale::SMALL,
        clients,
        warmup: Duration::from_millis(20),
        measured: Duration::from_millis(150),
        durability,
        ..RunSettings::default()
    }
}

#[test]
fn the_audit_accepts_a_bank_of_several_clients_also_after_it_was_closed_and_opened() {
    for kind in peers() {
        for durability in [Durability::Relaxed, Durability::Sync] {
            let fresh = Fresh::new(&format!("runs-{}-{durability}", kind.name()));
            let engine = open(kind, &fresh.0, durability);
            engine.load(&Scale::SMALL, &mut |_| {}).unwrap();
            let first = run_threads(engine.as_ref(), &settings(durability, 4), &mut |_| {}).unwrap();
            assert_eq!(first.audit, "ok", "{first:?}");
            assert!(first.committed > 0, "{first:?}");
            let kept = engine.audit(&Scale::SMALL).unwrap();
            engine.close().unwrap();
            let engine = open(kind, &fresh.0, durability);
            assert_eq!(engine.audit(&Scale::SMALL).unwrap(), kept);
            let second = run_threads(engine.as_ref(), &settings(durability, 2), &mut |_| {}).unwrap();
            assert_eq!(second.audit, "ok", "{second:?}");
            engine.close().unwrap();
        }
    }
}

#[test]
fn clients_read_the_balances_that_were_written_and_read_only_runs_write_nothing() {
    for kind in peers() {
        let fresh = Fresh::new(&format!("reads-{}", kind.name()));
        let engine = open(kind, &fresh.0, Durability::Relaxed);
        engine.load(&Scale::SMALL, &mut |_| {}).unwrap();
        let transfer = Transfers::new(Scale::SMALL, 3, 0).next_transfer();
        let mut session = engine.session().unwrap();
        assert_eq!(session.transact(&transfer).unwrap(), Outcome::Committed { balance: transfer.amount });
        assert_eq!(session.read_only(&transfer).unwrap(), Outcome::Committed { balance: 3 * transfer.amount });
        drop(session);
        let audit = engine.audit(&Scale::SMALL).unwrap();
        assert_eq!((audit.verdict(1).as_str(), audit.transfers.as_slice()), ("ok", &[transfer.id][..]));
        assert!(audit.verdict(2).contains("were acknowledged"));
        let log_bytes = engine.log_bytes().unwrap();
        let quiet = RunSettings { read_only: true, ..settings(Durability::Relaxed, 2) };
        let report = run_threads(engine.as_ref(), &quiet, &mut |_| {}).unwrap();
        assert_eq!((report.audit.as_str(), report.log_bytes), ("ok", 0));
        assert_eq!(engine.log_bytes().unwrap(), log_bytes);
        engine.close().unwrap();
    }
}

/// PostgreSQL has a separate test, because it may not be installed, and because reads also make its log grow.
#[cfg(feature = "peers-all")]
#[test]
fn the_audit_accepts_a_bank_in_postgresql_also_after_the_server_was_stopped_and_started() {
    for durability in [Durability::Relaxed, Durability::Sync] {
        let fresh = Fresh::new(&format!("postgresql-{durability}"));
        let of = OpenSettings { directory: &fresh.0, durability, sharing: Sharing::Alone };
        let engine = match open_engine(EngineKind::Postgres, &of) {
            Ok(engine) => engine,
            Err(refused) if refused.to_string().contains("is not installed") => {
                println!("!!! SKIPPED: {refused} !!!");
                return;
            }
            Err(refused) => panic!("{refused}"),
        };
        engine.load(&Scale::SMALL, &mut |_| {}).unwrap();
        let transfer = Transfers::new(Scale::SMALL, 3, 1000).next_transfer();
        let mut session = engine.session().unwrap();
        assert_eq!(session.transact(&transfer).unwrap(), Outcome::Committed { balance: transfer.amount });
        assert_eq!(session.read_only(&transfer).unwrap(), Outcome::Committed { balance: 3 * transfer.amount });
        drop(session);
        let ran = run_threads(engine.as_ref(), &settings(durability, 4), &mut |_| {}).unwrap();
        assert!(ran.audit == "ok" && ran.committed > 0 && ran.log_bytes > 0, "{ran:?}");
        let kept = engine.audit(&Scale::SMALL).unwrap();
        engine.close().unwrap();
        let engine = open(EngineKind::Postgres, &fresh.0, durability);
        assert_eq!(engine.audit(&Scale::SMALL).unwrap(), kept);
        engine.close().unwrap();
    }
}

#[cfg(feature = "peers-all")]
#[test]
fn berkeley_db_writes_a_log_of_plausible_size() {
    let fresh = Fresh::new("log");
    let engine = open(EngineKind::Bdb, &fresh.0, Durability::Relaxed);
    engine.load(&Scale::SMALL, &mut |_| {}).unwrap();
    let report = run_threads(engine.as_ref(), &settings(Durability::Relaxed, 1), &mut |_| {}).unwrap();
    let each = report.log_bytes / report.committed;
    assert!((200..4_000).contains(&each), "{each} bytes of log per transfer");
    engine.close().unwrap();
}

#[test]
fn the_error_for_a_record_that_was_never_loaded_names_the_engine() {
    for kind in peers() {
        let fresh = Fresh::new(&format!("empty-{}", kind.name()));
        let engine = open(kind, &fresh.0, Durability::Relaxed);
        let error = run_threads(engine.as_ref(), &settings(Durability::Relaxed, 1), &mut |_| {}).unwrap_err();
        assert!(error.to_string().starts_with(kind.name()), "{error}");
        let mut seen = 0;
        engine.walk(Table::Branch, &mut |_, _| seen += 1).unwrap();
        assert_eq!(seen, 0);
        engine.close().unwrap();
    }
}

#[test]
fn a_missing_directory_is_an_error_and_not_a_crash() {
    for kind in peers() {
        // No user can make a directory in /proc.
        let directory = Path::new("/proc/nowhere/at/all");
        let settings = OpenSettings { directory, durability: Durability::Sync, sharing: Sharing::Alone };
        let error = open_engine(kind, &settings).err().unwrap().to_string();
        assert!(error.starts_with(kind.name()), "{error}");
    }
}

//! A session dies in the middle of an update in place. The update's stores have no before-images (PROTOCOLS D3, D4).

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use libtp::{Db, Env, Error, Settings};

const KEY: &[u8] = b"key";
const OLD: &[u8] = b"the old value";
const NEW: &[u8] = b"THE NEW VALUE";

/// Makes a database with one record.
fn with_record(env: &Env) -> Db {
    let records = env.btree("records").unwrap();
    env.run(|txn| records.put(txn, KEY, OLD)).unwrap();
    records
}

fn settings() -> Settings {
    Settings { no_background: true, ..Settings::default() }
}

/// Updates the record in a session that dies at `point`.
fn dies_at(point: &str, env: &Env, records: &Db) {
    let txn = env.begin().unwrap();
    let died = rio::failpoint::armed_here(&format!("{point}!panic"), || records.put(&txn, KEY, NEW));
    assert!(matches!(died, Err(Error::Panicked { .. })), "{died:?}");
    drop(txn);
}

#[test]
fn a_snapshot_sees_no_part_of_an_update_whose_session_died() {
    for point in ["rio: first repeated store made", "rio: further repeated store made"] {
        let place = tempfile::tempdir().unwrap();
        let env = Env::builder().settings(settings()).open(place.path()).unwrap();
        let records = with_record(&env);
        dies_at(point, &env, &records);
        let is_over = AtomicBool::new(false);
        std::thread::scope(|threads| {
            for _ in 0..3 {
                threads.spawn(|| {
                    while !is_over.load(Ordering::Acquire) {
                        let seen = records.get(&env.snapshot().unwrap(), KEY).unwrap();
                        assert_eq!(seen.as_deref(), Some(OLD), "after a death at {point:?}");
                    }
                });
            }
            std::thread::sleep(Duration::from_millis(20));
            env.managers().reap().unwrap();
            is_over.store(true, Ordering::Release);
        });
        assert_eq!(env.run(|txn| records.get(txn, KEY)).unwrap().as_deref(), Some(OLD));
    }
}

/// In an environment without a log, the repair cannot redo the change. So every store needs a before-image.
#[cfg(feature = "unprotected")]
#[test]
fn an_unprotected_update_whose_session_died_is_rolled_back() {
    let place = tempfile::tempdir().unwrap();
    let env = Env::builder().settings(settings()).unprotected().open(place.path()).unwrap();
    let records = with_record(&env);
    dies_at("change: page changed, LSN old", &env, &records);
    env.managers().reap().unwrap();
    assert_eq!(env.run(|txn| records.get(txn, KEY)).unwrap().as_deref(), Some(OLD));
}

//! The disk fails one read during the repair of dead sessions. The memory must not be given up, and an error that the
//! library cannot mend must be reported.

// Test code outside of test functions: a panic is the report.
#![allow(clippy::unwrap_used)]

use libtp::{Db, Durability, Env, Platform, Settings, SharedMemory};
use libtp_io::Operation;
use libtp_sim::{Calls, Fault, Repeat, SimDisk, SimProcess};
use libtp_tests::versions::platform;

/// The number of log bytes after which an earlier log record is only on the disk, not in memory.
const LOG_BYTES: usize = 4 << 20;

/// Opens an environment on a process's view of a simulated disk, without background threads.
fn open(view: &SimProcess) -> (Env, Db) {
    let directory = view.directory();
    let log_directory = directory.subdirectory("log").expect("a directory for the log");
    let platform = Platform { log_directory, ..platform(directory, &SharedMemory::new()) };
    let settings = Settings { no_background: true, ..Settings::default() };
    let env = Env::builder().settings(settings).open_on(platform, &mut |_| {}).expect("the environment opens");
    let stock = env.btree("stock").expect("a database");
    (env, stock)
}

/// Logs `LOG_BYTES`, so that earlier records are only on the disk.
fn log_much(env: &Env, stock: &Db) {
    let value = vec![7; 64 << 10];
    for _ in 0..LOG_BYTES / value.len() {
        env.run_with(Durability::Sync, |txn| stock.put(txn, b"much", &value)).expect("a value is stored");
    }
}

fn fail_one_read(disk: &SimDisk) {
    disk.fail_call(Calls::On(Operation::Read, "log".into()), 0, Fault::Eio, Repeat::Once);
}

#[test]
fn a_noted_record_that_cannot_be_read_once_is_read_again() {
    let disk = SimDisk::new(1);
    let view = disk.process_view();
    let (env, stock) = open(&view);
    let txn = env.begin().unwrap();
    stock.put(&txn, b"apples", b"3").unwrap();
    let noted = env.transactions()[0].last_lsn;
    txn.commit().unwrap();
    log_much(&env, &stock);
    // Simulates a session that was stopped for a long time before it could clear its noted append, and then died.
    let dead = env.managers().processes.join().unwrap();
    dead.note_append(noted, 0);
    dead.mark_dead();
    fail_one_read(&disk);
    assert_eq!(env.managers().reap().unwrap().sessions, 1);
    assert!(disk.first_strike().is_some(), "the record was still in memory, so the test shows nothing");
    assert!(!env.managers().region.is_broken());
    assert_eq!(env.run(|txn| stock.get(txn, b"apples")).unwrap().as_deref(), Some(&b"3"[..]));
}

#[test]
fn an_error_in_one_repair_is_reported_though_the_next_succeeds() {
    let disk = SimDisk::new(2);
    let view = disk.process_view();
    let (env, stock) = open(&view);
    for key in [b"one", b"two"] {
        env.run(|txn| stock.put(txn, key, b"before")).unwrap();
    }
    let (one, two) = (env.begin().unwrap(), env.begin().unwrap());
    stock.put(&one, b"one", b"unfinished").unwrap();
    stock.put(&two, b"two", b"unfinished").unwrap();
    log_much(&env, &stock);
    one.die();
    two.die();
    fail_one_read(&disk);
    assert!(env.managers().reap().is_err(), "one transaction cannot be undone, so `reap` must return an error");
    assert_eq!(env.transactions().len(), 1, "the other transaction must be undone");
    env.managers().reap().unwrap();
    assert_eq!(env.transactions(), []);
    assert!(!env.managers().region.is_broken());
    for key in [b"one", b"two"] {
        assert_eq!(env.run(|txn| stock.get(txn, key)).unwrap().as_deref(), Some(&b"before"[..]));
    }
}

//! What becomes of a handle when its memory is made anew. With processes: the suite `multiprocess`, `rebuild`.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::{Durability, Env};

/// Waits until something is so; the watchdog of a test.
fn until(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(20), "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_life_whose_threads_cannot_be_started_is_tried_again() {
    let dir = tempfile::tempdir().unwrap();
    let env = Env::open(dir.path()).unwrap();
    let stock = env.btree("stock").unwrap();
    env.0.threads_refused.store(3, Ordering::Relaxed);
    env.managers().processes.declare_broken();
    // Nobody calls: the threads of the broken life do it.
    until("nobody begins the next life", || {
        env.0.threads_refused.load(Ordering::Relaxed) == 0 && !env.managers().region.is_broken()
    });
    env.run_with(Durability::Relaxed, |txn| stock.put(txn, b"apples", b"3")).unwrap();
    until("nobody writes the log of the new life", || env.managers().log.is_all_durable());
    assert_eq!(env.run(|txn| stock.get(txn, b"apples")).unwrap().as_deref(), Some(&b"3"[..]));
}

#[test]
fn who_calls_while_no_thread_can_be_started_is_told_and_may_try_again() {
    let dir = tempfile::tempdir().unwrap();
    let env = Env::open(dir.path()).unwrap();
    let stock = env.btree("stock").unwrap();
    env.run(|txn| stock.put(txn, b"apples", b"3")).unwrap();
    env.0.threads_refused.store(u32::MAX, Ordering::Relaxed);
    env.managers().processes.declare_broken();
    let told = env.run(|txn| stock.get(txn, b"apples")).unwrap_err().to_string();
    assert!(told.contains("no more threads"), "{told}");
    env.0.threads_refused.store(0, Ordering::Relaxed);
    assert_eq!(env.run(|txn| stock.get(txn, b"apples")).unwrap().as_deref(), Some(&b"3"[..]));
}

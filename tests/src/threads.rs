//! Spreads the items of a list over a few threads.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::crash_states::THREADS;
use crate::sizes;
use crate::watchdog::{caught, Watchdog};

/// Calls `work` with each item on [`THREADS`] threads; the results come in any order.
pub fn on_all_threads<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    on_threads(THREADS, items, work)
}

/// Calls `work` with each item on `threads` threads; the results come in any order.
pub fn on_threads<T: Sync, R: Send>(threads: usize, items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                // Relaxed: a plain counter, which publishes nothing.
                while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let result = work(item);
                    done.lock().unwrap_or_else(PoisonError::into_inner).push(result);
                }
            });
        }
    });
    done.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// The result of judging a list.
#[derive(Debug, Default)]
pub struct Judged {
    /// The number of judged items.
    pub tried: usize,
    /// The failures, each with the environment variables that make a run repeat it.
    pub wrong: Vec<String>,
}

/// Judges each item on several threads. Stops when `LIBTP_TEST_FAILURES` items have failed, by default 3. `replay`
/// returns the environment variables that make a run repeat an item; `prepare` makes the state of a thread.
pub fn judge_all<T: Sync, S>(
    items: &[T],
    watchdog: &Watchdog,
    replay: impl Fn(&T) -> String + Sync,
    prepare: impl Fn() -> S + Sync,
    judge: impl Fn(&mut S, &T) -> Result<(), String> + Sync,
) -> Judged {
    let (next, wrong) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let enough = sizes::number("LIBTP_TEST_FAILURES", 3);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (next, wrong, replay, prepare, judge) = (&next, &wrong, &replay, &prepare, &judge);
            scope.spawn(move || {
                let mut own = prepare();
                // Relaxed: a plain counter, which publishes nothing.
                while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
                    watchdog.begin(thread, replay(item));
                    let judged = caught(|| judge(&mut own, item));
                    let mut wrong = wrong.lock().unwrap_or_else(PoisonError::into_inner);
                    wrong.extend(judged.err().map(|what| format!("{}: {what}", replay(item))));
                    if wrong.len() as u64 >= enough {
                        return;
                    }
                }
            });
        }
    });
    let wrong = wrong.into_inner().unwrap_or_else(PoisonError::into_inner);
    Judged { tried: next.into_inner().min(items.len()), wrong }
}

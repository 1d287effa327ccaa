//! R4: every call of a workload fails, with each kind of error, once and for good.
//!
//! `LIBTP_TEST_FAULTS` says how many faults are tried; a failure names the variables that repeat it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use libtp_tests::crash_states::THREADS;
use libtp_tests::failing_calls::{count_calls, judge_failing_call, sample, FailingCall, KINDS};
use libtp_tests::sizes;
use libtp_tests::watchdog::{caught, Watchdog};

#[test]
fn nothing_is_lost_whatever_call_fails() {
    let watchdog = Watchdog::start(THREADS);
    let (seed, start) = (sizes::first_seed(), Instant::now());
    let calls = count_calls(seed).expect("the workload runs where nothing fails");
    let failing = match sizes::chosen("LIBTP_TEST_CALL") {
        Some(call) => vec![FailingCall { call, kind: sizes::chosen("LIBTP_TEST_FAULT").unwrap_or(0) }],
        None => sample(calls, sizes::number("LIBTP_TEST_FAULTS", 400)),
    };
    let (next, wrong) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (failing, next, wrong, watchdog) = (&failing, &next, &wrong, &watchdog);
            scope.spawn(move || {
                // Relaxed: a plain counter.
                while let Some(one) = failing.get(next.fetch_add(1, Ordering::Relaxed)) {
                    watchdog.begin(thread, one.replay(seed));
                    let judged = caught(|| judge_failing_call(seed, *one));
                    let mut wrong = wrong.lock().unwrap_or_else(PoisonError::into_inner);
                    if let Err(what) = judged {
                        wrong.push(format!("{} ({:?}): {what}", one.replay(seed), KINDS[one.kind]));
                    }
                    if wrong.len() as u64 >= sizes::number("LIBTP_TEST_FAILURES", 3) {
                        return;
                    }
                }
            });
        }
    });
    let wrong = wrong.into_inner().unwrap_or_else(PoisonError::into_inner);
    let (tried, seconds) = (next.into_inner().min(failing.len()), start.elapsed().as_secs_f64());
    println!(
        "figures: {tried} failing calls of seed {seed} ({calls} calls times {} faults) judged live, after a power cut and \
         reopened; {} bad; {seconds:.0} s",
        KINDS.len(),
        wrong.len()
    );
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

//! Each call of a workload fails, with each kind of error, once or from then on.
//!
//! `LIBTP_TEST_FAULTS` is the number of faults that are tried with a seed, `LIBTP_TEST_FAULT_SEEDS` the number of
//! seeds. A failure names the environment variables that repeat it.

use std::time::Instant;

use libtp_tests::crash_states::THREADS;
use libtp_tests::failing_calls::{count_calls, judge_failing_call, sample, CallClass, FailingCall, KINDS};
use libtp_tests::sizes;
use libtp_tests::threads::judge_all;
use libtp_tests::watchdog::Watchdog;

#[test]
fn nothing_is_lost_when_any_call_fails() {
    let watchdog = Watchdog::start(THREADS);
    let start = Instant::now();
    let (first, seeds) = (sizes::first_seed(), sizes::number("LIBTP_TEST_FAULT_SEEDS", 1));
    let (mut tried, mut all, mut wrong) = (0, 0, Vec::new());
    for seed in first..first + seeds {
        let calls = count_calls(seed, CallClass::Any).expect("the workload runs if no call fails");
        let failing =
            chosen().unwrap_or_else(|| sample(CallClass::Any, calls, sizes::number("LIBTP_TEST_FAULTS", 400)));
        let replay = |one: &FailingCall| format!("{} ({:?})", one.replay(seed), KINDS[one.kind]);
        let judged = judge_all(&failing, &watchdog, replay, || (), |(), one| judge_failing_call(seed, *one));
        tried += judged.tried;
        all += calls * KINDS.len() as u64;
        wrong.extend(judged.wrong);
    }
    println!(
        "figures: {tried} failing calls of {seeds} seeds (of {all}: each call times {} faults) judged live, after power cuts and \
        reopened; {} bad; {:.0} s",
        KINDS.len(),
        wrong.len(),
        start.elapsed().as_secs_f64()
    );
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn no_name_is_taken_for_durable_after_a_failed_sync_of_its_directory() {
    let watchdog = Watchdog::start(THREADS);
    let seed = sizes::first_seed();
    let syncs = count_calls(seed, CallClass::DirectorySyncs).expect("the workload runs if no call fails");
    let failing = sample(CallClass::DirectorySyncs, syncs, sizes::number("LIBTP_TEST_FAULTS", 60));
    let replay = |one: &FailingCall| format!("{} ({:?})", one.replay(seed), KINDS[one.kind]);
    let judged = judge_all(&failing, &watchdog, replay, || (), |(), one| judge_failing_call(seed, *one));
    println!("figures: {} failing syncs of directories, {} bad", judged.tried, judged.wrong.len());
    assert!(judged.tried > 0 && judged.wrong.is_empty(), "{}", judged.wrong.join("\n"));
}

/// Returns one failing call, if the environment variables name it.
fn chosen() -> Option<Vec<FailingCall>> {
    let call = sizes::chosen("LIBTP_TEST_CALL")?;
    let name = sizes::chosen("LIBTP_TEST_WHICH").unwrap_or_else(|| "Any".to_owned());
    let class = CallClass::named(&name).unwrap_or_else(|| panic!("LIBTP_TEST_WHICH={name} cannot be read"));
    Some(vec![FailingCall { class, call, kind: sizes::chosen("LIBTP_TEST_FAULT").unwrap_or(0) }])
}

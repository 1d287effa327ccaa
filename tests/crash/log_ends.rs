//! A power cut during a flush may end the log at any sector of the flush, also between the two actions of a split.
//!
//! `LIBTP_TEST_LOGS` is the number of workloads whose logs are cut off.

use libtp_tests::crash_states::THREADS;
use libtp_tests::log_ends::{all_log_ends, judge_log_end, plan};
use libtp_tests::sizes;
use libtp_tests::threads::judge_all;
use libtp_tests::watchdog::{caught, Watchdog};
use libtp_tests::workload;

#[test]
fn a_log_may_end_at_any_sector() {
    let watchdog = Watchdog::start(THREADS);
    let (first, logs) = (sizes::first_seed(), sizes::number("LIBTP_TEST_LOGS", 1));
    let (mut tried, mut wrong) = (0, Vec::new());
    for seed in first..first + logs {
        let run = caught(|| workload::run(plan(seed), |_| {})).unwrap_or_else(|what| panic!("seed {seed}: {what}"));
        let judged = judge_all(
            &sizes::todays(all_log_ends(seed, &run)),
            &watchdog,
            |end| format!("LIBTP_TEST_SEED={seed}, {end}"),
            || run.machine.disk.crash_images(),
            |walk, end| judge_log_end(seed, &run, walk, end),
        );
        tried += judged.tried;
        wrong.extend(judged.wrong);
    }
    println!("figures: {tried} ends of {logs} logs, at sectors of each flush; {} bad", wrong.len());
    assert!(tried > 100, "the log has too few sectors, so the test shows nothing");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

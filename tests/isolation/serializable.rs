//! Random transactions of eight threads. Their histories must have no cycle. As a control, histories of the same
//! transactions without isolation must have cycles.
//!
//! `LIBTP_TEST_TXNS` sets the number of transactions, `LIBTP_TEST_SEED` the first seed. A seed determines the
//! transactions, but not how the threads interleave.

use std::time::Instant;

use libtp::Granularity;
use libtp_tests::sizes;

use crate::checker::{check, lost_at_the_end};
use crate::workload::{run, Discipline, Plan, Tally, THREADS};

/// The number of transactions in one environment. The checker needs little time for a history of this length.
const ROUND: u64 = 10_000;

#[test]
fn random_transactions_of_eight_threads_are_strictly_serializable() {
    let (wanted, first) = (sizes::number("LIBTP_TEST_TXNS", 20_000), sizes::first_seed());
    let start = Instant::now();
    let (mut committed, mut dependencies, mut ambiguous, mut sum) = (0, 0, 0, Tally::default());
    for (seed, done) in (first..).zip((0..wanted.div_ceil(ROUND)).map(|round| round * ROUND)) {
        // In every third round, locks are on pages, so that the first rounds test both kinds of locks.
        let granularity = if seed % 3 == 2 { Granularity::Page } else { Granularity::Record };
        let transactions = ROUND.min(wanted - done);
        let plan = Plan { seed, transactions, granularity, discipline: Discipline::Transactions };
        let (history, tally) = run(plan).unwrap_or_else(|error| panic!("LIBTP_TEST_SEED={seed}: {error}"));
        let verdict = check(&history);
        assert!(verdict.is_clean(), "LIBTP_TEST_SEED={seed} {granularity:?}:\n{}", verdict.worst());
        let lost = lost_at_the_end(&history, history.len() - 1);
        assert!(
            lost.is_empty(),
            "LIBTP_TEST_SEED={seed} {granularity:?}: {} lost, the first {:?}",
            lost.len(),
            lost[0]
        );
        committed += verdict.committed;
        dependencies += verdict.dependencies;
        ambiguous += verdict.ambiguous;
        sum.deadlocks += tally.deadlocks;
        sum.aborts += tally.aborts;
    }
    println!(
        "figures: {committed} of {wanted} transactions of {THREADS} threads committed, {} aborted, {} victims of \
         deadlocks, {dependencies} dependencies, {ambiguous} not judged; 0 cycles, 0 lost; {:.0} s",
        sum.aborts,
        sum.deadlocks,
        start.elapsed().as_secs_f64()
    );
    assert!(committed as u64 > wanted / 2, "too few transactions committed, so the test shows nothing");
    assert!(sum.deadlocks > 0 || wanted < 2_000, "there was no deadlock, so the test shows nothing");
}

/// Runs a control: the same transactions and the same checker, without isolation. Returns the number of cycles and of
/// other anomalies.
fn control(discipline: Discipline) -> (usize, usize) {
    let plan = Plan { seed: sizes::first_seed(), transactions: 2_000, granularity: Granularity::Record, discipline };
    let (history, _) = run(plan).expect("the control's calls succeed");
    let verdict = check(&history);
    println!(
        "figures: control {discipline:?}: {} cycles, {} other anomalies",
        verdict.cycles.len(),
        verdict.anomalies.len()
    );
    (verdict.cycles.len(), verdict.anomalies.len())
}

#[test]
fn the_checker_finds_cycles_if_each_step_is_a_transaction() {
    let (cycles, _) = control(Discipline::StepByStep);
    assert!(cycles > 0, "the control has no cycle, so the checker or the workload proves nothing");
}

#[test]
fn the_checker_finds_lost_updates_if_reads_and_writes_are_separate_transactions() {
    let (_, anomalies) = control(Discipline::ReadThenWrite);
    assert!(anomalies > 0, "the control lost no update, so the checker or the workload proves nothing");
}

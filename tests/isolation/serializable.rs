//! Histories of random transactions have no cycle; with isolation switched off they have cycles.
//!
//! `LIBTP_TEST_TXNS` sets the number of transactions, `LIBTP_TEST_SEED` the first seed. A seed determines the
//! transactions, but not how the threads interleave.

use std::time::Instant;

use libtp::Granularity;
use libtp_tests::sizes;

use crate::checker::{check, lost_at_the_end};
use crate::workload::{run, Discipline, Plan, Tally, THREADS};

/// Number of transactions in one environment: such a history is checked in a moment.
const ROUND: u64 = 10_000;

#[test]
fn random_transactions_of_eight_threads_are_strictly_serializable() {
    let (wanted, first) = (sizes::number("LIBTP_TEST_TXNS", 20_000), sizes::first_seed());
    let start = Instant::now();
    let (mut committed, mut dependencies, mut ambiguous, mut sum) = (0, 0, 0, Tally::default());
    for (seed, done) in (first..).zip((0..wanted.div_ceil(ROUND)).map(|round| round * ROUND)) {
        // Locks on pages every third time, so that the first rounds test both kinds.
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
    assert!(committed as u64 > wanted / 2, "too few transactions committed: the test shows nothing");
    assert!(sum.deadlocks > 0 || wanted < 2_000, "too few deadlocks: the test shows nothing");
}

/// The control: the same transactions and the same checker, without isolation.
fn control(discipline: Discipline) -> (usize, usize) {
    let plan = Plan { seed: sizes::first_seed(), transactions: 2_000, granularity: Granularity::Record, discipline };
    let (history, _) = run(plan).expect("the control runs as the real thing does");
    let verdict = check(&history);
    println!(
        "figures: control {discipline:?}: {} cycles, {} other anomalies",
        verdict.cycles.len(),
        verdict.anomalies.len()
    );
    (verdict.cycles.len(), verdict.anomalies.len())
}

#[test]
fn steps_that_are_not_one_transaction_have_cycles() {
    let (cycles, _) = control(Discipline::StepByStep);
    assert!(cycles > 0, "the control has no cycle: the checker or the workload proves nothing");
}

#[test]
fn reads_and_writes_that_are_not_one_transaction_lose_updates() {
    let (_, anomalies) = control(Discipline::ReadThenWrite);
    assert!(anomalies > 0, "the control lost no update: the checker or the workload proves nothing");
}

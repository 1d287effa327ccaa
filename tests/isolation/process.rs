//! A process that runs random transactions and reports each: this program.
//!
//! Before a commit it reports the transaction's steps (`try BEGIN STEPS`), after it the time of its end (`done END`).
//! So only the last transaction before a kill can be committed without a report.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::Arc;
use std::time::Duration;

use libtp::{Env, Granularity};
use libtp_tests::process::{next_order, say};

use crate::telling::tell;
use crate::workload::{settings, Actor, Discipline, Plan, Stage};

/// The test that such a process runs.
pub const ENTRY: &str = "process::entry";
/// The variable with its parameters: see [`orders`]. A process without it is not such a process.
const ORDERS: &str = "LIBTP_TEST_WORKER_ORDERS";

/// How long a process pauses in [`linger`].
const LINGER: Duration = Duration::from_millis(2);

/// Returns the variables for process `number`, which begins with `epoch`.
pub fn orders(directory: &std::path::Path, plan: Plan, number: u64, epoch: u32) -> Vec<(&'static str, String)> {
    let pages = u8::from(plan.granularity == Granularity::Page);
    let Plan { seed, transactions, .. } = plan;
    vec![(ORDERS, format!("{seed} {transactions} {pages} {number} {epoch} {}", directory.display()))]
}

/// The entry of such a process. In an ordinary test run this test does nothing.
#[test]
fn entry() {
    let Ok(orders) = std::env::var(ORDERS) else { return };
    let mut words = orders.splitn(6, ' ');
    let mut number = || words.next().unwrap().parse::<u64>().unwrap();
    let (seed, transactions, pages, process, epoch) = (number(), number(), number(), number(), number());
    let granularity = if pages == 1 { Granularity::Page } else { Granularity::Record };
    // Each process has random transactions of its own.
    let plan = Plan { seed: seed << 20 | process, transactions, granularity, discipline: Discipline::Transactions };
    let directory = PathBuf::from(words.next().unwrap());
    if let Err(error) = work(directory, plan, process, u32::try_from(epoch).unwrap()) {
        say(&format!("failed {error}"));
    }
}

fn work(directory: PathBuf, plan: Plan, process: u64, epoch: u32) -> libtp::Result<()> {
    let env = Env::builder().settings(settings(plan)).open(directory)?;
    let (epoch, is_over) = (Arc::new(AtomicU32::new(epoch)), Arc::new(AtomicBool::new(false)));
    listen(Arc::clone(&epoch), Arc::clone(&is_over));
    play(&env, plan, process, &epoch, &is_over)?;
    drop(env);
    say("left");
    Ok(())
}

fn play(env: &Env, plan: Plan, process: u64, epoch: &AtomicU32, is_over: &AtomicBool) -> libtp::Result<()> {
    // No two processes draw the same elements.
    let stage = Stage::new(env, plan, process << 32)?;
    let stage = stage.announcing(|begin, steps| {
        say(&format!("try {begin} {}", tell(steps)));
        linger(begin);
    });
    let mut actor = Actor::new(&stage, usize::try_from(process).expect("few processes"));
    // Relaxed: the flag and the number publish no other data.
    while !is_over.load(Ordering::Relaxed) {
        let record = actor.transaction(epoch.load(Ordering::Relaxed))?;
        linger(record.end);
        match record.is_committed {
            true => say(&format!("done {}", record.end)),
            false => say("gone"),
        }
    }
    Ok(())
}

/// Pauses now and then at a place where a kill leaves the outcome unknown.
fn linger(chance: u64) {
    if chance / 64 % 16 == 0 {
        std::thread::sleep(LINGER);
    }
}

/// Takes orders: a new epoch, or the end.
fn listen(epoch: Arc<AtomicU32>, is_over: Arc<AtomicBool>) {
    std::thread::spawn(move || loop {
        match next_order().and_then(|order| order.parse().ok()) {
            // Relaxed: as above.
            Some(number) => epoch.store(number, Ordering::Relaxed),
            None => return is_over.store(true, Ordering::Relaxed),
        }
    });
}

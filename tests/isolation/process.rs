//! A child process of a test. It runs random transactions, and reports each.
//!
//! Before a commit it reports the transaction's steps (`try BEGIN STEPS`), and after the commit the time of its end
//! (`done END`). So the outcome is unknown only for the last transaction before a kill.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::Arc;
use std::time::Duration;

use libtp::{Env, Granularity};
use libtp_tests::process::{next_order, say};

use crate::step_lines::tell;
use crate::workload::{settings, Actor, Discipline, Plan, Stage};

/// The test that the process runs.
pub const ENTRY: &str = "process::entry";
/// The environment variable with the process's parameters ([`orders`]). In an ordinary test run it is not set.
const ORDERS: &str = "LIBTP_TEST_WORKER_ORDERS";

/// The length of a pause in [`linger`].
const LINGER: Duration = Duration::from_millis(2);

/// Returns the variables for process `number`, which begins with `epoch`.
pub fn orders(directory: &std::path::Path, plan: Plan, number: u64, epoch: u32) -> Vec<(&'static str, String)> {
    let pages = u8::from(plan.granularity == Granularity::Page);
    let Plan { seed, transactions, .. } = plan;
    vec![(ORDERS, format!("{seed} {transactions} {pages} {number} {epoch} {}", directory.display()))]
}

/// The entry of the process. In an ordinary test run this test does nothing.
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
    // The first element depends on the process, so that no two processes draw the same element.
    let stage = Stage::new(env, plan, process << 32)?;
    let stage = stage.announcing(|begin, steps| {
        say(&format!("try {begin} {}", tell(steps)));
        linger(begin);
    });
    let mut actor = Actor::new(&stage, usize::try_from(process).expect("there are few processes"));
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

/// Pauses in one call of 16. If the process is killed in the pause, the outcome of its transaction is unknown.
fn linger(chance: u64) {
    if chance / 64 % 16 == 0 {
        std::thread::sleep(LINGER);
    }
}

/// Takes orders: a new epoch, or the end.
fn listen(epoch: Arc<AtomicU32>, is_over: Arc<AtomicBool>) {
    std::thread::spawn(move || loop {
        match next_order().and_then(|order| order.parse().ok()) {
            // Relaxed: the flag and the number publish no other data.
            Some(number) => epoch.store(number, Ordering::Relaxed),
            None => return is_over.store(true, Ordering::Relaxed),
        }
    });
}

//! Crashes at the I/Os of a mixed workload, in all loss modes. One state in ten crashes again inside its recovery or
//! after it.
//!
//! `LIBTP_TEST_STATES` is the number of states, `LIBTP_TEST_SEED` the first seed. A failure names the environment
//! variables that make the test try only this state.

use std::time::Instant;

use libtp_tests::crash_states::{all_states, explore, mode_named, sample, CrashState, Explored, THREADS};
use libtp_tests::sizes;
use libtp_tests::watchdog::{caught, Watchdog};
use libtp_tests::workload::{self, Plan, Run, Tally};

/// The largest number of states that are tried with one seed. Beyond this number, the workload of another seed shows
/// more than further states of the same workload.
const STATES_OF_SEED: u64 = 5_000;

#[test]
fn nothing_acknowledged_is_lost_at_any_io() {
    let watchdog = Watchdog::start(THREADS);
    let (first, wanted) = (sizes::first_seed(), sizes::states());
    if let Some(state) = chosen_state() {
        let run = work(&watchdog, first);
        let explored = explore(first, &run, &[state], &watchdog);
        assert!(explored.failures.is_empty(), "{}", explored.failures.join("\n"));
        return;
    }
    let seeds = wanted.div_ceil(STATES_OF_SEED);
    let start = Instant::now();
    let mut sum = Explored::default();
    let (mut places, mut tally) = (0, Tally::default());
    let mut activity = Vec::new();
    for seed in first..first + seeds {
        let run = work(&watchdog, seed);
        let all = all_states(&mut run.machine.disk.crash_images());
        let explored = explore(seed, &run, &sample(&all, wanted / seeds), &watchdog);
        places += run.machine.disk.io_index();
        tally = tally.plus(run.tally);
        activity.push(run.machine.disk.activity());
        sum.states += explored.states;
        sum.deep += explored.deep;
        sum.failures.extend(explored.failures);
        if !sum.failures.is_empty() {
            break;
        }
    }
    println!(
        "figures: {} crash states ({} inside recovery) of {seeds} seeds with {places} I/Os, {tally}; {} bad; {:.0} s",
        sum.states,
        sum.deep,
        sum.failures.len(),
        start.elapsed().as_secs_f64()
    );
    assert!(sum.failures.is_empty(), "{}", sum.failures.join("\n"));
    for class in activity[0].classes().iter().map(|(class, _)| *class).filter(|class| is_mode(class)) {
        let active: u64 = activity
            .iter()
            .flat_map(|one| one.classes())
            .filter(|(name, _)| *name == class)
            .map(|(_, count)| count)
            .sum();
        assert!(active > 0, "the loss mode {class} never had an effect, so the crash images do not test it");
    }
}

fn is_mode(class: &str) -> bool {
    ["torn_512", "torn_4096", "prefix", "reordered", "per_file", "drop_all", "keep_all", "name_lost"].contains(&class)
}

fn work(watchdog: &Watchdog, seed: u64) -> Run {
    watchdog.begin(0, format!("LIBTP_TEST_SEED={seed}, the workload itself"));
    let run = caught(|| workload::run(Plan::full(seed), |_| {}));
    run.unwrap_or_else(|what| panic!("LIBTP_TEST_SEED={seed}: {what}"))
}

/// Returns one state, if the environment variables name it.
fn chosen_state() -> Option<CrashState> {
    let position = sizes::chosen("LIBTP_TEST_INDEX")?;
    let name: String = sizes::chosen("LIBTP_TEST_MODE").unwrap_or_default();
    let mode = mode_named(&name).unwrap_or_else(|| panic!("LIBTP_TEST_MODE={name} is no loss mode"));
    Some(CrashState { position, mode })
}

//! A child process of a test, which runs the test program again. It opens the environment, and obeys orders from its
//! standard input.

use std::path::Path;
use std::time::{Duration, Instant};

use libtp::{Durability, Env, Result, Settings};
use libtp_sim::Random;
use libtp_tests::process::{next_order, say};
use libtp_tests::sizes;

use crate::operations::{Operation, Part};
use crate::world::World;

/// The environment's directory. Without this variable, the process is not a child.
pub const DIRECTORY: &str = "LIBTP_TEST_CHILD_DIRECTORY";
/// The child's number.
pub const NUMBER: &str = "LIBTP_TEST_CHILD_NUMBER";
/// Whether the child has background threads, which repair dead sessions at once: `1` or `0`.
pub const BACKGROUND: &str = "LIBTP_TEST_CHILD_BACKGROUND";
/// The test that a child runs.
pub const ENTRY: &str = "child::entry";

/// Returns the time within which a survivor must do its work after a death.
pub fn watchdog() -> Duration {
    Duration::from_secs(sizes::number("LIBTP_TEST_WATCHDOG", 20))
}

/// The entry of a child. In an ordinary test run this test does nothing.
#[test]
fn entry() {
    let Some(directory) = std::env::var_os(DIRECTORY) else { return };
    match serve(Path::new(&directory)) {
        Ok(()) => say("left"),
        Err(error) => say(&format!("failed: {error}")),
    }
}

fn serve(directory: &Path) -> Result<()> {
    let own = Settings { no_background: sizes::number(BACKGROUND, 0) == 0, ..Settings::default() };
    let env = Env::builder().settings(own).lock_timeout(watchdog()).open(directory)?;
    let (world, number) = (World::open(env)?, sizes::number(NUMBER, 0));
    let mut transfers = 0;
    let mut random = Random::new(number);
    say("open");
    while let Some(order) = next_order() {
        let words: Vec<&str> = order.split(' ').collect();
        let operation = || Operation::of(words[1]);
        let word = |at: usize| words[at].parse::<u64>().unwrap();
        match words[0] {
            "warm" => operation().play(&world, word(2), &Part::Warm)?,
            "play" => operation().play(&world, word(2), &Part::Stepped)?,
            "hold" => Operation::hold(&world, || {
                say("done hold");
                next_order();
            })?,
            "settle" => {
                let durability = if word(3) % 4 == 0 { Durability::Sync } else { Durability::Relaxed };
                let found = operation().settle(&world, word(2), word(3), durability)?;
                world.bank.transfer((number, transfers), &mut random, durability)?;
                say(&format!("settled {found} {transfers}"));
                transfers += 1;
            }
            "repair" => repair_all(&world)?,
            "repair-stepped" => {
                let managers = world.env.managers();
                Part::Stepped.step(|| managers.reap().map(drop))?;
            }
            "stop" => break,
            other => panic!("an unknown order: {other}"),
        }
        say(&format!("done {}", words[0]));
    }
    Ok(())
}

/// Repairs dead sessions until no session is dead.
fn repair_all(world: &World) -> Result<()> {
    let (managers, start) = (world.env.managers(), Instant::now());
    loop {
        managers.reap()?;
        if managers.processes.dead_sessions().is_empty() {
            return Ok(());
        }
        assert!(start.elapsed() < watchdog(), "a dead session is not repaired");
        std::thread::sleep(Duration::from_millis(1));
    }
}

//! A child process of a test, which runs the test program again. It begins to work at once, obeys orders from its
//! standard input, and reports each transfer when the commit has returned.

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use libtp::{Durability, Env, Settings};
use libtp_sim::Random;
use libtp_tests::process::{next_order, say};

use crate::churn::{self, MixedWork, FILL};
use crate::role::Role;
use libtp_tests::transfers::Bank;

/// The environment's directory. Without this variable, the process is not a child.
pub const DIRECTORY: &str = "LIBTP_TEST_CHILD_DIRECTORY";
/// The child's number.
pub const NUMBER: &str = "LIBTP_TEST_CHILD_NUMBER";
/// The environment variable with the child's [`Role`].
pub const ROLE: &str = "LIBTP_TEST_CHILD_ROLE";
/// The test that a child runs.
pub const ENTRY: &str = "child::entry";

/// The prefix of the report of a panic that the library let through to the child.
pub const PANICKED: &str = "a panic: ";

/// The entry of a child. In an ordinary test run this test does nothing.
#[test]
fn entry() {
    let (Some(directory), Ok(number)) = (std::env::var_os(DIRECTORY), std::env::var(NUMBER)) else { return };
    let number = number.parse().expect("a child gets its number");
    let role = Role::of(&std::env::var(ROLE).unwrap_or_default());
    tell_warnings();
    match serve(&PathBuf::from(directory), number, &role) {
        Ok(()) => say("left"),
        Err(error) => say(&format!("failed: {error}")),
    }
}

/// Prints the library's warnings, for example the reason of a rebuild, or a failed repair.
pub fn tell_warnings() {
    let level = tracing_subscriber::filter::LevelFilter::WARN;
    // Another test of this process may have set the subscriber already.
    let _ = tracing_subscriber::fmt().with_max_level(level).with_writer(std::io::stderr).try_init();
}

fn serve(directory: &Path, number: u64, role: &Role) -> libtp::Result<()> {
    // One lane, so that the processes always outnumber the lanes.
    let own = Settings { no_background: *role == Role::Idler, lanes: Some(1), ..Settings::default() };
    let env = Env::builder().settings(own).log_type(churn::adding()).dense(FILL, true).open(directory)?;
    let bank = Bank::open(&env)?;
    say(&format!("{:?}", env.opened().how));
    let stop = AtomicBool::new(false);
    let hurries = matches!(role, Role::Victim(_));
    let transfers = || {
        let mut random = Random::new(number);
        let mut pace = Random::new(number + 1);
        // Relaxed: only the flag is published.
        for one in 0.. {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            let durability = if pace.chance(1, 4) { Durability::Sync } else { Durability::Relaxed };
            bank.transfer((number, one), &mut random, durability)?;
            say(&format!("ack {number} {one}"));
            if !hurries {
                std::thread::sleep(Duration::from_micros(500));
            }
        }
        libtp::Result::Ok(())
    };
    let churns = || {
        let mut churn = MixedWork::new(&env, directory, number, role)?;
        // Relaxed: only the flag is published.
        while !stop.load(Ordering::Relaxed) {
            match churn.step() {
                // The memory was rebuilt during the step.
                Err(error) if error.is_retryable() => {}
                done => done?,
            }
            if !hurries {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        libtp::Result::Ok(())
    };
    std::thread::scope(|scope| {
        let (one, two) =
            (scope.spawn(|| with_errors_reported(transfers)), scope.spawn(|| with_errors_reported(churns)));
        obey(&stop);
        let ended = one.join().expect("its panics are caught");
        ended.and(two.join().expect("its panics are caught"))
    })?;
    drop(bank);
    drop(env);
    Ok(())
}

/// Does `work`, and reports an error at once, also a panic that the library lets through.
fn with_errors_reported(work: impl FnOnce() -> libtp::Result<()>) -> libtp::Result<()> {
    let ended = catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|payload| {
        let text = payload.downcast_ref::<String>().cloned().unwrap_or_default();
        say(&format!("failed: {PANICKED}{text}"));
        Ok(())
    });
    if let Err(error) = &ended {
        say(&format!("failed: {error}"));
    }
    ended
}

/// Obeys the test's orders until the order to stop.
fn obey(stop: &AtomicBool) {
    while let Some(order) = next_order() {
        let Some(point) = order.strip_prefix("arm ") else { break };
        rio::failpoint::arm(point);
        say("armed");
    }
    // Relaxed: only the flag is published.
    stop.store(true, Ordering::Relaxed);
}

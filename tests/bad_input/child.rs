//! A child process, which fills an environment and dies.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use libtp::{Bytes, Db, Env, Settings};

use crate::error_texts::{key_of, value_of};

const DIRECTORY: &str = "LIBTP_TEST_CHILD_DIRECTORY";
const COUNT: &str = "LIBTP_TEST_CHILD_COUNT";

/// Bytes of every value that a child puts.
pub const VALUE_BYTES: usize = 1500;
/// The number of refused puts after which a child without a given count ends.
const REFUSALS: u64 = 40;

/// The reports of a dead child.
pub struct Dead {
    /// The number of acknowledged puts: the puts of all keys below this number.
    pub acknowledged: u64,
    /// The number of puts that were refused because the disk or the memory was full.
    pub refusals: u64,
    /// The path of the child's shared memory.
    pub region: PathBuf,
}

/// Returns settings with a small log and few frames, so that little work reaches the limits.
pub fn settings() -> Settings {
    Settings {
        memory: Some(Bytes::mib(1)),
        log_segment_max: Some(Bytes::mib(2)),
        checkpoint_log: Some(Bytes::mib(2)),
        // If a refused transaction kept its locks, the next put should fail and not wait for long.
        lock_timeout_millis: Some(10_000),
        ..Settings::default()
    }
}

/// Starts a child. It puts `count` keys, or as many as there is room for, and then dies by `abort()`.
pub fn fill_and_die(directory: &Path, count: Option<u64>) -> Dead {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child::entry", "--nocapture", "--test-threads", "1"])
        .env(DIRECTORY, directory)
        .env(COUNT, count.unwrap_or(u64::MAX).to_string())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let message = |what: &str| text.lines().rev().find_map(|line| line.strip_prefix(what)).map(str::to_owned);
    let number = |what: &str| message(what).and_then(|text| text.parse().ok()).unwrap_or(0);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("> dying"), "the child ended before it should die ({}): {text}{errors}", output.status);
    Dead {
        acknowledged: number("> ack "),
        refusals: number("> refused "),
        region: message("> region ").map(PathBuf::from).unwrap_or_default(),
    }
}

fn say(text: &str) {
    let line = format!("\n> {text}\n");
    std::io::stdout().lock().write_all(line.as_bytes()).expect("the test listens");
}

/// The entry of a child. In an ordinary test run this test does nothing.
#[test]
fn entry() {
    let (Some(directory), Ok(count)) = (std::env::var_os(DIRECTORY), std::env::var(COUNT)) else { return };
    let count: u64 = count.parse().unwrap();
    // If the child puts a given number of keys, no checkpoint shortens the log, so all of the log must be replayed.
    let checkpoint_log = if count == u64::MAX { settings().checkpoint_log } else { Some(Bytes(1 << 40)) };
    let settings = Settings { checkpoint_log, ..settings() };
    let env = Env::builder().settings(settings).open(PathBuf::from(directory)).unwrap();
    let (table, other) = (env.btree("table").unwrap(), env.btree("other").unwrap());
    say(&format!("region {}", env.stats().unwrap().region));
    env.run(|txn| other.put(txn, b"other", b"safe")).unwrap();
    let (mut next, mut refusals) = (0, 0);
    while next < count && refusals < REFUSALS {
        match put(&env, &table, next) {
            Ok(()) => {
                next += 1;
                say(&format!("ack {next}"));
            }
            Err(libtp::Error::Full { .. }) => {
                refusals += 1;
                std::thread::sleep(std::time::Duration::from_millis(2));
            }
            Err(error) => panic!("a put failed with another error than `Full`: {error}"),
        }
    }
    say(&format!("refused {refusals}"));
    say("dying");
    std::process::abort();
}

/// Puts one key in a transaction of its own. If the put is refused, the abort must succeed.
pub fn put(env: &Env, table: &Db, number: u64) -> libtp::Result<()> {
    let txn = env.begin()?;
    match table.put(&txn, &key_of(number), &value_of(number, VALUE_BYTES)) {
        Ok(()) => txn.commit(),
        Err(refusal) => {
            txn.abort().unwrap_or_else(|error| panic!("{refusal}; and the transaction could not be aborted: {error}"));
            Err(refusal)
        }
    }
}

//! A process that a test starts: the test program itself, with orders on its standard input.
//!
//! Each order is a line and gets one line as an answer. Answers begin with `> `, because the test harness of this process
//! writes to the same pipe.

use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use libtp::{Db, Durability, Env, Error, Txn};
use libtp_sim::Random;

use crate::bank::Bank;

/// Where a child finds the environment's directory. Without it, it is no child.
pub const DIRECTORY: &str = "LIBTP_TEST_CHILD_DIRECTORY";
/// The child's number.
pub const NUMBER: &str = "LIBTP_TEST_CHILD_NUMBER";
/// What precedes an answer.
pub const ANSWER: &str = "> ";

/// The entry of a child. In the run of all tests it does nothing.
#[test]
fn entry() {
    let (Some(directory), Ok(number)) = (std::env::var_os(DIRECTORY), std::env::var(NUMBER)) else { return };
    let number = number.parse().expect("a child is told its number");
    if let Err(error) = serve(&PathBuf::from(directory), number) {
        say(&format!("failed: {error}"));
    }
}

/// Past the harness, which would keep what is printed.
fn say(text: &str) {
    let mut out = std::io::stdout().lock();
    let line = format!("\n{ANSWER}{text}\n");
    // A test that does not listen any more has ended.
    if out.write_all(line.as_bytes()).and_then(|()| out.flush()).is_err() {
        std::process::exit(1);
    }
}

/// The next order; none when the test has ended. Standard input is locked for one line only: two threads may listen.
fn next_order() -> Option<Vec<String>> {
    let mut line = String::new();
    let bytes = std::io::stdin().read_line(&mut line).ok()?;
    (bytes > 0).then(|| line.split_whitespace().map(str::to_owned).collect())
}

fn serve(directory: &std::path::Path, number: u64) -> libtp::Result<()> {
    let env = Env::open(directory)?;
    let table = env.btree("table")?;
    let mut running: Option<Txn<'_>> = None;
    say(&format!("{:?}", env.opened().how));
    while let Some(order) = next_order() {
        let words: Vec<&str> = order.iter().map(String::as_str).collect();
        let answer = match obey(&env, &table, number, &mut running, &words) {
            Ok(Some(answer)) => answer,
            Ok(None) => break,
            Err(Error::Deadlock) => {
                running = None;
                "deadlock".into()
            }
            Err(error) => format!("failed: {error}"),
        };
        say(&answer);
    }
    drop(running);
    drop((table, env));
    say("left");
    Ok(())
}

/// Does one order; none ends the child.
fn obey<'e>(
    env: &'e Env,
    table: &Db,
    number: u64,
    running: &mut Option<Txn<'e>>,
    words: &[&str],
) -> libtp::Result<Option<String>> {
    let value =
        |found: Option<Vec<u8>>| found.map_or("none".into(), |value| String::from_utf8_lossy(&value).into_owned());
    Ok(Some(match (words, running.as_ref()) {
        (["begin"], _) => {
            *running = Some(env.begin()?);
            "begun".into()
        }
        (["put", key, text], Some(txn)) => {
            table.put(txn, key.as_bytes(), text.as_bytes())?;
            "put".into()
        }
        (["put", key, text], None) => {
            env.run(|txn| table.put(txn, key.as_bytes(), text.as_bytes()))?;
            "put".into()
        }
        (["put-relaxed", key, text], None) => {
            env.run_with(Durability::Relaxed, |txn| table.put(txn, key.as_bytes(), text.as_bytes()))?;
            "put".into()
        }
        (["get", key], Some(txn)) => value(table.get(txn, key.as_bytes())?),
        (["get", key], None) => value(env.run(|txn| table.get(txn, key.as_bytes()))?),
        (["commit"], Some(_)) => {
            running.take().expect("the pattern says so").commit()?;
            "committed".into()
        }
        (["region"], _) => env.stats()?.region,
        (["transfers", count], _) => {
            let (bank, mut random) = (Bank::open(env)?, Random::new(number));
            for one in 0..count.parse().unwrap_or(0) {
                bank.transfer((number, one), &mut random, Durability::Relaxed)?;
            }
            "transferred".into()
        }
        (["work", durability], _) => {
            let durability = if *durability == "sync" { Durability::Sync } else { Durability::Relaxed };
            work(env, number, durability)?;
            "stopped".into()
        }
        (["leave"], _) => return Ok(None),
        (["abort"], _) => std::process::abort(),
        (words, _) => format!("failed: what does {words:?} mean"),
    }))
}

/// Makes transfers on two threads, and tells of each when its commit has returned, until told to stop or to abort.
fn work(env: &Env, number: u64, durability: Durability) -> libtp::Result<()> {
    let bank = Bank::open(env)?;
    let stop = Arc::new(AtomicBool::new(false));
    let theirs = Arc::clone(&stop);
    say("working");
    let listener = std::thread::spawn(move || match next_order() {
        Some(order) if order == ["abort"] => std::process::abort(),
        // Relaxed: the flag alone is told.
        _ => theirs.store(true, Ordering::Relaxed),
    });
    let client = |thread: u64| -> libtp::Result<()> {
        let who = number * 10 + thread;
        let mut random = Random::new(who);
        for one in 0.. {
            // Relaxed: as above.
            if stop.load(Ordering::Relaxed) {
                break;
            }
            bank.transfer((who, one), &mut random, durability)?;
            say(&format!("ack {who} {one}"));
        }
        Ok(())
    };
    let ended = std::thread::scope(|scope| {
        let other = scope.spawn(|| client(1));
        client(0).and(other.join().expect("a client panicked"))
    });
    listener.join().expect("the listener does not panic");
    ended
}

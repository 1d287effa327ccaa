//! A child process of a test. It runs the test program again, and obeys orders from its standard input.
//!
//! Each order is a line, and the child answers it with a line.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use libtp::{Db, Durability, Env, Error, Granularity, Keep, Txn};
use libtp_buffer::{PageId, PageNo};
use libtp_process::Rank;
use libtp_sim::Random;
use libtp_tests::forking::ForkKind;
use libtp_tests::orphan::leave_a_child;
use libtp_tests::process::{next_order, say};

use crate::crew::{DIRECTORY, GRANULARITY, NUMBER};
use libtp_tests::transfers::Bank;

/// The side to keep where memory and files disagree: `region`.
pub const KEEP: &str = "LIBTP_TEST_CHILD_KEEP";
/// The largest number of processes that wait for each other in a circle in these tests.
pub const CIRCLE_MAX: usize = 8;

/// The entry of a child. In an ordinary test run this test does nothing.
#[test]
fn entry() {
    let (Some(directory), Ok(number)) = (std::env::var_os(DIRECTORY), std::env::var(NUMBER)) else { return };
    let number = number.parse().expect("a child gets its number");
    if let Err(error) = serve(&PathBuf::from(directory), number) {
        say(&format!("failed: {error}"));
    }
}

/// Returns a builder with the settings that the test has chosen.
fn builder() -> libtp::Builder {
    let pages = std::env::var(GRANULARITY).is_ok_and(|chosen| chosen == "page");
    let granularity = if pages { Granularity::Page } else { Granularity::Record };
    // One database for each process of a circle: with locks on pages, records of one database conflict.
    let names = std::iter::once("table".to_owned()).chain((0..CIRCLE_MAX).map(|number| format!("table{number}")));
    let builder = match std::env::var(KEEP).as_deref() {
        Ok("region") => Env::builder().keep(Keep::Region),
        _ => Env::builder(),
    };
    names.fold(builder, |builder, name| builder.granularity(&name, granularity))
}

fn serve(directory: &std::path::Path, number: u64) -> libtp::Result<()> {
    let env = builder().open(directory)?;
    let table = env.btree("table")?;
    let mut running: Option<Txn<'_>> = None;
    say(&format!("{:?}", env.opened().how));
    while let Some(order) = next_order() {
        let words: Vec<&str> = order.split_whitespace().collect();
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

/// Tries the calls that copy the value of a key. Returns the calls and their errors.
fn copies(env: &Env, table: &Db, key: &[u8]) -> libtp::Result<String> {
    let snapshot = env.snapshot()?;
    let tries: Vec<(&str, libtp::Result<()>)> = vec![
        ("get", env.run(|txn| table.get(txn, key).map(drop))),
        ("get_with", env.run(|txn| table.get_with(txn, key, |_| ()).map(drop))),
        ("get_for_update", env.run(|txn| table.get_for_update(txn, key).map(drop))),
        ("get_many", env.run(|txn| table.get_many(txn, &[key]).map(drop))),
        ("cursor", env.run(|txn| table.cursor(txn).last().map(drop))),
        ("snapshot", table.get(&snapshot, key).map(drop)),
    ];
    let tries = tries.into_iter().map(|(call, tried)| match tried {
        Ok(()) => format!("{call}: done"),
        Err(error) => format!("{call}: {error}"),
    });
    Ok(tries.collect::<Vec<_>>().join(" | "))
}

/// Puts a record. Cancels the waits of this process meanwhile.
fn put_and_cancel(env: &Env, table: &Db, key: &str, text: &str) -> libtp::Result<&'static str> {
    env.run(|txn| {
        std::thread::spawn(|| {
            std::thread::sleep(std::time::Duration::from_millis(300));
            libtp::cancel_waits();
        });
        table.put(txn, key.as_bytes(), text.as_bytes())
    })?;
    Ok("put")
}

/// Obeys one order; `None` ends the child.
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
        (["put-in", name, key, text], Some(txn)) => {
            env.btree(name)?.put(txn, key.as_bytes(), text.as_bytes())?;
            "put".into()
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
        (["put-and-cancel", key, text], None) => put_and_cancel(env, table, key, text)?.into(),
        (["get", key], Some(txn)) => value(table.get(txn, key.as_bytes())?),
        (["get", key], None) => value(env.run(|txn| table.get(txn, key.as_bytes()))?),
        (["commit"], Some(_)) => {
            running.take().expect("the pattern says so").commit()?;
            "committed".into()
        }
        (["forget-in-a-thread", key, text], None) => {
            forget_in_a_thread(env, table, key, text)?;
            "forgotten".into()
        }
        (["pass-on"], Some(_)) => running.take().expect("the pattern says so").detach()?.to_string(),
        (["take-over", word], None) => take_over(env, running, word)?.into(),
        (["region"], _) => env.stats()?.region,
        (["copies", key], None) => copies(env, table, key.as_bytes())?,
        (["count-waits"], _) => env.waits_for()?.len().to_string(),
        (["index-by-town-slowly"], None) => {
            let once = std::sync::Once::new();
            table.index("by town", move |key, value, keys| {
                once.call_once(|| std::thread::sleep(std::time::Duration::from_secs(1)));
                crate::indices::town(key, value, keys);
            })?;
            "made".into()
        }
        #[cfg(feature = "failpoints")]
        (["arm", point @ ..], _) => {
            rio::failpoint::arm(&point.join(" "));
            "armed".into()
        }
        (["checkpoint"], _) => {
            env.checkpoint()?;
            "taken".into()
        }
        (["rebuilds"], _) => env.repairs().rebuilds.to_string(),
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
        (["become-another-program"], _) => {
            use std::os::unix::process::CommandExt;
            say("becomes");
            let error = std::process::Command::new("sleep").arg("60").exec();
            format!("failed: {error}")
        }
        (["fork", how], _) => {
            leave_a_child(if *how == "raw" { ForkKind::RawClone } else { ForkKind::Fork }).to_string()
        }
        (["read-own-files", count], _) => {
            for _ in 0..count.parse().unwrap_or(0) {
                read_own_files(env.path());
            }
            "read".into()
        }
        (["hold-pages", name], _) => {
            hold_pages(env, name)?;
            "let go".into()
        }
        (["hold-snapshot"], _) => {
            hold_snapshot(env, table)?;
            "let go".into()
        }
        (["leave"], _) => return Ok(None),
        (["abort"], _) => std::process::abort(),
        (["break-and-abort"], _) => {
            // Simulates the kill of a session that has just found the region broken. No session has begun to rebuild
            // it.
            env.managers().region.mark_broken();
            std::process::abort()
        }
        (words, _) => format!("failed: unknown order {words:?}"),
    }))
}

/// Takes over a transaction that was passed on.
fn take_over<'e>(env: &'e Env, running: &mut Option<Txn<'e>>, word: &str) -> libtp::Result<&'static str> {
    match word.parse().and_then(|detached| env.attach(&detached)) {
        Ok(txn) => {
            *running = Some(txn);
            Ok("taken over")
        }
        Err(Error::NotPassed { .. }) => Ok("not passed on"),
        Err(error) => Err(error),
    }
}

/// Changes a record in a thread that ends without ending its transaction or closing its handle.
fn forget_in_a_thread(env: &Env, table: &Db, key: &str, text: &str) -> libtp::Result<()> {
    let forget = || {
        let txn = env.begin()?;
        table.put(&txn, key.as_bytes(), text.as_bytes())?;
        std::mem::forget((txn, env.clone()));
        Ok(())
    };
    std::thread::scope(|scope| scope.spawn(forget).join()).expect("it does not panic")
}

/// Holds the latches of a database's first pages until the next order. To other processes, this process seems to be
/// stopped in the middle of a change.
fn hold_pages(env: &Env, name: &str) -> libtp::Result<()> {
    let managers = env.managers();
    let session = managers.processes.join()?;
    let file = managers.buffers.file_by_name(name).expect("the database is open").id;
    let page = |number: u32| {
        let id = PageId::new(file, PageNo::new(number));
        managers.buffers.exclusive(&session, id, Rank::page(0))
    };
    let (one, two) = (page(1)?, page(2)?);
    say("holding");
    next_order();
    drop((one, two));
    Ok(())
}

/// Holds a snapshot until the order to end it, and answers reads from the snapshot.
fn hold_snapshot(env: &Env, table: &Db) -> libtp::Result<()> {
    let snapshot = env.snapshot()?;
    say("holding");
    while let Some(order) = next_order().filter(|order| order != "end") {
        match table.get(&snapshot, order.as_bytes()) {
            Ok(found) => say(&found.map_or("none".into(), |value| String::from_utf8_lossy(&value).into_owned())),
            Err(Error::SnapshotTooOld { .. }) => say("too old"),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Opens every file of the environment, reads a little, and closes the file, as backup programs do. (Such a close
/// would release this process's POSIX locks on the file.)
fn read_own_files(directory: &std::path::Path) {
    let names = std::fs::read_dir(directory).expect("the environment's directory is there");
    for name in names.map_while(Result::ok) {
        let file = std::fs::OpenOptions::new().read(true).write(true).open(name.path());
        let read = file.and_then(|mut file| std::io::Read::read(&mut file, &mut [0; 64]));
        // An error is ignored: a log file may have been recycled since it was listed.
        drop(read);
    }
}

/// Makes transfers on two threads until the order to stop or to abort. Reports each transfer when its commit has
/// returned.
fn work(env: &Env, number: u64, durability: Durability) -> libtp::Result<()> {
    let bank = Bank::open(env)?;
    let stop = Arc::new(AtomicBool::new(false));
    let theirs = Arc::clone(&stop);
    say("working");
    let own = env.clone();
    let listener = std::thread::spawn(move || match next_order() {
        Some(order) if order == "abort" => std::process::abort(),
        Some(order) if order.starts_with("wild ") => crate::wild::store(&own, &order),
        // Relaxed: the flag publishes no other data.
        _ => theirs.store(true, Ordering::Relaxed),
    });
    let client = |thread: u64| -> libtp::Result<()> {
        let worker = number * 10 + thread;
        let mut random = Random::new(worker);
        for one in 0.. {
            // Relaxed: the flag publishes no other data.
            if stop.load(Ordering::Relaxed) {
                break;
            }
            bank.transfer((worker, one), &mut random, durability)?;
            say(&format!("ack {worker} {one}"));
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

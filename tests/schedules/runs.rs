//! The tasks' work, and the state that must be there at the end.

use std::collections::BTreeSet;
use std::sync::Arc;

use libtp::{Db, Env, Error, Result, Txn};
use libtp_sim::Random;
use shuttle::sync::atomic::{AtomicBool, Ordering};
use shuttle::thread::{spawn, JoinHandle};

use crate::world::{explore, World};

/// The number of working tasks.
const TASKS: usize = 3;
/// The length of a value. Four values fill a page.
const VALUE: usize = 800;
/// The number of accounts.
const ACCOUNTS: u64 = 3;
/// The balance of each account at the beginning.
const BALANCE: u64 = 100;

fn key(task: u64, number: u64) -> Vec<u8> {
    // The keys of different tasks are neighbours.
    format!("{number:02}/{task}").into_bytes()
}

fn account(number: u64) -> Vec<u8> {
    format!("account/{number}").into_bytes()
}

fn balance(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes[..8].try_into().unwrap())
}

/// Returns the tree's keys that are not account keys.
fn rows(env: &Env, tree: &Db) -> BTreeSet<Vec<u8>> {
    let read = |txn: &Txn<'_>| {
        let (mut cursor, mut rows) = (tree.cursor(txn), BTreeSet::new());
        while let Some((key, _)) = cursor.next()? {
            assert!(rows.insert(key), "a scan returned a key twice");
        }
        Ok(rows)
    };
    let mut rows = env.run(read).unwrap();
    rows.retain(|key| !key.starts_with(b"account"));
    rows
}

/// Puts and deletes the task's own keys, some in transactions that abort. Returns the keys that must be there at the
/// end.
fn grow_and_shrink(env: &Env, tree: &Db, task: u64, mut random: Random) -> BTreeSet<Vec<u8>> {
    let mut there = BTreeSet::new();
    for _ in 0..3 {
        let changes: Vec<(u64, bool)> = (0..3).map(|_| (random.below(8), random.chance(1, 4))).collect();
        let is_kept = !random.chance(1, 4);
        let done = env.run(|txn| {
            let mut after: BTreeSet<Vec<u8>> = there.clone();
            for &(number, is_deletion) in &changes {
                let key = key(task, number);
                match is_deletion {
                    true => assert_eq!(tree.delete(txn, &key)?, after.remove(&key), "{key:?}"),
                    false => {
                        tree.put(txn, &key, &[b'v'; VALUE])?;
                        after.insert(key);
                    }
                }
            }
            if is_kept {
                Ok(after)
            } else {
                Err(Error::Exists)
            }
        });
        match done {
            Ok(after) => there = after,
            Err(Error::Exists) => {}
            Err(error) => panic!("{error}"),
        }
    }
    there
}

fn tree_under_changes(mut random: Random) {
    let mut world = World::new(random.next_u64());
    let (one, other) = (world.open(), world.open());
    let handles = [one.clone(), one, other];
    let work = |at: usize| -> JoinHandle<BTreeSet<Vec<u8>>> {
        let ((env, tree), random) = (handles[at].clone(), Random::new(random.clone().next_u64() ^ at as u64));
        spawn(move || grow_and_shrink(&env, &tree, at as u64, random))
    };
    let tasks: Vec<_> = (0..handles.len()).map(work).collect();
    let wanted: BTreeSet<Vec<u8>> = tasks.into_iter().flat_map(|task| task.join().unwrap()).collect();
    let (env, tree) = &handles[0];
    assert_eq!(rows(env, tree), wanted);
    let verified = env.verify("tree").unwrap();
    assert!(verified.findings.is_empty(), "{:?}", verified.findings);
}

#[test]
fn a_tree_keeps_every_key_while_its_pages_are_split() {
    explore("tree", tree_under_changes);
}

/// Moves money between accounts in a random order, so that some transactions deadlock; or audits the accounts.
fn transfer(env: &Env, tree: &Db, random: &mut Random) -> Result<()> {
    let (from, to) = (random.below(ACCOUNTS), random.below(ACCOUNTS));
    let is_audit = random.chance(1, 3);
    env.run(|txn| {
        if is_audit {
            return audit(tree, txn);
        }
        for (number, change) in [(from, u64::MAX), (to, 1)] {
            let found = tree.get_for_update(txn, &account(number))?.unwrap();
            tree.put(txn, &account(number), &balance(&found).wrapping_add(change).to_le_bytes())?;
        }
        Ok(())
    })
}

fn audit(tree: &Db, txn: &Txn<'_>) -> Result<()> {
    let mut sum = 0u64;
    for number in 0..ACCOUNTS {
        sum = sum.wrapping_add(balance(&tree.get(txn, &account(number))?.unwrap()));
    }
    assert_eq!(sum, ACCOUNTS * BALANCE, "the sum of the accounts has changed");
    Ok(())
}

fn fill(env: &Env, tree: &Db) {
    env.run(|txn| (0..ACCOUNTS).try_for_each(|one| tree.put(txn, &account(one), &BALANCE.to_le_bytes()))).unwrap();
}

fn judge(env: &Env, tree: &Db) {
    env.run(|txn| audit(tree, txn)).unwrap();
    let verified = env.verify("tree").unwrap();
    assert!(verified.findings.is_empty(), "{:?}", verified.findings);
    let locks = env.locks().unwrap();
    assert!(locks.is_empty(), "locks are left: {locks:?}");
}

/// Makes a world with accounts and two processes. The caller must keep the world as long as it uses the processes.
fn bank(random: &mut Random) -> (World, [(Env, Db); 2]) {
    let mut world = World::new(random.next_u64());
    let handles = [world.open(), world.open()];
    fill(&handles[0].0, &handles[0].1);
    (world, handles)
}

fn locks_and_circles(mut random: Random) {
    let (_world, handles) = bank(&mut random);
    let mut task = |task: usize| {
        let ((env, tree), mut random) = (handles[task % 2].clone(), Random::new(random.next_u64()));
        spawn(move || (0..3).for_each(|_| transfer(&env, &tree, &mut random).unwrap()))
    };
    let tasks: Vec<_> = (0..TASKS).map(&mut task).collect();
    tasks.into_iter().for_each(|task| task.join().unwrap());
    judge(&handles[0].0, &handles[0].1);
}

#[test]
fn locks_isolate_transactions_and_every_deadlock_is_resolved() {
    explore("locks", locks_and_circles);
}

/// Dies in the middle of a transaction that has locked accounts and filled pages with its own records.
fn die(env: &Env, tree: &Db, random: &mut Random) {
    let txn = env.begin().unwrap();
    for number in 0..1 + random.below(5) {
        let done = match random.coin() {
            true => tree.put(&txn, &key(9, number), &[b'd'; VALUE]),
            false => tree.put(&txn, &account(random.below(ACCOUNTS)), &7_u64.to_le_bytes()),
        };
        match done {
            Ok(()) => {}
            // The victim of a deadlock dies before it aborts.
            Err(Error::Deadlock) => break,
            Err(error) => panic!("{error}"),
        }
    }
    txn.die();
}

/// Adds one to the first account, for which all tasks compete.
fn increase(env: &Env, tree: &Db, is_upgrade: bool) {
    env.run(|txn| {
        // An upgrader reads under a shared lock, and then requests the exclusive lock. Other sessions may have
        // overtaken its first request.
        let found = if is_upgrade { tree.get(txn, &account(0))? } else { tree.get_for_update(txn, &account(0))? };
        tree.put(txn, &account(0), &(balance(&found.unwrap()) + 1).to_le_bytes())
    })
    .unwrap();
}

/// Tests one record whose lock all tasks want. A released lock is granted to a sleeping waiter, running tasks overtake
/// the waiter, readers upgrade their locks, and some of the overtaking tasks die while they hold the lock.
fn one_hot_record(mut random: Random) {
    let (_world, handles) = bank(&mut random);
    let worker = |at: usize| {
        let ((env, tree), mut random) = (handles[at % 2].clone(), Random::new(random.next_u64()));
        let is_upgrader = at >= 2;
        spawn(move || (0..3).for_each(|_| increase(&env, &tree, is_upgrader && random.coin())))
    };
    let workers: Vec<_> = (0..4).map(worker).collect();
    let mortal = |at: usize| {
        let ((env, tree), mut random) = (handles[at].clone(), Random::new(random.next_u64()));
        spawn(move || {
            for _ in 0..2 {
                let txn = env.begin().unwrap();
                let taken = tree.get_for_update(&txn, &account(0));
                if taken.is_ok() && random.coin() {
                    // The put fails only for the victim of a deadlock.
                    let _ = tree.put(&txn, &account(0), &0_u64.to_le_bytes());
                }
                txn.die();
            }
        })
    };
    let mortals: Vec<_> = (0..2).map(mortal).collect();
    let is_over = Arc::new(AtomicBool::new(false));
    let keeper = {
        let (env, is_over) = (handles[0].0.clone(), Arc::clone(&is_over));
        spawn(move || {
            while !is_over.load(Ordering::SeqCst) {
                env.managers().reap().unwrap();
                shuttle::thread::yield_now();
            }
        })
    };
    workers.into_iter().chain(mortals).for_each(|task| task.join().unwrap());
    is_over.store(true, Ordering::SeqCst);
    keeper.join().unwrap();
    let (env, tree) = &handles[0];
    env.managers().reap().unwrap();
    let found = env.run(|txn| tree.get(txn, &account(0))).unwrap().unwrap();
    assert_eq!(balance(&found), BALANCE + 4 * 3, "an increase was lost, or a change of a dead session was kept");
    let locks = env.locks().unwrap();
    assert!(locks.is_empty(), "locks are left: {locks:?}");
    assert!(env.managers().processes.dead_sessions().is_empty(), "a dead session was not repaired");
}

#[test]
fn an_overtaken_waiter_is_granted_the_lock_also_if_the_overtaking_sessions_die() {
    explore("overtaking", one_hot_record);
}

/// Lets two tasks die while two others work and two more repair dead sessions.
fn death_among_others(mut random: Random) {
    let (_world, handles) = bank(&mut random);
    let dying = |at: usize| {
        let ((env, tree), mut random) = (handles[at].clone(), Random::new(random.next_u64()));
        spawn(move || {
            transfer(&env, &tree, &mut random).unwrap();
            die(&env, &tree, &mut random);
        })
    };
    let dying: Vec<_> = (0..2).map(dying).collect();
    let survivor = |task: usize| {
        let ((env, tree), mut random) = (handles[task].clone(), Random::new(random.next_u64()));
        spawn(move || {
            (0..2).for_each(|_| transfer(&env, &tree, &mut random).unwrap());
            grow_and_shrink(&env, &tree, task as u64, random)
        })
    };
    let survivors: Vec<_> = (0..2).map(survivor).collect();
    let is_over = Arc::new(AtomicBool::new(false));
    let keeper = |at: usize| {
        let (env, is_over) = (handles[at].0.clone(), Arc::clone(&is_over));
        spawn(move || {
            while !is_over.load(Ordering::SeqCst) {
                env.managers().reap().unwrap();
                shuttle::thread::yield_now();
            }
        })
    };
    let keepers: Vec<_> = (0..2).map(keeper).collect();
    dying.into_iter().for_each(|task| task.join().unwrap());
    let wanted: BTreeSet<Vec<u8>> = survivors.into_iter().flat_map(|one| one.join().unwrap()).collect();
    is_over.store(true, Ordering::SeqCst);
    keepers.into_iter().for_each(|task| task.join().unwrap());
    let (env, tree) = &handles[0];
    env.managers().reap().unwrap();
    assert_eq!(rows(env, tree), wanted);
    judge(env, tree);
    assert!(env.managers().processes.dead_sessions().is_empty(), "a dead session was not repaired");
}

#[test]
fn dead_sessions_are_repaired_once_while_others_work() {
    explore("death", death_among_others);
}

/// Runs a control: with a planted bug, a schedule must show the failure. The control runs in its own process, because
/// the bug must not be in other tests. The test does not wait for the end of this process: a panicking task may wait
/// for ever for a latch of another task, which does not run meanwhile.
#[cfg(feature = "planted")]
#[test]
fn a_planted_bug_that_grants_readers_a_lock_of_a_writer_is_noticed() {
    use std::io::BufRead;
    let mut control = std::process::Command::new(std::env::current_exe().unwrap());
    control.args(["--exact", "runs::locks_isolate_transactions_and_every_deadlock_is_resolved", "--nocapture"]);
    control.env("LIBTP_PLANTED", "lock: readers are granted beside a writer").env("LIBTP_TEST_SCHEDULES", "500");
    let mut ran = control.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::piped()).spawn().unwrap();
    let message = std::io::BufReader::new(ran.stderr.take().unwrap()).lines();
    let (telling, told) = std::sync::mpsc::channel();
    std::thread::spawn(move || message.map_while(|line| line.ok()).for_each(|line| drop(telling.send(line))));
    let mut lines = Vec::new();
    let is_noticed = loop {
        let Ok(line) = told.recv_timeout(std::time::Duration::from_secs(300)) else { break false };
        if line.contains("the sum of the accounts has changed") {
            break true;
        }
        lines.push(line);
    };
    let _ = ran.kill();
    ran.wait().unwrap();
    assert!(is_noticed, "{lines:?}");
}

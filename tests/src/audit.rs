//! Checks of an environment whose processes have left or died, and a report of the sessions and locks in it.

use std::collections::BTreeSet;

use libtp::Env;

use crate::transfers::{Bank, TransferId};

/// Checks the structure of every database.
///
/// # Errors
/// Describes the damage of the first damaged database.
pub fn verify_all(env: &Env) -> Result<(), String> {
    for name in env.databases().map_err(|error| error.to_string())? {
        let verified = env.verify(&name).map_err(|error| format!("{name} cannot be verified: {error}"))?;
        if !verified.findings.is_empty() {
            return Err(format!("{name}: {:?}", verified.findings));
        }
    }
    Ok(())
}

/// Checks that the bank's balances agree with its journal, that the journal has every acknowledged transfer, and that
/// no database is damaged. Returns the transfers in the journal.
///
/// # Panics
/// If a check fails; the message begins with `what`.
#[track_caller]
pub fn nothing_lost(env: &Env, acknowledged: &BTreeSet<TransferId>, what: &str) -> BTreeSet<TransferId> {
    let bank = Bank::open(env).unwrap_or_else(|error| panic!("{what}: {error}"));
    let journal = bank.audit().unwrap_or_else(|why| panic!("{what}: {why}"));
    let lost: Vec<_> = acknowledged.difference(&journal).collect();
    assert!(lost.is_empty(), "{what}: {} acknowledged transfers are lost, the first {:?}", lost.len(), lost[0]);
    verify_all(env).unwrap_or_else(|wrong| panic!("{what}: {wrong}"));
    journal
}

/// Checks that nothing is left of dead sessions: no latch, no pin, no lock, no frame in hand, no page that cannot be
/// written. The caller is the only attached process.
///
/// # Panics
/// If something is left; the message begins with `what`.
#[track_caller]
pub fn at_rest(env: &Env, what: &str) {
    let managers = env.managers();
    let dead = managers.processes.dead_sessions();
    assert!(dead.is_empty(), "{what}: dead sessions are not repaired: {dead:?}");
    let running = env.transactions();
    assert!(running.is_empty(), "{what}: transactions without owner: {running:?}");
    let census = managers.locks.check().unwrap_or_else(|broken| panic!("{what}: the lock table: {broken}"));
    assert_eq!((census.granted, census.waiting), (0, 0), "{what}: locks without owner: {census:?}");
    let sessions = managers.processes.sessions().len() as u64;
    assert!(census.lockers <= sessions, "{what}: more lockers than the {sessions} sessions: {census:?}");
    // The checkpoint comes first: only a session that takes a checkpoint notices that an earlier session died in a
    // checkpoint.
    let is_taken = env.checkpoint().unwrap_or_else(|error| panic!("{what}: {error}"));
    assert!(is_taken, "{what}: another session takes a checkpoint");
    assert_eq!(managers.buffers.dirty_count(), 0, "{what}: dirty pages are left after a checkpoint");
    managers.buffers.check_at_rest();
}

/// Describes the holders of locks and the sessions.
pub fn report(env: &Env) -> String {
    let processes = env.managers().processes.clone();
    let sessions: Vec<String> = processes.sessions().iter().map(|one| format!("\n  {one:?}")).collect();
    let txns: Vec<String> = env.transactions().iter().map(|one| format!("\n  {one:?}")).collect();
    let locks: Vec<String> = env.locks().unwrap_or_default().iter().map(|one| format!("\n  {one:?}")).collect();
    let dead = processes.dead_sessions();
    let [sessions, txns, locks] = [sessions, txns, locks].map(|lines| lines.concat());
    format!("dead: {dead:?}\nsessions:{sessions}\ntransactions:{txns}\nlocks:{locks}")
}

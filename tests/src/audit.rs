//! Checks of an environment whose processes have left or died.

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
/// every database is whole. Returns the transfers in the journal.
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

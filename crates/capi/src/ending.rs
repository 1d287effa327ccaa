//! Asynchronous commits, and transactions that `tp_run` begins and ends for C.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::time::Duration;

use libtp::{CommitLsn, Durability};

use crate::answer::{c_call, is_retryable, Outcome, Trouble, TP_LOCK_TIMEOUT, TP_OK};
use crate::arguments::{given, Out};
use crate::environment::Environment;
use crate::handles::{kind, Handle, Pinned};
use crate::transaction::{begin, durability, goes_on, transaction, Transaction};

/// The greatest number of retries by one call of `tp_run`.
const TRIES: u32 = 1000;

/// The type that C calls `tp_pending`: a commit that is not yet known to be on disk.
pub struct Pending {
    commit: CommitLsn,
    env: Pinned<Environment>,
}

kind!(Pending = 6);

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_commit_async(txn: Handle<Transaction>, pending: Out<Handle<Pending>>) -> c_int {
    c_call("tp_commit_async", || {
        let place = pending.needed("the commit", Handle::NULL)?;
        let held = transaction(txn)?;
        held.refuse_unlogged()?;
        if let Some((commit, env)) = held.remove().commit_async()? {
            place.set(Handle::of(Pending { commit, env })?);
        }
        Ok(())
    })
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_wait_durable(pending: Handle<Pending>) -> c_int {
    c_call("tp_wait_durable", || {
        if pending.is_null() {
            return Ok(());
        }
        let Pending { commit, env } = pending.hold()?.remove();
        Ok(env.env.wait_durable(commit)?)
    })
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_pending_free(pending: Handle<Pending>) -> c_int {
    c_call("tp_pending_free", || {
        if !pending.is_null() {
            pending.hold()?.remove();
        }
        Ok(())
    })
}

/// `tp_work`.
pub type Work = extern "C" fn(txn: Handle<Transaction>, argument: *mut c_void) -> c_int;

/// A flag that C adds to the durability of `tp_run`, as in `libtp.h`: retry also after a lock timeout.
const TP_AGAIN: c_int = 16;

/// See `libtp.h`. A signal handler may call this function, so it does not go through `c_call`.
#[no_mangle]
pub extern "C" fn tp_cancel_waits(_signal: c_int) {
    libtp::cancel_waits();
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_run(env: Handle<Environment>, how: c_int, work: Option<Work>, argument: *mut c_void) -> c_int {
    c_call("tp_run", || {
        let work = given(work)?;
        let is_again_after_timeout = how & TP_AGAIN != 0;
        let how = durability(how & !TP_AGAIN)?;
        let is_again = |code| is_retryable(code) || (is_again_after_timeout && code == TP_LOCK_TIMEOUT);
        let cancels = libtp::cancels();
        let mut tries = 0;
        loop {
            match run_once((env, how, cancels), is_again, work, argument) {
                Err(trouble) if is_again(trouble.code()) && tries < TRIES => {
                    tries += 1;
                    // A pause lets the conflicting transaction proceed. It is longer after each of the first 64 tries,
                    // as in `Env::run`.
                    std::thread::sleep(Duration::from_micros(u64::from(tries.min(64)) * 10));
                }
                done => return done,
            }
        }
    })
}

fn run_once(
    (env, how, cancels): (Handle<Environment>, Option<Durability>, u32),
    is_again: impl Fn(c_int) -> bool,
    work: Work,
    argument: *mut c_void,
) -> Outcome<()> {
    let txn = begin(env, how)?;
    transaction(txn)?.writer()?.heed_cancels_since(cancels);
    let code = work(txn, argument);
    if !goes_on(txn) {
        return Err(Trouble::misuse("the function has ended the transaction, and only tp_run may end it"));
    }
    let done = transaction(txn)?.remove();
    let refused = if code == TP_OK { done.refuse_unlogged() } else { Ok(()) };
    if code == TP_OK && refused.is_ok() {
        return done.commit();
    }
    let cause = refused.err().unwrap_or_else(|| Trouble::of_the_program(code, "the transaction was aborted"));
    Err(failure(done.abort(), cause, is_again(code)))
}

/// Returns the failure of a try: the cause, or the failure of the abort if the cause asks for a further try. A further
/// try helps only after the transaction was undone.
fn failure(aborted: Outcome<()>, cause: Trouble, asks_for_retry: bool) -> Trouble {
    match aborted {
        Err(trouble) if asks_for_retry => trouble,
        _ => cause,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::TP_FULL;

    #[test]
    fn a_failed_abort_ends_the_tries() {
        let timeout = || Trouble::of_the_program(TP_LOCK_TIMEOUT, "the transaction was aborted");
        let full = || Trouble::of_the_program(TP_FULL, "the log has no space");
        assert_eq!(failure(Ok(()), timeout(), true).code(), TP_LOCK_TIMEOUT, "the work is tried again");
        assert_eq!(failure(Err(full()), timeout(), true).code(), TP_FULL, "the transaction was not undone");
        assert_eq!(failure(Err(full()), timeout(), false).code(), TP_LOCK_TIMEOUT, "the cause is reported");
    }
}

//! Transactions that a thread passes on to another thread or process. A text, the word, names the transaction.
#![allow(unsafe_code)]

use std::ffi::c_int;

use libtp::Detached;

use crate::answer::c_call;
use crate::arguments::{Fill, Out, Text};
use crate::environment::{environment, Environment};
use crate::handles::Handle;
use crate::transaction::{attach, transaction, Transaction};

/// An upper limit for the length of a word, in bytes.
const WORD_BYTES: usize = 511;

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_detach(txn: Handle<Transaction>, mut word: Fill) -> c_int {
    c_call("tp_detach", || {
        word.needed()?;
        // The room is made before the transaction is detached: if there were no memory for the word afterwards, no
        // session could attach the transaction.
        word.reserve(WORD_BYTES)?;
        let held = transaction(txn)?;
        held.writer()?;
        held.refuse_unlogged()?;
        let detached = held.remove().detach()?;
        word.with(detached.to_string().as_bytes())
    })
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_attach(env: Handle<Environment>, word: Text, txn: Out<Handle<Transaction>>) -> c_int {
    c_call("tp_attach", || {
        txn.answer("the transaction", Handle::NULL, || {
            let detached: Detached = word.needed("the word")?.parse()?;
            attach(env, &detached)
        })
    })
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_abort_detached(env: Handle<Environment>, id: u64) -> c_int {
    c_call("tp_abort_detached", || Ok(environment(env)?.env.abort_detached(id)?))
}

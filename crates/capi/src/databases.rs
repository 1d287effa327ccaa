//! Calls on whole databases: drop, rename, empty (each in a transaction), kind and size.
#![allow(unsafe_code)]

use std::ffi::{c_char, c_int, CStr};

use crate::answer::c_call;
use crate::arguments::{Out, Text};
use crate::environment::{environment, Environment};
use crate::handles::Handle;
use crate::transaction::{transaction, Transaction};

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_drop(txn: Handle<Transaction>, name: Text) -> c_int {
    c_call("tp_drop", || Ok(transaction(txn)?.writer()?.drop_database(name.needed("the name")?)?))
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_rename(txn: Handle<Transaction>, name: Text, new_name: Text) -> c_int {
    c_call("tp_rename", || {
        let held = transaction(txn)?;
        Ok(held.writer()?.rename_database(name.needed("the name")?, new_name.needed("the new name")?)?)
    })
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_empty(txn: Handle<Transaction>, name: Text, count: Out<u64>) -> c_int {
    c_call("tp_empty", || {
        count.set(0);
        count.set(transaction(txn)?.writer()?.empty_database(name.needed("the name")?)?);
        Ok(())
    })
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_env_database(
    env: Handle<Environment>,
    name: Text,
    kind: Out<*const c_char>,
    bytes: Out<u64>,
) -> c_int {
    c_call("tp_env_database", || {
        kind.set(c"".as_ptr());
        bytes.set(0);
        let found = environment(env)?.env.list_database(name.needed("the name")?)?;
        kind.set(kind_name(found.kind).as_ptr());
        bytes.set(found.bytes);
        Ok(())
    })
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_env_count_records(env: Handle<Environment>, name: Text, count: Out<u64>) -> c_int {
    c_call("tp_env_count_records", || {
        count.answer("the count", 0, || Ok(environment(env)?.env.count_records(name.needed("the name")?)?.unwrap_or(0)))
    })
}

fn kind_name(kind: Option<&str>) -> &'static CStr {
    match kind {
        Some("btree") => c"btree",
        Some("multi") => c"multi",
        Some("list") => c"list",
        Some("index") => c"index",
        Some("hash") => c"hash",
        Some("recno") => c"recno",
        Some("pages") => c"pages",
        _ => c"missing",
    }
}

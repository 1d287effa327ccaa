//! Plain files that a transaction changes together with its records.
#![allow(unsafe_code)]

use std::ffi::c_int;
use std::os::unix::ffi::OsStrExt;

use crate::answer::{c_call, Trouble};
use crate::arguments::{Fill, In, Out, Text};
use crate::environment::{environment, Environment};
use crate::handles::Handle;
use crate::transaction::{transaction, Transaction};

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_file_create(txn: Handle<Transaction>, path: Text, contents: In, size: usize) -> c_int {
    c_call("tp_file_create", || {
        let held = transaction(txn)?;
        Ok(held.writer()?.create_file(path.path("the path")?, contents.bytes("the contents", size)?)?)
    })
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_file_replace(txn: Handle<Transaction>, path: Text, contents: In, size: usize) -> c_int {
    c_call("tp_file_replace", || {
        let held = transaction(txn)?;
        Ok(held.writer()?.replace_file(path.path("the path")?, contents.bytes("the contents", size)?)?)
    })
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_file_rename(txn: Handle<Transaction>, from: Text, to: Text) -> c_int {
    c_call("tp_file_rename", || {
        let held = transaction(txn)?;
        Ok(held.writer()?.rename_file(from.path("the old path")?, to.path("the new path")?)?)
    })
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_file_remove(txn: Handle<Transaction>, path: Text) -> c_int {
    c_call("tp_file_remove", || Ok(transaction(txn)?.writer()?.remove_file(path.path("the path")?)?))
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_file_read(txn: Handle<Transaction>, path: Text, mut contents: Fill) -> c_int {
    c_call("tp_file_read", || match transaction(txn)?.writer()?.read_file(path.path("the path")?)? {
        Some(bytes) => contents.with(&bytes),
        None => Err(Trouble::not_found()),
    })
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_env_waiting_files(env: Handle<Environment>, mut paths: Fill) -> c_int {
    c_call("tp_env_waiting_files", || {
        paths.needed()?;
        let mut all = Vec::new();
        for file in environment(env)?.env.waiting_files()? {
            all.extend_from_slice(file.path.as_os_str().as_bytes());
            all.push(0);
        }
        paths.with(&all)
    })
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_env_forget_file(env: Handle<Environment>, path: Text, is_forgotten: Out<c_int>) -> c_int {
    c_call("tp_env_forget_file", || {
        is_forgotten.set(0);
        let any = environment(env)?.env.forget_file(path.path("the path")?)?;
        is_forgotten.set(c_int::from(any));
        Ok(())
    })
}

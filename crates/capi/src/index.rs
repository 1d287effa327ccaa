//! `tp_index`: indices whose keys a function of the program makes, and cursors over the indices.
//!
//! The library calls the program's function during a write, in the writing thread. The function adds index keys through
//! a handle that ends when the function returns. If the function returns a code other than `TP_OK`, the call that
//! wrote, for example `tp_put`, returns this code.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};

use libtp::{Index, IndexCursor, IndexKeys, Snapshot, Txn};

use crate::answer::{c_call, copied, reason, refuse_with, Trouble, TP_OK};
use crate::arguments::{given, lines, Fill, In, Out, Text};
use crate::database::{found, KeyedDatabase, USERS};
use crate::handles::{kind, Handle};
use crate::places::{self, placed, steps};
use crate::ranges::Keys;
use crate::transaction::{both, opened, with_reader, Either, Opened, Transaction};

opened! {
    /// The type that C calls `tp_index`.
    IndexOfDatabase { index: Index } = 14
}

/// The type that C calls `tp_index_keys`: the keys that the program's function has added so far.
pub struct Added(Vec<Vec<u8>>);

kind!(Added = 16);

/// `tp_index_function`.
pub type Function = extern "C" fn(
    key: *const c_void,
    key_size: usize,
    value: *const c_void,
    value_size: usize,
    keys: Handle<Added>,
    argument: *mut c_void,
) -> c_int;

/// Returns the program's function as a Rust closure.
fn called(function: Function, argument: *mut c_void) -> impl Fn(&[u8], &[u8], &mut IndexKeys) + Send + Sync {
    let argument = argument.expose_provenance();
    move |key, value, keys| {
        let mut refuse = |trouble: &Trouble| {
            refuse_with(trouble.code());
            keys.refuse(trouble.text());
        };
        let handle = match Handle::of(Added(Vec::new())) {
            Ok(handle) => handle,
            Err(trouble) => return refuse(&trouble),
        };
        let argument = std::ptr::with_exposed_provenance_mut(argument);
        let code = function(key.as_ptr().cast(), key.len(), value.as_ptr().cast(), value.len(), handle, argument);
        match handle.hold() {
            Ok(added) => added.remove().0.into_iter().for_each(|key| keys.add(key)),
            Err(trouble) => return refuse(&trouble),
        }
        if code != TP_OK {
            refuse_with(code);
            keys.refuse(reason(code));
        }
    }
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_index_add(keys: Handle<Added>, key: In, key_size: usize) -> c_int {
    c_call("tp_index_add", || {
        let key = copied(key.bytes("a key", key_size)?)?;
        keys.hold()?.0.push(key);
        Ok(())
    })
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_index_open(
    db: Handle<KeyedDatabase>,
    name: Text,
    function: Option<Function>,
    argument: *mut c_void,
    index: Out<Handle<IndexOfDatabase>>,
) -> c_int {
    c_call("tp_index_open", || {
        index.answer("the index", Handle::NULL, || {
            let function = given(function)?;
            let db = db.pin()?;
            let index = db.db.index(name.needed("the name")?, called(function, argument))?;
            Handle::of(IndexOfDatabase { index, env: db.environment().again() })
        })
    })
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_index_close(index: Handle<IndexOfDatabase>) -> c_int {
    c_call("tp_index_close", || index.close(USERS))
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_index_drop(db: Handle<KeyedDatabase>, name: Text) -> c_int {
    c_call("tp_index_drop", || {
        let db = db.pin()?;
        found(db.db.drop_index(name.needed("the name")?)?)
    })
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_index_count(
    index: Handle<IndexOfDatabase>,
    txn: Handle<Transaction>,
    index_key: In,
    index_key_size: usize,
    count: Out<u64>,
) -> c_int {
    c_call("tp_index_count", || {
        count.answer("the count", 0, || {
            let (index, txn) = both(index, txn)?;
            let key = index_key.bytes("a key of the index", index_key_size)?;
            Ok(with_reader!(txn.reader(), reader => index.index.count(reader, key))?)
        })
    })
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_index_get(
    index: Handle<IndexOfDatabase>,
    txn: Handle<Transaction>,
    index_key: In,
    index_key_size: usize,
    mut key: Fill,
    mut value: Fill,
) -> c_int {
    c_call("tp_index_get", || {
        let (index, txn) = both(index, txn)?;
        let wanted = index_key.bytes("a key of the index", index_key_size)?;
        let first = with_reader!(txn.reader(), reader => index.index.range(reader, wanted..=wanted).first())?;
        let entry = first.ok_or_else(Trouble::not_found)?;
        key.with(&entry.key)?;
        value.with(&entry.value)
    })
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_index_verify(
    index: Handle<IndexOfDatabase>,
    txn: Handle<Transaction>,
    mut findings: Fill,
) -> c_int {
    c_call("tp_index_verify", || {
        findings.needed()?;
        let (index, txn) = both(index, txn)?;
        let found = with_reader!(txn.reader(), reader => index.index.verify(reader))?;
        findings.with(&lines(found.iter().map(String::as_str)))
    })
}

placed! {
    /// The type that C calls `tp_index_cursor`.
    IndexedPlace = 15:
    Either<IndexCursor<'static, Txn<'static>>, IndexCursor<'static, Snapshot<'static>>>, IndexOfDatabase
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_index_cursor_open(
    index: Handle<IndexOfDatabase>,
    txn: Handle<Transaction>,
    range: Keys,
    cursor: Out<Handle<IndexedPlace>>,
) -> c_int {
    c_call("tp_index_cursor_open", || {
        places::open(&cursor, index, txn, |index, reader| match (reader, range.keys()?) {
            (Either::Txn(txn), keys) => Ok(Either::Txn(index.index.range(txn, keys))),
            (Either::Snapshot(snapshot), keys) => Ok(Either::Snapshot(index.index.range(snapshot, keys))),
        })
    })
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_index_cursor_close(cursor: Handle<IndexedPlace>) -> c_int {
    c_call("tp_index_cursor_close", || places::close(cursor))
}

steps! {
    IndexedPlace (index_key: Fill, key: Fill, value: Fill)
    tp_index_cursor_first = |cursor| with_reader!(cursor, cursor => cursor.first());
    tp_index_cursor_last = |cursor| with_reader!(cursor, cursor => cursor.last());
    tp_index_cursor_next = |cursor| with_reader!(cursor, cursor => cursor.next());
    tp_index_cursor_prev = |cursor| with_reader!(cursor, cursor => cursor.prev());
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_index_cursor_seek(
    cursor: Handle<IndexedPlace>,
    from: In,
    from_size: usize,
    index_key: Fill,
    key: Fill,
    value: Fill,
) -> c_int {
    c_call("tp_index_cursor_seek", || {
        let from = from.bytes("a key of the index", from_size)?;
        places::step(cursor, (index_key, key, value), |cursor| with_reader!(cursor, cursor => cursor.seek(from)))
    })
}

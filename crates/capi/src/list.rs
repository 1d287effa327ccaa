//! `tp_list` and `tp_list_cursor`: lists, whose records are renumbered by insertions and deletions, and their cursors.
#![allow(unsafe_code)]

use std::ffi::c_int;

use libtp::{List, ListCursor, Snapshot, Txn};

use crate::answer::{c_call, Outcome, Trouble};
use crate::arguments::{Fill, In, Out, Text};
use crate::database::{found, USERS};
use crate::environment::{environment, Environment};
use crate::handles::Handle;
use crate::places::{self, placed, steps};
use crate::transaction::{both, in_snapshot, opened, with_reader, Either, Transaction};

opened! {
    /// The type that C calls `tp_list`.
    ListDatabase { list: List } = 11
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_list_open(env: Handle<Environment>, name: Text, list: Out<Handle<ListDatabase>>) -> c_int {
    c_call("tp_list_open", || {
        list.answer("the list", Handle::NULL, || {
            let env = environment(env)?;
            let list = env.env.list(name.needed("the name")?)?;
            Handle::of(ListDatabase { list, env })
        })
    })
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_list_close(list: Handle<ListDatabase>) -> c_int {
    c_call("tp_list_close", || list.close(USERS))
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_list_count(list: Handle<ListDatabase>, txn: Handle<Transaction>, count: Out<u64>) -> c_int {
    c_call("tp_list_count", || {
        count.answer("the count", 0, || {
            let (list, txn) = both(list, txn)?;
            Ok(with_reader!(txn.reader(), reader => list.list.count(reader))?)
        })
    })
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_list_get(
    list: Handle<ListDatabase>,
    txn: Handle<Transaction>,
    number: u64,
    mut record: Fill,
) -> c_int {
    c_call("tp_list_get", || {
        let (list, txn) = both(list, txn)?;
        let found = with_reader!(txn.reader(), reader => list.list.get(reader, number))?;
        record.with(&found.ok_or_else(Trouble::not_found)?)
    })
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_list_get_for_update(
    list: Handle<ListDatabase>,
    txn: Handle<Transaction>,
    number: u64,
    mut record: Fill,
) -> c_int {
    c_call("tp_list_get_for_update", || {
        let (list, txn) = both(list, txn)?;
        let found = list.list.get_for_update(txn.writer()?, number)?;
        record.with(&found.ok_or_else(Trouble::not_found)?)
    })
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_list_put(
    list: Handle<ListDatabase>,
    txn: Handle<Transaction>,
    number: u64,
    record: In,
    record_size: usize,
) -> c_int {
    c_call("tp_list_put", || {
        let (list, txn) = both(list, txn)?;
        Ok(list.list.put(txn.writer()?, number, record.bytes("a record", record_size)?)?)
    })
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_list_append(
    list: Handle<ListDatabase>,
    txn: Handle<Transaction>,
    record: In,
    record_size: usize,
    number: Out<u64>,
) -> c_int {
    c_call("tp_list_append", || {
        let (list, txn) = both(list, txn)?;
        number.set(list.list.append(txn.writer()?, record.bytes("a record", record_size)?)?);
        Ok(())
    })
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_list_insert_before(
    list: Handle<ListDatabase>,
    txn: Handle<Transaction>,
    number: u64,
    record: In,
    record_size: usize,
) -> c_int {
    c_call("tp_list_insert_before", || {
        let (list, txn) = both(list, txn)?;
        list.list.insert_before(txn.writer()?, number, record.bytes("a record", record_size)?)?;
        Ok(())
    })
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_list_insert_after(
    list: Handle<ListDatabase>,
    txn: Handle<Transaction>,
    number: u64,
    record: In,
    record_size: usize,
) -> c_int {
    c_call("tp_list_insert_after", || {
        let (list, txn) = both(list, txn)?;
        list.list.insert_after(txn.writer()?, number, record.bytes("a record", record_size)?)?;
        Ok(())
    })
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_list_delete(list: Handle<ListDatabase>, txn: Handle<Transaction>, number: u64) -> c_int {
    c_call("tp_list_delete", || {
        let (list, txn) = both(list, txn)?;
        found(list.list.delete(txn.writer()?, number)?)
    })
}

placed! {
    /// The type that C calls `tp_list_cursor`.
    ListedPlace = 12: Either<InTxn, InSnapshot>, ListDatabase
}

/// A cursor in a transaction, which can change the list.
type InTxn = ListCursor<'static, Txn<'static>>;
type InSnapshot = ListCursor<'static, Snapshot<'static>>;

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_list_cursor_open(
    list: Handle<ListDatabase>,
    txn: Handle<Transaction>,
    cursor: Out<Handle<ListedPlace>>,
) -> c_int {
    c_call("tp_list_cursor_open", || {
        places::open(&cursor, list, txn, |list, reader| match reader {
            Either::Txn(txn) => Ok(Either::Txn(list.list.cursor(txn))),
            Either::Snapshot(snapshot) => Ok(Either::Snapshot(list.list.cursor(snapshot))),
        })
    })
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_list_cursor_close(cursor: Handle<ListedPlace>) -> c_int {
    c_call("tp_list_cursor_close", || places::close(cursor))
}

/// Makes a change through a cursor.
fn change<T>(cursor: Handle<ListedPlace>, work: impl FnOnce(&mut InTxn) -> libtp::Result<T>) -> Outcome<T> {
    places::at(cursor, |cursor, _, _| match cursor {
        Either::Txn(cursor) => Ok(work(cursor)?),
        Either::Snapshot(_) => Err(in_snapshot()),
    })
}

steps! {
    ListedPlace (number: Out<u64>, record: Fill)
    tp_list_cursor_first = |cursor| with_reader!(cursor, cursor => cursor.first());
    tp_list_cursor_last = |cursor| with_reader!(cursor, cursor => cursor.last());
    tp_list_cursor_next = |cursor| with_reader!(cursor, cursor => cursor.next());
    tp_list_cursor_prev = |cursor| with_reader!(cursor, cursor => cursor.prev());
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_list_cursor_seek(cursor: Handle<ListedPlace>, number: u64, mut record: Fill) -> c_int {
    c_call("tp_list_cursor_seek", || {
        let found = match number {
            0 => None,
            number => places::at(cursor, |cursor, _, _| Ok(with_reader!(cursor, cursor => cursor.seek(number))?))?,
        };
        record.with(&found.ok_or_else(Trouble::not_found)?.1)
    })
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_list_cursor_number(cursor: Handle<ListedPlace>, number: Out<u64>) -> c_int {
    c_call("tp_list_cursor_number", || {
        let place = number.needed("the number", 0)?;
        let at = places::at(cursor, |cursor, _, _| Ok(with_reader!(cursor, cursor => cursor.number())))?;
        place.set(at.ok_or_else(Trouble::not_found)?);
        Ok(())
    })
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_list_cursor_put(cursor: Handle<ListedPlace>, record: In, record_size: usize) -> c_int {
    c_call("tp_list_cursor_put", || {
        let record = record.bytes("a record", record_size)?;
        found(change(cursor, |cursor| cursor.put(record))?)
    })
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_list_cursor_set(
    cursor: Handle<ListedPlace>,
    number: u64,
    record: In,
    record_size: usize,
) -> c_int {
    c_call("tp_list_cursor_set", || {
        let record = record.bytes("a record", record_size)?;
        change(cursor, |cursor| cursor.set(number, record))
    })
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_list_cursor_insert_before(
    cursor: Handle<ListedPlace>,
    record: In,
    record_size: usize,
    number: Out<u64>,
) -> c_int {
    c_call("tp_list_cursor_insert_before", || {
        let record = record.bytes("a record", record_size)?;
        let inserted = change(cursor, |cursor| cursor.insert_before(record))?;
        number.set(inserted.ok_or_else(Trouble::not_found)?);
        Ok(())
    })
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_list_cursor_insert_after(
    cursor: Handle<ListedPlace>,
    record: In,
    record_size: usize,
    number: Out<u64>,
) -> c_int {
    c_call("tp_list_cursor_insert_after", || {
        let record = record.bytes("a record", record_size)?;
        let inserted = change(cursor, |cursor| cursor.insert_after(record))?;
        number.set(inserted.ok_or_else(Trouble::not_found)?);
        Ok(())
    })
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_list_cursor_delete(cursor: Handle<ListedPlace>) -> c_int {
    c_call("tp_list_cursor_delete", || found(change(cursor, ListCursor::delete)?))
}

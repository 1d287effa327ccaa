//! `tp_cursor` and `tp_recno_cursor`: cursors over the keys of a database, and over record numbers.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::ops::ControlFlow;

use libtp::{Cursor, RecnoCursor, Result};

use crate::answer::{c_call, Outcome, Trouble, TP_OK};
use crate::arguments::{Fill, In, Out};
use crate::database::{KeyedDatabase, NumberedDatabase};
use crate::handles::Handle;
use crate::places::{self, ended, KeyedPlace, NumberedPlace, Place};
use crate::ranges::Keys;
use crate::transaction::{both, with_reader, Transaction};

/// Moves a cursor and hands out the record at its new place.
fn step(
    cursor: Handle<KeyedPlace>,
    (mut key, mut value): (Fill, Fill),
    go: impl FnOnce(&mut Cursor<'static>) -> Result<Option<libtp::Pair>>,
) -> Outcome<()> {
    places::at(cursor, |place, _| {
        let Place::Keyed(cursor, _) = place else { return Err(ended()) };
        let (found_key, found_value) = go(cursor)?.ok_or_else(Trouble::not_found)?;
        key.with(&found_key)?;
        value.with(&found_value)
    })
}

/// Moves a cursor over numbered records and hands out the record at its new place.
fn step_number(
    cursor: Handle<NumberedPlace>,
    (number, mut record): (Out<u64>, Fill),
    go: impl FnOnce(&mut RecnoCursor<'static>) -> Result<Option<(u64, Vec<u8>)>>,
) -> Outcome<()> {
    places::at(cursor, |place, _| {
        let Place::Numbered(cursor, _) = place else { return Err(ended()) };
        let (at, bytes) = go(cursor)?.ok_or_else(Trouble::not_found)?;
        number.set(at);
        record.with(&bytes)
    })
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_cursor_open(
    db: Handle<KeyedDatabase>,
    txn: Handle<Transaction>,
    cursor: Out<Handle<KeyedPlace>>,
) -> c_int {
    c_call("tp_cursor_open", || {
        let out = cursor.needed("the cursor", Handle::NULL)?;
        let (db, mut held) = both(db, txn)?;
        places::open(out, txn, &mut held, db, |db, reader, pin| {
            Ok(Place::Keyed(with_reader!(reader, reader => db.db.cursor(reader)), pin))
        })
    })
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_cursor_open_range(
    db: Handle<KeyedDatabase>,
    txn: Handle<Transaction>,
    range: Keys,
    cursor: Out<Handle<KeyedPlace>>,
) -> c_int {
    c_call("tp_cursor_open_range", || {
        let out = cursor.needed("the cursor", Handle::NULL)?;
        let (db, mut held) = both(db, txn)?;
        let keys = range.keys()?;
        places::open(out, txn, &mut held, db, |db, reader, pin| {
            Ok(Place::Keyed(with_reader!(reader, reader => db.db.range(reader, keys))?, pin))
        })
    })
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_cursor_close(cursor: Handle<KeyedPlace>) -> c_int {
    c_call("tp_cursor_close", || places::close(cursor))
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_cursor_first(cursor: Handle<KeyedPlace>, key: Fill, value: Fill) -> c_int {
    c_call("tp_cursor_first", || step(cursor, (key, value), Cursor::first))
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_cursor_last(cursor: Handle<KeyedPlace>, key: Fill, value: Fill) -> c_int {
    c_call("tp_cursor_last", || step(cursor, (key, value), Cursor::last))
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_cursor_seek(
    cursor: Handle<KeyedPlace>,
    from: In,
    from_size: usize,
    key: Fill,
    value: Fill,
) -> c_int {
    c_call("tp_cursor_seek", || {
        let from = from.bytes("a key", from_size)?;
        step(cursor, (key, value), |cursor| cursor.seek(from))
    })
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_cursor_behind(
    cursor: Handle<KeyedPlace>,
    from: In,
    from_size: usize,
    key: Fill,
    value: Fill,
) -> c_int {
    c_call("tp_cursor_behind", || {
        let from = from.bytes("a key", from_size)?;
        step(cursor, (key, value), |cursor| cursor.next_behind(from))
    })
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_cursor_next(cursor: Handle<KeyedPlace>, key: Fill, value: Fill) -> c_int {
    c_call("tp_cursor_next", || step(cursor, (key, value), Cursor::next))
}

/// `tp_visit`.
pub type Visit = extern "C" fn(
    key: *const c_void,
    key_size: usize,
    value: *const c_void,
    value_size: usize,
    argument: *mut c_void,
) -> c_int;

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_cursor_each(cursor: Handle<KeyedPlace>, visit: Option<Visit>, argument: *mut c_void) -> c_int {
    c_call("tp_cursor_each", || {
        let visit = visit.ok_or_else(|| Trouble::misuse("NULL was given for the function"))?;
        let shown = |key: &[u8], value: &[u8]| match visit(
            key.as_ptr().cast(),
            key.len(),
            value.as_ptr().cast(),
            value.len(),
            argument,
        ) {
            TP_OK => ControlFlow::Continue(()),
            code => ControlFlow::Break(code),
        };
        let broke = places::at(cursor, |place, _| {
            let Place::Keyed(cursor, _) = place else { return Err(ended()) };
            Ok(cursor.for_each(shown)?)
        })?;
        match broke {
            Some(code) => Err(Trouble::of_the_program(code, "the cursor stands where it did")),
            None => Ok(()),
        }
    })
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_cursor_prev(cursor: Handle<KeyedPlace>, key: Fill, value: Fill) -> c_int {
    c_call("tp_cursor_prev", || step(cursor, (key, value), Cursor::prev))
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_recno_cursor_open(
    recno: Handle<NumberedDatabase>,
    txn: Handle<Transaction>,
    cursor: Out<Handle<NumberedPlace>>,
) -> c_int {
    c_call("tp_recno_cursor_open", || {
        let out = cursor.needed("the cursor", Handle::NULL)?;
        let (recno, mut held) = both(recno, txn)?;
        places::open(out, txn, &mut held, recno, |recno, reader, pin| {
            Ok(Place::Numbered(with_reader!(reader, reader => recno.recno.cursor(reader)), pin))
        })
    })
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_recno_cursor_close(cursor: Handle<NumberedPlace>) -> c_int {
    c_call("tp_recno_cursor_close", || places::close(cursor))
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_recno_cursor_first(cursor: Handle<NumberedPlace>, number: Out<u64>, record: Fill) -> c_int {
    c_call("tp_recno_cursor_first", || step_number(cursor, (number, record), RecnoCursor::first))
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_recno_cursor_last(cursor: Handle<NumberedPlace>, number: Out<u64>, record: Fill) -> c_int {
    c_call("tp_recno_cursor_last", || step_number(cursor, (number, record), RecnoCursor::last))
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_recno_cursor_seek(
    cursor: Handle<NumberedPlace>,
    from: u64,
    number: Out<u64>,
    record: Fill,
) -> c_int {
    c_call("tp_recno_cursor_seek", || step_number(cursor, (number, record), |cursor| cursor.seek(from)))
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_recno_cursor_next(cursor: Handle<NumberedPlace>, number: Out<u64>, record: Fill) -> c_int {
    c_call("tp_recno_cursor_next", || step_number(cursor, (number, record), RecnoCursor::next))
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_recno_cursor_prev(cursor: Handle<NumberedPlace>, number: Out<u64>, record: Fill) -> c_int {
    c_call("tp_recno_cursor_prev", || step_number(cursor, (number, record), RecnoCursor::prev))
}

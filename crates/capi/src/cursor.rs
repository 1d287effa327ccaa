//! `tp_cursor` and `tp_recno_cursor`: places in a database, which lie in their transaction and end with it.
#![allow(unsafe_code)]

use std::ffi::c_int;

use libtp::{Cursor, RecnoCursor, Result};

use crate::answer::{door, Outcome, Trouble};
use crate::arguments::{Fill, In, Out};
use crate::database::{keyed, numbered, KeyedDatabase, NumberedDatabase};
use crate::handles::{Handle, Kind, Table};
use crate::transaction::{goes_on, transaction, Transaction};

static CURSORS: Table<KeyedPlace> = Table::new();
static NUMBER_CURSORS: Table<NumberedPlace> = Table::new();

/// What C calls `tp_cursor`: where the cursor lies.
pub struct KeyedPlace {
    txn: Handle<Transaction>,
    number: u64,
}

/// What C calls `tp_recno_cursor`.
pub struct NumberedPlace {
    txn: Handle<Transaction>,
    number: u64,
}

impl Kind for KeyedPlace {
    const CODE: usize = 4;
    fn table() -> &'static Table<KeyedPlace> {
        &CURSORS
    }
}

impl Kind for NumberedPlace {
    const CODE: usize = 5;
    fn table() -> &'static Table<NumberedPlace> {
        &NUMBER_CURSORS
    }
}

fn ended() -> Trouble {
    Trouble::misuse("the cursor's transaction has ended, and the cursor with it: it can only be closed")
}

/// Moves a cursor, and hands out where it stands then.
fn step(
    cursor: Handle<KeyedPlace>,
    (mut key, mut value): (Fill, Fill),
    go: impl FnOnce(&mut Cursor<'static>) -> Result<Option<libtp::Pair>>,
) -> Outcome<()> {
    let place = CURSORS.hold(cursor)?;
    if !goes_on(place.txn) {
        return Err(ended());
    }
    let mut txn = transaction(place.txn)?;
    let pair = go(txn.cursor(place.number).ok_or_else(ended)?)?;
    let (found_key, found_value) = pair.ok_or_else(Trouble::not_found)?;
    key.with(&found_key)?;
    value.with(&found_value)
}

/// As `step`, over records by number.
fn step_number(
    cursor: Handle<NumberedPlace>,
    (number, mut record): (Out<u64>, Fill),
    go: impl FnOnce(&mut RecnoCursor<'static>) -> Result<Option<(u64, Vec<u8>)>>,
) -> Outcome<()> {
    let place = NUMBER_CURSORS.hold(cursor)?;
    if !goes_on(place.txn) {
        return Err(ended());
    }
    let mut txn = transaction(place.txn)?;
    let found = go(txn.number_cursor(place.number).ok_or_else(ended)?)?;
    let (at, bytes) = found.ok_or_else(Trouble::not_found)?;
    number.set(at);
    record.with(&bytes)
}

/// Takes a cursor out of its transaction, if that goes on.
fn leave(txn: Handle<Transaction>, number: u64) -> Outcome<()> {
    if goes_on(txn) {
        transaction(txn)?.drop_cursor(number);
    }
    Ok(())
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_cursor_open(
    db: Handle<KeyedDatabase>,
    txn: Handle<Transaction>,
    cursor: Out<Handle<KeyedPlace>>,
) -> c_int {
    door("tp_cursor_open", || {
        let out = cursor.needed("the cursor", Handle::NULL)?;
        let (db, mut held) = keyed(db, txn)?;
        out.set(CURSORS.insert(KeyedPlace { txn, number: held.add_cursor(db) })?);
        Ok(())
    })
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_cursor_close(cursor: Handle<KeyedPlace>) -> c_int {
    door("tp_cursor_close", || {
        if cursor.is_null() {
            return Ok(());
        }
        let place = CURSORS.hold(cursor)?;
        leave(place.txn, place.number)?;
        place.remove();
        Ok(())
    })
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_cursor_first(cursor: Handle<KeyedPlace>, key: Fill, value: Fill) -> c_int {
    door("tp_cursor_first", || step(cursor, (key, value), Cursor::first))
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_cursor_last(cursor: Handle<KeyedPlace>, key: Fill, value: Fill) -> c_int {
    door("tp_cursor_last", || step(cursor, (key, value), Cursor::last))
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
    door("tp_cursor_seek", || {
        let from = from.bytes("a key", from_size)?;
        step(cursor, (key, value), |cursor| cursor.seek(from))
    })
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_cursor_next(cursor: Handle<KeyedPlace>, key: Fill, value: Fill) -> c_int {
    door("tp_cursor_next", || step(cursor, (key, value), Cursor::next))
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_cursor_prev(cursor: Handle<KeyedPlace>, key: Fill, value: Fill) -> c_int {
    door("tp_cursor_prev", || step(cursor, (key, value), Cursor::prev))
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_recno_cursor_open(
    recno: Handle<NumberedDatabase>,
    txn: Handle<Transaction>,
    cursor: Out<Handle<NumberedPlace>>,
) -> c_int {
    door("tp_recno_cursor_open", || {
        let out = cursor.needed("the cursor", Handle::NULL)?;
        let (recno, mut held) = numbered(recno, txn)?;
        out.set(NUMBER_CURSORS.insert(NumberedPlace { txn, number: held.add_number_cursor(recno) })?);
        Ok(())
    })
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_recno_cursor_close(cursor: Handle<NumberedPlace>) -> c_int {
    door("tp_recno_cursor_close", || {
        if cursor.is_null() {
            return Ok(());
        }
        let place = NUMBER_CURSORS.hold(cursor)?;
        leave(place.txn, place.number)?;
        place.remove();
        Ok(())
    })
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_recno_cursor_first(cursor: Handle<NumberedPlace>, number: Out<u64>, record: Fill) -> c_int {
    door("tp_recno_cursor_first", || step_number(cursor, (number, record), RecnoCursor::first))
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_recno_cursor_last(cursor: Handle<NumberedPlace>, number: Out<u64>, record: Fill) -> c_int {
    door("tp_recno_cursor_last", || step_number(cursor, (number, record), RecnoCursor::last))
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_recno_cursor_seek(
    cursor: Handle<NumberedPlace>,
    from: u64,
    number: Out<u64>,
    record: Fill,
) -> c_int {
    door("tp_recno_cursor_seek", || step_number(cursor, (number, record), |cursor| cursor.seek(from)))
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_recno_cursor_next(cursor: Handle<NumberedPlace>, number: Out<u64>, record: Fill) -> c_int {
    door("tp_recno_cursor_next", || step_number(cursor, (number, record), RecnoCursor::next))
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_recno_cursor_prev(cursor: Handle<NumberedPlace>, number: Out<u64>, record: Fill) -> c_int {
    door("tp_recno_cursor_prev", || step_number(cursor, (number, record), RecnoCursor::prev))
}

//! `tp_cursor` and `tp_recno_cursor`: cursors over the keys of a database, and over record numbers.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::ops::ControlFlow;

use libtp::{Cursor, RecnoCursor};

use crate::answer::{c_call, Trouble, TP_OK};
use crate::arguments::{given, Fill, In, Out};
use crate::database::{KeyedDatabase, NumberedDatabase};
use crate::handles::Handle;
use crate::places::{self, placed, steps};
use crate::ranges::Keys;
use crate::transaction::{with_reader, Transaction};

placed! {
    /// The type that C calls `tp_cursor`.
    KeyedPlace = 4: Cursor<'static>, KeyedDatabase
}

placed! {
    /// The type that C calls `tp_recno_cursor`.
    NumberedPlace = 5: RecnoCursor<'static>, NumberedDatabase
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_cursor_open(
    db: Handle<KeyedDatabase>,
    txn: Handle<Transaction>,
    cursor: Out<Handle<KeyedPlace>>,
) -> c_int {
    c_call("tp_cursor_open", || {
        places::open(&cursor, db, txn, |db, reader| Ok(with_reader!(reader, reader => db.db.cursor(reader))))
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
        places::open(&cursor, db, txn, |db, reader| {
            let keys = range.keys()?;
            Ok(with_reader!(reader, reader => db.db.range(reader, keys))?)
        })
    })
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_cursor_close(cursor: Handle<KeyedPlace>) -> c_int {
    c_call("tp_cursor_close", || places::close(cursor))
}

steps! {
    KeyedPlace (key: Fill, value: Fill)
    tp_cursor_first = Cursor::first;
    tp_cursor_last = Cursor::last;
    tp_cursor_next = Cursor::next;
    tp_cursor_prev = Cursor::prev;
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
        places::step(cursor, (key, value), |cursor| cursor.seek(from))
    })
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_cursor_after(
    cursor: Handle<KeyedPlace>,
    from: In,
    from_size: usize,
    key: Fill,
    value: Fill,
) -> c_int {
    c_call("tp_cursor_after", || {
        let from = from.bytes("a key", from_size)?;
        places::step(cursor, (key, value), |cursor| cursor.next_after(from))
    })
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
        let visit = given(visit)?;
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
        match places::at(cursor, |cursor, _, _| Ok(cursor.for_each(shown)?))? {
            Some(code) => Err(Trouble::of_the_program(code, "the cursor is at the last pair visited")),
            None => Ok(()),
        }
    })
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_recno_cursor_open(
    recno: Handle<NumberedDatabase>,
    txn: Handle<Transaction>,
    cursor: Out<Handle<NumberedPlace>>,
) -> c_int {
    c_call("tp_recno_cursor_open", || {
        places::open(&cursor, recno, txn, |recno, reader| {
            Ok(with_reader!(reader, reader => recno.recno.cursor(reader)))
        })
    })
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_recno_cursor_close(cursor: Handle<NumberedPlace>) -> c_int {
    c_call("tp_recno_cursor_close", || places::close(cursor))
}

steps! {
    NumberedPlace (number: Out<u64>, record: Fill)
    tp_recno_cursor_first = RecnoCursor::first;
    tp_recno_cursor_last = RecnoCursor::last;
    tp_recno_cursor_next = RecnoCursor::next;
    tp_recno_cursor_prev = RecnoCursor::prev;
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_recno_cursor_seek(
    cursor: Handle<NumberedPlace>,
    from: u64,
    number: Out<u64>,
    record: Fill,
) -> c_int {
    c_call("tp_recno_cursor_seek", || places::step(cursor, (number, record), |cursor| cursor.seek(from)))
}

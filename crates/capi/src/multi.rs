//! `tp_multi` and `tp_multi_cursor`: databases with several values for a key, and cursors over them.
#![allow(unsafe_code)]

use std::ffi::c_int;

use libtp::{Duplicates, Multi, MultiCursor};

use crate::answer::{c_call, Outcome, Trouble};
use crate::arguments::{Fill, In, Out, Text};
use crate::database::{found, USERS};
use crate::environment::{environment, Environment};
use crate::handles::Handle;
use crate::order::order_named;
use crate::places::{self, placed, steps};
use crate::ranges::Keys;
use crate::transaction::{both, opened, with_reader, Transaction};

opened! {
    /// The type that C calls `tp_multi`.
    MultiDatabase { multi: Multi } = 9
}

fn duplicates(code: c_int) -> Outcome<Duplicates> {
    match code {
        1 => Ok(Duplicates::Sorted),
        2 => Ok(Duplicates::AsTheyCame),
        other => Err(Trouble::misuse(format!("{other} is not an order of values: give TP_SORTED or TP_AS_THEY_CAME"))),
    }
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_multi_open(
    env: Handle<Environment>,
    name: Text,
    how: c_int,
    order: Text,
    multi: Out<Handle<MultiDatabase>>,
) -> c_int {
    c_call("tp_multi_open", || {
        multi.answer("the database", Handle::NULL, || {
            let (env, name, how) = (environment(env)?, name.needed("the name")?, duplicates(how)?);
            let multi = match order.optional("the name of the order")? {
                Some(order) => env.env.multi_ordered(name, how, order_named(order)?)?,
                None => env.env.multi(name, how)?,
            };
            Handle::of(MultiDatabase { multi, env })
        })
    })
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_multi_close(multi: Handle<MultiDatabase>) -> c_int {
    c_call("tp_multi_close", || multi.close(USERS))
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_multi_pair_max(multi: Handle<MultiDatabase>, size: Out<usize>) -> c_int {
    c_call("tp_multi_pair_max", || size.answer("the length", 0, || Ok(multi.pin()?.multi.pair_bytes_max())))
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_multi_put(
    multi: Handle<MultiDatabase>,
    txn: Handle<Transaction>,
    key: In,
    key_size: usize,
    value: In,
    value_size: usize,
) -> c_int {
    c_call("tp_multi_put", || {
        let (multi, txn) = both(multi, txn)?;
        let (key, value) = (key.bytes("a key", key_size)?, value.bytes("a value", value_size)?);
        match multi.multi.put(txn.writer()?, key, value)? {
            true => Ok(()),
            false => Err(libtp::Error::Exists.into()),
        }
    })
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_multi_get(
    multi: Handle<MultiDatabase>,
    txn: Handle<Transaction>,
    key: In,
    key_size: usize,
    mut value: Fill,
) -> c_int {
    c_call("tp_multi_get", || {
        let (multi, txn) = both(multi, txn)?;
        let key = key.bytes("a key", key_size)?;
        let first = with_reader!(txn.reader(), reader => multi.multi.get(reader, key))?;
        value.with(&first.ok_or_else(Trouble::not_found)?)
    })
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_multi_count(
    multi: Handle<MultiDatabase>,
    txn: Handle<Transaction>,
    key: In,
    key_size: usize,
    count: Out<u64>,
) -> c_int {
    c_call("tp_multi_count", || {
        count.answer("the count", 0, || {
            let (multi, txn) = both(multi, txn)?;
            let key = key.bytes("a key", key_size)?;
            Ok(with_reader!(txn.reader(), reader => multi.multi.count(reader, key))?)
        })
    })
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_multi_delete(
    multi: Handle<MultiDatabase>,
    txn: Handle<Transaction>,
    key: In,
    key_size: usize,
    count: Out<u64>,
) -> c_int {
    c_call("tp_multi_delete", || {
        count.set(0);
        let (multi, txn) = both(multi, txn)?;
        let removed = multi.multi.delete(txn.writer()?, key.bytes("a key", key_size)?)?;
        count.set(removed);
        found(removed != 0)
    })
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_multi_delete_value(
    multi: Handle<MultiDatabase>,
    txn: Handle<Transaction>,
    key: In,
    key_size: usize,
    value: In,
    value_size: usize,
) -> c_int {
    c_call("tp_multi_delete_value", || {
        let (multi, txn) = both(multi, txn)?;
        let (key, value) = (key.bytes("a key", key_size)?, value.bytes("a value", value_size)?);
        found(multi.multi.delete_value(txn.writer()?, key, value)?)
    })
}

placed! {
    /// The type that C calls `tp_multi_cursor`.
    MultiPlace = 10: MultiCursor<'static>, MultiDatabase
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_multi_cursor_open(
    multi: Handle<MultiDatabase>,
    txn: Handle<Transaction>,
    cursor: Out<Handle<MultiPlace>>,
) -> c_int {
    c_call("tp_multi_cursor_open", || {
        places::open(&cursor, multi, txn, |multi, reader| {
            Ok(with_reader!(reader, reader => multi.multi.cursor(reader)))
        })
    })
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_multi_cursor_open_range(
    multi: Handle<MultiDatabase>,
    txn: Handle<Transaction>,
    range: Keys,
    cursor: Out<Handle<MultiPlace>>,
) -> c_int {
    c_call("tp_multi_cursor_open_range", || {
        places::open(&cursor, multi, txn, |multi, reader| {
            let keys = range.keys()?;
            Ok(with_reader!(reader, reader => multi.multi.range(reader, keys))?)
        })
    })
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_multi_count_range(
    multi: Handle<MultiDatabase>,
    txn: Handle<Transaction>,
    range: Keys,
    count: Out<u64>,
) -> c_int {
    c_call("tp_multi_count_range", || {
        count.answer("the count", 0, || {
            let (multi, txn) = both(multi, txn)?;
            let keys = range.keys()?;
            Ok(with_reader!(txn.reader(), reader => multi.multi.count_range(reader, keys))?)
        })
    })
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_multi_delete_range(
    multi: Handle<MultiDatabase>,
    txn: Handle<Transaction>,
    range: Keys,
    count: Out<u64>,
) -> c_int {
    c_call("tp_multi_delete_range", || {
        count.set(0);
        let (multi, txn) = both(multi, txn)?;
        count.set(multi.multi.delete_range(txn.writer()?, range.keys()?)?);
        Ok(())
    })
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_multi_cursor_close(cursor: Handle<MultiPlace>) -> c_int {
    c_call("tp_multi_cursor_close", || places::close(cursor))
}

steps! {
    MultiPlace (key: Fill, value: Fill)
    tp_multi_cursor_first = MultiCursor::first;
    tp_multi_cursor_last = MultiCursor::last;
    tp_multi_cursor_next = MultiCursor::next;
    tp_multi_cursor_prev = MultiCursor::prev;
    tp_multi_cursor_next_value = MultiCursor::next_duplicate;
    tp_multi_cursor_next_key = MultiCursor::next_key;
    tp_multi_cursor_prev_key = MultiCursor::prev_key;
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_multi_cursor_seek(
    cursor: Handle<MultiPlace>,
    from: In,
    from_size: usize,
    key: Fill,
    value: Fill,
) -> c_int {
    c_call("tp_multi_cursor_seek", || {
        let from = from.bytes("a key", from_size)?;
        places::step(cursor, (key, value), |cursor| cursor.seek(from))
    })
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_multi_cursor_put(cursor: Handle<MultiPlace>, value: In, value_size: usize) -> c_int {
    c_call("tp_multi_cursor_put", || {
        let value = value.bytes("a value", value_size)?;
        places::at(cursor, |cursor, multi, reader| found(multi.multi.put_at(reader.writer()?, cursor, value)?))
    })
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_multi_cursor_delete(cursor: Handle<MultiPlace>) -> c_int {
    c_call("tp_multi_cursor_delete", || {
        places::at(cursor, |cursor, multi, reader| found(multi.multi.delete_at(reader.writer()?, cursor)?))
    })
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_multi_cursor_place(cursor: Handle<MultiPlace>, mut place: Fill) -> c_int {
    c_call("tp_multi_cursor_place", || {
        place.needed()?;
        places::at(cursor, |cursor, _, _| place.with(cursor.place().ok_or_else(Trouble::not_found)?))
    })
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_multi_cursor_go_to(
    cursor: Handle<MultiPlace>,
    place: In,
    place_size: usize,
    key: Fill,
    value: Fill,
) -> c_int {
    c_call("tp_multi_cursor_go_to", || {
        let place = place.bytes("a place", place_size)?;
        places::step(cursor, (key, value), |cursor| cursor.go_to(place))
    })
}

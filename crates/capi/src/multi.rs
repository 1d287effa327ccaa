//! `tp_multi` and `tp_multi_cursor`: databases with several values for a key, and cursors over them.
#![allow(unsafe_code)]

use std::ffi::c_int;

use libtp::{Duplicates, Multi, MultiCursor, Result};

use crate::answer::{c_call, Outcome, Trouble};
use crate::arguments::{Fill, In, Out, Text};
use crate::database::{found, USERS};
use crate::environment::{environment, Environment};
use crate::handles::{Handle, Kind, Pinned, Table};
use crate::order::order_named;
use crate::places::{self, ended, MultiPlace, Place};
use crate::ranges::Keys;
use crate::transaction::{both, with_reader, Opened, Transaction};

static MULTIS: Table<MultiDatabase> = Table::new();

/// The type that C calls `tp_multi`.
pub struct MultiDatabase {
    pub(crate) multi: Multi,
    env: Pinned<Environment>,
}

impl Kind for MultiDatabase {
    const CODE: usize = 9;
    fn table() -> &'static Table<MultiDatabase> {
        &MULTIS
    }
}

impl Opened for MultiDatabase {
    fn environment(&self) -> &Pinned<Environment> {
        &self.env
    }
}

fn duplicates(code: c_int) -> Outcome<Duplicates> {
    match code {
        1 => Ok(Duplicates::Sorted),
        2 => Ok(Duplicates::AsTheyCame),
        other => {
            Err(Trouble::misuse(format!("{other} is no way to keep several values: TP_SORTED and TP_AS_THEY_CAME are")))
        }
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
        let place = multi.needed("the database", Handle::NULL)?;
        let (env, name, how) = (environment(env)?, name.needed("the name")?, duplicates(how)?);
        let multi = match order.optional("the name of the order")? {
            Some(order) => env.env.multi_ordered(name, how, order_named(order)?)?,
            None => env.env.multi(name, how)?,
        };
        place.set(MULTIS.insert(MultiDatabase { multi, env })?);
        Ok(())
    })
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_multi_close(multi: Handle<MultiDatabase>) -> c_int {
    c_call("tp_multi_close", || {
        if !multi.is_null() {
            drop(MULTIS.remove(multi, USERS)?);
        }
        Ok(())
    })
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_multi_pair_max(multi: Handle<MultiDatabase>, size: Out<usize>) -> c_int {
    c_call("tp_multi_pair_max", || {
        let place = size.needed("the length", 0)?;
        place.set(MULTIS.pin(multi)?.multi.pair_bytes_max());
        Ok(())
    })
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
        let place = count.needed("the count", 0)?;
        let (multi, txn) = both(multi, txn)?;
        let key = key.bytes("a key", key_size)?;
        place.set(with_reader!(txn.reader(), reader => multi.multi.count(reader, key))?);
        Ok(())
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

/// Moves a cursor and hands out the record at its new place.
fn step(
    cursor: Handle<MultiPlace>,
    (mut key, mut value): (Fill, Fill),
    go: impl FnOnce(&mut MultiCursor<'static>) -> Result<Option<libtp::Pair>>,
) -> Outcome<()> {
    places::at(cursor, |place, _| {
        let Place::Multi(cursor, _) = place else { return Err(ended()) };
        let (found_key, found_value) = go(cursor)?.ok_or_else(Trouble::not_found)?;
        key.with(&found_key)?;
        value.with(&found_value)
    })
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_multi_cursor_open(
    multi: Handle<MultiDatabase>,
    txn: Handle<Transaction>,
    cursor: Out<Handle<MultiPlace>>,
) -> c_int {
    c_call("tp_multi_cursor_open", || {
        let out = cursor.needed("the cursor", Handle::NULL)?;
        let (multi, mut held) = both(multi, txn)?;
        places::open(out, txn, &mut held, multi, |multi, reader, pin| {
            Ok(Place::Multi(with_reader!(reader, reader => multi.multi.cursor(reader)), pin))
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
        let out = cursor.needed("the cursor", Handle::NULL)?;
        let (multi, mut held) = both(multi, txn)?;
        let keys = range.keys()?;
        places::open(out, txn, &mut held, multi, |multi, reader, pin| {
            Ok(Place::Multi(with_reader!(reader, reader => multi.multi.range(reader, keys))?, pin))
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
        let place = count.needed("the count", 0)?;
        let (multi, txn) = both(multi, txn)?;
        let keys = range.keys()?;
        place.set(with_reader!(txn.reader(), reader => multi.multi.count_range(reader, keys))?);
        Ok(())
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

/// The steps whose only argument is the cursor.
macro_rules! steps {
    ($($name:ident = $step:ident;)*) => {$(
        /// See `libtp.h`.
        #[no_mangle]
        pub extern "C" fn $name(cursor: Handle<MultiPlace>, key: Fill, value: Fill) -> c_int {
            c_call(stringify!($name), || step(cursor, (key, value), MultiCursor::$step))
        }
    )*};
}

steps! {
    tp_multi_cursor_first = first;
    tp_multi_cursor_last = last;
    tp_multi_cursor_next = next;
    tp_multi_cursor_prev = prev;
    tp_multi_cursor_next_value = next_duplicate;
    tp_multi_cursor_next_key = next_key;
    tp_multi_cursor_prev_key = prev_key;
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
        step(cursor, (key, value), |cursor| cursor.seek(from))
    })
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_multi_cursor_put(cursor: Handle<MultiPlace>, value: In, value_size: usize) -> c_int {
    c_call("tp_multi_cursor_put", || {
        let value = value.bytes("a value", value_size)?;
        places::at(cursor, |place, reader| {
            let Place::Multi(cursor, multi) = place else { return Err(ended()) };
            found(multi.multi.put_at(reader.writer()?, cursor, value)?)
        })
    })
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_multi_cursor_delete(cursor: Handle<MultiPlace>) -> c_int {
    c_call("tp_multi_cursor_delete", || {
        places::at(cursor, |place, reader| {
            let Place::Multi(cursor, multi) = place else { return Err(ended()) };
            found(multi.multi.delete_at(reader.writer()?, cursor)?)
        })
    })
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_multi_cursor_place(cursor: Handle<MultiPlace>, mut place: Fill) -> c_int {
    c_call("tp_multi_cursor_place", || {
        place.needed()?;
        places::at(cursor, |at, _| {
            let Place::Multi(cursor, _) = at else { return Err(ended()) };
            place.with(cursor.place().ok_or_else(Trouble::not_found)?)
        })
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
        step(cursor, (key, value), |cursor| cursor.go_to(place))
    })
}

//! `tp_list` and `tp_list_cursor`: records whose numbers move with insertions, and cursors over them.
#![allow(unsafe_code)]

use std::ffi::c_int;

use libtp::{List, ListCursor, Txn};

use crate::answer::{c_call, Outcome, Trouble};
use crate::arguments::{Fill, In, Out, Text};
use crate::database::{found, USERS};
use crate::environment::{environment, Environment};
use crate::handles::{Handle, Kind, Pinned, Table};
use crate::places::{self, ended, ListPlace, ListedPlace, Place};
use crate::transaction::{both, with_reader, Opened, ReaderRef, Transaction};

static LISTS: Table<ListDatabase> = Table::new();

/// The type that C calls `tp_list`.
pub struct ListDatabase {
    pub(crate) list: List,
    pub(crate) env: Pinned<Environment>,
}

impl Kind for ListDatabase {
    const CODE: usize = 11;
    fn table() -> &'static Table<ListDatabase> {
        &LISTS
    }
}

impl Opened for ListDatabase {
    fn environment(&self) -> &Pinned<Environment> {
        &self.env
    }
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_list_open(env: Handle<Environment>, name: Text, list: Out<Handle<ListDatabase>>) -> c_int {
    c_call("tp_list_open", || {
        let place = list.needed("the list", Handle::NULL)?;
        let env = environment(env)?;
        let list = env.env.list(name.needed("the name")?)?;
        place.set(LISTS.insert(ListDatabase { list, env })?);
        Ok(())
    })
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_list_close(list: Handle<ListDatabase>) -> c_int {
    c_call("tp_list_close", || {
        if !list.is_null() {
            drop(LISTS.remove(list, USERS)?);
        }
        Ok(())
    })
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_list_count(list: Handle<ListDatabase>, txn: Handle<Transaction>, count: Out<u64>) -> c_int {
    c_call("tp_list_count", || {
        let place = count.needed("the count", 0)?;
        let (list, txn) = both(list, txn)?;
        place.set(with_reader!(txn.reader(), reader => list.list.count(reader))?);
        Ok(())
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

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_list_cursor_open(
    list: Handle<ListDatabase>,
    txn: Handle<Transaction>,
    cursor: Out<Handle<ListedPlace>>,
) -> c_int {
    c_call("tp_list_cursor_open", || {
        let out = cursor.needed("the cursor", Handle::NULL)?;
        let (list, mut held) = both(list, txn)?;
        places::open(out, txn, &mut held, list, |list, reader, pin| {
            let place = match reader {
                ReaderRef::Txn(txn) => ListPlace::InTxn(list.list.cursor(txn)),
                ReaderRef::Snapshot(snapshot) => ListPlace::InSnapshot(list.list.cursor(snapshot)),
            };
            Ok(Place::List(place, pin))
        })
    })
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_list_cursor_close(cursor: Handle<ListedPlace>) -> c_int {
    c_call("tp_list_cursor_close", || places::close(cursor))
}

/// Does the same work with a cursor in a transaction or in a snapshot.
macro_rules! at_either {
    ($cursor:expr, $name:ident => $work:expr) => {
        places::at($cursor, |place, _| match place {
            Place::List(ListPlace::InTxn($name), _) => Ok($work),
            Place::List(ListPlace::InSnapshot($name), _) => Ok($work),
            _ => Err(ended()),
        })
    };
}

/// Makes a change through a cursor.
fn change<T>(
    cursor: Handle<ListedPlace>,
    work: impl FnOnce(&mut ListCursor<'static, Txn<'static>>) -> libtp::Result<T>,
) -> Outcome<T> {
    places::at(cursor, |place, reader| {
        reader.writer()?;
        match place {
            Place::List(ListPlace::InTxn(cursor), _) => Ok(work(cursor)?),
            _ => Err(ended()),
        }
    })
}

fn hand_out(found: Option<(u64, Vec<u8>)>, number: &Out<u64>, record: &mut Fill) -> Outcome<()> {
    let (at, bytes) = found.ok_or_else(Trouble::not_found)?;
    number.set(at);
    record.with(&bytes)
}

/// The steps whose only argument is the cursor.
macro_rules! steps {
    ($($name:ident = $step:ident;)*) => {$(
        /// See `libtp.h`.
        #[no_mangle]
        pub extern "C" fn $name(cursor: Handle<ListedPlace>, number: Out<u64>, mut record: Fill) -> c_int {
            c_call(stringify!($name), || {
                let found = at_either!(cursor, cursor => cursor.$step()?)?;
                hand_out(found, &number, &mut record)
            })
        }
    )*};
}

steps! {
    tp_list_cursor_first = first;
    tp_list_cursor_last = last;
    tp_list_cursor_next = next;
    tp_list_cursor_prev = prev;
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_list_cursor_seek(cursor: Handle<ListedPlace>, number: u64, mut record: Fill) -> c_int {
    c_call("tp_list_cursor_seek", || {
        let found = match number {
            0 => None,
            number => at_either!(cursor, cursor => cursor.seek(number)?)?,
        };
        record.with(&found.ok_or_else(Trouble::not_found)?.1)
    })
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_list_cursor_number(cursor: Handle<ListedPlace>, number: Out<u64>) -> c_int {
    c_call("tp_list_cursor_number", || {
        let place = number.needed("the number", 0)?;
        let at = at_either!(cursor, cursor => cursor.number())?;
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

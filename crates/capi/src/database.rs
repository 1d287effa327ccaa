//! `tp_db` and `tp_recno`: databases with keys, and databases of numbered records.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};

use libtp::{Database, Db, Env, Link, Recno, Result};

use crate::answer::{c_call, Outcome, Trouble, TP_NOTFOUND, TP_OK};
use crate::arguments::{given, Buffer, Fill, In, Out, Put, Several, Text};
use crate::environment::{environment, Environment};
use crate::handles::Handle;
use crate::order::order_named;
use crate::transaction::{both, opened, with_reader, Transaction};

/// The advice in the error for a database that is in use and so cannot be closed.
pub(crate) const USERS: &str = "first end the transactions that have cursors over it, or close the cursors, and let no other thread be in a call with it";

opened! {
    /// The type that C calls `tp_db`.
    KeyedDatabase { db: Db } = 2
}

opened! {
    /// The type that C calls `tp_recno`.
    NumberedDatabase { recno: Recno } = 3
}

/// Returns `Ok` if the record existed, and otherwise the code for a missing record.
pub(crate) fn found(is_there: bool) -> Outcome<()> {
    match is_there {
        true => Ok(()),
        false => Err(Trouble::not_found()),
    }
}

/// Opens a database with keys. `open` opens it as a B-tree or as a hash file.
fn open_keyed(
    env: Handle<Environment>,
    name: &Text,
    db: &Out<Handle<KeyedDatabase>>,
    open: impl FnOnce(&Env, &str) -> Result<Db>,
) -> Outcome<()> {
    let place = db.needed("the database", Handle::NULL)?;
    let env = environment(env)?;
    let db = open(&env.env, name.needed("the name")?)?;
    place.set(Handle::of(KeyedDatabase { db, env })?);
    Ok(())
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_btree_open(env: Handle<Environment>, name: Text, db: Out<Handle<KeyedDatabase>>) -> c_int {
    c_call("tp_btree_open", || open_keyed(env, &name, &db, Env::btree))
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_btree_open_ordered(
    env: Handle<Environment>,
    name: Text,
    order: Text,
    db: Out<Handle<KeyedDatabase>>,
) -> c_int {
    c_call("tp_btree_open_ordered", || {
        db.needed("the database", Handle::NULL)?;
        let order = order_named(order.needed("the name of the order")?)?;
        open_keyed(env, &name, &db, |env, name| env.btree_ordered(name, order))
    })
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_hash_open(env: Handle<Environment>, name: Text, db: Out<Handle<KeyedDatabase>>) -> c_int {
    c_call("tp_hash_open", || open_keyed(env, &name, &db, Env::hash))
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_db_close(db: Handle<KeyedDatabase>) -> c_int {
    c_call("tp_db_close", || db.close(USERS))
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_db_key_max(db: Handle<KeyedDatabase>, bytes: Out<usize>) -> c_int {
    c_call("tp_db_key_max", || bytes.answer("the length", 0, || Ok(db.pin()?.db.key_bytes_max())))
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_get(
    db: Handle<KeyedDatabase>,
    txn: Handle<Transaction>,
    key: In,
    key_size: usize,
    mut value: Fill,
) -> c_int {
    c_call("tp_get", || {
        let (db, txn) = both(db, txn)?;
        let (key, read) = (key.bytes("a key", key_size)?, |bytes: &[u8]| value.with(bytes));
        with_reader!(txn.reader(), reader => db.db.get_with(reader, key, read))?.unwrap_or_else(|| found(false))
    })
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_get_for_update(
    db: Handle<KeyedDatabase>,
    txn: Handle<Transaction>,
    key: In,
    key_size: usize,
    mut value: Fill,
) -> c_int {
    c_call("tp_get_for_update", || {
        let (db, txn) = both(db, txn)?;
        match db.db.get_for_update(txn.writer()?, key.bytes("a key", key_size)?)? {
            Some(bytes) => value.with(&bytes),
            None => Err(Trouble::not_found()),
        }
    })
}

/// `tp_wanted`.
#[repr(C)]
pub struct Wanted {
    key: In,
    key_size: usize,
    value: Buffer,
    code: c_int,
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_get_many(
    db: Handle<KeyedDatabase>,
    txn: Handle<Transaction>,
    mut wanted: Several<Wanted>,
    count: usize,
) -> c_int {
    c_call("tp_get_many", || {
        let (db, txn) = both(db, txn)?;
        let wanted = wanted.all("the wanted keys", count)?;
        let keys = wanted.iter().map(|one| one.key.bytes("a key", one.key_size)).collect::<Outcome<Vec<_>>>()?;
        let found = with_reader!(txn.reader(), reader => db.db.get_many(reader, &keys))?;
        for (one, found) in wanted.iter_mut().zip(found) {
            one.code = match found {
                Some(value) => Fill::of(&mut one.value).with(&value).map(|()| TP_OK)?,
                None => TP_NOTFOUND,
            };
        }
        Ok(())
    })
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_prefetch(db: Handle<KeyedDatabase>, txn: Handle<Transaction>, key: In, key_size: usize) -> c_int {
    c_call("tp_prefetch", || {
        let (db, txn) = both(db, txn)?;
        let key = key.bytes("a key", key_size)?;
        Ok(with_reader!(txn.reader(), reader => db.db.prefetch(reader, key))?)
    })
}

/// `tp_change`.
pub type Change = extern "C" fn(value: *mut c_void, size: usize, argument: *mut c_void);

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_update(
    db: Handle<KeyedDatabase>,
    txn: Handle<Transaction>,
    key: In,
    key_size: usize,
    change: Option<Change>,
    argument: *mut c_void,
) -> c_int {
    c_call("tp_update", || {
        let (db, txn) = both(db, txn)?;
        let change = given(change)?;
        let key = key.bytes("a key", key_size)?;
        let changed = db.db.update_with(txn.writer()?, key, |value| {
            change(value.as_mut_ptr().cast(), value.len(), argument);
        })?;
        found(changed.is_some())
    })
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_update_part(
    db: Handle<KeyedDatabase>,
    txn: Handle<Transaction>,
    key: In,
    key_size: usize,
    offset: usize,
    bytes: In,
    size: usize,
) -> c_int {
    c_call("tp_update_part", || {
        let (db, txn) = both(db, txn)?;
        let (key, bytes) = (key.bytes("a key", key_size)?, bytes.bytes("a part", size)?);
        found(db.db.update_part(txn.writer()?, key, offset, bytes)?)
    })
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_add(
    db: Handle<KeyedDatabase>,
    txn: Handle<Transaction>,
    key: In,
    key_size: usize,
    offset: usize,
    amount: i64,
    sum: Out<i64>,
) -> c_int {
    c_call("tp_add", || {
        let (db, txn) = both(db, txn)?;
        let added = db.db.add(txn.writer()?, key.bytes("a key", key_size)?, offset, amount)?;
        sum.set(added.ok_or_else(Trouble::not_found)?);
        Ok(())
    })
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_put(
    db: Handle<KeyedDatabase>,
    txn: Handle<Transaction>,
    key: In,
    key_size: usize,
    value: In,
    value_size: usize,
) -> c_int {
    c_call("tp_put", || {
        let (db, txn) = both(db, txn)?;
        let (key, value) = (key.bytes("a key", key_size)?, value.bytes("a value", value_size)?);
        Ok(db.db.put(txn.writer()?, key, value)?)
    })
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_put_new(
    db: Handle<KeyedDatabase>,
    txn: Handle<Transaction>,
    key: In,
    key_size: usize,
    value: In,
    value_size: usize,
) -> c_int {
    c_call("tp_put_new", || {
        let (db, txn) = both(db, txn)?;
        let (key, value) = (key.bytes("a key", key_size)?, value.bytes("a value", value_size)?);
        Ok(db.db.put_new(txn.writer()?, key, value)?)
    })
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_delete(db: Handle<KeyedDatabase>, txn: Handle<Transaction>, key: In, key_size: usize) -> c_int {
    c_call("tp_delete", || {
        let (db, txn) = both(db, txn)?;
        found(db.db.delete(txn.writer()?, key.bytes("a key", key_size)?)?)
    })
}

/// `tp_link`.
#[repr(C)]
pub struct LinkBytes {
    bytes: [u8; 16],
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_link_of(
    db: Handle<KeyedDatabase>,
    txn: Handle<Transaction>,
    key: In,
    key_size: usize,
    link: Out<LinkBytes>,
) -> c_int {
    c_call("tp_link_of", || {
        link.answer("the link", LinkBytes { bytes: [0; 16] }, || {
            let (db, txn) = both(db, txn)?;
            let found = db.db.link_of(txn.writer()?, key.bytes("a key", key_size)?)?;
            Ok(LinkBytes { bytes: found.ok_or_else(Trouble::not_found)?.to_bytes() })
        })
    })
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_get_at(
    db: Handle<KeyedDatabase>,
    txn: Handle<Transaction>,
    link: Put<LinkBytes>,
    mut key: Fill,
    mut value: Fill,
) -> c_int {
    c_call("tp_get_at", || {
        let (db, txn) = both(db, txn)?;
        let link = Link::from_bytes(link.needed("the link")?.bytes);
        let found = db.db.get_at(txn.writer()?, link)?;
        let (found_key, found_value) = found.ok_or_else(Trouble::not_found)?;
        key.with(&found_key)?;
        value.with(&found_value)
    })
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_recno_open(
    env: Handle<Environment>,
    name: Text,
    record_size: u32,
    recno: Out<Handle<NumberedDatabase>>,
) -> c_int {
    c_call("tp_recno_open", || {
        recno.answer("the database", Handle::NULL, || {
            let env = environment(env)?;
            let name = name.needed("the name")?;
            let recno = match record_size {
                0 => match env.env.database(name)? {
                    Database::Recno(recno) => recno,
                    _ => env.env.recno(name, 0)?,
                },
                size => env.env.recno(name, size)?,
            };
            Handle::of(NumberedDatabase { recno, env })
        })
    })
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_recno_close(recno: Handle<NumberedDatabase>) -> c_int {
    c_call("tp_recno_close", || recno.close(USERS))
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_recno_record_size(recno: Handle<NumberedDatabase>, bytes: Out<u32>) -> c_int {
    c_call("tp_recno_record_size", || bytes.answer("the length", 0, || Ok(recno.pin()?.recno.record_bytes())))
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_recno_get(
    recno: Handle<NumberedDatabase>,
    txn: Handle<Transaction>,
    number: u64,
    mut record: Fill,
) -> c_int {
    c_call("tp_recno_get", || {
        let (recno, txn) = both(recno, txn)?;
        let found = with_reader!(txn.reader(), reader => recno.recno.get(reader, number))?;
        record.with(&found.ok_or_else(Trouble::not_found)?)
    })
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_recno_put(
    recno: Handle<NumberedDatabase>,
    txn: Handle<Transaction>,
    number: u64,
    record: In,
    record_size: usize,
) -> c_int {
    c_call("tp_recno_put", || {
        let (recno, txn) = both(recno, txn)?;
        Ok(recno.recno.put(txn.writer()?, number, record.bytes("a record", record_size)?)?)
    })
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_recno_update_part(
    recno: Handle<NumberedDatabase>,
    txn: Handle<Transaction>,
    number: u64,
    offset: usize,
    bytes: In,
    size: usize,
) -> c_int {
    c_call("tp_recno_update_part", || {
        let (recno, txn) = both(recno, txn)?;
        found(recno.recno.update_part(txn.writer()?, number, offset, bytes.bytes("a part", size)?)?)
    })
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_recno_add(
    recno: Handle<NumberedDatabase>,
    txn: Handle<Transaction>,
    number: u64,
    offset: usize,
    amount: i64,
    sum: Out<i64>,
) -> c_int {
    c_call("tp_recno_add", || {
        let (recno, txn) = both(recno, txn)?;
        let added = recno.recno.add(txn.writer()?, number, offset, amount)?;
        sum.set(added.ok_or_else(Trouble::not_found)?);
        Ok(())
    })
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_recno_append(
    recno: Handle<NumberedDatabase>,
    txn: Handle<Transaction>,
    record: In,
    record_size: usize,
    number: Out<u64>,
) -> c_int {
    c_call("tp_recno_append", || {
        let (recno, txn) = both(recno, txn)?;
        number.set(recno.recno.append(txn.writer()?, record.bytes("a record", record_size)?)?);
        Ok(())
    })
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_recno_append_in_order(
    recno: Handle<NumberedDatabase>,
    txn: Handle<Transaction>,
    record: In,
    record_size: usize,
    number: Out<u64>,
) -> c_int {
    c_call("tp_recno_append_in_order", || {
        let (recno, txn) = both(recno, txn)?;
        number.set(recno.recno.append_in_order(txn.writer()?, record.bytes("a record", record_size)?)?);
        Ok(())
    })
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_recno_delete(recno: Handle<NumberedDatabase>, txn: Handle<Transaction>, number: u64) -> c_int {
    c_call("tp_recno_delete", || {
        let (recno, txn) = both(recno, txn)?;
        found(recno.recno.delete(txn.writer()?, number)?)
    })
}

//! `tp_index`: indices that a function of the program keeps, and cursors over them.
//!
//! The function is called during a write, in the writing thread. It adds index keys through a handle that ends when the
//! function returns. The code that it returns becomes the answer of the call that wrote (`tp_put`, say).
#![allow(unsafe_code)]

use std::cell::Cell;
use std::ffi::{c_int, c_void};

use libtp::{Index, IndexEntry, IndexKeys};

use crate::answer::{c_call, reason, Outcome, Trouble, TP_OK};
use crate::arguments::{lines, Fill, In, Out, Text};
use crate::database::{found, KeyedDatabase, USERS};
use crate::environment::Environment;
use crate::handles::{Handle, Kind, Pinned, Table};
use crate::places::{self, ended, IndexPlace, IndexedPlace, Place};
use crate::ranges::Keys;
use crate::transaction::{both, with_reader, Opened, ReaderRef, Transaction};

static INDICES: Table<IndexOfDatabase> = Table::new();
static ADDED: Table<Added> = Table::new();

thread_local! {
    /// The last code other than `TP_OK` that a function of the program returned.
    static REFUSED: Cell<c_int> = const { Cell::new(TP_OK) };
}

/// Returns the code with which a function of the program last refused a record in this thread.
pub(crate) fn refused() -> c_int {
    REFUSED.get()
}

/// The type that C calls `tp_index`.
pub struct IndexOfDatabase {
    index: Index,
    env: Pinned<Environment>,
}

impl Kind for IndexOfDatabase {
    const CODE: usize = 14;
    fn table() -> &'static Table<IndexOfDatabase> {
        &INDICES
    }
}

impl Opened for IndexOfDatabase {
    fn environment(&self) -> &Pinned<Environment> {
        &self.env
    }
}

/// The type that C calls `tp_index_keys`: the keys that a function has added so far.
pub struct Added(Vec<Vec<u8>>);

impl Kind for Added {
    const CODE: usize = 16;
    fn table() -> &'static Table<Added> {
        &ADDED
    }
}

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
            REFUSED.set(trouble.code());
            keys.refuse(trouble.text());
        };
        let handle = match ADDED.insert(Added(Vec::new())) {
            Ok(handle) => handle,
            Err(trouble) => return refuse(&trouble),
        };
        let argument = std::ptr::with_exposed_provenance_mut(argument);
        let code = function(key.as_ptr().cast(), key.len(), value.as_ptr().cast(), value.len(), handle, argument);
        match ADDED.hold(handle) {
            Ok(added) => added.remove().0.into_iter().for_each(|key| keys.add(key)),
            Err(trouble) => return refuse(&trouble),
        }
        if code != TP_OK {
            REFUSED.set(code);
            keys.refuse(reason(code));
        }
    }
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_index_add(keys: Handle<Added>, key: In, key_size: usize) -> c_int {
    c_call("tp_index_add", || {
        ADDED.hold(keys)?.0.push(key.bytes("a key", key_size)?.to_vec());
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
        let place = index.needed("the index", Handle::NULL)?;
        let function = function.ok_or_else(|| Trouble::misuse("NULL was given for the function"))?;
        let db = KeyedDatabase::table().pin(db)?;
        let index = db.db.index(name.needed("the name")?, called(function, argument))?;
        place.set(INDICES.insert(IndexOfDatabase { index, env: db.environment().again() })?);
        Ok(())
    })
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_index_close(index: Handle<IndexOfDatabase>) -> c_int {
    c_call("tp_index_close", || {
        if !index.is_null() {
            drop(INDICES.remove(index, USERS)?);
        }
        Ok(())
    })
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_index_drop(db: Handle<KeyedDatabase>, name: Text) -> c_int {
    c_call("tp_index_drop", || {
        let db = KeyedDatabase::table().pin(db)?;
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
        let place = count.needed("the count", 0)?;
        let (index, txn) = both(index, txn)?;
        let key = index_key.bytes("a key of the index", index_key_size)?;
        place.set(with_reader!(txn.reader(), reader => index.index.count(reader, key))?);
        Ok(())
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

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_index_cursor_open(
    index: Handle<IndexOfDatabase>,
    txn: Handle<Transaction>,
    range: Keys,
    cursor: Out<Handle<IndexedPlace>>,
) -> c_int {
    c_call("tp_index_cursor_open", || {
        let out = cursor.needed("the cursor", Handle::NULL)?;
        let (index, mut held) = both(index, txn)?;
        let keys = range.keys()?;
        places::open(out, txn, &mut held, index, |index, reader, pin| {
            let place = match reader {
                ReaderRef::Txn(txn) => IndexPlace::InTxn(index.index.range(txn, keys)),
                ReaderRef::Snapshot(snapshot) => IndexPlace::InSnapshot(index.index.range(snapshot, keys)),
            };
            Ok(Place::Index(place, pin))
        })
    })
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_index_cursor_close(cursor: Handle<IndexedPlace>) -> c_int {
    c_call("tp_index_cursor_close", || places::close(cursor))
}

/// Does the same work with a cursor in a transaction or in a snapshot.
macro_rules! at_either {
    ($cursor:expr, $name:ident => $work:expr) => {
        places::at($cursor, |place, _| match place {
            Place::Index(IndexPlace::InTxn($name), _) => Ok($work?),
            Place::Index(IndexPlace::InSnapshot($name), _) => Ok($work?),
            _ => Err(ended()),
        })
    };
}

fn hand_out(found: Option<IndexEntry>, (mut index_key, mut key, mut value): (Fill, Fill, Fill)) -> Outcome<()> {
    let entry = found.ok_or_else(Trouble::not_found)?;
    index_key.with(&entry.index_key)?;
    key.with(&entry.key)?;
    value.with(&entry.value)
}

/// The steps whose only argument is the cursor.
macro_rules! steps {
    ($($name:ident = $step:ident;)*) => {$(
        /// See `libtp.h`.
        #[no_mangle]
        pub extern "C" fn $name(cursor: Handle<IndexedPlace>, index_key: Fill, key: Fill, value: Fill) -> c_int {
            c_call(stringify!($name), || {
                let found = at_either!(cursor, cursor => cursor.$step())?;
                hand_out(found, (index_key, key, value))
            })
        }
    )*};
}

steps! {
    tp_index_cursor_first = first;
    tp_index_cursor_last = last;
    tp_index_cursor_next = next;
    tp_index_cursor_prev = prev;
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
        let found = at_either!(cursor, cursor => cursor.seek(from))?;
        hand_out(found, (index_key, key, value))
    })
}

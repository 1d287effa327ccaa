//! `db.h`: 4.4BSD's db(3). Plain mode works as db(3) works in 4.4BSD. Shared mode implements the flags `DB_LOCK`,
//! `DB_SHMEM` and `DB_TXN` of db(3) (LIBTP 4.4).
//!
//! | file | contents |
//! |---|---|
//! | `open`, `open_records`, `info` | `dbopen` and its arguments |
//! | `keyed`, `numbered` | the flags of the calls, over any store of pairs or of records |
//! | `plain`, `rule`, `plain_file`, `alone`, `text_file` | plain mode: records in memory, and one file |
//! | `shared`, `shared_list`, `shared_records`, `anew` | shared mode: databases of an environment |
//! | `environments`, `current` | the environments, and the thread's transaction |
//! | `dbt`, `flags`, `refusal`, `orders` | arguments from C, and answers to C |
//!
//! The structure `DB` is in memory that C can read, as db(3) demands. Its field `internal` is a handle: a number that
//! the library looks up in a table. docs/design/0018 explains the choices.
#![allow(unsafe_code)]

mod alone;
mod anew;
mod current;
mod dbt;
mod environments;
mod flags;
mod info;
mod keyed;
mod numbered;
mod open;
mod open_mode;
mod open_records;
mod orders;
mod plain;
mod plain_file;
mod refusal;
mod rule;
mod shared;
mod shared_list;
mod shared_records;
mod text_file;

use std::ffi::{c_int, c_uint};

use crate::answer::{say, unpanicked, Trouble};
use crate::arguments::Text;
use crate::handles::{kind, Handle, Held};
use dbt::DbtPointer;
use info::{FileInfo, Info};
use keyed::Keyed;
use numbered::{Numbered, Stored};
use open::Type;
use open_mode::OpenMode;
use refusal::{Answer, Refusal};

pub(crate) const SUCCESS: c_int = 0;
const SPECIAL: c_int = 1;
const ERROR: c_int = -1;

/// The store of an open file's records.
pub(crate) enum Store {
    Keyed(Keyed),
    Numbered(Numbered),
}

/// An open file, with the bytes that the last call on it lent to C.
pub struct Opened {
    store: Store,
    is_without_keys: bool,
    key: Vec<u8>,
    data: Vec<u8>,
}

kind!(Opened = 7);

/// `DB`.
#[repr(C)]
pub struct Methods {
    kind: c_uint,
    close: extern "C" fn(MethodsPointer) -> c_int,
    del: extern "C" fn(MethodsPointer, DbtPointer, c_uint) -> c_int,
    get: extern "C" fn(MethodsPointer, DbtPointer, DbtPointer, c_uint) -> c_int,
    put: extern "C" fn(MethodsPointer, DbtPointer, DbtPointer, c_uint) -> c_int,
    seq: extern "C" fn(MethodsPointer, DbtPointer, DbtPointer, c_uint) -> c_int,
    sync: extern "C" fn(MethodsPointer, c_uint) -> c_int,
    internal: Handle<Opened>,
    fd: extern "C" fn(MethodsPointer) -> c_int,
}

/// `DB *`.
#[repr(transparent)]
pub struct MethodsPointer(*mut Methods);

impl From<Trouble> for Refusal {
    fn from(trouble: Trouble) -> Refusal {
        Refusal::invalid(trouble.text())
    }
}

impl MethodsPointer {
    fn handle(&self) -> Answer<Handle<Opened>> {
        // SAFETY: C promises that a `DB *` is NULL, or was returned by `dbopen` and not closed.
        match unsafe { self.0.as_ref() } {
            Some(methods) => Ok(methods.internal),
            None => Err(Refusal::invalid("NULL was given for the DB: dbopen failed, or was not called")),
        }
    }

    fn opened(&self) -> Answer<Held<Opened>> {
        Ok(self.handle()?.hold()?)
    }

    /// Frees the structure.
    fn free(self) {
        // SAFETY: `Box::into_raw` made the pointer in `dbopen`. Its handle was valid until now, so the structure is
        // freed only once.
        drop(unsafe { Box::from_raw(self.0) });
    }
}

/// Does the work of a call. Returns the call's code, or `ERROR` with `errno` set.
pub(crate) fn answer(call: &str, work: impl FnOnce() -> Answer<c_int>) -> c_int {
    let refused = match unpanicked(work) {
        Ok(Ok(code)) => return code,
        Ok(Err(refused)) => refused,
        Err(panicked) => Refusal::new(libc::EIO, panicked),
    };
    say(&format!("{call}: {}", refused.text));
    // SAFETY: `errno` belongs to the calling thread and always exists.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    unsafe { *errno = refused.errno };
    ERROR
}

/// Returns success, or `SPECIAL` if the call found no record, or found one that it must not replace.
fn special(is_done: bool) -> c_int {
    if is_done {
        SUCCESS
    } else {
        SPECIAL
    }
}

/// See `db.h`.
#[no_mangle]
pub extern "C" fn dbopen(file: Text, flags: c_uint, mode: c_uint, kind: Type, openinfo: Info) -> *mut Methods {
    let mut made = std::ptr::null_mut();
    answer("dbopen", || {
        let info = openinfo.parse(kind)?;
        let is_without_keys = matches!(&info, FileInfo::Recno(records) if records.is_without_keys);
        let store = open::open(file.optional_path(), &OpenMode::new(flags, mode)?, info)?;
        let opened = Opened { store, is_without_keys, key: Vec::new(), data: Vec::new() };
        let internal = Handle::of(opened)?;
        made = Box::into_raw(Box::new(Methods { kind, close, del, get, put, seq, sync, internal, fd }));
        Ok(SUCCESS)
    });
    made
}

extern "C" fn close(db: MethodsPointer) -> c_int {
    answer("close", || {
        let mut opened = db.opened()?.remove();
        db.free();
        match &mut opened.store {
            Store::Keyed(keyed) => keyed.sync(0)?,
            Store::Numbered(numbered) => numbered.sync(0)?,
        }
        Ok(SUCCESS)
    })
}

extern "C" fn get(db: MethodsPointer, key: DbtPointer, mut data: DbtPointer, flags: c_uint) -> c_int {
    answer("get", || {
        let mut opened = db.opened()?;
        let key = key.bytes("the key")?;
        let found = match &mut opened.store {
            Store::Keyed(keyed) => keyed.get(&key, flags)?,
            Store::Numbered(numbered) => numbered.get(&key, flags)?,
        };
        let Some(found) = found else { return Ok(SPECIAL) };
        opened.data = found;
        data.lend("the data", &opened.data)?;
        Ok(SUCCESS)
    })
}

extern "C" fn put(db: MethodsPointer, mut key: DbtPointer, data: DbtPointer, flags: c_uint) -> c_int {
    answer("put", || {
        let mut opened = db.opened()?;
        let value = data.bytes("the data")?;
        // With R_CURSOR the call ignores the record number, so C need not pass one.
        let given = match (&opened.store, flags) {
            (Store::Numbered(_), flags::R_CURSOR) => Vec::new(),
            _ => key.bytes("the key")?,
        };
        match &mut opened.store {
            Store::Keyed(keyed) => keyed.put(&given, &value, flags).map(special),
            Store::Numbered(numbered) => match numbered.put(&given, value, flags)? {
                Stored::No => Ok(SPECIAL),
                Stored::There => Ok(SUCCESS),
                Stored::As(number) => {
                    opened.key = number.to_ne_bytes().to_vec();
                    key.lend("the key", &opened.key)?;
                    Ok(SUCCESS)
                }
            },
        }
    })
}

extern "C" fn del(db: MethodsPointer, key: DbtPointer, flags: c_uint) -> c_int {
    answer("del", || {
        let mut opened = db.opened()?;
        let given = match flags {
            flags::R_CURSOR => Vec::new(),
            _ => key.bytes("the key")?,
        };
        match &mut opened.store {
            Store::Keyed(keyed) => keyed.delete(&given, flags).map(special),
            Store::Numbered(numbered) => numbered.delete(&given, flags).map(special),
        }
    })
}

extern "C" fn seq(db: MethodsPointer, mut key: DbtPointer, mut data: DbtPointer, flags: c_uint) -> c_int {
    answer("seq", || {
        let mut opened = db.opened()?;
        let given = match flags {
            flags::R_CURSOR => key.bytes("the key")?,
            _ => Vec::new(),
        };
        let found = match &mut opened.store {
            Store::Keyed(keyed) => keyed.seek(&given, flags)?,
            Store::Numbered(numbered) => {
                numbered.seek(&given, flags)?.map(|(number, record)| (number.to_ne_bytes().to_vec(), record))
            }
        };
        let Some(found) = found else { return Ok(SPECIAL) };
        (opened.key, opened.data) = found;
        if !opened.is_without_keys {
            key.lend("the key", &opened.key)?;
        }
        data.lend("the data", &opened.data)?;
        Ok(SUCCESS)
    })
}

extern "C" fn sync(db: MethodsPointer, flags: c_uint) -> c_int {
    answer("sync", || {
        match &mut db.opened()?.store {
            Store::Keyed(keyed) => keyed.sync(flags)?,
            Store::Numbered(numbered) => numbered.sync(flags)?,
        }
        Ok(SUCCESS)
    })
}

extern "C" fn fd(db: MethodsPointer) -> c_int {
    answer("fd", || match &mut db.opened()?.store {
        Store::Keyed(keyed) => keyed.pairs.descriptor(),
        Store::Numbered(numbered) => numbered.descriptor(),
    })
}

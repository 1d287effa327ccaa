//! `tp_range`: a range of the keys of a database. C can count or remove the records in a range, or visit them with a
//! cursor.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_uint};
use std::ops::Bound;

use crate::answer::{c_call, Outcome, Trouble};
use crate::arguments::{In, Out, Put};
use crate::database::KeyedDatabase;
use crate::handles::Handle;
use crate::transaction::{both, with_reader, Transaction};

/// The kinds of bounds, as in `libtp.h`.
const TP_FROM: c_uint = 1;
const TP_ABOVE: c_uint = 2;
const TP_UPTO: c_uint = 4;
const TP_BELOW: c_uint = 8;
const TP_PREFIX: c_uint = 16;

/// `tp_range`.
#[repr(C)]
pub struct Range {
    low: In,
    low_size: usize,
    high: In,
    high_size: usize,
    how: c_uint,
}

/// A range of keys; NULL means all keys.
pub type Keys = Put<Range>;

impl Keys {
    pub(crate) fn keys(&self) -> Outcome<libtp::Keys> {
        let Some(range) = self.optional() else { return Ok((..).into()) };
        let low = || range.low.bytes("the low key of a range", range.low_size);
        let high = || range.high.bytes("the high key of a range", range.high_size);
        let from = match range.how & (TP_FROM | TP_ABOVE | TP_PREFIX) {
            0 => Bound::Unbounded,
            TP_FROM => Bound::Included(low()?),
            TP_ABOVE => Bound::Excluded(low()?),
            TP_PREFIX if range.how == TP_PREFIX => return Ok(libtp::Keys::prefix(low()?)),
            _ => return Err(no_range(range.how)),
        };
        let to = match range.how & !(TP_FROM | TP_ABOVE) {
            0 => Bound::Unbounded,
            TP_UPTO => Bound::Included(high()?),
            TP_BELOW => Bound::Excluded(high()?),
            _ => return Err(no_range(range.how)),
        };
        Ok(libtp::Keys::between(from, to))
    }
}

fn no_range(how: c_uint) -> Trouble {
    let what = "give at most one of TP_FROM and TP_ABOVE, and at most one of TP_UPTO and TP_BELOW; or only TP_PREFIX";
    Trouble::misuse(format!("{how:#x} does not describe a range: {what}"))
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_count(db: Handle<KeyedDatabase>, txn: Handle<Transaction>, range: Keys, count: Out<u64>) -> c_int {
    c_call("tp_count", || {
        count.answer("the count", 0, || {
            let (db, txn) = both(db, txn)?;
            let keys = range.keys()?;
            Ok(with_reader!(txn.reader(), reader => db.db.count(reader, keys))?)
        })
    })
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_delete_range(
    db: Handle<KeyedDatabase>,
    txn: Handle<Transaction>,
    range: Keys,
    count: Out<u64>,
) -> c_int {
    c_call("tp_delete_range", || {
        count.set(0);
        let (db, txn) = both(db, txn)?;
        count.set(db.db.delete_range(txn.writer()?, range.keys()?)?);
        Ok(())
    })
}

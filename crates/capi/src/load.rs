//! `tp_load` and `tp_compact`: load many records at once, and merge pages that are nearly empty.
#![allow(unsafe_code)]

use std::ffi::{c_char, c_int, c_uint, c_void, CString};

use libtp::{Bytes, Compaction, Load, Pair, Progress};

use crate::answer::{c_call, copied, Outcome, Trouble, TP_NOTFOUND, TP_OK};
use crate::arguments::{given, In, Out};
use crate::database::KeyedDatabase;
use crate::handles::Handle;
use crate::multi::MultiDatabase;

/// The flag as in `libtp.h`.
const TP_LOAD_SORTED: c_uint = 1;

/// `tp_pair`.
#[repr(C)]
pub struct LentPair {
    key: In,
    key_size: usize,
    value: In,
    value_size: usize,
}

/// `tp_next_pair`.
pub type NextPair = extern "C" fn(pair: &mut LentPair, argument: *mut c_void) -> c_int;

/// `tp_watch`.
pub type Watch = extern "C" fn(what: *const c_char, done: u64, total: u64, argument: *mut c_void);

/// The pairs that a function of the program supplies.
struct Source {
    next: NextPair,
    argument: *mut c_void,
}

impl Iterator for Source {
    type Item = Outcome<Pair>;

    fn next(&mut self) -> Option<Outcome<Pair>> {
        let mut lent = LentPair { key: In::NULL, key_size: 0, value: In::NULL, value_size: 0 };
        let pair = |lent: &LentPair| {
            let (key, value) = (lent.key.bytes("a key", lent.key_size)?, lent.value.bytes("a value", lent.value_size)?);
            Ok((copied(key)?, copied(value)?))
        };
        match (self.next)(&mut lent, self.argument) {
            TP_OK => Some(pair(&lent)),
            TP_NOTFOUND => None,
            code => Some(Err(Trouble::of_the_program(code, "nothing was loaded"))),
        }
    }
}

fn how(flags: c_uint, fill_percent: c_uint, memory: u64) -> Outcome<Load> {
    let mut how = match flags {
        0 => Load::unsorted(),
        TP_LOAD_SORTED => Load::sorted(),
        _ => return Err(Trouble::misuse(format!("the flags have bits that mean nothing: {flags:#x}"))),
    };
    if fill_percent != 0 {
        how = how.fill_percent(percent(fill_percent));
    }
    if memory != 0 {
        how = how.memory(Bytes(memory));
    }
    Ok(how)
}

/// Returns the percentage as a byte. Returns 255 for a number above 255; the library refuses both.
fn percent(percent: c_uint) -> u8 {
    u8::try_from(percent).unwrap_or(u8::MAX)
}

/// Returns a closure that reports progress to the program.
pub(crate) fn progress_callback(watch: Option<Watch>, argument: *mut c_void) -> impl FnMut(Progress) {
    let mut report = step_callback(watch, argument);
    move |now| report(now.step, now.done, now.total)
}

fn step_callback(watch: Option<Watch>, argument: *mut c_void) -> impl FnMut(&'static str, u64, u64) {
    move |what, done, total| {
        if let Some(watch) = watch {
            let what = CString::new(what).unwrap_or_default();
            watch(what.as_ptr(), done, total, argument);
        }
    }
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_load(
    db: Handle<KeyedDatabase>,
    flags: c_uint,
    fill_percent: c_uint,
    memory: u64,
    next: Option<NextPair>,
    watch: Option<Watch>,
    argument: *mut c_void,
    count: Out<u64>,
) -> c_int {
    c_call("tp_load", || {
        count.set(0);
        let how = how(flags, fill_percent, memory)?;
        let next = given(next)?;
        let db = db.pin()?;
        count.set(db.db.try_load(&how, Source { next, argument }, &mut progress_callback(watch, argument))?);
        Ok(())
    })
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_multi_load(
    multi: Handle<MultiDatabase>,
    flags: c_uint,
    fill_percent: c_uint,
    memory: u64,
    next: Option<NextPair>,
    watch: Option<Watch>,
    argument: *mut c_void,
    count: Out<u64>,
) -> c_int {
    c_call("tp_multi_load", || {
        count.set(0);
        let how = how(flags, fill_percent, memory)?;
        let next = given(next)?;
        let multi = multi.pin()?;
        count.set(multi.multi.try_load(&how, Source { next, argument }, &mut progress_callback(watch, argument))?);
        Ok(())
    })
}

/// Compacts a database with `work`, reports progress to the program, and stores the counts for C.
fn compact(
    (watch, argument): (Option<Watch>, *mut c_void),
    (leaves, merged): (Out<u64>, Out<u64>),
    work: impl FnOnce(&mut dyn FnMut(Compaction)) -> libtp::Result<Compaction>,
) -> Outcome<()> {
    leaves.set(0);
    merged.set(0);
    let mut report = step_callback(watch, argument);
    let done = work(&mut |so_far| report("compacting", so_far.leaves, 0))?;
    leaves.set(done.leaves);
    merged.set(done.merged);
    Ok(())
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_compact(
    db: Handle<KeyedDatabase>,
    fill_percent: c_uint,
    watch: Option<Watch>,
    argument: *mut c_void,
    leaves: Out<u64>,
    merged: Out<u64>,
) -> c_int {
    c_call("tp_compact", || {
        let db = db.pin()?;
        compact((watch, argument), (leaves, merged), |progress_callback| {
            db.db.compact_watched(percent(fill_percent), progress_callback)
        })
    })
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_multi_compact(
    multi: Handle<MultiDatabase>,
    fill_percent: c_uint,
    watch: Option<Watch>,
    argument: *mut c_void,
    leaves: Out<u64>,
    merged: Out<u64>,
) -> c_int {
    c_call("tp_multi_compact", || {
        let multi = multi.pin()?;
        compact((watch, argument), (leaves, merged), |progress_callback| {
            multi.multi.compact_watched(percent(fill_percent), progress_callback)
        })
    })
}

//! `tp_segment`: recoverable memory that transactions join, in addition to their records.
//!
//! C has the address of the memory. After C has declared a range, it stores to the range directly until the transaction
//! ends. Every call of the library joins the segment again, and drops the joined segment before it returns. (A repeated
//! join only finds the segment in the transaction's list.) So no Rust reference to the memory exists while C stores to
//! it.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_uint, c_void};

use ::vista::{Guard, Options, Survives};
use libtp::{Joined, Segment};

use crate::answer::{c_call, Outcome, Trouble};
use crate::arguments::{Out, Text};
use crate::environment::{environment, Environment};
use crate::handles::Handle;
use crate::transaction::{both, opened, Transaction};

/// Flags as in `libtp.h`.
const TP_GUARDED: c_uint = 1;
const TP_ANYWHERE: c_uint = 2;
const TP_SURVIVES_SYSTEM: c_uint = 4;
const TP_SURVIVES_POWER: c_uint = 8;

opened! {
    /// The type that C calls `tp_segment`.
    MemorySegment { segment: Segment } = 17
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_segment_open(
    env: Handle<Environment>,
    name: Text,
    size: u64,
    segment: Out<Handle<MemorySegment>>,
) -> c_int {
    c_call("tp_segment_open", || {
        segment.answer("the segment", Handle::NULL, || {
            let env = environment(env)?;
            let segment = env.env.segment(name.needed("the name")?, size)?;
            Handle::of(MemorySegment { segment, env })
        })
    })
}

fn options(size: u64, flags: c_uint) -> Outcome<Options> {
    let unknown = flags & !(TP_GUARDED | TP_ANYWHERE | TP_SURVIVES_SYSTEM | TP_SURVIVES_POWER);
    if unknown != 0 {
        return Err(Trouble::misuse(format!("the flags have bits that mean nothing: {unknown:#x}")));
    }
    let mut options = Options::new(size);
    if flags & TP_GUARDED != 0 {
        options = options.guard(Guard::On);
    }
    if flags & TP_ANYWHERE != 0 {
        options = options.anywhere();
    }
    match (flags & TP_SURVIVES_SYSTEM != 0, flags & TP_SURVIVES_POWER != 0) {
        (_, true) => Ok(options.survives(Survives::Power)),
        (true, false) => Ok(options.survives(Survives::System)),
        (false, false) => Ok(options),
    }
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_segment_open_at(
    env: Handle<Environment>,
    path: Text,
    size: u64,
    flags: c_uint,
    segment: Out<Handle<MemorySegment>>,
) -> c_int {
    c_call("tp_segment_open_at", || {
        segment.answer("the segment", Handle::NULL, || {
            let env = environment(env)?;
            let segment = env.env.segment_at(path.path("the path")?, &options(size, flags)?)?;
            Handle::of(MemorySegment { segment, env })
        })
    })
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_segment_close(segment: Handle<MemorySegment>) -> c_int {
    c_call("tp_segment_close", || segment.close("first end the transactions that have joined it"))
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_segment_survives(segment: Handle<MemorySegment>, what: Out<c_uint>) -> c_int {
    c_call("tp_segment_survives", || {
        what.answer("the events that it survives", 0, || {
            Ok(match segment.pin()?.segment.survives() {
                Survives::Process => 0,
                Survives::System => TP_SURVIVES_SYSTEM,
                Survives::Power => TP_SURVIVES_POWER,
            })
        })
    })
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_segment_join(
    segment: Handle<MemorySegment>,
    txn: Handle<Transaction>,
    memory: Out<*mut c_void>,
    size: Out<usize>,
) -> c_int {
    c_call("tp_segment_join", || {
        memory.answer("the memory", std::ptr::null_mut(), || {
            size.set(0);
            let (pin, mut txn) = both(segment, txn)?;
            let joined = txn.writer()?.join(&pin.segment)?;
            let (address, bytes) = (joined.segment().address(), joined.bytes().len());
            drop(joined);
            txn.keep(segment.word(), pin);
            size.set(bytes);
            Ok(std::ptr::with_exposed_provenance_mut(address))
        })
    })
}

/// Does some work in a segment that the transaction has joined. Refuses other segments.
fn inside<T>(
    segment: Handle<MemorySegment>,
    txn: Handle<Transaction>,
    work: impl FnOnce(&mut Joined<'_>, usize) -> libtp::Result<T>,
) -> Outcome<T> {
    let (pin, txn) = both(segment, txn)?;
    let writer = txn.writer()?;
    if !txn.keeps(segment.word()) {
        return Err(Trouble::misuse("the transaction has not joined the segment: call tp_segment_join first"));
    }
    let mut joined = writer.join(&pin.segment)?;
    let address = joined.segment().address();
    Ok(work(&mut joined, address)?)
}

/// Returns the position of an address. For an address outside of the segment, returns a position that the segment does
/// not have.
fn position(place: *const c_void, address: usize) -> u64 {
    place.addr().wrapping_sub(address) as u64
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_segment_set_range(
    segment: Handle<MemorySegment>,
    txn: Handle<Transaction>,
    place: *mut c_void,
    size: usize,
) -> c_int {
    c_call("tp_segment_set_range", || {
        inside(segment, txn, |joined, address| joined.set_range(position(place, address), size).map(|_| ()))
    })
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_segment_malloc(
    segment: Handle<MemorySegment>,
    txn: Handle<Transaction>,
    size: usize,
    place: Out<*mut c_void>,
) -> c_int {
    c_call("tp_segment_malloc", || {
        let out = place.needed("the memory", std::ptr::null_mut())?;
        let taken = inside(segment, txn, |joined, address| Ok((joined.malloc(size as u64)?, address)))?;
        let (at, address) = taken;
        let at = usize::try_from(at)
            .map_err(|_| Trouble::full("the segment has no memory at an address that this process can use"))?;
        out.set(std::ptr::with_exposed_provenance_mut(address + at));
        Ok(())
    })
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_segment_free(
    segment: Handle<MemorySegment>,
    txn: Handle<Transaction>,
    place: *mut c_void,
) -> c_int {
    c_call("tp_segment_free", || inside(segment, txn, |joined, address| joined.free(position(place, address))))
}

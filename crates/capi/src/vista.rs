//! `vista.h`: the paper's interface (Rio Vista, section 4, figure 3).
//!
//! The `unsafe` is what C hands over: a segment that `vista_map` returned and nobody has unmapped, used by one thread at a
//! time, and a path that ends in a zero. Everything else is checked. A panic ends the process: it does not unwind into C.
#![allow(unsafe_code)]

use std::cell::RefCell;
use std::ffi::{c_char, c_int, c_void, CStr, CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use ::vista::{Guard, Options, Segment, Txn};

thread_local! {
    static ERROR: RefCell<CString> = RefCell::default();
}

/// What C has a pointer to.
pub struct Mapped {
    segment: Segment,
    is_in_transaction: bool,
}

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// What was asked for, or `failed` and a sentence for `vista_error`.
fn answer<T>(outcome: Outcome<T>, failed: T) -> T {
    outcome.unwrap_or_else(|error| {
        let text = error.to_string().replace('\0', " ");
        ERROR.set(CString::new(text).unwrap_or_default());
        failed
    })
}

/// # Safety
/// Null, or what `vista_map` returned and nobody has unmapped, used by nobody else until this call of C's returns.
unsafe fn mapped<'m>(segment: *mut Mapped) -> Outcome<&'m mut Mapped> {
    // SAFETY: the caller's promise is what `as_mut` asks for.
    unsafe { segment.as_mut() }.ok_or_else(|| "the segment is NULL: vista_map has failed, or was not called".into())
}

impl Mapped {
    /// Does a part of the transaction that goes on.
    fn part<T>(&mut self, call: &str, work: impl FnOnce(&mut Txn<'_>) -> ::vista::Result<T>) -> Outcome<T> {
        // First: what a child has to be told is not that a transaction of its parent's goes on, or that none does.
        self.segment.check_process()?;
        if !self.is_in_transaction {
            return Err(format!(
                "{call}: no transaction goes on with the segment {}. Nothing was changed; call vista_begin_transaction",
                self.segment.path().display()
            )
            .into());
        }
        let mut txn = self.segment.resume();
        let done = work(&mut txn);
        txn.suspend();
        Ok(done?)
    }

    fn begin(&mut self) -> Outcome<()> {
        self.segment.check_process()?;
        if self.is_in_transaction {
            return Err(format!(
                "a transaction goes on already with the segment {}: it has one at a time. It goes on; end or abort it first",
                self.segment.path().display()
            )
            .into());
        }
        self.segment.begin().suspend();
        self.is_in_transaction = true;
        Ok(())
    }

    /// Ends the transaction by `how`.
    fn finish(&mut self, call: &str, how: impl FnOnce(Txn<'_>) -> ::vista::Result<()>) -> Outcome<()> {
        self.part(call, |_| Ok(()))?;
        self.is_in_transaction = false;
        Ok(how(self.segment.resume())?)
    }

    /// The position of an address: what lies elsewhere is none that the segment has.
    fn at(&self, place: *const c_void) -> u64 {
        place.addr().wrapping_sub(self.segment.address()) as u64
    }

    fn place(&self, at: u64) -> Outcome<*mut c_void> {
        Ok(std::ptr::with_exposed_provenance_mut(self.segment.address() + usize::try_from(at)?))
    }
}

/// See `vista.h`.
#[no_mangle]
pub extern "C" fn vista_init() -> c_int {
    0
}

/// # Safety
/// `path` is null or a text that ends in a zero.
unsafe fn map(path: *const c_char, options: &Options) -> *mut Mapped {
    let map = || -> Outcome<*mut Mapped> {
        if path.is_null() {
            return Err("the path is NULL".into());
        }
        // SAFETY: the caller's promise.
        let path = unsafe { CStr::from_ptr(path) };
        let segment = options.open(Path::new(OsStr::from_bytes(path.to_bytes())))?;
        Ok(Box::into_raw(Box::new(Mapped { segment, is_in_transaction: false })))
    };
    answer(map(), std::ptr::null_mut())
}

/// See `vista.h`.
///
/// # Safety
/// `path` is a text that ends in a zero.
#[no_mangle]
pub unsafe extern "C" fn vista_map(path: *const c_char, bytes: usize) -> *mut Mapped {
    // SAFETY: the caller's promise.
    unsafe { map(path, &Options::new(bytes as u64)) }
}

/// See `vista.h`.
///
/// # Safety
/// `path` is a text that ends in a zero.
#[no_mangle]
pub unsafe extern "C" fn vista_map_guarded(path: *const c_char, bytes: usize) -> *mut Mapped {
    // SAFETY: the caller's promise.
    unsafe { map(path, &Options::new(bytes as u64).guard(Guard::On)) }
}

/// See `vista.h`.
///
/// # Safety
/// As `mapped`.
#[no_mangle]
pub unsafe extern "C" fn vista_unmap(segment: *mut Mapped) -> c_int {
    // SAFETY: the caller's promise.
    let there = unsafe { mapped(segment) };
    let unmap = |mapped: *mut Mapped| -> Outcome<c_int> {
        // SAFETY: it was made by `Box::into_raw` in `vista_map`, and C gives it back here, once.
        let mut mapped = unsafe { Box::from_raw(mapped) };
        if mapped.is_in_transaction {
            mapped.segment.resume().abort();
        }
        mapped.segment.close()?;
        Ok(0)
    };
    answer(there.and_then(|there| unmap(there)), -1)
}

/// See `vista.h`.
///
/// # Safety
/// As `mapped`.
#[no_mangle]
pub unsafe extern "C" fn vista_address(segment: *mut Mapped) -> *mut c_void {
    // SAFETY: the caller's promise.
    answer(unsafe { mapped(segment) }.and_then(|mapped| mapped.place(0)), std::ptr::null_mut())
}

/// See `vista.h`.
///
/// # Safety
/// As `mapped`.
#[no_mangle]
pub unsafe extern "C" fn vista_bytes(segment: *mut Mapped) -> usize {
    // SAFETY: the caller's promise.
    answer(unsafe { mapped(segment) }.map(|mapped| mapped.segment.bytes().len()), 0)
}

/// See `vista.h`.
///
/// # Safety
/// As `mapped`.
#[no_mangle]
pub unsafe extern "C" fn vista_begin_transaction(segment: *mut Mapped) -> c_int {
    // SAFETY: the caller's promise.
    answer(unsafe { mapped(segment) }.and_then(|mapped| mapped.begin()).map(|()| 0), -1)
}

/// See `vista.h`.
///
/// # Safety
/// As `mapped`. `place` may be anything.
#[no_mangle]
pub unsafe extern "C" fn vista_set_range(segment: *mut Mapped, place: *mut c_void, bytes: usize) -> c_int {
    // SAFETY: the caller's promise.
    let declared = unsafe { mapped(segment) }.and_then(|mapped| {
        let at = mapped.at(place);
        mapped.part("vista_set_range", |txn| txn.set_range(at, bytes).map(|_| 0))
    });
    answer(declared, -1)
}

/// See `vista.h`.
///
/// # Safety
/// As `mapped`.
#[no_mangle]
pub unsafe extern "C" fn vista_end_transaction(segment: *mut Mapped) -> c_int {
    // SAFETY: the caller's promise.
    let ended = unsafe { mapped(segment) }.and_then(|mapped| mapped.finish("vista_end_transaction", |txn| txn.end()));
    answer(ended.map(|()| 0), -1)
}

/// See `vista.h`.
///
/// # Safety
/// As `mapped`.
#[no_mangle]
pub unsafe extern "C" fn vista_abort_transaction(segment: *mut Mapped) -> c_int {
    let abort = |txn: Txn<'_>| {
        txn.abort();
        Ok(())
    };
    // SAFETY: the caller's promise.
    let aborted = unsafe { mapped(segment) }.and_then(|mapped| mapped.finish("vista_abort_transaction", abort));
    answer(aborted.map(|()| 0), -1)
}

/// See `vista.h`.
///
/// # Safety
/// As `mapped`.
#[no_mangle]
pub unsafe extern "C" fn vista_malloc(segment: *mut Mapped, bytes: usize) -> *mut c_void {
    // SAFETY: the caller's promise.
    let taken = unsafe { mapped(segment) }.and_then(|mapped| {
        let at = mapped.part("vista_malloc", |txn| txn.malloc(bytes as u64))?;
        mapped.place(at)
    });
    answer(taken, std::ptr::null_mut())
}

/// See `vista.h`.
///
/// # Safety
/// As `mapped`. `place` may be anything.
#[no_mangle]
pub unsafe extern "C" fn vista_free(segment: *mut Mapped, place: *mut c_void) -> c_int {
    // SAFETY: the caller's promise.
    let freed = unsafe { mapped(segment) }.and_then(|mapped| {
        let at = mapped.at(place);
        mapped.part("vista_free", |txn| txn.free(at))
    });
    answer(freed.map(|()| 0), -1)
}

/// See `vista.h`.
#[no_mangle]
pub extern "C" fn vista_error() -> *const c_char {
    ERROR.with_borrow(|error| error.as_ptr())
}

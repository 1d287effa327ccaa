//! `vista.h`: the paper's interface (Rio Vista, section 4, figure 3).
//!
//! C uses a segment through a handle, like every other value ([`handles`](crate::handles)). A call fails if its segment
//! was unmapped, or if another call is using the segment. A panic ends the process: it does not unwind into C.
#![allow(unsafe_code)]

use std::cell::RefCell;
use std::ffi::{c_char, c_int, c_void, CString};

use ::vista::{Guard, Options, Segment, Txn};

use crate::answer::Trouble;
use crate::arguments::Text;
use crate::handles::{kind, Handle, Held};

thread_local! {
    static ERROR: RefCell<CString> = RefCell::default();
}

/// The type that C calls `vista`.
pub struct Mapped {
    segment: Segment,
    is_in_transaction: bool,
}

kind!(Mapped = 18);

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// Returns the outcome, or stores the error for `vista_error` and returns `failed`.
fn answer<T>(outcome: Outcome<T>, failed: T) -> T {
    outcome.unwrap_or_else(|error| {
        let text = error.to_string().replace('\0', " ");
        ERROR.set(CString::new(text).unwrap_or_default());
        failed
    })
}

fn boxed(trouble: &Trouble) -> Box<dyn std::error::Error> {
    trouble.text().into()
}

/// Holds the segment, so that no other call can use it until the returned guard is dropped.
fn mapped(segment: Handle<Mapped>) -> Outcome<Held<Mapped>> {
    segment.hold().map_err(|trouble| boxed(&trouble))
}

impl Mapped {
    /// Does some work in the current transaction.
    fn part<T>(&mut self, call: &str, work: impl FnOnce(&mut Txn<'_>) -> ::vista::Result<T>) -> Outcome<T> {
        // This check comes first, so that the child of a fork gets an error about the fork, and not about its parent's
        // transaction.
        self.segment.check_process()?;
        if !self.is_in_transaction {
            return Err(format!(
                "{call}: no transaction is running with the segment {}. Nothing was changed; call vista_begin_transaction first",
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
                "a transaction is running with the segment {} already, and a segment has one at a time. That transaction is still running; end or abort it first",
                self.segment.path().display()
            )
            .into());
        }
        self.segment.begin().suspend();
        self.is_in_transaction = true;
        Ok(())
    }

    /// Ends the transaction with `how`: a commit or an abort.
    fn finish(&mut self, call: &str, how: impl FnOnce(Txn<'_>) -> ::vista::Result<()>) -> Outcome<()> {
        self.part(call, |_| Ok(()))?;
        self.is_in_transaction = false;
        Ok(how(self.segment.resume())?)
    }

    /// Returns the position of an address. For an address outside of the segment, returns a position that the segment
    /// does not have.
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

fn map(path: Text, options: &Options) -> Handle<Mapped> {
    let map = || -> Outcome<Handle<Mapped>> {
        let segment = options.open(path.path("the path").map_err(|trouble| boxed(&trouble))?)?;
        Handle::of(Mapped { segment, is_in_transaction: false }).map_err(|trouble| boxed(&trouble))
    };
    answer(map(), Handle::NULL)
}

/// See `vista.h`.
#[no_mangle]
pub extern "C" fn vista_map(path: Text, bytes: usize) -> Handle<Mapped> {
    map(path, &Options::new(bytes as u64))
}

/// See `vista.h`.
#[no_mangle]
pub extern "C" fn vista_map_guarded(path: Text, bytes: usize) -> Handle<Mapped> {
    map(path, &Options::new(bytes as u64).guard(Guard::On))
}

/// See `vista.h`.
#[no_mangle]
pub extern "C" fn vista_unmap(segment: Handle<Mapped>) -> c_int {
    let unmap = |mut mapped: Mapped| -> Outcome<c_int> {
        if mapped.is_in_transaction {
            mapped.segment.resume().abort();
        }
        mapped.segment.close()?;
        Ok(0)
    };
    answer(mapped(segment).and_then(|held| unmap(held.remove())), -1)
}

/// See `vista.h`.
#[no_mangle]
pub extern "C" fn vista_address(segment: Handle<Mapped>) -> *mut c_void {
    answer(mapped(segment).and_then(|mapped| mapped.place(0)), std::ptr::null_mut())
}

/// See `vista.h`.
#[no_mangle]
pub extern "C" fn vista_bytes(segment: Handle<Mapped>) -> usize {
    answer(mapped(segment).map(|mapped| mapped.segment.bytes().len()), 0)
}

/// See `vista.h`.
#[no_mangle]
pub extern "C" fn vista_begin_transaction(segment: Handle<Mapped>) -> c_int {
    answer(mapped(segment).and_then(|mut mapped| mapped.begin()).map(|()| 0), -1)
}

/// See `vista.h`.
#[no_mangle]
pub extern "C" fn vista_set_range(segment: Handle<Mapped>, place: *mut c_void, bytes: usize) -> c_int {
    let declared = mapped(segment).and_then(|mut mapped| {
        let at = mapped.at(place);
        mapped.part("vista_set_range", |txn| txn.set_range(at, bytes).map(|_| 0))
    });
    answer(declared, -1)
}

/// See `vista.h`.
#[no_mangle]
pub extern "C" fn vista_end_transaction(segment: Handle<Mapped>) -> c_int {
    let ended = mapped(segment).and_then(|mut mapped| mapped.finish("vista_end_transaction", |txn| txn.end()));
    answer(ended.map(|()| 0), -1)
}

/// See `vista.h`.
#[no_mangle]
pub extern "C" fn vista_abort_transaction(segment: Handle<Mapped>) -> c_int {
    let abort = |txn: Txn<'_>| {
        txn.abort();
        Ok(())
    };
    let aborted = mapped(segment).and_then(|mut mapped| mapped.finish("vista_abort_transaction", abort));
    answer(aborted.map(|()| 0), -1)
}

/// See `vista.h`.
#[no_mangle]
pub extern "C" fn vista_malloc(segment: Handle<Mapped>, bytes: usize) -> *mut c_void {
    let taken = mapped(segment).and_then(|mut mapped| {
        let at = mapped.part("vista_malloc", |txn| txn.malloc(bytes as u64))?;
        mapped.place(at)
    });
    answer(taken, std::ptr::null_mut())
}

/// See `vista.h`.
#[no_mangle]
pub extern "C" fn vista_free(segment: Handle<Mapped>, place: *mut c_void) -> c_int {
    let freed = mapped(segment).and_then(|mut mapped| {
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

//! libpmemobj as an engine: undo logs in a pool, with a call of `pmemobj_tx_add_range_direct` for each range.
//!
//! Memory that survives a crash together with the processor's cache needs no flushes. libpmemobj takes this setting
//! from environment variables when it is loaded: [`PMEMOBJ_VARIABLES`](super::PMEMOBJ_VARIABLES).
#![allow(unsafe_code)] // A C library.

use std::ffi::{c_char, c_int, c_void, CStr, CString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::NonNull;

use super::change::{Change, Memory};
use crate::error::{Error, Result};

const NAME: &str = "pmemobj";
/// A pool has one and a half times the bytes of the database, and this number of bytes for its log and metadata.
const BESIDE: u64 = 64 << 20;
const TX_PARAM_NONE: c_int = 0;

#[repr(C)]
struct RawPool {
    _opaque: [u8; 0],
}

/// `PMEMoid`: the pool, and the offset in it.
#[repr(C)]
struct RawPlace {
    _pool: u64,
    at: u64,
}

extern "C" {
    fn pmemobj_create(path: *const c_char, layout: *const c_char, bytes: usize, mode: u32) -> *mut RawPool;
    fn pmemobj_close(pool: *mut RawPool);
    fn pmemobj_root(pool: *mut RawPool, bytes: usize) -> RawPlace;
    fn pmemobj_tx_begin(pool: *mut RawPool, jump: *mut c_void, ...) -> c_int;
    fn pmemobj_tx_add_range_direct(place: *const c_void, bytes: usize) -> c_int;
    fn pmemobj_tx_commit();
    fn pmemobj_tx_end() -> c_int;
    fn pmemobj_errormsg() -> *const c_char;
}

/// A pool with one object, which is the database.
///
/// Invariant: `pool` comes from `pmemobj_create`, and only `drop` closes it; `base` is the address of the pool's root
/// object, which has `bytes` bytes.
pub(super) struct Pool {
    pool: NonNull<RawPool>,
    base: NonNull<u8>,
    bytes: usize,
}

fn refused(what: &'static str) -> Error {
    // SAFETY: the call has no preconditions. It returns this thread's last message.
    let message = unsafe { pmemobj_errormsg() };
    // SAFETY: the string is valid until this thread's next call of libpmemobj, and is copied before that call.
    let message = unsafe { CStr::from_ptr(message) };
    Error::engine(NAME, what)(message.to_string_lossy())
}

impl Pool {
    /// Makes a pool in the file at `path`.
    pub(super) fn create(path: &Path, bytes: u64) -> Result<Pool> {
        let path = CString::new(path.as_os_str().as_bytes()).map_err(|why| Error::Settings(why.to_string()))?;
        let (bytes, all) = (super::size(bytes), super::size(bytes + bytes / 2 + BESIDE));
        // SAFETY: the two strings outlive the call.
        let pool = unsafe { pmemobj_create(path.as_ptr(), c"libtp".as_ptr(), all, 0o600) };
        let pool = NonNull::new(pool).ok_or_else(|| refused("making a pool"))?;
        // SAFETY: the pool is open.
        let root = unsafe { pmemobj_root(pool.as_ptr(), bytes) };
        if root.at == 0 {
            return Err(refused("making the database"));
        }
        // The root's offset counts from the beginning of the pool, and `pool` is the address where the pool is mapped.
        let base = pool.cast::<u8>().as_ptr().wrapping_add(super::size(root.at));
        let base = NonNull::new(base).ok_or_else(|| refused("finding the database"))?;
        Ok(Pool { pool, base, bytes })
    }

    /// Returns the database.
    pub(super) fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: the root object has `bytes` initialized bytes (zeros at first), and the slice borrows this value.
        unsafe { std::slice::from_raw_parts_mut(self.base.as_ptr(), self.bytes) }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        // SAFETY: the pool is open, and closed only here (invariant).
        unsafe { pmemobj_close(self.pool.as_ptr()) };
    }
}

/// A transaction.
pub(super) struct PoolTxn<'p>(&'p mut Pool);

impl Memory for Pool {
    type Txn<'m> = PoolTxn<'m>;

    fn begin(&mut self) -> Result<PoolTxn<'_>> {
        // SAFETY: the pool is open. Without a jump buffer the call returns even if the transaction aborts.
        match unsafe { pmemobj_tx_begin(self.pool.as_ptr(), std::ptr::null_mut(), TX_PARAM_NONE) } {
            0 => Ok(PoolTxn(self)),
            _ => Err(refused("beginning")),
        }
    }
}

impl Change for PoolTxn<'_> {
    fn range<const N: usize>(&mut self, at: u64) -> Result<&mut [u8; N]> {
        let range = self.range_of(at, N)?;
        Ok(range.try_into().expect("the range has the declared length"))
    }

    fn range_of(&mut self, at: u64, bytes: usize) -> Result<&mut [u8]> {
        let range = self.0.bytes().get_mut(super::size(at)..).and_then(|rest| rest.get_mut(..bytes));
        let range = range.ok_or_else(|| Error::Settings(format!("no range of {bytes} bytes at {at}")))?;
        // SAFETY: the range is in the pool, and this thread has a transaction of the pool.
        match unsafe { pmemobj_tx_add_range_direct(range.as_ptr().cast(), bytes) } {
            0 => Ok(range),
            _ => Err(refused("declaring a range")),
        }
    }

    fn look<const N: usize>(&mut self, at: u64) -> Result<[u8; N]> {
        let range = self.0.bytes().get(super::size(at)..).and_then(|rest| rest.first_chunk());
        range.copied().ok_or_else(|| Error::Settings(format!("no range of {N} bytes at {at}")))
    }

    fn end(self) -> Result<()> {
        // SAFETY: `begin` began this thread's transaction.
        unsafe { pmemobj_tx_commit() };
        // SAFETY: this thread's transaction has been committed, and must be ended.
        match unsafe { pmemobj_tx_end() } {
            0 => Ok(()),
            _ => Err(refused("committing")),
        }
    }
}

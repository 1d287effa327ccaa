//! The primitive calls: pages whose contents the program defines, log records of the program's own types, and locks on
//! pages and on objects that the program names. Calls that the paper has keep the paper's names (LIBTP 3.2 and 4.4).
//!
//! The paper's `buf_get` returns the frame in shared memory. Here `buf_get` returns a copy of the page, which belongs
//! to the transaction until `buf_unpin` stores its bytes in the page (docs/design/0019).
#![allow(unsafe_code)]

use std::ffi::{c_int, c_uint, c_void};

use libtp::{Mode, PageFile, PageLock};

use crate::answer::{c_call, Outcome, Trouble};
use crate::arguments::{In, Out, Text};
use crate::environment::{environment, Environment};
use crate::handles::Handle;
use crate::transaction::{both, opened, transaction, Transaction};

/// Flags as in `libtp.h`.
const DB_SHARED: c_uint = 1;
const DB_TP: c_uint = 2;
const BF_PIN: c_int = 1;

opened! {
    /// The type that C calls `tp_pages`.
    Pages { file: PageFile } = 8
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn buf_open(env: Handle<Environment>, name: Text, flags: c_uint, fid: Out<Handle<Pages>>) -> c_int {
    c_call("buf_open", || {
        let place = fid.needed("the file", Handle::NULL)?;
        if flags & !(DB_SHARED | DB_TP) != 0 {
            return Err(Trouble::misuse(format!("the flags have bits that mean nothing: {flags:#x}")));
        }
        let env = environment(env)?;
        let file = env.env.pages(name.needed("the name")?)?;
        place.set(Handle::of(Pages { file, env })?);
        Ok(())
    })
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn buf_close(fid: Handle<Pages>) -> c_int {
    c_call("buf_close", || fid.close("let no other thread be in a call with it"))
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn buf_page_size(fid: Handle<Pages>, size: Out<usize>) -> c_int {
    c_call("buf_page_size", || size.answer("the size", 0, || Ok(fid.pin()?.file.page_bytes())))
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn buf_get(
    fid: Handle<Pages>,
    txn: Handle<Transaction>,
    pageno: u32,
    how: c_int,
    page: Out<*mut c_void>,
    size: Out<usize>,
) -> c_int {
    c_call("buf_get", || {
        let place = page.needed("the page", std::ptr::null_mut())?;
        size.set(0);
        if how != BF_PIN {
            return Err(Trouble::misuse(format!("{how} is not a flag of buf_get: give BF_PIN")));
        }
        let (pages, mut txn) = both(fid, txn)?;
        if txn.copy(fid.word(), pageno).is_none() {
            let copy = pages.file.get(txn.writer()?, pageno)?;
            txn.add_copy(fid.word(), pageno, copy);
        }
        let copy = txn.copy(fid.word(), pageno).ok_or_else(Trouble::not_found)?;
        // A page with only zeros was never written.
        size.set(if copy.bytes.iter().all(|&byte| byte == 0) { 0 } else { copy.bytes.len() });
        place.set(copy.bytes.as_mut_ptr().cast());
        Ok(())
    })
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn buf_unpin(fid: Handle<Pages>, txn: Handle<Transaction>, pageno: u32) -> c_int {
    c_call("buf_unpin", || {
        let (pages, mut txn) = both(fid, txn)?;
        let not_there = || {
            Trouble::misuse(format!("the transaction has no copy of page {pageno} of this file: call buf_get first"))
        };
        let copied = txn.take_copy(fid.word(), pageno).ok_or_else(not_there)?;
        if !copied.is_changed() {
            return Ok(());
        }
        pages.file.put(txn.writer()?, &copied.copy)?;
        Ok(())
    })
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_lock(fid: Handle<Pages>, txn: Handle<Transaction>, pageno: u32, mode: c_int) -> c_int {
    c_call("tp_lock", || {
        let (pages, txn) = both(fid, txn)?;
        let lock = match mode {
            1 => PageLock::Read,
            2 => PageLock::Write,
            _ => return Err(no_mode(mode)),
        };
        Ok(pages.file.lock(txn.writer()?, pageno, lock)?)
    })
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_unlock(fid: Handle<Pages>, txn: Handle<Transaction>, pageno: u32) -> c_int {
    c_call("tp_unlock", || {
        let (pages, txn) = both(fid, txn)?;
        Ok(pages.file.unlock(txn.writer()?, pageno)?)
    })
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_log(
    fid: Handle<Pages>,
    txn: Handle<Transaction>,
    pageno: u32,
    code: u16,
    argument: In,
    size: usize,
) -> c_int {
    c_call("tp_log", || {
        let (pages, mut txn) = both(fid, txn)?;
        if txn.copy(fid.word(), pageno).is_some() {
            return Err(Trouble::misuse(format!(
                "the transaction has a copy of page {pageno} already: unpin the page first (buf_unpin)"
            )));
        }
        pages.file.apply(txn.writer()?, pageno, code, argument.bytes("the argument", size)?)?;
        Ok(())
    })
}

fn no_mode(mode: c_int) -> Trouble {
    Trouble::misuse(format!("{mode} is not a mode of a lock: give READ_LOCK or WRITE_LOCK"))
}

fn mode_of(mode: c_int) -> Outcome<Mode> {
    match mode {
        1 => Ok(Mode::S),
        2 => Ok(Mode::X),
        _ => Err(no_mode(mode)),
    }
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn lock_get(txn: Handle<Transaction>, name: In, size: usize, mode: c_int) -> c_int {
    c_call("lock_get", || Ok(transaction(txn)?.writer()?.lock(name.bytes("the name", size)?, mode_of(mode)?)?))
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn lock_downgrade(txn: Handle<Transaction>, name: In, size: usize, mode: c_int) -> c_int {
    c_call("lock_downgrade", || {
        Ok(transaction(txn)?.writer()?.lock_downgrade(name.bytes("the name", size)?, mode_of(mode)?)?)
    })
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn lock_release(txn: Handle<Transaction>, name: In, size: usize) -> c_int {
    c_call("lock_release", || Ok(transaction(txn)?.writer()?.unlock(name.bytes("the name", size)?)?))
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn lock_unlock_all(txn: Handle<Transaction>) -> c_int {
    c_call("lock_unlock_all", || {
        transaction(txn)?.writer()?.unlock_objects()?;
        Ok(())
    })
}

//! `txn_begin`, `txn_commit`, `txn_abort`: the transaction of a thread (LIBTP 3.2.5).
//!
//! The transaction has no handle: the thread's calls on files opened with DB_TXN belong to it. `txn_begin` only notes
//! that the thread has a transaction. The first call on such a file begins the transaction, in the environment of the
//! file.
//!
//! Invariants
//! 1. The transaction is dropped before the environment that it borrows from (by the order of the fields).
//! 2. No value that borrows from the transaction leaves this file.
#![allow(unsafe_code)]

use std::cell::RefCell;
use std::ffi::c_int;
use std::sync::Arc;

use libtp::{TextFile, Txn};

use crate::db::environments::OpenEnvironment;
use crate::db::refusal::{Answer, Refusal};
use crate::db::{answer, SUCCESS};

struct Begun {
    txn: Txn<'static>,
    home: Arc<OpenEnvironment>,
    /// The names of the databases that the transaction has used, and on which it may hold locks.
    used: Vec<String>,
    /// Text files to write after the transaction's end.
    texts: Vec<Arc<TextFile>>,
}

enum Current {
    None,
    /// `txn_begin` was called, and no file has been used since.
    Empty,
    Begun(Box<Begun>),
}

thread_local! {
    static CURRENT: RefCell<Current> = const { RefCell::new(Current::None) };
}

/// Returns the refusal for a thread that is ending. Its transaction, if it had one, has been aborted.
fn ended() -> Refusal {
    Refusal::invalid("the thread is ending, and no longer has a transaction")
}

/// Returns the refusal for a thread that is inside another call, for example in a function of the program.
fn busy() -> Refusal {
    Refusal::invalid(
        "this thread is inside another call of db.h: a function that such a call runs may not use the library",
    )
}

/// Does some work with a database in the thread's transaction. Returns `None`, and does nothing, if the thread has no
/// transaction.
pub(crate) fn within<T>(
    home: &Arc<OpenEnvironment>,
    name: &str,
    work: impl FnOnce(&Txn<'_>) -> libtp::Result<T>,
) -> Answer<Option<T>> {
    let run = |current: &RefCell<Current>| {
        let mut current = current.try_borrow_mut().map_err(|_| busy())?;
        if let Current::Empty = *current {
            let home = Arc::clone(home);
            let env: *const OpenEnvironment = Arc::as_ptr(&home);
            // SAFETY: the `Arc` in `Begun` keeps the environment alive, and is dropped after the transaction
            // (invariant 1).
            let env = unsafe { &*env };
            let txn = env.env.begin()?;
            *current = Current::Begun(Box::new(Begun { txn, home, used: Vec::new(), texts: Vec::new() }));
        }
        match &mut *current {
            Current::None | Current::Empty => Ok(None),
            Current::Begun(begun) if Arc::ptr_eq(&begun.home, home) => {
                if !begun.used.iter().any(|used| used == name) {
                    begun.used.push(name.into());
                }
                Ok(Some(work(&begun.txn)?))
            }
            Current::Begun(begun) => {
                let what = format!(
                    "the thread's transaction is in the environment {}, and the file is in {}: a transaction has one environment. Nothing was changed",
                    begun.home.directory.display(),
                    home.directory.display()
                );
                Err(Refusal::new(libc::EXDEV, what))
            }
        }
    };
    CURRENT.try_with(run).unwrap_or_else(|_| Err(ended()))
}

/// Returns whether the thread has a transaction in this environment. Such a transaction may hold locks there.
pub(crate) fn has_begun(home: &Arc<OpenEnvironment>) -> Answer<bool> {
    let look = |current: &RefCell<Current>| matches!(&*current.borrow(), Current::Begun(begun) if Arc::ptr_eq(&begun.home, home));
    CURRENT.try_with(look).map_err(|_| ended())
}

/// Returns whether the thread's transaction has used this database. If so, it may hold locks on the database.
pub(crate) fn has_used(home: &Arc<OpenEnvironment>, name: &str) -> Answer<bool> {
    let look = |current: &RefCell<Current>| match &*current.try_borrow().map_err(|_| busy())? {
        Current::Begun(begun) => Ok(Arc::ptr_eq(&begun.home, home) && begun.used.iter().any(|used| used == name)),
        _ => Ok(false),
    };
    CURRENT.try_with(look).unwrap_or_else(|_| Err(ended()))
}

/// Schedules a text file to be written when the thread's transaction in this environment ends. Returns false if the
/// thread has no such transaction. (A write at once would wait for the transaction's locks for ever.)
pub(crate) fn afterwards(home: &Arc<OpenEnvironment>, text: &Arc<TextFile>) -> Answer<bool> {
    let add = |current: &RefCell<Current>| match &mut *current.borrow_mut() {
        Current::Begun(begun) if Arc::ptr_eq(&begun.home, home) => {
            if !begun.texts.iter().any(|other| Arc::ptr_eq(other, text)) {
                begun.texts.push(Arc::clone(text));
            }
            true
        }
        _ => false,
    };
    CURRENT.try_with(add).map_err(|_| ended())
}

fn begin() -> Answer<()> {
    let begin = |current: &RefCell<Current>| match &mut *current.borrow_mut() {
        current @ Current::None => {
            *current = Current::Empty;
            Ok(())
        }
        _ => Err(Refusal::invalid(
            "the thread has a transaction already, which is still running; commit or abort it first",
        )),
    };
    CURRENT.try_with(begin).unwrap_or_else(|_| Err(ended()))
}

fn end(how: impl FnOnce(Txn<'_>) -> libtp::Result<()>) -> Answer<()> {
    match CURRENT.try_with(|current| current.replace(Current::None)).map_err(|_| ended())? {
        Current::None => Err(Refusal::invalid("the thread has no transaction; call txn_begin first")),
        Current::Empty => Ok(()),
        Current::Begun(begun) => {
            let Begun { txn, home: _home, texts, .. } = *begun;
            let ended = how(txn);
            for text in texts {
                // If the text file cannot be written, the records stay in the list, and the next sync of the file
                // reports the error.
                let _ = text.sync();
            }
            Ok(ended?)
        }
    }
}

/// See `db.h`.
#[no_mangle]
pub extern "C" fn txn_begin() -> c_int {
    answer("txn_begin", || begin().map(|()| SUCCESS))
}

/// See `db.h`.
#[no_mangle]
pub extern "C" fn txn_commit() -> c_int {
    answer("txn_commit", || end(|txn| txn.commit()).map(|()| SUCCESS))
}

/// See `db.h`.
#[no_mangle]
pub extern "C" fn txn_abort() -> c_int {
    answer("txn_abort", || end(|txn| txn.abort()).map(|()| SUCCESS))
}

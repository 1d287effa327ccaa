//! Calls that read the log, by the paper's names (LIBTP 3.2.1): `log_read`, `log_roll` and `log_unroll`.
//!
//! The calls pass each record to a function of the program, because the library only lends the record's bytes: it
//! releases them before it reads the next record.
#![allow(unsafe_code)]

use std::ffi::{c_char, c_int, c_void, CString};
use std::ops::ControlFlow;

use crate::answer::{c_call, Outcome, Trouble, TP_OK};
use crate::arguments::{given, Out};
use crate::environment::{environment, Environment};
use crate::handles::Handle;
use crate::transaction::{transaction, Transaction};

/// `tp_log_record`.
#[repr(C)]
pub struct LogRecord {
    lsn: u64,
    prev: u64,
    txn: u64,
    code: u16,
    is_compensation: u16,
    kind: *const c_char,
    text: *const c_char,
    body: *const c_void,
    body_size: usize,
}

/// `tp_log_visit`.
pub type LogVisit = extern "C" fn(*const LogRecord, *mut c_void) -> c_int;

/// Returns the part of the text that C sees: the text up to its first zero byte.
fn text(from: &str) -> CString {
    let before = from.split('\0').next().unwrap_or_default();
    CString::new(before).unwrap_or_default()
}

/// Shows a record to the program's function. Breaks with the function's code, unless that code is `TP_OK`.
fn show(visit: LogVisit, record: &libtp::LogRecord, argument: *mut c_void) -> ControlFlow<c_int> {
    let (kind, says) = (text(&record.kind), text(&record.text));
    let shown = LogRecord {
        lsn: record.lsn,
        prev: record.prev,
        txn: record.txn,
        code: record.code,
        is_compensation: record.compensation.into(),
        kind: kind.as_ptr(),
        text: says.as_ptr(),
        body: record.body.as_ptr().cast(),
        body_size: record.body.len(),
    };
    match visit(&shown, argument) {
        TP_OK => ControlFlow::Continue(()),
        code => ControlFlow::Break(code),
    }
}

/// Shows records until the program's function returns a code other than `TP_OK`.
fn walk(
    visit: Option<LogVisit>,
    argument: *mut c_void,
    through: impl FnOnce(&mut dyn FnMut(libtp::LogRecord) -> bool) -> libtp::Result<()>,
) -> Outcome<()> {
    let visit = given(visit)?;
    let mut ended = ControlFlow::Continue(());
    through(&mut |record| {
        ended = show(visit, &record, argument);
        ended.is_continue()
    })?;
    match ended {
        ControlFlow::Break(code) => Err(Trouble::of_the_program(code, "the rest of the log was not shown")),
        ControlFlow::Continue(()) => Ok(()),
    }
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn log_read(
    env: Handle<Environment>,
    lsn: u64,
    visit: Option<LogVisit>,
    argument: *mut c_void,
) -> c_int {
    c_call("log_read", || {
        let env = environment(env)?;
        let record = env.env.log_record(lsn)?.ok_or_else(Trouble::not_found)?;
        walk(visit, argument, |show| {
            show(record);
            Ok(())
        })
    })
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn log_roll(
    env: Handle<Environment>,
    from: u64,
    visit: Option<LogVisit>,
    argument: *mut c_void,
) -> c_int {
    c_call("log_roll", || {
        let env = environment(env)?;
        walk(visit, argument, |show| env.env.log_records(from, show))
    })
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn log_unroll(
    env: Handle<Environment>,
    last: u64,
    visit: Option<LogVisit>,
    argument: *mut c_void,
) -> c_int {
    c_call("log_unroll", || {
        let env = environment(env)?;
        walk(visit, argument, |show| env.env.log_unroll(last, show))
    })
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_last_lsn(txn: Handle<Transaction>, lsn: Out<u64>) -> c_int {
    c_call("tp_last_lsn", || lsn.answer("the number", 0, || Ok(transaction(txn)?.writer()?.last_lsn())))
}

//! The functions that the shim calls (c/shim.h). No panic leaves a call. A call that can fail returns a code of SQLite.
//!
//! For the shim, a connection is a pointer: [`tpsql_open`] makes it and [`tpsql_close`] frees it. A cursor is a number.

#![allow(unsafe_code)] // `no_mangle`

use std::cell::RefCell;
use std::ffi::{c_char, c_int};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::time::Duration;

use libtp::Durability;

use crate::answer::{Outcome, Refusal, CANTOPEN, CORRUPT, DONE, INTERNAL, INTERRUPT, OK};
use crate::arguments::{bytes, fields, path, word, Field};
use crate::chosen::{is_chosen, VARIABLE};
use crate::connection::Connection;
use crate::cursor::{Cursor, Fault, SearchKey};
use crate::home::Home;
use crate::session::{BeginMode, Session};

thread_local! {
    /// The error of this thread's last opening, if it failed.
    static REFUSAL: RefCell<(c_int, String)> = const { RefCell::new((OK, String::new())) };
}

fn caught<T>(work: impl FnOnce() -> Outcome<T>) -> Outcome<T> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
        let what = "the library panicked, which is a bug in it: please report it. The transaction was undone";
        Err(Refusal { ends_transaction: true, ..Refusal::new(INTERNAL, what) })
    })
}

/// Runs a call with a connection, and stores the text of its error in the connection.
fn call(connection: &mut Connection, work: impl FnOnce(&mut Connection) -> Outcome<c_int>) -> c_int {
    caught(|| work(connection)).unwrap_or_else(|refusal| refused(connection, refusal))
}

fn refused(connection: &mut Connection, refusal: Refusal) -> c_int {
    if refusal.ends_transaction {
        connection.doom(&refusal.sentence);
    }
    let session = &mut connection.session;
    session.failed_before = refusal.is_repeated;
    // If an earlier error is returned again, the text of the earlier error stays.
    if !session.failed_before || session.refused.as_ref().is_none_or(|(code, _)| *code != refusal.code) {
        // Programs compare this text with SQLite's own.
        let sentence = if refusal.code == INTERRUPT { "interrupted".to_owned() } else { refusal.sentence };
        session.refused = Some((refusal.code, sentence));
    }
    refusal.code
}

/// Runs a call with a cursor.
fn at(
    connection: &mut Connection,
    cursor: u32,
    work: impl FnOnce(&mut Cursor, &mut Session) -> Outcome<c_int>,
) -> c_int {
    call(connection, |connection| {
        let (cursor, session) = connection.cursor(cursor)?;
        work(cursor, session)
    })
}

fn length(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

fn millis(number: c_int) -> Duration {
    Duration::from_millis(u64::try_from(number).unwrap_or(0))
}

#[no_mangle]
extern "C" fn tpsql_open(
    name: *const c_char,
    is_read_only: c_int,
    may_create: c_int,
    wait_millis: c_int,
    opened: &mut Option<Box<Connection>>,
) -> c_int {
    match caught(|| Home::open(path(name), is_read_only != 0, may_create != 0, millis(wait_millis))) {
        Ok(home) => {
            *opened = Some(Box::new(Connection::new(home)));
            OK
        }
        Err(refusal) => {
            REFUSAL.set((refusal.code, refusal.sentence));
            refusal.code
        }
    }
}

/// Returns whether `LIBTP_SQLITE` names a file, or -1 if the variable is invalid.
#[no_mangle]
extern "C" fn tpsql_is_chosen(name: *const c_char) -> c_int {
    let answer = caught(|| {
        let list = std::env::var_os(VARIABLE).unwrap_or_default();
        is_chosen(&list.to_string_lossy(), path(name)).map_err(|sentence| Refusal::new(CANTOPEN, sentence))
    });
    match answer {
        Ok(is_chosen) => c_int::from(is_chosen),
        Err(refusal) => {
            REFUSAL.set((refusal.code, refusal.sentence));
            -1
        }
    }
}

#[no_mangle]
extern "C" fn tpsql_is_removed(connection: &Connection) -> c_int {
    c_int::from(connection.session.home.is_removed())
}

#[no_mangle]
extern "C" fn tpsql_refusal(code: &mut c_int, text: &mut *const u8) -> c_int {
    REFUSAL.with_borrow(|(last, sentence)| {
        (*code, *text) = (*last, sentence.as_ptr());
        c_int::try_from(sentence.len()).unwrap_or(0)
    })
}

#[no_mangle]
extern "C" fn tpsql_forget_refusal() {
    REFUSAL.set((OK, String::new()));
}

#[no_mangle]
extern "C" fn tpsql_close(connection: Option<Box<Connection>>) {
    let _ = caught(|| {
        let Some(mut connection) = connection else { return Ok(()) };
        connection.roll_back(false)
    });
}

/// Stores the text and the code of the connection's last error, and returns the text's length. Returns 0 if that error
/// does not have the code `rc`. If `rc` is `CORRUPT`, the error may have any code: when a record cannot be read, SQLite
/// replaces the error's code by `CORRUPT`.
#[no_mangle]
extern "C" fn tpsql_sentence(connection: &mut Connection, rc: c_int, code: &mut c_int, text: &mut *const u8) -> c_int {
    let session = &mut connection.session;
    let Some((known, _)) = session.refused.as_ref().filter(|(known, _)| *known == rc || rc == CORRUPT) else {
        return 0;
    };
    *code = *known;
    let sentence = session.refused.take().map_or_else(String::new, |(_, sentence)| sentence);
    let fetched = session.fetched.insert(sentence);
    *text = fetched.as_ptr();
    c_int::try_from(fetched.len()).unwrap_or(0)
}

#[no_mangle]
extern "C" fn tpsql_settings(connection: &mut Connection, is_durable: c_int, wait_millis: c_int) {
    let durability = if is_durable != 0 { Durability::Sync } else { Durability::Relaxed };
    connection.session.set(durability, millis(wait_millis));
}

#[no_mangle]
extern "C" fn tpsql_cancel() {
    libtp::cancel_waits();
}

#[no_mangle]
extern "C" fn tpsql_heed(connection: &mut Connection) {
    connection.session.heed_cancels();
}

#[no_mangle]
extern "C" fn tpsql_heeded(connection: &mut Connection) {
    connection.session.end_heed();
}

#[no_mangle]
extern "C" fn tpsql_failed_before(connection: &Connection) -> c_int {
    c_int::from(connection.session.failed_before)
}

#[no_mangle]
extern "C" fn tpsql_is_doomed(connection: &Connection) -> c_int {
    c_int::from(connection.session.doom.is_some())
}

#[no_mangle]
extern "C" fn tpsql_has_expired(connection: &mut Connection) -> c_int {
    c_int::from(std::mem::take(&mut connection.session.has_expired))
}

#[no_mangle]
extern "C" fn tpsql_prepare(connection: &mut Connection) -> c_int {
    call(connection, |connection| connection.prepare_commit().map(|()| OK))
}

#[no_mangle]
extern "C" fn tpsql_state(connection: &Connection) -> c_int {
    connection.state()
}

#[no_mangle]
extern "C" fn tpsql_begin(connection: &mut Connection, how: c_int) -> c_int {
    connection.session.refused = None;
    call(connection, |connection| {
        let how = BeginMode::of_code(how);
        if how != BeginMode::Read {
            connection.session.home.refuse_removed()?;
        }
        connection.begin(how).map(|()| OK)
    })
}

#[no_mangle]
extern "C" fn tpsql_commit(connection: &mut Connection, keeps_reading: c_int) -> c_int {
    call(connection, |connection| connection.commit(keeps_reading != 0).map(|()| OK))
}

#[no_mangle]
extern "C" fn tpsql_roll_back(connection: &mut Connection, keeps_reading: c_int) -> c_int {
    call(connection, |connection| connection.roll_back(keeps_reading != 0).map(|()| OK))
}

#[no_mangle]
extern "C" fn tpsql_was_victim(connection: &mut Connection) -> c_int {
    c_int::from(std::mem::take(&mut connection.session.was_victim))
}

#[no_mangle]
extern "C" fn tpsql_doom(connection: &mut Connection, is_reported: c_int, cause: *const c_char) {
    let _ = caught(|| {
        connection.doom_for(word(cause), is_reported != 0);
        Ok(())
    });
}

#[no_mangle]
extern "C" fn tpsql_replays(connection: &mut Connection) {
    connection.session.numbers.keep_for_replay();
}

#[no_mangle]
extern "C" fn tpsql_savepoints(connection: &mut Connection, number: c_int) -> c_int {
    call(connection, |connection| {
        connection.session.add_savepoints(usize::try_from(number).unwrap_or(0))?;
        Ok(OK)
    })
}

#[no_mangle]
extern "C" fn tpsql_savepoint_end(
    connection: &mut Connection,
    is_rollback: c_int,
    place: c_int,
    is_statement: c_int,
) -> c_int {
    call(connection, |connection| connection.end_savepoint(is_rollback != 0, place, is_statement != 0).map(|()| OK))
}

#[no_mangle]
extern "C" fn tpsql_trip(connection: &mut Connection, code: c_int, is_write_only: c_int) {
    connection.trip(code, is_write_only != 0);
}

#[no_mangle]
extern "C" fn tpsql_meta(connection: &Connection, place: c_int) -> u32 {
    usize::try_from(place).map_or(0, |place| connection.session.meta.get(place))
}

#[no_mangle]
extern "C" fn tpsql_meta_put(connection: &mut Connection, place: c_int, value: u32) -> c_int {
    call(connection, |connection| connection.put_meta(usize::try_from(place).unwrap_or(usize::MAX), value).map(|()| OK))
}

#[no_mangle]
extern "C" fn tpsql_version(connection: &Connection) -> u32 {
    connection.session.data_version()
}

#[no_mangle]
extern "C" fn tpsql_bytes(connection: &Connection) -> i64 {
    connection.session.home.bytes()
}

#[no_mangle]
extern "C" fn tpsql_compact(connection: &mut Connection) -> c_int {
    call(connection, |connection| connection.session.home.compact(connection.session.wait).map(|()| OK))
}

/// Stores the value of a setting of the environment (`settings.rs`) in `text`, or the text of an error. If `value` is
/// not NULL, first changes the setting to this value. `text` stays until the connection's next call.
#[no_mangle]
extern "C" fn tpsql_setting(
    connection: &mut Connection,
    name: *const c_char,
    value: *const c_char,
    text: &mut *const u8,
    bytes: &mut c_int,
) -> c_int {
    let value = (!value.is_null()).then(|| word(value));
    let (code, answer) = match caught(|| connection.setting(word(name), value)) {
        Ok(answer) => (OK, answer.to_owned()),
        Err(refusal) => {
            let sentence = refusal.sentence.clone();
            (refused(connection, refusal), sentence)
        }
    };
    let fetched = connection.session.fetched.insert(answer);
    *text = fetched.as_ptr();
    *bytes = c_int::try_from(fetched.len()).unwrap_or(0);
    code
}

#[no_mangle]
extern "C" fn tpsql_create(connection: &mut Connection, root: &mut u32) -> c_int {
    call(connection, |connection| {
        *root = connection.create()?;
        Ok(OK)
    })
}

#[no_mangle]
extern "C" fn tpsql_clear(connection: &mut Connection, root: u32, is_drop: c_int, changes: Option<&mut i64>) -> c_int {
    call(connection, |connection| {
        let count = connection.clear(root, is_drop != 0)?;
        if let Some(changes) = changes {
            *changes += i64::try_from(count).unwrap_or(i64::MAX);
        }
        Ok(OK)
    })
}

#[no_mangle]
extern "C" fn tpsql_count(connection: &mut Connection, root: u32, count: &mut i64) -> c_int {
    call(connection, |connection| {
        *count = i64::try_from(connection.count(root)?).unwrap_or(i64::MAX);
        Ok(OK)
    })
}

#[no_mangle]
extern "C" fn tpsql_cursor(
    connection: &mut Connection,
    root: u32,
    is_write: c_int,
    columns: *const u8,
    number: c_int,
    cursor: &mut u32,
) -> c_int {
    call(connection, |connection| {
        let columns = bytes(columns, usize::try_from(number).unwrap_or(0));
        *cursor = connection.add_cursor(root, is_write != 0, columns)?;
        Ok(OK)
    })
}

#[no_mangle]
extern "C" fn tpsql_cursor_close(connection: &mut Connection, cursor: u32) {
    let _ = caught(|| {
        connection.close_cursor(cursor);
        Ok(())
    });
}

#[no_mangle]
extern "C" fn tpsql_cursor_clear(connection: &mut Connection, cursor: u32) {
    if let Ok((cursor, session)) = connection.cursor(cursor) {
        cursor.clear(session);
    }
}

#[no_mangle]
extern "C" fn tpsql_pin(connection: &mut Connection, cursor: u32, is_pinned: c_int) {
    if let Ok((cursor, _)) = connection.cursor(cursor) {
        cursor.is_pinned = is_pinned != 0;
    }
}

#[no_mangle]
extern "C" fn tpsql_blob(connection: &mut Connection, cursor: u32) {
    if let Ok((cursor, _)) = connection.cursor(cursor) {
        cursor.is_blob = true;
    }
}

#[no_mangle]
extern "C" fn tpsql_first(connection: &mut Connection, cursor: u32, is_empty: &mut c_int) -> c_int {
    at(connection, cursor, |cursor, session| {
        *is_empty = c_int::from(!cursor.first(session)?);
        Ok(OK)
    })
}

#[no_mangle]
extern "C" fn tpsql_last(connection: &mut Connection, cursor: u32, is_empty: &mut c_int) -> c_int {
    at(connection, cursor, |cursor, session| {
        *is_empty = c_int::from(!cursor.last(session)?);
        Ok(OK)
    })
}

#[no_mangle]
extern "C" fn tpsql_next(connection: &mut Connection, cursor: u32) -> c_int {
    at(connection, cursor, |cursor, session| Ok(if cursor.next(session)? { OK } else { DONE }))
}

#[no_mangle]
extern "C" fn tpsql_previous(connection: &mut Connection, cursor: u32) -> c_int {
    at(connection, cursor, |cursor, session| Ok(if cursor.previous(session)? { OK } else { DONE }))
}

#[no_mangle]
extern "C" fn tpsql_eof(connection: &mut Connection, cursor: u32, is_at_end: &mut c_int) -> c_int {
    at(connection, cursor, |cursor, session| {
        *is_at_end = c_int::from(cursor.is_at_end(session)?);
        Ok(OK)
    })
}

#[no_mangle]
extern "C" fn tpsql_cursor_fail(connection: &mut Connection, cursor: u32, code: c_int) {
    if let Ok((cursor, _)) = connection.cursor(cursor) {
        cursor.set_fault(Fault::earlier(code));
    }
}

#[no_mangle]
extern "C" fn tpsql_has_moved(connection: &mut Connection, cursor: u32) -> c_int {
    connection.cursor(cursor).map_or(1, |(cursor, _)| c_int::from(cursor.has_moved()))
}

#[no_mangle]
extern "C" fn tpsql_restore(connection: &mut Connection, cursor: u32, differs: &mut c_int) -> c_int {
    *differs = 1;
    at(connection, cursor, |cursor, session| {
        *differs = c_int::from(cursor.restore(session)?);
        Ok(OK)
    })
}

#[no_mangle]
extern "C" fn tpsql_seek_row(connection: &mut Connection, cursor: u32, rowid: i64, order: &mut c_int) -> c_int {
    at(connection, cursor, |cursor, session| {
        *order = if cursor.seek_row(session, rowid)? { 0 } else { -1 };
        Ok(OK)
    })
}

#[no_mangle]
#[allow(clippy::too_many_arguments)] // SQLite's UnpackedRecord
extern "C" fn tpsql_seek_key(
    connection: &mut Connection,
    cursor: u32,
    start: *const Field,
    number: c_int,
    is_whole: c_int,
    bias: c_int,
    is_equal: c_int,
    was_equal_seen: &mut u8,
    order: &mut c_int,
) -> c_int {
    at(connection, cursor, |cursor, session| {
        let (found, is_seen) = cursor.seek_key(
            session,
            SearchKey { fields: fields(start, number), is_whole: is_whole != 0, bias, is_equal: is_equal != 0 },
        )?;
        *order = found;
        *was_equal_seen |= u8::from(is_seen);
        Ok(OK)
    })
}

#[no_mangle]
extern "C" fn tpsql_rowid(connection: &mut Connection, cursor: u32) -> i64 {
    connection.cursor(cursor).map_or(0, |(cursor, _)| cursor.rowid())
}

#[no_mangle]
extern "C" fn tpsql_value(connection: &mut Connection, cursor: u32, bytes: &mut u32) -> *const u8 {
    let value = connection.cursor(cursor).map_or(&[][..], |(cursor, _)| cursor.value());
    *bytes = length(value.len());
    value.as_ptr()
}

#[no_mangle]
extern "C" fn tpsql_put_row(
    connection: &mut Connection,
    cursor: u32,
    rowid: i64,
    start: *const u8,
    number: c_int,
    zeros: c_int,
) -> c_int {
    call(connection, |connection| {
        let given = bytes(start, usize::try_from(number).unwrap_or(0));
        let zeros = usize::try_from(zeros).unwrap_or(0);
        let padded = (zeros > 0).then(|| [given, &vec![0; zeros]].concat());
        let record = padded.as_deref().unwrap_or(given);
        connection.change(cursor, |cursor, session| cursor.put_row(session, rowid, record))?;
        Ok(OK)
    })
}

#[no_mangle]
extern "C" fn tpsql_put_key(
    connection: &mut Connection,
    cursor: u32,
    start: *const Field,
    number: c_int,
    record: *const u8,
    length: i64,
) -> c_int {
    call(connection, |connection| {
        let record = bytes(record, usize::try_from(length).unwrap_or(0));
        connection.change(cursor, |cursor, session| cursor.put_key(session, fields(start, number), record))?;
        Ok(OK)
    })
}

#[no_mangle]
extern "C" fn tpsql_put_part(
    connection: &mut Connection,
    cursor: u32,
    offset: u32,
    length: u32,
    part: *const u8,
) -> c_int {
    call(connection, |connection| {
        let to_usize = |number: u32| usize::try_from(number).unwrap_or(usize::MAX);
        let (offset, part) = (to_usize(offset), bytes(part, to_usize(length)));
        connection.change_part(cursor, offset, part)?;
        Ok(OK)
    })
}

#[no_mangle]
extern "C" fn tpsql_delete(connection: &mut Connection, cursor: u32) -> c_int {
    call(connection, |connection| {
        connection.change(cursor, |cursor, session| cursor.delete(session))?;
        Ok(OK)
    })
}

#[no_mangle]
extern "C" fn tpsql_new_rowid(connection: &mut Connection, cursor: u32, rowid: &mut i64) -> c_int {
    at(connection, cursor, |cursor, session| match cursor.new_rowid(session)? {
        Some(number) => {
            *rowid = number;
            Ok(OK)
        }
        None => Ok(DONE),
    })
}

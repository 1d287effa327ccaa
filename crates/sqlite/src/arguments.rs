//! Arguments from the shim: pointers with a length, texts, and the values of keys.
//!
//! `door.rs` takes connections and places for results as references (`&mut Connection`, `&mut T`): the shim passes no
//! NULL for them, and nothing else uses them during the call. SQLite uses a connection only in one thread at a time
//! (`sqlite3.mutex`).
#![allow(unsafe_code)]

use std::ffi::{c_char, c_int, CStr, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// A value of a key: `TpField` of c/shim.h.
#[repr(C)]
pub(crate) struct Field {
    /// 0 NULL, 1 an integer, 2 a real, 3 text, 4 a blob.
    pub(crate) kind: c_int,
    /// The number of zero bytes that follow the text or blob.
    pub(crate) zeros: c_int,
    pub(crate) integer: i64,
    pub(crate) real: f64,
    /// The first byte of the text or blob.
    pub(crate) start: *const u8,
    pub(crate) length: usize,
}

/// Returns bytes that C lends for the length of the call. NULL is allowed if the length is zero.
pub(crate) fn bytes<'a>(start: *const u8, length: usize) -> &'a [u8] {
    if length == 0 || start.is_null() {
        return &[];
    }
    // SAFETY: the shim promises that `length` bytes at `start` are readable and stay unchanged during the call. The
    // callers in `door.rs` drop the slice before the call returns.
    unsafe { std::slice::from_raw_parts(start, length) }
}

/// Returns the fields of a key for the length of the call.
pub(crate) fn fields<'a>(start: *const Field, number: c_int) -> &'a [Field] {
    let number = usize::try_from(number).unwrap_or(0);
    if number == 0 || start.is_null() {
        return &[];
    }
    // SAFETY: as in `bytes`; `Field` has the layout of `TpField` in c/shim.h.
    unsafe { std::slice::from_raw_parts(start, number) }
}

/// Returns the path that C names, for the length of the call.
pub(crate) fn path<'a>(name: *const c_char) -> &'a Path {
    Path::new(OsStr::from_bytes(text(name)))
}

/// Returns the word that C passes, for the length of the call; an empty word if it is not UTF-8.
pub(crate) fn word<'a>(name: *const c_char) -> &'a str {
    std::str::from_utf8(text(name)).unwrap_or_default()
}

fn text<'a>(start: *const c_char) -> &'a [u8] {
    // SAFETY: the shim promises that the text ends in a zero byte and stays unchanged during the call. The callers in
    // `door.rs` drop the slice before the call returns.
    unsafe { CStr::from_ptr(start) }.to_bytes()
}

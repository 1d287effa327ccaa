//! What C hands over beside handles: bytes, texts, and places for answers.
//!
//! The types are pointers that only C makes; what they point to is C's promise (`libtp.h`), for as long as the call lasts.
#![allow(unsafe_code)]

use std::ffi::{c_char, c_void, CStr, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::answer::{Outcome, Trouble};

/// So many bytes a buffer has at first.
const FIRST_ROOM: usize = 64;

/// Bytes that are lent for the call.
#[repr(transparent)]
pub struct In(*const c_void);

impl In {
    pub(crate) const NULL: In = In(std::ptr::null());

    /// So many of them. NULL is right for none.
    pub(crate) fn bytes(&self, what: &str, count: usize) -> Outcome<&[u8]> {
        match (self.0.is_null(), count) {
            (_, 0) => Ok(&[]),
            (true, _) => Err(Trouble::misuse(format!("NULL was given for {what} of {count} bytes"))),
            (false, _) if isize::try_from(count).is_err() => {
                Err(Trouble::misuse(format!("{what} of {count} bytes was given, more than any memory has")))
            }
            // SAFETY: C's promise is that so many bytes are there, which nobody changes during the call.
            (false, _) => Ok(unsafe { std::slice::from_raw_parts(self.0.cast(), count) }),
        }
    }
}

/// A text that ends in a zero.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct Text(*const c_char);

impl Text {
    fn raw(&self) -> Option<&CStr> {
        // SAFETY: C's promise is that a zero follows, and that nobody changes the text during the call.
        (!self.0.is_null()).then(|| unsafe { CStr::from_ptr(self.0) })
    }

    pub(crate) fn path(&self, what: &str) -> Outcome<&Path> {
        let text = self.raw().ok_or_else(|| Trouble::misuse(format!("NULL was given for {what}")))?;
        Ok(Path::new(OsStr::from_bytes(text.to_bytes())))
    }

    /// The path; none if it is NULL.
    pub(crate) fn optional_path(&self) -> Option<&Path> {
        self.raw().map(|text| Path::new(OsStr::from_bytes(text.to_bytes())))
    }

    /// The text; none if it is NULL.
    pub(crate) fn optional(&self, what: &str) -> Outcome<Option<&str>> {
        let text = self.raw().map(CStr::to_str).transpose();
        text.map_err(|error| Trouble::misuse(format!("{what} is no text in UTF-8: {error}")))
    }

    pub(crate) fn needed(&self, what: &str) -> Outcome<&str> {
        self.optional(what)?.ok_or_else(|| Trouble::misuse(format!("NULL was given for {what}")))
    }
}

/// A place for an answer.
#[repr(transparent)]
pub struct Out<T>(*mut T);

impl<T> Out<T> {
    /// The place, with `before` in it for who does not look at the code. NULL is refused.
    pub(crate) fn needed(&self, what: &str, before: T) -> Outcome<&Out<T>> {
        if self.0.is_null() {
            return Err(Trouble::misuse(format!("NULL was given for the place of {what}")));
        }
        self.set(before);
        Ok(self)
    }

    /// Stores there, if there is a place.
    pub(crate) fn set(&self, value: T) {
        if !self.0.is_null() {
            // SAFETY: C's promise is that there is room for one, which nobody else uses during the call.
            unsafe { self.0.write(value) }
        }
    }
}

/// `tp_buffer`: memory of C's `malloc`, which grows as answers need it.
#[repr(C)]
pub struct Buffer {
    data: *mut c_void,
    size: usize,
    room: usize,
}

/// A struct that is lent for the call.
#[repr(transparent)]
pub struct Put<T>(*const T);

impl<T> Put<T> {
    /// It; none if it is NULL.
    pub(crate) fn optional(&self) -> Option<&T> {
        // SAFETY: C's promise is that one is there, which nobody changes during the call.
        unsafe { self.0.as_ref() }
    }

    pub(crate) fn needed(&self, what: &str) -> Outcome<&T> {
        self.optional().ok_or_else(|| Trouble::misuse(format!("NULL was given for {what}")))
    }
}

/// A buffer for an answer; NULL is for who does not want it.
#[repr(transparent)]
pub struct Fill(*mut Buffer);

impl Fill {
    fn buffer(&mut self) -> Option<&mut Buffer> {
        // SAFETY: C's promise is that a pointer to a buffer is to one that was set to zero at first, and since changed by us or as
        // `libtp.h` says; and that nobody else uses it during the call.
        unsafe { self.0.as_mut() }
    }

    /// Refuses NULL, where the answer is all that the call is for.
    pub(crate) fn needed(&mut self) -> Outcome<()> {
        match self.buffer() {
            Some(_) => Ok(()),
            None => Err(Trouble::misuse("NULL was given for the buffer")),
        }
    }

    /// Makes room for an answer of that length.
    pub(crate) fn reserve(&mut self, bytes: usize) -> Outcome<()> {
        let Some(buffer) = self.buffer() else { return Ok(()) };
        let needed = bytes + 1;
        if buffer.data.is_null() || buffer.room < needed {
            let room = needed.next_power_of_two().max(FIRST_ROOM);
            // SAFETY: C's promise is that `data` is null or of `malloc`.
            let grown = unsafe { libc::realloc(buffer.data, room) };
            if grown.is_null() {
                return Err(Trouble::full(&format!("there is no memory for an answer of {needed} bytes")));
            }
            (buffer.data, buffer.room) = (grown, room);
        }
        Ok(())
    }

    /// Copies `bytes` into it, with a zero behind them that does not count.
    pub(crate) fn with(&mut self, bytes: &[u8]) -> Outcome<()> {
        self.reserve(bytes.len())?;
        let Some(buffer) = self.buffer() else { return Ok(()) };
        let to: *mut u8 = buffer.data.cast();
        // SAFETY: there is room for one byte more than there are, as was seen above, and C's memory is none of ours.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
        // SAFETY: as above.
        let end = unsafe { to.add(bytes.len()) };
        // SAFETY: as above.
        unsafe { end.write(0) };
        buffer.size = bytes.len();
        Ok(())
    }

    /// Gives its memory back. It can be used again.
    fn empty(&mut self) {
        let Some(buffer) = self.buffer() else { return };
        // SAFETY: C's promise is that `data` is null or of `malloc`.
        unsafe { libc::free(buffer.data) };
        *buffer = Buffer { data: std::ptr::null_mut(), size: 0, room: 0 };
    }
}

/// Texts, each with a zero behind it.
pub(crate) fn lines<'t>(texts: impl Iterator<Item = &'t str>) -> Vec<u8> {
    let mut all = Vec::new();
    for text in texts {
        all.extend_from_slice(text.replace('\0', " ").as_bytes());
        all.push(0);
    }
    all
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_buffer_free(mut buffer: Fill) {
    buffer.empty();
}

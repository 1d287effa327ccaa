//! Arguments from C other than handles: bytes, texts, and places for answers.
//!
//! The types are pointers, and only C makes values of them. C promises that each pointer is valid for the length of the
//! call (`libtp.h`).
#![allow(unsafe_code)]

use std::ffi::{c_char, c_void, CStr, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::answer::{Outcome, Trouble};

/// The least size of a buffer that the library allocates, in bytes.
const FIRST_ROOM: usize = 64;

/// Bytes that C lends for the length of the call.
#[repr(transparent)]
pub struct In(*const c_void);

impl In {
    pub(crate) const NULL: In = In(std::ptr::null());

    /// Returns `count` bytes. NULL is allowed if `count` is 0.
    pub(crate) fn bytes(&self, what: &str, count: usize) -> Outcome<&[u8]> {
        match (self.0.is_null(), count) {
            (_, 0) => Ok(&[]),
            (true, _) => Err(Trouble::misuse(format!("NULL was given for {what} of {count} bytes"))),
            (false, _) if isize::try_from(count).is_err() => {
                Err(Trouble::misuse(format!("{what} of {count} bytes was given, more than any memory has")))
            }
            // SAFETY: C promises that `count` bytes are there, and that no thread changes them during the call.
            (false, _) => Ok(unsafe { std::slice::from_raw_parts(self.0.cast(), count) }),
        }
    }
}

/// A text that ends with a zero byte.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct Text(*const c_char);

impl Text {
    fn raw(&self) -> Option<&CStr> {
        // SAFETY: C promises that the text ends with a zero byte, and that no thread changes it during the call.
        (!self.0.is_null()).then(|| unsafe { CStr::from_ptr(self.0) })
    }

    pub(crate) fn path(&self, what: &str) -> Outcome<&Path> {
        let text = self.raw().ok_or_else(|| Trouble::misuse(format!("NULL was given for {what}")))?;
        Ok(Path::new(OsStr::from_bytes(text.to_bytes())))
    }

    /// Returns the path, or `None` for NULL.
    pub(crate) fn optional_path(&self) -> Option<&Path> {
        self.raw().map(|text| Path::new(OsStr::from_bytes(text.to_bytes())))
    }

    /// Returns the text, or `None` for NULL.
    pub(crate) fn optional(&self, what: &str) -> Outcome<Option<&str>> {
        let text = self.raw().map(CStr::to_str).transpose();
        text.map_err(|error| Trouble::misuse(format!("{what} is not text in UTF-8: {error}")))
    }

    pub(crate) fn needed(&self, what: &str) -> Outcome<&str> {
        self.optional(what)?.ok_or_else(|| Trouble::misuse(format!("NULL was given for {what}")))
    }
}

/// A place where the call stores an answer.
#[repr(transparent)]
pub struct Out<T>(*mut T);

impl<T> Out<T> {
    /// Stores `before` in the place, so that it has a value even if the call fails, and returns the place. Refuses
    /// NULL.
    pub(crate) fn needed(&self, what: &str, before: T) -> Outcome<&Out<T>> {
        if self.0.is_null() {
            return Err(Trouble::misuse(format!("NULL was given for the place of {what}")));
        }
        self.set(before);
        Ok(self)
    }

    /// Stores `before` in the place, makes the answer, and stores the answer there. Refuses NULL before it makes the
    /// answer.
    pub(crate) fn answer(&self, what: &str, before: T, make: impl FnOnce() -> Outcome<T>) -> Outcome<()> {
        self.needed(what, before)?;
        self.set(make()?);
        Ok(())
    }

    /// Stores the value, unless the place is NULL.
    pub(crate) fn set(&self, value: T) {
        if !self.0.is_null() {
            // SAFETY: C promises that there is room for one value, and that no other thread uses the place during the
            // call.
            unsafe { self.0.write(value) }
        }
    }
}

/// `tp_buffer`: memory of C's `malloc`, which grows if an answer needs more.
#[repr(C)]
pub struct Buffer {
    data: *mut c_void,
    size: usize,
    room: usize,
}

/// A struct that C lends for the length of the call.
#[repr(transparent)]
pub struct Put<T>(*const T);

impl<T> Put<T> {
    /// Returns the struct, or `None` for NULL.
    pub(crate) fn optional(&self) -> Option<&T> {
        // SAFETY: C promises that the struct is there, and that no thread changes it during the call.
        unsafe { self.0.as_ref() }
    }

    pub(crate) fn needed(&self, what: &str) -> Outcome<&T> {
        self.optional().ok_or_else(|| Trouble::misuse(format!("NULL was given for {what}")))
    }
}

/// Structs that C lends for the length of the call, to be changed.
#[repr(transparent)]
pub struct Several<T>(*mut T);

impl<T> Several<T> {
    /// Returns `count` structs. NULL is allowed if `count` is 0.
    pub(crate) fn all(&mut self, what: &str, count: usize) -> Outcome<&mut [T]> {
        match (self.0.is_null(), count.checked_mul(size_of::<T>())) {
            (_, Some(0)) => Ok(&mut []),
            (true, _) => Err(Trouble::misuse(format!("NULL was given for {what}"))),
            (false, Some(bytes)) if isize::try_from(bytes).is_ok() => {
                // SAFETY: C promises that `count` structs are there, and that no other thread uses them during the
                // call.
                Ok(unsafe { std::slice::from_raw_parts_mut(self.0, count) })
            }
            (false, _) => Err(Trouble::misuse(format!("{count} of {what} were given, more than any memory has"))),
        }
    }
}

/// A buffer for an answer, or NULL if the caller does not want the answer.
#[repr(transparent)]
pub struct Fill(*mut Buffer);

impl Fill {
    /// Returns the buffer as a place for an answer.
    pub(crate) fn of(buffer: &mut Buffer) -> Fill {
        Fill(buffer)
    }

    fn buffer(&mut self) -> Option<&mut Buffer> {
        // SAFETY: C promises that the buffer was zeroed first; that since then it was changed only by this library, or
        // by C in the ways that `libtp.h` allows; and that no other thread uses it during the call.
        unsafe { self.0.as_mut() }
    }

    /// Refuses NULL: for calls whose only answer goes into this buffer.
    pub(crate) fn needed(&mut self) -> Outcome<()> {
        match self.buffer() {
            Some(_) => Ok(()),
            None => Err(Trouble::misuse("NULL was given for the buffer")),
        }
    }

    /// Makes room for an answer of `bytes` bytes and a zero byte.
    pub(crate) fn reserve(&mut self, bytes: usize) -> Outcome<()> {
        let Some(buffer) = self.buffer() else { return Ok(()) };
        let needed = bytes + 1;
        if buffer.data.is_null() || buffer.room < needed {
            let room = needed.next_power_of_two().max(FIRST_ROOM);
            // SAFETY: C promises that `data` is null or comes from `malloc`.
            let grown = unsafe { libc::realloc(buffer.data, room) };
            if grown.is_null() {
                return Err(Trouble::full(&format!("there is no memory for an answer of {needed} bytes")));
            }
            (buffer.data, buffer.room) = (grown, room);
        }
        Ok(())
    }

    /// Copies `bytes` and a zero byte into the buffer. The buffer's size does not count the zero byte.
    pub(crate) fn with(&mut self, bytes: &[u8]) -> Outcome<()> {
        self.reserve(bytes.len())?;
        let Some(buffer) = self.buffer() else { return Ok(()) };
        let to: *mut u8 = buffer.data.cast();
        // SAFETY: `reserve` made room for `bytes.len() + 1` bytes, and the buffer is C's memory, so it does not overlap
        // `bytes`.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
        // SAFETY: as above.
        let end = unsafe { to.add(bytes.len()) };
        // SAFETY: as above.
        unsafe { end.write(0) };
        buffer.size = bytes.len();
        Ok(())
    }

    /// Frees the buffer's memory. The buffer can be used again.
    fn empty(&mut self) {
        let Some(buffer) = self.buffer() else { return };
        // SAFETY: C promises that `data` is null or comes from `malloc`.
        unsafe { libc::free(buffer.data) };
        *buffer = Buffer { data: std::ptr::null_mut(), size: 0, room: 0 };
    }
}

/// Returns the function of the program. Refuses NULL.
pub(crate) fn given<F>(function: Option<F>) -> Outcome<F> {
    function.ok_or_else(|| Trouble::misuse("NULL was given for the function"))
}

/// Returns the texts, each followed by a zero byte.
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

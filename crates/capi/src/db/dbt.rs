//! `DBT`: bytes that C lends for a call, or that the library lends until the next call.
#![allow(unsafe_code)]

use std::ffi::c_void;

use crate::db::refusal::{copied, Answer, Refusal};

/// `DBT`.
#[repr(C)]
pub struct Dbt {
    data: *mut c_void,
    size: usize,
}

impl Dbt {
    /// Returns a `DBT` that lends bytes to a function of the program.
    pub(crate) fn lent(bytes: &[u8]) -> Dbt {
        Dbt { data: bytes.as_ptr().cast_mut().cast(), size: bytes.len() }
    }
}

/// A pointer from C to a `DBT`.
#[repr(transparent)]
pub struct DbtPointer(*mut Dbt);

fn nothing(what: &str) -> Refusal {
    Refusal::invalid(format!("NULL was given for {what}"))
}

impl DbtPointer {
    /// Returns a copy of the bytes. An earlier call may have lent these bytes to C.
    pub(crate) fn bytes(&self, what: &str) -> Answer<Vec<u8>> {
        // SAFETY: C promises that the pointer is NULL or points to a DBT that no thread changes during the call. The
        // DBT may be const in C, or be passed for two arguments, so it is only read.
        let dbt = unsafe { self.0.as_ref() }.ok_or_else(|| nothing(what))?;
        match (dbt.data.is_null(), dbt.size) {
            (_, 0) => Ok(Vec::new()),
            (true, size) => Err(Refusal::invalid(format!("{what} of {size} bytes was given, and no address"))),
            (false, size) if isize::try_from(size).is_err() => {
                Err(Refusal::invalid(format!("{what} of {size} bytes was given, more than any memory has")))
            }
            // SAFETY: C promises that `size` bytes are there, and that no thread changes them during the call.
            (false, size) => copied(unsafe { std::slice::from_raw_parts(dbt.data.cast::<u8>(), size) }),
        }
    }

    /// Lends bytes. The caller keeps them alive.
    pub(crate) fn lend(&mut self, what: &str, bytes: &[u8]) -> Answer<()> {
        // SAFETY: C promises that the pointer is NULL or points to a DBT that no other thread uses during the call.
        *unsafe { self.0.as_mut() }.ok_or_else(|| nothing(what))? = Dbt::lent(bytes);
        Ok(())
    }
}

/// Compares two keys from C, for the library's comparison functions, which C may call, too.
pub(crate) fn compare(
    one: *const Dbt,
    other: *const Dbt,
    by: impl FnOnce(&[u8], &[u8]) -> std::cmp::Ordering,
) -> std::ffi::c_int {
    let read = |dbt: *const Dbt| DbtPointer(dbt.cast_mut()).bytes("a key").unwrap_or_default();
    match by(&read(one), &read(other)) {
        std::cmp::Ordering::Less => -1,
        std::cmp::Ordering::Equal => 0,
        std::cmp::Ordering::Greater => 1,
    }
}

//! Copies of values into memory of this process. A value may be longer than the memory that the process may still take
//! (RLIMIT_AS, `ulimit -v`). Then the copy is an error, and not the end of the process.

use rio::planted;

use crate::Error;

/// There is no memory for this number of bytes. A hot path returns this type in place of [`Error`], because the type is
/// as small as a vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoRoom(pub usize);

impl From<NoRoom> for Error {
    #[cold]
    fn from(NoRoom(bytes): NoRoom) -> Error {
        Error::NoMemory { bytes }
    }
}

type Result<T> = std::result::Result<T, NoRoom>;

/// A copy of at most this number of bytes is made as any small object is.
const SHORT_BYTES: usize = 4096;

/// Appends a copy of `bytes` to `to`.
///
/// # Errors
/// `NoRoom`; `to` is then unchanged.
#[inline]
pub fn append_copy(to: &mut Vec<u8>, bytes: &[u8]) -> Result<()> {
    if to.capacity() - to.len() < bytes.len() {
        make_room(to, bytes.len())?;
    }
    to.extend_from_slice(bytes);
    Ok(())
}

/// Returns a copy of `bytes`.
///
/// # Errors
/// `NoRoom`.
#[inline]
pub fn copy_of(bytes: &[u8]) -> Result<Vec<u8>> {
    match bytes.len() {
        0..=SHORT_BYTES => Ok(bytes.to_vec()),
        _ => long_copy_of(bytes),
    }
}

#[cold]
fn long_copy_of(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut copy = Vec::new();
    append_copy(&mut copy, bytes)?;
    Ok(copy)
}

/// Makes room for `bytes` more bytes in `to`.
///
/// # Errors
/// `NoRoom`; `to` is then unchanged.
#[cold]
pub fn make_room(to: &mut Vec<u8>, bytes: usize) -> Result<()> {
    match to.try_reserve(bytes) {
        Err(_) if !planted("record: a copy for which memory is missing aborts") => {
            Err(NoRoom(to.len().saturating_add(bytes)))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::{append_copy, copy_of, make_room};
    use crate::Error;

    #[test]
    fn copies_are_equal_to_their_sources_and_too_long_copies_are_refused() {
        let mut all = b"a".to_vec();
        append_copy(&mut all, b"bc").expect("three bytes");
        append_copy(&mut all, b"").expect("no byte more");
        assert_eq!((&all[..], copy_of(b"xyz").expect("three bytes")), (&b"abc"[..], b"xyz".to_vec()));
        let refused = make_room(&mut all, usize::MAX / 2).expect_err("no process has that much memory");
        let refused = Error::from(refused).to_string();
        assert!(refused.contains("no memory") && refused.contains("ulimit -v"), "{refused}");
        assert_eq!(all, b"abc");
    }
}

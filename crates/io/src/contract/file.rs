//! One open file: its bytes, its locks, its identity.

use std::fmt;
use std::ops::{Range, RangeInclusive};

#[cfg(doc)]
use crate::error::Error;
use crate::error::Result;

/// Answers whether the next piece of [`File::write_whole`] may be begun.
pub type MayBegin<'a> = dyn Fn() -> bool + Sync + 'a;

/// One open file.
///
/// Dropping the handle closes the file. A close syncs nothing and reports no error: a caller that needs the bytes syncs
/// first.
pub trait File: Send + Sync + fmt::Debug {
    /// Fills `buf` from byte `offset` on and returns the number of bytes read. The number is smaller than the length of
    /// `buf` only at the end of the file. Bytes before the end that were never written are zero. After an error the
    /// contents of `buf` are unknown.
    ///
    /// # Errors
    /// [`Error::Io`] when the disk cannot read.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize>;

    /// Writes all of `bytes` at byte `offset`, and extends the file if necessary. Every later read through any handle
    /// sees the bytes. The bytes are not safe from a power cut before [`File::sync`] has returned. After an error any
    /// part of `bytes` may have been written.
    ///
    /// # Errors
    /// [`Error::Full`] when the filesystem has too few blocks, [`Error::ReadOnly`] on a read-only handle, [`Error::Io`]
    /// when the disk cannot write.
    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()>;

    /// Writes `first` at `offset` and `second` directly after it, as [`File::write_at`] does, in one call if the system
    /// has such a call. Like two separate writes, the call is not atomic. It saves a system call when a ring continues
    /// at its beginning.
    ///
    /// # Errors
    /// As [`File::write_at`].
    fn write_two_at(&self, first: &[u8], second: &[u8], offset: u64) -> Result<()> {
        self.write_at(first, offset)?;
        let first_bytes = u64::try_from(first.len()).expect("a slice's length fits in 64 bits");
        self.write_at(second, offset + first_bytes)
    }

    /// Returns the lengths of the pieces that [`File::write_whole`] may write, as the system reports them. `None` if
    /// the system reports none, or does not answer. The answer is no acceptance: the system may still refuse each
    /// write.
    fn whole_write_bytes(&self) -> Option<RangeInclusive<u32>> {
        None
    }

    /// Writes each piece at its offset. A power cut leaves all new bytes of a piece, or none of them. Every later read
    /// through any handle sees the bytes, and [`File::sync`] makes them safe, as after [`File::write_at`]. A piece has
    /// a length of [`File::whole_write_bytes`] that is a power of two, and its offset is a multiple of its length.
    ///
    /// Calls `may_begin` before each piece, possibly in several threads at the same time. If it returns false, no more
    /// piece is begun.
    ///
    /// Returns false if the system or `may_begin` refused a piece. Then, and after an error, a piece may be torn, and
    /// the caller must write all pieces in another way.
    ///
    /// # Errors
    /// [`Error::Io`] when the disk cannot write; [`Error::Full`], [`Error::ReadOnly`].
    fn write_whole(&self, _pieces: &[(u64, &[u8])], _may_begin: &MayBegin<'_>) -> Result<bool> {
        Ok(false)
    }

    /// Returns the file's current length in bytes. A power cut may shrink the file to its length at the last sync.
    ///
    /// # Errors
    /// [`Error::Io`] when the system cannot tell.
    fn len(&self) -> Result<u64>;

    /// Returns whether [`File::len`] is zero.
    ///
    /// # Errors
    /// [`Error::Io`] when the system cannot tell.
    fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Cuts the file off at `bytes`, or extends it to that length with zeros that have no blocks yet. The new length
    /// is not durable before the next sync of the file. A later write into the extension may find the disk full;
    /// [`File::allocate`] prevents that.
    ///
    /// # Errors
    /// [`Error::Full`], [`Error::ReadOnly`], [`Error::Io`].
    fn set_len(&self, bytes: u64) -> Result<()>;

    /// Allocates the blocks of the bytes in `range`, so that no later write in the range fails because the disk is
    /// full. A file that was shorter gets the length `range.end`. The blocks are not durable before the next sync.
    /// Existing bytes stay, and new bytes read as zero. After an error the length may have grown, but no byte has
    /// changed. A block that lies only partly in the range is allocated too. An empty range changes nothing, not even
    /// the length.
    ///
    /// A filesystem may check each block of the range, existing blocks too (tmpfs does). So a caller that extends a
    /// file step by step should pass only the new part.
    ///
    /// If the filesystem has no such call, this call writes zeros after the old end; holes before the old end stay.
    ///
    /// # Errors
    /// [`Error::Full`] when the filesystem has too few blocks, [`Error::ReadOnly`], [`Error::Io`].
    fn allocate(&self, range: Range<u64>) -> Result<()>;

    /// Frees the blocks in `range` on the filesystem. The bytes then read as zero, and the length stays. A later
    /// write to these bytes may find the disk full. A power cut before the next sync of the file may bring the old
    /// bytes back.
    ///
    /// A filesystem that has no such call keeps the blocks and the bytes.
    ///
    /// # Errors
    /// [`Error::ReadOnly`], [`Error::Io`].
    fn free_blocks(&self, _range: Range<u64>) -> Result<()> {
        Ok(())
    }

    /// Returns whether the filesystem makes a record of the first write to each block that [`File::allocate`] gave. The
    /// next sync must then write that record too. So on such a filesystem, a caller that writes a file in small synced
    /// pieces fills the file with zeros first.
    fn notes_first_writes(&self) -> bool {
        true
    }

    /// Makes the file's length, and every byte that was written through any handle, safe from a power cut. The length
    /// and the bytes are safe when the call returns. The call does not make the file's *name* safe: [`Directory::sync`](crate::Directory::sync)
    /// does that. After an error the caller must not sync the same bytes again: a later success would mean nothing.
    ///
    /// # Errors
    /// [`Error::Io`] and [`Error::Full`]; either is final for the unsynced bytes.
    fn sync(&self) -> Result<()>;

    /// Locks one byte for this open file and returns whether the byte is now locked. Returns `Ok(false)` only if
    /// another handle holds a conflicting lock and `wait` is false. The kernel keeps the lock until the last copy of
    /// the handle is closed, and then drops it, however the process ends. The byte need not exist. If this handle has
    /// locked the byte already, the lock's mode changes to `mode`.
    ///
    /// In the child of a fork the handle refers to no file, so the child does not keep the lock. A child made by a raw
    /// `clone` must call [`give_up_inherited`](crate::give_up_inherited) at once.
    ///
    /// # Errors
    /// [`Error::ReadOnly`] for an exclusive lock on a read-only handle, [`Error::Io`] where the
    /// filesystem has no locks.
    fn lock(&self, byte: u64, mode: LockMode, wait: bool) -> Result<bool>;

    /// Locks the first byte exclusively, as [`File::lock`] does, for as long as this handle lives. If the filesystem
    /// allows, no child of this process has the lock, not even a child made by a raw `clone`.
    ///
    /// # Errors
    /// As [`File::lock`].
    fn lock_uninherited(&self) -> Result<bool> {
        self.lock(0, LockMode::Exclusive, false)
    }

    /// Unlocks one byte. If the byte is not locked, nothing happens. Unlocking makes no write durable.
    ///
    /// # Errors
    /// [`Error::Io`] where the filesystem has no locks.
    fn unlock(&self, byte: u64) -> Result<()>;

    /// Returns the lowest byte of `from .. from + bytes` that another open file has locked in any mode; `None` if there
    /// is no such byte. Another open file of this process counts too. The answer may be out of date when it arrives,
    /// unless the caller holds a lock that keeps other handles from locking and unlocking these bytes.
    ///
    /// # Errors
    /// [`Error::Io`] where the filesystem has no locks.
    fn locked_by_other(&self, from: u64, bytes: u64) -> Result<Option<u64>>;

    /// Returns the file's identity. A copy of the file, or a later file of the same name, has a different identity.
    /// Writes and renamings do not change the identity of a file.
    ///
    /// # Errors
    /// [`Error::Io`] when the system cannot tell.
    fn identity(&self) -> Result<Identity>;
}

/// The mode of a lock on a byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockMode {
    /// The lock may be held together with other shared locks.
    Shared,
    /// The lock excludes every other lock on the byte.
    Exclusive,
}

/// Identity of a file. The region's header has it, so that a copied file is not taken for the original.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Identity {
    /// The filesystem's device number.
    pub device: u64,
    /// The file's number on that filesystem; reused after the file is gone.
    pub inode: u64,
    /// The time at which the file was made, in nanoseconds since 1970; zero if the filesystem does not keep it. The
    /// time of the last change would be no substitute, because every write changes it.
    pub birth_ns: u64,
}

impl Identity {
    /// Returns whether the filesystem reported the birth time. Otherwise a file that was deleted and made again may
    /// have the same identity as before.
    pub fn is_birth_known(&self) -> bool {
        self.birth_ns != 0
    }
}

/// Returns whether the program has closed the descriptor of `file`. `identity` is the identity of `file` at its
/// opening. If the program has closed the descriptor, its number may belong to another file of the program, so the
/// caller must neither write through the descriptor nor close it. If the system reports no identity, the descriptor
/// counts as open.
pub fn is_foreign(file: &dyn File, identity: &Identity) -> bool {
    match file.identity() {
        Ok(now) => now != *identity,
        Err(error) => error.is_closed_descriptor(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_write_of_two_parts_is_two_writes() {
        #[derive(Debug, Default)]
        struct Tape(std::sync::Mutex<Vec<(Vec<u8>, u64)>>);
        impl File for Tape {
            fn read_at(&self, _: &mut [u8], _: u64) -> Result<usize> {
                Ok(0)
            }
            fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
                self.0.lock().unwrap().push((bytes.to_vec(), offset));
                Ok(())
            }
            fn len(&self) -> Result<u64> {
                Ok(0)
            }
            fn set_len(&self, _: u64) -> Result<()> {
                Ok(())
            }
            fn allocate(&self, _: Range<u64>) -> Result<()> {
                Ok(())
            }
            fn sync(&self) -> Result<()> {
                Ok(())
            }
            fn lock(&self, _: u64, _: LockMode, _: bool) -> Result<bool> {
                Ok(true)
            }
            fn unlock(&self, _: u64) -> Result<()> {
                Ok(())
            }
            fn locked_by_other(&self, _: u64, _: u64) -> Result<Option<u64>> {
                Ok(None)
            }
            fn identity(&self) -> Result<Identity> {
                Ok(Identity { device: 0, inode: 0, birth_ns: 0 })
            }
        }
        let tape = Tape::default();
        tape.write_two_at(b"abc", b"de", 10).unwrap();
        let written = tape.0.into_inner().unwrap();
        assert_eq!(written, vec![(b"abc".to_vec(), 10), (b"de".to_vec(), 13)]);
    }
}

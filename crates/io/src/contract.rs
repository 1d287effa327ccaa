//! The contract: what a file and a directory promise, and what they do not.
//!
//! Every method has its promise in one sentence and what the caller still owes in another, as
//! FoundationDB writes them.  Three rules stand behind all of them.
//!
//! Invariants
//! 1. *Unsynced is unpromised.*  Between two syncs of a file, each unsynced write may be on the disk
//!    wholly, partly (some of its 512-byte sectors) or not at all, independently of every other,
//!    whatever the order of the calls was.  The same holds for names between two syncs of their
//!    directory.
//! 2. *A failed sync is final.*  After an error from [`File::sync`] nobody can know which unsynced
//!    bytes are on the disk, and a later sync that succeeds says nothing about them: the kernel has
//!    marked them clean.  The caller poisons itself and recovers from what an earlier sync covered.
//! 3. *No call is retried here after an error* except a call that a signal interrupted, and a short read or
//!    write, which is continued.
//!
//! Handles are shared by threads; concurrent writes of the same bytes leave one or the other.

use std::fmt;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use crate::error::Result;
use crate::plain::PlainFiles;
#[cfg(doc)]
use crate::{check_name, Error};

/// One open file.
///
/// Closing is dropping; it syncs nothing and reports nothing, so whoever needs the bytes has synced
/// before.
pub trait File: Send + Sync + fmt::Debug {
    /// Fills `buf` from byte `offset` on and returns how many bytes it read, fewer than asked only
    /// where the file ends.  Bytes that were never written, but lie before the end, are zero; what
    /// lies in `buf` after an error is unknown.
    ///
    /// # Errors
    /// [`Error::Io`] when the disk cannot read.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize>;

    /// Writes all of `bytes` at byte `offset`, extending the file if need be, so that every later
    /// read by anyone sees them.  They are not safe from a power cut before [`File::sync`] has
    /// returned, and after an error any part of them may have been written.
    ///
    /// # Errors
    /// [`Error::Full`] when there is no block for them, [`Error::ReadOnly`] on a handle opened so,
    /// [`Error::Io`] when the disk cannot write.
    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()>;

    /// Writes `first` at `offset` and `second` directly behind it, as [`File::write_at`] does, in one
    /// call where the system has one.  It is no more atomic than two writes: the caller, who has a
    /// ring that wraps, relies on nothing but the saved call.
    ///
    /// # Errors
    /// As [`File::write_at`].
    fn write_two_at(&self, first: &[u8], second: &[u8], offset: u64) -> Result<()> {
        self.write_at(first, offset)?;
        let first_bytes = u64::try_from(first.len()).expect("a slice's length fits in 64 bits");
        self.write_at(second, offset + first_bytes)
    }

    /// Returns the file's length in bytes as everybody sees it now.  It may shrink at a power cut to
    /// what it was at the last sync.
    ///
    /// # Errors
    /// [`Error::Io`] when the system cannot tell.
    fn len(&self) -> Result<u64>;

    /// Returns whether the file has no bytes now; as [`File::len`].
    ///
    /// # Errors
    /// [`Error::Io`] when the system cannot tell.
    fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Cuts the file off at `bytes`, or extends it to there with zeros that have no blocks yet.  Not
    /// durable before the next sync of the file, and a later write into the extension may still find
    /// the disk full: who cannot bear that calls [`File::allocate`].
    ///
    /// # Errors
    /// [`Error::Full`], [`Error::ReadOnly`], [`Error::Io`].
    fn set_len(&self, bytes: u64) -> Result<()>;

    /// Gives the file blocks for its bytes in `range`, and the length `range.end` if it was shorter, so that
    /// no later write in the range is refused for want of space.  Not durable before the next sync;
    /// bytes there already stay, new ones read as zero, and after an error the length may have grown
    /// but no byte has changed.  Blocks that lie in the range in part are given, too; an empty range changes
    /// nothing, not even the length.
    ///
    /// A filesystem may look at each block of the range, also at those there already (tmpfs does): who
    /// extends a file step by step should ask for the step and not for the whole.
    ///
    /// Where the filesystem has no such call, zeros are written beyond the old end; holes that lie
    /// before it stay holes.
    ///
    /// # Errors
    /// [`Error::Full`] when there are not so many blocks, [`Error::ReadOnly`], [`Error::Io`].
    fn allocate(&self, range: Range<u64>) -> Result<()>;

    /// Gives the blocks that lie in `range` back to the filesystem: the bytes read as zero then, and the length stays. A later write
    /// there may find the disk full. At a power cut before the next sync of the file the old bytes may be back.
    ///
    /// A filesystem that has no such call keeps the blocks and the bytes.
    ///
    /// # Errors
    /// [`Error::ReadOnly`], [`Error::Io`].
    fn give_back(&self, _range: Range<u64>) -> Result<()> {
        Ok(())
    }

    /// Whether the filesystem notes of a block that [`File::allocate`] gave when it is written for the
    /// first time, so that the next sync has that to write, too.  Where it does, who writes a file in
    /// small pieces, each synced, fills it with zeros beforehand.
    fn notes_first_writes(&self) -> bool {
        true
    }

    /// Makes every byte written through any handle, and the length, safe from a power cut before it
    /// returns.  It does not make the file's *name* safe (that is [`Directory::sync`]), and after an
    /// error it must never be called again to the same end: a later success means nothing.
    ///
    /// # Errors
    /// [`Error::Io`] and [`Error::Full`]; either is final for what was unsynced.
    fn sync(&self) -> Result<()>;

    /// Locks one byte for this open file and returns whether it did: `Ok(false)` only when somebody
    /// else holds it against us and `wait` is false.  The kernel drops the lock when the last copy of
    /// the handle is closed, however the process ends, and not before; the byte need not exist, and
    /// a byte this handle has locked already changes to `mode`.
    ///
    /// In a child of a fork the handle is of nothing, so that the child does not keep the lock; one made by a raw `clone`
    /// calls [`give_up_inherited`](crate::give_up_inherited) at once.
    ///
    /// # Errors
    /// [`Error::ReadOnly`] for an exclusive lock on a handle opened so, [`Error::Io`] where the
    /// filesystem has no locks.
    fn lock(&self, byte: u64, mode: LockMode, wait: bool) -> Result<bool>;

    /// Locks the first byte exclusively, as [`File::lock`] does, for as long as this handle lives and for this process alone: no
    /// child has the lock, however it was made, wherever the filesystem allows that.
    ///
    /// # Errors
    /// As [`File::lock`].
    fn lock_alone(&self) -> Result<bool> {
        self.lock(0, LockMode::Exclusive, false)
    }

    /// Gives the lock on one byte back; without one nothing happens.  Nothing that was written under
    /// the lock is made durable by this.
    ///
    /// # Errors
    /// [`Error::Io`] where the filesystem has no locks.
    fn unlock(&self, byte: u64) -> Result<()>;

    /// Returns the lowest byte of `from .. from + bytes` that somebody else has locked in any mode,
    /// `None` if there is none.  Somebody else is any other open file, of this process too; the answer
    /// may be out of date when it arrives unless a lock of the caller's forbids the change.
    ///
    /// # Errors
    /// [`Error::Io`] where the filesystem has no locks.
    fn locked_by_other(&self, from: u64, bytes: u64) -> Result<Option<u64>>;

    /// Says which file this is, in words that a copy or a successor of the same name does not share.
    /// It stays the same for the file's life, however often it is written or renamed.
    ///
    /// # Errors
    /// [`Error::Io`] when the system cannot tell.
    fn identity(&self) -> Result<Identity>;
}

/// One open directory.
///
/// Names are plain file names: not empty, no `/`, not `.` or `..` (see [`check_name`]).
pub trait Directory: Send + Sync + fmt::Debug {
    /// Opens the file `name` as `mode` says.  A file made here has a name that a power cut may take
    /// away until [`Directory::sync`] has returned, even if the file itself was synced.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Exists`] (only [`OpenMode::CreateNew`]), [`Error::Denied`],
    /// [`Error::ReadOnly`], [`Error::Full`], [`Error::Unsuitable`] when the name belongs to something
    /// that is not a file, [`Error::Io`].
    fn open(&self, name: &str, mode: OpenMode) -> Result<Arc<dyn File>>;

    /// Opens the directory `name` inside this one, made if it is missing.  A new one is durable when
    /// *this* directory is synced; what is put inside needs syncs of its own.
    ///
    /// # Errors
    /// As [`Directory::open`], without [`Error::Exists`].
    fn subdirectory(&self, name: &str) -> Result<Arc<dyn Directory>>;

    /// Gives the file `from` the name `to`, replacing the file of that name if there is one, so that
    /// at every moment, and after a power cut, `to` names either the old file or the new one.  The
    /// change is durable after [`Directory::sync`]; the contents are not synced by it.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Denied`], [`Error::ReadOnly`], [`Error::Full`], [`Error::Io`].
    fn rename(&self, from: &str, to: &str) -> Result<()>;

    /// Removes the name `name`; who has the file open can still use it.  The name may come back at a
    /// power cut until [`Directory::sync`] has returned.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Denied`], [`Error::ReadOnly`], [`Error::Io`].
    fn remove(&self, name: &str) -> Result<()>;

    /// Returns the names of all files here, directories left out, sorted.  Names made or removed by
    /// others meanwhile may be missing or present.
    ///
    /// # Errors
    /// [`Error::Denied`], [`Error::Io`].
    fn list(&self) -> Result<Vec<String>>;

    /// Tells `visit` the names that [`Directory::list`] returns, in any order: quicker where there are many.
    ///
    /// # Errors
    /// As [`Directory::list`].
    fn visit_names(&self, visit: &mut dyn FnMut(&str)) -> Result<()> {
        self.list()?.iter().for_each(|name| visit(name));
        Ok(())
    }

    /// Returns whether a file or directory `name` is here now.  It may be gone at the next call: who
    /// must be the one to make a file opens it with [`OpenMode::CreateNew`].
    ///
    /// # Errors
    /// [`Error::Denied`], [`Error::Io`].
    fn exists(&self, name: &str) -> Result<bool>;

    /// Makes every creation, renaming and removal of a name here safe from a power cut before it
    /// returns.  It does not sync any file's contents, and an error is as final as that of
    /// [`File::sync`].
    ///
    /// # Errors
    /// [`Error::Io`] and [`Error::Full`].
    fn sync(&self) -> Result<()>;

    /// Returns where `name` lies, for a person to read.  Nothing is looked up, and the words are not
    /// meant to be opened.
    fn describe(&self, name: &str) -> String;

    /// Returns which directory this is, whatever its path; none where the disk cannot tell.
    ///
    /// # Errors
    /// [`Error::Io`] when the system cannot tell.
    fn identity(&self) -> Result<Option<Identity>> {
        Ok(None)
    }

    /// Returns a descriptor that the caller closes when it has to open a file and the process has reached its limit of
    /// descriptors; none where the files of this directory need no descriptors.
    fn spare_descriptor(&self) -> Option<OwnedFd> {
        None
    }

    /// Returns whether the directory is on a network filesystem, where locks, shared mappings and
    /// syncs of several machines do not keep this contract.  What is known by its type is named; an
    /// unknown type counts as local.
    ///
    /// # Errors
    /// [`Error::Io`] when the system cannot tell.
    fn is_network(&self) -> Result<bool>;

    /// Returns the door to files of other programs, wherever they are; a path that does not begin with `/` begins here. None
    /// where this disk has no such files.
    fn plain_files(&self) -> Option<Arc<dyn PlainFiles>> {
        None
    }
}

/// How [`Directory::open`] treats a name that is there, or is not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenMode {
    /// The file must be there; it is opened for reading and writing.
    Existing,
    /// The file is made, empty, unless it is there.
    Create,
    /// The file is made, empty; one that is there is [`Error::Exists`].  Of several who try, one wins.
    CreateNew,
    /// The file must be there; every change through this handle is [`Error::ReadOnly`].
    ReadOnly,
}

/// How strongly a byte is locked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockMode {
    /// Beside other shared locks.
    Shared,
    /// Alone.
    Exclusive,
}

/// Which file this is, for the region's header (a copied file must not pass for the original).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Identity {
    /// The filesystem's device number.
    pub device: u64,
    /// The file's number on that filesystem; used again after the file is gone.
    pub inode: u64,
    /// When the file was made, nanoseconds since 1970; zero where the filesystem does not keep it.
    /// The time of the last change is no substitute: it moves with every write.
    pub birth_ns: u64,
}

impl Identity {
    /// Returns whether the filesystem told the birth time, without which a file that was deleted and
    /// made again may have the same identity.
    pub fn is_birth_known(&self) -> bool {
        self.birth_ns != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_writes_are_the_default_of_a_vectored_one() {
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

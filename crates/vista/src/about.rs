//! Properties and contents of a segment.

use std::path::Path;

use crate::{Error, Result, Segment, Txn};
use rio::{Survives, Undo};

impl Segment {
    /// Returns the events that the memory survives.
    pub fn survives(&self) -> Survives {
        self.kept.survives()
    }

    /// Returns whether the segment was torn and has been restored from its checkpoint.
    pub fn is_restored(&self) -> bool {
        self.is_restored
    }

    /// Returns the number of ranges of an unfinished transaction that were restored when the segment was opened.
    pub fn rolled_back(&self) -> usize {
        self.rolled_back
    }

    /// Returns the address of the flat part. The address is the same in every process, unless the segment was opened
    /// with [`Options::anywhere`](crate::Options::anywhere).
    pub fn address(&self) -> usize {
        self.view.address() + usize::try_from(self.from).expect("the segment is mapped")
    }

    /// Returns the undo log, or `None` if the segment belongs to an environment: another process may then be using the
    /// log.
    pub(crate) fn own_undo(&self) -> Option<&Undo> {
        crate::membership::owner_of(self.region()).is_none().then_some(&self.undo)
    }

    /// Refuses a child that fork or clone made of the process that has the segment: the child has a copy of the handle,
    /// but the memory belongs to its parent. Every call that changes the segment makes this check itself.
    ///
    /// # Errors
    /// `Memory` with [`rio::Error::Forked`].
    #[inline]
    pub fn check_process(&self) -> Result<()> {
        Ok(self.kept.check_process()?)
    }

    /// Returns the segment's file.
    pub fn path(&self) -> &Path {
        self.region().path()
    }

    #[cold]
    pub(crate) fn out_of_range(&self, at: u64, bytes: usize) -> Error {
        Error::OutOfRange { path: self.path().to_path_buf(), at, bytes: bytes as u64, size: self.bytes }
    }
}

impl Txn<'_> {
    /// Returns the segment's flat part with its current contents, the transaction's own changes included.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        self.segment.bytes()
    }

    /// Returns the current contents of the `bytes` bytes from `at` on.
    ///
    /// # Errors
    /// `OutOfRange`.
    #[inline]
    pub fn get(&self, at: u64, bytes: usize) -> Result<&[u8]> {
        self.segment.get(at, bytes)
    }
}

impl std::fmt::Debug for Segment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Segment({}, {} bytes at {:#x})", self.path().display(), self.bytes, self.header.address.get())
    }
}

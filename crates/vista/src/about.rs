//! What a segment says of itself, and shows.

use std::path::Path;

use crate::{Error, Result, Segment, Txn};
use rio::{Survives, Undo};

impl Segment {
    /// What the memory survives.
    pub fn survives(&self) -> Survives {
        self.kept.survives()
    }

    /// Whether it was torn, and is as its checkpoint was.
    pub fn is_restored(&self) -> bool {
        self.is_restored
    }

    /// How many ranges of an unfinished transaction were put back when it was opened.
    pub fn rolled_back(&self) -> usize {
        self.rolled_back
    }

    /// The address of the flat part: the same in every process, unless it was opened anywhere.
    pub fn address(&self) -> usize {
        self.view.address() + usize::try_from(self.from).expect("it is mapped")
    }

    /// The undo log, unless what is unfinished is an environment's business: then another process may be at work on it.
    pub(crate) fn own_undo(&self) -> Option<&Undo> {
        crate::member::owner_of(self.region()).is_none().then_some(&self.undo)
    }

    /// Refuses a child that fork or clone made of the process that has the segment: what it inherited is a copy of the handle,
    /// and its parent's memory. Every call that would change anything asks this itself.
    ///
    /// # Errors
    /// `Memory` with [`rio::Error::Forked`].
    #[inline]
    pub fn check_process(&self) -> Result<()> {
        Ok(self.kept.check_process()?)
    }

    /// The file.
    pub fn path(&self) -> &Path {
        self.region().path()
    }

    #[cold]
    pub(crate) fn out_of_range(&self, at: u64, bytes: usize) -> Error {
        Error::OutOfRange { path: self.path().to_path_buf(), at, bytes: bytes as u64, size: self.bytes }
    }
}

impl Txn<'_> {
    /// The segment's flat part as it is now, the transaction's own changes included.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        self.segment.bytes()
    }

    /// `bytes` bytes from `at` on, as they are now.
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

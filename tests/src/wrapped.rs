//! A directory that calls a test's functions for the reads and syncs of files with chosen names.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use libtp_io::{Directory, File, Identity, LockMode, OpenMode, Result};

/// Functions that replace the reads and syncs of a file.
pub trait Calls: Send + Sync {
    /// Reads from the file.
    ///
    /// # Errors
    /// The errors of the file.
    fn read_at(&self, file: &dyn File, buf: &mut [u8], offset: u64) -> Result<usize> {
        file.read_at(buf, offset)
    }
    /// Syncs the file.
    ///
    /// # Errors
    /// The errors of the file.
    fn sync(&self, file: &dyn File) -> Result<()> {
        file.sync()
    }
}

/// A directory in which the given functions replace the reads and syncs of all files whose names contain a given part,
/// also in subdirectories.
pub struct WrappedDirectory {
    inner: Arc<dyn Directory>,
    part: &'static str,
    calls: Arc<dyn Calls>,
}

impl WrappedDirectory {
    /// Replaces the reads and syncs of files whose names contain `part`.
    pub fn new(inner: Arc<dyn Directory>, part: &'static str, calls: Arc<dyn Calls>) -> WrappedDirectory {
        WrappedDirectory { inner, part, calls }
    }
}

impl fmt::Debug for WrappedDirectory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl Directory for WrappedDirectory {
    fn open(&self, name: &str, mode: OpenMode) -> Result<Arc<dyn File>> {
        let inner = self.inner.open(name, mode)?;
        match name.contains(self.part) {
            true => Ok(Arc::new(WrappedFile { inner, calls: Arc::clone(&self.calls) })),
            false => Ok(inner),
        }
    }
    fn subdirectory(&self, name: &str) -> Result<Arc<dyn Directory>> {
        let inner = self.inner.subdirectory(name)?;
        Ok(Arc::new(WrappedDirectory { inner, part: self.part, calls: Arc::clone(&self.calls) }))
    }
    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.inner.rename(from, to)
    }
    fn remove(&self, name: &str) -> Result<()> {
        self.inner.remove(name)
    }
    fn list(&self) -> Result<Vec<String>> {
        self.inner.list()
    }
    fn exists(&self, name: &str) -> Result<bool> {
        self.inner.exists(name)
    }
    fn identity_of(&self, name: &str) -> Result<Option<Identity>> {
        self.inner.identity_of(name)
    }
    fn sync(&self) -> Result<()> {
        self.inner.sync()
    }
    fn describe(&self, name: &str) -> String {
        self.inner.describe(name)
    }
    fn is_network(&self) -> Result<bool> {
        self.inner.is_network()
    }
}

/// A file whose reads and syncs are replaced.
pub struct WrappedFile {
    /// The file.
    pub inner: Arc<dyn File>,
    /// The functions that replace its reads and syncs.
    pub calls: Arc<dyn Calls>,
}

impl fmt::Debug for WrappedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl File for WrappedFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        self.calls.read_at(&*self.inner, buf, offset)
    }
    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        self.inner.write_at(bytes, offset)
    }
    fn write_two_at(&self, first: &[u8], second: &[u8], offset: u64) -> Result<()> {
        self.inner.write_two_at(first, second, offset)
    }
    fn len(&self) -> Result<u64> {
        self.inner.len()
    }
    fn set_len(&self, bytes: u64) -> Result<()> {
        self.inner.set_len(bytes)
    }
    fn allocate(&self, range: Range<u64>) -> Result<()> {
        self.inner.allocate(range)
    }
    fn notes_first_writes(&self) -> bool {
        self.inner.notes_first_writes()
    }
    fn sync(&self) -> Result<()> {
        self.calls.sync(&*self.inner)
    }
    fn lock(&self, byte: u64, mode: LockMode, wait: bool) -> Result<bool> {
        self.inner.lock(byte, mode, wait)
    }
    fn unlock(&self, byte: u64) -> Result<()> {
        self.inner.unlock(byte)
    }
    fn locked_by_other(&self, from: u64, bytes: u64) -> Result<Option<u64>> {
        self.inner.locked_by_other(from, bytes)
    }
    fn identity(&self) -> Result<Identity> {
        self.inner.identity()
    }
}

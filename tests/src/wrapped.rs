//! A directory that calls a test's functions for the reads and syncs of files with chosen names.

use std::sync::Arc;

use libtp_io::{Directory, File, OpenMode, Result};
use libtp_sim::{DirectoryLayer, FileLayer, LayeredDirectory, LayeredFile};

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
    pub fn new(
        inner: Arc<dyn Directory>,
        part: &'static str,
        calls: Arc<dyn Calls>,
    ) -> LayeredDirectory<WrappedDirectory> {
        LayeredDirectory(WrappedDirectory { inner, part, calls })
    }
}

impl DirectoryLayer for WrappedDirectory {
    fn below(&self) -> &dyn Directory {
        &*self.inner
    }
    fn open(&self, name: &str, mode: OpenMode) -> Result<Arc<dyn File>> {
        let inner = self.inner.open(name, mode)?;
        match name.contains(self.part) {
            true => Ok(Arc::new(LayeredFile(WrappedFile { inner, calls: Arc::clone(&self.calls) }))),
            false => Ok(inner),
        }
    }
    fn subdirectory(&self, name: &str) -> Result<Arc<dyn Directory>> {
        let inner = self.inner.subdirectory(name)?;
        Ok(Arc::new(WrappedDirectory::new(inner, self.part, Arc::clone(&self.calls))))
    }
}

/// A file whose reads and syncs are replaced.
pub struct WrappedFile {
    /// The file.
    pub inner: Arc<dyn File>,
    /// The functions that replace its reads and syncs.
    pub calls: Arc<dyn Calls>,
}

impl FileLayer for WrappedFile {
    fn below(&self) -> &dyn File {
        &*self.inner
    }
    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        self.calls.read_at(&*self.inner, buf, offset)
    }
    fn sync(&self) -> Result<()> {
        self.calls.sync(&*self.inner)
    }
}

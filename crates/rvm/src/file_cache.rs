//! A directory whose files are safe as soon as they are written. Its file cache outlives the system, as Rio's does, so
//! a sync has nothing to do.
//!
//! Paper: Rio Vista, sections 3 and 5.2: unmodified RVM on Rio, where a synchronous write reaches no disk.

use std::ops::Range;
use std::sync::Arc;

use libtp_io::{Directory, File, Identity, LockMode, OpenMode, Result};

/// A directory whose files and names need no sync.
#[derive(Debug)]
pub(crate) struct FileCache(pub(crate) Arc<dyn Directory>);

#[derive(Debug)]
struct CachedFile(Arc<dyn File>);

impl Directory for FileCache {
    fn open(&self, name: &str, mode: OpenMode) -> Result<Arc<dyn File>> {
        Ok(Arc::new(CachedFile(self.0.open(name, mode)?)))
    }

    fn subdirectory(&self, name: &str) -> Result<Arc<dyn Directory>> {
        Ok(Arc::new(FileCache(self.0.subdirectory(name)?)))
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.0.rename(from, to)
    }

    fn remove(&self, name: &str) -> Result<()> {
        self.0.remove(name)
    }

    fn list(&self) -> Result<Vec<String>> {
        self.0.list()
    }

    fn exists(&self, name: &str) -> Result<bool> {
        self.0.exists(name)
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }

    fn describe(&self, name: &str) -> String {
        self.0.describe(name)
    }

    fn is_network(&self) -> Result<bool> {
        self.0.is_network()
    }
}

impl File for CachedFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        self.0.read_at(buf, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        self.0.write_at(bytes, offset)
    }

    fn write_two_at(&self, first: &[u8], second: &[u8], offset: u64) -> Result<()> {
        self.0.write_two_at(first, second, offset)
    }

    fn len(&self) -> Result<u64> {
        self.0.len()
    }

    fn set_len(&self, bytes: u64) -> Result<()> {
        self.0.set_len(bytes)
    }

    fn allocate(&self, range: Range<u64>) -> Result<()> {
        self.0.allocate(range)
    }

    fn notes_first_writes(&self) -> bool {
        self.0.notes_first_writes()
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }

    fn lock(&self, byte: u64, mode: LockMode, wait: bool) -> Result<bool> {
        self.0.lock(byte, mode, wait)
    }

    fn lock_uninherited(&self) -> Result<bool> {
        self.0.lock_uninherited()
    }

    fn unlock(&self, byte: u64) -> Result<()> {
        self.0.unlock(byte)
    }

    fn locked_by_other(&self, from: u64, bytes: u64) -> Result<Option<u64>> {
        self.0.locked_by_other(from, bytes)
    }

    fn identity(&self) -> Result<Identity> {
        self.0.identity()
    }
}

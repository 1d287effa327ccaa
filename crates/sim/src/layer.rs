//! Layers: directories and files that pass the calls on to a directory or file below them, and change some of them.
//!
//! A test gives the layer the calls that it changes; the others have the effect that they have below. A layer has no
//! plain files, no identity of the directory, and no call that only some disks have.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use libtp_io::{Directory, File, Identity, LockMode, OpenMode, Result};

/// The calls of a directory that a layer may change.
#[allow(clippy::missing_errors_doc)] // `Directory` has the errors
pub trait DirectoryLayer: Send + Sync {
    /// Returns the directory below.
    fn below(&self) -> &dyn Directory;
    /// As [`Directory::open`].
    fn open(&self, name: &str, mode: OpenMode) -> Result<Arc<dyn File>> {
        self.below().open(name, mode)
    }
    /// As [`Directory::subdirectory`].
    fn subdirectory(&self, name: &str) -> Result<Arc<dyn Directory>> {
        self.below().subdirectory(name)
    }
    /// As [`Directory::exists`].
    fn exists(&self, name: &str) -> Result<bool> {
        self.below().exists(name)
    }
    /// As [`Directory::sync`].
    fn sync(&self) -> Result<()> {
        self.below().sync()
    }
}

/// The directory that a layer makes.
pub struct LayeredDirectory<L>(pub L);

impl<L: DirectoryLayer> fmt::Debug for LayeredDirectory<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.below().fmt(f)
    }
}

impl<L: DirectoryLayer> Directory for LayeredDirectory<L> {
    fn open(&self, name: &str, mode: OpenMode) -> Result<Arc<dyn File>> {
        self.0.open(name, mode)
    }
    fn subdirectory(&self, name: &str) -> Result<Arc<dyn Directory>> {
        self.0.subdirectory(name)
    }
    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.0.below().rename(from, to)
    }
    fn remove(&self, name: &str) -> Result<()> {
        self.0.below().remove(name)
    }
    fn list(&self) -> Result<Vec<String>> {
        self.0.below().list()
    }
    fn exists(&self, name: &str) -> Result<bool> {
        self.0.exists(name)
    }
    fn identity_of(&self, name: &str) -> Result<Option<Identity>> {
        self.0.below().identity_of(name)
    }
    fn sync(&self) -> Result<()> {
        self.0.sync()
    }
    fn describe(&self, name: &str) -> String {
        self.0.below().describe(name)
    }
    fn is_network(&self) -> Result<bool> {
        self.0.below().is_network()
    }
}

/// The calls of a file that a layer may change.
#[allow(clippy::missing_errors_doc)] // `File` has the errors
pub trait FileLayer: Send + Sync {
    /// Returns the file below.
    fn below(&self) -> &dyn File;
    /// As [`File::read_at`].
    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        self.below().read_at(buf, offset)
    }
    /// As [`File::allocate`].
    fn allocate(&self, range: Range<u64>) -> Result<()> {
        self.below().allocate(range)
    }
    /// As [`File::sync`].
    fn sync(&self) -> Result<()> {
        self.below().sync()
    }
}

/// The file that a layer makes.
pub struct LayeredFile<L>(pub L);

impl<L: FileLayer> fmt::Debug for LayeredFile<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.below().fmt(f)
    }
}

impl<L: FileLayer> File for LayeredFile<L> {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        self.0.read_at(buf, offset)
    }
    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        self.0.below().write_at(bytes, offset)
    }
    fn write_two_at(&self, first: &[u8], second: &[u8], offset: u64) -> Result<()> {
        self.0.below().write_two_at(first, second, offset)
    }
    fn len(&self) -> Result<u64> {
        self.0.below().len()
    }
    fn set_len(&self, bytes: u64) -> Result<()> {
        self.0.below().set_len(bytes)
    }
    fn allocate(&self, range: Range<u64>) -> Result<()> {
        self.0.allocate(range)
    }
    fn notes_first_writes(&self) -> bool {
        self.0.below().notes_first_writes()
    }
    fn sync(&self) -> Result<()> {
        self.0.sync()
    }
    fn lock(&self, byte: u64, mode: LockMode, wait: bool) -> Result<bool> {
        self.0.below().lock(byte, mode, wait)
    }
    fn unlock(&self, byte: u64) -> Result<()> {
        self.0.below().unlock(byte)
    }
    fn locked_by_other(&self, from: u64, bytes: u64) -> Result<Option<u64>> {
        self.0.below().locked_by_other(from, bytes)
    }
    fn identity(&self) -> Result<Identity> {
        self.0.below().identity()
    }
}

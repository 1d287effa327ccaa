//! A directory, and its files by name.

use std::fmt;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use super::file::{File, Identity};
use super::plain::PlainFiles;
#[cfg(doc)]
use crate::check_name;
use crate::error::{Error, Result};

/// One open directory.
///
/// Names are plain file names: not empty, no `/`, not `.` or `..` (see [`check_name`]).
pub trait Directory: Send + Sync + fmt::Debug {
    /// Opens the file `name` in the mode `mode`. Until [`Directory::sync`] has returned, a power cut may remove the
    /// name of a new file, even if the file itself was synced.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Exists`] (only [`OpenMode::CreateNew`]), [`Error::Denied`],
    /// [`Error::ReadOnly`], [`Error::Full`], [`Error::Unsuitable`] when the name belongs to something
    /// that is not a file, [`Error::Io`].
    fn open(&self, name: &str, mode: OpenMode) -> Result<Arc<dyn File>>;

    /// Opens the directory `name` inside this directory, and makes it if it is missing. The name of a new directory is
    /// durable when *this* directory is synced; the files in it need their own syncs.
    ///
    /// # Errors
    /// As [`Directory::open`], without [`Error::Exists`].
    fn subdirectory(&self, name: &str) -> Result<Arc<dyn Directory>>;

    /// Gives the file `from` the name `to`, and replaces a file that has that name. At every moment, and after a power
    /// cut, `to` names either the old file or the new file. The new name is durable after [`Directory::sync`], which
    /// does not sync the file's contents.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Denied`], [`Error::ReadOnly`], [`Error::Full`], [`Error::Io`].
    fn rename(&self, from: &str, to: &str) -> Result<()>;

    /// Removes the name `name`; open handles of the file stay usable. Until [`Directory::sync`] has returned, a power
    /// cut may bring the name back.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Denied`], [`Error::ReadOnly`], [`Error::Io`].
    fn remove(&self, name: &str) -> Result<()>;

    /// Returns the names of all files here, without directories, sorted. A name that is made or removed during the call
    /// may be missing or present.
    ///
    /// # Errors
    /// [`Error::Denied`], [`Error::Io`].
    fn list(&self) -> Result<Vec<String>>;

    /// Calls `visit` with each name that [`Directory::list`] returns, in any order; faster for a large directory.
    ///
    /// # Errors
    /// As [`Directory::list`].
    fn visit_names(&self, visit: &mut dyn FnMut(&str)) -> Result<()> {
        self.list()?.iter().for_each(|name| visit(name));
        Ok(())
    }

    /// Returns whether a file or directory `name` exists now. Another process may remove it before the next call. A
    /// caller that must make the file itself opens it with [`OpenMode::CreateNew`].
    ///
    /// # Errors
    /// [`Error::Denied`], [`Error::Io`].
    fn exists(&self, name: &str) -> Result<bool>;

    /// Returns the identity of the file `name`, as [`File::identity`] returns it; `None` if no file has the name.
    ///
    /// # Errors
    /// [`Error::Denied`], [`Error::Io`].
    fn identity_of(&self, name: &str) -> Result<Option<Identity>> {
        match self.open(name, OpenMode::ReadOnly) {
            Err(Error::NotFound { .. }) => Ok(None),
            file => file?.identity().map(Some),
        }
    }

    /// Makes every creation, renaming and removal of a name in this directory safe from a power cut. The names are safe
    /// when the call returns. Syncs no file's contents. An error is as final as an error of [`File::sync`].
    ///
    /// # Errors
    /// [`Error::Io`] and [`Error::Full`].
    fn sync(&self) -> Result<()>;

    /// Returns a description of the path of `name`, for messages. A caller must not open the description as a path. The
    /// call does not access the disk.
    fn describe(&self, name: &str) -> String;

    /// Returns the directory's identity, which does not depend on its path; `None` if the disk has no identities.
    ///
    /// # Errors
    /// [`Error::Io`] when the system cannot tell.
    fn identity(&self) -> Result<Option<Identity>> {
        Ok(None)
    }

    /// Returns a spare descriptor; `None` where the files of this directory need no descriptors. The caller closes the
    /// spare descriptor when the process has reached its limit of descriptors and must open another file.
    fn spare_descriptor(&self) -> Option<OwnedFd> {
        None
    }

    /// Returns whether the directory is on a network filesystem. On such a filesystem the locks, shared mappings and
    /// syncs of several machines do not keep this contract. A list of known types decides; an unknown type counts as
    /// local.
    ///
    /// # Errors
    /// [`Error::Io`] when the system cannot tell.
    fn is_network(&self) -> Result<bool>;

    /// Returns the interface to files of other programs, anywhere on the machine; `None` if this disk has no such
    /// files. A path without a leading `/` begins in this directory.
    fn plain_files(&self) -> Option<Arc<dyn PlainFiles>> {
        None
    }
}

/// How [`Directory::open`] treats an existing or missing name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenMode {
    /// The file must exist; it is opened for reading and writing.
    Existing,
    /// An existing file is opened; a missing file is made, empty.
    Create,
    /// A new, empty file is made; for an existing file, the call fails with [`Error::Exists`]. Of several concurrent
    /// callers, exactly one succeeds.
    CreateNew,
    /// The file must exist; every change through this handle fails with [`Error::ReadOnly`].
    ReadOnly,
}

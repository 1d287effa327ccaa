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
    /// Opens the file `name` as `mode` says. Until [`Directory::sync`] has returned, a power cut may take away the
    /// name of a file made here, even if the file itself was synced.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Exists`] (only [`OpenMode::CreateNew`]), [`Error::Denied`],
    /// [`Error::ReadOnly`], [`Error::Full`], [`Error::Unsuitable`] when the name belongs to something
    /// that is not a file, [`Error::Io`].
    fn open(&self, name: &str, mode: OpenMode) -> Result<Arc<dyn File>>;

    /// Opens the directory `name` inside this one, and makes it if it is missing. A new directory is durable when
    /// *this* directory is synced; its contents need syncs of their own.
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

    /// Removes the name `name`; open handles of the file stay usable. The name may come back at a power cut until
    /// [`Directory::sync`] has returned.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Denied`], [`Error::ReadOnly`], [`Error::Io`].
    fn remove(&self, name: &str) -> Result<()>;

    /// Returns the names of all files here, without directories, sorted. A name that is made or removed meanwhile may
    /// be missing or present.
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

    /// Returns whether a file or directory `name` is here now. It may be gone at the next call: a caller that must be
    /// the one to make a file opens it with [`OpenMode::CreateNew`].
    ///
    /// # Errors
    /// [`Error::Denied`], [`Error::Io`].
    fn exists(&self, name: &str) -> Result<bool>;

    /// Returns the identity of the file `name`, as [`File::identity`]; `None` if no file has the name.
    ///
    /// # Errors
    /// [`Error::Denied`], [`Error::Io`].
    fn identity_of(&self, name: &str) -> Result<Option<Identity>> {
        match self.open(name, OpenMode::ReadOnly) {
            Err(Error::NotFound { .. }) => Ok(None),
            file => file?.identity().map(Some),
        }
    }

    /// Makes every creation, renaming and removal of a name here safe from a power cut before it
    /// returns.  It does not sync any file's contents, and an error is as final as that of
    /// [`File::sync`].
    ///
    /// # Errors
    /// [`Error::Io`] and [`Error::Full`].
    fn sync(&self) -> Result<()>;

    /// Returns a description of where `name` lies, for messages. It looks nothing up, and the text is not a path to
    /// open.
    fn describe(&self, name: &str) -> String;

    /// Returns the directory's identity, which does not depend on its path; `None` where the disk has no identities.
    ///
    /// # Errors
    /// [`Error::Io`] when the system cannot tell.
    fn identity(&self) -> Result<Option<Identity>> {
        Ok(None)
    }

    /// Returns a spare descriptor, which the caller closes when it has to open a file and the process has reached its
    /// limit of descriptors; `None` where the files of this directory need no descriptors.
    fn spare_descriptor(&self) -> Option<OwnedFd> {
        None
    }

    /// Returns whether the directory is on a network filesystem, where locks, shared mappings and syncs of several
    /// machines do not keep this contract. A list of known types decides; an unknown type counts as local.
    ///
    /// # Errors
    /// [`Error::Io`] when the system cannot tell.
    fn is_network(&self) -> Result<bool>;

    /// Returns the interface to files of other programs, anywhere on the machine; a path without a leading `/` begins
    /// in this directory. `None` where this disk has no such files.
    fn plain_files(&self) -> Option<Arc<dyn PlainFiles>> {
        None
    }
}

/// How [`Directory::open`] treats an existing or missing name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenMode {
    /// The file must be there; it is opened for reading and writing.
    Existing,
    /// The file is made, empty, unless it is there.
    Create,
    /// The file is made, empty; an existing file is [`Error::Exists`]. Of several concurrent callers, one succeeds.
    CreateNew,
    /// The file must be there; every change through this handle is [`Error::ReadOnly`].
    ReadOnly,
}

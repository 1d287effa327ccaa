//! What is asked of plain files: those of other programs, anywhere on the machine, which transactions replace.
//!
//! A path is a text of names with `/` between them; one that begins with `/` begins at the root, any other in the directory
//! that the door was had from.  No name of it is `.` or `..`, and none of the directories it goes through is a symbolic link:
//! so one file has one path, as long as nobody mounts a directory twice, and nobody who may write to some directory leads us
//! into another.  A symbolic link in the file's own place is never followed either.
//!
//! The rules of [`File`] and [`Directory`](crate::Directory) hold: unsynced is unpromised, a failed sync is final.

use std::fmt;
use std::sync::Arc;

use crate::contract::File;
use crate::error::Result;
#[cfg(doc)]
use crate::Error;

/// The door to plain files.
pub trait PlainFiles: Send + Sync + fmt::Debug {
    /// Returns what is at `path` now, none if nothing is.
    ///
    /// # Errors
    /// [`Error::NotFound`] when the directory is missing, [`Error::Unsuitable`] when the path is none, or leads through a
    /// symbolic link or a file; [`Error::Denied`], [`Error::Io`].
    fn status(&self, path: &str) -> Result<Option<PlainStatus>>;

    /// Returns a number by which `directory` is known again: another directory of that name, of another disk say, has another one.
    ///
    /// # Errors
    /// As [`PlainFiles::status`].
    fn number_of(&self, directory: &str) -> Result<u64>;

    /// Opens the file at `path` for reading.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Unsuitable`] when it is no file; as [`PlainFiles::status`].
    fn open(&self, path: &str) -> Result<Arc<dyn File>>;

    /// Makes a file at `path`, where nothing is, and opens it for writing.  It has the mode, owner and group of `like`, none of
    /// which is given away before it has all of them; without `like` those of any file that this process makes.
    ///
    /// # Errors
    /// [`Error::Exists`]; [`Error::Denied`] also when the owner or the group cannot be given to it: nothing is left then;
    /// [`Error::Full`], [`Error::ReadOnly`]; as [`PlainFiles::status`].
    fn create(&self, path: &str, like: Option<&PlainStatus>) -> Result<Arc<dyn File>>;

    /// Gives the file at `path` one more name, `other`, where nothing is.
    ///
    /// # Errors
    /// [`Error::Exists`]; [`Error::Unsuitable`] on another filesystem, or when it is a directory; [`Error::Denied`], also where the
    /// filesystem has no files of two names; [`Error::Full`], [`Error::ReadOnly`], [`Error::Io`].
    fn link(&self, path: &str, other: &str) -> Result<()>;

    /// Gives the file at `path` the name `name` in the same directory, replacing the file of that name, as
    /// [`Directory::rename`](crate::Directory::rename).  If both are the same file, nothing happens.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Denied`], [`Error::ReadOnly`], [`Error::Full`], [`Error::Unsuitable`], [`Error::Io`].
    fn rename(&self, path: &str, name: &str) -> Result<()>;

    /// Removes the file at `path`.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Denied`], [`Error::ReadOnly`], [`Error::Unsuitable`], [`Error::Io`].
    fn remove(&self, path: &str) -> Result<()>;

    /// Returns whether this process could replace or remove what is at `path`, as far as that can be known before it does.
    ///
    /// # Errors
    /// [`Error::Denied`], [`Error::ReadOnly`]; as [`PlainFiles::status`].
    fn check_removable(&self, path: &str) -> Result<()>;

    /// Returns the names of all that is not a directory in `directory`; a name that is not UTF-8 is left out.
    ///
    /// # Errors
    /// As [`PlainFiles::status`].
    fn list(&self, directory: &str) -> Result<Vec<String>>;

    /// Makes every change of a name in `directory` safe from a power cut before it returns.
    ///
    /// # Errors
    /// [`Error::Io`] and [`Error::Full`], final as those of [`File::sync`]; as [`PlainFiles::status`].
    fn sync(&self, directory: &str) -> Result<()>;
}

/// What kind of thing bears a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlainKind {
    /// A file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Link,
    /// A device, a pipe, a socket.
    Other,
}

/// What is at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlainStatus {
    /// What kind of thing.
    pub kind: PlainKind,
    /// Its number on its filesystem.
    pub inode: u64,
    /// Its length.
    pub bytes: u64,
    /// When its contents were changed last, nanoseconds since 1970.
    pub modified_ns: u64,
    /// The rights to it, twelve bits.
    pub mode: u32,
    /// Its owner.
    pub owner: u32,
    /// Its group.
    pub group: u32,
}

/// A path's directory and its last name.
pub(crate) fn split(path: &str) -> (&str, &str) {
    match path.rfind('/') {
        Some(0) => ("/", &path[1..]),
        Some(at) => (&path[..at], &path[at + 1..]),
        None => ("", path),
    }
}

#[cfg(test)]
mod tests {
    use super::split;

    #[test]
    fn a_path_has_a_directory_and_a_name() {
        assert_eq!(split("/etc/passwd"), ("/etc", "passwd"));
        assert_eq!(split("/vmlinuz"), ("/", "vmlinuz"));
        assert_eq!(split("rcs/a.c"), ("rcs", "a.c"));
        assert_eq!(split("a.c"), ("", "a.c"));
    }
}

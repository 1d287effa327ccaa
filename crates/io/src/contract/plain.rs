//! The interface to plain files: files of other programs, anywhere on the machine, which transactions can replace.
//!
//! A path is names with `/` between them. A path that begins with `/` begins at the root; any other path begins in the
//! directory that returned the interface. No name in a path is `.` or `..`, and no directory on a path is a symbolic
//! link. So a file has one path only, unless a directory is mounted twice, and a user who may write to a directory
//! cannot redirect a path through it. If the last name is a symbolic link, it is not followed either.
//!
//! The rules of [`File`] and [`Directory`](crate::Directory) hold: unsynced is unpromised, a failed sync is final.

use std::fmt;
use std::sync::Arc;

use super::file::File;
#[cfg(doc)]
use crate::error::Error;
use crate::error::Result;

/// The interface to plain files.
pub trait PlainFiles: Send + Sync + fmt::Debug {
    /// Returns the status of the file, directory or other entry at `path`; `None` if there is no entry.
    ///
    /// # Errors
    /// [`Error::NotFound`] when the directory is missing, [`Error::Unsuitable`] when the path is not valid, or leads
    /// through a symbolic link or a file; [`Error::Denied`], [`Error::Io`].
    fn status(&self, path: &str) -> Result<Option<PlainStatus>>;

    /// Returns a number that identifies `directory`. If the path later leads to another directory, for example on
    /// another disk, the number is different.
    ///
    /// # Errors
    /// As [`PlainFiles::status`].
    fn number_of(&self, directory: &str) -> Result<u64>;

    /// Opens the file at `path` for reading.
    ///
    /// # Errors
    /// [`Error::NotFound`] when there is no file; [`Error::Unsuitable`] when the path leads to something that is not a
    /// file; the errors of [`PlainFiles::status`].
    fn open(&self, path: &str) -> Result<Arc<dyn File>>;

    /// Makes a file at `path`, which must be free, and opens it for writing. The file gets the mode, owner and group of
    /// `like`; until it has all three, only its owner has access. Without `like`, the file gets the same mode, owner
    /// and group as any other file that this process makes.
    ///
    /// # Errors
    /// [`Error::Exists`]; [`Error::Denied`], also when the new file cannot get the owner or the group, and is removed;
    /// [`Error::Full`], [`Error::ReadOnly`]; the errors of [`PlainFiles::status`].
    fn create(&self, path: &str, like: Option<&PlainStatus>) -> Result<Arc<dyn File>>;

    /// Gives the file at `path` the additional name `other`, which must be free.
    ///
    /// # Errors
    /// [`Error::Exists`]; [`Error::Unsuitable`] if `other` is on another filesystem, or if `path` is a directory;
    /// [`Error::Denied`], also if the filesystem has no hard links; [`Error::Full`], [`Error::ReadOnly`],
    /// [`Error::Io`].
    fn link(&self, path: &str, other: &str) -> Result<()>;

    /// Gives the file at `path` the name `name` in the same directory, and replaces the file of that name, as
    /// [`Directory::rename`](crate::Directory::rename) does. If both names belong to the same file, nothing happens.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Denied`], [`Error::ReadOnly`], [`Error::Full`], [`Error::Unsuitable`],
    /// [`Error::Io`].
    fn rename(&self, path: &str, name: &str) -> Result<()>;

    /// Removes the file at `path`.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Denied`], [`Error::ReadOnly`], [`Error::Unsuitable`], [`Error::Io`].
    fn remove(&self, path: &str) -> Result<()>;

    /// Checks that this process may replace or remove the entry at `path`, as far as a check in advance can tell.
    ///
    /// # Errors
    /// [`Error::Denied`], [`Error::ReadOnly`]; the errors of [`PlainFiles::status`].
    fn check_removable(&self, path: &str) -> Result<()>;

    /// Returns the names of all entries of `directory` except directories; a name that is not UTF-8 is left out.
    ///
    /// # Errors
    /// As [`PlainFiles::status`].
    fn list(&self, directory: &str) -> Result<Vec<String>>;

    /// Makes every change of a name in `directory` safe from a power cut. The names are safe when the call returns.
    ///
    /// # Errors
    /// [`Error::Io`] and [`Error::Full`], as final as an error of [`File::sync`]; the errors of [`PlainFiles::status`].
    fn sync(&self, directory: &str) -> Result<()>;
}

/// Kind of a directory's entry.
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

/// Status of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlainStatus {
    /// The kind of the entry.
    pub kind: PlainKind,
    /// The entry's number on its filesystem.
    pub inode: u64,
    /// The length in bytes.
    pub bytes: u64,
    /// Time of the last change of the contents, in nanoseconds since 1970.
    pub modified_ns: u64,
    /// The permissions, twelve bits.
    pub mode: u32,
    /// The owner's user number.
    pub owner: u32,
    /// The group's number.
    pub group: u32,
}

/// Splits a path into its directory and its last name.
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

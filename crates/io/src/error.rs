//! Errors of the disk, sorted by what the caller can do about them.
//!
//! Every message names the operation, the file and, if there is one, the byte. The message states which data is safe
//! and what to do. This crate prints nothing: `libtp` passes the message on.

use std::fmt;

/// The result of a call to the disk.
pub type Result<T> = std::result::Result<T, Error>;

/// The kind of operation that failed. The simulated disk counts its calls by kind of operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Operation {
    /// `Directory::open`, `Directory::subdirectory`.
    Open,
    /// `File::read_at`.
    Read,
    /// `File::write_at`, `File::write_two_at`.
    Write,
    /// `File::sync`.
    Sync,
    /// `File::set_len`.
    SetLen,
    /// `File::allocate`.
    Allocate,
    /// `Directory::rename`, `PlainFiles::rename`.
    Rename,
    /// `PlainFiles::link`.
    Link,
    /// `Directory::remove`.
    Remove,
    /// `Directory::list`.
    List,
    /// `Directory::sync`.
    SyncDirectory,
    /// `File::lock`, `File::unlock`, `File::locked_by_other`.
    Lock,
    /// `File::len`, `File::identity`, `Directory::exists`, `Directory::is_network`.
    Inspect,
}

impl Operation {
    /// Every operation, in the order of the variants.
    pub const ALL: [Operation; 13] = [
        Operation::Open,
        Operation::Read,
        Operation::Write,
        Operation::Sync,
        Operation::SetLen,
        Operation::Allocate,
        Operation::Rename,
        Operation::Link,
        Operation::Remove,
        Operation::List,
        Operation::SyncDirectory,
        Operation::Lock,
        Operation::Inspect,
    ];
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Operation::Open => "open",
            Operation::Read => "read",
            Operation::Write => "write",
            Operation::Sync => "sync",
            Operation::SetLen => "set the length of",
            Operation::Allocate => "allocate blocks for",
            Operation::Rename => "rename",
            Operation::Link => "give another name to",
            Operation::Remove => "remove",
            Operation::List => "list",
            Operation::SyncDirectory => "sync the directory",
            Operation::Lock => "lock",
            Operation::Inspect => "look at",
        })
    }
}

/// The reason why a call to the disk failed. The variants differ by what the caller can do.
///
/// `file` is the path as `Directory::describe` gives it. `offset` is the byte at which the call began; for
/// [`Operation::SetLen`] and [`Operation::Allocate`] it is the length asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The filesystem, or the user's quota, is full. Free some space and continue; nothing synced is lost.
    #[error(
        "the disk of {file}, or the user's quota, is full: could not {operation} it{} ({}); nothing that was \
         synced is lost; free some space and try again",
        at(*offset), reason(*errno)
    )]
    Full {
        /// The operation that failed.
        operation: Operation,
        /// The file's path.
        file: String,
        /// The byte offset, if the operation has one.
        offset: Option<u64>,
        /// The system's error number.
        errno: i32,
    },
    /// The user does not have the permission for the operation. Change the permissions or the user.
    #[error(
        "could not {operation} {file}: permission denied; nothing was changed; give this user read \
         and write permission on the file and its directory"
    )]
    Denied {
        /// The operation that failed.
        operation: Operation,
        /// The file's path.
        file: String,
    },
    /// There is no such file or directory.
    #[error("could not {operation} {file}: it does not exist; nothing was changed; check the path")]
    NotFound {
        /// The operation that failed.
        operation: Operation,
        /// The file's path.
        file: String,
    },
    /// The caller asked for a new file, and the file exists.
    #[error(
        "could not {operation} {file}: it exists already, and was not changed; choose another name, or remove it first"
    )]
    Exists {
        /// The operation that failed.
        operation: Operation,
        /// The file's path.
        file: String,
    },
    /// The filesystem is mounted read-only, or the handle is read-only.
    #[error(
        "could not {operation} {file}: its filesystem is mounted read-only, or the file was opened for reading only; nothing was changed. libtp needs write access even to read: mount the filesystem for writing, or choose a directory that can be written"
    )]
    ReadOnly {
        /// The operation that failed.
        operation: Operation,
        /// The file's path.
        file: String,
    },
    /// The name is not a valid file name, or names a thing of the wrong kind, for example a directory instead of a
    /// file.
    #[error("could not {operation} {file}: {what}; nothing was changed; give another name or path")]
    Unsuitable {
        /// The operation that failed.
        operation: Operation,
        /// The file's path.
        file: String,
        /// The reason, as half a sentence.
        what: &'static str,
    },
    /// The disk failed, or the system reported an error number that no other variant covers.
    #[error("could not {operation} {file}{}: {}; check the disk, and the limits of this process", at(*offset), reason(*errno))]
    Io {
        /// The operation that failed.
        operation: Operation,
        /// The file's path.
        file: String,
        /// The byte offset, if the operation has one.
        offset: Option<u64>,
        /// The system's error number.
        errno: i32,
    },
}

impl Error {
    /// Turns a system's error number into the variant that states what the caller can do.
    pub fn from_errno(operation: Operation, file: String, offset: Option<u64>, errno: i32) -> Error {
        match errno {
            libc::ENOSPC | libc::EDQUOT => Error::Full { operation, file, offset, errno },
            libc::EACCES | libc::EPERM => Error::Denied { operation, file },
            libc::ENOENT => Error::NotFound { operation, file },
            libc::EEXIST => Error::Exists { operation, file },
            libc::EROFS => Error::ReadOnly { operation, file },
            libc::EISDIR => Error::Unsuitable { operation, file, what: "it is a directory, not a file" },
            libc::EXDEV => Error::Unsuitable { operation, file, what: "the other name would be on another filesystem" },
            libc::ELOOP => Error::Unsuitable { operation, file, what: "it is a symbolic link" },
            libc::ENOTDIR => Error::Unsuitable { operation, file, what: "it is a file, not a directory" },
            _ => Error::Io { operation, file, offset, errno },
        }
    }

    /// Makes the error for a call that uses the descriptor of `file` after the program has closed that descriptor. The
    /// number of the descriptor may then belong to another file.
    pub fn closed_descriptor(operation: Operation, file: String) -> Error {
        Error::Io { operation, file, offset: None, errno: libc::EBADF }
    }

    /// Returns the operation that failed.
    pub fn operation(&self) -> Operation {
        match self {
            Error::Full { operation, .. }
            | Error::Denied { operation, .. }
            | Error::NotFound { operation, .. }
            | Error::Exists { operation, .. }
            | Error::ReadOnly { operation, .. }
            | Error::Unsuitable { operation, .. }
            | Error::Io { operation, .. } => *operation,
        }
    }

    /// Returns whether the call failed because of a limit or the rights of this process, or because the process has
    /// closed the descriptor. After such a failure, everything that the disk has promised still holds, and the call may
    /// succeed in another process.
    ///
    /// For a sync the error number is not enough: the kernel may report the failure of an earlier write with any error
    /// number. So the function returns true for a sync only if the sync did not begin.
    pub fn is_limit_of_process(&self) -> bool {
        let (operation, errno) = match self {
            Error::Io { operation, errno, .. } => (operation, errno),
            Error::Denied { operation, .. } | Error::ReadOnly { operation, .. } => {
                return !matches!(operation, Operation::Sync | Operation::SyncDirectory);
            }
            _ => return false,
        };
        let is_not_begun = matches!(*errno, libc::EBADF | libc::EINTR);
        match operation {
            Operation::Sync | Operation::SyncDirectory => is_not_begun,
            _ => {
                is_not_begun
                    || matches!(*errno, libc::EMFILE | libc::ENFILE | libc::ENOMEM | libc::EFBIG | libc::EAGAIN)
            }
        }
    }

    /// Returns whether a sync failed after it had begun: the disk may lack the bytes, and a later sync does not write
    /// them again.
    pub fn is_failed_sync(&self) -> bool {
        matches!(self.operation(), Operation::Sync | Operation::SyncDirectory) && !self.is_limit_of_process()
    }

    /// Returns whether the file's descriptor is closed, which only the program itself can have done.
    pub fn is_closed_descriptor(&self) -> bool {
        matches!(self, Error::Io { errno: libc::EBADF, .. })
    }

    /// Returns whether the process or the machine had no free descriptor for the file.
    pub fn is_out_of_descriptors(&self) -> bool {
        matches!(self, Error::Io { errno: libc::EMFILE | libc::ENFILE, .. })
    }

    /// Returns the path of the file that failed.
    pub fn file(&self) -> &str {
        match self {
            Error::Full { file, .. }
            | Error::Denied { file, .. }
            | Error::NotFound { file, .. }
            | Error::Exists { file, .. }
            | Error::ReadOnly { file, .. }
            | Error::Unsuitable { file, .. }
            | Error::Io { file, .. } => file,
        }
    }
}

fn at(offset: Option<u64>) -> String {
    offset.map_or_else(String::new, |byte| format!(" at byte {byte}"))
}

fn reason(errno: i32) -> String {
    std::io::Error::from_raw_os_error(errno).to_string()
}

/// Checks that `name` is a plain name of a file in a directory.
///
/// # Errors
/// [`Error::Unsuitable`] if the name is empty, longer than 255 bytes, `.` or `..`, or contains a `/` or a zero byte.
pub fn check_name(operation: Operation, name: &str) -> Result<()> {
    let what = if name.is_empty() {
        "the name is empty"
    } else if name.len() > 255 {
        "the name is longer than 255 bytes"
    } else if name == "." || name == ".." {
        "the name stands for a directory"
    } else if name.contains('/') {
        "the name has a slash in it"
    } else if name.contains('\0') {
        "the name has a zero byte in it"
    } else {
        return Ok(());
    };
    Err(Error::Unsuitable { operation, file: format!("{name:?}"), what })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_the_file_the_operation_and_the_byte() {
        let error = Error::from_errno(Operation::Write, "/bank/log.00000001".into(), Some(8192), 5);
        let text = error.to_string();
        for word in ["write", "/bank/log.00000001", "byte 8192", "os error 5"] {
            assert!(text.contains(word), "{text:?} does not contain {word:?}");
        }
        assert_eq!((error.operation(), error.file()), (Operation::Write, "/bank/log.00000001"));
    }

    #[test]
    fn a_full_disk_is_named_by_its_file_and_a_read_only_filesystem_by_its_remedy() {
        let text = |errno| Error::from_errno(Operation::Write, "/bank/control".into(), Some(12288), errno).to_string();
        let full = text(libc::ENOSPC);
        assert!(full.starts_with("the disk of /bank/control, or the user's quota, is full: "), "{full}");
        assert!(full.contains("byte 12288") && full.contains("free some space"), "{full}");
        let read_only = text(libc::EROFS);
        assert!(read_only.contains("libtp needs write access even to read"), "{read_only}");
    }

    #[test]
    fn error_numbers_become_errors_that_a_caller_can_act_on() {
        let sort = |errno| Error::from_errno(Operation::Open, String::new(), None, errno);
        assert!(matches!(sort(libc::ENOSPC), Error::Full { .. }));
        assert!(matches!(sort(libc::EDQUOT), Error::Full { .. }));
        assert!(matches!(sort(libc::EACCES), Error::Denied { .. }));
        assert!(matches!(sort(libc::EPERM), Error::Denied { .. }));
        assert!(matches!(sort(libc::ENOENT), Error::NotFound { .. }));
        assert!(matches!(sort(libc::EEXIST), Error::Exists { .. }));
        assert!(matches!(sort(libc::EROFS), Error::ReadOnly { .. }));
        assert!(matches!(sort(libc::EISDIR), Error::Unsuitable { .. }));
        assert!(matches!(sort(libc::ENOTDIR), Error::Unsuitable { .. }));
        assert!(matches!(sort(libc::EIO), Error::Io { .. }));
    }

    #[test]
    fn a_limit_of_this_process_is_distinguished_from_a_failure_of_the_disk() {
        let is_limit =
            |operation, errno| Error::from_errno(operation, String::new(), None, errno).is_limit_of_process();
        for errno in [libc::EMFILE, libc::ENOMEM, libc::EFBIG, libc::EBADF, libc::EINTR, libc::EACCES] {
            assert!(is_limit(Operation::Write, errno), "{errno}");
        }
        assert!(is_limit(Operation::Sync, libc::EBADF) && is_limit(Operation::Sync, libc::EINTR));
        for (operation, errno) in [
            (Operation::Sync, libc::ENOMEM),
            (Operation::Sync, libc::EIO),
            (Operation::SyncDirectory, libc::ENOMEM),
            (Operation::Write, libc::EIO),
            (Operation::Write, libc::ENOSPC),
        ] {
            assert!(!is_limit(operation, errno), "{operation} {errno}");
        }
    }

    #[test]
    fn a_name_that_leaves_its_directory_is_refused() {
        for bad in ["", ".", "..", "a/b", "/etc/passwd", "a\0b", &"x".repeat(256)] {
            assert!(check_name(Operation::Open, bad).is_err(), "{bad:?}");
        }
        for good in ["a", "log.00000001", "...", "naïve", &"x".repeat(255)] {
            assert!(check_name(Operation::Open, good).is_ok(), "{good:?}");
        }
    }
}

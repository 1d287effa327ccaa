//! Plain files of the machine's own filesystems.
//!
//! Each call opens all directories of its path again, name by name and never through a symbolic link. No directory is
//! kept open between calls. So a call resolves the path in the same way hours later and in another process.

use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;

use rustix::fs::{Access, AtFlags, FileType, Gid, Mode, OFlags, Stat, Uid};
use rustix::io::{retry_on_intr, Errno};

use super::PosixFile;
use crate::contract::{split, File, PlainFiles, PlainKind, PlainStatus};
use crate::error::{check_name, Error, Operation, Result};

/// The interface to plain files, for paths relative to one directory.
#[derive(Debug)]
pub(super) struct PosixPlain {
    start: OwnedFd,
    path: PathBuf,
}

impl PosixPlain {
    pub(super) fn new(start: OwnedFd, path: PathBuf) -> PosixPlain {
        PosixPlain { start, path }
    }

    fn words(&self, path: &str) -> String {
        self.path.join(path).display().to_string()
    }

    fn error(&self, operation: Operation, path: &str, errno: Errno) -> Error {
        Error::from_errno(operation, self.words(path), None, errno.raw_os_error())
    }

    /// Opens a directory, to use names in it.
    fn directory(&self, operation: Operation, path: &str) -> Result<OwnedFd> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut at = match path.starts_with('/') {
            true => rustix::fs::open("/", flags, Mode::empty()),
            false => rustix::fs::openat(&self.start, ".", flags, Mode::empty()),
        }
        .map_err(|errno| self.error(operation, path, errno))?;
        let names = path.strip_prefix('/').unwrap_or(path);
        for name in names.split('/').filter(|_| !names.is_empty()) {
            check_name(operation, name)?;
            at = retry_on_intr(|| rustix::fs::openat(&at, name, flags, Mode::empty())).map_err(|errno| {
                let is_link = || {
                    let found = rustix::fs::statat(&at, name, AtFlags::SYMLINK_NOFOLLOW);
                    found.is_ok_and(|found| FileType::from_raw_mode(found.st_mode) == FileType::Symlink)
                };
                match errno {
                    Errno::NOTDIR | Errno::LOOP if is_link() => Error::Unsuitable {
                        operation,
                        file: self.words(path),
                        what: "its path leads through a symbolic link, which another user may change: give the path of the link's target instead",
                    },
                    _ => self.error(operation, path, errno),
                }
            })?;
        }
        Ok(at)
    }

    /// Opens the directory of a path; returns it with the path's last name.
    fn place<'p>(&self, operation: Operation, path: &'p str) -> Result<(OwnedFd, &'p str)> {
        let (directory, name) = split(path);
        check_name(operation, name)?;
        Ok((self.directory(operation, directory)?, name))
    }

    /// Opens a directory to read or sync it.
    fn readable(&self, operation: Operation, path: &str) -> Result<OwnedFd> {
        let directory = self.directory(operation, path)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        retry_on_intr(|| rustix::fs::openat(&directory, ".", flags, Mode::empty()))
            .map_err(|errno| self.error(operation, path, errno))
    }

    /// Gives the owner, group and mode of `like` to a new file. No other process uses the file yet.
    fn apply_rights_of(made: impl AsFd, like: &PlainStatus) -> rustix::io::Result<()> {
        let own = rustix::fs::fstat(&made)?;
        let owner = (own.st_uid != like.owner).then(|| Uid::from_raw(like.owner));
        let group = (own.st_gid != like.group).then(|| Gid::from_raw(like.group));
        if owner.is_some() || group.is_some() {
            rustix::fs::fchown(&made, owner, group)?;
        }
        rustix::fs::fchmod(&made, Mode::from_raw_mode(like.mode))
    }
}

#[allow(clippy::useless_conversion, reason = "the types of these numbers differ between processors")]
fn status_of(found: &Stat) -> PlainStatus {
    let kind = match FileType::from_raw_mode(found.st_mode) {
        FileType::RegularFile => PlainKind::File,
        FileType::Directory => PlainKind::Directory,
        FileType::Symlink => PlainKind::Link,
        _ => PlainKind::Other,
    };
    // A time before 1970 counts as second 0, and a time that does not fit (after 2554) as the largest value.
    let seconds = u64::try_from(found.st_mtime).unwrap_or(0);
    let modified_ns =
        seconds.saturating_mul(1_000_000_000).saturating_add(u64::try_from(found.st_mtime_nsec).unwrap_or(0));
    PlainStatus {
        kind,
        inode: found.st_ino,
        bytes: u64::try_from(found.st_size).expect("no file has a negative length"),
        modified_ns,
        mode: found.st_mode & 0o7777,
        owner: found.st_uid,
        group: found.st_gid,
    }
}

impl PlainFiles for PosixPlain {
    fn status(&self, path: &str) -> Result<Option<PlainStatus>> {
        let (directory, name) = self.place(Operation::Inspect, path)?;
        match retry_on_intr(|| rustix::fs::statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW)) {
            Ok(found) => Ok(Some(status_of(&found))),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(self.error(Operation::Inspect, path, errno)),
        }
    }

    fn number_of(&self, directory: &str) -> Result<u64> {
        let fail = |errno| self.error(Operation::Inspect, directory, errno);
        let opened = self.directory(Operation::Inspect, directory)?;
        let identity = super::identity_of(&opened).map_err(fail)?;
        // Most filesystems' root directories have the same inode number, so the birth time distinguishes them.
        Ok(identity.inode.rotate_left(32) ^ identity.birth_ns)
    }

    fn open(&self, path: &str) -> Result<Arc<dyn File>> {
        let (directory, name) = self.place(Operation::Open, path)?;
        let fail = |errno| self.error(Operation::Open, path, errno);
        // Non-blocking, because the open of a pipe would wait for a writer.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let opened = retry_on_intr(|| rustix::fs::openat(&directory, name, flags, Mode::empty()))
            .and_then(super::above_standard)
            .map_err(fail)?;
        match status_of(&rustix::fs::fstat(&opened).map_err(fail)?).kind {
            PlainKind::File => Ok(Arc::new(PosixFile::new(opened, self.path.join(path), false))),
            PlainKind::Directory => Err(fail(Errno::ISDIR)),
            PlainKind::Link | PlainKind::Other => Err(Error::Unsuitable {
                operation: Operation::Open,
                file: self.words(path),
                what: "it is a device or a pipe, not a file",
            }),
        }
    }

    fn create(&self, path: &str, like: Option<&PlainStatus>) -> Result<Arc<dyn File>> {
        let (directory, name) = self.place(Operation::Open, path)?;
        let fail = |errno| self.error(Operation::Open, path, errno);
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(if like.is_some() { 0o600 } else { 0o666 });
        let made = retry_on_intr(|| rustix::fs::openat(&directory, name, flags, mode))
            .and_then(super::above_standard)
            .map_err(fail)?;
        if let Some(errno) = like.and_then(|like| PosixPlain::apply_rights_of(&made, like).err()) {
            // The file is useless by now. If it cannot be removed here, it is removed later with the other leftovers.
            let _ = rustix::fs::unlinkat(&directory, name, AtFlags::empty());
            return Err(fail(errno));
        }
        Ok(Arc::new(PosixFile::new(made, self.path.join(path), true)))
    }

    fn link(&self, path: &str, other: &str) -> Result<()> {
        let (from, name) = self.place(Operation::Link, path)?;
        let (to, other) = self.place(Operation::Link, other)?;
        // No AT_SYMLINK_FOLLOW: if the path leads to a symbolic link, the link itself gets the name, not the link's
        // target.
        retry_on_intr(|| rustix::fs::linkat(&from, name, &to, other, AtFlags::empty()))
            .map_err(|errno| self.error(Operation::Link, path, errno))
    }

    fn rename(&self, path: &str, name: &str) -> Result<()> {
        check_name(Operation::Rename, name)?;
        let (directory, from) = self.place(Operation::Rename, path)?;
        retry_on_intr(|| rustix::fs::renameat(&directory, from, &directory, name))
            .map_err(|errno| self.error(Operation::Rename, path, errno))
    }

    fn remove(&self, path: &str) -> Result<()> {
        let (directory, name) = self.place(Operation::Remove, path)?;
        retry_on_intr(|| rustix::fs::unlinkat(&directory, name, AtFlags::empty()))
            .map_err(|errno| self.error(Operation::Remove, path, errno))
    }

    fn check_removable(&self, path: &str) -> Result<()> {
        let (directory, name) = self.place(Operation::Remove, path)?;
        let fail = |errno| self.error(Operation::Remove, path, errno);
        rustix::fs::accessat(&directory, ".", Access::WRITE_OK | Access::EXEC_OK, AtFlags::EACCESS).map_err(fail)?;
        let above = rustix::fs::fstat(&directory).map_err(fail)?;
        let own = rustix::process::geteuid().as_raw();
        // In a sticky directory like /tmp, only the owner of the file, the owner of the directory and root may replace
        // a file.
        let is_sticky = above.st_mode & 0o1000 != 0;
        if !is_sticky || own == 0 || own == above.st_uid {
            return Ok(());
        }
        match rustix::fs::statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) if found.st_uid != own => Err(fail(Errno::PERM)),
            Ok(_) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(fail(errno)),
        }
    }

    fn list(&self, directory: &str) -> Result<Vec<String>> {
        let opened = self.readable(Operation::List, directory)?;
        let fail = |errno| self.error(Operation::List, directory, errno);
        let mut names = Vec::new();
        for entry in rustix::fs::Dir::read_from(&opened).map_err(fail)? {
            let entry = entry.map_err(fail)?;
            if let (Ok(name), true) = (entry.file_name().to_str(), entry.file_type() != FileType::Directory) {
                names.push(name.to_owned());
            }
        }
        Ok(names)
    }

    fn sync(&self, directory: &str) -> Result<()> {
        // An error at the opening does not count as a failed sync.
        let opened = self.readable(Operation::Open, directory)?;
        // The call is repeated after a signal, as for a file.
        retry_on_intr(|| rustix::fs::fsync(&opened))
            .map_err(|errno| self.error(Operation::SyncDirectory, directory, errno))
    }
}

#[cfg(test)]
mod tests {
    use super::super::PosixDirectory;
    use crate::{Directory, Error};

    #[test]
    fn no_symbolic_link_is_followed() {
        let dir = tempfile::tempdir().unwrap();
        let real = dir.path().join("real");
        std::fs::create_dir(&real).unwrap();
        std::fs::write(real.join("file"), b"text").unwrap();
        std::os::unix::fs::symlink("real", dir.path().join("way")).unwrap();
        std::os::unix::fs::symlink("file", real.join("other")).unwrap();
        let plain = PosixDirectory::open(dir.path()).unwrap().plain_files().unwrap();
        assert!(plain.open("real/file").is_ok());
        for (path, why) in [("way/file", "leads through a symbolic link"), ("real/other", "it is a symbolic link")] {
            let refused = plain.open(path).unwrap_err().to_string();
            assert!(refused.contains(why), "{refused}");
        }
        for path in ["real/../real/file", "./real/file", "real//file", ""] {
            assert!(matches!(plain.status(path), Err(Error::Unsuitable { .. })), "{path}");
        }
        assert!(matches!(plain.status("none/file"), Err(Error::NotFound { .. })));
        assert!(
            matches!(plain.link("real", "real/again"), Err(Error::Denied { .. })),
            "a directory gets no second name"
        );
    }

    #[test]
    fn a_new_file_gets_the_mode_and_owner_of_the_old_file() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        std::fs::write(path("old"), b"").unwrap();
        std::fs::set_permissions(path("old"), std::fs::Permissions::from_mode(0o4751)).unwrap();
        let plain = PosixDirectory::open(dir.path()).unwrap().plain_files().unwrap();
        let old = plain.status("old").unwrap().unwrap();
        plain.create("new", Some(&old)).unwrap().write_at(b"new", 0).unwrap();
        let new = plain.status("new").unwrap().unwrap();
        assert_eq!((new.owner, new.group, new.bytes), (old.owner, old.group, 3));
        plain.rename("new", "old").unwrap();
        assert_eq!(plain.status("old").unwrap().unwrap().inode, new.inode);
        assert!(plain.status("new").unwrap().is_none());
    }
}

//! A directory of the machine's own filesystem.
//!
//! A new file takes its permissions (mode `rwxrwx---` gives `rw-rw----`) and its group from the directory, and also its
//! owner if root makes the file.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, StatxFlags, Uid};
use rustix::io::{retry_on_intr, Errno};

use super::{above_standard, filesystem_magic, identity_in, identity_of, network, plain, PosixFile};
use crate::contract::{Directory, File, Identity, OpenMode, PlainFiles};
use crate::error::{check_name, Error, Operation, Result};

/// A directory of the machine's own filesystem.
#[derive(Debug)]
pub struct PosixDirectory {
    descriptor: OwnedFd,
    path: PathBuf,
}

impl PosixDirectory {
    /// Opens the directory at `path`, which must exist.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Denied`], [`Error::Unsuitable`] when the path leads to something that is not a
    /// directory, [`Error::Io`].
    pub fn open(path: impl AsRef<Path>) -> Result<PosixDirectory> {
        let path = path.as_ref();
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let descriptor = retry_on_intr(|| rustix::fs::open(path, flags, Mode::empty()))
            .and_then(above_standard)
            .map_err(|errno| path_error(Operation::Open, path, errno))?;
        Ok(PosixDirectory { descriptor, path: path.to_path_buf() })
    }

    /// Opens the directory at `path`, and makes it and its parents if they are missing. Each new directory's name is
    /// durable when this call returns.
    ///
    /// # Errors
    /// As [`PosixDirectory::open`], and [`Error::Full`], [`Error::ReadOnly`].
    pub fn create(path: impl AsRef<Path>) -> Result<PosixDirectory> {
        let path = path.as_ref();
        match PosixDirectory::open(path) {
            Err(Error::NotFound { .. }) => {}
            answer => return answer,
        }
        let parent = match path.parent() {
            Some(above) if above.as_os_str().is_empty() => Path::new("."),
            Some(above) => above,
            // Only the root has no parent, and the root exists.
            None => return PosixDirectory::open(path),
        };
        let parent = PosixDirectory::create(parent)?;
        match retry_on_intr(|| rustix::fs::mkdir(path, Mode::from_raw_mode(0o777))) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(path_error(Operation::Open, path, errno)),
        }
        parent.sync()?;
        PosixDirectory::open(path)
    }

    /// Returns the directory's path, as the caller gave it.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn error(&self, operation: Operation, name: &str, errno: Errno) -> Error {
        Error::from_errno(operation, self.describe(name), None, errno.raw_os_error())
    }

    fn open_flags(&self, name: &str, flags: OFlags, mode: Mode) -> rustix::io::Result<OwnedFd> {
        let flags = flags | OFlags::CLOEXEC | OFlags::NOCTTY;
        retry_on_intr(|| rustix::fs::openat(&self.descriptor, name, flags, mode)).and_then(above_standard)
    }

    /// Makes the file `name`, which must not exist.
    fn make(&self, name: &str) -> rustix::io::Result<OwnedFd> {
        let directory = rustix::fs::fstat(&self.descriptor)?;
        let mode = Mode::from_raw_mode(rights(directory.st_mode));
        let made = self.open_flags(name, OFlags::RDWR | OFlags::CREATE | OFlags::EXCL, mode)?;
        PosixDirectory::apply_rights_of(&made, &directory)?;
        Ok(made)
    }

    /// Gives a new file to the users of the directory: sets the directory's group and rights, and its owner if root
    /// made the file.
    fn apply_rights_of(made: &OwnedFd, directory: &rustix::fs::Stat) -> rustix::io::Result<()> {
        let own = rustix::fs::fstat(made)?;
        let mut mode = rights(directory.st_mode);
        if own.st_uid == 0 && directory.st_uid != 0 {
            // If root is not allowed to change the owner, root stays the owner.
            let _ = rustix::fs::fchown(made, Some(Uid::from_raw(directory.st_uid)), None);
        }
        let group = Some(Gid::from_raw(directory.st_gid));
        if own.st_gid != directory.st_gid && rustix::fs::fchown(made, None, group).is_err() {
            // The file cannot get the directory's group, so the file's own group gets no rights.
            mode &= !0o060;
        }
        // The mode is set a second time, because the umask has reduced the mode above. Some filesystems have no modes
        // to change.
        match rustix::fs::fchmod(made, Mode::from_raw_mode(mode)) {
            Ok(()) | Err(Errno::PERM | Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
            Err(errno) => Err(errno),
        }
    }

    /// Opens the file `name`, and makes it if it is missing.
    pub(super) fn open_or_make(&self, name: &str) -> rustix::io::Result<OwnedFd> {
        loop {
            match self.open_flags(name, OFlags::RDWR, Mode::empty()) {
                Err(Errno::NOENT) => {}
                answer => return answer,
            }
            match self.make(name) {
                // Another process made the file between the two calls. The next try opens it.
                Err(Errno::EXIST) => {}
                answer => return answer,
            }
        }
    }
}

/// Returns the rights to a file in a directory with the rights `directory`. A user who may not write may not read
/// either, because a read lock is enough to keep all other users waiting.
fn rights(directory: u32) -> u32 {
    let writers = directory & 0o222;
    (writers | writers << 1) & directory & 0o666
}

impl Directory for PosixDirectory {
    fn open(&self, name: &str, mode: OpenMode) -> Result<Arc<dyn File>> {
        check_name(Operation::Open, name)?;
        let fail = |errno| self.error(Operation::Open, name, errno);
        let descriptor = match mode {
            OpenMode::Existing => self.open_flags(name, OFlags::RDWR, Mode::empty()),
            // Non-blocking, because the open of a pipe would wait for a writer.
            OpenMode::ReadOnly => self.open_flags(name, OFlags::RDONLY | OFlags::NONBLOCK, Mode::empty()),
            OpenMode::CreateNew => self.make(name),
            OpenMode::Create => self.open_or_make(name),
        }
        .map_err(fail)?;
        let status = rustix::fs::fstat(&descriptor).map_err(fail)?;
        match FileType::from_raw_mode(status.st_mode) {
            FileType::RegularFile => {}
            FileType::Directory => return Err(fail(Errno::ISDIR)),
            _ => {
                return Err(Error::Unsuitable {
                    operation: Operation::Open,
                    file: self.describe(name),
                    what: "it is a device or a pipe, not a file",
                })
            }
        }
        Ok(Arc::new(PosixFile::new(descriptor, self.path.join(name), mode != OpenMode::ReadOnly)))
    }

    fn subdirectory(&self, name: &str) -> Result<Arc<dyn Directory>> {
        check_name(Operation::Open, name)?;
        let fail = |errno| self.error(Operation::Open, name, errno);
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let descriptor = match self.open_flags(name, flags, Mode::empty()) {
            Err(Errno::NOENT) => {
                let here = rustix::fs::fstat(&self.descriptor).map_err(fail)?;
                let mode = Mode::from_raw_mode(here.st_mode & 0o777);
                match rustix::fs::mkdirat(&self.descriptor, name, mode) {
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(errno) => return Err(fail(errno)),
                }
                let made = self.open_flags(name, flags, Mode::empty()).map_err(fail)?;
                match rustix::fs::fchmod(&made, mode) {
                    Ok(()) | Err(Errno::PERM | Errno::OPNOTSUPP | Errno::NOSYS) => made,
                    Err(errno) => return Err(fail(errno)),
                }
            }
            answer => answer.map_err(fail)?,
        };
        Ok(Arc::new(PosixDirectory { descriptor, path: self.path.join(name) }))
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        check_name(Operation::Rename, from)?;
        check_name(Operation::Rename, to)?;
        retry_on_intr(|| rustix::fs::renameat(&self.descriptor, from, &self.descriptor, to))
            .map_err(|errno| self.error(Operation::Rename, from, errno))
    }

    fn remove(&self, name: &str) -> Result<()> {
        check_name(Operation::Remove, name)?;
        retry_on_intr(|| rustix::fs::unlinkat(&self.descriptor, name, AtFlags::empty()))
            .map_err(|errno| self.error(Operation::Remove, name, errno))
    }

    fn list(&self) -> Result<Vec<String>> {
        let mut names = Vec::new();
        self.visit_names(&mut |name| names.push(name.to_owned()))?;
        names.sort_unstable();
        Ok(names)
    }

    fn visit_names(&self, visit: &mut dyn FnMut(&str)) -> Result<()> {
        let fail = |errno| self.error(Operation::List, "", errno);
        for entry in rustix::fs::Dir::read_from(&self.descriptor).map_err(fail)? {
            let entry = entry.map_err(fail)?;
            // The library's own files have UTF-8 names only.
            let Ok(name) = entry.file_name().to_str() else {
                continue;
            };
            let kind = match entry.file_type() {
                // Some filesystems do not report the kind in the listing.
                FileType::Unknown => {
                    match rustix::fs::statat(&self.descriptor, name, AtFlags::SYMLINK_NOFOLLOW) {
                        Ok(status) => FileType::from_raw_mode(status.st_mode),
                        // The entry was removed after the listing.
                        Err(Errno::NOENT) => continue,
                        Err(errno) => return Err(self.error(Operation::List, name, errno)),
                    }
                }
                kind => kind,
            };
            if kind != FileType::Directory {
                visit(name);
            }
        }
        Ok(())
    }

    fn exists(&self, name: &str) -> Result<bool> {
        check_name(Operation::Inspect, name)?;
        match retry_on_intr(|| rustix::fs::statat(&self.descriptor, name, AtFlags::empty())) {
            Ok(_) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(errno) => Err(self.error(Operation::Inspect, name, errno)),
        }
    }

    fn identity_of(&self, name: &str) -> Result<Option<Identity>> {
        check_name(Operation::Inspect, name)?;
        let wanted = StatxFlags::INO | StatxFlags::BTIME;
        match retry_on_intr(|| rustix::fs::statx(&self.descriptor, name, AtFlags::empty(), wanted)) {
            Ok(status) => Ok(Some(identity_in(&status))),
            Err(Errno::NOENT) => Ok(None),
            Err(Errno::NOSYS) => {
                let status = retry_on_intr(|| rustix::fs::statat(&self.descriptor, name, AtFlags::empty()));
                let status = status.map_err(|errno| self.error(Operation::Inspect, name, errno))?;
                Ok(Some(Identity { device: status.st_dev, inode: status.st_ino, birth_ns: 0 }))
            }
            Err(errno) => Err(self.error(Operation::Inspect, name, errno)),
        }
    }

    fn sync(&self) -> Result<()> {
        // The call is repeated after a signal, as for a file.
        retry_on_intr(|| rustix::fs::fsync(&self.descriptor))
            .map_err(|errno| self.error(Operation::SyncDirectory, "", errno))
    }

    fn describe(&self, name: &str) -> String {
        if name.is_empty() {
            self.path.display().to_string()
        } else {
            self.path.join(name).display().to_string()
        }
    }

    fn identity(&self) -> Result<Option<Identity>> {
        identity_of(&self.descriptor).map(Some).map_err(|errno| self.error(Operation::Inspect, "", errno))
    }

    fn spare_descriptor(&self) -> Option<OwnedFd> {
        rustix::io::fcntl_dupfd_cloexec(&self.descriptor, 3).ok()
    }

    fn is_network(&self) -> Result<bool> {
        let fail = |errno| self.error(Operation::Inspect, "", errno);
        let magic = filesystem_magic(&self.descriptor).map_err(fail)?;
        let device = rustix::fs::fstat(&self.descriptor).map_err(fail)?.st_dev;
        let number = format!("{}:{}", rustix::fs::major(device), rustix::fs::minor(device));
        Ok(network::is_network(magic, &number))
    }

    fn plain_files(&self) -> Option<Arc<dyn PlainFiles>> {
        let start = rustix::io::fcntl_dupfd_cloexec(&self.descriptor, 3).ok()?;
        Some(Arc::new(plain::PosixPlain::new(start, self.path.clone())))
    }
}

fn path_error(operation: Operation, path: &Path, errno: Errno) -> Error {
    Error::from_errno(operation, path.display().to_string(), None, errno.raw_os_error())
}

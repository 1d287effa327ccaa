//! The disk of a Linux machine, through system calls.
//!
//! Files are opened by name below one open directory, so an environment that is renamed while it is open goes on.
//! Every descriptor is close-on-exec. A new file takes its permissions (mode `rwxrwx---` gives `rw-rw----`) and its
//! group from the directory, and its owner, too, if root makes the file. The umask has no effect: exactly the users
//! who may make files in an environment may use the files that other users made there.
//!
//! Byte locks are those of the *open file description* (`F_OFD_SETLK`): unlike a process's own locks
//! they are not lost when some other descriptor of the file is closed, and two handles of one process
//! exclude each other (PROTOCOLS D9).  A child of a fork does not keep them: see `fork`.
//!
//! The only `unsafe` is the call for these locks, which rustix does not have.
//!
//! Invariants
//! 1. An interrupted call is made again, a short read or write is continued; no other error is retried.
//! 2. A handle opened [`OpenMode::ReadOnly`] never changes the file.
#![allow(unsafe_code)]

use std::io::IoSlice;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use rio::Anchor;
use rustix::fs::{AtFlags, FallocateFlags, FileType, Gid, Mode, OFlags, StatxFlags, Uid};
use rustix::io::{retry_on_intr, Errno, ReadWriteFlags};

use crate::contract::{Directory, File, Identity, LockMode, OpenMode};
use crate::error::{check_name, Error, Operation, Result};
use crate::fork::{Entry, Hold};
use crate::plain::PlainFiles;

/// A directory of the machine's own filesystem.
#[derive(Debug)]
pub struct PosixDirectory {
    descriptor: OwnedFd,
    path: PathBuf,
}

impl PosixDirectory {
    /// Opens the directory at `path`, which must be there.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Denied`], [`Error::Unsuitable`] when something else has that
    /// path, [`Error::Io`].
    pub fn open(path: impl AsRef<Path>) -> Result<PosixDirectory> {
        let path = path.as_ref();
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let descriptor = retry_on_intr(|| rustix::fs::open(path, flags, Mode::empty()))
            .and_then(above_standard)
            .map_err(|errno| path_error(Operation::Open, path, errno))?;
        Ok(PosixDirectory { descriptor, path: path.to_path_buf() })
    }

    /// Opens the directory at `path`, and makes it and its parents if they are missing. Each new directory's name is
    /// durable when this returns.
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
            // Only the root has no parent, and the root is there.
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

    /// Returns the directory's path as it was given.
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
        PosixDirectory::apply_directory_rights(&made, &directory)?;
        Ok(made)
    }

    /// Gives a new file to the users of the directory: sets the directory's group and rights, and its owner if root
    /// made the file.
    fn apply_directory_rights(made: &OwnedFd, directory: &rustix::fs::Stat) -> rustix::io::Result<()> {
        let own = rustix::fs::fstat(made)?;
        let mut mode = rights(directory.st_mode);
        if own.st_uid == 0 && directory.st_uid != 0 {
            // If root is not allowed to do this, root stays the owner.
            let _ = rustix::fs::fchown(made, Some(Uid::from_raw(directory.st_uid)), None);
        }
        let group = Some(Gid::from_raw(directory.st_gid));
        if own.st_gid != directory.st_gid && rustix::fs::fchown(made, None, group).is_err() {
            // The file cannot have the directory's group, so its own group gets no rights.
            mode &= !0o060;
        }
        // Set again, because the umask has cut the mode above. Some filesystems have no modes to change.
        match rustix::fs::fchmod(made, Mode::from_raw_mode(mode)) {
            Ok(()) | Err(Errno::PERM | Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
            Err(errno) => Err(errno),
        }
    }

    /// Opens the file `name`, and makes it if it is missing.
    fn open_or_make(&self, name: &str) -> rustix::io::Result<OwnedFd> {
        loop {
            match self.open_flags(name, OFlags::RDWR, Mode::empty()) {
                Err(Errno::NOENT) => {}
                answer => return answer,
            }
            match self.make(name) {
                // Another process made it between the two calls: open it.
                Err(Errno::EXIST) => {}
                answer => return answer,
            }
        }
    }
}

/// Returns the rights to a file in a directory with the rights `directory`. A user who may not write may not read
/// either, because a read lock is enough to make all others wait.
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
            // Non-blocking: the open of a pipe would wait for a writer.
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
            // A name that is not UTF-8 is not a file of the library.
            let Ok(name) = entry.file_name().to_str() else {
                continue;
            };
            let kind = match entry.file_type() {
                // Some filesystems do not report the kind in the listing.
                FileType::Unknown => {
                    match rustix::fs::statat(&self.descriptor, name, AtFlags::SYMLINK_NOFOLLOW) {
                        Ok(status) => FileType::from_raw_mode(status.st_mode),
                        // Removed since the listing.
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
            Ok(status) => Ok(Some(Identity {
                device: rustix::fs::makedev(status.stx_dev_major, status.stx_dev_minor),
                inode: status.stx_ino,
                birth_ns: birth_of(&status),
            })),
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
        // Repeated after a signal, as for a file.
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

/// Returns the same file with a descriptor above the standard ones.
fn above_standard(opened: OwnedFd) -> rustix::io::Result<OwnedFd> {
    rio::above_standard(opened).map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::MFILE))
}

fn path_error(operation: Operation, path: &Path, errno: Errno) -> Error {
    Error::from_errno(operation, path.display().to_string(), None, errno.raw_os_error())
}

/// A file of the machine's own filesystem.
#[derive(Debug)]
pub struct PosixFile {
    descriptor: OwnedFd,
    path: PathBuf,
    is_writable: bool,
    /// Set once a lock was asked for: children of a fork then do not keep the descriptor.
    entry: OnceLock<Entry>,
    /// Holds the lock of [`File::lock_uninherited`], which no child has.
    alone: OnceLock<Anchor>,
    /// Holds the list of these descriptors until the field `descriptor`, dropped before this one, is closed.
    closing: Option<Hold>,
}

impl Drop for PosixFile {
    fn drop(&mut self) {
        if let Some(entry) = self.entry.get() {
            let hold = Hold::acquire();
            entry.remove(&hold, self.descriptor.as_raw_fd());
            self.closing = Some(hold);
        }
    }
}

impl PosixFile {
    fn new(descriptor: OwnedFd, path: PathBuf, is_writable: bool) -> PosixFile {
        let (entry, alone) = (OnceLock::new(), OnceLock::new());
        PosixFile { descriptor, path, is_writable, entry, alone, closing: None }
    }

    fn error(&self, operation: Operation, offset: Option<u64>, errno: Errno) -> Error {
        let file = self.path.display().to_string();
        Error::from_errno(operation, file, offset, errno.raw_os_error())
    }

    fn require_writable(&self, operation: Operation) -> Result<()> {
        if self.is_writable {
            return Ok(());
        }
        Err(Error::ReadOnly { operation, file: self.path.display().to_string() })
    }

    /// Asks for a byte lock; `Err(EAGAIN)` or `Err(EACCES)` means that another open file has it.
    fn set_lock(&self, kind: libc::c_int, byte: u64, wait: bool) -> rustix::io::Result<()> {
        let mut request = lock_request(kind, byte, 1)?;
        let command = if wait { libc::F_OFD_SETLKW } else { libc::F_OFD_SETLK };
        self.fcntl(command, &mut request)
    }

    fn fcntl(&self, command: libc::c_int, request: &mut libc::flock) -> rustix::io::Result<()> {
        let descriptor = self.descriptor.as_fd().as_raw_fd();
        // SAFETY: fcntl(2) with F_OFD_SETLK, F_OFD_SETLKW or F_OFD_GETLK, the only commands passed
        // here, reads and writes one `struct flock` through its third argument and nothing else;
        // `request` is an exclusive reference to one, alive until the call returns.  The descriptor
        // is open: `self` owns it.
        let answer = unsafe { libc::fcntl(descriptor, command, std::ptr::from_mut(request)) };
        if answer != -1 {
            return Ok(());
        }
        let number = std::io::Error::last_os_error().raw_os_error();
        Err(Errno::from_raw_os_error(number.expect("the last system error has a number")))
    }
}

/// Describes `bytes` bytes from `from` on, for [`PosixFile::fcntl`].
fn lock_request(kind: libc::c_int, from: u64, bytes: u64) -> rustix::io::Result<libc::flock> {
    Ok(libc::flock {
        l_type: libc::c_short::try_from(kind).map_err(|_| Errno::INVAL)?,
        l_whence: libc::c_short::try_from(libc::SEEK_SET).map_err(|_| Errno::INVAL)?,
        l_start: libc::off_t::try_from(from).map_err(|_| Errno::INVAL)?,
        l_len: libc::off_t::try_from(bytes).map_err(|_| Errno::INVAL)?,
        // The locks belong to the open file, so the kernel insists on zero here.
        l_pid: 0,
    })
}

/// Adds a byte count to a file offset.
fn advance(offset: u64, bytes: usize) -> u64 {
    offset + u64::try_from(bytes).expect("a slice's length fits in 64 bits")
}

/// Returns the type (magic number) of the filesystem in which a file or directory lies.
fn filesystem_magic(descriptor: &OwnedFd) -> std::result::Result<u32, Errno> {
    let filesystem = retry_on_intr(|| rustix::fs::fstatfs(descriptor))?;
    // The type's width differs between architectures; all magic numbers fit in 32 bits.
    Ok(u32::try_from(filesystem.f_type & 0xffff_ffff).unwrap_or(0))
}

impl File for PosixFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        let mut done = 0;
        while done < buf.len() {
            let from = advance(offset, done);
            match rustix::io::pread(&self.descriptor, &mut buf[done..], from) {
                Ok(0) => break,
                Ok(bytes) => done += bytes,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(self.error(Operation::Read, Some(from), errno)),
            }
        }
        Ok(done)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        self.require_writable(Operation::Write)?;
        let mut done = 0;
        while done < bytes.len() {
            let from = advance(offset, done);
            match rustix::io::pwrite(&self.descriptor, &bytes[done..], from) {
                // A disk that writes nothing and reports no error would make this loop endless.
                Ok(0) => return Err(self.error(Operation::Write, Some(from), Errno::IO)),
                Ok(written) => done += written,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(self.error(Operation::Write, Some(from), errno)),
            }
        }
        Ok(())
    }

    fn write_two_at(&self, first: &[u8], second: &[u8], offset: u64) -> Result<()> {
        self.require_writable(Operation::Write)?;
        let both = [IoSlice::new(first), IoSlice::new(second)];
        let written = retry_on_intr(|| rustix::io::pwritev(&self.descriptor, &both, offset))
            .map_err(|errno| self.error(Operation::Write, Some(offset), errno))?;
        self.write_rest(first, second, offset, written)
    }

    fn len(&self) -> Result<u64> {
        let status =
            rustix::fs::fstat(&self.descriptor).map_err(|errno| self.error(Operation::Inspect, None, errno))?;
        Ok(u64::try_from(status.st_size).expect("no file has a negative length"))
    }

    fn set_len(&self, bytes: u64) -> Result<()> {
        self.require_writable(Operation::SetLen)?;
        retry_on_intr(|| rustix::fs::ftruncate(&self.descriptor, bytes))
            .map_err(|errno| self.error(Operation::SetLen, Some(bytes), errno))
    }

    fn allocate(&self, range: Range<u64>) -> Result<()> {
        self.require_writable(Operation::Allocate)?;
        if range.is_empty() {
            return Ok(());
        }
        let (from, bytes) = (range.start, range.end - range.start);
        let answer = retry_on_intr(|| rustix::fs::fallocate(&self.descriptor, FallocateFlags::empty(), from, bytes));
        match answer {
            Ok(()) => Ok(()),
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => self.write_zeros(range.end),
            Err(errno) => Err(self.error(Operation::Allocate, Some(range.end), errno)),
        }
    }

    fn free_blocks(&self, range: Range<u64>) -> Result<()> {
        self.require_writable(Operation::Allocate)?;
        if range.is_empty() {
            return Ok(());
        }
        let (from, bytes) = (range.start, range.end - range.start);
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        match retry_on_intr(|| rustix::fs::fallocate(&self.descriptor, flags, from, bytes)) {
            Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
            Err(errno) => Err(self.error(Operation::Allocate, Some(from), errno)),
        }
    }

    fn notes_first_writes(&self) -> bool {
        // Filesystems in memory keep no such record.
        const TMPFS_AND_RAMFS: [u32; 2] = [0x0102_1994, 0x8584_58f6];
        !filesystem_magic(&self.descriptor).is_ok_and(|magic| TMPFS_AND_RAMFS.contains(&magic))
    }

    fn sync(&self) -> Result<()> {
        // Repeated after a signal: a sync that a signal ended has marked no byte clean, and the kernel keeps the
        // error of a failed write for the sync that reports it.
        retry_on_intr(|| rustix::fs::fdatasync(&self.descriptor))
            .map_err(|errno| self.error(Operation::Sync, None, errno))
    }

    fn lock(&self, byte: u64, mode: LockMode, wait: bool) -> Result<bool> {
        // Entered before the lock exists, so that no child keeps the lock.
        self.entry.get_or_init(|| Entry::new(self.descriptor.as_raw_fd()));
        let kind = match mode {
            LockMode::Shared => libc::F_RDLCK,
            LockMode::Exclusive => {
                self.require_writable(Operation::Lock)?;
                libc::F_WRLCK
            }
        };
        match retry_on_intr(|| self.set_lock(kind, byte, wait)) {
            Ok(()) => Ok(true),
            Err(Errno::AGAIN | Errno::ACCESS) if !wait => Ok(false),
            Err(errno) => Err(self.error(Operation::Lock, Some(byte), errno)),
        }
    }

    fn lock_uninherited(&self) -> Result<bool> {
        self.anchor_lock()
    }

    fn unlock(&self, byte: u64) -> Result<()> {
        retry_on_intr(|| self.set_lock(libc::F_UNLCK, byte, false))
            .map_err(|errno| self.error(Operation::Lock, Some(byte), errno))
    }

    fn locked_by_other(&self, from: u64, bytes: u64) -> Result<Option<u64>> {
        let fail = |errno| self.error(Operation::Lock, Some(from), errno);
        let mut lowest = None;
        let mut end = from.saturating_add(bytes);
        // The kernel names one conflicting lock, not the lowest: ask again below it until no lock is left.
        while end > from {
            let mut request = lock_request(libc::F_WRLCK, from, end - from).map_err(fail)?;
            retry_on_intr(|| self.fcntl(libc::F_OFD_GETLK, &mut request)).map_err(fail)?;
            if libc::c_int::from(request.l_type) == libc::F_UNLCK {
                break;
            }
            let start = u64::try_from(request.l_start).unwrap_or(0).max(from);
            lowest = Some(start);
            end = start;
        }
        Ok(lowest)
    }

    fn identity(&self) -> Result<Identity> {
        identity_of(&self.descriptor).map_err(|errno| self.error(Operation::Inspect, None, errno))
    }
}

/// Returns the identity of a file or directory.
fn identity_of(descriptor: &OwnedFd) -> rustix::io::Result<Identity> {
    let status = rustix::fs::fstat(descriptor)?;
    Ok(Identity { device: status.st_dev, inode: status.st_ino, birth_ns: birth_ns(descriptor)? })
}

/// Returns when a file or directory was made, in nanoseconds since 1970; 0 where the filesystem does not report it.
fn birth_ns(descriptor: impl AsFd) -> std::result::Result<u64, Errno> {
    match rustix::fs::statx(descriptor, c"", AtFlags::EMPTY_PATH, StatxFlags::BTIME) {
        Ok(answer) => Ok(birth_of(&answer)),
        Err(Errno::NOSYS) => Ok(0),
        Err(errno) => Err(errno),
    }
}

fn birth_of(status: &rustix::fs::Statx) -> u64 {
    if status.stx_mask & StatxFlags::BTIME.bits() == 0 {
        return 0;
    }
    let seconds = u64::try_from(status.stx_btime.tv_sec).unwrap_or(0);
    seconds * 1_000_000_000 + u64::from(status.stx_btime.tv_nsec)
}

impl PosixFile {
    /// Writes the rest of `first` and `second` after one vectored write that took `written` bytes.
    fn write_rest(&self, first: &[u8], second: &[u8], offset: u64, written: usize) -> Result<()> {
        let in_first = written.min(first.len());
        self.write_at(&first[in_first..], advance(offset, in_first))?;
        let in_second = written - in_first;
        self.write_at(&second[in_second..], advance(offset, first.len() + in_second))
    }

    /// Replaces `fallocate` where the filesystem lacks it: appends zeros until the file is `bytes` long.
    ///
    /// Each write appends at the file's end at that moment: another process may have extended the file, and written
    /// there, since its length was read.
    fn write_zeros(&self, bytes: u64) -> Result<()> {
        static ZEROS: [u8; 65536] = [0; 65536];
        loop {
            let end = self.len()?;
            if end >= bytes {
                return Ok(());
            }
            let part = usize::try_from(bytes - end).map_or(ZEROS.len(), |n| n.min(ZEROS.len()));
            let zeros = [IoSlice::new(&ZEROS[..part])];
            retry_on_intr(|| rustix::io::pwritev2(&self.descriptor, &zeros, end, ReadWriteFlags::APPEND))
                .map_err(|errno| self.error(Operation::Write, Some(end), errno))?;
        }
    }
}

mod alone;
mod network;
mod plain;
#[cfg(test)]
mod tests;

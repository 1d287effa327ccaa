//! The disk of a Linux machine, through system calls.
//!
//! Files are opened by name below one open directory, so an environment that is renamed while it is open stays usable.
//! Every descriptor is close-on-exec. A new file takes its permissions (mode `rwxrwx---` gives `rw-rw----`) and its
//! group from the directory, and also its owner if root makes the file. The umask has no effect. So exactly the users
//! who may make files in an environment may use the files that other users made there.
//!
//! Byte locks are locks of the *open file description* (`F_OFD_SETLK`). Unlike a process's own locks, they are not lost
//! when another descriptor of the file is closed, and two handles of one process exclude each other (PROTOCOLS D9). A
//! child of a fork does not keep these locks: see `fork`.
//!
//! `unsafe` is only for the call for these locks, which rustix does not have.
//!
//! Invariants
//! 1. An interrupted call is made again, a short read or write is continued; no other error is retried.
//! 2. A handle opened [`OpenMode::ReadOnly`] never changes the file.
#![allow(unsafe_code)]

use std::io::IoSlice;
use std::ops::{Range, RangeInclusive};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::sync::OnceLock;

use rio::Anchor;
use rustix::fs::{AtFlags, FallocateFlags, StatxFlags};
use rustix::io::{retry_on_intr, Errno, ReadWriteFlags};

pub use directory::PosixDirectory;
use whole::Direct;

#[cfg(doc)]
use crate::contract::OpenMode;
use crate::contract::{File, Identity, LockMode, MayBegin};
use crate::error::{Error, Operation, Result};
use crate::fork::{Entry, Hold};

/// A file of the machine's own filesystem.
#[derive(Debug)]
pub struct PosixFile {
    descriptor: OwnedFd,
    path: PathBuf,
    is_writable: bool,
    /// Set at the first request of a lock. Children of a fork do not keep the descriptor from then on.
    entry: OnceLock<Entry>,
    /// Keeps the lock of [`File::lock_uninherited`], which no child has.
    alone: OnceLock<Anchor>,
    /// The second descriptor, for writes that the disk makes whole. `None` if the system reports no such writes.
    direct: OnceLock<Option<Direct>>,
    /// Guard of the list of descriptors. Dropped after the field `descriptor`, so the list is held until that
    /// descriptor is closed.
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
        let (entry, alone, direct) = (OnceLock::new(), OnceLock::new(), OnceLock::new());
        PosixFile { descriptor, path, is_writable, entry, alone, direct, closing: None }
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
        // `request` is an exclusive reference to this struct, alive until the call returns. The descriptor
        // is open: `self` owns it.
        let answer = unsafe { libc::fcntl(descriptor, command, std::ptr::from_mut(request)) };
        if answer != -1 {
            return Ok(());
        }
        let number = std::io::Error::last_os_error().raw_os_error();
        Err(Errno::from_raw_os_error(number.expect("the last system error has a number")))
    }
}

/// Returns the same file with a descriptor above the standard descriptors, 0 to 2.
fn above_standard(opened: OwnedFd) -> rustix::io::Result<OwnedFd> {
    rio::above_standard(opened).map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::MFILE))
}

/// Returns the request for a lock on `bytes` bytes from byte `from` on, for [`PosixFile::fcntl`].
fn lock_request(kind: libc::c_int, from: u64, bytes: u64) -> rustix::io::Result<libc::flock> {
    Ok(libc::flock {
        l_type: libc::c_short::try_from(kind).map_err(|_| Errno::INVAL)?,
        l_whence: libc::c_short::try_from(libc::SEEK_SET).map_err(|_| Errno::INVAL)?,
        l_start: libc::off_t::try_from(from).map_err(|_| Errno::INVAL)?,
        l_len: libc::off_t::try_from(bytes).map_err(|_| Errno::INVAL)?,
        // The locks belong to the open file, so the kernel demands zero here.
        l_pid: 0,
    })
}

/// Adds a byte count to a file offset.
fn advance(offset: u64, bytes: usize) -> u64 {
    offset + u64::try_from(bytes).expect("a slice's length fits in 64 bits")
}

/// Returns the type (magic number) of the filesystem of a file or directory.
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

    fn whole_write_bytes(&self) -> Option<RangeInclusive<u32>> {
        self.direct().map(Direct::bytes)
    }

    fn write_whole(&self, pieces: &[(u64, &[u8])], may_begin: &MayBegin<'_>) -> Result<bool> {
        self.require_writable(Operation::Write)?;
        Ok(self.direct().is_some_and(|direct| direct.write(pieces, may_begin)))
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
        // The call is repeated after a signal: a sync that a signal ended has marked no byte clean, and the kernel
        // keeps the error of a failed write for the next sync.
        retry_on_intr(|| rustix::fs::fdatasync(&self.descriptor))
            .map_err(|errno| self.error(Operation::Sync, None, errno))
    }

    fn lock(&self, byte: u64, mode: LockMode, wait: bool) -> Result<bool> {
        // The descriptor is entered before the lock exists, so that no child keeps the lock.
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
        // The kernel returns any conflicting lock, not always the lowest. So the search is repeated below the found
        // lock until it finds no lock.
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
    match rustix::fs::statx(descriptor, c"", AtFlags::EMPTY_PATH, StatxFlags::INO | StatxFlags::BTIME) {
        Ok(status) => Ok(identity_in(&status)),
        Err(Errno::NOSYS) => {
            let status = rustix::fs::fstat(descriptor)?;
            Ok(Identity { device: status.st_dev, inode: status.st_ino, birth_ns: 0 })
        }
        Err(errno) => Err(errno),
    }
}

fn identity_in(status: &rustix::fs::Statx) -> Identity {
    let device = rustix::fs::makedev(status.stx_dev_major, status.stx_dev_minor);
    Identity { device, inode: status.stx_ino, birth_ns: birth_of(status) }
}

/// Returns the time at which a file or directory was made, in nanoseconds since 1970; 0 if the filesystem does not
/// report the time.
fn birth_of(status: &rustix::fs::Statx) -> u64 {
    if status.stx_mask & StatxFlags::BTIME.bits() == 0 {
        return 0;
    }
    let seconds = u64::try_from(status.stx_btime.tv_sec).unwrap_or(0);
    seconds * 1_000_000_000 + u64::from(status.stx_btime.tv_nsec)
}

impl PosixFile {
    fn direct(&self) -> Option<&Direct> {
        self.direct.get_or_init(|| Direct::of(&self.descriptor)).as_ref()
    }

    /// Writes the rest of `first` and `second` after one vectored write that took `written` bytes.
    fn write_rest(&self, first: &[u8], second: &[u8], offset: u64, written: usize) -> Result<()> {
        let in_first = written.min(first.len());
        self.write_at(&first[in_first..], advance(offset, in_first))?;
        let in_second = written - in_first;
        self.write_at(&second[in_second..], advance(offset, first.len() + in_second))
    }

    /// Does the work of `fallocate` if the filesystem does not have that call: appends zeros until the file is `bytes`
    /// long.
    ///
    /// Each write appends: after this process has read the length, another process may have extended the file and
    /// written to the new part.
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
mod directory;
mod network;
mod plain;
#[cfg(test)]
mod tests;
mod whole;

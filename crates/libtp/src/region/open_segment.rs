//! A segment of recoverable memory that this process has open, shared by all handles to it.

use std::collections::HashMap;
use std::hash::BuildHasher;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};

use libtp_io::{Directory, File, LockMode, OpenMode, PosixDirectory, Uninherited};
use libtp_process::{ProcessNumber, Session};
use libtp_txn::Managers;
use rio::planted;
use vista::{Holder, Member, Survives};

use crate::ground::mutex::lock;
use crate::Result;

/// The offset of the first byte that handles lock, far beyond the end of any file.
const HANDLES: u64 = 1 << 62;
/// The number of bytes that handles can lock.
const HANDLE_COUNT: u64 = 1 << 31;

/// The state shared by all handles of a process to one segment.
pub(crate) struct OpenSegment {
    /// Keeps a forked child from holding the lock of `member`. Dropped before `member`.
    pub(crate) _lock: Option<Uninherited>,
    /// The member: vista's handle of the segment in this process. `None` while a transaction has the member.
    pub(crate) member: Mutex<Option<Box<Member>>>,
    pub(crate) number: u32,
    pub(crate) path: PathBuf,
    pub(crate) survives: Survives,
    /// The handle's own number, and the number of this process.
    pub(crate) holder: Holder,
    /// The segment's row in the table of unresolved transactions, as far as this process knows.
    pub(crate) row: AtomicU32,
    /// The segment's file, opened a second time to lock the byte of the handle's number.
    pub(crate) file: Arc<dyn File>,
}

/// The segments that an environment's handle has open, by path.
pub(crate) type OpenSegments = Mutex<HashMap<PathBuf, Weak<OpenSegment>>>;

impl OpenSegment {
    /// Takes the member of this process; returns `None` if a transaction has it.
    pub(crate) fn take(&self) -> Option<Box<Member>> {
        lock(&self.member).take()
    }

    pub(crate) fn give_back(&self, member: Box<Member>) {
        *lock(&self.member) = Some(member);
    }

    /// Makes sure that the table of unresolved transactions has a row for this segment.
    pub(crate) fn keep_row(&self, managers: &Managers, session: &Session) -> Result<()> {
        // Relaxed: the row is checked before use.
        let known = self.row.load(Ordering::Relaxed);
        let row = managers.keep_row(session, self.number, known)?;
        if row != known {
            self.row.store(row, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Returns whether `holder` is another handle, and still exists.
    pub(crate) fn is_there(&self, holder: Holder) -> Result<bool> {
        if holder.handle == 0 || holder.handle == self.holder.handle {
            return Ok(false);
        }
        if self.file.locked_by_other(HANDLES + holder.handle % HANDLE_COUNT, 1)?.is_none() {
            return Ok(false);
        }
        // A child forked without the C library's knowledge may still have the lock (PROTOCOLS D9).
        Ok(!ProcessNumber::from_raw(holder.process).has_ended()
            || planted("libtp: a dead process counts as the user of a segment"))
    }

    /// Returns whether the segment's memory survives more than the death of processes.
    pub(crate) fn is_lasting(&self) -> bool {
        self.survives > Survives::Process
    }
}

/// Locks a free byte of the segment's file. Returns the number of the byte, and the file.
pub(crate) fn lock_handle_byte(path: &Path) -> Result<(u64, Arc<dyn File>)> {
    static DRAWN: AtomicU64 = AtomicU64::new(0);
    let directory = PosixDirectory::open(path.parent().unwrap_or(Path::new(".")))?;
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let file = directory.open(&name, OpenMode::Existing)?;
    let state = std::hash::RandomState::new();
    loop {
        // Relaxed: each caller gets a different number, in any order.
        let drawn = state.hash_one((std::process::id(), DRAWN.fetch_add(1, Ordering::Relaxed)));
        let handle = drawn % HANDLE_COUNT;
        if handle != 0 && file.lock(HANDLES + handle, LockMode::Exclusive, false)? {
            return Ok((handle, file));
        }
    }
}

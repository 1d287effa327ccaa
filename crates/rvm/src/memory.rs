//! Recoverable memory on a disk: a segment in memory, and its journal.

use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use libtp_io::{Directory, PosixDirectory};
use rio::planted;
use vista::{Memory, Persist, Ptr, Segment, Stores};

use crate::file_cache::FileCache;
use crate::journal::{self, Journal};
use crate::{Options, Result};

/// Recoverable memory on a disk. Transactions change its [`segment`](Rvm::segment). A transaction is safe when it has
/// ended.
#[derive(Debug)]
pub struct Rvm {
    segment: Segment,
    journal: Journal,
}

/// A transaction. Its calls are those of vista's transaction. A transaction that is dropped without [`Txn::end`] is
/// aborted.
///
/// The transaction gives no mutable access to vista's transaction. With such access a caller could exchange it for the
/// transaction of another memory, and each of the two transactions would end in the log of the other memory.
/// ```compile_fail,E0596
/// # fn exchange(one: &mut rvm::Rvm, other: &mut rvm::Rvm) -> rvm::Result<()> {
/// let (mut one, mut other) = (one.begin()?, other.begin()?);
/// std::mem::swap::<vista::Txn<'_>>(&mut one, &mut other);
/// # Ok(())
/// # }
/// ```
#[must_use = "a transaction that is dropped is aborted"]
pub struct Txn<'m> {
    inner: vista::Txn<'m>,
    journal: &'m mut Journal,
}

impl Options {
    /// Opens the memory in the directory at `path`, and makes the memory if the directory has none.
    ///
    /// # Errors
    /// `InUse`, `Damaged`, `Disk`, `Segment`.
    pub fn open(&self, path: impl AsRef<Path>) -> Result<Rvm> {
        self.open_in(Arc::new(PosixDirectory::open(path)?))
    }

    /// As [`Options::open`], for a directory on any disk.
    ///
    /// # Errors
    /// As [`Options::open`].
    pub fn open_in(&self, directory: Arc<dyn Directory>) -> Result<Rvm> {
        match self.is_file_cache_safe {
            true => Rvm::open(self, Arc::new(FileCache(directory))),
            false => Rvm::open(self, directory),
        }
    }
}

impl Rvm {
    fn open(options: &Options, directory: Arc<dyn Directory>) -> Result<Rvm> {
        let memory = name_of_memory(options);
        if !directory.exists(journal::NAME)? {
            let segment = options.segment.open_in_memory(&memory)?;
            if let Some(journal) = Journal::create(&*directory, &segment, options.log_bytes, options.group)? {
                return Ok(Rvm { segment, journal });
            }
        }
        let mut opened = None;
        let mut segment = options.segment.open_copy(&memory, |store| -> Result<()> {
            opened = Some(Journal::open(&*directory, options.group, store)?);
            Ok(())
        })?;
        let mut journal = opened.expect("the segment was filled from the opened journal");
        // The bytes after an incomplete record may look like a record, so the log is restarted.
        journal.truncate_opened(&mut segment)?;
        Ok(Rvm { segment, journal })
    }

    /// Returns the segment as it is now.
    pub fn segment(&self) -> &Segment {
        &self.segment
    }

    /// Returns whether half of the log is used, so that the next transaction first truncates the log. A caller that
    /// wants to choose the moment calls [`Rvm::truncate`] earlier.
    pub fn wants_truncation(&self) -> bool {
        self.journal.is_nearly_full()
    }

    /// Returns the number of bytes written to the log since the memory was opened.
    pub fn logged(&self) -> u64 {
        self.journal.logged()
    }

    /// Begins a transaction. If the log is nearly full, truncates it first.
    ///
    /// # Errors
    /// `Disk`, `Poisoned`; `Segment` in a forked child, because the log and the database belong to the child's parent.
    pub fn begin(&mut self) -> Result<Txn<'_>> {
        self.check_process()?;
        if self.wants_truncation() {
            self.truncate()?;
        }
        Ok(Txn { inner: self.segment.begin(), journal: &mut self.journal })
    }

    /// Makes every ended transaction safe. Needed only where transactions are written in groups.
    ///
    /// # Errors
    /// `Disk`, `Poisoned`: opening the memory again shows which of the transactions are on the disk. `Segment` in a
    /// forked child.
    pub fn flush(&mut self) -> Result<()> {
        self.check_process()?;
        self.journal.flush()
    }

    /// Writes all changes to the database, and restarts the log.
    ///
    /// # Errors
    /// As [`Rvm::flush`].
    pub fn truncate(&mut self) -> Result<()> {
        self.check_process()?;
        // The stores of a transaction that a caller has forgotten must not reach the database.
        self.segment.begin().abort();
        self.journal.truncate(&mut self.segment)
    }

    /// Closes the memory. The database then has all changes, and the next opening repeats no change.
    ///
    /// # Errors
    /// As [`Rvm::flush`].
    pub fn close(mut self) -> Result<()> {
        self.check_process()?;
        if self.journal.is_truncated() {
            return self.flush();
        }
        self.truncate()
    }

    /// Refuses a forked child. The child has its parent's descriptors of the log and the database, but only the log's
    /// tail at the moment of the fork. So the child's writes would overwrite records that the parent has acknowledged
    /// after the fork.
    fn check_process(&self) -> Result<()> {
        if planted("rvm: a forked child writes to its parent's log") {
            return Ok(());
        }
        Ok(self.segment.check_process()?)
    }
}

impl Drop for Rvm {
    fn drop(&mut self) {
        // Ignored: a caller that wants to see errors calls `close`. A child writes nothing.
        let _ = self.flush();
    }
}

impl Txn<'_> {
    /// As [`vista::Txn::set_range`].
    ///
    /// # Errors
    /// As [`vista::Txn::set_range`].
    #[inline]
    pub fn set_range(&mut self, at: u64, bytes: usize) -> vista::Result<&mut [u8]> {
        self.inner.set_range(at, bytes)
    }

    /// As [`vista::Txn::announce`].
    ///
    /// # Errors
    /// As [`vista::Txn::announce`].
    pub fn announce(&mut self, ranges: &[(u64, usize)]) -> vista::Result<()> {
        self.inner.announce(ranges)
    }

    /// As [`vista::Txn::malloc`].
    ///
    /// # Errors
    /// As [`vista::Txn::malloc`].
    pub fn malloc(&mut self, bytes: u64) -> vista::Result<u64> {
        self.inner.malloc(bytes)
    }

    /// As [`vista::Txn::free`].
    ///
    /// # Errors
    /// As [`vista::Txn::free`].
    pub fn free(&mut self, at: u64) -> vista::Result<()> {
        self.inner.free(at)
    }

    /// As [`vista::Txn::write`].
    ///
    /// # Errors
    /// As [`vista::Txn::write`].
    pub fn write<T: Persist>(&mut self, place: Ptr<T>) -> vista::Result<&mut T> {
        self.inner.write(place)
    }

    /// As [`vista::Txn::create`].
    ///
    /// # Errors
    /// As [`vista::Txn::create`].
    pub fn create<T: Persist>(&mut self, value: T) -> vista::Result<Ptr<T>> {
        self.inner.create(value)
    }

    /// As [`vista::Txn::delete`].
    ///
    /// # Errors
    /// As [`vista::Txn::delete`].
    pub fn delete<T: Persist>(&mut self, place: Ptr<T>) -> vista::Result<()> {
        self.inner.delete(place)
    }

    /// Ends the transaction: its stores are kept, and are on disk when its group is on disk.
    ///
    /// # Errors
    /// `TooLarge`, `Poisoned`, `Segment`: the transaction was aborted. `Disk`: it was aborted in memory, and opening
    /// the memory again shows whether it is on the disk.
    pub fn end(self) -> Result<()> {
        self.inner.end_with(self.journal)
    }

    /// Undoes all stores of the transaction.
    pub fn abort(self) {}
}

impl<'m> Deref for Txn<'m> {
    type Target = vista::Txn<'m>;

    fn deref(&self) -> &vista::Txn<'m> {
        &self.inner
    }
}

impl Stores for Txn<'_> {
    fn set_range(&mut self, at: u64, bytes: usize) -> vista::Result<&mut [u8]> {
        self.inner.set_range(at, bytes)
    }

    fn malloc(&mut self, bytes: u64) -> vista::Result<u64> {
        self.inner.malloc(bytes)
    }

    fn free(&mut self, at: u64) -> vista::Result<()> {
        self.inner.free(at)
    }

    fn ensure_ranges(&mut self, ranges: &[(u64, usize)]) -> vista::Result<()> {
        self.inner.ensure_ranges(ranges)
    }
}

impl Memory for Txn<'_> {
    fn segment(&self) -> &Segment {
        self.inner.segment()
    }
}

impl Memory for Rvm {
    fn segment(&self) -> &Segment {
        &self.segment
    }
}

/// Returns the path of the segment's memory: a name that no other memory of this machine has.
fn name_of_memory(options: &Options) -> PathBuf {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    // Relaxed: the number need only be unique.
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let drawn = std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), count);
    options.memory.join(format!("libtp-rvm-{}-{count}-{drawn:x}", std::process::id()))
}

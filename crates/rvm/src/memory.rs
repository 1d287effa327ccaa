//! Recoverable memory on a disk: a segment in memory, and its journal.

use std::ops::{Deref, DerefMut};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use libtp_io::Directory;
use vista::{Memory, Segment};

use crate::journal::{self, Journal};
use crate::{Options, Result};

/// Recoverable memory on a disk. Its [`segment`](Rvm::segment) is changed in transactions that are safe when they have ended.
#[derive(Debug)]
pub struct Rvm {
    segment: Segment,
    journal: Journal,
}

/// A transaction: vista's, which is what its calls are. Dropped without [`Txn::end`], it is aborted.
#[must_use = "a transaction that is dropped is aborted"]
pub struct Txn<'m> {
    inner: vista::Txn<'m>,
    journal: &'m mut Journal,
}

impl Rvm {
    pub(crate) fn open(options: &Options, directory: Arc<dyn Directory>) -> Result<Rvm> {
        let memory = name_of_memory(options);
        if !directory.exists(journal::NAME)? {
            let segment = options.segment.open(&memory);
            // Nobody else is to find it, and it is to end with the process.
            let _ = std::fs::remove_file(&memory);
            let segment = segment?;
            let journal = Journal::create(&*directory, &segment, options.log_bytes, options.group)?;
            return Ok(Rvm { segment, journal });
        }
        let mut opened = None;
        let segment = options.segment.open_copy(&memory, |store| -> Result<()> {
            opened = Some(Journal::open(&*directory, options.group, store)?);
            Ok(())
        })?;
        let mut journal = opened.expect("the segment was filled from it");
        // What comes behind a record that was not whole may look like one, so the log begins anew.
        journal.truncate(&segment)?;
        Ok(Rvm { segment, journal })
    }

    /// The segment as it is now.
    pub fn segment(&self) -> &Segment {
        &self.segment
    }

    /// Whether the next transaction truncates the log first: half of it is used. Who would rather choose when calls
    /// [`Rvm::truncate`] before.
    pub fn wants_truncation(&self) -> bool {
        self.journal.is_nearly_full()
    }

    /// Bytes that were written to the log since the memory was opened.
    pub fn logged(&self) -> u64 {
        self.journal.logged()
    }

    /// Begins a transaction. If the log is nearly full it is truncated first.
    ///
    /// # Errors
    /// `Disk`, `Poisoned`.
    pub fn begin(&mut self) -> Result<Txn<'_>> {
        if self.wants_truncation() {
            self.truncate()?;
        }
        Ok(Txn { inner: self.segment.begin(), journal: &mut self.journal })
    }

    /// Makes every transaction that has ended safe, where they are written in groups.
    ///
    /// # Errors
    /// `Disk`, `Poisoned`: what of them is on the disk is found out when the memory is opened anew.
    pub fn flush(&mut self) -> Result<()> {
        self.journal.flush()
    }

    /// Writes everything to the database, and begins the log anew.
    ///
    /// # Errors
    /// As [`Rvm::flush`].
    pub fn truncate(&mut self) -> Result<()> {
        // What a forgotten transaction has stored is not to come to the database.
        self.segment.begin().abort();
        self.journal.truncate(&self.segment)
    }

    /// Ends the use of the memory: the database has everything, and is opened without repeating anything.
    ///
    /// # Errors
    /// As [`Rvm::flush`].
    pub fn close(mut self) -> Result<()> {
        if self.journal.is_truncated() {
            return self.flush();
        }
        self.truncate()
    }
}

impl Drop for Rvm {
    fn drop(&mut self) {
        // Who wants to know calls `close`.
        let _ = self.flush();
    }
}

impl Txn<'_> {
    /// Ends the transaction: what it stored stands, and is safe when its group is.
    ///
    /// # Errors
    /// `TooLarge`, `Poisoned`, `Segment`: it was aborted. `Disk`: it was aborted in memory, and whether it is on the disk is
    /// found out when the memory is opened anew.
    pub fn end(self) -> Result<()> {
        self.inner.end_with(self.journal)
    }

    /// Takes everything back.
    pub fn abort(self) {}
}

impl<'m> Deref for Txn<'m> {
    type Target = vista::Txn<'m>;

    fn deref(&self) -> &vista::Txn<'m> {
        &self.inner
    }
}

impl<'m> DerefMut for Txn<'m> {
    fn deref_mut(&mut self) -> &mut vista::Txn<'m> {
        &mut self.inner
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

/// A file that nobody else of this machine makes.
fn name_of_memory(options: &Options) -> PathBuf {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    // Relaxed: a number of its own, whatever the order.
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let drawn = std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), count);
    options.memory.join(format!("libtp-rvm-{}-{count}-{drawn:x}", std::process::id()))
}

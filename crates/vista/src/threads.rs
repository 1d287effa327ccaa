//! Several threads change one segment, each in its own transactions.
//!
//! Beyond the paper, whose Vista is for one thread. Each thread has a [`Worker`] with a separate undo log in the
//! segment, so a commit is still one store, and no thread waits for another thread's commit. Locks decide which thread
//! may access which bytes, with one lock for each *stripe* of the segment. A transaction has the locks of its ranges
//! from their declaration to its end. A worker may also keep a part of the segment for itself: its transactions then
//! take no locks in that part.
//!
//! The heap has one lock. A transaction has it from its first `malloc` or `free` to its end.
//!
//! No transactions wait for each other in a circle for ever. Stripes have an order. If a transaction wants a stripe
//! that comes before a stripe that it already has, it waits only a moment, and then gets [`Error::Contended`]: it must
//! be aborted and run again ([`Worker::run`]). A transaction that waits for longer than a moment sleeps. No transaction
//! waits for a stripe that another worker keeps: it gets [`Error::Kept`].
//!
//! The locks belong to this process and die with it. If we die here: each log holds the old bytes of the ranges that
//! its transaction could have stored to, no two logs have images of the same bytes, and the next mapping rolls all back
//! (`rio/undo/chain.rs`).
//!
//! # Example
//! ```
//! # let file = std::env::temp_dir().join(format!("vista-threads-{}", std::process::id()));
//! # let _ = std::fs::remove_file(&file);
//! let threads = vista::Segment::open(&file, 1 << 20)?.share()?;
//! std::thread::scope(|scope| -> vista::Result<()> {
//!     let workers = [threads.worker()?, threads.worker()?];
//!     let adding = workers.map(|mut worker| {
//!         scope.spawn(move || {
//!             worker.run(|txn| {
//!                 let count = txn.set_range(0, 1)?;
//!                 count[0] += 1;
//!                 Ok(())
//!             })
//!         })
//!     });
//!     adding.into_iter().try_for_each(|thread| thread.join().expect("it does not panic"))
//! })?;
//! assert_eq!(threads.into_segment().bytes()[0], 2);
//! # std::fs::remove_file(&file)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod stripes;
mod txn;
mod worker;

pub use txn::ThreadTxn;
pub use worker::Worker;

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::heap::own_units;
use crate::{Error, Guard, Result, Segment};
use rio::{Flat, ForkMark, Shown, Undo};
use stripes::Stripes;

/// The initial length of a thread's log. Most transactions fit, and the log stays in its processor's cache.
const UNDO_BYTES: u64 = 16 << 10;

/// A segment that several threads change.
pub struct Threads {
    /// Finds bytes without taking the mutex.
    flat: Flat,
    stripes: Stripes,
    pub(crate) path: PathBuf,
    /// Where the flat part begins.
    pub(crate) from: u64,
    /// The length of the flat part.
    bytes: u64,
    /// The mark of this process: a child of a fork has no transactions.
    mark: ForkMark,
    inner: Mutex<Inner>,
}

struct Inner {
    segment: Segment,
    /// Logs that no worker uses now, each with its worker number.
    logs: Vec<(Undo, u32)>,
    /// The highest worker number given so far.
    workers: u32,
}

impl Segment {
    /// Lets several threads change the segment, each by a [`Worker`]. A stripe has 4 KiB. In a segment that would have
    /// many thousands of such stripes, a stripe has more bytes.
    ///
    /// # Errors
    /// `Guarded`; `System` if the kernel refuses to open pages that were left closed; `Damaged`.
    pub fn share(self) -> Result<Threads> {
        self.share_by(0)
    }

    /// Lets several threads change the segment. A stripe has `stripe_bytes` bytes, rounded up to a power of two. With
    /// 0, a stripe is as long as in [`Segment::share`].
    ///
    /// # Errors
    /// As [`Segment::share`].
    pub fn share_by(mut self, stripe_bytes: u64) -> Result<Threads> {
        self.check_process()?;
        // A caller may have forgotten a transaction.
        self.begin().abort();
        self.open_flat()?;
        if self.guard() != Guard::Off {
            return Err(Error::Guarded { path: self.path().to_path_buf() });
        }
        let logs = self.undo.further().map_err(|what| Error::Damaged { path: self.path().to_path_buf(), what })?;
        // Each log keeps its worker number, so numbers do not run out, and no two logs have the same number.
        let logs: Vec<_> = logs.into_iter().zip(1..).collect();
        let workers = u32::try_from(logs.len()).expect("each log takes a part of the file");
        self.is_shared = true;
        self.undo.keep_back(0);
        Ok(Threads {
            flat: self.view.flat().clone(),
            stripes: Stripes::new(self.bytes, stripe_bytes),
            path: self.path().to_path_buf(),
            from: self.from,
            bytes: self.bytes,
            mark: ForkMark::of_this_process(),
            inner: Mutex::new(Inner { segment: self, logs, workers }),
        })
    }
}

impl Threads {
    /// Makes one more worker, for one thread.
    ///
    /// # Errors
    /// `Memory` if there is no room for its undo log.
    pub fn worker(&self) -> Result<Worker<'_>> {
        // Checked before the mutex is taken: another thread may have held the mutex when the child was made.
        self.check_process()?;
        let mut inner = self.inner();
        if inner.logs.is_empty() {
            let undo = inner.segment.one_more_log()?;
            inner.workers += 1;
            let log = (undo, inner.workers);
            inner.logs.push(log);
        }
        // If this fails, the log goes to the next worker, and the call is tried again then.
        inner.segment.hide_metadata()?;
        let (undo, number) = inner.logs.pop().expect("a missing log was put there above");
        Ok(Worker::new(self, undo, number))
    }

    /// Returns the segment, for use by one thread again. Undoes unfinished transactions of forgotten workers, except in
    /// a child of the process that has the segment: in a child these transactions belong to the parent.
    ///
    /// # Panics
    /// If the undo logs are damaged.
    pub fn into_segment(self) -> Segment {
        let is_ours = self.mark.is_current();
        let mut inner = self.inner.into_inner().unwrap_or_else(PoisonError::into_inner);
        let forgotten = inner.segment.undo.further().unwrap_or_else(|what| panic!("{what}"));
        for log in forgotten.iter().filter(|log| is_ours && log.has_images()) {
            log.roll_back();
        }
        inner.segment.is_shared = false;
        inner.segment.keep_room();
        inner.segment
    }

    /// Returns the length of the flat part.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the length of a stripe in bytes.
    pub fn stripe_bytes(&self) -> u64 {
        self.stripes.bytes()
    }

    /// As [`Segment::check_process`].
    fn check_process(&self) -> Result<()> {
        Ok(self.mark.refuse_child(&self.path)?)
    }

    /// Returns `bytes` bytes from `at` on, if the segment has them. To access the bytes, the caller also needs their
    /// stripes.
    fn look(&self, at: u64, bytes: usize) -> Result<Shown<'_>> {
        let shown = self.flat.look(at, bytes).or_else(|| self.flat.look_in(&self.inner().segment.view, at, bytes));
        shown.ok_or_else(|| self.out_of_range(at, bytes as u64))
    }

    #[cold]
    fn out_of_range(&self, at: u64, bytes: u64) -> Error {
        Error::OutOfRange { path: self.path.clone(), at, bytes, size: self.bytes }
    }

    /// Locks the segment's mutex. Ignores its poison: all that a panic in a call can leave half done is covered by the
    /// transaction's undo log.
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Segment {
    fn one_more_log(&mut self) -> Result<Undo> {
        let region = self.region().clone();
        let undo = own_units(&region, || Ok(self.undo.add_further(UNDO_BYTES)?))?;
        region.write_back_front(self.from);
        Ok(undo)
    }
}

impl std::fmt::Debug for Threads {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Threads({}, stripes of {} bytes)", self.path.display(), self.stripes.bytes())
    }
}

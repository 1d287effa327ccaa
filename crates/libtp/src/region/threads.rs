//! The library's threads of one generation: starting them, and asking them to stop.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock};
use std::thread::ThreadId;
use std::time::Duration;

use libtp_process::Waker;

use crate::ground::mutex::lock;
use crate::{Error, Result};

thread_local! {
    /// The id of a thread that was started here; `None` in other threads. This module does not ask for the ids of the
    /// program's threads: for an id, the standard library allocates memory that the main thread never frees, and
    /// valgrind reports such memory.
    static OWN: Cell<Option<ThreadId>> = const { Cell::new(None) };
}

/// The running threads.
#[derive(Default)]
pub(crate) struct Threads {
    stop: Arc<Stop>,
    threads: Vec<std::thread::JoinHandle<()>>,
}

/// The request to stop.
pub(super) struct Stop {
    asked: AtomicBool,
    mutex: Mutex<()>,
    changed: Condvar,
    /// Wakes the thread that sleeps in the kernel.
    waker: OnceLock<Waker>,
}

impl Default for Stop {
    fn default() -> Stop {
        Stop { asked: AtomicBool::new(false), mutex: Mutex::new(()), changed: Condvar::new(), waker: OnceLock::new() }
    }
}

impl Stop {
    fn ask(&self) {
        // Release: pairs with the acquire in `is_asked`.
        self.asked.store(true, Ordering::Release);
        self.changed.notify_all();
        if let Some(waker) = self.waker.get() {
            waker.wake();
        }
    }

    pub(super) fn is_asked(&self) -> bool {
        // Acquire: pairs with the release in `ask`; no other data is handed over.
        self.asked.load(Ordering::Acquire)
    }

    /// Makes `ask` wake this waker, too. Wakes it at once if the stop is already requested.
    pub(super) fn wake_by(&self, waker: Waker) {
        let _ = self.waker.set(waker.clone());
        if self.is_asked() {
            waker.wake();
        }
    }

    /// Sleeps for `nap`, or until a stop is requested; returns false if a stop is requested.
    pub(super) fn sleep(&self, nap: Duration) -> bool {
        if self.is_asked() {
            return false;
        }
        let guard = lock(&self.mutex);
        // A spurious wake only shortens the nap.
        drop(self.changed.wait_timeout(guard, nap));
        !self.is_asked()
    }
}

impl Threads {
    /// Returns the request to stop, for a thread to check.
    pub(super) fn stop_request(&self) -> Arc<Stop> {
        Arc::clone(&self.stop)
    }

    /// Starts a thread.
    pub(super) fn start(&mut self, name: &str, run: impl FnOnce() + Send + 'static) -> Result<()> {
        let noted = move || {
            OWN.set(Some(std::thread::current().id()));
            run();
        };
        let thread = std::thread::Builder::new().name(name.into()).spawn(noted);
        self.threads.push(thread.map_err(|error| Error::Io(Box::new(error)))?);
        Ok(())
    }

    /// As [`Threads::stop`], without waiting: the caller may be one of the threads, or a thread may wait for the
    /// caller.
    pub(crate) fn abandon(self) {
        self.stop.ask();
    }

    pub(crate) fn stop(self) {
        self.stop.ask();
        let own = OWN.get();
        for thread in self.threads.into_iter().filter(|thread| Some(thread.thread().id()) != own) {
            if thread.join().is_err() {
                tracing::error!(
                    "a background thread panicked; the next process that opens the environment repairs its session"
                );
            }
        }
    }
}

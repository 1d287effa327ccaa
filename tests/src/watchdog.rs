//! Panics and hangs in the code under test. A panic becomes an error message, and a hang ends the run with a message.

use std::cell::RefCell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::{Arc, Mutex, Once, PoisonError};
use std::time::{Duration, Instant};

thread_local! {
    static LAST_PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
    static QUIET: RefCell<bool> = const { RefCell::new(false) };
}

/// Sets a panic hook that records panics inside [`caught`] and does not print them.
fn listen() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let usual = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if QUIET.with(|quiet| *quiet.borrow()) {
                LAST_PANIC.with(|last| *last.borrow_mut() = Some(info.to_string()));
            } else {
                usual(info);
            }
        }));
    });
}

/// Runs `work`; turns a panic in it into an error with the panic's place and message.
///
/// # Errors
/// The error that `work` returned, or the panic.
pub fn caught<T>(work: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    listen();
    let before = QUIET.with(|quiet| quiet.replace(true));
    let ended = panic::catch_unwind(AssertUnwindSafe(work));
    QUIET.with(|quiet| quiet.replace(before));
    ended.unwrap_or_else(|_| {
        let message = LAST_PANIC.with(|last| last.borrow_mut().take()).unwrap_or_default();
        Err(format!("PANIC: {}", message.replace('\n', " ")))
    })
}

/// The longest time for one piece of work. Every piece of work takes far less time.
const LIMIT: Duration = Duration::from_secs(60);

/// Watches the threads of a suite, and reports a piece of work that never ends.
#[derive(Clone)]
pub struct Watchdog(Arc<Mutex<Watch>>);

struct Watch {
    at: Vec<Option<(String, Instant)>>,
    is_over: bool,
}

impl Watchdog {
    /// Starts to watch `threads` threads.
    pub fn start(threads: usize) -> Watchdog {
        let watch = Arc::new(Mutex::new(Watch { at: vec![None; threads], is_over: false }));
        let theirs = Arc::clone(&watch);
        std::thread::spawn(move || loop {
            std::thread::sleep(Duration::from_millis(500));
            let watch = theirs.lock().unwrap_or_else(PoisonError::into_inner);
            if watch.is_over {
                return;
            }
            for (what, since) in watch.at.iter().flatten() {
                if since.elapsed() > LIMIT {
                    println!("HANG: no end after {} s: {what}", LIMIT.as_secs());
                    // The hung thread cannot be ended in any other way.
                    std::process::exit(101);
                }
            }
        });
        Watchdog(watch)
    }

    /// Records that the thread begins a piece of work; `what` has the variables that repeat it.
    pub fn begin(&self, thread: usize, what: String) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).at[thread] = Some((what, Instant::now()));
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        if Arc::strong_count(&self.0) <= 2 {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).is_over = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_a_message_with_its_place() {
        let error = caught::<()>(|| panic!("page 7 is odd")).unwrap_err();
        assert!(error.contains("page 7 is odd") && error.contains("watchdog.rs"), "{error}");
        assert_eq!(caught(|| Ok(1)), Ok(1));
    }
}

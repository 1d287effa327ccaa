//! Planted bugs: places in the code at which a test build can break a rule on purpose, to check that the tests notice
//! the break.
//!
//! Compiled in only with the feature `planted`, which only the test suites switch on; without it every call is the
//! constant `false` and costs nothing. `LIBTP_PLANTED="log: a flush is not synced"` switches one bug on, in a process
//! and in the processes that it starts. The list of names measures the suites: they must notice each bug.

#[cfg(feature = "planted")]
mod chosen {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::{OnceLock, PoisonError, RwLock};

    static CHOSEN: OnceLock<RwLock<Option<String>>> = OnceLock::new();
    /// True once the environment has been read and no bug is on. Makes `planted` quick, because a suite calls it
    /// millions of times with no bug on.
    static ALL_OFF: AtomicBool = AtomicBool::new(false);

    fn chosen() -> &'static RwLock<Option<String>> {
        CHOSEN.get_or_init(|| RwLock::new(std::env::var("LIBTP_PLANTED").ok()))
    }

    /// Switches one planted bug on; `None` switches all off.
    pub fn plant(name: Option<&str>) {
        let mut chosen = chosen().write().unwrap_or_else(PoisonError::into_inner);
        *chosen = name.map(str::to_string);
        // Relaxed: a thread that must see the bug is started, or woken, after this call. Concurrent calls are ordered
        // by the lock of `CHOSEN`.
        ALL_OFF.store(chosen.is_none(), Ordering::Relaxed);
    }

    /// Returns whether the planted bug of that name is on.
    #[inline]
    pub fn planted(name: &'static str) -> bool {
        // Relaxed: as in `plant`.
        !ALL_OFF.load(Ordering::Relaxed) && is_chosen(name)
    }

    fn is_chosen(name: &str) -> bool {
        let chosen = chosen().read().unwrap_or_else(PoisonError::into_inner);
        if chosen.is_none() {
            // Stored under the lock that `plant` takes, so that a bug planted later stays on.
            ALL_OFF.store(true, Ordering::Relaxed);
        }
        chosen.as_deref() == Some(name)
    }
}

#[cfg(feature = "planted")]
pub use chosen::{plant, planted};

/// Returns whether the planted bug of that name is on: never, in this build.
#[cfg(not(feature = "planted"))]
#[inline(always)]
pub const fn planted(_name: &'static str) -> bool {
    false
}

/// Waits a moment, at a place where a planted bug shows only if another thread gets in between.
pub fn linger() {
    std::thread::sleep(std::time::Duration::from_millis(2));
}

/// Like [`linger`], but waits until `has_come` reports that another thread has come, for at most 20 ms.
pub fn linger_until(mut has_come: impl FnMut() -> bool) {
    let start = std::time::Instant::now();
    while !has_come() && start.elapsed() < std::time::Duration::from_millis(20) {
        std::hint::spin_loop();
    }
}

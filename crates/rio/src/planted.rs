//! Planted bugs: places where a test build can be told to break a rule, to see that the tests notice.
//!
//! Compiled in only with the feature `planted`, which nothing but the test suites switches on; without it every call is
//! the constant `false` and costs nothing. `LIBTP_PLANTED="log: flush not synced"` switches one on in a process and in
//! those it starts. The list of names is the yardstick of the suites: each bug must be noticed.

#[cfg(feature = "planted")]
mod chosen {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::{OnceLock, PoisonError, RwLock};

    static CHOSEN: OnceLock<RwLock<Option<String>>> = OnceLock::new();
    /// True once the environment has been read and no bug is on. A suite passes millions of such places with none on.
    static ALL_OFF: AtomicBool = AtomicBool::new(false);

    fn chosen() -> &'static RwLock<Option<String>> {
        CHOSEN.get_or_init(|| RwLock::new(std::env::var("LIBTP_PLANTED").ok()))
    }

    /// Switches one planted bug on, or all off.
    pub fn plant(name: Option<&str>) {
        let mut chosen = chosen().write().unwrap_or_else(PoisonError::into_inner);
        *chosen = name.map(str::to_string);
        // Relaxed: a thread that must see the bug is started, or woken, after this call. The lock orders two calls.
        ALL_OFF.store(chosen.is_none(), Ordering::Relaxed);
    }

    /// Whether the planted bug of that name is on.
    #[inline]
    pub fn planted(name: &'static str) -> bool {
        // Relaxed: as in `plant`.
        !ALL_OFF.load(Ordering::Relaxed) && is_chosen(name)
    }

    fn is_chosen(name: &str) -> bool {
        let chosen = chosen().read().unwrap_or_else(PoisonError::into_inner);
        if chosen.is_none() {
            // Under the lock that `plant` takes: a bug that it plants later is not switched off here.
            ALL_OFF.store(true, Ordering::Relaxed);
        }
        chosen.as_deref() == Some(name)
    }
}

#[cfg(feature = "planted")]
pub use chosen::{plant, planted};

/// Whether the planted bug of that name is on: never, in this build.
#[cfg(not(feature = "planted"))]
#[inline(always)]
pub const fn planted(_name: &'static str) -> bool {
    false
}

/// Waits a moment, where a bug that is on shows only if somebody comes in between.
pub fn linger() {
    std::thread::sleep(std::time::Duration::from_millis(2));
}

/// The same, until somebody has come; not for long.
pub fn linger_until(mut has_come: impl FnMut() -> bool) {
    let start = std::time::Instant::now();
    while !has_come() && start.elapsed() < std::time::Duration::from_millis(20) {
        std::hint::spin_loop();
    }
}

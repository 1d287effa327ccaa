//! Planted bugs: places where a test build can be told to break a rule, to see that the tests notice.
//!
//! Compiled in only with the feature `planted`, which nothing but the test suites switches on; without it every call is
//! the constant `false` and costs nothing. `LIBTP_PLANTED="log: flush not synced"` switches one on in a process and in
//! those it starts. The list of names is the yardstick of the suites: each bug must be noticed.

#[cfg(feature = "planted")]
mod chosen {
    use std::sync::{OnceLock, PoisonError, RwLock};

    static CHOSEN: OnceLock<RwLock<Option<String>>> = OnceLock::new();

    fn chosen() -> &'static RwLock<Option<String>> {
        CHOSEN.get_or_init(|| RwLock::new(std::env::var("LIBTP_PLANTED").ok()))
    }

    /// Switches one planted bug on, or all off.
    pub fn plant(name: Option<&str>) {
        *chosen().write().unwrap_or_else(PoisonError::into_inner) = name.map(str::to_string);
    }

    /// Whether the planted bug of that name is on.
    pub fn planted(name: &'static str) -> bool {
        chosen().read().unwrap_or_else(PoisonError::into_inner).as_deref() == Some(name)
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

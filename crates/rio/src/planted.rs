//! Planted bugs: places where a test build can be told to break a rule, to see that the tests notice.
//!
//! Compiled in only with the feature `planted`, which nothing but the test suites switches on; without it every call is
//! the constant `false` and costs nothing. The list of names is the yardstick of the crash tests: each must be caught.

#[cfg(feature = "planted")]
mod chosen {
    use std::sync::{PoisonError, RwLock};

    static CHOSEN: RwLock<Option<String>> = RwLock::new(None);

    /// Switches one planted bug on, or all off.
    pub fn plant(name: Option<&str>) {
        *CHOSEN.write().unwrap_or_else(PoisonError::into_inner) = name.map(str::to_string);
    }

    /// Whether the planted bug of that name is on.
    pub fn planted(name: &'static str) -> bool {
        CHOSEN.read().unwrap_or_else(PoisonError::into_inner).as_deref() == Some(name)
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

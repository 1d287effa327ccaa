//! How large a suite is and where it starts: read from the environment, so that one test runs small on a developer's
//! machine and large in `cargo xtask soak`.

use std::str::FromStr;

/// The number a variable holds, or `default`.
///
/// # Panics
/// When the variable holds something else than a number: a mistyped size must not pass for a small one.
pub fn number(variable: &str, default: u64) -> u64 {
    chosen(variable).unwrap_or(default)
}

/// The value a variable holds, if it is set.
///
/// # Panics
/// As [`number`].
pub fn chosen<T: FromStr>(variable: &str) -> Option<T> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable}={text} cannot be read")))
}

/// What of `all` is tried today: each on one day of `LIBTP_TEST_SHARE`, by its place and the seed. Everything where that is not
/// set.
pub fn todays<T>(all: Vec<T>) -> Vec<T> {
    let share = number("LIBTP_TEST_SHARE", 1).max(1);
    let is_todays = |place: u64| (place + first_seed()) % share == 0;
    (0..).zip(all).filter(|(place, _)| is_todays(*place)).map(|(_, one)| one).collect()
}

/// The first seed: `LIBTP_TEST_SEED`, or 1.
pub fn first_seed() -> u64 {
    number("LIBTP_TEST_SEED", 1)
}

/// Crash states to try: `LIBTP_TEST_STATES`.
pub fn states() -> u64 {
    number("LIBTP_TEST_STATES", 2_000)
}

/// Damaged images to try: `LIBTP_TEST_FLIPS`.
pub fn flips() -> u64 {
    number("LIBTP_TEST_FLIPS", 300)
}

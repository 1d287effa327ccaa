//! Sizes and first seeds of the suites, from environment variables, so that one test runs small on a developer's
//! machine and large in `cargo xtask soak`.

use std::str::FromStr;

/// Returns the number in a variable, or `default`.
///
/// # Panics
/// If the variable does not hold a number: a mistyped size must not pass for a small size.
pub fn number(variable: &str, default: u64) -> u64 {
    chosen(variable).unwrap_or(default)
}

/// Returns the value of a variable, if it is set.
///
/// # Panics
/// As [`number`].
pub fn chosen<T: FromStr>(variable: &str) -> Option<T> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable}={text} cannot be read")))
}

/// Returns today's share of `all`: each item is tried on one of `LIBTP_TEST_SHARE` days, by its place and the seed.
/// Returns all items if the variable is not set.
pub fn todays<T>(all: Vec<T>) -> Vec<T> {
    let share = number("LIBTP_TEST_SHARE", 1).max(1);
    let is_todays = |place: u64| (place + first_seed()) % share == 0;
    (0..).zip(all).filter(|(place, _)| is_todays(*place)).map(|(_, one)| one).collect()
}

/// Returns the first seed: `LIBTP_TEST_SEED`, or 1.
pub fn first_seed() -> u64 {
    number("LIBTP_TEST_SEED", 1)
}

/// Returns the number of crash states to try: `LIBTP_TEST_STATES`.
pub fn states() -> u64 {
    number("LIBTP_TEST_STATES", 2_000)
}

/// Returns the number of damaged images to try: `LIBTP_TEST_FLIPS`.
pub fn flips() -> u64 {
    number("LIBTP_TEST_FLIPS", 300)
}

//! Sizes and first seeds of the suites, from environment variables. So the same test is short on a developer's machine
//! and long in `cargo xtask soak`.

use std::str::FromStr;

/// Returns the number in an environment variable, or `default` if it is not set.
///
/// # Panics
/// If the variable does not hold a number: a mistyped size must not count as a small size.
pub fn number(variable: &str, default: u64) -> u64 {
    chosen(variable).unwrap_or(default)
}

/// Returns the value of an environment variable, if it is set.
///
/// # Panics
/// If the value cannot be read.
pub fn chosen<T: FromStr>(variable: &str) -> Option<T> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable}={text} cannot be read")))
}

/// Returns every n-th item of `all`, where n is `LIBTP_TEST_SHARE`; the seed chooses the first of these items. If the
/// seed rises by one each day, each item is tried once in n days. Returns all items if the variable is not set.
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

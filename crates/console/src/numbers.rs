//! Rates and times of measurements, and their spelling for people.

use std::time::Duration;

/// Parses a number of seconds, with or without a fraction.
pub fn seconds(word: &str) -> std::result::Result<Duration, String> {
    let number: f64 = word.parse().map_err(|_| "give a number of seconds".to_string())?;
    Duration::try_from_secs_f64(number).map_err(|error| error.to_string())
}

/// Parses a number of seconds that is at least a millisecond.
pub fn some_seconds(word: &str) -> std::result::Result<Duration, String> {
    let time = seconds(word)?;
    if time < Duration::from_millis(1) {
        return Err("give at least a millisecond (0.001)".to_string());
    }
    Ok(time)
}

/// Parses a number without sign and fraction.
pub fn whole_number<N: TryFrom<u64>>(word: &str) -> std::result::Result<N, String> {
    let number = word.parse::<u64>().ok().and_then(|number| N::try_from(number).ok());
    number.ok_or_else(|| "give a whole number, from 0 on, that is not too large".to_string())
}

/// The longest timeout of a lock that a command line may set, in seconds: a day.
const WAIT_MAX: f64 = 86_400.0;

/// Parses the timeout of a lock, in seconds.
pub fn wait_seconds(word: &str) -> std::result::Result<Duration, String> {
    let seconds = word.parse().ok().filter(|seconds| (0.0..=WAIT_MAX).contains(seconds));
    seconds.map(Duration::from_secs_f64).ok_or_else(|| format!("give a number of seconds from 0 to {WAIT_MAX}"))
}

/// Returns a number with its digits in groups of three: `1,234,567`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Returns a time in the unit that suits its size: `7.3 us`, `1.20 ms`, `2.10 s`.
pub fn time(micros: f64) -> String {
    match micros {
        few if few < 1_000.0 => format!("{few:.1} us"),
        many if many < 1_000_000.0 => format!("{:.2} ms", many / 1_000.0),
        many => format!("{:.2} s", many / 1_000_000.0),
    }
}

/// Returns `count` events in `nanos` nanoseconds as a whole number per second, rounded.
pub fn per_second(count: u64, nanos: u64) -> u64 {
    let nanos = u128::from(nanos.max(1));
    let rate = (u128::from(count) * 1_000_000_000 + nanos / 2) / nanos;
    u64::try_from(rate).unwrap_or(u64::MAX)
}

/// Converts nanoseconds to microseconds.
pub fn micros(nanos: u64) -> f64 {
    nanos as f64 / 1000.0
}

/// Returns a duration in whole nanoseconds, at most the largest `u64` (584 years).
pub fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_may_have_a_fraction_and_some_seconds_must_be_positive() {
        assert_eq!(seconds("0.25"), Ok(Duration::from_millis(250)));
        assert_eq!(seconds("0"), Ok(Duration::ZERO));
        for wrong in ["0", "-1", "nan", "inf", "five", ""] {
            assert!(some_seconds(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn numbers_are_grouped_and_times_have_a_unit_that_suits_their_size() {
        let numbers = [0, 999, 1_000, 12_345_678].map(grouped);
        assert_eq!(numbers, ["0", "999", "1,000", "12,345,678"]);
        assert_eq!([7.25, 1_200.0, 2_100_000.0].map(time), ["7.2 us", "1.20 ms", "2.10 s"]);
    }
}

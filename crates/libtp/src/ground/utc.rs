//! The spelling of a time in UTC, for messages. `tp restore --until` reads this spelling.

const DAY_SECONDS: u64 = 24 * 60 * 60;

/// Returns a time in microseconds since 1970 as a date and a time of day in UTC: `2026-01-31T23:59:59.500000Z`.
pub(crate) fn utc(micros: u64) -> String {
    let (seconds, micros) = (micros / 1_000_000, micros % 1_000_000);
    let (mut day, of_day) = (seconds / DAY_SECONDS, seconds % DAY_SECONDS);
    let is_leap = |year: u64| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let mut year = 1970;
    while day >= 365 + u64::from(is_leap(year)) {
        day -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let months = [31, 28 + u64::from(is_leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 0;
    while day >= months[month] {
        day -= months[month];
        month += 1;
    }
    let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    format!("{year:04}-{:02}-{:02}T{hour:02}:{minute:02}:{second:02}.{micros:06}Z", month + 1, day + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_spelled_by_the_calendar() {
        assert_eq!(utc(0), "1970-01-01T00:00:00.000000Z");
        assert_eq!(utc(951_825_600_000_000), "2000-02-29T12:00:00.000000Z");
        assert_eq!(utc(1_795_379_706_250_000), "2026-11-22T20:35:06.250000Z");
        assert_eq!(utc(1_798_761_599_999_999), "2026-12-31T23:59:59.999999Z");
    }
}

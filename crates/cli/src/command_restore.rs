//! `tp restore`: makes an environment of a backup.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use clap::Args;
use libtp::{Backup, RestorePoint};
use serde_json::Value;

use crate::environment_directory::directory_to_make;
use crate::facts::{facts, write_list};
use crate::failure::{Ending, Result};
use crate::output::{note, Output};
use crate::progress::Steps;

/// The command line.
#[derive(Args)]
pub struct Arguments {
    /// The backup's directory.
    backup: PathBuf,
    /// Directory of the new environment: missing, or empty except for a `libtp.toml`. Default: the directory in TP_ENV.
    #[arg(short = 'e', long, value_name = "DIR")]
    env: Option<PathBuf>,
    /// State to restore: after the log record at this LSN, or at a time in UTC, such as 2026-01-31T23:59:59. Default:
    /// the latest state.
    #[arg(long, value_name = "LSN|TIME", value_parser = until)]
    until: Option<RestorePoint>,
}

/// Restores, and prints the facts of the restored environment, such as the end of its log.
pub fn run(arguments: &Arguments, output: &mut Output) -> Result<Ending> {
    let directory = directory_to_make(arguments.env.as_deref())?;
    let mut steps = Steps::new(output.may_draw());
    let backup = Backup::open(&arguments.backup)?;
    let until = arguments.until.unwrap_or(RestorePoint::End);
    let restored = backup.restore(&directory, until, &mut |now| steps.set(now.step, now.done, now.total))?;
    drop(steps);
    if restored.settings_aside {
        note("the backup's libtp.toml names directories of the original environment, so it is not used: it is stored as libtp.toml.backup");
    }
    if restored.clock_behind > 0 {
        note(format_args!(
            "the wall clock was behind the log's times in {} flushes, the first at LSN {}: the clock was set back, or had been ahead. Times in the log do not go back, so a time cannot name the states in between. Name them by LSN (--until LSN); `tp printlog` shows the LSNs",
            restored.clock_behind, restored.clock_behind_from
        ));
    }
    if let Value::Object(object) = facts(&restored)? {
        write_list(output, &object)?;
    }
    Ok(Ending::Done)
}

fn until(text: &str) -> std::result::Result<RestorePoint, String> {
    let lsn = text.parse().map(RestorePoint::Lsn).ok();
    let found = lsn.or_else(|| time_of(text).map(RestorePoint::Time));
    found.ok_or_else(|| {
        format!("`{text}` is neither an LSN nor a time: write a number, or a time such as 2026-01-31T23:59:59.5Z")
    })
}

/// Parses a time in UTC: `YYYY-MM-DD`, then optionally `T` or a space and `HH:MM:SS`, then optionally a fraction and a
/// `Z`.
fn time_of(text: &str) -> Option<SystemTime> {
    let (date, time) = text.trim_end_matches('Z').split_once(['T', ' ']).unwrap_or((text, "0:0:0"));
    let numbers = |text: &str, between: char| {
        let all: Option<Vec<u64>> = text.split(between).map(|part| part.parse().ok()).collect();
        all.filter(|all| all.len() == 3)
    };
    let (whole, fraction) = time.split_once('.').unwrap_or((time, "0"));
    let (date, time) = (numbers(date, '-')?, numbers(whole, ':')?);
    let (year, month, day) = (date[0], date[1], date[2]);
    let is_leap = |year: u64| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let february = if is_leap(year) { 29 } else { 28 };
    let months = [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let index = usize::try_from(month).ok()?.checked_sub(1)?;
    let in_range = (1970..10_000).contains(&year) && (1..=*months.get(index)?).contains(&day);
    if !in_range || time[0] > 23 || time[1] > 59 || time[2] > 60 || fraction.len() > 9 {
        return None;
    }
    let years: u64 = (1970..year).map(|year| if is_leap(year) { 366 } else { 365 }).sum();
    let days = years + months[..index].iter().sum::<u64>() + day - 1;
    let nanos: u32 = format!("{fraction:0<9}").parse().ok()?;
    let seconds = ((days * 24 + time[0]) * 60 + time[1]) * 60 + time[2];
    SystemTime::UNIX_EPOCH.checked_add(Duration::new(seconds, nanos))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_parsed_by_the_calendar() {
        let micros = |text: &str| time_of(text).unwrap().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_micros();
        assert_eq!(micros("1970-01-01"), 0);
        assert_eq!(micros("2000-02-29T12:00:00Z"), 951_825_600_000_000);
        assert_eq!(micros("2026-11-22 20:35:06.25"), 1_795_379_706_250_000);
        for wrong in ["2026-02-29", "2026-13-01", "2026-01-01T24:00:00", "yesterday", "2026-01", "1969-12-31"] {
            assert!(time_of(wrong).is_none(), "{wrong}");
        }
        assert_eq!(until("4711"), Ok(RestorePoint::Lsn(4711)));
        assert!(until("soon").is_err());
    }
}

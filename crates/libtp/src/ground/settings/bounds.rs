//! The least and the greatest value of each setting. A value outside of its bounds is refused before anything is
//! opened. The sizes of the log's segments must also be powers of two.

use libtp_log::Geometry;

use super::{Bytes, Settings};
use crate::{Error, Result};

/// Room for one page of the largest size.
const MEMORY_BYTES_MIN: u64 = 64 << 10;
/// More than any machine's memory, and small enough that sums of such sizes fit their type.
const MEMORY_BYTES_MAX: u64 = 1 << 47;
/// More log than any disk holds.
const LOG_BYTES_MAX: u64 = 1 << 60;
const DAY_MILLIS: u64 = 24 * 60 * 60 * 1000;
const YEAR_MILLIS: u64 = 366 * DAY_MILLIS;
/// The longest limited wait for a lock.
pub(crate) const LOCK_TIMEOUT_MILLIS_MAX: u64 = YEAR_MILLIS;

/// A setting with a value, and its bounds, both included.
struct Bounded {
    name: &'static str,
    value: u64,
    min: u64,
    max: u64,
}

impl Settings {
    /// Refuses a value that is out of its bounds.
    ///
    /// # Errors
    /// `Settings`, with the name, the value and the bounds.
    pub(crate) fn check(&self) -> Result<()> {
        let pools = self.database.values().filter_map(|database| database.own_pool);
        let pools = pools.map(|bytes| Bounded {
            name: "own_pool",
            value: bytes.0,
            min: MEMORY_BYTES_MIN,
            max: MEMORY_BYTES_MAX,
        });
        match self.bounded().into_iter().flatten().chain(pools).find(Bounded::is_outside) {
            None => self.check_segments(),
            Some(Bounded { name, value, min, max }) => Err(Error::Settings {
                what: format!("{name} is {value}, and must be from {min} to {max}; nothing was changed. Correct it in libtp.toml or in the program"),
            }),
        }
    }

    fn check_segments(&self) -> Result<()> {
        let usual = libtp_log::Settings::default();
        let first = self.log_segment_first.map_or(usual.segment_bytes_first, |bytes| bytes.0);
        let max = self.log_segment_max.map_or(usual.segment_bytes_max, |bytes| bytes.0);
        if Geometry::new(first, max).is_some() {
            return Ok(());
        }
        let what = format!(
            "log_segment_first is {first} bytes and log_segment_max {max}; both must be powers of two from 16 KiB to 1 TiB, and log_segment_first must not be the larger one; nothing was changed. Correct it in libtp.toml or in the program"
        );
        Err(Error::Settings { what })
    }

    fn bounded(&self) -> [Option<Bounded>; 16] {
        let number = |name, value: Option<u32>, min, max| bounded(name, value.map(u64::from), min, max);
        let bytes = |name, value: Option<Bytes>, max| bounded(name, value.map(|bytes| bytes.0), 0, max);
        [
            bounded("memory", self.memory.map(|bytes| bytes.0), MEMORY_BYTES_MIN, MEMORY_BYTES_MAX),
            bounded("relaxed_millis", self.relaxed_millis, 0, DAY_MILLIS),
            number("group_threshold", self.group_threshold, 0, 1_000_000),
            number("wait_threshold_percent", self.wait_threshold_percent, 0, 100),
            bytes("log_delay", self.log_delay, LOG_BYTES_MAX),
            bytes("log_segment_first", self.log_segment_first, LOG_BYTES_MAX),
            bytes("log_segment_max", self.log_segment_max, LOG_BYTES_MAX),
            bytes("checkpoint_log", self.checkpoint_log, LOG_BYTES_MAX),
            bytes("snapshot_log", self.snapshot_log, LOG_BYTES_MAX),
            bounded("snapshot_age_millis", self.snapshot_age_millis, 0, YEAR_MILLIS),
            bytes("keep_log", self.keep_log, LOG_BYTES_MAX),
            number("recovery_threads", self.recovery_threads, 1, 256),
            bounded("lock_timeout_millis", self.lock_timeout_millis, 0, LOCK_TIMEOUT_MILLIS_MAX),
            bounded("deadlock_period_millis", self.deadlock_period_millis, 1, DAY_MILLIS),
            bounded("detached_timeout_millis", self.detached_timeout_millis, 0, YEAR_MILLIS),
            number("lanes", self.lanes, 1, 64),
        ]
    }
}

fn bounded(name: &'static str, value: Option<u64>, min: u64, max: u64) -> Option<Bounded> {
    value.map(|value| Bounded { name, value, min, max })
}

impl Bounded {
    fn is_outside(&self) -> bool {
        !(self.min..=self.max).contains(&self.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_of_the_settings_has_bounds() {
        let text = "memory = 65536\nrelaxed_millis = 1\ngroup_threshold = 1\nwait_threshold_percent = 1\nlog_delay = 1\n\
                    log_segment_first = 16384\nlog_segment_max = 16384\ncheckpoint_log = 1\nsnapshot_log = 1\nsnapshot_age_millis = 1\n\
                    keep_log = 1\nrecovery_threads = 1\nlock_timeout_millis = 1\ndeadlock_period_millis = 1\n\
                    detached_timeout_millis = 1\nlanes = 1\n";
        let settings = Settings::parse(text).unwrap();
        assert!(settings.bounded().iter().all(Option::is_some), "a setting has no bounds");
        settings.check().unwrap();
        // A new numeric setting that `text` does not set is printed as `name: None`, and so changes the count.
        let shown = format!("{settings:?}");
        let others = ["log_directory", "durability", "replacement", "victim", "region_directory", "region_survives"];
        assert_eq!(shown.matches(": None").count(), others.len(), "{shown}");
        assert!(others.iter().all(|name| shown.contains(&format!("{name}: None"))), "{shown}");
    }

    #[test]
    fn a_value_out_of_bounds_is_refused_with_its_name_and_its_bounds() {
        let lines = [
            "recovery_threads = 8700",
            "recovery_threads = 0",
            "lanes = 65",
            "deadlock_period_millis = 0",
            "lock_timeout_millis = 9223372036854775807",
            "relaxed_millis = 9223372036854775807",
            "memory = 9223372036854775807",
            "memory = 1024",
            "wait_threshold_percent = 101",
            "[database.a]\nown_pool = 1024",
            "keep_log = 9223372036854775807",
            "[database.a]\nown_pool = 9223372036854775807",
        ];
        for line in lines {
            let error = Settings::parse(line).unwrap().check().unwrap_err().to_string();
            let setting = line.rsplit('\n').next().unwrap();
            let (name, value) = setting.split_once(" = ").unwrap();
            assert!(error.contains(&format!("{name} is {value}, and must be from ")), "{error}");
        }
    }

    #[test]
    fn wrong_settings_are_refused_before_the_directory_is_created() {
        let parent = tempfile::tempdir().unwrap();
        let place = parent.path().join("env");
        let threads = Settings { recovery_threads: Some(8700), ..Settings::default() };
        let odd = Settings { log_segment_first: Some(Bytes(50_000)), ..Settings::default() };
        for (settings, what) in [(threads, "recovery_threads is 8700"), (odd, "log_segment_first is 50000 bytes")] {
            let refused = crate::Env::builder().settings(settings).open(&place).err().unwrap().to_string();
            assert!(refused.contains(what) && refused.contains("nothing was changed"), "{refused}");
            assert!(!place.exists());
        }
    }

    #[test]
    fn a_lock_timeout_of_any_length_is_accepted() {
        let place = tempfile::tempdir().unwrap();
        drop(crate::Env::builder().lock_timeout(std::time::Duration::MAX).open(place.path()).unwrap());
    }
}

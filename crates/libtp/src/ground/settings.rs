//! Settings of an environment. All are optional.
//!
//! A setting of the builder ([`crate::Builder`]) overrides the setting in the file `libtp.toml` of the environment's
//! directory; a setting in the file overrides the default. Sizes are in bytes; the file may write them as `"64MiB"`.
//! The name of a setting that is a time contains the unit.

pub(crate) mod bounds;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use libtp_io::{Directory, OpenMode};
use libtp_lock::Wait;
use rio::Survives;
use serde::Deserialize;

use crate::{Durability, Error, Result};

/// The name of the settings file in an environment's directory.
pub const SETTINGS_NAME: &str = "libtp.toml";
/// The largest settings file. A larger file is refused.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Returns the bytes of the settings file in `directory`, if it exists.
///
/// # Errors
/// `Settings` if the file is larger than 1 MiB; `Io` if it cannot be read.
pub(crate) fn file_bytes(directory: &dyn Directory) -> Result<Option<Vec<u8>>> {
    if !directory.exists(SETTINGS_NAME)? {
        return Ok(None);
    }
    let file = directory.open(SETTINGS_NAME, OpenMode::ReadOnly)?;
    let length = file.len()?;
    let too_large = || {
        Error::Settings {
        what: format!(
            "{} has {length} bytes, and a settings file has at most {FILE_BYTES_MAX}; nothing was changed. Check that it is the right file",
            directory.describe(SETTINGS_NAME)
        ),
    }
    };
    let length = usize::try_from(length).ok().filter(|_| length <= FILE_BYTES_MAX).ok_or_else(too_large)?;
    let mut text = vec![0; length];
    let read = file.read_at(&mut text, 0)?;
    text.truncate(read);
    Ok(Some(text))
}

/// The policy by which the page cache chooses the frame to replace (LIBTP 3.2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Replacement {
    /// Second chance.
    #[default]
    Clock,
    /// Least recently used, as in the paper.
    Lru,
}

/// The choice of the transaction to abort in a deadlock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Victim {
    /// The transaction that began last.
    #[default]
    Youngest,
    /// The transaction with the fewest locks.
    FewestLocks,
    /// The transaction that has logged the fewest bytes.
    FewestLogBytes,
}

/// The unit of locking (LIBTP 3.2.3, 6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Granularity {
    /// Records, and the gaps between them.
    #[default]
    Record,
    /// Leaf pages, held to the end of the transaction, as in the paper.
    Page,
}

/// The settings of one database, by name.
#[derive(Clone, Debug, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "the settings of one database, as in `[database.NAME]`")]
pub struct DatabaseSettings {
    /// The page size in bytes, 4 to 64 KiB, used when this environment creates the database.
    pub page_bytes: Option<Bytes>,
    /// The unit of locking.
    pub granularity: Option<Granularity>,
    /// Whether a full leaf shares its records with a neighbour before it splits: see [`crate::Builder::dense`].
    pub dense: Option<bool>,
    /// The size of the database's own buffer pool.
    pub own_pool: Option<Bytes>,
}

impl DatabaseSettings {
    /// Returns these settings; values that they leave unset come from `under`.
    fn over(self, under: DatabaseSettings) -> DatabaseSettings {
        DatabaseSettings {
            page_bytes: self.page_bytes.or(under.page_bytes),
            granularity: self.granularity.or(under.granularity),
            dense: self.dense.or(under.dense),
            own_pool: self.own_pool.or(under.own_pool),
        }
    }
}

/// The settings of an environment.
#[derive(Clone, Debug, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// The directory of the log's segment files; the environment's directory if unset.
    pub log_directory: Option<PathBuf>,
    /// The memory that the page cache may use; a quarter of the machine's memory if unset.
    pub memory: Option<Bytes>,
    /// When a commit returns, unless the transaction chooses otherwise.
    #[serde(deserialize_with = "durability")]
    pub durability: Option<Durability>,
    /// The replacement policy of the page cache.
    pub replacement: Option<Replacement>,
    /// The longest time until a relaxed commit is on disk (default 100 ms). The smallest value that any process has set
    /// applies to all processes that use the same shared memory.
    pub relaxed_millis: Option<u64>,
    /// The paper's group threshold (default 0: never wait on purpose).
    pub group_threshold: Option<u32>,
    /// The paper's wait threshold, as a percentage of the active transactions.
    pub wait_threshold_percent: Option<u32>,
    /// The paper's logdelay threshold.
    pub log_delay: Option<Bytes>,
    /// The size of the log's first segment, used when this environment is created.
    pub log_segment_first: Option<Bytes>,
    /// The size of the log's largest segment, used when this environment is created.
    pub log_segment_max: Option<Bytes>,
    /// The amount of log after which a checkpoint is taken.
    pub checkpoint_log: Option<Bytes>,
    /// The amount of log that is kept for snapshots (default 4 GiB). Records whose deletion is in that log are kept,
    /// too. The largest value that any process has set applies to all processes.
    pub snapshot_log: Option<Bytes>,
    /// The longest time for which log is kept for one snapshot (default one hour). The largest value that any process
    /// has set applies to all processes.
    pub snapshot_age_millis: Option<u64>,
    /// The amount of log that is always kept, so that backups can be extended (default none). The largest value that
    /// any process has set applies to all processes until the shared memory is created again.
    pub keep_log: Option<Bytes>,
    /// The number of redo threads at a restart; chosen by the log's length and the number of processors if unset.
    pub recovery_threads: Option<u32>,
    /// The longest wait for a lock, and for a stopped process that writes the log; unlimited if unset.
    pub lock_timeout_millis: Option<u64>,
    /// The period of the search for deadlocks, as in the paper; if unset, a long wait starts the search.
    pub deadlock_period_millis: Option<u64>,
    /// The longest wait of a passed-on transaction ([`Txn::detach`](crate::Txn::detach)) of any process for a session
    /// that takes it over. After this time, this process aborts the transaction. Unlimited if unset.
    pub detached_timeout_millis: Option<u64>,
    /// The choice of the victim.
    pub victim: Option<Victim>,
    /// The number of transactions that run at the same time when transactions sleep for each other's locks, 64 at most;
    /// the number of processors if unset.
    pub lanes: Option<u32>,
    /// The directory of the shared memory; `/dev/shm` if unset.
    pub region_directory: Option<PathBuf>,
    /// The operator's promise that the memory in that directory survives more than the library can detect: `system` if
    /// the memory outlives a crash of the operating system, `power` if a battery backs the machine. A value above the
    /// detected value states that the processor's cache survives, too: the library then never writes the cache back,
    /// even where it detected that this is necessary.
    #[serde(deserialize_with = "survives")]
    pub region_survives: Option<Survives>,
    /// Includes the shared memory in core dumps of this process. The dumps are then larger by that memory, and contain
    /// records.
    pub dump_memory: bool,
    /// Runs no library thread in this process: the program calls `Env::background_step`, or another process does the
    /// work. Without either, relaxed commits reach the disk later than the set time, and no process notices that the
    /// file of the shared memory was removed.
    pub no_background: bool,
    /// Turns off locking and logging (LIBTP 5.1.1, NOTP), to measure the cost of protection. The settings file cannot
    /// set this.
    #[cfg(feature = "unprotected")]
    #[serde(skip)]
    pub is_unprotected: bool,
    /// Writes each page once, to its place in the data file, and waits for no sync, to measure the cost of the double
    /// write and the syncs.
    #[cfg(feature = "unprotected")]
    #[serde(skip)]
    pub writes_once: bool,
    /// The settings of single databases, by name.
    pub database: BTreeMap<String, DatabaseSettings>,
}

impl Settings {
    /// Reads the text of a settings file.
    ///
    /// # Errors
    /// `Settings`, with the line and the fault.
    pub fn parse(text: &str) -> Result<Settings> {
        let parse = |text: &str| {
            toml::from_str(text).map_err(|error: toml::de::Error| (error.span(), error.message().to_string()))
        };
        parse(text).map_err(|(place, what)| {
            let line = match place {
                Some(place) => text[..place.start.min(text.len())].matches('\n').count() + 1,
                // An error of too deep nesting has no position: find the first line after which the same error occurs.
                None => {
                    let ends: Vec<usize> = text.match_indices('\n').map(|(at, _)| at + 1).chain([text.len()]).collect();
                    let is_before = |end: &usize| parse(&text[..*end]).err().is_none_or(|(_, other)| other != what);
                    (ends.partition_point(is_before) + 1).min(ends.len())
                }
            };
            let words: String = text.lines().nth(line - 1).unwrap_or_default().trim().chars().take(60).collect();
            // The list of all settings would hide the wrong word.
            let what = what.split(", expected one of").next().unwrap_or_default().trim_end().replace('\n', ", ");
            Error::Settings { what: format!("line {line} (`{words}`): {what}") }
        })
    }

    /// Returns these settings; values that they leave unset come from `under`.
    #[must_use]
    pub fn over(self, under: Settings) -> Settings {
        let mut database = under.database;
        for (name, own) in self.database {
            let below = database.remove(&name).unwrap_or_default();
            database.insert(name, own.over(below));
        }
        Settings {
            log_directory: self.log_directory.or(under.log_directory),
            memory: self.memory.or(under.memory),
            durability: self.durability.or(under.durability),
            replacement: self.replacement.or(under.replacement),
            relaxed_millis: self.relaxed_millis.or(under.relaxed_millis),
            group_threshold: self.group_threshold.or(under.group_threshold),
            wait_threshold_percent: self.wait_threshold_percent.or(under.wait_threshold_percent),
            log_delay: self.log_delay.or(under.log_delay),
            log_segment_first: self.log_segment_first.or(under.log_segment_first),
            log_segment_max: self.log_segment_max.or(under.log_segment_max),
            checkpoint_log: self.checkpoint_log.or(under.checkpoint_log),
            snapshot_log: self.snapshot_log.or(under.snapshot_log),
            snapshot_age_millis: self.snapshot_age_millis.or(under.snapshot_age_millis),
            keep_log: self.keep_log.or(under.keep_log),
            recovery_threads: self.recovery_threads.or(under.recovery_threads),
            lock_timeout_millis: self.lock_timeout_millis.or(under.lock_timeout_millis),
            deadlock_period_millis: self.deadlock_period_millis.or(under.deadlock_period_millis),
            detached_timeout_millis: self.detached_timeout_millis.or(under.detached_timeout_millis),
            victim: self.victim.or(under.victim),
            lanes: self.lanes.or(under.lanes),
            region_directory: self.region_directory.or(under.region_directory),
            region_survives: self.region_survives.or(under.region_survives),
            dump_memory: self.dump_memory || under.dump_memory,
            no_background: self.no_background || under.no_background,
            #[cfg(feature = "unprotected")]
            is_unprotected: self.is_unprotected,
            #[cfg(feature = "unprotected")]
            writes_once: self.writes_once,
            database,
        }
    }

    /// Returns the number of bytes that the page cache may use.
    pub fn memory_bytes(&self) -> u64 {
        self.memory.map_or_else(|| rio::memory_bytes() / 4, |bytes| bytes.0)
    }

    /// Returns the longest wait for a lock.
    pub fn lock_timeout(&self) -> Option<Duration> {
        self.lock_timeout_millis.map(Duration::from_millis)
    }
}

fn durability<'de, D: serde::Deserializer<'de>>(input: D) -> std::result::Result<Option<Durability>, D::Error> {
    match String::deserialize(input)?.as_str() {
        "sync" => Ok(Some(Durability::Sync)),
        "relaxed" => Ok(Some(Durability::Relaxed)),
        "rio" => Ok(Some(Durability::Rio)),
        other => Err(serde::de::Error::custom(format!("`{other}` is not a durability: write sync, relaxed or rio"))),
    }
}

fn survives<'de, D: serde::Deserializer<'de>>(input: D) -> std::result::Result<Option<Survives>, D::Error> {
    match String::deserialize(input)?.as_str() {
        "process" => Ok(Some(Survives::Process)),
        "system" => Ok(Some(Survives::System)),
        "power" => Ok(Some(Survives::Power)),
        other => Err(serde::de::Error::custom(format!(
            "`{other}` is not an event that memory survives: write process, system or power"
        ))),
    }
}

/// A number of bytes: a plain number, or text with a unit (`KiB`, `MiB`, `GiB`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "BytesText")]
pub struct Bytes(pub u64);

impl Bytes {
    /// Returns `count` mebibytes.
    pub const fn mib(count: u64) -> Bytes {
        Bytes(count << 20)
    }

    /// Returns `count` kibibytes.
    pub const fn kib(count: u64) -> Bytes {
        Bytes(count << 10)
    }
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "write a number of bytes, such as 512 or \"64MiB\"")]
enum BytesText {
    Number(u64),
    Text(String),
}

impl TryFrom<BytesText> for Bytes {
    type Error = String;
    fn try_from(text: BytesText) -> std::result::Result<Bytes, String> {
        match text {
            BytesText::Number(bytes) => Ok(Bytes(bytes)),
            BytesText::Text(text) => text.parse(),
        }
    }
}

impl std::str::FromStr for Bytes {
    type Err = String;
    fn from_str(text: &str) -> std::result::Result<Bytes, String> {
        let text = text.trim();
        let digits = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
        let unit = match text[digits..].trim() {
            "" | "B" => 1,
            "KiB" | "K" | "k" => 1 << 10,
            "MiB" | "M" => 1 << 20,
            "GiB" | "G" => 1 << 30,
            other => return Err(format!("`{other}` is not a unit of bytes: write KiB, MiB or GiB")),
        };
        let number: u64 =
            text[..digits].parse().map_err(|_| format!("`{text}` is not a number of bytes, such as 512 or 64 MiB"))?;
        number.checked_mul(unit).map(Bytes).ok_or_else(|| format!("`{text}` is too large a number of bytes"))
    }
}

/// Returns the lock manager's form of a lock timeout.
pub(crate) fn wait_of(timeout: Option<Duration>) -> Wait {
    match timeout {
        Some(Duration::ZERO) => Wait::No,
        Some(longest) => Wait::For(longest),
        None => Wait::Forever,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_settings_file_sets_only_the_settings_that_it_names() {
        let text = "memory = \"64MiB\"\ndurability = \"relaxed\"\n[database.accounts]\ngranularity = \"page\"\n";
        let settings = Settings::parse(text).unwrap();
        assert_eq!(settings.memory, Some(Bytes::mib(64)));
        assert_eq!(settings.durability, Some(Durability::Relaxed));
        assert_eq!(settings.database["accounts"].granularity, Some(Granularity::Page));
        assert_eq!(settings.replacement, None);
    }

    #[test]
    fn an_unknown_word_is_an_error_that_names_the_word() {
        let error = Settings::parse("memry = 3").unwrap_err().to_string();
        assert!(error.contains("memry"), "{error}");
        assert!(Settings::parse("memory = \"3 parsecs\"").unwrap_err().to_string().contains("parsecs"));
    }

    #[test]
    fn an_error_has_the_line_its_words_and_one_short_reason() {
        for (text, expected) in [
            ("# bytes\nkeep_log = -1\n", ["line 2 (`keep_log = -1`): ", "64MiB"]),
            ("[database]\nx = 1\n", ["line 2 (`x = 1`): ", "[database.NAME]"]),
            ("memry = 3\n", ["line 1 (`memry = 3`): ", "unknown field `memry`"]),
        ] {
            let error = Settings::parse(text).unwrap_err().to_string();
            assert!(expected.iter().all(|words| error.contains(words)), "{error}");
            assert!(!error.contains('\n') && !error.contains("expected one of") && error.len() < 160, "{error}");
        }
    }

    #[test]
    fn too_deep_nesting_is_reported_with_its_line() {
        let text = format!("# words\nmemory = \"1 MiB\"\na{} = 0\n# more\n", ".a".repeat(200));
        let error = Settings::parse(&text).unwrap_err().to_string();
        assert!(error.contains("recursion limit") && error.starts_with("line 3 "), "{error}");
    }

    #[test]
    fn a_setting_of_the_builder_overrides_the_setting_of_the_file() {
        let file = Settings { memory: Some(Bytes(1)), relaxed_millis: Some(5), ..Settings::default() };
        let builder = Settings { memory: Some(Bytes(2)), ..Settings::default() };
        let both = builder.over(file);
        assert_eq!((both.memory, both.relaxed_millis), (Some(Bytes(2)), Some(5)));
    }

    #[test]
    fn settings_of_a_database_override_the_file_one_by_one() {
        let file = Settings::parse("[database.a]\ngranularity = \"page\"\ndense = true\n[database.b]\ndense = true\n")
            .unwrap();
        let builder = Settings::parse("[database.a]\npage_bytes = \"8 KiB\"\ndense = false\n").unwrap();
        let both = builder.over(file).database;
        let a = &both["a"];
        assert_eq!((a.page_bytes, a.granularity, a.dense), (Some(Bytes::kib(8)), Some(Granularity::Page), Some(false)));
        assert_eq!(both["b"].dense, Some(true));
    }
}

//! The cost of an operation as a database grows: `tp bench growth`. The figures show the cost by the number of records,
//! by the part of the database that is in the cache, by the length of values, and by the number of processes.
//!
//! | file | contents |
//! |---|---|
//! | `tree`, `space` | a database of a given size, and the check that there is room for it |
//! | `work` | operations in slices of time, and the page cache's work for them |
//! | `bare` | comparable work without a library |
//! | `by_size`, `by_processes` | the figures |
//! | `bends` | the rises of a curve: their reasons, and rises without a reason |
//! | `chapter` | the report |

mod bare;
mod bends;
mod by_processes;
mod by_size;
mod chapter;
mod space;
#[cfg(test)]
mod tests;
mod tree;
mod work;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use crate::paper::{number, wanted, Build, Case, Contender, Machine, News, Order, Point, RunRecord, Series};
use crate::tpcb::Scale;
use by_size::{figure, Bare, Plan};
use chapter::{Chapter, Report};
use space::Space;
use tree::{Size, Tree};

/// The settings of a run: its figures, their sizes, and the directories.
pub struct GrowthSettings<'s> {
    /// The report's directory; the run makes it if it is missing.
    pub out: PathBuf,
    /// An empty directory for the databases, on a disk.
    pub disk: PathBuf,
    /// Whether to measure smaller sizes, for a shorter time.
    pub is_quick: bool,
    /// Sizes of the databases of the figure `growth-records`, in records, each at least 100. If empty: the default
    /// sizes.
    pub records: Vec<u64>,
    /// Beginnings of the names of the figures to measure; empty: all figures.
    pub only: Vec<String>,
    /// The command that the user typed, for the report.
    pub command: String,
    /// The program's source and compiler, for the report.
    pub build: Build,
    /// Returns the command that starts a client process of a contender on a bank.
    pub client: &'s dyn Fn(&Contender, &Path) -> Command,
}

/// The results.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Growth {
    /// Names of the figures that were drawn.
    pub figures: Vec<String>,
    /// Number of compared steps from one size to the next.
    pub steps: usize,
    /// Descriptions of the steps whose rise in cost has no explanation.
    pub cliffs: Vec<String>,
    /// Descriptions of the failed audits. The report has no figures of these databases.
    pub failed_audits: Vec<String>,
}

/// The sizes and durations of a run.
struct Pace {
    records: &'static [u64],
    /// Cache size of the figure by cache, in bytes.
    cache: u64,
    /// Total size of the values in a database of the figure by values, in bytes.
    values_bytes: u64,
    /// Largest number of values in a database of the figure by values. The smallest number is 16.
    values_max: u64,
    scale: Scale,
    processes: &'static [u32],
    /// Time of one sample.
    slice: Duration,
    /// Time of one sample of the figure by processes.
    long_slice: Duration,
    rounds: u32,
}

const QUICK: Pace = Pace {
    records: &[100_000, 1_000_000],
    cache: 16 << 20,
    values_bytes: 32 << 20,
    values_max: 100_000,
    scale: Scale { accounts: 100_000, ..Scale::PAPER },
    processes: &[1, 2, 8],
    slice: Duration::from_millis(80),
    long_slice: Duration::from_millis(250),
    rounds: 3,
};

const FULL: Pace = Pace {
    records: &[100_000, 1_000_000, 10_000_000, 30_000_000],
    cache: 256 << 20,
    values_bytes: 256 << 20,
    values_max: 1_000_000,
    scale: Scale::PAPER,
    processes: &[1, 2, 4, 8, 16, 32, 64],
    slice: Duration::from_millis(500),
    long_slice: Duration::from_millis(1500),
    rounds: 5,
};

const RECORDS_MIN: u64 = 100;
const VALUE_BYTES: usize = 100;
/// Sizes of the databases of the figure by cache, in percent of the cache.
const BY_CACHE: [u64; 4] = [50, 100, 200, 400];
const VALUES: [usize; 6] = [10, 100, 1_000, 10_000, 100_000, 1_000_000];

/// A function that measures one figure and returns its part of the report.
type Part = fn(&mut Study<'_>) -> Result<Chapter>;

const PARTS: [(&str, Part); 4] = [
    ("growth-records", by_records),
    ("growth-cache", by_cache),
    ("growth-values", by_values),
    ("growth-processes", by_processes::measure),
];

/// A run in progress.
struct Study<'g> {
    settings: &'g GrowthSettings<'g>,
    pace: &'static Pace,
    run_record: RunRecord<'g>,
    /// Number of directories made so far.
    made: u32,
}

/// Measures the chosen figures, or all, and writes the report.
///
/// # Errors
/// `Settings` if no figure has a chosen name, or a number of records is too small; `File` if the report cannot be
/// written; otherwise the library's error. It is no error if there is no room for a database: the points of this
/// database have the reason.
pub fn run_growth(settings: &GrowthSettings<'_>, watch: &mut dyn FnMut(News<'_>)) -> Result<Growth> {
    let parts = wanted(&PARTS, &settings.only)?;
    if let Some(few) = settings.records.iter().find(|records| **records < RECORDS_MIN) {
        return Err(Error::Settings(format!("{few} records are too few: give {RECORDS_MIN} or more")));
    }
    let run_record = RunRecord::begin(&settings.out, watch)?;
    let pace = if settings.is_quick { &QUICK } else { &FULL };
    let (machine, begin) = (Machine::look(&settings.disk), Instant::now());
    let mut study = Study { settings, pace, run_record, made: 0 };
    study
        .run_record
        .keep(&serde_json::json!({ "machine": &machine, "build": &settings.build, "command": &settings.command }))?;
    let mut chapters = Vec::new();
    for (nth, (name, part)) in (1..).zip(&parts) {
        study.run_record.tell(News::Figure { id: name, nth, of: parts.len() });
        let chapter = part(&mut study)?;
        for counted in &chapter.counted {
            study
                .run_record
                .keep(&serde_json::json!({ "figure": name, "operation": counted.operation, "seen": &counted.seen }))?;
        }
        chapters.push(chapter);
        // The report is written again after each part, so that an interrupted run leaves its results.
        let (command, seconds) = (settings.command.as_str(), begin.elapsed().as_secs_f64());
        Report { machine: &machine, build: &settings.build, command, seconds, chapters: &chapters }
            .write(&settings.out)?;
    }
    let bends = || chapters.iter().flat_map(|chapter| &chapter.bends);
    Ok(Growth {
        figures: chapters.iter().map(|chapter| chapter.figure.id.clone()).collect(),
        steps: bends().count(),
        cliffs: bends().filter(|bend| bend.is_cliff).map(|bend| bend.text.clone()).collect(),
        failed_audits: study.run_record.failed_audits,
    })
}

fn by_records(study: &mut Study<'_>) -> Result<Chapter> {
    let asked = &study.settings.records;
    let records = if asked.is_empty() { study.pace.records.to_vec() } else { asked.clone() };
    let places =
        records.into_iter().map(|records| (number(records), Size { records, value_bytes: VALUE_BYTES, cache: None }));
    let figure = figure(
        "growth-records",
        "By records",
        "Values have 100 bytes. The cache has its default size, a quarter of the memory. For comparison, the same work \
         without the library: a bare load of a word from as many bytes of memory as the file has (at most 1 GiB); a \
         bare read of a page of the file; and a bare write of a page, twice. These pages are written 64 at a time, \
         first in sequence and then in their places in a file of the same length (at most 256 MiB), with a sync after \
         each of the two writes.",
        "records",
    );
    by_size::measure(study, Plan { figure, places: places.collect(), bare: Bare::Memory })
}

fn by_cache(study: &mut Study<'_>) -> Result<Chapter> {
    let cache = study.pace.cache;
    let places = BY_CACHE.map(|hundredths| {
        let one = Size { records: 1_000, value_bytes: VALUE_BYTES, cache: Some(cache) };
        let records = cache * hundredths / 100 * 1_000 / one.file_bytes();
        (number(hundredths) / 100.0, Size { records, ..one })
    });
    let figure = figure(
        "growth-cache",
        "By the part of the database that the cache holds",
        &format!(
            "Values have 100 bytes. The cache has {}. The databases have from half of this size to four times this \
             size. A page that is not in the cache comes from the system's file cache while memory is free, and \
             otherwise from the disk. For comparison, the bare loads, reads and writes of the figure by records.",
            space::mib(cache)
        ),
        "database by cache",
    );
    by_size::measure(study, Plan { figure, places: places.to_vec(), bare: Bare::Memory })
}

fn by_values(study: &mut Study<'_>) -> Result<Chapter> {
    let places = VALUES.map(|value_bytes| {
        let records = (study.pace.values_bytes / value_bytes as u64).clamp(16, study.pace.values_max);
        (number(value_bytes as u64), Size { records, value_bytes, cache: None })
    });
    let figure = figure(
        "growth-values",
        "By the size of a value",
        &format!(
            "The values of all records together have {} (at most {} records, at least 16). An update changes one byte \
             of the value. A value longer than a quarter of a page is in overflow pages. For comparison, a bare copy \
             of as many bytes, which stay in the processor's cache.",
            space::mib(study.pace.values_bytes),
            crate::paper::spelled(number(study.pace.values_max))
        ),
        "bytes of a value",
    );
    by_size::measure(study, Plan { figure, places: places.to_vec(), bare: Bare::Copy })
}

impl Study<'_> {
    /// Measures the samples of a figure's cases.
    fn in_turns(&mut self, figure: &str, cases: &mut [Case<'_>], order: Order) -> Result<Vec<Series>> {
        self.run_record.in_turns(figure, cases, order, self.pace.rounds)
    }

    /// Discards the points of a database or bank if its audit failed, and notes the failure for the end of the run.
    fn judge<'s>(&mut self, of: &str, verdict: &str, points: impl Iterator<Item = &'s mut Point>) {
        if verdict == "ok" {
            return;
        }
        let why = format!("the audit failed: {verdict}");
        points.for_each(|point| *point = Point::refused(point.x.clone(), &why));
        self.run_record.failed_audits.push(format!("{of}: {why}"));
    }

    /// Returns a new directory's path, for the next database.
    fn directory(&mut self) -> PathBuf {
        self.made += 1;
        self.settings.disk.join(format!("database-{}", self.made))
    }

    /// Returns the reason why there is no room for a database of this size, or `None` if there is room.
    fn refusal(&self, size: &Size) -> Option<String> {
        Space { disk: &self.settings.disk, machine: space::of_machine() }.refusal(size)
    }

    /// Makes a database.
    fn make_tree(&mut self, size: Size) -> Result<Tree> {
        let directory = self.directory();
        let of = crate::paper::spelled(number(size.records));
        Tree::make(&directory, size, &mut |done| {
            self.run_record.doing(&format!("loading {done} of {of} records"));
        })
    }
}

//! The cost of an operation as a database grows: `tp bench growth`. The figures go by the number of records, by the
//! share of them in the cache, by the size of values and by processes.
//!
//! | file | contents |
//! |---|---|
//! | `tree`, `space` | a database of a given size, and the check that there is room for it |
//! | `work` | operations in slices, and the page cache's work for them |
//! | `bare` | the same operations without a library |
//! | `by_size`, `by_processes` | the figures |
//! | `bends` | the reasons why a curve bends, and bends without a reason |
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
use crate::paper::{number, wanted, Build, Case, Contender, Machine, Minutes, News, Order, Point, Series};
use crate::tpcb::Scale;
use by_size::{figure, Bare, Plan};
use chapter::{Chapter, Report};
use space::Space;
use tree::{Size, Tree};

/// The choice of measurements and their places.
pub struct GrowthSettings<'s> {
    /// The report's directory, which is made.
    pub out: PathBuf,
    /// An empty directory for the databases, on a disk.
    pub disk: PathBuf,
    /// Whether to measure smaller sizes, for a shorter time.
    pub is_quick: bool,
    /// Sizes of the figure by records, instead of the default; at least 100 each.
    pub records: Vec<u64>,
    /// Only figures whose names begin with one of these; all if empty.
    pub only: Vec<String>,
    /// The command line.
    pub command: String,
    /// The source that the program was built from.
    pub build: Build,
    /// Starts a client process of a contender on a bank.
    pub client: &'s dyn Fn(&Contender, &Path) -> Command,
}

/// The results.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Growth {
    /// Figures that were drawn.
    pub figures: Vec<String>,
    /// Compared steps from one size to the next.
    pub steps: usize,
    /// Steps that cost more than is explained, each a sentence.
    pub cliffs: Vec<String>,
    /// Failed audits, each a sentence. The report has none of their figures.
    pub failed_audits: Vec<String>,
}

/// The sizes and durations of a run.
struct Pace {
    records: &'static [u64],
    /// Cache size of the figure by cache, in bytes.
    cache: u64,
    /// Total size of the values in a database of the figure by values, in bytes. There are at least 16 and at most
    /// `values_max` values.
    values_bytes: u64,
    values_max: u64,
    scale: Scale,
    processes: &'static [u32],
    slice: Duration,
    /// Slice of the figure by processes.
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
/// Sizes of databases relative to the cache, in hundredths.
const BY_CACHE: [u64; 4] = [50, 100, 200, 400];
const VALUES: [usize; 6] = [10, 100, 1_000, 10_000, 100_000, 1_000_000];

/// A part of the report.
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
    minutes: Minutes<'g>,
    /// Number of directories made so far.
    made: u32,
}

/// Measures everything, or the chosen figures, and writes the report.
///
/// # Errors
/// `Settings` if no figure has a chosen name; `File` if the report cannot be written; the library's error. A database
/// without room is no error: its points report that.
pub fn run_growth(settings: &GrowthSettings<'_>, watch: &mut dyn FnMut(News<'_>)) -> Result<Growth> {
    let parts = wanted(&PARTS, &settings.only)?;
    if let Some(few) = settings.records.iter().find(|records| **records < RECORDS_MIN) {
        return Err(Error::Settings(format!("{few} records are too few to draw from: give {RECORDS_MIN} or more")));
    }
    let minutes = Minutes::begin(&settings.out, watch)?;
    let pace = if settings.is_quick { &QUICK } else { &FULL };
    let (machine, begin) = (Machine::look(&settings.disk), Instant::now());
    let mut study = Study { settings, pace, minutes, made: 0 };
    study
        .minutes
        .keep(&serde_json::json!({ "machine": &machine, "build": &settings.build, "command": &settings.command }))?;
    let mut chapters = Vec::new();
    for (nth, (name, part)) in (1..).zip(&parts) {
        study.minutes.tell(News::Figure { id: name, nth, of: parts.len() });
        let chapter = part(&mut study)?;
        for counted in &chapter.counted {
            study
                .minutes
                .keep(&serde_json::json!({ "figure": name, "operation": counted.operation, "seen": &counted.seen }))?;
        }
        chapters.push(chapter);
        // The report is written anew after each part, so that an interrupted run leaves its results.
        let (command, seconds) = (settings.command.as_str(), begin.elapsed().as_secs_f64());
        Report { machine: &machine, build: &settings.build, command, seconds, chapters: &chapters }
            .write(&settings.out)?;
    }
    let bends = || chapters.iter().flat_map(|chapter| &chapter.bends);
    Ok(Growth {
        figures: chapters.iter().map(|chapter| chapter.figure.id.clone()).collect(),
        steps: bends().count(),
        cliffs: bends().filter(|bend| bend.is_cliff).map(|bend| bend.text.clone()).collect(),
        failed_audits: study.minutes.failed_audits,
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
        "Values have 100 bytes. The cache has its default size, a quarter of the memory. For comparison: a bare load \
         of a word from as many bytes of memory as the file has (at most 1 GiB); a bare read of a page of the file; a \
         bare write of a page, twice, 64 pages at a time with a sync after each of the two writes, into a file of the \
         same length (at most 256 MiB).",
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
             otherwise from the disk. For comparison: the same bare loads, reads and writes as by records.",
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
        "By the bytes of a value",
        &format!(
            "The values of all records together have {} (at most {} records, at least 16). An update changes one byte \
             of the value. A value longer than a quarter of a page is in pages of its own. For comparison: a bare \
             copy of as many bytes, which stay in the processor's cache.",
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
        self.minutes.in_turns(figure, cases, order, self.pace.rounds)
    }

    /// Discards the points of a database or bank whose audit failed, and records the failure for the run's end.
    fn judge<'s>(&mut self, of: &str, verdict: &str, points: impl Iterator<Item = &'s mut Point>) {
        if verdict == "ok" {
            return;
        }
        let why = format!("the audit failed: {verdict}");
        points.for_each(|point| *point = Point::refused(point.x.clone(), &why));
        self.minutes.failed_audits.push(format!("{of}: {why}"));
    }

    /// Returns the directory of the next database.
    fn directory(&mut self) -> PathBuf {
        self.made += 1;
        self.settings.disk.join(format!("database-{}", self.made))
    }

    /// Returns the reason why there is no room for a database of this size, or `None` if there is room.
    fn refusal(&self, size: &Size) -> Option<String> {
        Space { disk: &self.settings.disk, machine: space::of_machine() }.refusal(size)
    }

    /// Makes a database.
    fn plant(&mut self, size: Size) -> Result<Tree> {
        let directory = self.directory();
        let of = crate::paper::spelled(number(size.records));
        Tree::plant(&directory, size, &mut |done| {
            self.minutes.doing(&format!("loading {done} of {of} records"));
        })
    }
}

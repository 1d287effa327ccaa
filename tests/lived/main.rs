//! Long-lived use: a fixed working set is changed at random for a long time, and nothing may grow.
//!
//! A short test shows none of these leaks: freed space that is never reused, resources of sessions that have ended,
//! state that is never deleted. In a long run they show as growing files, growing memory, old log files that stay, and
//! operations that take longer.
//!
//! | file | what |
//! |---|---|
//! | `house` | the environment with a database of each kind (the house), and its audit |
//! | `stock` | the expected contents of the databases |
//! | `worker` | transactions of random changes, some aborted |
//! | `sample` | the sizes of files and memory, a hundred times in a run |
//! | `plot` | a picture of the samples |
//! | `log_room` | appends that use the room that sessions have reserved in the log |
//! | `yardstick` | planted bugs, of which each must be noticed (built with `planted`) |
//!
//! Two threads update, insert and delete at random. At any time about seven of ten keys have a record. Values have 20
//! to 400 bytes, and a few have thousands. The databases are a B-tree, a hash file, a B-tree with an index, a
//! record-number file, a list, and a B-tree of queues, in which messages are added at one end and removed at the other.
//! The page cache is smaller than the files, and checkpoints run. The first tenth of the run is the warm-up. The
//! sizes after the warm-up are compared with the largest sizes during the warm-up. Times are printed and drawn, but not
//! judged.
//!
//! `LIBTP_TEST_OPERATIONS` sets the number of operations, and `LIBTP_TEST_KEYS` the number of keys. `LIBTP_TEST_PLOT`
//! is the path of the picture's file, relative to the root of the source tree.
// Test code outside of test functions: a panic is the report.
#![allow(clippy::unwrap_used)]
#![forbid(unsafe_code)]

mod house;
mod log_room;
mod plot;
mod sample;
mod stock;
mod worker;
#[cfg(feature = "planted")]
mod yardstick;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

use libtp_histogram::Histogram;
use libtp_tests::sizes;

use house::{Extent, House, WORKERS};
use sample::{Pages, Sample};
use worker::{Stretch, Worker};

/// Number of samples in a run.
const SAMPLES: u64 = 100;
/// Number of samples in the warm-up, which is the first tenth of the run.
const WARM: usize = 10;
const TENTHS: usize = 10;
/// The largest allowed size after the warm-up, in percent of the largest size during the warm-up.
const GROWTH_PERCENT: u64 = 110;
/// The largest allowed number of pages of one database at the end of the run, in percent of the number at the end of
/// the warm-up. It is larger than `GROWTH_PERCENT`, because one database may reach its final size later.
const GROWTH_PERCENT_OF_ONE: u64 = 125;
/// The largest allowed number of pages at the end, in percent of the number in the middle of the run.
const GROWTH_PERCENT_LATE: u64 = 108;
/// Growth of the process's own memory that is allowed in addition to the percentage, because this memory grows by
/// pieces, one for each thread.
const PIECE: u64 = 4 << 20;
/// Growth of the process's own memory that is allowed in the second half.
const PIECE_LATE: u64 = 3 << 20;
/// Growth of the memory of the region and of the process that is allowed in addition to the percentage, because the
/// kernel may add some huge pages.
const HUGE_PIECE: u64 = 8 << 20;
/// Growth of the allocated bytes of the region that is allowed in addition to the percentage. When the machine is so
/// busy that log and pages wait to be written, the region allocates more memory once, and keeps it. One of forty small
/// runs needed 4 MiB more, for an unknown reason.
const REGION_PIECE: u64 = 12 << 20;
/// Growth of files that is allowed in addition to the percentage, because files are extended by pieces of up to this
/// size.
const FILE_PIECE: u64 = 4 << 20;
/// Growth in pages that is allowed in addition to the percentage. The number of pages varies by chance. In a small
/// database this variation is more than a few percent.
const PAGES: u64 = 64;
/// Bytes of log that are allowed in addition to the log of three checkpoint intervals: log written while a checkpoint
/// runs, and log files kept for reuse.
const LATE_LOG: u64 = 24 << 20;

/// The samples, page counts and sums of a run.
struct Run {
    samples: Vec<Sample>,
    /// Page counts at the beginning and after each tenth of the run.
    pages: Vec<BTreeMap<String, Pages>>,
    sums: Stretch,
}

fn lived_in(house: &House, extent: Extent, operations: u64) -> Run {
    let seed = sizes::first_seed();
    let start = Instant::now();
    let mut workers: Vec<Worker<'_>> = (0..WORKERS).map(|number| Worker::new(house, extent, number, seed)).collect();
    let nothing = Histogram::new();
    let mut run = Run {
        samples: vec![Sample::take(house, 0, 0.0, &nothing, &nothing)],
        pages: vec![sample::pages(house)],
        sums: Stretch::default(),
    };
    for number in 1..=SAMPLES {
        std::thread::scope(|scope| {
            for worker in &mut workers {
                scope.spawn(|| worker.work(operations / SAMPLES / WORKERS as u64));
            }
        });
        let mut stretch = Stretch::default();
        for worker in &mut workers {
            stretch.add(&std::mem::take(&mut worker.stretch));
        }
        run.samples.push(Sample::take(
            house,
            operations / SAMPLES * number,
            start.elapsed().as_secs_f64(),
            &stretch.operations,
            &stretch.commits,
        ));
        run.sums.add(&stretch);
        if number % (SAMPLES / TENTHS as u64) == 0 {
            run.pages.push(sample::pages(house));
            println!("{}", row(&run));
            let all = run.pages.last().into_iter().flatten();
            let all: Vec<String> = all.map(|(name, pages)| format!("{name} {}+{}", pages.used, pages.free)).collect();
            println!("pages in use and free: {}", all.join(", "));
        }
    }
    run
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

const HEAD: &str = "| operations | a second | data, MiB | pages in use, free | log, MiB | region, MiB | resident, own, MiB | operation p50/p99/max, µs | commit p50/p99/max, µs |\n|---|---|---|---|---|---|---|---|---|";

/// Returns the figures of the last tenth so far, as a row of a table.
fn row(run: &Run) -> String {
    let samples = &run.samples;
    let (Some(last), Some(pages)) = (samples.last(), run.pages.last()) else { return String::new() };
    let before = &samples[samples.len().saturating_sub(1 + WARM)];
    let tenth = &samples[samples.len().saturating_sub(WARM)..];
    let rate = (last.operations - before.operations) as f64 / (last.seconds - before.seconds);
    let median = |of: &dyn Fn(&Sample) -> u64| {
        let mut values: Vec<u64> = tenth.iter().map(of).collect();
        values.sort_unstable();
        values[values.len() / 2] as f64 / 1e3
    };
    let longest = |of: &dyn Fn(&Sample) -> u64| tenth.iter().map(of).max().unwrap_or(0) as f64 / 1e3;
    format!(
        "| {} | {rate:.0} | {:.1} | {}, {} | {:.1} | {:.1} | {:.1}, {:.1} | {:.1} / {:.1} / {:.0} | {:.1} / {:.1} / {:.0} |",
        last.operations,
        mib(last.data()),
        pages.values().map(|pages| pages.used).sum::<u64>(),
        pages.values().map(|pages| pages.free).sum::<u64>(),
        mib(last.log),
        mib(last.region),
        mib(last.resident),
        mib(last.own),
        median(&|sample| sample.operation.p50),
        median(&|sample| sample.operation.p99),
        longest(&|sample| sample.operation.max),
        median(&|sample| sample.commit.p50),
        median(&|sample| sample.commit.p99),
        longest(&|sample| sample.commit.max),
    )
}

/// Reads one size of a sample, in bytes.
type Measure<'m> = &'m dyn Fn(&Sample) -> u64;

/// Returns a complaint for each size that grew too much.
fn grown(run: &Run, extent: Extent) -> Vec<String> {
    let (warm, rest) = run.samples.split_at(WARM + 1);
    let mut complaints = Vec::new();
    let mut judge = |what: &str, piece: u64, of: Measure<'_>| {
        let before = warm.iter().map(of).max().unwrap_or(0);
        let after = rest.iter().map(of).max().unwrap_or(0);
        if after > before * GROWTH_PERCENT / 100 + piece {
            complaints.push(format!("{what} grew from {before} to {after} bytes"));
        }
    };
    judge("all databases together", FILE_PIECE, &|sample| sample.data());
    judge("the other files in the directory", FILE_PIECE, &|sample| sample.beside);
    judge("the region's memory", HUGE_PIECE, &|sample| sample.region);
    judge("the process's memory", HUGE_PIECE, &|sample| sample.resident);
    let memory: [(&str, u64, u64, Measure<'_>); 2] = [
        ("bytes allocated in the region", REGION_PIECE, REGION_PIECE, &|sample| sample.region_used),
        ("the process's own memory", PIECE, PIECE_LATE, &|sample| sample.own),
    ];
    for (what, piece, _, of) in memory {
        judge(what, piece, of);
    }
    for name in run.samples[0].files.keys() {
        judge(name, FILE_PIECE, &|sample| sample.files.get(name).copied().unwrap_or(0));
    }
    let (first_half, second_half) = run.samples.split_at(run.samples.len() / 2);
    for (what, _, piece, of) in memory {
        let most = |samples: &[Sample]| samples.iter().map(of).max().unwrap_or(0);
        let (before, after) = (most(first_half), most(second_half));
        if after > before + piece {
            complaints.push(format!("{what} grew from {before} to {after} bytes in the second half"));
        }
    }
    let most_log = extent.checkpoint_log().0 * 3 + LATE_LOG;
    for sample in &run.samples {
        if sample.log > most_log {
            complaints.push(format!("at {} operations the log had {} bytes", sample.operations, sample.log));
        }
        if sample.locks != 0 {
            complaints.push(format!("at {} operations {} locks were left", sample.operations, sample.locks));
        }
    }
    complaints.extend(grown_pages(&run.pages));
    complaints
}

/// Returns a complaint for each database whose number of pages (used and free) grew too much, and one if the sum of all
/// databases grew too much. `tenths` has the page counts after each tenth of the run.
///
/// Leaves and buckets that were once split are not merged, and their fill varies by chance. So every tenth of the run
/// adds some pages, but fewer than the tenth before. If pages were never reused, every tenth would add as many as the
/// tenth before.
fn grown_pages(tenths: &[BTreeMap<String, Pages>]) -> Vec<String> {
    let count = |tenth: &BTreeMap<String, Pages>, name: &str| tenth.get(name).map_or(0, |pages| pages.all());
    let names = tenths[0].keys().map(String::as_str);
    let mut rows: Vec<(&str, u64, Vec<u64>)> = names
        .map(|name| (name, GROWTH_PERCENT_OF_ONE, tenths.iter().map(|tenth| count(tenth, name)).collect()))
        .collect();
    let all = tenths.iter().map(|tenth| tenth.values().map(|pages| pages.all()).sum()).collect();
    rows.push(("all databases together", GROWTH_PERCENT, all));
    let mut complaints = Vec::new();
    for (name, of_all, pages) in rows {
        let last = pages[TENTHS];
        for (tenth, percent) in [(1, of_all), (TENTHS / 2, GROWTH_PERCENT_LATE)] {
            if last > pages[tenth] * percent / 100 + PAGES {
                complaints.push(format!("{name} grew from {} pages after {tenth} tenths to {last}", pages[tenth]));
            }
        }
    }
    complaints
}

/// Returns the picture's path: by default in the directory of the logs of the suites.
fn picture() -> PathBuf {
    match sizes::chosen::<PathBuf>("LIBTP_TEST_PLOT") {
        Some(path) => Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path),
        None => Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("xtask").join("lived.svg"),
    }
}

/// Returns the directory of the files: in memory if possible, so that times measure the library and not a disk.
fn place() -> PathBuf {
    let memory = PathBuf::from("/dev/shm");
    let chosen = sizes::chosen::<PathBuf>("LIBTP_TEST_DIRECTORY");
    chosen.or_else(|| memory.is_dir().then_some(memory)).unwrap_or_else(std::env::temp_dir)
}

/// Fills a house, runs the workers on it, and audits it. Returns the samples and the number of audited records.
fn lived(operations: u64, extent: Extent) -> (Run, u64) {
    let directory = tempfile::tempdir_in(place()).unwrap();
    let house = House::new(&directory.path().join("house"), extent);
    house.furnish(extent, sizes::first_seed());
    println!("{HEAD}");
    let run = lived_in(&house, extent, operations);
    let audited = house.audit();
    (run, audited)
}

#[test]
fn a_fixed_working_set_does_not_grow_in_a_long_run() {
    let operations = sizes::number("LIBTP_TEST_OPERATIONS", 300_000);
    let extent = Extent { keys: usize::try_from(sizes::number("LIBTP_TEST_KEYS", 1_000)).unwrap() };
    let (run, audited) = lived(operations, extent);
    let path = picture();
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let title = format!("{operations} changes of a fixed working set of {} keys", extent.keys);
    std::fs::write(&path, plot::drawn(&title, &run.samples)).unwrap();
    println!("drawn: {}", path.display());
    println!("{}", figures(&run, extent, audited));
    let grown = grown(&run, extent);
    assert!(grown.is_empty(), "{}", grown.join("; "));
}

/// Returns the run's figures as one line.
fn figures(run: &Run, extent: Extent, audited: u64) -> String {
    let (warm, end) = (&run.samples[WARM], &run.samples[WARM * TENTHS]);
    let all = |tenth: usize| run.pages[tenth].values().map(|pages| pages.all()).sum::<u64>();
    let latency = |sample: &Sample| {
        format!("{:.1}/{:.1} µs", sample.operation.p50 as f64 / 1e3, sample.operation.p99 as f64 / 1e3)
    };
    format!(
        "figures: {} changes of {} keys in {:.0} s, {} transactions aborted, {} victims of deadlocks, {} checkpoints; \
         after a tenth and at the end: {} and {} pages, files {:.1} and {:.1} MiB, log {:.1} and {:.1}, \
         region {:.1} and {:.1}, resident {:.1} and {:.1}, operations p50/p99 {} and {}; {audited} records as they must be",
        end.operations,
        extent.keys,
        end.seconds,
        run.sums.aborted,
        run.sums.victims,
        end.checkpoints,
        all(1),
        all(TENTHS),
        mib(warm.data()),
        mib(end.data()),
        mib(warm.log),
        mib(end.log),
        mib(warm.region),
        mib(end.region),
        mib(warm.resident),
        mib(end.resident),
        latency(warm),
        latency(end),
    )
}

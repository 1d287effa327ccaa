//! Measures the papers' figures on this machine, and compares libtp with the peers: `tp bench paper`.
//!
//! | file | contents |
//! |---|---|
//! | `figure` | figures, series, points and goals, as data |
//! | `rounds`, `run_record` | alternating measurements of cases, and the record of a run |
//! | `bank`, `beside` | a contender's bank, measured in slices of time; further values of the same slices |
//! | `single_user`, `multi_user`, `group_commit` | LIBTP figures 6 to 9, and section 4.2 |
//! | `interfaces`, `synchronisation`, `oo1` | LIBTP figures 4 and 5; tables 2 and 3 |
//! | `insertion_order` | LIBTP 5.2.2: the influence of the insertion order on a tree's size |
//! | `beside_peers` | TPC-B, reads, and durable commits, compared with every peer |
//! | `rows` | plain records, compared with every peer: load, insert, get, scan, bytes |
//! | `recovery` | reading the log after the death of all processes, compared with every peer that has a log |
//! | `recoverable` | Rio Vista figures 5 and 6, and section 5.3's factors |
//! | `machine`, `build`, `draw`, `tables`, `write` | the machine and the program; pictures; tables; the report |

mod bank;
mod beside;
mod beside_peers;
mod build;
mod draw;
mod figure;
mod group_commit;
mod insertion_order;
mod interfaces;
mod machine;
mod multi_user;
mod oo1;
mod recoverable;
mod recovery;
mod rounds;
mod rows;
mod run_record;
mod single_user;
mod synchronisation;
mod tables;
mod write;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

pub(crate) use bank::{number, Slice};
pub use bank::{Bank, Contender, StartClient};
pub use build::Build;
pub(crate) use figure::spelled;
pub use figure::{Axis, Figure, Goal, Place, Point, Series};
pub use machine::{CpuTime, Machine};
pub(crate) use rounds::{Case, Order, Sample};
pub(crate) use run_record::{wanted, RunRecord};
pub use synchronisation::KERNEL_LATCHES;
pub(crate) use tables::{line_of_run, table, write_files, By};
pub use write::Report as PaperReport;

use crate::engine::Durability;
use crate::error::Result;
use crate::kinds::PMEMOBJ;
use crate::memory::StartMemory;
use crate::tpcb::Scale;

/// The settings of a run: its figures, contenders and directories.
pub struct PaperSettings<'s> {
    /// The report's directory; the run makes it if it is missing.
    pub out: PathBuf,
    /// An empty directory for the databases, on a disk.
    pub disk: PathBuf,
    /// A directory in memory.
    pub memory: PathBuf,
    /// Whether to measure fewer points, for a shorter time.
    pub is_quick: bool,
    /// Whether to measure as little as possible, for tests. The figures of such a run mean nothing.
    pub is_tiny: bool,
    /// The names of the peers to measure.
    pub peers: Vec<String>,
    /// Beginnings of the names of the figures to measure; empty: all figures.
    pub only: Vec<String>,
    /// The command that the user typed, for the report.
    pub command: String,
    /// The program's source and compiler, for the report.
    pub build: Build,
    /// Returns the command that starts a client process of a contender on a bank.
    pub client: StartClient<'s>,
    /// Returns the command that starts a client process whose latches can be made to call the kernel; `None` if there
    /// is no build with such latches.
    pub kernel_client: Option<StartClient<'s>>,
    /// Returns the command that starts a process for a job of the benchmarks of recoverable memory
    /// ([`serve_memory`](crate::memory::serve_memory)). The job is given as JSON.
    pub memory_client: StartMemory<'s>,
    /// Returns the command that starts a shell on an environment.
    pub shell: &'s dyn Fn(&Path) -> Command,
}

/// The results of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct PaperOutcome {
    /// The goals, with the reached ratios.
    pub goals: Vec<Goal>,
    /// Descriptions of the failed audits. The report has no figures of these banks.
    pub failed_audits: Vec<String>,
}

/// A report of progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum News<'n> {
    /// A figure begins.
    Figure {
        /// The figure's name.
        id: &'n str,
        /// The figure's number, from 1.
        nth: usize,
        /// The number of all figures.
        of: usize,
    },
    /// The current work.
    Doing(&'n str),
}

/// The sizes and durations of a run.
struct Pace {
    scale: Scale,
    /// Time of a sample whose transactions do not wait for the disk.
    slice: Duration,
    /// Time of the warm-up before a sample.
    warmup: Duration,
    /// Time of a sample whose transactions wait for the disk, or whose clients are processes.
    long_slice: Duration,
    rounds: u32,
    threads: &'static [u32],
    contended: &'static [u32],
    processes: &'static [u32],
    durable_clients: &'static [u32],
    memory_time: Duration,
    /// Number of measured runs of a warm sample of OO1. One more run before them warms up.
    warm_runs: u32,
    /// Number of traversals in each direction that warm up a reopened database of OO1.
    warming: u32,
    /// Number of records of a database whose size is measured.
    inserted: u32,
    /// Number of plain records that are loaded and inserted.
    rows: u32,
    /// Number of gets of plain records.
    gets: usize,
    /// Number of transactions in a log that recovery reads.
    recovered: u64,
    /// The scale of the bank that is recovered.
    recovered_scale: Scale,
}

const QUICK: Pace = Pace {
    scale: Scale { accounts: 100_000, ..Scale::PAPER },
    slice: Duration::from_millis(120),
    warmup: Duration::from_millis(60),
    long_slice: Duration::from_millis(180),
    rounds: 2,
    threads: &[1, 2],
    contended: &[1, 8],
    processes: &[1, 2, 8],
    durable_clients: &[1, 16],
    memory_time: Duration::from_millis(45),
    warm_runs: 10,
    warming: 40,
    inserted: 20_000,
    rows: 100_000,
    gets: 100_000,
    recovered: 20_000,
    recovered_scale: Scale::SMALL,
};

const FULL: Pace = Pace {
    scale: Scale::PAPER,
    slice: Duration::from_millis(1000),
    warmup: Duration::from_millis(300),
    long_slice: Duration::from_millis(1100),
    rounds: 5,
    threads: &[1, 2, 4],
    contended: &[1, 2, 8],
    processes: &[1, 2, 4, 8, 16, 32, 64],
    durable_clients: &[1, 4, 16, 64],
    memory_time: Duration::from_millis(700),
    warm_runs: 20,
    warming: 200,
    inserted: 300_000,
    rows: 1_000_000,
    gets: 500_000,
    recovered: 50_000,
    recovered_scale: Scale { accounts: 100_000, ..Scale::PAPER },
};

const TINY: Pace = Pace {
    scale: Scale::SMALL,
    slice: Duration::from_millis(10),
    warmup: Duration::from_millis(10),
    long_slice: Duration::from_millis(10),
    rounds: 1,
    contended: &[8],
    processes: &[1, 2],
    warm_runs: 4,
    warming: 8,
    inserted: 2000,
    rows: 2000,
    gets: 1000,
    recovered: 100,
    ..QUICK
};

/// A run in progress.
struct Paper<'p> {
    settings: &'p PaperSettings<'p>,
    pace: &'static Pace,
    run_record: RunRecord<'p>,
    figures: Vec<Figure>,
    goals: Vec<Goal>,
    /// Descriptions of the parts that could not be measured.
    notes: Vec<String>,
    /// Number of banks made so far. Each has its own directory.
    banks: u32,
}

/// A function that measures a part of the report. The names of the part's figures begin with the part's name.
type Part = fn(&mut Paper<'_>) -> Result<()>;

const PARTS: [(&str, Part); 16] = [
    ("libtp-4", interfaces::figure_4),
    ("libtp-5", synchronisation::figure_5),
    ("libtp-6", single_user::figure_6),
    ("libtp-7", multi_user::figure_7),
    ("libtp-8", multi_user::figure_8),
    ("libtp-9", multi_user::figure_9),
    ("libtp-deadlocks", multi_user::deadlocks),
    ("libtp-4.2", group_commit::thresholds),
    ("libtp-oo1", oo1::tables),
    ("libtp-order", insertion_order::sizes),
    ("vista-5", recoverable::figure_5),
    ("vista-6", recoverable::figure_6),
    ("peers-memory", beside_peers::without_sync),
    ("peers-disk", beside_peers::durable),
    ("peers-rows", rows::steps),
    ("peers-recovery", recovery::after_a_death),
];

/// Returns the name of the part that a figure belongs to.
fn part_of(figure: &str) -> Option<&'static str> {
    let parts = PARTS.iter().map(|(name, _)| *name).filter(|name| figure.starts_with(name));
    parts.max_by_key(|name| name.len())
}

/// Measures the chosen figures, or all. Writes the report again after each part, so that an interrupted run leaves its
/// results.
///
/// # Errors
/// `Settings` if no figure has a chosen name; `File` if the report cannot be written. A part that cannot be measured is
/// no error: the report has the reason.
pub fn run_paper(settings: &PaperSettings<'_>, watch: &mut dyn FnMut(News<'_>)) -> Result<PaperOutcome> {
    let parts = wanted(&PARTS, &settings.only)?;
    let run_record = RunRecord::begin(&settings.out, watch)?;
    let (machine, cpu, begin) = (Machine::look(&settings.disk), CpuTime::look(), Instant::now());
    let mut paper = Paper::new(settings, run_record);
    // PostgreSQL and libpmemobj take part only in some figures, and only if they are available.
    let server = single_user::has_postgres(settings).then_some(single_user::POSTGRES);
    let memory = recoverable::has_pmemobj(settings).then_some(PMEMOBJ);
    let names = std::iter::once("libtp").chain(settings.peers.iter().map(String::as_str)).chain(server).chain(memory);
    let peers: Vec<_> = names.map(|name| (name.to_owned(), crate::catalogue::about(name))).collect();
    let peers_by_name: BTreeMap<_, _> = peers.iter().cloned().collect();
    paper.run_record.keep(&serde_json::json!({
        "machine": &machine, "build": &settings.build, "peers": peers_by_name, "command": &settings.command,
    }))?;
    for (nth, (name, part)) in (1..).zip(&parts) {
        paper.run_record.tell(News::Figure { id: name, nth, of: parts.len() });
        let begun = Instant::now();
        if let Err(why) = part(&mut paper) {
            paper.notes.push(format!("{name}: not measured: {why}"));
        }
        let report = PaperReport {
            machine: &machine,
            build: &settings.build,
            command: &settings.command,
            peers: &peers,
            figures: &paper.figures,
            goals: &paper.goals,
            seconds: begin.elapsed().as_secs_f64(),
            stolen_percent: cpu.and_then(CpuTime::stolen_percent_since),
            notes: &paper.notes(),
        };
        report.write(&settings.out)?;
        paper.run_record.keep(&serde_json::json!({ "part": name, "seconds": begun.elapsed().as_secs_f64() }))?;
    }
    let (seconds, stolen_percent) = (begin.elapsed().as_secs_f64(), cpu.and_then(CpuTime::stolen_percent_since));
    let notes = paper.notes();
    paper
        .run_record
        .keep(&serde_json::json!({ "seconds": seconds, "stolen_percent": stolen_percent, "notes": notes }))?;
    Ok(PaperOutcome { goals: paper.goals, failed_audits: paper.run_record.failed_audits })
}

impl<'p> Paper<'p> {
    fn new(settings: &'p PaperSettings<'p>, run_record: RunRecord<'p>) -> Paper<'p> {
        let pace = match (settings.is_tiny, settings.is_quick) {
            (true, _) => &TINY,
            (false, true) => &QUICK,
            (false, false) => &FULL,
        };
        Paper { settings, pace, run_record, figures: Vec::new(), goals: Vec::new(), notes: Vec::new(), banks: 0 }
    }
}

impl Paper<'_> {
    /// Measures the samples of a figure's cases.
    fn measure(&mut self, figure: &str, cases: &mut [Case<'_>], rounds: u32) -> Result<Vec<Series>> {
        self.run_record.in_turns(figure, cases, Order::BackAndForth, rounds)
    }

    /// Returns the notes for the report's beginning: failed audits, and parts that could not be measured.
    fn notes(&self) -> Vec<String> {
        let failed = self.run_record.failed_audits.iter().map(|what| format!("**{what}**"));
        failed.chain(self.notes.iter().cloned()).collect()
    }

    /// Makes a bank in a new directory on the disk.
    fn bank(&mut self, contender: &Contender, scale: Scale) -> Result<Bank> {
        self.banks += 1;
        let directory = self.settings.disk.join(format!("bank-{}-{}", self.banks, contender.engine));
        let run_record = &mut self.run_record;
        Bank::open(contender, &directory, scale, &mut |loaded| {
            run_record.doing(&format!("loading {}: {loaded} records", contender.engine));
        })
    }

    /// Makes the banks of several contenders. For a contender whose bank cannot be made, returns a series that has only
    /// the reason.
    fn banks(&mut self, contenders: &[(String, Contender)], scale: Scale) -> (Vec<(String, Bank)>, Vec<Series>) {
        let (mut banks, mut refused) = (Vec::new(), Vec::new());
        for (name, contender) in contenders {
            match self.bank(contender, scale) {
                Ok(bank) => banks.push((name.clone(), bank)),
                Err(why) => refused.push(Series::refused(name, [Place::Number(1.0)], &why.to_string())),
            }
        }
        (banks, refused)
    }

    /// Audits, closes and removes banks. If an audit fails, discards the points of the series that has the bank's name.
    fn settle(&mut self, banks: Vec<(String, Bank)>, series: &mut [Series]) {
        self.settle_by(banks, series, &|bank, series, _| bank == series);
    }

    /// Audits, closes and removes banks. If an audit fails, discards the points that were measured on the bank. `is_of`
    /// gets a bank's name, and the series and the place of a point, and decides whether the point is of this bank.
    fn settle_by(
        &mut self,
        banks: Vec<(String, Bank)>,
        series: &mut [Series],
        is_of: &dyn Fn(&str, &str, &Place) -> bool,
    ) {
        for (name, bank) in banks {
            self.run_record.doing(&format!("auditing {name}"));
            let (contender, verdict) = (bank.contender().clone(), bank.audit().unwrap_or_else(|why| why.to_string()));
            let removed = bank.remove();
            let verdict = removed.map_or_else(|why| why.to_string(), |()| verdict);
            let line = serde_json::json!({ "audited": name, "contender": contender, "verdict": verdict });
            if let Err(why) = self.run_record.keep(&line) {
                self.notes.push(why.to_string());
            }
            if verdict == "ok" {
                continue;
            }
            let why = format!("the audit failed: {verdict}");
            for Series { name: series, points } in &mut *series {
                for point in points.iter_mut().filter(|point| is_of(&name, series, &point.x)) {
                    *point = Point::refused(point.x.clone(), &why);
                }
            }
            self.run_record.failed_audits.push(format!("{name}: {why}"));
        }
    }

    /// Returns a slice with this run's times: TPC-B by threads.
    fn slice(&self, clients: u32) -> Slice<'static> {
        Slice { clients, process: None, time: self.pace.slice, warmup: self.pace.warmup, is_read_only: false }
    }

    /// Returns libtp and every chosen peer, with this durability.
    fn everybody(&self, durability: Durability) -> Vec<(String, Contender)> {
        let names = std::iter::once("libtp").chain(self.settings.peers.iter().map(String::as_str));
        names.map(|name| (name.to_owned(), Contender::of(name, durability))).collect()
    }

    /// Adds a goal: libtp's value at a place, as a multiple of the value of the best other series at this place. The
    /// series in `without` are left out.
    fn goal_beside_best(&mut self, what: &str, figure: &Figure, x: f64, without: &[&str], wanted: f64) {
        let place = Place::Number(x);
        let best = figure.best_but(&[&["libtp"], without].concat(), &place);
        let beside = best.map_or("no peer", |(name, _)| name);
        self.goal(what, figure, beside, wanted, ("libtp", &place), (beside, &place));
    }

    /// Adds a goal: the point `of` as a multiple of the point `by`, each given by its series and place.
    fn goal(&mut self, what: &str, figure: &Figure, beside: &str, wanted: f64, of: (&str, &Place), by: (&str, &Place)) {
        self.goals.push(Goal::new(what, figure, beside, wanted, &figure.ratios(of, by)));
    }
}

#[cfg(test)]
mod tests;

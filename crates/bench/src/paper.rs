//! The papers' figures, measured on this machine, and the peers beside us: `tp bench paper`.
//!
//! | file | what |
//! |---|---|
//! | `figure` | figures, series, points and goals, as data |
//! | `rounds`, `minutes` | cases in turns, and what is taken down of them |
//! | `bank`, `syncs` | a contender's bank, worked on in slices; syncs for a commit, of the same slices |
//! | `single_user`, `multi_user`, `group_commit` | LIBTP figures 6 to 9, and section 4.2 |
//! | `interfaces`, `synchronisation`, `oo1` | LIBTP figures 4 and 5; tables 2 and 3 |
//! | `insertion_order` | LIBTP 5.2.2: what a tree's size owes to the order in which it was filled |
//! | `beside_peers` | TPC-B, what is read, and what is on a disk, beside every peer |
//! | `recovery` | the log that is read when all processes have died, beside every peer that keeps one |
//! | `recoverable` | Rio Vista figures 5 and 6, and section 5.3's factors |
//! | `machine`, `build`, `draw`, `write` | what it was measured on, and with; pictures; the report |

mod bank;
mod beside_peers;
mod build;
mod draw;
mod figure;
mod group_commit;
mod insertion_order;
mod interfaces;
mod machine;
mod minutes;
mod multi_user;
mod oo1;
mod recoverable;
mod recovery;
mod rounds;
mod single_user;
mod synchronisation;
mod syncs;
mod write;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

pub(crate) use bank::{number, Slice};
pub use bank::{Bank, Contender, StartClient};
pub use build::Build;
pub(crate) use draw::svg;
pub(crate) use figure::spelled;
pub use figure::{Axis, Figure, Goal, Place, Point, Series};
pub use machine::{CpuTime, Machine};
pub(crate) use minutes::{wanted, Minutes};
pub(crate) use rounds::{Case, Order, Sample};
pub use synchronisation::KERNEL_LATCHES;
pub use write::Report as PaperReport;

use crate::catalogue::PMEMOBJ;
use crate::engine::Durability;
use crate::error::Result;
use crate::tpcb::Scale;

/// What is measured, and where.
pub struct PaperSettings<'s> {
    /// Where the report goes; it is made.
    pub out: PathBuf,
    /// An empty directory for the databases, on a disk.
    pub disk: PathBuf,
    /// A directory in memory.
    pub memory: PathBuf,
    /// Fewer points, shorter.
    pub is_quick: bool,
    /// Next to nothing is measured, and nothing is to be learned from it: for tests.
    pub is_tiny: bool,
    /// The peers, by name, those that are to be had.
    pub peers: Vec<String>,
    /// Figures whose names begin so; all if there is none.
    pub only: Vec<String>,
    /// What was typed.
    pub command: String,
    /// What the program was made from.
    pub build: Build,
    /// Starts a client process of a contender on a bank.
    pub client: StartClient<'s>,
    /// The same in a build whose latches can be made to call the kernel; none if there is no such build.
    pub kernel_client: Option<StartClient<'s>>,
    /// Starts a process that does a job of the benchmarks of recoverable memory ([`serve_memory`](crate::memory::serve_memory)), spelled as JSON.
    pub memory_client: StartMemory<'s>,
    /// Starts a shell in an environment.
    pub shell: &'s dyn Fn(&Path) -> Command,
}

/// Starts a process with a job.
pub type StartMemory<'s> = &'s dyn Fn(&str) -> Command;

/// What came of it.
#[derive(Clone, Debug, PartialEq)]
pub struct PaperOutcome {
    /// The goals.
    pub goals: Vec<Goal>,
    /// Whose audit failed, and how: a sentence each. None of their figures is in the report.
    pub failed_audits: Vec<String>,
}

/// What is told while it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum News<'n> {
    /// The n-th of so many figures begins.
    Figure {
        /// Its name.
        id: &'n str,
        /// From 1 on.
        nth: usize,
        /// How many there are.
        of: usize,
    },
    /// What is done at the moment.
    Doing(&'n str),
}

/// How long and how much.
struct Pace {
    scale: Scale,
    /// Of work that waits for nothing.
    slice: Duration,
    /// Before each slice.
    warmup: Duration,
    /// Of work that waits for the disk, or by processes.
    long_slice: Duration,
    rounds: u32,
    threads: &'static [u32],
    contended: &'static [u32],
    processes: &'static [u32],
    durable_clients: &'static [u32],
    memory_time: Duration,
    /// Runs of a sample of OO1 that is warm; one more goes before.
    warm_runs: u32,
    /// Traversals, each way, that warm a database of OO1 up which was opened again.
    warming: u32,
    /// Records of a database whose size is looked at.
    inserted: u32,
    /// A log is read again that has so many transactions, on so many accounts.
    recovered: u64,
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
    recovered: 100,
    ..QUICK
};

/// A run on its way.
struct Paper<'p> {
    settings: &'p PaperSettings<'p>,
    pace: &'static Pace,
    minutes: Minutes<'p>,
    figures: Vec<Figure>,
    goals: Vec<Goal>,
    /// Parts that could not be measured.
    notes: Vec<String>,
    /// Banks that were made so far, of which each has a directory of its own.
    banks: u32,
}

/// A part of the report: the names of its figures begin with its own.
type Part = fn(&mut Paper<'_>) -> Result<()>;

const PARTS: [(&str, Part); 14] = [
    ("libtp-4", interfaces::figure_4),
    ("libtp-5", synchronisation::figure_5),
    ("libtp-6", single_user::figure_6),
    ("libtp-7", multi_user::figure_7),
    ("libtp-8", multi_user::figure_8),
    ("libtp-9", multi_user::figure_9),
    ("libtp-4.2", group_commit::thresholds),
    ("libtp-oo1", oo1::tables),
    ("libtp-order", insertion_order::sizes),
    ("vista-5", recoverable::figure_5),
    ("vista-6", recoverable::figure_6),
    ("peers-memory", beside_peers::without_sync),
    ("peers-disk", beside_peers::durable),
    ("peers-recovery", recovery::after_a_death),
];

/// The part that a figure is of.
fn part_of(figure: &str) -> Option<&'static str> {
    let parts = PARTS.iter().map(|(name, _)| *name).filter(|name| figure.starts_with(name));
    parts.max_by_key(|name| name.len())
}

/// Measures everything, or what was asked for, and writes the report, after each part anew: a run that is broken off leaves what it has
/// measured.
///
/// # Errors
/// `Settings` if nothing has the names asked for; `File` if the report cannot be written. What could not be measured is no error, but a
/// row that says so.
pub fn run_paper(settings: &PaperSettings<'_>, watch: &mut dyn FnMut(News<'_>)) -> Result<PaperOutcome> {
    let parts = wanted(&PARTS, &settings.only)?;
    let minutes = Minutes::begin(&settings.out, watch)?;
    let (machine, cpu, begin) = (Machine::look(&settings.disk), CpuTime::look(), Instant::now());
    let mut paper = Paper::new(settings, minutes);
    // Peers in some figures only, and where they are installed.
    let server = single_user::has_postgres(settings).then_some(single_user::POSTGRES);
    let memory = recoverable::has_pmemobj(settings).then_some(PMEMOBJ);
    let names = std::iter::once("libtp").chain(settings.peers.iter().map(String::as_str)).chain(server).chain(memory);
    let peers: Vec<_> = names.map(|name| (name.to_owned(), crate::catalogue::about(name))).collect();
    let peers_by_name: BTreeMap<_, _> = peers.iter().cloned().collect();
    paper.minutes.keep(&serde_json::json!({
        "machine": &machine, "build": &settings.build, "peers": peers_by_name, "command": &settings.command,
    }))?;
    for (nth, (name, part)) in (1..).zip(&parts) {
        paper.minutes.tell(News::Figure { id: name, nth, of: parts.len() });
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
        paper.minutes.keep(&serde_json::json!({ "part": name, "seconds": begun.elapsed().as_secs_f64() }))?;
    }
    let (seconds, stolen_percent) = (begin.elapsed().as_secs_f64(), cpu.and_then(CpuTime::stolen_percent_since));
    let notes = paper.notes();
    paper.minutes.keep(&serde_json::json!({ "seconds": seconds, "stolen_percent": stolen_percent, "notes": notes }))?;
    Ok(PaperOutcome { goals: paper.goals, failed_audits: paper.minutes.failed_audits })
}

impl<'p> Paper<'p> {
    fn new(settings: &'p PaperSettings<'p>, minutes: Minutes<'p>) -> Paper<'p> {
        let pace = match (settings.is_tiny, settings.is_quick) {
            (true, _) => &TINY,
            (false, true) => &QUICK,
            (false, false) => &FULL,
        };
        Paper { settings, pace, minutes, figures: Vec::new(), goals: Vec::new(), notes: Vec::new(), banks: 0 }
    }
}

impl Paper<'_> {
    /// Takes the samples of a figure's cases.
    fn measure(&mut self, figure: &str, cases: &mut [Case<'_>], rounds: u32) -> Result<Vec<Series>> {
        self.minutes.in_turns(figure, cases, Order::BackAndForth, rounds)
    }

    /// What the report begins with: what does not add up, and what could not be measured.
    fn notes(&self) -> Vec<String> {
        let failed = self.minutes.failed_audits.iter().map(|what| format!("**{what}**"));
        failed.chain(self.notes.iter().cloned()).collect()
    }

    /// Makes a bank in a directory of its own on the disk.
    fn bank(&mut self, contender: &Contender, scale: Scale) -> Result<Bank> {
        self.banks += 1;
        let directory = self.settings.disk.join(format!("bank-{}-{}", self.banks, contender.engine));
        let minutes = &mut self.minutes;
        Bank::open(contender, &directory, scale, &mut |loaded| {
            minutes.doing(&format!("loading {}: {loaded} records", contender.engine));
        })
    }

    /// Makes the banks of several contenders. Who cannot be had is a series without points, which says why.
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

    /// Audits, closes and removes banks; where one does not add up, the series of its name counts for nothing.
    fn settle(&mut self, banks: Vec<(String, Bank)>, series: &mut [Series]) {
        self.settle_by(banks, series, &|bank, series, _| bank == series);
    }

    /// The same where `is_of` says whether a point, by its series and place, was measured on the bank of a name.
    fn settle_by(
        &mut self,
        banks: Vec<(String, Bank)>,
        series: &mut [Series],
        is_of: &dyn Fn(&str, &str, &Place) -> bool,
    ) {
        for (name, bank) in banks {
            self.minutes.doing(&format!("auditing {name}"));
            let (contender, verdict) = (bank.contender().clone(), bank.audit().unwrap_or_else(|why| why.to_string()));
            let removed = bank.remove();
            let verdict = removed.map_or_else(|why| why.to_string(), |()| verdict);
            let line = serde_json::json!({ "audited": name, "contender": contender, "verdict": verdict });
            if let Err(why) = self.minutes.keep(&line) {
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
            self.minutes.failed_audits.push(format!("{name}: {why}"));
        }
    }

    /// A slice of this run's length.
    fn slice(&self, clients: u32) -> Slice<'static> {
        Slice { clients, process: None, time: self.pace.slice, warmup: self.pace.warmup, is_read_only: false }
    }

    /// libtp and every peer that was asked for, at a durability.
    fn everybody(&self, durability: Durability) -> Vec<(String, Contender)> {
        let names = std::iter::once("libtp").chain(self.settings.peers.iter().map(String::as_str));
        names.map(|name| (name.to_owned(), Contender::of(name, durability))).collect()
    }

    /// Adds a goal: what libtp reached at a place, as a multiple of the other with the best median there.
    fn goal_beside_best(&mut self, what: &str, figure: &Figure, x: f64, without: &[&str], wanted: f64) {
        let place = Place::Number(x);
        let best = figure.best_but(&[&["libtp"], without].concat(), &place);
        let beside = best.map_or("no peer", |(name, _)| name);
        self.goal(what, figure, beside, wanted, ("libtp", &place), (beside, &place));
    }

    /// Adds a goal: how many times as much one point has as another, each given by series and place.
    fn goal(&mut self, what: &str, figure: &Figure, beside: &str, wanted: f64, of: (&str, &Place), by: (&str, &Place)) {
        self.goals.push(Goal::new(what, figure, beside, wanted, &figure.ratios(of, by)));
    }
}

#[cfg(test)]
mod tests;

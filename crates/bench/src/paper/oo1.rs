//! Parts and connections (OO1): LIBTP 5.2, tables 2 and 3, without the measurements over a network.

use std::cell::{Cell, RefCell};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::catalogue::parts as peers;
use crate::cold::forget_files;
use crate::error::{Error, Result};
use crate::oo1::{ours, Client, Graph, OpenParts, Parts, Seen, VisitedPart, Way, INSERTED, LOOKED_UP, TRAVERSED};
use crate::random::Random;

use super::figure::{Axis, Figure, Goal, Place, Series};
use super::rounds::{Case, Sample};
use super::{Pace, Paper};

const SMALL: u32 = 20_000;
const LARGE: u32 = 200_000;
/// Smallest number of rounds: with two rounds the median would be the mean, which a single slow round distorts.
const ROUNDS_MIN: u32 = 3;
/// A traversal is measured only if it visits at least `TRAVERSED / FEW` parts. A backward traversal from a part with
/// few connections into it may visit fewer parts. Most of its time would be the time to begin.
const FEW: u64 = 10;

/// The operation of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    Lookup,
    Traversal(Way),
    Insert,
}

impl Operation {
    const ALL: [Operation; 4] =
        [Operation::Lookup, Operation::Traversal(Way::Forward), Operation::Traversal(Way::Backward), Operation::Insert];

    fn name(self) -> &'static str {
        match self {
            Operation::Lookup => "lookup",
            Operation::Traversal(Way::Forward) => "traversal",
            Operation::Traversal(Way::Backward) => "backward",
            Operation::Insert => "insert",
        }
    }
}

/// Measures a small database and a large database. The smallest run measures only the small database.
pub(super) fn tables(paper: &mut Paper<'_>) -> Result<()> {
    let sizes: &[u32] = if paper.settings.is_tiny { &[SMALL] } else { &[SMALL, LARGE] };
    let mut contenders = ours().to_vec();
    contenders.extend(peers().into_iter().filter(|(name, _)| paper.settings.peers.iter().any(|peer| peer == name)));
    sizes.iter().try_for_each(|parts| table(paper, *parts, &contenders))
}

/// Measures all contenders with a number of parts. A contender whose database cannot be made has a row with the reason.
pub(super) fn table(paper: &mut Paper<'_>, parts: u32, contenders: &[(&'static str, OpenParts)]) -> Result<()> {
    let rounds = match paper.settings.is_quick && parts == LARGE {
        // The load takes longer than all measurements of a round.
        true => 1,
        false => paper.pace.rounds.max(ROUNDS_MIN),
    };
    let graph = Graph::make(parts, rounds * (paper.pace.warm_runs + 2));
    let (mut databases, mut refused) = (Vec::new(), Vec::new());
    for (name, open) in contenders.iter().copied() {
        let directory = paper.settings.disk.join(format!("oo1-{parts}-{}", name.replace(' ', "-")));
        paper.run_record.doing(&format!("{name}: loading {parts} parts"));
        match Database::load(name, open, &directory, &graph, parts, paper.pace) {
            Ok(database) => databases.push(database),
            Err(why) => {
                // The incomplete database would only occupy the disk.
                let _ = std::fs::remove_dir_all(&directory);
                refused.push((name.to_owned(), why.to_string()));
            }
        }
    }
    let mut cases = Vec::new();
    // Warm operations are measured first. After a cold operation the database would have to be warmed up again.
    for is_warm in [true, false] {
        for operation in Operation::ALL {
            for database in &databases {
                let place = Place::Name(place_of(operation, is_warm));
                cases.push(Case::new(database.name, place, move || database.sample(operation, is_warm)));
            }
        }
    }
    let id = format!("libtp-oo1-{parts}");
    let mut series = paper.measure(&id, &mut cases, rounds)?;
    drop(cases);
    let place = || Place::Name(place_of(Operation::Lookup, true));
    series.extend(refused.into_iter().map(|(name, why)| Series::refused(&name, [place()], &why)));
    let figure = described(id, parts, paper.pace.warm_runs, series);
    for way in [Way::Forward, Way::Backward] {
        let place = Place::Name(place_of(Operation::Traversal(way), true));
        paper.goals.push(beside_fastest(&figure, "libtp links", &place, parts));
        paper.goals.push(beside_fastest(&figure, "libtp", &place, parts));
    }
    paper.figures.push(figure);
    databases.into_iter().try_for_each(Database::remove)
}

fn place_of(operation: Operation, is_warm: bool) -> String {
    format!("{}, {}", operation.name(), if is_warm { "warm" } else { "cold" })
}

/// Returns a goal: the speed of a libtp contender as a multiple of the speed of the fastest peer. `libtp` has the same
/// indices as the peers. `libtp links` has links, which the peers do not offer.
fn beside_fastest(figure: &Figure, shape: &str, place: &Place, parts: u32) -> Goal {
    let others = figure.series.iter().filter(|series| !series.name.starts_with("libtp"));
    let took = others.filter_map(|series| Some((series.name.as_str(), figure.median(&series.name, place)?)));
    let fastest = took.min_by(|(_, one), (_, other)| one.total_cmp(other));
    let fastest = fastest.map_or("no peer", |(name, _)| name);
    let what = format!("OO1, {place}, {} parts, {shape}", super::figure::spelled(f64::from(parts)));
    Goal::new(&what, figure, fastest, 1.0, &figure.ratios((fastest, place), (shape, place)))
}

fn described(id: String, parts: u32, warm_runs: u32, series: Vec<Series>) -> Figure {
    Figure {
        id,
        title: format!("OO1: {} parts, by contender and operation", super::figure::spelled(f64::from(parts))),
        paper: "LIBTP 5.2, tables 2 and 3 (with 20,000 parts): each part has three connections, and nine in ten connections lead to the nearest hundredth of the \
                parts. Lookup: 1,000 parts by id. Traversal: all parts up to seven connections away, depth first, 3,280 parts. Backward: a traversal against the \
                direction of the connections. Insert: 100 parts and their connections. Table 2, cold, in seconds for lookup, traversal and insert: LIBTP on an HP300 \
                27.2, 47.3, 9.7; on a Sun 3/280, as others measured, INDEX 5.4, 13, 7.4, an object-oriented database 12.9, 9.8, 1.5, and a relational database 27, \
                90, 22. Table 3, LIBTP on a DECstation, local, in seconds, cold and warm: lookup 15.7, 7.8; traversal 28.4, 23.5; backward 24.2, 24.3; insert 7.5, \
                6.7."
            .into(),
        here: format!("Milliseconds of a run. `libtp` and the peers have the same three indices: the parts by id, the connections by the part that they leave, and the connections by the part that they lead to. SQLite does a \
               traversal by one recursive statement. `libtp hash` has the parts and lists of connections in hash files. `libtp links` has the parts as records by number; a part has the numbers of the connected parts, so a traversal \
               does not search. Reads are in a snapshot if the engine has snapshots (fjall reads the newest state, Berkeley DB reads under locks). An insert is acknowledged when it is on the disk. The number of parts of a backward \
               traversal varies: the value is the time of all runs per 3,280 visited parts, and each root leads to at least 328 parts. Cold: the database is closed, the system drops its files from the file cache \
               (POSIX_FADV_DONTNEED), the database is opened again, and the first run is measured; the opening is not included. An engine that writes inserted data to a log first (SQLite, fjall, RocksDB, Berkeley DB) writes the \
               data into its tables before it is closed, because the opening would read the log into memory. The cache of the disk itself cannot be emptied. Warm: the mean of {warm_runs} runs, each with other parts, after every \
               part of the database was read. Every database was loaded sorted, in the way that the engine offers (LMDB's append, the ingestion of fjall and RocksDB, Berkeley DB's bulk transactions, an index of SQLite made at the \
               end, libtp's load). The parts that each run visited were compared with the expected parts."),
        x: Axis::linear("operation"),
        y: Axis::logarithmic("milliseconds"),
        series,
        notes: Vec::new(),
    }
}

/// A contender's database between runs.
struct Database<'g> {
    name: &'static str,
    pace: &'static Pace,
    open: OpenParts,
    directory: PathBuf,
    graph: &'g Graph,
    parts: RefCell<Option<Box<dyn Parts>>>,
    /// The greatest id of an existing part.
    last: Cell<u32>,
    random: RefCell<Random>,
    /// Whether the database was warmed up since it was opened.
    is_warm: Cell<bool>,
}

impl<'g> Database<'g> {
    /// Makes and loads the database. All contenders have the same random numbers, so their runs have the same parts.
    fn load(
        name: &'static str,
        open: OpenParts,
        directory: &Path,
        graph: &'g Graph,
        last: u32,
        pace: &'static Pace,
    ) -> Result<Database<'g>> {
        std::fs::create_dir_all(directory).map_err(Error::file("make", directory))?;
        let parts = open(directory)?;
        parts.client()?.load(graph, 1..last + 1)?;
        let (parts, random) = (RefCell::new(Some(parts)), RefCell::new(Random(0x9e37_79b9_7f4a_7c15)));
        let (directory, last, is_warm) = (directory.to_path_buf(), Cell::new(last), Cell::new(false));
        Ok(Database { name, pace, open, directory, graph, parts, last, random, is_warm })
    }

    /// Closes and removes the database.
    fn remove(self) -> Result<()> {
        drop(self.parts);
        std::fs::remove_dir_all(&self.directory).map_err(Error::file("remove", &self.directory))
    }

    /// Measures a sample: the milliseconds of a run.
    fn sample(&self, operation: Operation, is_warm: bool) -> Result<Sample> {
        let mut open = self.parts.borrow_mut();
        if !is_warm {
            if let Some(parts) = open.take() {
                parts.settle()?;
            }
            forget_files(&self.directory)?;
            self.is_warm.set(false);
        }
        let parts = match &mut *open {
            Some(parts) => parts,
            none => none.insert((self.open)(&self.directory)?),
        };
        let client = parts.client()?;
        if !is_warm {
            return self.timed(&*client, operation, 1);
        }
        if !self.is_warm.replace(true) {
            self.warm_up(&*client)?;
        }
        self.timed(&*client, operation, 1)?;
        self.timed(&*client, operation, self.pace.warm_runs)
    }

    /// Warms up: looks up every part, and makes traversals in both directions, as many as the pace says.
    fn warm_up(&self, client: &dyn Client) -> Result<()> {
        client.lookup(&(1..=self.last.get()).collect::<Vec<u32>>(), &mut |_| {})?;
        (0..self.pace.warming).try_for_each(|_| {
            client.traverse(self.drawn(), Way::Forward, &mut |_| {})?;
            client.traverse(self.drawn(), Way::Backward, &mut |_| {})
        })
    }

    /// Measures `runs` runs as one sample. If a run visits wrong parts, the sample's audit fails.
    fn timed(&self, client: &dyn Client, operation: Operation, runs: u32) -> Result<Sample> {
        let (mut took, mut met, mut audit) = (Vec::new(), Vec::new(), "ok".to_owned());
        for _ in 0..runs {
            let (time, seen, expected) = self.run(client, operation)?;
            if seen != expected {
                audit = format!("it visited {seen:?} instead of {expected:?}");
            }
            took.push(time.as_secs_f64() * 1e3);
            met.push(seen.count);
        }
        let value = match operation {
            Operation::Traversal(_) => of_whole_traversals(&took, &met),
            Operation::Lookup | Operation::Insert => took.iter().sum::<f64>() / f64::from(runs),
        };
        let raw = serde_json::json!({ "milliseconds": &took, "parts": met });
        Ok(Sample { value, audit, raw })
    }

    /// Makes one run. Returns its duration, the visited parts, and the expected parts.
    fn run(&self, client: &dyn Client, operation: Operation) -> Result<(Duration, Seen, Seen)> {
        let (graph, last) = (self.graph, self.last.get());
        let mut seen = Seen::default();
        let mut see = |part: VisitedPart| seen.see(part);
        match operation {
            Operation::Lookup => {
                let ids: Vec<u32> = (0..LOOKED_UP).map(|_| self.drawn()).collect();
                let begin = Instant::now();
                client.lookup(&ids, &mut see)?;
                Ok((begin.elapsed(), seen, graph.looked_up(&ids)))
            }
            Operation::Traversal(way) => {
                let (root, expected) = self.drawn_root(way)?;
                let begin = Instant::now();
                client.traverse(root, way, &mut see)?;
                Ok((begin.elapsed(), seen, expected))
            }
            Operation::Insert => {
                let new = last + 1..last + 1 + INSERTED;
                let begin = Instant::now();
                client.insert(graph, new.clone())?;
                let took = begin.elapsed();
                self.last.set(last + INSERTED);
                let ids: Vec<u32> = new.collect();
                client.lookup(&ids, &mut see)?;
                Ok((took, seen, graph.looked_up(&ids)))
            }
        }
    }

    /// Draws a part whose traversal visits enough parts. Returns the part, and the expected result of its traversal.
    fn drawn_root(&self, way: Way) -> Result<(u32, Seen)> {
        for _ in 0..self.last.get() {
            let root = self.drawn();
            let seen = self.graph.traversed(root, way, self.last.get());
            if seen.count * FEW >= TRAVERSED {
                return Ok((root, seen));
            }
        }
        Err(Error::Settings(format!(
            "none of {} drawn parts has a traversal that visits enough parts",
            self.last.get()
        )))
    }

    /// Draws an existing part.
    fn drawn(&self) -> u32 {
        1 + self.random.borrow_mut().below(self.last.get())
    }
}

/// Returns the duration per [`TRAVERSED`] parts, given the duration and the number of visited parts of each traversal.
fn of_whole_traversals(took: &[f64], met: &[u64]) -> f64 {
    // Every visited part has the same weight. With the same weight for every traversal, the time to begin would
    // dominate short traversals.
    took.iter().sum::<f64>() * TRAVERSED as f64 / met.iter().sum::<u64>().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::super::figure::Point;
    use super::super::TINY;
    use super::*;

    #[test]
    fn the_weight_of_a_traversal_is_the_number_of_parts_that_it_visited() {
        let (took, met) = ([2.0, 1.0], [TRAVERSED, TRAVERSED / 10]);
        assert!((of_whole_traversals(&took, &met) - 3.0 / 1.1).abs() < 1e-6);
        assert!((of_whole_traversals(&[2.0], &[TRAVERSED]) - 2.0).abs() < 1e-12);
    }

    #[test]
    fn the_goal_s_ratio_is_the_speed_as_a_multiple_of_the_speed_of_the_fastest_peer() {
        let place = Place::Name(place_of(Operation::Traversal(Way::Forward), true));
        let series = |name: &str, took: f64| Series {
            name: name.to_owned(),
            points: vec![Point { x: place.clone(), samples: vec![took], refused: None }],
        };
        let all = vec![series("libtp", 4.0), series("libtp links", 1.0), series("slow", 9.0), series("fast", 2.0)];
        let figure = described("libtp-oo1-20000".into(), SMALL, 20, all);
        let goal = |shape| beside_fastest(&figure, shape, &place, SMALL);
        assert_eq!((goal("libtp").reached, goal("libtp links").reached), (Some(0.5), Some(2.0)));
        assert_eq!(goal("libtp").beside, "fast");
    }

    #[test]
    fn samples_that_visit_the_expected_parts_pass_the_audit_and_other_samples_fail() -> Result<()> {
        let runs = TINY.warm_runs + 2;
        let graph = Graph::make(500, 4 * runs);
        let (_, open) = ours()[0];
        let dir = tempfile::tempdir().map_err(Error::file("make", Path::new("a directory")))?;
        let database = Database::load("libtp", open, &dir.path().join("parts"), &graph, 500, &TINY)?;
        for _ in 0..2 {
            for operation in Operation::ALL {
                for is_warm in [true, false] {
                    let sample = database.sample(operation, is_warm)?;
                    assert_eq!(sample.audit, "ok", "{operation:?}");
                    assert!(sample.value > 0.0);
                }
            }
        }
        assert_eq!(database.last.get(), 500 + 2 * runs * INSERTED);
        // From here on the audit expects fewer parts than the database has.
        database.last.set(500);
        let mut last = String::new();
        for _ in 0..20 {
            last = database.sample(Operation::Traversal(Way::Backward), true)?.audit;
            if last.contains("it visited") {
                return database.remove();
            }
        }
        panic!("twenty samples passed the audit, although it expects too few parts; the last verdict: {last}");
    }
}

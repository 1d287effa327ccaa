//! Plain records, compared with the peers: loaded in order, inserted at random, read at random and in order; and the
//! bytes of the files.
//!
//! In each round every engine does all steps, one engine after the other, each in a directory that no other engine
//! uses.

use std::cell::RefCell;
use std::path::PathBuf;
use std::time::Instant;

use serde_json::json;

use super::figure::{Axis, Figure, Place, Point, Series};
use super::rounds::{Case, Order, Sample};
use super::Paper;
use crate::catalogue::rows;
use crate::error::{Error, Result};
use crate::rows::{bytes_in, shuffled, sorted, Contender, Open, Pair, Rows};

const ID: &str = "peers-rows";
/// Number of scans in a sample. The sample is the fastest scan.
const SCANS: u32 = 3;

/// A step that every engine does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Loads sorted records into an empty database.
    Load,
    /// Reads random records of the loaded database.
    Get,
    /// Reads all records of the loaded database in order.
    ScanLoaded,
    /// Inserts records in random order into an empty database, a thousand in each transaction.
    Insert,
    /// Reads all inserted records in order.
    ScanInserted,
}

impl Step {
    const ALL: [Step; 5] = [Step::Load, Step::Get, Step::ScanLoaded, Step::Insert, Step::ScanInserted];

    fn name(self) -> &'static str {
        match self {
            Step::Load => "load sorted",
            Step::Get => "get random",
            Step::ScanLoaded => "scan, loaded",
            Step::Insert => "insert random",
            Step::ScanInserted => "scan, inserted",
        }
    }
}

/// The records of all engines, in order and shuffled, and the number of gets.
struct Records {
    in_order: Vec<Pair>,
    at_random: Vec<Pair>,
    gets: usize,
}

/// Measures the steps of libtp and of every chosen peer.
pub(super) fn steps(paper: &mut Paper<'_>) -> Result<()> {
    let in_order = sorted(paper.pace.rows);
    let records = Records { at_random: shuffled(in_order.clone()), in_order, gets: paper.pace.gets };
    let peers = &paper.settings.peers;
    let is_wanted = |one: &Contender| one.peer.is_none_or(|peer| peers.iter().any(|name| name == peer.name()));
    let turns: Vec<Turn<'_>> = rows().into_iter().filter(is_wanted).map(|one| Turn::of(one, paper, &records)).collect();
    let mut cases = Vec::new();
    for turn in &turns {
        for step in Step::ALL {
            cases.push(Case::new(turn.name, Place::Name(step.name().to_owned()), move || turn.sample(step)));
        }
    }
    // The cases run in the given order, because a step needs the database of the step before it.
    let series = paper.run_record.in_turns(ID, &mut cases, Order::AsGiven, paper.pace.rounds.min(3))?;
    drop(cases);
    let of_bytes = turns.iter().map(|turn| Series { name: turn.name.to_owned(), points: turn.bytes.borrow().clone() });
    let bytes = figure("peers-rows-bytes", "The bytes of the files of plain records", "bytes", of_bytes.collect());
    paper.figures.extend([figure(ID, "Plain records", "records per second", series), bytes]);
    Ok(())
}

fn figure(id: &str, title: &str, y: &str, series: Vec<Series>) -> Figure {
    Figure {
        id: id.to_owned(),
        title: title.to_owned(),
        paper: "Not in the papers.".to_owned(),
        here: "Records have 100 bytes, of which the key has 16. Sorted records are loaded in the fastest way that an engine offers. Records in random order are \
               inserted, a thousand in each transaction. The time of both steps ends when everything is on the disk. Gets and scans are in a read-only \
               transaction, and the value of a scan is the fastest of three. The bytes of a log are not included. `dense` is libtp with the setting `dense`: a \
               full page moves records to a neighbour before it is split."
            .to_owned(),
        x: Axis::linear("step"),
        y: Axis::logarithmic(y),
        series,
        notes: Vec::new(),
    }
}

/// An engine with its database, while it does the steps.
struct Turn<'r> {
    name: &'static str,
    open: Open,
    directory: PathBuf,
    records: &'r Records,
    rows: RefCell<Option<Box<dyn Rows>>>,
    bytes: RefCell<Vec<Point>>,
}

impl<'r> Turn<'r> {
    fn of(contender: Contender, paper: &Paper<'_>, records: &'r Records) -> Turn<'r> {
        let Contender { name, open, .. } = contender;
        let directory = paper.settings.disk.join(format!("rows-{name}"));
        Turn { name, open, directory, records, rows: RefCell::default(), bytes: RefCell::default() }
    }

    /// Does a step. Returns its records per second.
    fn sample(&self, step: Step) -> Result<Sample> {
        let Records { in_order, at_random, gets } = self.records;
        let (count, seconds) = match step {
            Step::Load => (in_order.len(), self.fill(step, &|rows| rows.load_sorted(in_order))?),
            Step::Insert => (at_random.len(), self.fill(step, &|rows| rows.insert(at_random))?),
            Step::Get => {
                let keys = || at_random.iter().map(|(key, _)| key).cycle().take(*gets);
                let get = || self.read(|rows| rows.get(&mut keys()), gets * at_random[0].1.len());
                // A run before the measurement warms the caches.
                get()?;
                (*gets, get()?)
            }
            Step::ScanLoaded | Step::ScanInserted => {
                let scan = |_| self.read(|rows| rows.scan(), size_of_val(&in_order[..]));
                let scans = (0..SCANS).map(scan).collect::<Result<Vec<f64>>>()?;
                self.remove()?;
                (in_order.len(), scans.into_iter().fold(f64::INFINITY, f64::min))
            }
        };
        let raw = json!({ "records": count, "seconds": seconds });
        Ok(Sample { value: count as f64 / seconds, audit: "ok".to_owned(), raw })
    }

    /// Fills a new database and waits until everything is on the disk. Returns the seconds that this took.
    fn fill(&self, step: Step, work: &dyn Fn(&dyn Rows) -> Result<()>) -> Result<f64> {
        // An earlier step may have failed and left its database.
        self.remove()?;
        std::fs::create_dir_all(&self.directory).map_err(Error::file("make", &self.directory))?;
        let rows = (self.open)(&self.directory)?;
        let begin = Instant::now();
        work(rows.as_ref())?;
        rows.settle()?;
        let seconds = begin.elapsed().as_secs_f64();
        let (bytes, x) = (bytes_in(&self.directory)?, Place::Name(step.name().to_owned()));
        let mut points = self.bytes.borrow_mut();
        let value = super::number(bytes);
        match points.iter_mut().find(|point| point.x == x) {
            Some(point) => point.samples.push(value),
            None => points.push(Point { x, samples: vec![value], refused: None }),
        }
        self.rows.replace(Some(rows));
        Ok(seconds)
    }

    /// Reads from the open database. Returns the seconds that this took.
    fn read(&self, work: impl FnOnce(&dyn Rows) -> Result<u64>, expected: usize) -> Result<f64> {
        let rows = self.rows.borrow();
        let rows = rows.as_ref().ok_or_else(|| Error::Settings("the database could not be filled".to_owned()))?;
        let begin = Instant::now();
        let read = work(rows.as_ref())?;
        let seconds = begin.elapsed().as_secs_f64();
        match usize::try_from(read) {
            Ok(read) if read == expected => Ok(seconds),
            _ => Err(Error::Settings(format!(
                "an engine returned {read} bytes, and {expected} were stored, so its figures are not valid"
            ))),
        }
    }

    /// Closes and removes the database, if there is one.
    fn remove(&self) -> Result<()> {
        self.rows.replace(None);
        match self.directory.exists() {
            true => std::fs::remove_dir_all(&self.directory).map_err(Error::file("remove", &self.directory)),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_engine_that_returns_wrong_values_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let in_order = sorted(100);
        let records = Records { at_random: shuffled(in_order.clone()), in_order, gets: 50 };
        let (name, directory) = ("libtp", dir.path().join("rows"));
        let open = rows()[0].open;
        let (rows, bytes) = (RefCell::default(), RefCell::default());
        let turn = Turn { name, open, directory, records: &records, rows, bytes };
        assert!(turn.sample(Step::Get).unwrap_err().to_string().contains("could not be filled"));
        for step in Step::ALL {
            assert!(turn.sample(step).unwrap().value > 0.0, "{step:?}");
        }
        assert_eq!(turn.bytes.borrow().len(), 2);
        turn.sample(Step::Load).unwrap();
        let why = turn.read(|_| Ok(7), 8).unwrap_err().to_string();
        assert!(why.contains("7 bytes, and 8 were stored"), "{why}");
        turn.remove().unwrap();
        assert!(std::fs::read_dir(dir.path()).unwrap().next().is_none());
    }
}

//! Figures over databases of several sizes: by the number of records, by the part of the database that is in the cache,
//! and by the length of values. All databases of a figure are open at the same time, and their rounds alternate.

use std::cell::RefCell;
use std::time::Duration;

use super::bare::{self, Homes, Memory};
use super::bends::{bend, Bend, Seen};
use super::chapter::{Chapter, Counted};
use super::tree::{Size, Tree};
use super::work::{slice, Counts, Operation};
use super::Study;
use crate::error::{Error, Result};
use crate::paper::{spelled, Axis, Case, Figure, Order, Place, Point, Series};

const BARE_LOAD: &str = "a bare load";
const BARE_READ: &str = "a bare read of a page";
const BARE_WRITE: &str = "a bare write of a page, twice";
const BARE_COPY: &str = "a bare copy of the value";

/// The plan of a figure.
pub(super) struct Plan {
    /// The figure, without its series and notes.
    pub figure: Figure,
    /// The places along the axis, and the database of each.
    pub places: Vec<(f64, Size)>,
    /// The bare work to compare with.
    pub bare: Bare,
}

/// Work that uses no library; its times are compared with libtp's.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Bare {
    /// Loads from memory of the same size, and reads and writes of pages.
    Memory,
    /// Copies of values.
    Copy,
}

/// Returns a figure without series.
pub(super) fn figure(id: &str, title: &str, here: &str, x: &str) -> Figure {
    Figure {
        id: id.to_owned(),
        title: title.to_owned(),
        paper: String::new(),
        here: here.to_owned(),
        x: Axis::logarithmic(x),
        y: Axis::logarithmic("ns per operation"),
        series: Vec::new(),
        notes: Vec::new(),
    }
}

/// The page cache's work for each operation at each place: sums over rounds, and the number of rounds.
type Tallies = Vec<(f64, Operation, Counts, u32)>;

/// Makes the databases, measures, audits, and describes the steps of the curves.
pub(super) fn measure(study: &mut Study<'_>, plan: Plan) -> Result<Chapter> {
    let mut figure = plan.figure;
    let (trees, refused) = make_trees(study, &plan.places)?;
    let tallies = RefCell::new(Tallies::new());
    let most = match plan.bare {
        Bare::Memory => trees.iter().filter_map(|(_, tree)| tree.bytes().ok()).max().unwrap_or(0),
        Bare::Copy => 0,
    };
    let (memory, scratch) = (Memory::of(most), study.directory());
    let homes = Homes::make(&scratch, most)?;
    let mut cases = bare_cases(&trees, &memory, &homes, plan.bare, study.pace.slice / 4);
    for operation in Operation::ALL {
        for (x, tree) in &trees {
            let (tallies, time) = (&tallies, study.pace.slice);
            cases.push(Case::new(operation.name(), Place::Number(*x), move || {
                let (sample, counts) = slice(tree, operation, time)?;
                add(&mut tallies.borrow_mut(), *x, operation, &counts);
                Ok(sample)
            }));
        }
    }
    // The cases run in the given order, because the deletions delete the records that the insertions put.
    figure.series = study.in_turns(&figure.id, &mut cases, Order::AsGiven)?;
    drop(cases);
    audit(study, &trees, &mut figure)?;
    if !refused.is_empty() {
        let all = Operation::ALL.iter().map(|operation| operation.name());
        all.for_each(|name| add_refused(&mut figure.series, name, &refused));
    }
    study.run_record.doing("closing and removing the databases");
    let grown: Result<Vec<Grown>> = trees.into_iter().map(|(x, tree)| close_and_remove(x, tree)).collect();
    let seen = seen(&figure, &grown?, &tallies.into_inner());
    std::fs::remove_dir_all(&scratch).map_err(Error::file("remove", &scratch))?;
    let bends = bends(&seen, &|x| spelled(x));
    let counted = seen.into_iter().map(|(operation, size, bytes, seen)| Counted {
        operation: operation.name(),
        size,
        bytes,
        seen,
    });
    Ok(Chapter { figure, counted: counted.collect(), bends })
}

type Trees = Vec<(f64, Tree)>;
type Refused = Vec<(f64, String)>;

/// Makes the databases for which there is room. Returns these databases, and for each other database the reason why it
/// was not made.
fn make_trees(study: &mut Study<'_>, places: &[(f64, Size)]) -> Result<(Trees, Refused)> {
    let (mut trees, mut refused) = (Vec::new(), Vec::new());
    for (x, size) in places {
        match study.refusal(size) {
            Some(why) => refused.push((*x, why)),
            None => trees.push((*x, study.make_tree(*size)?)),
        }
    }
    Ok((trees, refused))
}

fn bare_cases<'c>(
    trees: &'c [(f64, Tree)],
    memory: &'c Memory,
    homes: &'c Homes,
    bare: Bare,
    time: Duration,
) -> Vec<Case<'c>> {
    let mut cases = Vec::new();
    for (x, tree) in trees {
        let x = Place::Number(*x);
        if bare == Bare::Copy {
            cases.push(Case::new(BARE_COPY, x, move || bare::copy(tree.size.value_bytes, time)));
            continue;
        }
        cases.push(Case::new(BARE_LOAD, x.clone(), move || memory.load(tree.bytes()?, time)));
        cases.push(Case::new(BARE_READ, x.clone(), move || bare::page_read(&tree.file()?, time)));
        cases.push(Case::new(BARE_WRITE, x, move || homes.write(tree.bytes()?, time)));
    }
    cases
}

fn add(tallies: &mut Tallies, x: f64, operation: Operation, counts: &Counts) {
    match tallies.iter_mut().find(|tally| tally.0 == x && tally.1 == operation) {
        Some((.., sum, rounds)) => {
            *sum = sum.plus(counts);
            *rounds += 1;
        }
        None => tallies.push((x, operation, *counts, 1)),
    }
}

/// Audits the databases, and discards the points of a database whose audit fails.
fn audit(study: &mut Study<'_>, trees: &[(f64, Tree)], figure: &mut Figure) -> Result<()> {
    for (x, tree) in trees {
        let of = format!("{}, {}", figure.id, spelled(*x));
        study.run_record.doing(&format!("auditing {of}"));
        let points = figure.series.iter_mut().flat_map(|series| &mut series.points);
        study.judge(&of, &tree.audit()?, points.filter(|point| point.x == Place::Number(*x)));
    }
    Ok(())
}

fn add_refused(series: &mut Vec<Series>, name: &str, refused: &[(f64, String)]) {
    let points =
        refused.iter().map(|(x, why)| Point { x: Place::Number(*x), samples: Vec::new(), refused: Some(why.clone()) });
    match series.iter_mut().find(|series| series.name == name) {
        Some(series) => series.points.extend(points),
        None => series.push(Series { name: name.to_owned(), points: points.collect() }),
    }
}

type SeenOf = (Operation, Size, u64, Seen);

/// A database's size, length and height at the end of the measurement.
struct Grown {
    x: f64,
    size: Size,
    bytes: u64,
    height: u32,
}

fn close_and_remove(x: f64, tree: Tree) -> Result<Grown> {
    let (size, bytes) = (tree.size, tree.bytes()?);
    Ok(Grown { x, size, bytes, height: tree.remove()? })
}

fn seen(figure: &Figure, grown: &[Grown], tallies: &Tallies) -> Vec<SeenOf> {
    let mut all = Vec::new();
    for operation in Operation::ALL {
        for Grown { x, size, bytes, height } in grown {
            let point = |name: &str| figure.series(name)?.points.iter().find(|point| point.x == Place::Number(*x));
            let median = |name| point(name).and_then(Point::median);
            let tally = tallies.iter().find(|tally| tally.0 == *x && tally.1 == operation);
            let samples = point(operation.name()).map(|point| point.samples.clone());
            let (Some(ns), Some(samples), Some((.., sum, rounds))) = (median(operation.name()), samples, tally) else {
                continue;
            };
            let seen = Seen {
                x: *x,
                ns,
                rounds: samples,
                height: *height,
                value_bytes: crate::paper::number(size.value_bytes as u64),
                counts: sum.shared(f64::from(*rounds)),
                load_ns: median(BARE_LOAD).unwrap_or(0.0),
                page_ns: median(BARE_READ).unwrap_or(0.0),
                write_ns: median(BARE_WRITE).unwrap_or(0.0),
            };
            all.push((operation, *size, *bytes, seen));
        }
    }
    all
}

fn bends(seen: &[SeenOf], at: &dyn Fn(f64) -> String) -> Vec<Bend> {
    let pairs = seen.windows(2).filter(|pair| pair[0].0 == pair[1].0);
    pairs.map(|pair| bend(pair[0].0, &pair[0].3, &pair[1].3, at)).collect()
}

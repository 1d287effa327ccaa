//! Computes the dependencies of a history, and finds observations that no order of the transactions explains.
//!
//! Invariants
//! 1. Sound: each reported anomaly or cycle is real.
//! 2. A scan that does not find a row came either before the row's insertion or after its deletion. If neither the
//!    history nor the time shows which, the checker concludes nothing, and counts the case.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::graph::{Cycle, Graph, Kind, Object};
use crate::history::{Element, Record, Row, Step};

/// An error other than a cycle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Anomaly {
    /// A committed transaction saw a write of an aborted transaction, or an element that was never written (G1a).
    AbortedRead(Object, Element),
    /// Two reads of one list show different orders.
    TwoOrders(u32),
    /// Two committed writes replaced the same version, or two transactions deleted the same row.
    LostUpdate(Object),
    /// A committed write is missing at the end.
    LostWrite(Object, Element),
    /// A transaction did not see a row that it had inserted, or saw a row that it had deleted.
    NotItsOwn(Row),
    /// A scan did not find a row that had been inserted before the scan began, and was not deleted before the scan
    /// ended.
    Missed(Row),
}

/// The result of checking a history.
pub struct Verdict {
    /// The number of committed transactions.
    pub committed: usize,
    /// The number of dependencies between them, not counting the real-time order.
    pub dependencies: usize,
    /// The number of cases in which a scan did not find a row, and may have come before the row's insertion or after
    /// its deletion.
    pub ambiguous: usize,
    /// Errors other than cycles.
    pub anomalies: Vec<Anomaly>,
    /// Cycles of dependencies: the history is not serializable.
    pub cycles: Vec<Cycle>,
    /// Cycles with the real-time order added: the history is not strictly serializable.
    pub strict_cycles: Vec<Cycle>,
}

impl Verdict {
    /// Returns whether no error was found.
    pub fn is_clean(&self) -> bool {
        self.anomalies.is_empty() && self.cycles.is_empty() && self.strict_cycles.is_empty()
    }

    /// Returns the first few errors.
    pub fn worst(&self) -> String {
        let anomalies = self.anomalies.iter().take(5).map(|anomaly| format!("{anomaly:?}"));
        let cycles = self.cycles.iter().chain(&self.strict_cycles).take(5).map(Cycle::to_string);
        anomalies.chain(cycles).collect::<Vec<_>>().join("\n")
    }
}

/// Checks a history.
pub fn check(history: &[Record]) -> Verdict {
    let mut checker = Checker::new(history);
    checker.lists();
    checker.cells();
    checker.rows();
    let dependencies = checker.graph.len();
    let cycles = checker.graph.cycles();
    checker.real_time();
    // A history that is not serializable is not strictly serializable either, so the second check is left out.
    let strict_cycles = if cycles.is_empty() { checker.graph.cycles() } else { Vec::new() };
    let committed = history.iter().filter(|record| record.is_committed).count();
    let Checker { anomalies, ambiguous, .. } = checker;
    Verdict { committed, dependencies, ambiguous, anomalies, cycles, strict_cycles }
}

struct Checker<'h> {
    history: &'h [Record],
    graph: Graph,
    anomalies: Vec<Anomaly>,
    ambiguous: usize,
}

/// The versions of one object in order. Version 0, the state before any write, comes first.
struct Versions {
    object: Object,
    order: Vec<Element>,
    place: HashMap<Element, usize>,
}

impl Versions {
    fn new(object: Object, written: impl IntoIterator<Item = Element>) -> Versions {
        let order: Vec<Element> = std::iter::once(0).chain(written).collect();
        let place = order.iter().enumerate().map(|(at, &element)| (element, at)).collect();
        Versions { object, order, place }
    }
}

impl<'h> Checker<'h> {
    fn new(history: &'h [Record]) -> Checker<'h> {
        Checker { history, graph: Graph::new(history.len()), anomalies: Vec::new(), ambiguous: 0 }
    }

    fn committed(&self) -> impl Iterator<Item = (usize, &'h Record)> {
        self.history.iter().enumerate().filter(|(_, record)| record.is_committed)
    }

    /// Returns the committed writer of each element of lists and cells.
    fn writers(&self) -> HashMap<Element, usize> {
        let mut writers = HashMap::new();
        for (txn, record) in self.committed() {
            for step in &record.steps {
                if let Step::Append { element, .. } | Step::Push { element, .. } | Step::WriteCell { element, .. } =
                    step
                {
                    writers.insert(*element, txn);
                }
            }
        }
        writers
    }

    fn lists(&mut self) {
        let writers = self.writers();
        // For each list, the reads: a transaction and the elements that it saw. An append counts as two reads. The
        // second read includes the appended element.
        let mut reads: BTreeMap<u32, Vec<(usize, Vec<Element>)>> = BTreeMap::new();
        for (txn, record) in self.committed() {
            for step in &record.steps {
                match step {
                    Step::ReadList { list, elements } => {
                        reads.entry(*list).or_default().push((txn, elements.clone()));
                    }
                    Step::Append { list, before, element } => {
                        let of_list = reads.entry(*list).or_default();
                        of_list.push((txn, before.clone()));
                        of_list.push((txn, before.iter().copied().chain([*element]).collect()));
                    }
                    _ => {}
                }
            }
        }
        for (list, reads) in reads {
            let longest = reads.iter().map(|read| &read.1).max_by_key(|elements| elements.len());
            let longest = longest.expect("each list in the map has a read").clone();
            if reads.iter().any(|(_, elements)| !longest.starts_with(elements)) {
                self.anomalies.push(Anomaly::TwoOrders(list));
                continue;
            }
            let versions = Versions::new(Object::List(list), longest);
            self.follow(&versions, &writers);
            for (txn, elements) in &reads {
                self.read(*txn, elements.last().copied().unwrap_or(0), &versions, &writers);
            }
        }
    }

    fn cells(&mut self) {
        let writers = self.writers();
        let mut next: BTreeMap<u32, HashMap<Element, Element>> = BTreeMap::new();
        let mut reads: Vec<(usize, u32, Element)> = Vec::new();
        for (txn, record) in self.committed() {
            for step in &record.steps {
                match *step {
                    Step::ReadCell { cell, found } => reads.push((txn, cell, found)),
                    Step::WriteCell { cell, before, element } => {
                        reads.push((txn, cell, before));
                        if next.entry(cell).or_default().insert(before, element).is_some() {
                            self.anomalies.push(Anomaly::LostUpdate(Object::Cell(cell)));
                        }
                    }
                    _ => continue,
                }
                next.entry(reads[reads.len() - 1].1).or_default();
            }
        }
        let versions: BTreeMap<u32, Versions> = next
            .into_iter()
            .map(|(cell, next)| {
                // Each element is written once, so the chain ends.
                let chain = std::iter::successors(next.get(&0).copied(), |element| next.get(element).copied());
                (cell, Versions::new(Object::Cell(cell), chain))
            })
            .collect();
        for versions in versions.values() {
            self.follow(versions, &writers);
        }
        for (txn, cell, found) in reads {
            self.read(txn, found, &versions[&cell], &writers);
        }
    }

    /// Adds the order of the versions' writers: each version replaced the version before it.
    fn follow(&mut self, versions: &Versions, writers: &HashMap<Element, usize>) {
        for pair in versions.order[1..].windows(2) {
            if let (Some(&one), Some(&other)) = (writers.get(&pair[0]), writers.get(&pair[1])) {
                self.graph.add(one, other, Kind::WriteWrite, versions.object);
            }
        }
    }

    /// Adds the order of a read, which comes after the writer of its version and before the writer of the next version.
    fn read(&mut self, txn: usize, found: Element, versions: &Versions, writers: &HashMap<Element, usize>) {
        let Some(&place) = versions.place.get(&found) else {
            self.anomalies.push(Anomaly::AbortedRead(versions.object, found));
            return;
        };
        if found != 0 {
            match writers.get(&found) {
                Some(&writer) => self.graph.add(writer, txn, Kind::WriteRead, versions.object),
                None => self.anomalies.push(Anomaly::AbortedRead(versions.object, found)),
            }
        }
        if let Some(&next) = versions.order.get(place + 1).and_then(|next| writers.get(next)) {
            self.graph.add(txn, next, Kind::ReadWrite, versions.object);
        }
    }

    fn rows(&mut self) {
        let (mut inserters, mut deleters) = (BTreeMap::<Row, usize>::new(), BTreeMap::<Row, usize>::new());
        for (txn, record) in self.committed() {
            for step in &record.steps {
                match step {
                    Step::Insert { row } => {
                        inserters.insert(*row, txn);
                    }
                    Step::Delete { row } if deleters.insert(*row, txn).is_some() => {
                        self.anomalies.push(Anomaly::LostUpdate(Object::Row(row.element)));
                    }
                    _ => {}
                }
            }
        }
        for (txn, record) in self.committed() {
            let mut own: HashMap<Row, bool> = HashMap::new();
            for step in &record.steps {
                match step {
                    Step::Insert { row } => {
                        own.insert(*row, true);
                    }
                    Step::Delete { row } => {
                        self.row_found(txn, *row, &own, &inserters, &deleters);
                        own.insert(*row, false);
                    }
                    Step::Scan { range, from, to, rows } => {
                        let first = Row { range: *range, place: *from, element: 0 };
                        let last = Row { range: *range, place: *to, element: Element::MAX };
                        for row in rows {
                            self.row_found(txn, *row, &own, &inserters, &deleters);
                        }
                        for (row, inserter) in inserters.range(first..=last).filter(|(row, _)| !rows.contains(row)) {
                            self.row_missing(txn, *row, &own, *inserter, deleters.get(row).copied());
                        }
                    }
                    _ => {}
                }
            }
        }
    }

    fn row_found(
        &mut self,
        txn: usize,
        row: Row,
        own: &HashMap<Row, bool>,
        inserters: &BTreeMap<Row, usize>,
        deleters: &BTreeMap<Row, usize>,
    ) {
        match own.get(&row) {
            Some(true) => return,
            Some(false) => return self.anomalies.push(Anomaly::NotItsOwn(row)),
            None => {}
        }
        let object = Object::Row(row.element);
        match inserters.get(&row) {
            Some(&inserter) => self.graph.add(inserter, txn, Kind::WriteRead, object),
            None => self.anomalies.push(Anomaly::AbortedRead(object, row.element)),
        }
        if let Some(&deleter) = deleters.get(&row) {
            self.graph.add(txn, deleter, Kind::ReadWrite, object);
        }
    }

    fn row_missing(&mut self, txn: usize, row: Row, own: &HashMap<Row, bool>, inserter: usize, deleter: Option<usize>) {
        match own.get(&row) {
            Some(true) => return self.anomalies.push(Anomaly::NotItsOwn(row)),
            Some(false) => return,
            None => {}
        }
        let (reader, object) = (&self.history[txn], Object::Row(row.element));
        let may_be_before = self.history[inserter].end > reader.begin;
        let may_be_after = deleter.filter(|&deleter| self.history[deleter].begin < reader.end);
        match (may_be_before, may_be_after) {
            (true, None) => self.graph.add(txn, inserter, Kind::ReadWrite, object),
            (false, Some(deleter)) => self.graph.add(deleter, txn, Kind::WriteRead, object),
            (true, Some(deleter)) if deleter == inserter => {
                // No other transaction ever saw the row. So it does not matter whether the reader came before the
                // insertion or after the deletion.
            }
            (true, Some(_)) => self.ambiguous += 1,
            (false, None) => self.anomalies.push(Anomaly::Missed(row)),
        }
    }

    /// Adds the real-time order: a transaction that ended before another transaction began comes first. A new
    /// transaction gets an edge only from the last transaction that each thread has ended: the thread's earlier
    /// transactions come before its last transaction, and so before the new transaction.
    fn real_time(&mut self) {
        let mut ends: Vec<(u64, usize)> = self.committed().map(|(txn, record)| (record.end, txn)).collect();
        let mut begins: Vec<(u64, usize)> = self.committed().map(|(txn, record)| (record.begin, txn)).collect();
        ends.sort_unstable();
        begins.sort_unstable();
        let mut last_of_thread: BTreeMap<usize, usize> = BTreeMap::new();
        let mut ends = ends.into_iter().peekable();
        for (begin, txn) in begins {
            while let Some((_, ended)) = ends.next_if(|(end, _)| *end < begin) {
                last_of_thread.insert(self.history[ended].thread, ended);
            }
            for &ended in last_of_thread.values() {
                self.graph.add(ended, txn, Kind::RealTime, Object::Clock);
            }
        }
    }
}

/// Returns the committed writes that the transaction `last` did not find, and the deleted rows that it found. This
/// transaction read everything after all others had ended.
pub fn lost_at_the_end(history: &[Record], last: usize) -> Vec<Anomaly> {
    let mut there = HashSet::new();
    for step in &history[last].steps {
        match step {
            Step::ReadList { elements, .. } => there.extend(elements.iter().copied()),
            Step::Scan { rows, .. } => there.extend(rows.iter().map(|row| row.element)),
            _ => {}
        }
    }
    let committed = || history.iter().filter(|record| record.is_committed).flat_map(|record| &record.steps);
    let deleted: HashSet<Element> = committed()
        .filter_map(|step| match step {
            Step::Delete { row } => Some(row.element),
            _ => None,
        })
        .collect();
    let is_wrong = |step: &Step| match step {
        Step::Append { list, element, .. } | Step::Push { list, element } if !there.contains(element) => {
            Some(Anomaly::LostWrite(Object::List(*list), *element))
        }
        Step::Insert { row } if there.contains(&row.element) == deleted.contains(&row.element) => {
            Some(Anomaly::LostWrite(Object::Row(row.element), row.element))
        }
        _ => None,
    };
    committed().filter_map(is_wrong).collect()
}

#[cfg(test)]
#[path = "checker_tests.rs"]
mod tests;

//! The figure by processes: TPC-B's transaction and its read-only variant, with one to many client processes.

use super::bends::{Bend, TOLERANCE};
use super::by_size::figure;
use super::chapter::Chapter;
use super::Study;
use crate::engine::Durability;
use crate::error::Result;
use crate::paper::{spelled, Bank, Case, Contender, Order, Place, Sample, Slice};

/// Measures the figure.
pub(super) fn measure(study: &mut Study<'_>) -> Result<Chapter> {
    let mut figure = figure(
        "growth-processes",
        "By processes",
        "The time in which the processes together complete a transaction, in nanoseconds. One kind of transaction has \
         three gets of a TPC-B bank. The other is TPC-B's transaction of three updates and an insertion. Each client \
         is a process. The clients share ten branches, so writers wait for each other's locks.",
        "processes",
    );
    figure.y.name = "ns per transaction".to_owned();
    let contender = Contender::libtp(Durability::Relaxed).shared();
    let directory = study.directory();
    let run_record = &mut study.run_record;
    let bank = Bank::open(&contender, &directory, study.pace.scale, &mut |loaded| {
        run_record.doing(&format!("loading a bank: {loaded} records"));
    })?;
    let (client, time) = (study.settings.client, study.pace.long_slice);
    let mut cases = Vec::new();
    for (name, is_read_only) in [("three gets", true), ("TPC-B", false)] {
        for processes in study.pace.processes {
            let slice = Slice { clients: *processes, process: Some(client), time, warmup: time / 4, is_read_only };
            let bank = &bank;
            cases.push(Case::new(name, Place::Number(f64::from(*processes)), move || {
                let done = bank.work(&slice)?;
                Ok(Sample { value: 1e9 / done.tps.max(1.0), audit: "ok".to_owned(), raw: done.raw })
            }));
        }
    }
    figure.series = study.in_turns(&figure.id, &mut cases, Order::BackAndForth)?;
    drop(cases);
    study.run_record.doing("auditing the bank");
    let verdict = bank.audit()?;
    bank.close()?;
    study.judge(&figure.id, &verdict, figure.series.iter_mut().flat_map(|series| &mut series.points));
    let bends = bends(&figure);
    Ok(Chapter { figure, counted: Vec::new(), bends })
}

/// Describes each step of the figure. There is no reason why a transaction should take longer with more processes. So
/// the time with each number of processes is compared with the shortest time with a smaller number. A number is a cliff
/// if, in most rounds, a transaction takes more than `TOLERANCE` times as long.
pub(super) fn bends(figure: &crate::paper::Figure) -> Vec<Bend> {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let of = |series: &crate::paper::Series| {
        let points = series.points.iter().filter_map(|point| match (&point.x, point.median()) {
            (Place::Number(x), Some(ns)) => Some(By { processes: *x, ns, rounds: &point.samples }),
            _ => None,
        });
        let points: Vec<By<'_>> = points.collect();
        let to_each = (1..points.len()).filter_map(|at| {
            let best = points[..at].iter().min_by(|one, other| one.ns.total_cmp(&other.ns))?;
            Some(step(&series.name, &points[at - 1], &points[at], best, processors))
        });
        to_each.collect::<Vec<_>>()
    };
    figure.series.iter().flat_map(of).collect()
}

/// The time per transaction with one number of processes.
struct By<'s> {
    processes: f64,
    /// The median of the rounds.
    ns: f64,
    rounds: &'s [f64],
}

impl By<'_> {
    /// Returns whether, in most rounds, a transaction took more than `TOLERANCE` times as long as a transaction of
    /// `other`.
    fn is_far_above(&self, other: &By<'_>) -> bool {
        let pairs = self.rounds.iter().zip(other.rounds);
        let (all, above) = (pairs.len(), pairs.filter(|(ns, less)| **ns > **less * TOLERANCE).count());
        above * 2 > all
    }
}

/// Describes the step from one number of processes to the next. `best` has the shortest time with a number of processes
/// before the step. If the time just before the step was already far above the best time, the step is a cliff only if
/// the step itself raises the time by more than the tolerance.
fn step(series: &str, from: &By<'_>, to: &By<'_>, best: &By<'_>, processors: usize) -> Bend {
    let is_cliff = to.is_far_above(best) && (!from.is_far_above(best) || to.is_far_above(from));
    let text = format!(
        "{series}, {} to {} processes on {processors} processors: {} to {} ns, {} times as long as before this step, and {} times as long as the shortest time with fewer processes{}",
        spelled(from.processes),
        spelled(to.processes),
        spelled(from.ns),
        spelled(to.ns),
        spelled(to.ns / from.ns),
        spelled(to.ns / best.ns),
        if is_cliff { ". **cliff?**" } else { "." }
    );
    Bend { series: series.to_owned(), text, is_cliff }
}

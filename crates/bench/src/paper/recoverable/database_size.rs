//! Throughput by the size of the database, up to sizes larger than memory (Rio Vista figures 5b and 5c).

use std::time::Duration;

use crate::error::Result;
use crate::memory::{bytes_of, run_bounded, Bounded, BoundedEngine, SizedWorkload};
use crate::paper::figure::{spelled, Axis, Figure, Place, Point, Series};
use crate::paper::rounds::{Case, Sample};
use crate::paper::Paper;

use super::{rounds, without_pmemobj, RVM, RVM_RIO, VISTA};

/// The limit of the process's memory. The paper's machine had 256 MB, of which the database could use about 200 MB.
const LIMIT: u64 = 64 << 20;

pub(super) const ENGINES: [(&str, BoundedEngine); 3] =
    [(VISTA.name, BoundedEngine::Vista), (RVM_RIO.name, BoundedEngine::RvmRio), (RVM.name, BoundedEngine::Rvm)];

const DEBIT_CREDIT: [u64; 7] = [1, 2, 3, 4, 6, 9, 18];
const ORDER_ENTRY: [u64; 7] = [2, 3, 4, 5, 8, 12, 24];
const DEBIT_CREDIT_QUICK: [u64; 2] = [2, 9];
const ORDER_ENTRY_QUICK: [u64; 2] = [3, 12];

/// Durations of the warm-up and of the measurement.
const TIMES: (Duration, Duration) = (Duration::from_millis(500), Duration::from_millis(1000));
const TIMES_QUICK: (Duration, Duration) = (Duration::from_millis(50), Duration::from_millis(100));

pub(super) fn figures(paper: &mut Paper<'_>) -> Result<()> {
    let is_quick = paper.settings.is_quick;
    let of = |make: fn(u64) -> SizedWorkload, full: &[u64], quick: &[u64]| {
        let sizes = if is_quick { quick } else { full };
        sizes.iter().copied().map(make).collect::<Vec<_>>()
    };
    let debit_credit = of(SizedWorkload::DebitCredit, &DEBIT_CREDIT, &DEBIT_CREDIT_QUICK);
    let order_entry = of(SizedWorkload::OrderEntry, &ORDER_ENTRY, &ORDER_ENTRY_QUICK);
    figure(paper, 'b', "debit-credit", "41 times as fast as RVM-Rio and 556 times as fast as RVM", &debit_credit)?;
    figure(paper, 'c', "order-entry", "14 times as fast as RVM-Rio and 150 times as fast as RVM", &order_entry)
}

fn figure(paper: &mut Paper<'_>, letter: char, name: &str, times: &str, sizes: &[SizedWorkload]) -> Result<()> {
    let settings = paper.settings;
    let (warmup, time) = if settings.is_quick { TIMES_QUICK } else { TIMES };
    let mut cases = Vec::new();
    for workload in sizes.iter().copied() {
        let x = Place::Number(mebibytes(bytes_of(workload)?));
        for (name, engine) in ENGINES {
            let directory = settings.disk.join("bounded");
            let job = Bounded { workload, engine, directory, warmup, time };
            cases.push(Case::new(name, x.clone(), move || {
                let report = run_bounded(job.clone(), LIMIT, settings.memory_client)?;
                let raw = serde_json::to_value(&report).unwrap_or_default();
                Ok(Sample { value: report.tps, audit: report.audit, raw })
            }));
        }
    }
    let mut series = paper.measure(&format!("vista-5{letter}"), &mut cases, rounds(paper))?;
    drop(cases);
    let notes = series.iter().filter_map(holds).collect();
    let first = Place::Number(mebibytes(bytes_of(sizes[0])?));
    series.extend(without_pmemobj(paper, first, "only Vista and RVM are measured with limited memory"));
    paper.figures.push(Figure {
        id: format!("vista-5{letter}"),
        title: format!("{name}, by the size of the database"),
        paper: format!(
            "Rio Vista figure 5{letter}: the text says that Vista was {times} while the database was in memory. RVM and Vista begin to \
             thrash when the database is larger than memory. RVM-Rio begins at half of that size, because the file cache has a second copy \
             of the database."
        ),
        here: format!(
            "Each sample is measured in a new process. A control group limits the process to {} MiB of memory, including its pages of files. The \
             files are on the disk. Vista's segment is a file. RVM's memory is an unnamed file. RVM's database and log are files, not raw disks as in \
             the paper, and the log has a tenth of the database's length. So for `rvm`, too, the file cache has a second copy of the bytes that \
             truncations have written. `rvm-rio` is RVM on the same files without syncs.",
            LIMIT >> 20
        ),
        x: Axis::logarithmic("MiB of database"),
        y: Axis::logarithmic("transactions per second"),
        series,
        notes,
    });
    Ok(())
}

/// Returns a sentence with the largest size at which a contender reaches half of its best rate.
fn holds(series: &Series) -> Option<String> {
    let medians: Vec<_> = series.points.iter().filter_map(|point| Some((&point.x, Point::median(point)?))).collect();
    let best = medians.iter().map(|(_, median)| *median).max_by(f64::total_cmp)?;
    let (largest, last) = medians.last()?;
    let (held, _) = medians.iter().rfind(|(_, median)| *median >= best / 2.0)?;
    let (name, parts) = (&series.name, spelled((best / last).round()));
    Some(format!(
        "`{name}` reaches half of its best rate up to {held} MiB, and at {largest} MiB 1/{parts} of its best rate."
    ))
}

fn mebibytes(bytes: u64) -> f64 {
    (bytes as f64 / f64::from(1 << 20)).round()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_on_both_sides_of_the_limit_and_every_size_was_compiled() {
        let sizes = |make: fn(u64) -> SizedWorkload, sizes: &[u64]| -> Vec<u64> {
            sizes.iter().map(|size| bytes_of(make(*size)).unwrap()).collect()
        };
        for (make, full, quick) in [
            (SizedWorkload::DebitCredit as fn(u64) -> SizedWorkload, &DEBIT_CREDIT, &DEBIT_CREDIT_QUICK),
            (SizedWorkload::OrderEntry as fn(u64) -> SizedWorkload, &ORDER_ENTRY, &ORDER_ENTRY_QUICK),
        ] {
            for sizes in [sizes(make, full), sizes(make, quick)] {
                assert!(sizes.is_sorted(), "{sizes:?}");
                assert!(sizes[0] < LIMIT / 2 && sizes[sizes.len() - 1] > LIMIT * 4 / 3, "{sizes:?}");
            }
        }
    }

    #[test]
    fn the_note_names_the_size_at_which_the_rate_falls() {
        let point = |x, median| Point { x: Place::Number(x), samples: vec![median], refused: None };
        let points = vec![point(10.0, 100.0), point(20.0, 60.0), point(40.0, 4.0)];
        let note = holds(&Series { name: "vista".into(), points }).unwrap();
        assert!(note.contains("up to 20 MiB") && note.contains("at 40 MiB 1/25 of"), "{note}");
        assert!(holds(&Series { name: "none".into(), points: Vec::new() }).is_none());
    }
}

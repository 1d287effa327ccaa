//! The overhead of a transaction of recoverable memory by its size (Rio Vista figure 5a); and the swap of two pointers.

use crate::error::Result;
use std::cell::RefCell;

use crate::memory::{MemoryEngine, Workload};
use crate::paper::figure::{Axis, Figure, Place, Point, Series};
use crate::paper::rounds::{Case, Sample};
use crate::paper::Paper;

use super::{contenders, core_lines, figure as number, pmemobj_left_out, rounds, Contender, Runner, RVM, RVM_RIO};

const SIZES: [u32; 8] = [8, 64, 256, 1024, 4096, 16_384, 65_536, 1_048_576];
const SIZES_QUICK: [u32; 3] = [8, 1024, 1_048_576];
/// RVM whose transactions share a write of the log, which figure 6 measures at fewer sizes.
const GROUPED: [Contender; 3] = [
    Contender { name: "rvm-rio, groups of 64", engine: MemoryEngine::RvmRio { group: 64 }, ..RVM_RIO },
    Contender { name: "rvm, groups of 8", engine: MemoryEngine::Rvm { group: 8 }, ..RVM },
    Contender { name: "rvm, groups of 64", engine: MemoryEngine::Rvm { group: 64 }, ..RVM },
];
/// The bare write and sync of RVM's rounds.
const BARE: &str = "bare write and fdatasync";
/// The swapped pointers, and whether they are always the same.
const PLACES: [(&str, bool); 2] = [("always the same two", true), ("two at random of 50 MB", false)];
/// A smaller overhead, in microseconds, cannot be distinguished from zero, and would have no place on a logarithmic
/// axis.
const LEAST: f64 = 0.001;

pub(super) fn figure(paper: &mut Paper<'_>) -> Result<()> {
    let runner = Runner::of(paper);
    let sizes: &[u32] = if paper.settings.is_quick { &SIZES_QUICK } else { &SIZES };
    let bare = RefCell::new(Vec::new());
    let mut cases = Vec::new();
    for bytes in sizes {
        for contender in contenders(paper).into_iter().chain(GROUPED) {
            let bare = &bare;
            let (workload, runner) = (Workload::Synthetic { bytes: u64::from(*bytes), is_hot: false }, &runner);
            cases.push(Case::new(contender.name, Place::Number(f64::from(*bytes)), move || {
                let sample = runner.run(workload, contender)?;
                if let (true, "ok", Ok(ns)) =
                    (contender.name == RVM.name, sample.audit.as_str(), number(&sample.raw, "/bare_sync/median_ns"))
                {
                    bare.borrow_mut().push((*bytes, ns / 1e3));
                }
                Ok(Sample { value: (number(&sample.raw, "/overhead_ns")? / 1e3).max(LEAST), ..sample })
            }));
        }
    }
    let mut series = paper.measure("vista-5a", &mut cases, rounds(paper))?;
    drop(cases);
    series.push(bare_series(sizes, &bare.into_inner()));
    series.extend(pmemobj_left_out(paper, Place::Number(f64::from(sizes[0]))));
    paper.figures.push(Figure {
        id: "vista-5a".into(),
        title: "What a transaction of recoverable memory costs, by its size".into(),
        paper: "Rio Vista figure 5a: bytes at a random place of 50 MB; the time of a transaction minus the time of the same stores without a \
                transaction. The text says 5 microseconds for small transactions on Vista, at least 500 on RVM-Rio, 10 milliseconds on RVM; \
                above 1 KB Vista takes 17.9 microseconds a KB."
            .into(),
        here: format!(
            "The segment in {}, or, where the name says so, in a file on the disk that is wholly in the system's file cache. `rvm-rio` has its log and its database in memory, too; `rvm` has them on the \
             disk, and syncs each transaction. Their log has 5 MB, a tenth of the database, as in the paper, and their times include their share of truncations; in groups one write of the log is for \
             several transactions. The compared cases took turns of 0.3 to 5 ms; 0.001 stands for a time that cannot be distinguished from zero.",
            paper.settings.memory.display()
        ),
        x: Axis::logarithmic("bytes"),
        y: Axis::logarithmic("microseconds of overhead"),
        series,
        notes: vec![core_lines::note()],
    });
    Ok(())
}

/// Returns the series of bare writes, by their size.
fn bare_series(sizes: &[u32], bare: &[(u32, f64)]) -> Series {
    let point = |size: &u32| {
        let samples = bare.iter().filter(|(bytes, _)| bytes == size).map(|(_, micros)| *micros).collect();
        Point { x: Place::Number(f64::from(*size)), samples, refused: None }
    };
    Series { name: BARE.to_owned(), points: sizes.iter().map(point).collect() }
}

/// Measures the smallest possible transaction.
pub(super) fn swap(paper: &mut Paper<'_>) -> Result<()> {
    let runner = Runner::of(paper);
    let mut cases = Vec::new();
    for (name, is_hot) in PLACES {
        // A contender that waits for a disk tells nothing about pointers.
        let all = contenders(paper).into_iter().filter(|one| !one.is_on_disk && one.name != RVM.name);
        for contender in all {
            let runner = &runner;
            cases.push(Case::new(contender.name, Place::Name(name.to_owned()), move || {
                runner.run(Workload::Swap { is_hot }, contender)
            }));
        }
    }
    let mut series = paper.measure("vista-5-swap", &mut cases, rounds(paper))?;
    drop(cases);
    series.extend(pmemobj_left_out(paper, Place::Name(PLACES[0].0.to_owned())));
    paper.figures.push(Figure {
        id: "vista-5-swap".into(),
        title: "Two pointers change places, atomically".into(),
        paper:
            "Rio Vista, sections 1 and 6: at 5 microseconds, transactions can be used even for swapping two pointers."
                .into(),
        here: "Begin, two ranges of 8 bytes, end: all of it, the stores, too.".into(),
        x: Axis::linear("pointers"),
        y: Axis::logarithmic("nanoseconds a transaction"),
        series,
        notes: Vec::new(),
    });
    Ok(())
}

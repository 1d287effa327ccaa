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
/// RVM with group commit, at all sizes of figure 5a. Figure 6 measures it at fewer sizes.
const GROUPED: [Contender; 3] = [
    Contender { name: "rvm-rio, groups of 64", engine: MemoryEngine::RvmRio { group: 64 }, ..RVM_RIO },
    Contender { name: "rvm, groups of 8", engine: MemoryEngine::Rvm { group: 8 }, ..RVM },
    Contender { name: "rvm, groups of 64", engine: MemoryEngine::Rvm { group: 64 }, ..RVM },
];
/// The series of the bare writes and syncs in RVM's rounds.
const BARE: &str = "bare write and fdatasync";
/// The choice of the swapped pointers, and whether they are always the same.
const PLACES: [(&str, bool); 2] = [("always the same two", true), ("two at random in 50 MB", false)];
/// The smallest overhead in the figure, in microseconds. A smaller overhead cannot be distinguished from zero, and a
/// logarithmic axis has no zero.
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
        title: "The cost of a transaction of recoverable memory, by its size".into(),
        paper: "Rio Vista figure 5a: bytes at a random place in 50 MB; the time of a transaction minus the time of the same stores without a \
                transaction. The text says that small transactions take 5 microseconds on Vista, at least 500 microseconds on RVM-Rio, and 10 \
                milliseconds on RVM. Above 1 KB, Vista takes 17.9 microseconds per KB."
            .into(),
        here: format!(
            "The segment is in {}, or, if the name says so, in a file on the disk that is wholly in the system's file cache. `rvm-rio` also has its log and its database in memory. `rvm` has them on the \
             disk, and syncs each transaction. Both logs have 5 MB, a tenth of the database, as in the paper, and both times include a share of the truncations. With groups, one write of the log and one \
             sync serve several transactions. The rounds of the compared cases, of 0.3 to 5 ms, alternate. The value 0.001 stands for a time that cannot be distinguished from zero.",
            paper.settings.memory.display()
        ),
        x: Axis::logarithmic("bytes"),
        y: Axis::logarithmic("microseconds of overhead"),
        series,
        notes: vec![core_lines::note()],
    });
    Ok(())
}

/// Returns the series of bare writes and syncs, by their size.
fn bare_series(sizes: &[u32], bare: &[(u32, f64)]) -> Series {
    let point = |size: &u32| {
        let samples = bare.iter().filter(|(bytes, _)| bytes == size).map(|(_, micros)| *micros).collect();
        Point { x: Place::Number(f64::from(*size)), samples, refused: None }
    };
    Series { name: BARE.to_owned(), points: sizes.iter().map(point).collect() }
}

/// Measures a transaction that swaps two pointers.
pub(super) fn swap(paper: &mut Paper<'_>) -> Result<()> {
    let runner = Runner::of(paper);
    let mut cases = Vec::new();
    for (name, is_hot) in PLACES {
        // Contenders that write to a disk are left out, because the disk would take almost all of the time.
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
        title: "Two pointers are swapped atomically".into(),
        paper:
            "Rio Vista, sections 1 and 6: at 5 microseconds, transactions can be used even for swapping two pointers."
                .into(),
        here: "A transaction declares and stores two ranges of 8 bytes. The time includes its begin, the stores and its end.".into(),
        x: Axis::linear("pointers"),
        y: Axis::logarithmic("nanoseconds per transaction"),
        series,
        notes: Vec::new(),
    });
    Ok(())
}

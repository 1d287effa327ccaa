//! Recoverable memory: Rio Vista figures 5 and 6.

use crate::error::{Error, Result};
use crate::memory::{run_memory, MemoryEngine, MemorySettings, Workload};

use super::figure::{Axis, Figure, Place, Series};
use super::rounds::{Case, Sample};
use super::Paper;

const SIZES: [u32; 6] = [8, 64, 1024, 4096, 65_536, 1_048_576];
const GROUPS: [u32; 3] = [1, 8, 64];
const WORKLOADS: [(&str, &str, Workload); 2] =
    [("b", "debit-credit", Workload::DebitCredit), ("c", "order-entry", Workload::OrderEntry)];

/// What a transaction costs beside none, by its size; and transactions a second of two benchmarks.
pub(super) fn figure_5(paper: &mut Paper<'_>) -> Result<()> {
    let engines = [
        ("vista", MemoryEngine::Vista),
        ("rvm-rio", MemoryEngine::RvmRio { group: 1 }),
        ("rvm", MemoryEngine::Rvm { group: 1 }),
    ];
    let settings = paper.settings;
    let mut cases: Vec<Case<'_>> = Vec::new();
    for bytes in SIZES {
        for (name, engine) in engines {
            let sample = sampler(paper, Workload::Synthetic { bytes: u64::from(bytes), is_hot: false }, engine, true);
            cases.push(Case::new(name, Place::Number(f64::from(bytes)), sample));
        }
    }
    let series = paper.measure("vista-5a", &mut cases, paper.pace.rounds.min(3))?;
    let mut notes = Vec::new();
    for (name, engine) in [("two pointers, hot", true), ("two pointers, at random", false)] {
        let mut sample = sampler(paper, Workload::Swap { is_hot: engine }, MemoryEngine::Vista, false);
        if let Ok(swap) = sample() {
            notes.push(format!("{name}: {} ns to exchange them atomically.", super::figure::spelled(swap.value)));
        }
    }
    let figure = Figure {
        id: "vista-5a".into(),
        title: "What a transaction of recoverable memory costs, by its size".into(),
        paper: "Rio Vista figure 5a: bytes at a random place of 50 MB; the time of a transaction less that of the same stores without. The text \
                says 5 microseconds for small ones on Vista, at least 500 on RVM-Rio, 10 milliseconds on RVM; above 1 KB Vista takes 17.9 \
                microseconds a KB."
            .into(),
        here: format!(
            "`vista` and `rvm-rio` in {}, `rvm` with its log on the disk, synced at each transaction.",
            settings.memory.display()
        ),
        x: Axis::logarithmic("bytes"),
        y: Axis::logarithmic("microseconds of overhead"),
        series,
        notes,
    };
    paper.figures.push(figure);
    for (letter, name, workload) in WORKLOADS {
        let mut cases = Vec::new();
        for (engine_name, engine) in engines {
            cases.push(Case::new(engine_name, Place::Name(name.to_owned()), sampler(paper, workload, engine, false)));
        }
        let series = paper.measure(&format!("vista-5{letter}"), &mut cases, paper.pace.rounds.min(3))?;
        let series = as_rates(series);
        let times = match workload {
            Workload::DebitCredit => "41 times RVM-Rio and 556 times RVM",
            _ => "14 times RVM-Rio and 150 times RVM",
        };
        paper.figures.push(Figure {
            id: format!("vista-5{letter}"),
            title: format!("{name} in recoverable memory"),
            paper: format!(
                "Rio Vista figure 5{letter}: the text says that Vista did {times}, while the database was in memory."
            ),
            here: "A database of about 50 MB.".into(),
            x: Axis::linear("benchmark"),
            y: Axis::logarithmic("transactions a second"),
            series,
            notes: Vec::new(),
        });
    }
    Ok(())
}

/// RVM that syncs several transactions at once.
pub(super) fn figure_6(paper: &mut Paper<'_>) -> Result<()> {
    let synthetic = ("a", "synthetic, 64 bytes", Workload::Synthetic { bytes: 64, is_hot: false });
    for (letter, name, workload) in [synthetic].into_iter().chain(WORKLOADS) {
        let mut cases = Vec::new();
        for group in GROUPS {
            let x = Place::Number(f64::from(group));
            cases.push(Case::new("rvm", x, sampler(paper, workload, MemoryEngine::Rvm { group }, false)));
        }
        let vista = sampler(paper, workload, MemoryEngine::Vista, false);
        cases.push(Case::new("vista", Place::Number(1.0), vista));
        let id = format!("vista-6{letter}");
        let series = as_rates(paper.measure(&id, &mut cases, paper.pace.rounds.min(3))?);
        paper.figures.push(Figure {
            id,
            title: format!("RVM's group commit: {name}"),
            paper: format!(
                "Rio Vista figure 6{letter}: RVM that syncs 1, 8 and 64 transactions at once, beside Vista. The text says that it does \
                 more of them with groups, and that one thread whose transactions depend on each other has nothing of it."
            ),
            here: "Groups of one thread: those of a group are answered before they are on the disk.".into(),
            x: Axis::logarithmic("transactions of a group"),
            y: Axis::logarithmic("transactions a second"),
            series,
            notes: Vec::new(),
        });
    }
    Ok(())
}

/// From nanoseconds a transaction to transactions a second.
fn as_rates(mut series: Vec<Series>) -> Vec<Series> {
    for sample in series.iter_mut().flat_map(|series| &mut series.points).flat_map(|point| &mut point.samples) {
        *sample = 1e9 / *sample;
    }
    series
}

/// Takes a sample: microseconds of overhead, or nanoseconds a transaction.
fn sampler(
    paper: &Paper<'_>,
    workload: Workload,
    engine: MemoryEngine,
    is_overhead: bool,
) -> impl FnMut() -> Result<Sample> {
    let (memory, disk) = (paper.settings.memory.clone(), paper.settings.disk.join("rvm"));
    let is_in_memory = matches!(engine, MemoryEngine::RvmRio { .. });
    let time = paper.pace.memory_time;
    move || {
        let directory =
            if is_in_memory { memory.join(format!("tp-paper-{}", std::process::id())) } else { disk.clone() };
        std::fs::create_dir_all(&directory).map_err(Error::file("make", &directory))?;
        let settings = MemorySettings {
            workload,
            engine,
            memory: memory.clone(),
            directory: directory.clone(),
            write_back: false,
            threads: 1,
            is_striped: false,
            time,
        };
        let report = run_memory(&settings);
        let removed = std::fs::remove_dir_all(&directory).map_err(Error::file("remove", &directory));
        let report = report?;
        removed?;
        let value = if is_overhead { (report.overhead_ns / 1e3).max(0.0) } else { report.with.median_ns };
        let raw = serde_json::to_value(&report).map_err(|why| Error::Settings(why.to_string()))?;
        Ok(Sample { value, audit: report.audit, raw })
    }
}

//! Many processes on one bank: LIBTP figures 7, 8 and 9.

use crate::engine::{Durability, Granularity};
use crate::error::Result;
use crate::processors::at_one_distance;
use crate::tpcb::Scale;
use libtp_console::numbers::nanos;

use super::bank::{Contender, Done, Slice};
use super::beside::{Beside, Described};
use super::figure::{Axis, Figure, Place};
use super::rounds::{Case, Sample};
use super::Paper;

/// Measures many processes whose commits wait for the disk.
pub(super) fn figure_7(paper: &mut Paper<'_>) -> Result<()> {
    let libtp = || Contender::libtp(Durability::Sync).shared();
    let mut lines = vec![
        Line::new("locks on records", libtp()),
        Line::new("locks on pages, read first, as in the paper", libtp().as_in_the_paper()),
    ];
    if paper.settings.peers.iter().any(|peer| peer == "bdb") {
        lines.push(Line::new("bdb", Contender::of("bdb", Durability::Sync).shared()));
    }
    let scale = paper.pace.scale;
    let syncs = Beside::syncs();
    let series = by_processes(paper, "libtp-7", &lines, scale, false, &syncs)?;
    let figure = Figure {
        id: "libtp-7".into(),
        title: "Many processes, each commit on the disk".into(),
        paper: "LIBTP figure 7 (5.1.2): multi-user TPC-B, limited by the speed of one disk. The text says that two processes reach about 10 % \
                more than one process, and that four processes reach less than one. The text does not have the plotted values."
            .into(),
        here: "1 to 64 processes use the same bank, with durability `Sync`. One sync serves all commits that wait for the disk at that time. \
               `bdb` is Berkeley DB."
            .into(),
        x: Axis::logarithmic("processes"),
        y: Axis::logarithmic("transactions per second"),
        series,
        notes: Vec::new(),
    };
    paper.goal(
        "four processes on one disk (the paper: less than one)",
        &figure,
        "one process",
        1.0,
        ("locks on records", &Place::Number(4.0)),
        ("locks on records", &Place::Number(1.0)),
    );
    let syncs = syncs.figure_of_syncs(&figure);
    paper.figures.extend([figure, syncs]);
    Ok(())
}

/// Measures a bank of few accounts whose transactions do not wait for the disk: read-only transactions, and TPC-B whose
/// log is written later.
pub(super) fn figure_8(paper: &mut Paper<'_>) -> Result<()> {
    let libtp = || Contender::libtp(Durability::Relaxed).shared();
    let lines = [Line::new("read only", libtp()), Line::new("read only, threads", libtp()).by_threads()];
    let mut series = by_processes(paper, "libtp-8", &lines, Scale::SMALL, true, &Beside::syncs())?;
    let lines = [
        Line::new("no sync, locks on records", libtp()),
        Line::new("no sync, locks on records, threads", libtp()).by_threads(),
        Line::new("no sync, locks on pages", Contender { granularity: Granularity::Page, ..libtp() }),
        Line::new("no sync, locks on pages, read first", libtp().as_in_the_paper()),
    ];
    series.extend(by_processes(paper, "libtp-8", &lines, Scale::SMALL, false, &Beside::syncs())?);
    paper.figures.push(Figure {
        id: "libtp-8".into(),
        title: "Many processes on 1,000 accounts".into(),
        paper: "LIBTP figure 8 (5.1.2): 1,000 accounts, 100 tellers, 10 branches; three reads without a log, and TPC-B whose log is not \
                flushed. The text says that one process kept the processor 96 % busy, and that with the log not flushed the throughput fell \
                from the second process on."
            .into(),
        here: "1 to 64 processes use the same bank, and in other rows 1 to 64 threads of one process. Durability `Relaxed` corresponds to the \
               log that is not flushed."
            .into(),
        x: Axis::logarithmic("processes, or threads"),
        y: Axis::logarithmic("transactions per second"),
        series,
        notes: Vec::new(),
    });
    Ok(())
}

/// Period of deadlock detection for the contender that searches periodically, as the paper's program did. The paper's
/// period was a second.
const DEADLOCK_PERIOD_MILLIS: u32 = 100;

/// Measures how many of 1,000 transactions are victims of deadlocks.
pub(super) fn figure_9(paper: &mut Paper<'_>) -> Result<()> {
    let libtp = Contender::libtp(Durability::Relaxed).shared().as_in_the_paper();
    // Transactions of the paper's large bank waited for the disk while they held locks.
    let large = Contender { durability: Durability::Sync, ..libtp.clone() };
    let records = Contender { granularity: Granularity::Record, ..libtp.clone() };
    let scale = paper.pace.scale;
    let (mut banks, mut refused) = (Vec::new(), Vec::new());
    let seldom =
        Contender { settings: Some(format!("deadlock_period_millis = {DEADLOCK_PERIOD_MILLIS}\n")), ..libtp.clone() };
    let seldom = (format!("SMALL, graph searched every {DEADLOCK_PERIOD_MILLIS} ms"), seldom, Scale::SMALL);
    let small = ("SMALL".to_owned(), libtp, Scale::SMALL);
    let records = ("SMALL, locks on records".to_owned(), records, Scale::SMALL);
    for (name, contender, scale) in [small, ("LARGE".to_owned(), large, scale), records, seldom] {
        let (made, not_made) = paper.banks(&[(name, contender)], scale);
        banks.extend(made);
        refused.extend(not_made);
    }
    let mut cases = Vec::new();
    let moves = Moves::of(paper);
    for processes in paper.pace.processes {
        for (name, bank) in &banks {
            let process = Some(paper.settings.client);
            let slice = Slice { process, time: paper.pace.long_slice, ..paper.slice(*processes) };
            cases.push(Case::new(name, Place::Number(f64::from(*processes)), move || {
                let done = moves.work(&slice, || bank.work(&slice))?;
                Ok(Sample { value: done.aborts_per_1000, audit: "ok".into(), raw: done.raw })
            }));
        }
    }
    let mut series = paper.measure("libtp-9", &mut cases, paper.pace.rounds)?;
    drop(cases);
    paper.settle(banks, &mut series);
    series.extend(refused);
    paper.figures.push(Figure {
        id: "libtp-9".into(),
        title: "Deadlock victims per 1,000 transactions".into(),
        paper: "LIBTP figure 9 (5.1.2): aborts of TPC-B by the multiprogramming level, on the small bank and on the large bank; the detector \
                wakes once a second. The text says that the curve of LARGE rises faster than the curve of SMALL. The text has no values."
            .into(),
        here: "Locks are on pages, and each balance is read before it is locked for the change, as in the paper's programs. So two transactions deadlock if both \
               have read the same balance. A session searches the waits-for graph after it has waited for a short time, not once a second. SMALL: 1,000 \
               accounts, and no transaction waits for the disk; in one row, the graph is searched at a fixed period instead. LARGE: each commit waits for the disk, because \
               the disk limited the paper's large bank."
            .into(),
        x: Axis::logarithmic("processes"),
        y: Axis::linear("aborts per 1,000 transactions"),
        series,
        notes: Vec::new(),
    });
    Ok(())
}

/// Measures deadlocks on few branches: of transfers that lock in reverse order, and of transfers that read first.
pub(super) fn deadlocks(paper: &mut Paper<'_>) -> Result<()> {
    let libtp = || Contender::libtp(Durability::Relaxed).shared();
    let lines = [
        Line::new("no transfer in reverse order", libtp()),
        Line::new("1 of 16 transfers in reverse order", Contender { reversing_one_in: 16, ..libtp() }),
        Line::new("each balance read first", Contender { reads_first: true, ..libtp() }),
    ];
    let victims = Beside::keeping(|done| Some(done.aborts_per_1000));
    let series = by_processes(paper, "libtp-deadlocks", &lines, Scale::with_branches(1000, 4), false, &victims)?;
    let figure = Figure {
        id: "libtp-deadlocks".into(),
        title: "Deadlocks on 4 branches".into(),
        paper: "Not in the paper, whose programs read every balance before they lock it for the change.".into(),
        here: "1,000 accounts, locks on records; no transaction waits for the disk. A transfer in reverse order locks the branch first and the \
               account last."
            .into(),
        x: Axis::logarithmic("processes"),
        y: Axis::logarithmic("transactions per second"),
        series,
        notes: Vec::new(),
    };
    let victims = victims.figure_beside(
        &figure,
        Described {
            suffix: "victims",
            title: "Victims per 1,000 transactions",
            paper: "LIBTP figure 9 has the victims for the paper's order of locks.",
            here: "The aborts of the transactions in the figure above.",
            y: Axis::linear("aborts per 1,000 transactions"),
        },
    );
    paper.figures.extend([figure, victims]);
    Ok(())
}

/// Whether a slice of several clients is repeated if the distance of the processors (see `processors.rs`) changed
/// during the slice. The slices of the smallest run are too short to notice a change.
#[derive(Clone, Copy)]
struct Moves {
    are_seen: bool,
}

impl Moves {
    fn of(paper: &Paper<'_>) -> Moves {
        Moves { are_seen: !paper.settings.is_tiny }
    }

    /// Runs a slice, and adds to its details the time in which a cache line moves between processors.
    fn work(self, slice: &Slice<'_>, mut work: impl FnMut() -> Result<Done>) -> Result<Done> {
        if !self.are_seen || slice.clients == 1 {
            return work();
        }
        let (mut done, line) = at_one_distance(work)?;
        done.raw["line_ns"] = nanos(line).into();
        Ok(done)
    }
}

/// A curve of a figure: the contender, and whether its clients are threads.
struct Line {
    name: &'static str,
    contender: Contender,
    as_threads: bool,
}

impl Line {
    fn new(name: &'static str, contender: Contender) -> Line {
        Line { name, contender, as_threads: false }
    }

    /// Returns the line with threads of this process as its clients.
    fn by_threads(self) -> Line {
        Line { as_threads: true, ..self }
    }
}

fn by_processes(
    paper: &mut Paper<'_>,
    id: &str,
    lines: &[Line],
    scale: Scale,
    is_read_only: bool,
    beside: &Beside,
) -> Result<Vec<super::Series>> {
    let named: Vec<_> = lines.iter().map(|line| (line.name.to_owned(), line.contender.clone())).collect();
    let (banks, refused) = paper.banks(&named, scale);
    let mut cases = Vec::new();
    let moves = Moves::of(paper);
    // The points of one bank are compared with each other, so they are measured one after the other.
    for (name, bank) in &banks {
        let as_threads = lines.iter().any(|line| line.name == name && line.as_threads);
        for processes in paper.pace.processes {
            let process = (!as_threads).then_some(paper.settings.client);
            let slice = Slice { process, time: paper.pace.long_slice, is_read_only, ..paper.slice(*processes) };
            let place = Place::Number(f64::from(*processes));
            cases.push(Case::new(name, place.clone(), move || {
                let done = moves.work(&slice, || bank.work(&slice))?;
                Ok(beside.sample(name, &place, done))
            }));
        }
    }
    let mut series = paper.measure(id, &mut cases, paper.pace.rounds)?;
    drop(cases);
    paper.settle(banks, &mut series);
    series.extend(refused);
    Ok(series)
}

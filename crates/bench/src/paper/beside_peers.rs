//! TPC-B, compared with the peers: without a sync, read only, on few accounts, by processes; and with durable commits.

use crate::bare_disk::BareDisk;
use crate::engine::Durability;
use crate::error::{Error, Result};
use crate::tpcb::Scale;

use super::bank::{number, Contender, Slice};
use super::figure::{Axis, Figure, Place, Series};
use super::rounds::{Case, Sample};
use super::Paper;

const BARE_DISK: &str = "bare disk";
/// The standard library's map behind a mutex, which shows the cost of the workload alone.
const MAP: &str = "btreemap";
/// libtp whose reads take locks, as in the paper. The contender `libtp` reads from a snapshot, as the peers do.
const LOCKING: &str = "libtp, locks";
const A_SECOND: &str = "transactions per second";

/// The description of a figure that compares all contenders.
struct Wanted<'w> {
    id: &'w str,
    title: &'w str,
    here: &'w str,
    clients: &'static [u32],
    scale: Scale,
    durability: Durability,
    is_read_only: bool,
    by_processes: bool,
}

/// Measures commits that survive the death of the process: by threads, by processes, read only, contended.
pub(super) fn without_sync(paper: &mut Paper<'_>) -> Result<()> {
    let (threads, contended, scale) = (paper.pace.threads, paper.pace.contended, paper.pace.scale);
    let survives =
        "A commit survives the death of its process, but not a crash of the machine. Each peer has the setting that is nearest to this durability. \
         `btreemap` is the standard library's map behind a mutex, which shows the cost of the workload alone; its commits survive nothing.";
    let usual = Wanted {
        id: "peers-memory-tpcb",
        title: "TPC-B without sync, by threads",
        here: survives,
        clients: threads,
        scale,
        durability: Durability::Relaxed,
        is_read_only: false,
        by_processes: false,
    };
    let figure = compare(paper, &usual)?;
    paper.goal_beside_best("TPC-B relaxed, one thread, beside the best peer", &figure, 1.0, &[MAP], 2.5);
    let (one, two) = (&Place::Number(1.0), &Place::Number(2.0));
    paper.goal("TPC-B relaxed, one thread", &figure, "bdb", 8.0, ("libtp", one), ("bdb", one));
    paper.figures.push(figure);

    let figure = compare(
        paper,
        &Wanted {
            id: "peers-memory-processes",
            title: "TPC-B without sync, by processes",
            by_processes: true,
            ..usual
        },
    )?;
    paper.goal("two processes on two processors", &figure, "one process", 1.6, ("libtp", two), ("libtp", one));
    paper.figures.push(figure);

    let figure = compare(
        paper,
        &Wanted {
            id: "peers-memory-read-only",
            title: "Three balances are read, by threads",
            is_read_only: true,
            ..usual
        },
    )?;
    paper.goal_beside_best("read-only, one thread, beside the best peer", &figure, 1.0, &[LOCKING, MAP], 1.5);
    paper.figures.push(figure);

    let figure = compare(
        paper,
        &Wanted {
            id: "peers-memory-read-only-processes",
            title: "Three balances are read, by processes",
            is_read_only: true,
            by_processes: true,
            ..usual
        },
    )?;
    paper.goal(
        "read-only, two processes on two processors",
        &figure,
        "one process",
        1.8,
        ("libtp", two),
        ("libtp", one),
    );
    paper.figures.push(figure);

    let figure = compare(
        paper,
        &Wanted {
            id: "peers-memory-contended",
            title: "TPC-B without sync, 1,000 accounts, by threads",
            clients: contended,
            scale: Scale::SMALL,
            ..usual
        },
    )?;
    paper.goal_beside_best("1,000 accounts, eight clients, beside the best peer", &figure, 8.0, &[MAP], 10.0);
    paper.figures.push(figure);
    Ok(())
}

/// Measures durable commits, and compares them with bare writes and syncs.
pub(super) fn durable(paper: &mut Paper<'_>) -> Result<()> {
    let wanted = Wanted {
        id: "peers-disk",
        title: "TPC-B, each commit on the disk, by threads",
        here: "Each commit is on the disk before it is acknowledged. `bare disk` is one thread that repeatedly writes 512 bytes into a file \
               and syncs it. In each round it is measured right after one client of libtp.",
        clients: paper.pace.durable_clients,
        scale: paper.pace.scale,
        durability: Durability::Sync,
        is_read_only: false,
        by_processes: false,
    };
    let figure = compare(paper, &wanted)?;
    let one = &Place::Number(1.0);
    paper.goal("each commit synced, one client", &figure, "bare disk", 0.95, ("libtp", one), (BARE_DISK, one));
    paper.goal_beside_best("each commit synced, 16 clients, beside the best peer", &figure, 16.0, &[BARE_DISK], 5.0);
    if wanted.clients.contains(&64) {
        paper.goal_beside_best(
            "each commit synced, 64 clients, beside the best peer",
            &figure,
            64.0,
            &[BARE_DISK],
            10.0,
        );
    }
    paper.figures.push(figure);
    Ok(())
}

/// Returns a series that could not be measured, with its reason at each number of clients.
fn at_each(refused: Series, clients: &[u32]) -> Series {
    let why = refused.points.into_iter().find_map(|point| point.refused);
    Series::refused(
        &refused.name,
        clients.iter().map(|count| Place::Number(f64::from(*count))),
        &why.unwrap_or_default(),
    )
}

fn compare(paper: &mut Paper<'_>, wanted: &Wanted<'_>) -> Result<Figure> {
    let mut contenders = paper.everybody(wanted.durability);
    if wanted.is_read_only {
        // The first contender is libtp.
        let (name, by_locks) = contenders.remove(0);
        contenders.splice(0..0, [(name, by_locks.clone().reading_snapshots()), (LOCKING.to_owned(), by_locks)]);
    }
    if wanted.durability == Durability::Relaxed && !wanted.by_processes {
        contenders.push((MAP.to_owned(), Contender::of(MAP, Durability::Relaxed)));
    }
    if wanted.by_processes {
        contenders = contenders.into_iter().map(|(name, contender)| (name, contender.shared())).collect();
    }
    let (banks, refused) = paper.banks(&contenders, wanted.scale);
    let is_durable = wanted.durability == Durability::Sync;
    let time = if is_durable || wanted.by_processes { paper.pace.long_slice } else { paper.pace.slice };
    let process = wanted.by_processes.then_some(paper.settings.client);
    let rounds = paper.pace.rounds;
    let mut disk = is_durable.then(|| BareDisk::create(&paper.settings.disk));
    // Compared points are measured one after the other. If the clients are processes, the points of one engine are
    // compared. Otherwise the points of all engines with the same number of clients are compared.
    let pairs: Vec<_> = match wanted.by_processes {
        true => banks.iter().flat_map(|bank| wanted.clients.iter().map(move |clients| (*clients, bank))).collect(),
        false => wanted.clients.iter().flat_map(|clients| banks.iter().map(move |bank| (*clients, bank))).collect(),
    };
    let mut cases = Vec::new();
    for (clients, (name, bank)) in pairs {
        let slice = Slice { clients, process, time, is_read_only: wanted.is_read_only, ..paper.slice(clients) };
        cases.push(Case::new(name, Place::Number(f64::from(clients)), move || bank.sample(&slice)));
        // The bare disk is compared with one client of libtp. It is measured right after that client, because a disk's
        // speed changes from moment to moment.
        if let Some(mut disk) = disk.take_if(|_| name == "libtp") {
            let bare = move || {
                let disk = disk.as_mut().map_err(|why| Error::Settings(why.to_string()))?;
                Ok(Sample::of(number(disk.slice(time)?)))
            };
            cases.push(Case::new(BARE_DISK, Place::Number(1.0), bare));
        }
    }
    let mut series = paper.measure(wanted.id, &mut cases, rounds)?;
    drop(cases);
    paper.settle(banks, &mut series);
    series.extend(refused.into_iter().map(|series| at_each(series, wanted.clients)));
    let reading = match wanted.is_read_only {
        true => " A read-only transaction reads from a snapshot, if the engine has snapshots. `libtp, locks` reads under shared locks, as in the paper.",
        false => "",
    };
    let clients = if wanted.by_processes { "processes" } else { "threads" };
    Ok(Figure {
        id: wanted.id.to_owned(),
        title: wanted.title.to_owned(),
        paper: "LIBTP 5.1: a transaction changes three balances and writes a history record. Accounts, tellers and \
                branches are in B-trees."
            .to_owned(),
        here: format!(
            "{} {} accounts.{reading}",
            wanted.here,
            super::figure::spelled(f64::from(wanted.scale.accounts))
        ),
        x: Axis::logarithmic(clients),
        y: Axis::logarithmic(A_SECOND),
        series,
        notes: Vec::new(),
    })
}

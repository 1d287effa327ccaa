//! LIBTP figure 6: one client.

use crate::engine::Durability;
use crate::error::Result;
use crate::kinds::EngineKind;

use super::bank::Contender;
use super::figure::{Axis, Figure, Place, Point, Series};
use super::rounds::Case;
use super::{Paper, PaperSettings};

/// A page cache that is much smaller than the bank, so most accounts are not in it.
const SMALL_CACHE: &str = "memory = \"4MiB\"\n";

/// The contender PostgreSQL. If it is not installed, its row in the report has the reason.
pub(super) const POSTGRES: &str = "postgresql";

/// Returns whether PostgreSQL takes part. It takes part if a heavy peer was chosen, and only in this figure.
pub(super) fn has_postgres(settings: &PaperSettings<'_>) -> bool {
    EngineKind::HEAVY.into_iter().any(|heavy| settings.peers.iter().any(|peer| peer == heavy.name()))
}

/// Measures libtp, the same trees with parts of the protection, and relational databases.
pub(super) fn figure_6(paper: &mut Paper<'_>) -> Result<()> {
    let places = ["in memory, not synced", "cache smaller than the bank", "each commit on the disk"];
    let unprotected = |name| Contender::of(name, Durability::Relaxed);
    let small = |contender: Contender| Contender { settings: Some(SMALL_CACHE.to_owned()), ..contender };
    let lines = [
        ("libtp", places[0], Contender::libtp(Durability::Relaxed)),
        ("notp", places[0], unprotected("notp")),
        ("flock", places[0], unprotected("flock")),
        ("sqlite", places[0], Contender::of("sqlite", Durability::Relaxed)),
        (POSTGRES, places[0], Contender::of(POSTGRES, Durability::Relaxed)),
        ("libtp", places[1], small(Contender::libtp(Durability::Relaxed))),
        ("notp", places[1], small(unprotected("notp"))),
        ("notp, pages once", places[1], small(unprotected("notp, pages once"))),
        ("flock", places[1], small(unprotected("flock"))),
        ("libtp", places[2], Contender::libtp(Durability::Sync)),
        ("fsync", places[2], unprotected("fsync")),
        ("sqlite", places[2], Contender::of("sqlite", Durability::Sync)),
        (POSTGRES, places[2], Contender::of(POSTGRES, Durability::Sync)),
    ];
    let has_sqlite = paper.settings.peers.iter().any(|peer| peer == "sqlite");
    let has_postgres = has_postgres(paper.settings);
    let is_wanted = |name: &str| (name != "sqlite" || has_sqlite) && (name != POSTGRES || has_postgres);
    let lines: Vec<_> = lines.into_iter().filter(|(name, ..)| is_wanted(name)).collect();
    let named: Vec<_> = lines.iter().map(|(name, place, run)| (bank_of(name, place), run.clone())).collect();
    let scale = paper.pace.scale;
    let (banks, refused) = paper.banks(&named, scale);
    let mut cases = Vec::new();
    for (name, bank) in &banks {
        let Some((series, place, run)) = lines.iter().find(|(series, place, _)| bank_of(series, place) == *name) else {
            continue;
        };
        let is_durable = run.durability == Durability::Sync || *series == "fsync";
        let time = if is_durable { paper.pace.long_slice } else { paper.pace.slice };
        let slice = super::bank::Slice { time, ..paper.slice(1) };
        cases.push(Case::new(series, Place::Name((*place).to_owned()), move || bank.sample(&slice)));
    }
    let mut series = paper.measure("libtp-6", &mut cases, paper.pace.rounds)?;
    drop(cases);
    paper.settle_by(banks, &mut series, &is_of);
    for (name, place, _) in &lines {
        let why = refused.iter().find(|one| one.name == bank_of(name, place));
        if let Some(why) = why.and_then(|one| one.points.first()?.refused.as_ref()) {
            let point = Point::refused(Place::Name((*place).to_owned()), why);
            match series.iter_mut().find(|series| series.name == *name) {
                Some(series) => series.points.push(point),
                None => series.push(Series { name: (*name).to_owned(), points: vec![point] }),
            }
        }
    }
    let mut figure = Figure {
        id: "libtp-6".into(),
        title: "One user: the cost of protection".into(),
        paper: "LIBTP figure 6 (5.1.1): LIBTP, NOTP (no locks, no log), FLOCK (flock(2), nothing durable), FSYNC (a sync at each \
                commit, no locks) and a relational database, on one disk. The text says that LIBTP is about 15 % slower than FLOCK and NOTP, more \
                than 80 % faster than FSYNC, and reaches 125 % of the database's throughput."
            .into(),
        here: "`notp`: the same trees of the same library, without locks and log. `notp, pages once`: also without the double write and the \
               syncs of pages, so a crash may leave a torn page. `flock`: `notp`, each transaction under flock(2). `fsync`: `notp`; each \
               commit also writes a page into each of four files and syncs them. `sqlite`: in WAL mode, with synchronous FULL where each \
               commit is on the disk. `postgresql` (with `--peers all`, if it is installed): the benchmark starts a server, and a transaction \
               is one message to the server and one answer. The disk limited the paper's engines. The nearest case here is the cache smaller \
               than the bank: libtp reads pages from the system's file cache, and writes them back to it through the double-write file."
            .into(),
        x: Axis::linear("where"),
        y: Axis::logarithmic("transactions per second"),
        series,
        notes: Vec::new(),
    };
    figure.notes = ["sqlite", POSTGRES].iter().filter_map(|database| figure.times_text("libtp", database)).collect();
    let [memory, cache, disk] = &places.map(|place| Place::Name(place.to_owned()));
    paper.goal("with a cache smaller than the bank", &figure, "notp", 0.85, ("libtp", cache), ("notp", cache));
    let once = "notp, pages once";
    paper.goal("with a cache smaller than the bank, pages once", &figure, once, 0.85, ("libtp", cache), (once, cache));
    paper.goal("in memory", &figure, "notp", 0.85, ("libtp", memory), ("notp", memory));
    paper.goal("each commit on the disk", &figure, "fsync", 2.0, ("libtp", disk), ("fsync", disk));
    paper.figures.push(figure);
    Ok(())
}

/// Returns whether a point was measured on the bank with this name.
pub(super) fn is_of(bank: &str, series: &str, place: &Place) -> bool {
    bank == bank_of(series, &place.to_string())
}

/// Returns the name of the bank that a series uses at a place.
pub(super) fn bank_of(series: &str, place: &str) -> String {
    format!("{series} {place}")
}

//! One user: LIBTP figure 6.

use crate::engine::Durability;
use crate::error::Result;
use crate::kinds::EngineKind;

use super::bank::Contender;
use super::figure::{Axis, Figure, Place, Point, Series};
use super::rounds::Case;
use super::{Paper, PaperSettings};

/// A page cache that is small beside the bank: most accounts are not in it.
const SMALL_CACHE: &str = "memory = \"4MiB\"\n";

/// PostgreSQL in its own server. Where it is not installed, its row says so.
pub(super) const POSTGRES: &str = "postgresql";

/// Returns whether PostgreSQL takes part. It is a peer in this figure only, and is built with the heavy peers.
pub(super) fn has_postgres(settings: &PaperSettings<'_>) -> bool {
    EngineKind::HEAVY.into_iter().any(|heavy| settings.peers.iter().any(|peer| peer == heavy.name()))
}

/// Measures libtp, the same trees with less and less protection, and a relational database.
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
        title: "One user: what protection costs".into(),
        paper: "LIBTP figure 6 (5.1.1): LIBTP, NOTP (no locks, no log), FLOCK (flock(2), nothing durable), FSYNC (a sync at each \
                commit, no locks) and a relational database, on one disk. The text says: LIBTP is about 15 % slower than FLOCK and NOTP, more than \
                80 % faster than FSYNC, and 125 % of the database."
            .into(),
        here: "`notp`: the same trees of the same library with locks and log off. `notp, pages once`: also without the double write and the \
               syncs of pages, so a crash may leave a page that is written by half. `flock`: `notp` inside flock(2). `fsync`: `notp`, and a \
               page written into each of four files and synced at each commit. `sqlite`: WAL; FULL where each commit is on the disk. \
               `postgresql`, with every peer and if a server is installed: a server of its own, a message each way for a transaction. The \
               paper's engines were bound by their disk. The nearest case here is the cache smaller than the bank: pages come from the \
               system's file cache, and go back to it through the double write."
            .into(),
        x: Axis::linear("where"),
        y: Axis::logarithmic("transactions a second"),
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

/// Returns the name of a series' bank at a place.
pub(super) fn bank_of(series: &str, place: &str) -> String {
    format!("{series} {place}")
}

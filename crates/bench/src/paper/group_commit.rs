//! Group commit and its three thresholds: LIBTP 4.2.

use crate::engine::Durability;
use crate::error::Result;

use super::bank::{Contender, Slice};
use super::beside::Beside;
use super::figure::{Axis, Figure, Place};
use super::rounds::Case;
use super::Paper;

/// Measures commits by the number of clients, without deliberate waits and with each threshold.
pub(super) fn thresholds(paper: &mut Paper<'_>) -> Result<()> {
    let of = |settings: &str| Contender { settings: Some(settings.to_owned()), ..Contender::libtp(Durability::Sync) };
    let lines = [
        ("no wait on purpose", of("")),
        ("group 4, wait 50 %", of("group_threshold = 4\nwait_threshold_percent = 50\n")),
        ("group 16, wait 50 %", of("group_threshold = 16\nwait_threshold_percent = 50\n")),
        ("group 4, wait 90 %", of("group_threshold = 4\nwait_threshold_percent = 90\n")),
        (
            "group 4, wait 90 %, logdelay 4 KiB",
            of("group_threshold = 4\nwait_threshold_percent = 90\nlog_delay = \"4KiB\"\n"),
        ),
    ];
    let lines: Vec<_> = lines.into_iter().map(|(name, contender)| (name.to_owned(), contender)).collect();
    let scale = paper.pace.scale;
    let (banks, refused) = paper.banks(&lines, scale);
    let (syncs, mut cases) = (Beside::syncs(), Vec::new());
    for clients in paper.pace.durable_clients {
        for (name, bank) in &banks {
            let slice = Slice { time: paper.pace.long_slice, ..paper.slice(*clients) };
            let (syncs, place) = (&syncs, Place::Number(f64::from(*clients)));
            cases.push(Case::new(name, place.clone(), move || Ok(syncs.sample(name, &place, bank.work(&slice)?))));
        }
    }
    let mut series = paper.measure("libtp-4.2", &mut cases, paper.pace.rounds)?;
    drop(cases);
    paper.settle(banks, &mut series);
    series.extend(refused);
    let figure = Figure {
        id: "libtp-4.2".into(),
        title: "Group commit, with and without waiting on purpose".into(),
        paper: "LIBTP 4.2: if at least a number of transactions are active (group threshold), a commit waits for other commits, until a part of the \
                transactions waits (wait threshold) or the log has a number of unsynced bytes (logdelay threshold). The text has no values."
            .into(),
        here: "TPC-B by threads, each commit on the disk. By default no commit waits on purpose: a commit that arrives during a sync is in the next sync."
            .into(),
        x: Axis::logarithmic("clients"),
        y: Axis::logarithmic("transactions per second"),
        series,
        notes: Vec::new(),
    };
    let syncs = syncs.figure_of_syncs(&figure);
    paper.figures.extend([figure, syncs]);
    Ok(())
}

//! Syncs of the log for each commit (LIBTP 4.2), from the slices whose rates a figure shows.

use std::cell::RefCell;

use crate::error::Result;

use super::bank::{Bank, Slice};
use super::figure::{Axis, Figure, Place, Point, Series};
use super::rounds::Sample;

/// The syncs of slices: series, place, and syncs for each commit.
#[derive(Default)]
pub(super) struct Syncs(RefCell<Vec<(String, Place, f64)>>);

impl Syncs {
    /// Returns a sample of [`Bank::work`], and keeps its syncs.
    pub(super) fn sample(&self, series: &str, x: &Place, bank: &Bank, slice: &Slice<'_>) -> Result<Sample> {
        let done = bank.work(slice)?;
        if let Some(syncs) = done.syncs_per_commit {
            self.0.borrow_mut().push((series.to_owned(), x.clone(), syncs));
        }
        Ok(Sample { value: done.tps, audit: "ok".to_owned(), raw: done.raw })
    }

    /// Returns the figure to show beside the figure of rates. Points discarded there are discarded here.
    pub(super) fn figure_beside(self, rates: &Figure) -> Figure {
        let samples_of = self.0.into_inner();
        let of_point = |name: &str, point: &Point| {
            let samples_of = samples_of.iter().filter(|(series, x, _)| series == name && *x == point.x);
            let samples = samples_of.map(|(_, _, syncs)| *syncs).filter(|_| point.refused.is_none());
            Point { x: point.x.clone(), samples: samples.collect(), refused: point.refused.clone() }
        };
        let series = rates.series.iter().map(|one| {
            let points = one.points.iter().map(|point| of_point(&one.name, point));
            Series { name: one.name.clone(), points: points.collect() }
        });
        Figure {
            id: format!("{}-syncs", rates.id),
            title: format!("Syncs for a commit: {}", rates.title),
            paper: "LIBTP 4.2: commits that wait together are written together. The text has no figures.".into(),
            here: format!("Syncs of the log, divided by commits, of the same time as {}, warm-up included.", rates.id),
            x: rates.x.clone(),
            y: Axis::logarithmic("syncs of the log for a commit"),
            series: series.collect(),
            notes: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn syncs_stand_where_their_rates_do_and_count_for_nothing_where_these_do() {
        let (one, two) = (Place::Number(1.0), Place::Number(2.0));
        let samples_of = [("a", &one, 1.0), ("b", &one, 0.5), ("a", &one, 1.1), ("a", &two, 0.25)];
        let syncs = Syncs(RefCell::new(samples_of.map(|(name, x, of)| (name.to_owned(), x.clone(), of)).into()));
        let measured = |x: &Place| Point { x: x.clone(), samples: vec![100.0; 2], refused: None };
        let series = [
            Series { name: "a".into(), points: vec![measured(&one), Point::refused(two, "the audit failed")] },
            Series { name: "b".into(), points: vec![measured(&one)] },
        ];
        let rates = Figure {
            id: "libtp-7".into(),
            title: String::new(),
            paper: String::new(),
            here: String::new(),
            x: Axis::logarithmic("clients"),
            y: Axis::logarithmic("transactions a second"),
            series: series.into(),
            notes: Vec::new(),
        };
        let beside = syncs.figure_beside(&rates);
        assert_eq!(beside.id, "libtp-7-syncs");
        let samples: Vec<_> =
            beside.series.iter().flat_map(|one| &one.points).map(|point| &point.samples[..]).collect();
        assert_eq!(samples, [&[1.0, 1.1][..], &[], &[0.5]]);
        assert_eq!(beside.series[0].points[1].refused.as_deref(), Some("the audit failed"));
    }
}

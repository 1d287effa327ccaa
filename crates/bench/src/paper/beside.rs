//! Further values of the slices whose rates a figure shows: syncs of the log for each commit (LIBTP 4.2), victims of
//! deadlocks.

use std::cell::RefCell;

use super::bank::Done;
use super::figure::{Axis, Figure, Place, Point, Series};
use super::rounds::Sample;

/// A value of each slice: series, place, and value.
pub(super) struct Beside {
    of: fn(&Done) -> Option<f64>,
    kept: RefCell<Vec<(String, Place, f64)>>,
}

/// The texts of the figure of these values.
pub(super) struct Described {
    /// The end of its name, after the name of the figure of rates.
    pub suffix: &'static str,
    /// The title, before the title of the figure of rates.
    pub title: &'static str,
    /// The paper's method and its findings.
    pub paper: &'static str,
    /// The method here.
    pub here: &'static str,
    /// The vertical axis.
    pub y: Axis,
}

impl Beside {
    /// Keeps the values that `of` returns.
    pub(super) fn keeping(of: fn(&Done) -> Option<f64>) -> Beside {
        Beside { of, kept: RefCell::default() }
    }

    /// Keeps the syncs of the log for each commit.
    pub(super) fn syncs() -> Beside {
        Beside::keeping(|done| done.syncs_per_commit)
    }

    /// Keeps the value of a slice, and returns the sample of its rate.
    pub(super) fn sample(&self, series: &str, x: &Place, done: Done) -> Sample {
        if let Some(value) = (self.of)(&done) {
            self.kept.borrow_mut().push((series.to_owned(), x.clone(), value));
        }
        Sample { value: done.tps, audit: "ok".to_owned(), raw: done.raw }
    }

    /// Returns the figure of syncs to show beside the figure of rates.
    pub(super) fn figure_of_syncs(self, rates: &Figure) -> Figure {
        self.figure_beside(
            rates,
            Described {
                suffix: "syncs",
                title: "Syncs for a commit",
                paper: "LIBTP 4.2: commits that wait together are written together. The text has no figures.",
                here: "Syncs of the log, divided by commits, of the same time, warm-up included.",
                y: Axis::logarithmic("syncs of the log for a commit"),
            },
        )
    }

    /// Returns the figure to show beside the figure of rates. Points discarded there are discarded here.
    pub(super) fn figure_beside(self, rates: &Figure, described: Described) -> Figure {
        let samples_of = self.kept.into_inner();
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
            id: format!("{}-{}", rates.id, described.suffix),
            title: format!("{}: {}", described.title, rates.title),
            paper: described.paper.to_owned(),
            here: described.here.to_owned(),
            x: rates.x.clone(),
            y: described.y,
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
        let syncs = Beside::syncs();
        syncs.kept.replace(samples_of.map(|(name, x, of)| (name.to_owned(), x.clone(), of)).into());
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
        let beside = syncs.figure_of_syncs(&rates);
        assert_eq!(beside.id, "libtp-7-syncs");
        let samples: Vec<_> =
            beside.series.iter().flat_map(|one| &one.points).map(|point| &point.samples[..]).collect();
        assert_eq!(samples, [&[1.0, 1.1][..], &[], &[0.5]]);
        assert_eq!(beside.series[0].points[1].refused.as_deref(), Some("the audit failed"));
    }
}

//! A further figure, made from the slices of a figure of rates. It shows the syncs of the log per commit (LIBTP 4.2),
//! or the victims of deadlocks.

use std::cell::RefCell;

use super::bank::Done;
use super::figure::{Axis, Figure, Place, Point, Series};
use super::rounds::Sample;

/// The collected values for a further figure, one for each slice.
pub(super) struct Beside {
    /// Returns a slice's value.
    of: fn(&Done) -> Option<f64>,
    /// Series, place and value of each slice.
    kept: RefCell<Vec<(String, Place, f64)>>,
}

/// The texts of a further figure.
pub(super) struct Described {
    /// The end of the figure's name. The name begins with the name of the figure of rates.
    pub suffix: &'static str,
    /// The beginning of the title. The title ends with the title of the figure of rates.
    pub title: &'static str,
    /// The paper's method and findings.
    pub paper: &'static str,
    /// The method of this measurement.
    pub here: &'static str,
    /// The vertical axis.
    pub y: Axis,
}

impl Beside {
    /// Returns an empty collection of the values that `of` returns for slices.
    pub(super) fn keeping(of: fn(&Done) -> Option<f64>) -> Beside {
        Beside { of, kept: RefCell::default() }
    }

    /// Returns an empty collection of the syncs of the log per commit.
    pub(super) fn syncs() -> Beside {
        Beside::keeping(|done| done.syncs_per_commit)
    }

    /// Adds a slice's value to the collection, and returns the sample of the slice's rate.
    pub(super) fn sample(&self, series: &str, x: &Place, done: Done) -> Sample {
        if let Some(value) = (self.of)(&done) {
            self.kept.borrow_mut().push((series.to_owned(), x.clone(), value));
        }
        Sample { value: done.tps, audit: "ok".to_owned(), raw: done.raw }
    }

    /// Returns the figure of syncs that belongs to a figure of rates.
    pub(super) fn figure_of_syncs(self, rates: &Figure) -> Figure {
        self.figure_beside(
            rates,
            Described {
                suffix: "syncs",
                title: "Syncs per commit",
                paper: "LIBTP 4.2: one write of the log serves all commits that wait at that time. The text has no values.",
                here: "Syncs of the log divided by commits, in the measurements of the figure above and their warm-up.",
                y: Axis::logarithmic("syncs of the log per commit"),
            },
        )
    }

    /// Returns the figure that belongs to a figure of rates. Points whose rates were discarded are discarded, too.
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
    fn syncs_have_the_places_of_their_rates_and_are_discarded_with_them() {
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
            y: Axis::logarithmic("transactions per second"),
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

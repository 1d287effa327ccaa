//! The measurements as data: a figure has series, a series has points, a point has samples.

use serde::{Deserialize, Serialize};

use crate::median::median;

/// One figure or table of the report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// The figure's short, unique name, which is also the name of its files: `libtp-6`.
    pub id: String,
    /// The title.
    pub title: String,
    /// The figure's number in the paper, the paper's method, and the paper's findings.
    pub paper: String,
    /// The method of this measurement.
    pub here: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// The curves, or the groups of bars.
    pub series: Vec<Series>,
    /// Further remarks.
    pub notes: Vec<String>,
}

/// An axis.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Axis {
    /// The axis's name, with the unit.
    pub name: String,
    /// Whether equal ratios have equal distances on the axis. Otherwise equal differences have equal distances.
    pub is_logarithmic: bool,
}

/// One curve.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// The contender's name.
    pub name: String,
    /// The points, in the order of `x`.
    pub points: Vec<Point>,
}

/// One repeated measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// The point's place on the horizontal axis.
    pub x: Place,
    /// A value for each round, in the unit of the vertical axis.
    pub samples: Vec<f64>,
    /// The reason why there is no sample, or no further sample.
    pub refused: Option<String>,
}

/// A place on the horizontal axis.
#[derive(Clone, Debug, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Place {
    /// A number, for example of clients or bytes.
    Number(f64),
    /// The name of a group of bars.
    Name(String),
}

/// A ratio to reach.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Goal {
    /// The measurement that is compared.
    pub what: String,
    /// The name of the figure that has the measurement.
    pub figure: String,
    /// The wanted ratio.
    pub wanted: f64,
    /// The reached ratio: the median over the rounds; `None` if one of the compared points was not measured.
    pub reached: Option<f64>,
    /// The least and the greatest ratio of the rounds.
    pub spread: Option<(f64, f64)>,
    /// The peer, or the other measurement, with which the measurement is compared.
    pub beside: String,
}

impl Axis {
    /// Returns an axis on which equal differences have equal distances.
    pub fn linear(name: &str) -> Axis {
        Axis { name: name.to_owned(), is_logarithmic: false }
    }

    /// Returns an axis on which equal ratios have equal distances.
    pub fn logarithmic(name: &str) -> Axis {
        Axis { name: name.to_owned(), is_logarithmic: true }
    }
}

impl Figure {
    /// Returns the series with this name.
    pub fn series(&self, name: &str) -> Option<&Series> {
        self.series.iter().find(|series| series.name == name)
    }

    /// Returns the point of a series at a place.
    fn point(&self, name: &str, x: &Place) -> Option<&Point> {
        self.series(name)?.points.iter().find(|point| point.x == *x)
    }

    /// Returns the median of a series at a place.
    pub fn median(&self, name: &str, x: &Place) -> Option<f64> {
        self.point(name, x)?.median()
    }

    /// Returns, for each round, the point `of` as a multiple of the point `by`, each given by its series and place. The
    /// two measurements of a round are near each other in time, so the machine was in a similar state. Returns nothing
    /// if one of the points was not measured.
    pub fn ratios(&self, of: (&str, &Place), by: (&str, &Place)) -> Vec<f64> {
        let samples = |(name, x)| self.point(name, x).map_or(&[][..], |point| point.samples.as_slice());
        samples(of).iter().zip(samples(by)).map(|(of, by)| of / by).collect()
    }

    /// Returns a sentence with the median ratio of the series `of` to the series `by` at each place that both have;
    /// `None` if they have no place in common.
    pub fn times_text(&self, of: &str, by: &str) -> Option<String> {
        let places = self.places();
        let said = places.iter().filter_map(|x| {
            let times = median(self.ratios((of, x), (by, x)))?;
            Some(format!("{x}: {}", spelled(times)))
        });
        let said: Vec<String> = said.collect();
        (!said.is_empty()).then(|| format!("Ratio of `{of}` to `{by}`. {}.", said.join("; ")))
    }

    /// Returns the name and the median of the best series at a place, except the series in `without`.
    pub fn best_but(&self, without: &[&str], x: &Place) -> Option<(&str, f64)> {
        let others = self.series.iter().filter(|series| !without.contains(&series.name.as_str()));
        let reached = others.filter_map(|series| Some((series.name.as_str(), self.median(&series.name, x)?)));
        reached.max_by(|(_, one), (_, other)| one.total_cmp(other))
    }

    /// Returns all places of all series. Numbers are sorted, and names are in the order in which they occur first.
    pub fn places(&self) -> Vec<Place> {
        let mut places: Vec<Place> = Vec::new();
        for point in self.series.iter().flat_map(|series| &series.points) {
            if !places.contains(&point.x) {
                places.push(point.x.clone());
            }
        }
        if let Some(Place::Number(_)) = places.first() {
            places.sort_by(|one, other| one.partial_cmp(other).unwrap_or(std::cmp::Ordering::Equal));
        }
        places
    }
}

impl Point {
    /// Returns the median of the samples, if there are any.
    pub fn median(&self) -> Option<f64> {
        median(self.samples.iter().copied())
    }

    /// Returns the least and the greatest sample, if there are any.
    pub fn spread(&self) -> Option<(f64, f64)> {
        spread(&self.samples)
    }

    /// Returns a point that could not be measured, with the reason.
    pub fn refused(x: Place, why: &str) -> Point {
        Point { x, samples: Vec::new(), refused: Some(why.to_owned()) }
    }
}

impl Series {
    /// Returns a series whose points could not be measured, with the reason.
    pub fn refused(name: &str, places: impl IntoIterator<Item = Place>, why: &str) -> Series {
        let points = places.into_iter().map(|x| Point::refused(x, why)).collect();
        Series { name: name.to_owned(), points }
    }
}

/// Returns the least and the greatest sample, if there are any.
fn spread(samples: &[f64]) -> Option<(f64, f64)> {
    let least = samples.iter().copied().min_by(f64::total_cmp)?;
    let greatest = samples.iter().copied().max_by(f64::total_cmp)?;
    Some((least, greatest))
}

impl Goal {
    /// Returns a goal whose reached ratio is the median of `ratios`, which has a ratio for each round.
    pub fn new(what: &str, figure: &Figure, beside: &str, wanted: f64, ratios: &[f64]) -> Goal {
        let (what, figure, beside) = (what.to_owned(), figure.id.clone(), beside.to_owned());
        Goal { what, figure, wanted, reached: median(ratios.iter().copied()), spread: spread(ratios), beside }
    }

    /// Returns whether the goal was reached, or `None` if it could not be measured.
    pub fn is_met(&self) -> Option<bool> {
        self.reached.map(|reached| reached >= self.wanted)
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Place::Number(number) => f.write_str(&spelled(*number)),
            Place::Name(name) => f.write_str(name),
        }
    }
}

/// Returns a number for people: three significant digits, or all digits of a whole number; thousands are separated.
pub fn spelled(number: f64) -> String {
    if !number.is_finite() {
        return "-".to_owned();
    }
    let digits = match number.abs() {
        size if size >= 100.0 || size == 0.0 || number.fract() == 0.0 => 0,
        size if size >= 10.0 => 1,
        size if size >= 1.0 => 2,
        size if size >= 0.1 => 3,
        _ => 4,
    };
    let plain = format!("{number:.digits$}");
    let (whole, rest) = plain.split_at(plain.find('.').unwrap_or(plain.len()));
    let (sign, whole) = whole.strip_prefix('-').map_or(("", whole), |whole| ("-", whole));
    let mut grouped = String::new();
    for (at, digit) in whole.chars().enumerate() {
        if at != 0 && (whole.len() - at) % 3 == 0 {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    format!("{sign}{grouped}{rest}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_significant_digits_and_separated_thousands() {
        let spelled = [1_234_567.0, 999.6, 12.34, 1.234, 0.1234, 0.012_34, 64.0, 0.0, -1234.5].map(super::spelled);
        assert_eq!(spelled, ["1,234,567", "1,000", "12.3", "1.23", "0.123", "0.0123", "64", "0", "-1,234"]);
        assert_eq!(super::spelled(f64::NAN), "-");
    }

    #[test]
    fn a_goal_is_compared_with_the_best_peer_that_was_measured() {
        let point = |x, samples: &[f64]| Point { x: Place::Number(x), samples: samples.to_vec(), refused: None };
        let series = |name: &str, points| Series { name: name.to_owned(), points };
        let figure = Figure {
            id: String::new(),
            title: String::new(),
            paper: String::new(),
            here: String::new(),
            x: Axis::linear("clients"),
            y: Axis::linear("a second"),
            series: vec![
                series("libtp", vec![point(2.0, &[9.0]), point(1.0, &[5.0, 1.0, 7.0])]),
                series("one", vec![point(1.0, &[2.0])]),
                series("two", vec![point(1.0, &[3.0]), point(4.0, &[])]),
            ],
            notes: Vec::new(),
        };
        assert_eq!(figure.median("libtp", &Place::Number(1.0)), Some(5.0));
        assert_eq!(figure.times_text("libtp", "one").unwrap(), "Ratio of `libtp` to `one`. 1: 2.50.");
        assert_eq!(figure.times_text("libtp", "none"), None);
        assert_eq!(figure.best_but(&["libtp"], &Place::Number(1.0)), Some(("two", 3.0)));
        assert_eq!(figure.best_but(&["libtp"], &Place::Number(2.0)), None);
        assert_eq!(figure.places(), [1.0, 2.0, 4.0].map(Place::Number));
        assert_eq!(figure.series[0].points[1].spread(), Some((1.0, 7.0)));
    }

    #[test]
    fn a_goal_s_ratio_is_the_median_of_the_rounds_ratios_and_not_a_ratio_of_medians() {
        let series = |name: &str, samples: &[f64]| {
            let points = vec![Point { x: Place::Number(1.0), samples: samples.to_vec(), refused: None }];
            Series { name: name.to_owned(), points }
        };
        // The machine was three times as fast in the first round. In the last round it was slow while it measured
        // libtp.
        let all = vec![series("libtp", &[30.0, 10.0, 12.0]), series("peer", &[15.0, 5.0, 12.0]), series("gone", &[])];
        let axis = Axis::linear("a");
        let (id, none) = ("f".to_owned(), String::new());
        let figure = Figure {
            id,
            title: none.clone(),
            paper: none.clone(),
            here: none,
            x: axis.clone(),
            y: axis,
            series: all,
            notes: Vec::new(),
        };
        let at = Place::Number(1.0);
        let goal = |peer| Goal::new("faster", &figure, peer, 1.9, &figure.ratios(("libtp", &at), (peer, &at)));
        assert_eq!((goal("peer").reached, goal("peer").spread), (Some(2.0), Some((1.0, 2.0))));
        assert_eq!(goal("peer").is_met(), Some(true), "the ratio of the medians is 1");
        assert_eq!((goal("gone").reached, goal("gone").is_met()), (None, None));
    }
}

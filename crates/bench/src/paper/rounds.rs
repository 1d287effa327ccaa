//! Alternating measurements: a round measures each case once. So changes of the machine's speed affect all cases alike.

use crate::error::Result;

use super::figure::{Place, Point, Series};

/// A point of a series, and the function that measures a sample of it.
pub struct Case<'c> {
    /// The name of the point's series.
    pub series: String,
    /// The point's place on the horizontal axis.
    pub x: Place,
    /// Measures one sample. After an error the case is not measured again, and the report has the error's text.
    pub sample: Box<dyn FnMut() -> Result<Sample> + 'c>,
}

/// The order of the cases in a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Every other round goes backwards. So no case always follows the same case, and neighbouring cases stay
    /// neighbours.
    BackAndForth,
    /// Every round has the given order, because a case needs the results of the case before it.
    AsGiven,
}

/// The result of one round of a case.
#[derive(Clone, Debug)]
pub struct Sample {
    /// The value in the unit of the figure.
    pub value: f64,
    /// `ok`, or a description of the fault that the audit found. A fault discards all samples of the case.
    pub audit: String,
    /// The details of the sample, for the file of samples.
    pub raw: serde_json::Value,
}

/// One line of raw.jsonl.
#[derive(Clone, Debug, serde::Serialize)]
pub struct RawLine {
    /// The figure's name.
    pub figure: String,
    /// The series' name.
    pub series: String,
    /// The place on the horizontal axis.
    pub x: Place,
    /// The round's number, from 1.
    pub round: u32,
    /// The sample's value.
    pub value: Option<f64>,
    /// The reason why there is no value.
    pub refused: Option<String>,
    /// The details of the sample.
    pub report: serde_json::Value,
    /// Whether the case was measured and its audit failed.
    #[serde(skip)]
    pub audit_failed: bool,
}

impl Sample {
    /// Returns a sample that needs no audit.
    pub fn of(value: f64) -> Sample {
        Sample { value, audit: "ok".to_owned(), raw: serde_json::Value::Null }
    }
}

impl<'c> Case<'c> {
    /// Returns a case.
    pub fn new(series: &str, x: Place, sample: impl FnMut() -> Result<Sample> + 'c) -> Case<'c> {
        Case { series: series.to_owned(), x, sample: Box::new(sample) }
    }
}

/// Measures `rounds` samples of each case. A round measures one sample of each case. Calls `watch` before each
/// measurement, and `keep` with each result.
pub fn in_turns(
    figure: &str,
    cases: &mut [Case<'_>],
    order: Order,
    rounds: u32,
    watch: &mut dyn FnMut(&str),
    keep: &mut dyn FnMut(RawLine),
) -> Vec<Series> {
    let mut points: Vec<Point> =
        cases.iter().map(|case| Point { x: case.x.clone(), samples: Vec::new(), refused: None }).collect();
    for round in 1..=rounds {
        for nth in 0..cases.len() {
            let is_backwards = order == Order::BackAndForth && round % 2 == 0;
            let at = if is_backwards { cases.len() - 1 - nth } else { nth };
            let (case, point) = (&mut cases[at], &mut points[at]);
            if point.refused.is_some() {
                continue;
            }
            watch(&format!("{}, {}", case.series, case.x));
            let taken = (case.sample)();
            let audit_failed = taken.as_ref().is_ok_and(|sample| sample.audit != "ok");
            let (value, refused, report) = match taken {
                Ok(sample) if sample.audit == "ok" => (Some(sample.value), None, sample.raw),
                Ok(sample) => (None, Some(format!("the audit failed: {}", sample.audit)), sample.raw),
                Err(error) => (None, Some(error.to_string()), serde_json::Value::Null),
            };
            point.samples.extend(value);
            // A failed audit discards the earlier samples, too.
            if refused.is_some() {
                point.samples.clear();
            }
            point.refused.clone_from(&refused);
            let (figure, series, x) = (figure.to_owned(), case.series.clone(), case.x.clone());
            keep(RawLine { figure, series, x, round, value, refused, report, audit_failed });
        }
    }
    let mut series: Vec<Series> = Vec::new();
    for (case, point) in cases.iter().zip(points) {
        match series.iter_mut().find(|series| series.name == case.series) {
            Some(series) => series.points.push(point),
            None => series.push(Series { name: case.series.clone(), points: vec![point] }),
        }
    }
    series
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;
    use std::cell::RefCell;

    #[test]
    fn cases_are_measured_in_turns_and_a_failed_case_is_reported() {
        let order = RefCell::new(Vec::new());
        let case = |name: &'static str, x: f64, fails: bool| {
            let order = &order;
            Case::new(name, Place::Number(x), move || {
                order.borrow_mut().push((name, x));
                match fails && order.borrow().len() > 3 {
                    true => Err(Error::Settings("the case fails".into())),
                    false => Ok(Sample::of(x)),
                }
            })
        };
        let mut cases = [case("a", 1.0, false), case("b", 1.0, true), case("a", 2.0, false)];
        let mut raw = Vec::new();
        let series = in_turns("f", &mut cases, Order::BackAndForth, 3, &mut |_| {}, &mut |line| raw.push(line));
        drop(cases);
        let order = order.into_inner();
        assert_eq!(order[..3], [("a", 1.0), ("b", 1.0), ("a", 2.0)]);
        assert_eq!(order[3..6], [("a", 2.0), ("b", 1.0), ("a", 1.0)], "the second round goes backwards");
        assert_eq!(order.len(), 8, "the failed case was not measured again");
        assert_eq!(raw.len(), 8);
        assert_eq!((series.len(), series[0].points.len()), (2, 2));
        assert_eq!(series[0].points[0].samples, [1.0; 3]);
        assert_eq!(series[1].points[0].refused.as_deref(), Some("the case fails"));
    }

    #[test]
    fn samples_with_a_failed_audit_are_discarded() {
        let mut asked = 0;
        let mut case = Case::new("a", Place::Name("x".into()), || {
            asked += 1;
            let audit = if asked == 2 { "a record is lost" } else { "ok" };
            Ok(Sample { audit: audit.into(), ..Sample::of(5.0) })
        });
        let mut failed = Vec::new();
        let mut keep = |line: RawLine| failed.push(line.audit_failed);
        let series = in_turns("f", std::slice::from_mut(&mut case), Order::AsGiven, 3, &mut |_| {}, &mut keep);
        assert_eq!(failed, [false, true]);
        let point = &series[0].points[0];
        assert!(point.samples.is_empty(), "{point:?}");
        assert!(point.refused.as_deref().is_some_and(|why| why.contains("a record is lost")), "{point:?}");
    }
}

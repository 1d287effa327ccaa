//! The two sources of Vista's speed (Rio Vista, section 5.3): RVM's gain from a safe file cache, and Vista's gain over
//! RVM on a safe file cache.

use crate::paper::figure::{Axis, Figure, Place, Point, Series};
use crate::paper::Paper;

use super::{RVM, RVM_RIO, VISTA};

const CACHE: &str = "the safe file cache: rvm-rio compared with rvm";
const VISTA_ALONE: &str = "vista compared with rvm-rio";

/// Makes the figure from figures 5a, 5b and 5c, if this run has measured any of them.
pub(super) fn figure(paper: &mut Paper<'_>) {
    let (mut cache, mut vista) = (Vec::new(), Vec::new());
    for (id, name, is_cost) in [
        ("vista-5a", "synthetic, 8 bytes", true),
        ("vista-5b", "debit-credit", false),
        ("vista-5c", "order-entry", false),
    ] {
        let Some(figure) = paper.figures.iter().find(|figure| figure.id == id) else { continue };
        let x = Place::Name(name.to_owned());
        cache.extend(times(figure, RVM_RIO.name, RVM.name, is_cost).map(|samples| point(&x, samples)));
        vista.extend(times(figure, VISTA.name, RVM_RIO.name, is_cost).map(|samples| point(&x, samples)));
    }
    if cache.is_empty() && vista.is_empty() {
        return;
    }
    paper.figures.push(Figure {
        id: "vista-5-factors".into(),
        title: "The gain from a safe file cache, and the further gain from Vista".into(),
        paper: "Rio Vista, section 5.3: Rio made RVM 11 to 20 times as fast, and Vista was 14 to 100 times as fast as RVM on Rio.".into(),
        here: "The values of figures 5a, 5b and 5c at their smallest size. Each ratio is of two samples of the same round. The first ratio \
               compares a sync of the disk with a system call, so it depends on the disk."
            .into(),
        x: Axis::linear("benchmark"),
        y: Axis::logarithmic("times as fast"),
        series: [(CACHE, cache), (VISTA_ALONE, vista)]
            .map(|(name, points)| Series { name: name.to_owned(), points })
            .into(),
        notes: Vec::new(),
    });
}

fn point(x: &Place, samples: Vec<f64>) -> Point {
    Point { x: x.clone(), samples, refused: None }
}

/// Returns, for each round, the speed of contender `one` as a multiple of the speed of contender `other`, at the first
/// place. Returns `None` if one of the contenders was not measured.
fn times(figure: &Figure, one: &str, other: &str, is_cost: bool) -> Option<Vec<f64>> {
    let samples = |name: &str| Some(&figure.series(name)?.points.first()?.samples);
    let (one, other) = (samples(one)?, samples(other)?);
    let times = one.iter().zip(other).map(|(one, other)| if is_cost { other / one } else { one / other });
    Some(times.collect()).filter(|times: &Vec<f64>| !times.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_is_above_one_for_a_lower_cost_and_for_a_higher_rate() {
        let series = |name: &str, samples: &[f64]| {
            let points = vec![point(&Place::Number(8.0), samples.to_vec()), point(&Place::Number(9.0), vec![1e9])];
            Series { name: name.to_owned(), points }
        };
        let figure = Figure {
            id: String::new(),
            title: String::new(),
            paper: String::new(),
            here: String::new(),
            x: Axis::linear("bytes"),
            y: Axis::linear("times"),
            series: vec![series("vista", &[2.0, 4.0]), series("rvm-rio", &[6.0, 8.0]), series("rvm", &[])],
            notes: Vec::new(),
        };
        assert_eq!(times(&figure, "vista", "rvm-rio", true), Some(vec![3.0, 2.0]));
        assert_eq!(times(&figure, "rvm-rio", "vista", false), Some(vec![3.0, 2.0]));
        assert_eq!(times(&figure, "rvm-rio", "rvm", true), None, "rvm was not measured");
        assert_eq!(times(&figure, "vista", "none", true), None);
    }
}

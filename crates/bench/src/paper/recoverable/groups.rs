//! RVM's group commit, with several transactions for each sync (Rio Vista figure 6), and the time until each
//! transaction is safe.

use std::cell::RefCell;

use crate::error::Result;
use crate::memory::{MemoryEngine, Workload};
use crate::paper::figure::{Axis, Figure, Place, Point, Series};
use crate::paper::rounds::Case;
use crate::paper::Paper;

use super::{as_rates, figure as number, pmemobj, pmemobj_left_out, rounds, Contender, Runner, RVM, VISTA};

const GROUPS: [u32; 3] = [1, 8, 64];
const GROUPS_QUICK: [u32; 2] = [1, 64];
/// The workloads, with the letters of the paper's figures. The paper's figure 6a has all sizes. Here three sizes have a
/// figure each.
const WORKLOADS: [(&str, &str, Workload); 5] = [
    ("a", "synthetic, 64 bytes", Workload::Synthetic { bytes: 64, is_hot: false }),
    ("a-4096", "synthetic, 4,096 bytes", Workload::Synthetic { bytes: 4_096, is_hot: false }),
    ("a-65536", "synthetic, 65,536 bytes", Workload::Synthetic { bytes: 65_536, is_hot: false }),
    ("b", "debit-credit", Workload::DebitCredit),
    ("c", "order-entry", Workload::OrderEntry),
];

/// A sample's response times: the contender, the group's size, and the median and the 99th percentile in microseconds.
type Response = (&'static str, u32, [f64; 2]);

/// Measures throughput and response times by the size of a group.
pub(in crate::paper) fn figure_6(paper: &mut Paper<'_>) -> Result<()> {
    WORKLOADS.into_iter().try_for_each(|(which, name, workload)| figures(paper, which, name, workload))
}

fn figures(paper: &mut Paper<'_>, which: &str, name: &str, workload: Workload) -> Result<()> {
    let responses = RefCell::new(Vec::new());
    let groups: &[u32] = if paper.settings.is_quick { &GROUPS_QUICK } else { &GROUPS };
    let alone = [Some(VISTA), pmemobj(paper)].into_iter().flatten().map(|contender| (1, contender));
    let of_group = |group: u32| (group, Contender { engine: MemoryEngine::Rvm { group }, ..RVM });
    let mut cases = Vec::new();
    for (group, contender) in groups.iter().copied().map(of_group).chain(alone) {
        // A transaction of libpmemobj is safe when it ends, so its response time follows from the rate.
        let times_responses = contender.engine != MemoryEngine::Pmemobj;
        let (runner, responses) = (Runner { times_responses, ..Runner::of(paper) }, &responses);
        cases.push(Case::new(contender.name, Place::Number(f64::from(group)), move || {
            let sample = runner.run(workload, contender)?;
            if !times_responses {
                return Ok(sample);
            }
            let of = |place| Ok(number(&sample.raw, place)? / 1e3);
            let times = [of("/responses/p50_ns")?, of("/responses/p99_ns")?];
            if sample.audit == "ok" {
                responses.borrow_mut().push((contender.name, group, times));
            }
            Ok(sample)
        }));
    }
    let id = format!("vista-6{which}");
    let series = as_rates(paper.measure(&id, &mut cases, rounds(paper))?);
    drop(cases);
    let left_out = pmemobj_left_out(paper, Place::Number(1.0));
    let figure = Figure {
        id: id.clone(),
        title: format!("RVM's group commit: {name}"),
        paper: format!(
            "Rio Vista figure 6{}: RVM that syncs 1, 8 and 64 transactions at once, compared with Vista. The text says \
             that RVM does more transactions per second with groups, and that a thread whose transactions depend on each \
             other gains nothing.",
            &which[..1],
        ),
        here: "One thread runs all transactions of a group, so it continues before they are on the disk. Vista and libpmemobj have no groups: \
               their only value is shown at each group size."
            .into(),
        x: Axis::logarithmic("transactions per group"),
        y: Axis::logarithmic("transactions per second"),
        series: series.into_iter().map(|series| everywhere(series, groups)).chain(left_out).collect(),
        notes: Vec::new(),
    };
    paper.figures.push(Figure {
        id: format!("{id}-response"),
        title: format!("The time of a transaction until it is safe: {name}"),
        paper: "Rio Vista, section 5.3: group commit makes the response time slightly worse, because a transaction waits for its group.".into(),
        here: "For Vista and RVM: the time from a transaction's begin until its group is synced. One thread begins each transaction as soon as the previous \
               transaction has ended. The time includes truncations, and two readings of the clock, which are most of Vista's time."
            .into(),
        y: Axis::logarithmic("microseconds"),
        series: response_series(&responses.into_inner()).into_iter().map(|series| everywhere(series, groups)).collect(),
        ..figure.clone()
    });
    paper.figures.push(figure);
    Ok(())
}

/// If a series has only one point, repeats this point for each group size.
fn everywhere(mut series: Series, groups: &[u32]) -> Series {
    if let [only] = series.points.as_slice() {
        let at = |group: &u32| Point { x: Place::Number(f64::from(*group)), ..only.clone() };
        series.points = groups.iter().map(at).collect();
    }
    series
}

/// Returns a series of medians and a series of 99th percentiles for each contender, by group size.
fn response_series(responses: &[Response]) -> Vec<Series> {
    let mut all = Vec::new();
    for name in [RVM.name, VISTA.name] {
        for (nth, quantile) in ["p50", "p99"].into_iter().enumerate() {
            let points = GROUPS.iter().filter_map(|group| {
                let of_point = responses.iter().filter(|one| (one.0, one.1) == (name, *group));
                let samples: Vec<f64> = of_point.map(|one| one.2[nth]).collect();
                let x = Place::Number(f64::from(*group));
                (!samples.is_empty()).then_some(Point { x, samples, refused: None })
            });
            all.push(Series { name: format!("{name}, {quantile}"), points: points.collect() });
        }
    }
    all.retain(|series: &Series| !series.points.is_empty());
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn response_times_are_sorted_by_group_and_quantile_and_vista_has_a_point_at_each_group_size() {
        let of = |name, group, p50| (name, group, [p50, 10.0 * p50]);
        let responses = [of("rvm", 8, 5.0), of("rvm", 1, 1.0), of("rvm", 8, 7.0), of("vista", 1, 0.1)];
        let series: Vec<Series> =
            response_series(&responses).into_iter().map(|series| everywhere(series, &GROUPS)).collect();
        let names: Vec<&str> = series.iter().map(|series| series.name.as_str()).collect();
        assert_eq!(names, ["rvm, p50", "rvm, p99", "vista, p50", "vista, p99"]);
        assert_eq!(series[1].points[0].samples, [10.0]);
        assert_eq!(series[1].points[1].samples, [50.0, 70.0]);
        let vista: Vec<_> = series[2].points.iter().map(|point| (point.x.clone(), point.median())).collect();
        assert_eq!(vista, [1.0, 8.0, 64.0].map(|group| (Place::Number(group), Some(0.1))));
    }
}

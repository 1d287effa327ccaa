//! Compares the counts at two neighbouring places of a curve, to find the reasons why the cost is higher at the second
//! place. A rise without a reason may be a cliff, and is marked in the report.

use serde::Serialize;

use super::work::{Counts, Operation};
use crate::paper::spelled;

/// Largest measured cost, as a multiple of the explained cost, that is not marked as a cliff.
pub(super) const TOLERANCE: f64 = 1.5;
/// From this length in bytes on, the whole cost of an operation is the cost of its value. For a shorter value, the
/// value's share of the cost is proportional to its length.
const ALL_VALUE: f64 = 10_000.0;

/// The observations of an operation at a place.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Seen {
    /// The place along the axis.
    pub x: f64,
    /// Nanoseconds per operation: the median of the rounds.
    pub ns: f64,
    /// Nanoseconds per operation in each round. The rounds of all places alternate.
    pub rounds: Vec<f64>,
    /// Number of pages from the root to a leaf, including both.
    pub height: u32,
    /// Bytes of a value.
    pub value_bytes: f64,
    /// The environment's pages read and written, and log bytes, per operation.
    pub counts: Counts,
    /// Nanoseconds of a load from memory of the same size without the library; 0 if not measured.
    pub load_ns: f64,
    /// Nanoseconds to read one page from the file without the library; 0 if not measured.
    pub page_ns: f64,
    /// Nanoseconds to write a page twice without the library, in batches that are synced; 0 if not measured.
    pub write_ns: f64,
}

/// The step from one place to the next.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Bend {
    /// The curve's name.
    pub series: String,
    /// The step's description.
    pub text: String,
    /// Whether the step's rise in cost has no explanation.
    pub is_cliff: bool,
}

/// Returns the explained cost of an operation at `to`, in nanoseconds: the cost at `from`, raised by the known reasons.
/// Also returns the reasons in words.
fn explained(operation: Operation, from: &Seen, to: &Seen) -> (f64, Vec<String>) {
    let (mut ns, mut why) = (from.ns, Vec::new());
    if to.height > from.height {
        ns *= f64::from(to.height) / f64::from(from.height);
        why.push(format!("the tree's height goes from {} to {}", from.height, to.height));
    }
    if to.value_bytes > from.value_bytes {
        let times = to.value_bytes / from.value_bytes;
        ns *= 1.0 + (times - 1.0) * (from.value_bytes / ALL_VALUE).min(1.0);
        why.push(format!("a value has {} times as many bytes", spelled(times)));
    }
    let slower = to.load_ns - from.load_ns;
    if slower > 0.0 {
        let lines = operation.cold_lines(to.height);
        ns += slower * f64::from(lines);
        let (before, after) = (spelled(from.load_ns), spelled(to.load_ns));
        why.push(format!(
            "a load from memory takes {after} ns instead of {before} ns, and the operation touches about {lines} cache lines"
        ));
    }
    for (what, before, after, each) in [
        ("misses", from.counts.misses, to.counts.misses, to.page_ns),
        ("pages written", from.counts.writes, to.counts.writes, to.write_ns),
    ] {
        if after > before + 0.005 {
            ns += (after - before) * each;
            let each = if each > 0.0 { format!(", {} ns each", spelled(each)) } else { String::new() };
            why.push(format!("{what} go from {} to {}{each}", spelled(before), spelled(after)));
        }
    }
    let (before, after) = (from.counts.log_bytes, to.counts.log_bytes);
    if after > before * TOLERANCE + 1.0 {
        why.push(format!("bytes of log go from {} to {}", spelled(before), spelled(after)));
    }
    (ns, why)
}

/// Describes a curve's step between two places. `at` returns the name of a place.
pub(super) fn bend(operation: Operation, from: &Seen, to: &Seen, at: &dyn Fn(f64) -> String) -> Bend {
    let (ns, why) = explained(operation, from, to);
    // Costs are compared within a round, which measures the two places one after the other: the machine may be slow in
    // one round and fast in the next.
    let above = |from_ns: &f64, to_ns: &f64| to_ns / from_ns > ns / from.ns * TOLERANCE;
    let steps = from.rounds.iter().zip(&to.rounds);
    let (all, slow) = (steps.len(), steps.filter(|(from, to)| above(from, to)).count());
    let is_cliff = slow * 2 > all;
    let verdict = match slow {
        0 => ".".to_owned(),
        _ if is_cliff => format!("; {slow} of {all} rounds took more than {TOLERANCE} times that. **cliff?**"),
        _ => format!("; {slow} of {all} rounds took more than {TOLERANCE} times that."),
    };
    let why = if why.is_empty() { "nothing that is counted changes".to_owned() } else { why.join("; ") };
    let series = operation.name().to_owned();
    let text = format!(
        "{series}, {} to {}: {} to {} ns, {} times. Per operation {why}: this explains up to {} ns{}",
        at(from.x),
        at(to.x),
        spelled(from.ns),
        spelled(to.ns),
        spelled(to.ns / from.ns),
        spelled(ns),
        verdict,
    );
    Bend { series, text, is_cliff }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(x: f64, ns: f64) -> Seen {
        let counts = Counts::default();
        Seen {
            x,
            ns,
            rounds: vec![ns; 5],
            height: 3,
            value_bytes: 100.0,
            counts,
            load_ns: 10.0,
            page_ns: 2000.0,
            write_ns: 50_000.0,
        }
    }

    fn of(from: &Seen, to: &Seen) -> Bend {
        bend(Operation::Get, from, to, &spelled)
    }

    #[test]
    fn a_rise_within_the_tolerance_is_no_cliff_and_a_larger_rise_without_a_reason_is_a_cliff() {
        assert!(!of(&seen(1.0, 500.0), &seen(10.0, 700.0)).is_cliff);
        let rise = of(&seen(1.0, 500.0), &seen(10.0, 900.0));
        assert!(rise.is_cliff && rise.text.contains("500 to 900 ns, 1.80 times"), "{}", rise.text);
        assert!(
            rise.text.contains("nothing that is counted changes")
                && rise.text.ends_with("5 of 5 rounds took more than 1.5 times that. **cliff?**")
        );
    }

    #[test]
    fn a_few_slow_rounds_are_no_cliff_and_are_mentioned() {
        let steps = |to: [f64; 5]| of(&seen(1.0, 500.0), &Seen { rounds: to.to_vec(), ..seen(10.0, to[2]) });
        let noisy = steps([600.0, 700.0, 700.0, 900.0, 9000.0]);
        assert!(
            !noisy.is_cliff && noisy.text.ends_with("2 of 5 rounds took more than 1.5 times that."),
            "{}",
            noisy.text
        );
        assert!(steps([600.0, 700.0, 800.0, 900.0, 9000.0]).is_cliff, "most of the rounds are slow");
        // Only in the third round is `to` far above `from`. In the fourth and fifth round both places were slow.
        let from = Seen { rounds: vec![500.0, 500.0, 500.0, 5000.0, 5000.0], ..seen(1.0, 500.0) };
        let to = Seen { rounds: vec![600.0, 600.0, 6000.0, 6000.0, 6000.0], ..seen(10.0, 6000.0) };
        assert!(!of(&from, &to).is_cliff);
    }

    #[test]
    fn height_misses_writes_slow_memory_and_long_values_explain_only_their_own_cost() {
        let from = seen(1.0, 500.0);
        let taller = |ns| Seen { height: 4, ..seen(10.0, ns) };
        assert!(!of(&from, &taller(900.0)).is_cliff);
        assert!(of(&from, &taller(1100.0)).is_cliff);
        assert!(of(&from, &taller(900.0)).text.contains("height goes from 3 to 4"));
        let counts = Counts { misses: 0.9, ..Counts::default() };
        let missing = |ns| Seen { counts, ..seen(10.0, ns) };
        assert!(!of(&from, &missing(3000.0)).is_cliff);
        assert!(of(&from, &missing(3500.0)).is_cliff);
        assert!(of(&from, &missing(3000.0)).text.contains("misses go from 0 to 0.900"));
        let counts = Counts { writes: 0.1, ..Counts::default() };
        let writing = |ns| Seen { counts, ..seen(10.0, ns) };
        assert!(!of(&from, &writing(8000.0)).is_cliff);
        assert!(of(&from, &writing(8500.0)).is_cliff);
        let farther = |ns| Seen { load_ns: 60.0, ..seen(10.0, ns) };
        assert!(!of(&from, &farther(1400.0)).is_cliff);
        assert!(of(&from, &farther(1600.0)).is_cliff);
        let longer = |from: f64, ns| {
            let before = Seen { value_bytes: from, ..seen(1.0, 500.0) };
            of(&before, &Seen { value_bytes: from * 10.0, ..seen(10.0, ns) }).is_cliff
        };
        assert!(!longer(10_000.0, 7000.0));
        assert!(longer(10_000.0, 8000.0));
        // If a short value becomes ten times as long, a get does not become ten times as expensive.
        assert!(!longer(100.0, 800.0));
        assert!(longer(100.0, 900.0));
    }
}

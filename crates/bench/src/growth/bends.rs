//! Why a curve bends: from what was counted at two neighbouring places. What that does not explain may be a cliff, and is marked.

use serde::Serialize;

use super::work::{Counts, Operation};
use crate::paper::spelled;

/// So many times what is explained may be measured before it is marked.
pub(super) const TOLERANCE: f64 = 1.5;

/// What was seen of an operation at a place.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Seen {
    /// The place along the axis.
    pub x: f64,
    /// Nanoseconds an operation: the median.
    pub ns: f64,
    /// Pages from the root to a leaf.
    pub height: u32,
    /// Bytes of a value.
    pub value_bytes: f64,
    /// What an operation made the page cache do.
    pub counts: Counts,
    /// Nanoseconds of a bare load from as much memory; 0 if that was not measured.
    pub load_ns: f64,
    /// Nanoseconds of a bare read of a page of the file; 0 if that was not measured.
    pub page_ns: f64,
}

/// From one place to the next.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Bend {
    /// Of which curve.
    pub series: String,
    /// What there is to say of it.
    pub text: String,
    /// It costs more than is explained.
    pub is_cliff: bool,
}

/// What an operation may cost at `to`, in nanoseconds, by what it cost at `from`, and of what that is made, in words.
fn explained(operation: Operation, from: &Seen, to: &Seen) -> (f64, Vec<String>) {
    let (mut ns, mut why) = (from.ns, Vec::new());
    if to.height > from.height {
        ns *= f64::from(to.height) / f64::from(from.height);
        why.push(format!("the tree's height goes from {} to {}", from.height, to.height));
    }
    if to.value_bytes > from.value_bytes {
        let times = to.value_bytes / from.value_bytes;
        ns *= times;
        why.push(format!("a value has {} times as many bytes", spelled(times)));
    }
    let slower = to.load_ns - from.load_ns;
    if slower > 0.0 {
        let lines = operation.cold_lines(to.height);
        ns += slower * f64::from(lines);
        let (before, after) = (spelled(from.load_ns), spelled(to.load_ns));
        why.push(format!("a bare load goes from {before} to {after} ns, and some {lines} lines are touched"));
    }
    // A page is written twice, first into the double-write file.
    for (what, before, after, times) in [
        ("misses", from.counts.misses, to.counts.misses, 1.0),
        ("pages written", from.counts.writes, to.counts.writes, 2.0),
    ] {
        if after > before + 0.005 {
            ns += (after - before) * times * to.page_ns;
            why.push(format!("{what} go from {} to {}", spelled(before), spelled(after)));
        }
    }
    (ns, why)
}

/// What there is to say of a curve between two places; `at` names a place.
pub(super) fn bend(operation: Operation, from: &Seen, to: &Seen, at: &dyn Fn(f64) -> String) -> Bend {
    let (ns, why) = explained(operation, from, to);
    let is_cliff = to.ns > ns * TOLERANCE;
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
        if is_cliff { ". **cliff?**" } else { "." },
    );
    Bend { series, text, is_cliff }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(x: f64, ns: f64) -> Seen {
        Seen { x, ns, height: 3, value_bytes: 100.0, counts: Counts::default(), load_ns: 10.0, page_ns: 2000.0 }
    }

    fn of(from: &Seen, to: &Seen) -> Bend {
        bend(Operation::Get, from, to, &spelled)
    }

    #[test]
    fn a_cost_that_stays_is_no_cliff_and_one_that_nothing_explains_is() {
        assert!(!of(&seen(1.0, 500.0), &seen(10.0, 700.0)).is_cliff);
        let fall = of(&seen(1.0, 500.0), &seen(10.0, 900.0));
        assert!(fall.is_cliff && fall.text.contains("500 to 900 ns, 1.80 times"), "{}", fall.text);
        assert!(fall.text.contains("nothing that is counted changes") && fall.text.ends_with("**cliff?**"));
    }

    #[test]
    fn height_misses_memory_and_bytes_explain_what_they_cost_and_no_more() {
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
        let farther = |ns| Seen { load_ns: 60.0, ..seen(10.0, ns) };
        assert!(!of(&from, &farther(1400.0)).is_cliff);
        assert!(of(&from, &farther(1600.0)).is_cliff);
        let longer = |ns| Seen { value_bytes: 1000.0, ..seen(10.0, ns) };
        assert!(!of(&from, &longer(7000.0)).is_cliff);
        assert!(of(&from, &longer(8000.0)).is_cliff);
    }
}

//! The same seed must make the same run. Otherwise no failure could be repeated.

use libtp_sim::Change;
use libtp_tests::workload::{self, Plan};

/// Describes a change without its bytes, because some bytes are the environment's random number.
fn shape(change: &Change) -> String {
    match change {
        Change::Write { file, offset, bytes, .. } => format!("write {} {offset} {}", file.0, bytes.len()),
        Change::SetLen { file, bytes } => format!("set_len {} {bytes}", file.0),
        Change::Allocate { file, range } => format!("allocate {} {range:?}", file.0),
        other => format!("{} {}", other.node().0, std::any::type_name_of_val(other)),
    }
}

#[test]
fn a_seed_makes_the_same_changes_in_the_same_order() {
    // With this seed, restarts redo on one thread. On several threads, pages would go to the disk in any order.
    let plan = Plan { transactions: 120, ..Plan::full(6) };
    let shapes = || -> Vec<String> {
        let run = workload::run(plan, |_| {}).expect("the workload runs");
        run.machine.disk.trace().iter().map(|entry| shape(&entry.change)).collect()
    };
    let (first, second) = (shapes(), shapes());
    let differs = first.iter().zip(&second).position(|(one, other)| one != other);
    assert_eq!(differs.map(|at| (at, &first[at], &second[at])), None);
    assert_eq!(first.len(), second.len());
}

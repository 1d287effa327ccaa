//! Transactions whose process was killed in the commit. The observations of other transactions show whether such a
//! transaction committed.
//!
//! If another transaction saw a write of the killed transaction, the killed transaction counts as committed with all
//! its steps, so the checker reports writes that are missing. If a row is missing at the end and no committed
//! transaction deleted it, one killed transaction that deleted this row, and made no changes except deletions, counts
//! as committed with its deletions only. Every other killed transaction counts as aborted. The end of a killed
//! transaction that counts as committed is unknown, so the real-time order puts no transaction after it.

use std::collections::HashSet;

use crate::history::{Element, Record, Step};

/// Adds to a history the transactions of `unheard` that committed, and returns their number. The history's last record
/// is the transaction that read everything at the end; it stays the last.
pub fn settle(history: &mut Vec<Record>, mut unheard: Vec<Record>) -> usize {
    let end = history.pop().expect("the last record read everything");
    let before = history.len();
    // The only observation of a transaction may be by another transaction of `unheard`, so the search is repeated.
    loop {
        let seen = seen(history.iter().chain([&end]));
        let (found, still): (Vec<_>, Vec<_>) = unheard.into_iter().partition(|record| left_a_trace(record, &seen));
        unheard = still;
        if found.is_empty() {
            break;
        }
        history.extend(found.into_iter().map(there));
    }
    for row in vanished(history, &end) {
        let is_deletion = |step: &Step| matches!(step, Step::Delete { row: of } if of.element == row);
        let deleted_it = |record: &Record| record.steps.iter().any(is_deletion);
        let Some(at) = unheard.iter().rposition(|record| only_deletes(record) && deleted_it(record)) else { continue };
        // If two killed transactions tried to delete the row, either may have deleted it, and the choice here may be
        // wrong. So the reads of the chosen transaction are not judged.
        let mut record = there(unheard.remove(at));
        record.steps.retain(|step| matches!(step, Step::Delete { .. }));
        history.push(record);
    }
    let settled = history.len() - before;
    history.push(end);
    settled
}

fn there(record: Record) -> Record {
    Record { is_committed: true, end: u64::MAX, ..record }
}

/// Returns every element that a transaction saw.
fn seen<'r>(records: impl Iterator<Item = &'r Record>) -> HashSet<Element> {
    let mut seen = HashSet::new();
    for step in records.flat_map(|record| &record.steps) {
        match step {
            Step::ReadList { elements, .. } => seen.extend(elements),
            Step::Append { before, .. } => seen.extend(before),
            Step::ReadCell { found, .. } => seen.extend([found]),
            Step::WriteCell { before, .. } => seen.extend([before]),
            Step::Scan { rows, .. } => seen.extend(rows.iter().map(|row| row.element)),
            Step::Delete { row } => seen.extend([row.element]),
            Step::Push { .. } | Step::Insert { .. } => {}
        }
    }
    seen
}

fn left_a_trace(record: &Record, seen: &HashSet<Element>) -> bool {
    record.steps.iter().any(|step| match step {
        Step::Append { element, .. } | Step::Push { element, .. } | Step::WriteCell { element, .. } => {
            seen.contains(element)
        }
        Step::Insert { row } => seen.contains(&row.element),
        _ => false,
    })
}

fn only_deletes(record: &Record) -> bool {
    !record.steps.iter().any(|step| {
        matches!(step, Step::Append { .. } | Step::Push { .. } | Step::WriteCell { .. } | Step::Insert { .. })
    })
}

/// Returns the rows that were inserted and are missing at the end, although no transaction of the history deleted
/// them.
fn vanished(history: &[Record], end: &Record) -> Vec<Element> {
    let steps = || history.iter().filter(|record| record.is_committed).flat_map(|record| &record.steps);
    let mut there = HashSet::new();
    for step in &end.steps {
        if let Step::Scan { rows, .. } = step {
            there.extend(rows.iter().map(|row| row.element));
        }
    }
    let deleted = |step: &Step| if let Step::Delete { row } = step { Some(row.element) } else { None };
    there.extend(steps().filter_map(deleted));
    let inserted = |step: &Step| if let Step::Insert { row } = step { Some(row.element) } else { None };
    steps().filter_map(inserted).filter(|element| !there.contains(element)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checker::{check, lost_at_the_end};
    use crate::history::Row;

    fn record(thread: usize, steps: Vec<Step>) -> Record {
        let begin = thread as u64 * 10;
        Record { thread, begin, end: begin + 5, is_committed: true, steps }
    }

    fn append(list: u32, element: Element) -> Step {
        Step::Append { list, before: vec![], element }
    }

    fn end(lists: &[(u32, &[Element])], rows: &[Row]) -> Record {
        let read = |&(list, elements): &(u32, &[Element])| Step::ReadList { list, elements: elements.to_vec() };
        let scan = Step::Scan { range: 0, from: 0, to: 100, rows: rows.iter().copied().collect() };
        record(99, lists.iter().map(read).chain([scan]).collect())
    }

    fn settled_and_right(mut history: Vec<Record>, unheard: Vec<Record>) -> (usize, bool) {
        let settled = settle(&mut history, unheard);
        let verdict = check(&history);
        let lost = lost_at_the_end(&history, history.len() - 1);
        (settled, verdict.is_clean() && lost.is_empty())
    }

    #[test]
    fn all_or_none_of_a_killed_transaction_is_right_and_half_is_wrong() {
        let both = || vec![record(1, vec![append(1, 10), append(2, 20)])];
        assert_eq!(settled_and_right(vec![end(&[(1, &[]), (2, &[])], &[])], both()), (0, true));
        assert_eq!(settled_and_right(vec![end(&[(1, &[10]), (2, &[20])], &[])], both()), (1, true));
        assert_eq!(settled_and_right(vec![end(&[(1, &[10]), (2, &[])], &[])], both()), (1, false));
    }

    #[test]
    fn a_transaction_that_another_saw_counts_as_committed() {
        let reader = record(2, vec![Step::ReadList { list: 1, elements: vec![10] }]);
        let (settled, is_right) =
            settled_and_right(vec![reader, end(&[(1, &[])], &[])], vec![record(1, vec![append(1, 10)])]);
        assert_eq!(settled, 1);
        assert!(!is_right);
    }

    #[test]
    fn a_killed_transaction_that_deletes_a_missing_row_counts_as_committed() {
        let row = Row { range: 0, place: 3, element: 30 };
        let inserter = || record(1, vec![Step::Insert { row }]);
        let deleter = || vec![record(2, vec![Step::Delete { row }])];
        assert_eq!(settled_and_right(vec![inserter(), end(&[], &[])], deleter()), (1, true));
        assert_eq!(settled_and_right(vec![inserter(), end(&[], &[row])], deleter()), (0, true));
        assert_eq!(settled_and_right(vec![inserter(), end(&[], &[])], vec![]), (0, false));
        let and_read = || vec![record(2, vec![Step::Delete { row }, Step::ReadList { list: 1, elements: vec![] }])];
        assert_eq!(settled_and_right(vec![inserter(), end(&[], &[])], and_read()), (1, true));
    }
}

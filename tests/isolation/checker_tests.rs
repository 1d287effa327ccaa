//! Tests that the checker finds every kind of anomaly, and finds none in a good history.

use super::*;

/// Makes a history whose transactions overlap in time, so that the real-time order adds no dependency.
fn history(transactions: &[&[Step]]) -> Vec<Record> {
    let count = transactions.len() as u64;
    let record = |(thread, steps): (usize, &&[Step])| Record {
        thread,
        begin: thread as u64,
        end: count + thread as u64,
        is_committed: true,
        steps: steps.to_vec(),
    };
    transactions.iter().enumerate().map(record).collect()
}

fn append(list: u32, before: &[Element], element: Element) -> Step {
    Step::Append { list, before: before.to_vec(), element }
}

fn read(list: u32, elements: &[Element]) -> Step {
    Step::ReadList { list, elements: elements.to_vec() }
}

fn row(place: u32) -> Row {
    Row { range: 0, place, element: u64::from(place) }
}

fn scan(places: &[u32]) -> Step {
    Step::Scan { range: 0, from: 0, to: 100, rows: places.iter().map(|&place| row(place)).collect() }
}

fn names(history: &[Record]) -> Vec<&'static str> {
    let verdict = check(history);
    assert!(verdict.anomalies.is_empty(), "{:?}", verdict.anomalies);
    verdict.cycles.iter().chain(&verdict.strict_cycles).map(Cycle::name).collect()
}

#[test]
fn a_serial_history_is_clean() {
    let good = history(&[
        &[append(1, &[], 10), append(2, &[], 20)],
        &[read(1, &[10]), append(2, &[20], 21)],
        &[read(2, &[20, 21]), scan(&[]), Step::Insert { row: row(5) }, scan(&[5])],
        &[scan(&[5]), Step::Delete { row: row(5) }, scan(&[])],
    ]);
    let verdict = check(&good);
    assert!(verdict.is_clean(), "{}", verdict.worst());
    assert_eq!(verdict.committed, 4);
    assert!(verdict.dependencies >= 5);
}

#[test]
fn write_skew_is_a_cycle_of_two_antidependencies() {
    let skew = [&[read(1, &[]), append(2, &[], 20)][..], &[read(2, &[]), append(1, &[], 10)]];
    assert_eq!(names(&history(&skew)), ["G2"]);
}

#[test]
fn read_skew_is_a_cycle_with_one_antidependency() {
    let skew = [&[append(1, &[], 10), append(2, &[], 20)][..], &[read(1, &[]), read(2, &[20])]];
    assert_eq!(names(&history(&skew)), ["G-single"]);
}

#[test]
fn circular_information_flow_is_found() {
    let flow = [&[append(1, &[], 10), read(2, &[20])][..], &[append(2, &[], 20), read(1, &[10])]];
    assert_eq!(names(&history(&flow)), ["G1c"]);
}

#[test]
fn writes_in_two_orders_are_a_cycle() {
    let writes = [&[append(1, &[], 10), append(2, &[21], 20)][..], &[append(1, &[10], 11), append(2, &[], 21)]];
    let verdict = check(&history(&writes));
    assert_eq!(verdict.cycles.len(), 1);
}

#[test]
fn a_read_between_two_writes_of_one_transaction_is_a_cycle() {
    let between = [&[append(1, &[], 10), append(1, &[10], 11)][..], &[read(1, &[10])]];
    assert_eq!(names(&history(&between)), ["G-single"]);
}

#[test]
fn a_lost_update_of_a_list_is_two_orders() {
    let lost = [&[append(1, &[], 10)][..], &[append(1, &[], 11)]];
    assert_eq!(check(&history(&lost)).anomalies, [Anomaly::TwoOrders(1)]);
}

#[test]
fn a_lost_update_of_a_cell_is_found() {
    let write = |element| Step::WriteCell { cell: 1, before: 0, element };
    let lost = [&[write(10)][..], &[write(11)]];
    assert!(check(&history(&lost)).anomalies.contains(&Anomaly::LostUpdate(Object::Cell(1))));
}

#[test]
fn an_aborted_write_must_not_be_seen() {
    let mut dirty = history(&[&[append(1, &[], 10)], &[read(1, &[10])]]);
    dirty[0].is_committed = false;
    assert_eq!(check(&dirty).anomalies, [Anomaly::AbortedRead(Object::List(1), 10)]);
}

#[test]
fn two_scans_that_miss_each_others_inserts_are_a_cycle() {
    let phantom = [&[scan(&[]), Step::Insert { row: row(5) }][..], &[scan(&[]), Step::Insert { row: row(7) }]];
    assert_eq!(names(&history(&phantom)), ["G2"]);
}

#[test]
fn a_row_that_appears_between_two_scans_is_a_cycle() {
    let phantom = [&[scan(&[]), scan(&[5])][..], &[Step::Insert { row: row(5) }]];
    assert_eq!(names(&history(&phantom)), ["G-single"]);
}

#[test]
fn a_transaction_must_see_its_own_rows() {
    let blind = [&[Step::Insert { row: row(5) }, scan(&[])][..]];
    assert_eq!(check(&history(&blind)).anomalies, [Anomaly::NotItsOwn(row(5))]);
}

#[test]
fn a_row_deleted_twice_is_found() {
    let delete = [Step::Delete { row: row(5) }];
    let twice = [&[Step::Insert { row: row(5) }][..], &delete, &delete];
    assert!(check(&history(&twice)).anomalies.contains(&Anomaly::LostUpdate(Object::Row(5))));
}

#[test]
fn a_missing_row_is_not_judged_if_the_scan_may_be_before_its_insertion_or_after_its_deletion() {
    let unclear = [&[Step::Insert { row: row(5) }][..], &[Step::Delete { row: row(5) }], &[scan(&[])]];
    let verdict = check(&history(&unclear));
    assert!(verdict.is_clean(), "{}", verdict.worst());
    assert_eq!(verdict.ambiguous, 1);
}

#[test]
fn the_time_shows_whether_a_scan_came_before_insertion_or_after_deletion() {
    let mut later = history(&[&[Step::Insert { row: row(5) }], &[Step::Delete { row: row(5) }], &[scan(&[])]]);
    (later[2].begin, later[2].end) = (100, 101);
    let verdict = check(&later);
    assert!(verdict.is_clean(), "{}", verdict.worst());
    assert_eq!(verdict.ambiguous, 0);
    // Without the deletion the scan should have found the row.
    later[1].steps.clear();
    assert_eq!(check(&later).anomalies, [Anomaly::Missed(row(5))]);
}

#[test]
fn a_late_read_of_an_old_state_is_not_strictly_serializable() {
    let mut late = history(&[&[append(1, &[], 10)], &[read(1, &[])]]);
    (late[1].begin, late[1].end) = (100, 101);
    assert_eq!(names(&late), ["not strict"]);
}

#[test]
fn an_element_missing_at_the_end_is_found() {
    let history = history(&[
        &[append(1, &[], 10), Step::Insert { row: row(5) }],
        &[Step::Insert { row: row(6) }, Step::Delete { row: row(6) }],
        &[read(1, &[]), scan(&[6])],
    ]);
    let lost = lost_at_the_end(&history, 2);
    assert_eq!(lost.len(), 3, "{lost:?}");
    assert!(lost.contains(&Anomaly::LostWrite(Object::List(1), 10)));
}

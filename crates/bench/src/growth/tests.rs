//! Tests of the growth benchmark, at sizes that take a moment.

use std::cell::RefCell;

use super::*;
use crate::paper::Place;
use work::{slice, Operation};

const TINY: Pace = Pace {
    records: &[1_000, 2_000],
    cache: 1 << 20,
    values_bytes: 64 << 10,
    values_max: 500,
    scale: Scale::SMALL,
    processes: &[1],
    slice: Duration::from_millis(4),
    long_slice: Duration::from_millis(4),
    rounds: 2,
};

fn settings(out: &Path, disk: &Path) -> GrowthSettings<'static> {
    GrowthSettings {
        out: out.to_path_buf(),
        disk: disk.to_path_buf(),
        is_quick: true,
        records: Vec::new(),
        only: Vec::new(),
        command: "tp bench growth".to_owned(),
        build: crate::paper::Build::unknown(),
        client: &|_, _| Command::new("false"),
    }
}

fn tree_of(directory: &Path, records: u64, value_bytes: usize, cache: Option<u64>) -> Tree {
    Tree::make(&directory.join("tree"), Size { records, value_bytes, cache }, &mut |_| {}).unwrap()
}

#[test]
fn every_figure_by_size_has_a_point_for_each_operation_and_leaves_nothing_on_the_disk() {
    let (out, disk) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let settings = settings(out.path(), disk.path());
    let message = RefCell::new(Vec::new());
    let mut watch = |news: News<'_>| message.borrow_mut().push(format!("{news:?}"));
    let run_record = RunRecord::begin(out.path(), &mut watch).unwrap();
    let mut study = Study { settings: &settings, pace: &TINY, run_record, made: 0 };
    for part in [by_records, by_cache, by_values] {
        let Chapter { figure, counted, bends } = part(&mut study).unwrap();
        let places = figure.places();
        for operation in Operation::ALL {
            let series = figure.series(operation.name()).unwrap();
            assert_eq!(series.points.len(), places.len(), "{}", figure.id);
            for point in &series.points {
                assert_eq!((point.samples.len(), &point.refused), (2, &None), "{} {point:?}", figure.id);
            }
        }
        assert_eq!(counted.len(), Operation::ALL.len() * places.len(), "{}", figure.id);
        assert_eq!(bends.len(), Operation::ALL.len() * (places.len() - 1), "{}", figure.id);
        let logs = counted.iter().filter(|one| one.operation == "update").all(|one| one.seen.counts.log_bytes > 0.0);
        assert!(logs, "{}: an update has no log bytes", figure.id);
    }
    assert!(std::fs::read_dir(disk.path()).unwrap().next().is_none(), "the run left files on the disk");
    assert!(message.borrow().iter().any(|line| line.contains("loading")), "{message:?}");
    let raw = std::fs::read_to_string(out.path().join("raw.jsonl")).unwrap();
    assert!(raw.lines().count() > 100 && raw.contains("per_operation"), "{raw}");
}

#[test]
fn a_database_larger_than_its_cache_has_misses_and_a_smaller_database_has_almost_no_misses() {
    let misses = |cache| {
        let parent = tempfile::tempdir().unwrap();
        let tree = tree_of(parent.path(), 50_000, 100, Some(cache));
        slice(&tree, Operation::Get, Duration::from_millis(20)).unwrap().1.misses
    };
    assert!(misses(1 << 20) > 0.3);
    assert!(misses(64 << 20) < 0.01);
}

#[test]
fn the_height_is_right_and_the_audit_notices_a_missing_record_and_a_lost_update() {
    let parent = tempfile::tempdir().unwrap();
    let tree = tree_of(parent.path(), 1_000, 100, None);
    assert_eq!(tree.audit().unwrap(), "ok");
    let lost = tree.key(7);
    assert!(tree.env.run(|txn| tree.db.delete(txn, &lost)).unwrap());
    assert_eq!(tree.audit().unwrap(), "999 records are in the database, and 1000 were stored");
    tree.env.run(|txn| tree.db.put(txn, &lost, &tree.value(7))).unwrap();
    slice(&tree, Operation::Update, Duration::from_millis(4)).unwrap();
    assert_eq!(tree.audit().unwrap(), "ok");
    tree.updates.set(tree.updates.get() + 1);
    assert!(tree.audit().unwrap().contains("updates are lost"), "the audit did not notice a lost update");
    assert_eq!(tree.remove().unwrap(), 2, "about twenty leaves below one root");
    assert_eq!(
        tree_of(parent.path(), 40_000, 100, None).remove().unwrap(),
        3,
        "the downlinks of a thousand leaves do not fit on one page"
    );
}

#[test]
fn the_figures_of_a_database_whose_audit_fails_are_discarded_and_the_failure_is_reported() {
    let (out, disk) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (settings, mut quiet) = (settings(out.path(), disk.path()), |_: News<'_>| {});
    let run_record = RunRecord::begin(out.path(), &mut quiet).unwrap();
    let mut study = Study { settings: &settings, pace: &TINY, run_record, made: 0 };
    let mut point = Point { x: Place::Number(7.0), samples: vec![1.0], refused: None };
    study.judge("growth-records, 7", "ok", std::iter::once(&mut point));
    assert_eq!((point.samples.len(), study.run_record.failed_audits.len()), (1, 0));
    study.judge("growth-records, 7", "there are 6 records, and not 7", std::iter::once(&mut point));
    assert!(point.samples.is_empty() && point.refused.is_some(), "{point:?}");
    assert_eq!(
        study.run_record.failed_audits,
        ["growth-records, 7: the audit failed: there are 6 records, and not 7".to_owned()]
    );
}

#[test]
fn a_record_with_a_wrong_value_makes_the_measurement_fail() {
    let parent = tempfile::tempdir().unwrap();
    let tree = tree_of(parent.path(), 100, 100, None);
    for number in 0..100 {
        tree.env.run(|txn| tree.db.put(txn, &tree.key(number), &[b'x'; 100])).unwrap();
    }
    let why = slice(&tree, Operation::Get, Duration::from_millis(4)).unwrap_err().to_string();
    assert!(why.contains("is not the written record"), "{why}");
}

#[test]
fn deletions_remove_the_inserted_records_and_fail_without_inserted_records() {
    let parent = tempfile::tempdir().unwrap();
    let tree = tree_of(parent.path(), 1_000, 100, None);
    let long = Duration::from_secs(1);
    let short = Duration::from_millis(1);
    assert!(slice(&tree, Operation::Delete, short).unwrap_err().to_string().contains("nothing was inserted"));
    slice(&tree, Operation::Insert, long).unwrap();
    assert_eq!(tree.count().unwrap(), 1_100, "a slice inserts at most a tenth of the records, however long it is");
    slice(&tree, Operation::Update, short).unwrap();
    assert_eq!(tree.audit().unwrap(), "ok", "the audit of a database with inserted records");
    slice(&tree, Operation::Delete, short).unwrap();
    assert_eq!((tree.count().unwrap(), tree.audit().unwrap().as_str()), (1_000, "ok"));
}

#[test]
fn a_database_without_room_is_reported_as_not_measured_and_the_others_are_measured() {
    let (out, disk) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut settings = settings(out.path(), disk.path());
    (settings.records, settings.only) = (vec![1_000, 1 << 50], vec!["growth-records".to_owned()]);
    let growth = run_growth(&settings, &mut |_| {}).unwrap();
    assert_eq!((growth.figures.as_slice(), growth.steps), (["growth-records".to_owned()].as_slice(), 0));
    let report = std::fs::read_to_string(out.path().join("report.md")).unwrap();
    let wanted = [
        "not measured",
        "get, 1,125,899,906,842,624: not measured:",
        "of disk, and ",
        "![By records](growth-records.svg)",
    ];
    wanted.iter().for_each(|words| assert!(report.contains(words), "{words}: {report}"));
    assert!(out.path().join("growth-records.svg").exists());
}

#[test]
fn impossible_settings_are_refused_before_anything_is_made() {
    let parent = tempfile::tempdir().unwrap();
    let refused = |records: &[u64], only: &str| {
        let mut settings = settings(&parent.path().join("out"), parent.path());
        (settings.records, settings.only) = (records.to_vec(), vec![only.to_owned()]);
        run_growth(&settings, &mut |_| {}).unwrap_err().to_string()
    };
    assert!(refused(&[], "growth-nothing").contains("there are growth-records, growth-cache"));
    assert!(refused(&[5], "growth-records").contains("5 records are too few"));
    assert!(!parent.path().join("out").exists());
}

#[test]
fn a_jump_in_the_cost_at_a_number_of_processes_is_reported_as_a_cliff_once() {
    let mut figure = figure("f", "", "", "processes");
    let point = |(x, ns)| crate::paper::Point { x: Place::Number(x), samples: vec![9.0, ns, ns], refused: None };
    let points = [(1.0, 10.0), (2.0, 14.0), (4.0, 16.0), (8.0, 17.0), (16.0, 26.0)].map(point);
    figure.series.push(Series { name: "TPC-B".into(), points: points.into() });
    let bends = by_processes::bends(&figure);
    assert_eq!(bends.iter().map(|bend| bend.is_cliff).collect::<Vec<_>>(), [false, true, false, true]);
    assert!(bends[1].text.starts_with("TPC-B, 2 to 4 processes"), "{}", bends[1].text);
}

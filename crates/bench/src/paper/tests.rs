//! Tests of whole runs: failed audits, unavailable contenders, and the removal of all files.

use std::cell::RefCell;

use super::single_user::{bank_of, is_of};
use super::*;
use crate::error::Error;

/// Returns the settings of the smallest run. Every process that this run starts fails.
fn settings<'s>(out: &Path, disk: &Path, only: &[&str]) -> PaperSettings<'s> {
    PaperSettings {
        out: out.to_path_buf(),
        disk: disk.to_path_buf(),
        memory: disk.to_path_buf(),
        is_quick: true,
        is_tiny: true,
        peers: Vec::new(),
        only: only.iter().map(|name| (*name).to_owned()).collect(),
        command: "tp bench paper".to_owned(),
        build: Build::unknown(),
        client: &|_, _| Command::new("false"),
        kernel_client: None,
        memory_client: &|_| Command::new("false"),
        shell: &|_| Command::new("false"),
    }
}

#[test]
fn a_failed_audit_discards_the_samples_of_its_bank_and_fails_the_run() {
    let (out, disk) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let settings = settings(out.path(), disk.path(), &[]);
    let mut quiet = |_: News<'_>| {};
    let mut paper = Paper::new(&settings, RunRecord::begin(out.path(), &mut quiet).unwrap());
    let places = ["in memory, not synced", "each commit on the disk"];
    // The banks have the names that figure 6 gives to its banks.
    let lines = places.map(|place| (bank_of("libtp", place), Contender::of("btreemap", Durability::Relaxed)));
    let (banks, _) = paper.banks(&lines, Scale::SMALL);
    banks[0].1.miss_one();
    let point = |place: &str| Point { x: Place::Name(place.to_owned()), samples: vec![7.0], refused: None };
    let mut series = [Series { name: "libtp".into(), points: places.map(point).into() }];
    paper.settle_by(banks, &mut series, &is_of);
    let [failed, good] = &series[0].points[..] else { panic!("{series:?}") };
    assert!(failed.samples.is_empty() && failed.refused.as_ref().is_some_and(|why| why.contains("audit failed")));
    assert_eq!(good.samples, [7.0]);
    assert_eq!(paper.run_record.failed_audits.len(), 1, "{:?}", paper.run_record.failed_audits);
    assert!(paper.notes()[0].contains("libtp in memory, not synced"), "{:?}", paper.notes());
    assert!(std::fs::read_dir(disk.path()).unwrap().next().is_none(), "the run left an audited bank");
}

#[test]
fn an_engine_that_refuses_oo1_gets_a_row_with_its_reason() {
    let (out, disk) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let settings = settings(out.path(), disk.path(), &[]);
    let mut quiet = |_: News<'_>| {};
    let mut paper = Paper::new(&settings, RunRecord::begin(out.path(), &mut quiet).unwrap());
    let refusing: crate::oo1::OpenParts = |_| Err(Error::engine("peer", "opening")("it refuses to open"));
    oo1::table(&mut paper, 500, &[crate::oo1::ours()[0], ("peer", refusing)]).unwrap();
    let refused = &paper.figures[0].series("peer").unwrap().points[0];
    assert!(refused.refused.as_ref().is_some_and(|why| why.contains("it refuses to open")), "{refused:?}");
    let measured = &paper.figures[0].series("libtp").unwrap().points;
    assert!(measured.len() == 8 && measured.iter().all(|point| point.samples.len() == 3), "{measured:?}");
    assert!(std::fs::read_dir(disk.path()).unwrap().next().is_none(), "the run left a database");
}

#[test]
fn an_unavailable_contender_has_a_row_and_the_report_is_written_after_every_part() {
    let (out, disk) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let settings = settings(out.path(), disk.path(), &["libtp-4", "libtp-6"]);
    let report = out.path().join("report.md");
    let after_one = RefCell::new(String::new());
    let mut watch = |news: News<'_>| {
        if matches!(news, News::Figure { nth: 2, .. }) {
            after_one.replace(std::fs::read_to_string(&report).unwrap());
        }
    };
    let outcome = run_paper(&settings, &mut watch).unwrap();
    assert!(outcome.failed_audits.is_empty(), "{:?}", outcome.failed_audits);
    let after_one = after_one.into_inner();
    assert!(after_one.contains("record call, one process: not measured: "), "{after_one}");
    let all = std::fs::read_to_string(&report).unwrap();
    for figure in ["## libtp-4:", "## libtp-6:", "## libtp-4.2:"] {
        assert!(all.contains(figure), "{figure}: {all}");
    }
    let met = outcome.goals.iter().find(|goal| goal.what == "each commit on the disk").unwrap();
    assert!(met.reached.is_some() && met.spread.is_some(), "{met:?}");
    let left: Vec<_> = std::fs::read_dir(disk.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(left.is_empty(), "{left:?}");
}

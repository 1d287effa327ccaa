//! The list of failpoints agrees with the sources: no process would die at a place that the list lacks.

use std::collections::BTreeSet;
use std::path::Path;

use libtp_tests::failpoints::{Scene, FAILPOINTS};

#[test]
fn every_failpoint_in_the_sources_is_on_the_list() {
    let mut sites = Vec::new();
    let mut open = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates")];
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(directory).unwrap().map(Result::unwrap) {
            let path = entry.path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|end| end == "rs") {
                let source = std::fs::read_to_string(path).unwrap();
                let calls = source.split("failpoint(\"").skip(1);
                sites.extend(calls.filter_map(|text| text.split_once('"')).map(|(name, _)| name.to_owned()));
            }
        }
    }
    let unique: BTreeSet<String> = sites.iter().cloned().collect();
    assert_eq!(unique.len(), sites.len(), "two places have one name");
    let listed: BTreeSet<String> = FAILPOINTS.iter().map(|it| it.name.to_owned()).collect();
    assert_eq!(listed.len(), FAILPOINTS.len(), "a failpoint is listed twice");
    assert!(listed.len() >= 150, "there are {} failpoints", listed.len());
    assert_eq!(
        unique.difference(&listed).collect::<Vec<_>>(),
        Vec::<&String>::new(),
        "places that are not on the list"
    );
    assert_eq!(listed.difference(&unique).collect::<Vec<_>>(), Vec::<&String>::new(), "names without a place");
}

#[test]
fn who_is_to_die_before_a_repair_dies_at_a_failpoint() {
    for point in FAILPOINTS {
        if let Scene::Repair(Some(before)) = point.scene {
            assert!(FAILPOINTS.iter().any(|other| other.name == before), "{}: there is no {before:?}", point.name);
        }
    }
}

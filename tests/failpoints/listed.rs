//! The list of failpoints agrees with the sources. No test would try a failpoint that the list lacks.

use std::collections::BTreeSet;

use libtp_tests::failpoints::{self, Scene};
use libtp_tests::sources::names_after;

#[test]
fn every_failpoint_in_the_sources_is_on_the_list() {
    let sites = names_after("failpoint(\"");
    let unique: BTreeSet<String> = sites.iter().cloned().collect();
    assert_eq!(unique.len(), sites.len(), "two places have one name");
    let listed: BTreeSet<String> = failpoints::all().map(|it| it.name.to_owned()).collect();
    assert_eq!(listed.len(), failpoints::all().count(), "a failpoint is listed twice");
    assert!(listed.len() >= 150, "there are {} failpoints", listed.len());
    assert_eq!(
        unique.difference(&listed).collect::<Vec<_>>(),
        Vec::<&String>::new(),
        "failpoints in the sources that are not on the list"
    );
    assert_eq!(
        listed.difference(&unique).collect::<Vec<_>>(),
        Vec::<&String>::new(),
        "names on the list that are not in the sources"
    );
}

#[test]
fn each_death_before_a_repair_is_at_a_listed_failpoint() {
    for point in failpoints::all() {
        if let Scene::Repair(Some(before)) = point.scene {
            assert!(
                failpoints::all().any(|other| other.name == before),
                "{}: there is no failpoint {before:?}",
                point.name
            );
        }
    }
}

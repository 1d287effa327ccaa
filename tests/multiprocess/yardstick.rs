//! The yardstick of processes: planted bugs that a case of this suite must notice. The cases also run without a bug,
//! as this suite.

use libtp_tests::planted_deaths::{Judge, PlantedDeath, PLANTED_DEATHS};
use libtp_tests::trial;

#[test]
fn every_planted_bug_is_noticed_by_its_case() {
    let bugs: Vec<&PlantedDeath> = PLANTED_DEATHS.iter().filter(|bug| matches!(bug.judge, Judge::Case(_))).collect();
    trial::all_noticed(&bugs, "");
}

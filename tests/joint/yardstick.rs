//! The yardstick: every planted bug is noticed by the case that names it.

use libtp_tests::planted_deaths::PlantedDeath;
use libtp_tests::planted_joint::PLANTED_JOINT;
use libtp_tests::trial;

#[test]
fn every_planted_bug_between_records_and_memory_is_noticed() {
    let bugs: Vec<&PlantedDeath> = PLANTED_JOINT.iter().collect();
    // Each bug names its own case.
    trial::all_noticed(&bugs, "yardstick::none");
}

//! The yardstick: every planted bug is noticed by the case that names it.

use libtp_tests::planted_deaths::PlantedDeath;
use libtp_tests::planted_rio::PLANTED_RIO;
use libtp_tests::trial;

#[test]
fn every_planted_bug_in_commits_from_memory_is_noticed() {
    let bugs: Vec<&PlantedDeath> = PLANTED_RIO.iter().collect();
    // Each bug names its own case.
    trial::all_noticed(&bugs, "yardstick::none");
}

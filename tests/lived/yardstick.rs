//! The yardstick: the test notices the growth that each planted bug causes. The house is small, so that a run takes
//! seconds.

use libtp_tests::planted::Suite;
use libtp_tests::trial;

use crate::house::Extent;
use crate::{grown, lived};

#[test]
fn a_small_environment_does_not_grow() {
    let extent = Extent { keys: 1_000 };
    let (run, _) = lived(300_000, extent);
    let grown = grown(&run, extent);
    assert!(grown.is_empty(), "{}", grown.join("; "));
}

#[test]
fn every_planted_bug_that_causes_growth_is_noticed() {
    trial::all_noticed(Suite::Lived, "");
}

//! One process whose transactions roll back parts of themselves: the kept changes are found, and no others.

use libtp_sim::Random;
use libtp_tests::sizes;

use crate::business::Business;
use crate::deaths::{found, SYNC};

#[test]
fn a_rollback_to_a_savepoint_restores_memory() {
    let directory = tempfile::tempdir().unwrap();
    found(directory.path(), SYNC);
    let business = Business::open(directory.path()).unwrap();
    let mut random = Random::new(sizes::first_seed());
    for _ in 0..60 {
        business.transact(&mut random).unwrap();
        business.judge().unwrap_or_else(|wrong| panic!("{wrong}"));
    }
}

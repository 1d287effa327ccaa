//! Several processes share the segments. At random moments, one of them is killed and replaced.

use std::time::Duration;

use libtp_sim::Random;
use libtp_tests::sizes;

use crate::business::Business;
use crate::child::Child;

#[test]
fn concurrent_processes_killed_at_any_moment() {
    let kills = sizes::number("LIBTP_TEST_KILLS", 30);
    let directory = tempfile::tempdir().unwrap();
    let mut random = Random::new(sizes::first_seed());
    let business = Business::open(directory.path()).unwrap();
    let start = |seed| {
        let mut child = Child::start(directory.path(), seed, "");
        assert!(child.says("open"));
        child.work(1_000_000);
        child
    };
    let mut crew: Vec<Child> = (0..3).map(start).collect();
    let (mut told, mut last) = (0, 0);
    for kill in 0..kills {
        std::thread::sleep(Duration::from_micros(random.below(30_000)));
        let chosen = usize::try_from(random.below(3)).unwrap();
        crew[chosen].kill();
        crew[chosen].end();
        told = told.max(crew[chosen].told);
        let count = business.judge().unwrap_or_else(|wrong| panic!("after kill {kill}: {wrong}"));
        assert!(
            count >= told && count >= last,
            "transaction {told} was acknowledged, {last} transactions were found before, {count} now"
        );
        last = count;
        crew[chosen] = start(100 + kill);
    }
    for mut child in crew {
        child.kill();
        child.end();
    }
    let count = business.judge().unwrap();
    assert!(count > kills, "too few transactions committed: {count}");
    println!("figures: {kills} kills among 4 processes, {count} transactions over records and memory, 0 torn, 0 lost");
}

//! A process stands still in the middle of its work, latches and locks in hand. The others may have to wait; nobody takes
//! it for dead, and when it goes on so does everything.

use std::collections::BTreeSet;
use std::time::Duration;

use libtp::Env;
use libtp_tests::sizes;

use crate::bank::Bank;
use crate::crew::Member;

/// It stands still for so long.
const STILL: Duration = Duration::from_secs(2);

#[test]
fn a_process_that_stands_still_is_waited_for_and_never_taken_for_dead() {
    let rounds = sizes::number("LIBTP_TEST_STOPS", 2);
    let directory = tempfile::tempdir().unwrap();
    let mut crew: Vec<Member> = (1..=4).map(|number| Member::start(directory.path(), number)).collect();
    for (at, member) in crew.iter_mut().enumerate() {
        assert_eq!(member.ask(if at % 2 == 0 { "work sync" } else { "work relaxed" }), "working");
    }
    let mut meanwhile = 0;
    let mut told = BTreeSet::new();
    for round in 0..rounds {
        std::thread::sleep(Duration::from_millis(150 + 13 * round));
        let victim = usize::try_from(round % 4).unwrap();
        crew[victim].stop();
        told.extend(crew.iter_mut().flat_map(Member::acknowledged_so_far));
        std::thread::sleep(STILL);
        let more: Vec<_> = crew.iter_mut().flat_map(Member::acknowledged_so_far).collect();
        meanwhile += more.len();
        told.extend(more);
        crew[victim].resume();
    }
    for member in &mut crew {
        told.extend(member.acknowledged_until_it_stops());
    }
    // Whoever had been taken for dead would have been told by an error, or have lost its transactions.
    crew.into_iter().for_each(Member::leave);
    let env = Env::open(directory.path()).unwrap();
    assert_eq!(
        Bank::open(&env).unwrap().audit().unwrap(),
        told,
        "the journal is what was acknowledged, no more and no less"
    );
    for name in env.databases().unwrap() {
        assert!(env.verify(&name).unwrap().findings.is_empty(), "{name}");
    }
    println!("figures: {rounds} times one of four stood still for 2 s: {meanwhile} transfers of the others meanwhile, 0 lost");
}

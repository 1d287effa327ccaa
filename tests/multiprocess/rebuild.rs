//! The shared memory is found broken while processes work in it. One of them rebuilds the memory, and all continue with
//! the same handles. Acknowledged commits are kept, even if they were not yet on disk.

use std::collections::BTreeSet;
use std::time::Duration;

use libtp::Env;
use libtp_sim::Random;
use libtp_tests::sizes;

use crate::crew::Member;
use crate::survivors::judge;

#[test]
fn if_the_memory_is_found_broken_all_processes_continue_with_the_same_handles() {
    let rebuilds = sizes::number("LIBTP_TEST_REBUILDS", 10);
    let directory = tempfile::tempdir().unwrap();
    let mut random = Random::new(11);
    let mut acknowledged = BTreeSet::new();
    let start = |number: u64| Member::working(directory.path(), number);
    let mut crew: Vec<Member> = (1..=3).map(start).collect();
    let env = Env::open_or_create(directory.path()).unwrap();
    for round in 0..rebuilds {
        std::thread::sleep(Duration::from_millis(50 + random.below(150)));
        env.managers().processes.declare_broken();
        if round % 3 == 2 {
            // The victim is killed while it leaves the broken memory, or while it rebuilds the memory.
            let victim = random.index(3);
            std::thread::sleep(Duration::from_micros(random.below(5000)));
            crew[victim].kill();
            let gone = std::mem::replace(&mut crew[victim], start(10 + round));
            acknowledged.extend(gone.acknowledged());
        }
        env.run(|txn| env.btree("journal").and_then(|journal| journal.get(txn, b"no transfer"))).unwrap();
        // The log records are longer than the session may append without a new reservation (PROTOCOLS D11).
        env.run(|txn| env.btree("long")?.put(txn, &round.to_le_bytes(), &[1; 20_000])).unwrap();
    }
    assert_eq!(env.repairs().rebuilds, rebuilds);
    drop(env);
    for member in &mut crew {
        acknowledged.extend(member.acknowledged_until_it_stops());
    }
    crew.into_iter().for_each(Member::leave);
    judge(directory.path(), &acknowledged);
    println!(
        "figures: memory of 3 working processes rebuilt {rebuilds} times: {} transfers, 0 lost",
        acknowledged.len()
    );
}

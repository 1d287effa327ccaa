//! Transactions that wait for each other: one is the victim and gets an error, the others continue, and `Env::run`
//! repeats the victim.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Barrier;
use std::time::{Duration, Instant};

use libtp::{Bytes, Durability, Env, Granularity, Settings, Victim};

use crate::session::{value, with_both, Do, Ended, Scene};

const XY: &[(&str, &str)] = &[("x", "10"), ("y", "20")];

#[test]
fn one_of_two_sessions_that_wait_for_each_other_gets_an_error_at_once() {
    with_both(|granularity| {
        let scene = Scene::new(granularity, XY);
        let (one, two) = (scene.session("one"), scene.session("two"));
        one.does(Do::Put("x", "11"), Ended::Done);
        two.does(Do::Put("y", "22"), Ended::Done);
        one.waits(Do::Put("y", "21"));
        let start = Instant::now();
        two.begins(Do::Put("x", "12"));
        let survivor = match (one.ended(), two.ended()) {
            (Ended::Deadlock, Ended::Done) => two,
            (Ended::Done, Ended::Deadlock) => one,
            both => panic!("one session should be the victim: {both:?}"),
        };
        assert!(start.elapsed() < Duration::from_secs(2), "found only after {:?}", start.elapsed());
        survivor.does(Do::Commit, Ended::Done);
    });
}

#[test]
fn the_youngest_is_chosen_by_default() {
    let scene = Scene::new(Granularity::Record, XY);
    let (old, young) = (scene.session("old"), scene.session("young"));
    young.does(Do::Put("y", "22"), Ended::Done);
    old.does(Do::Put("x", "11"), Ended::Done);
    young.waits(Do::Put("x", "12"));
    old.does(Do::Put("y", "21"), Ended::Done);
    young.goes_on(Ended::Deadlock);
    old.does(Do::Commit, Ended::Done);
}

#[test]
fn of_three_sessions_in_a_circle_exactly_one_is_a_victim() {
    let scene = Scene::new(Granularity::Record, &[("a", "1"), ("b", "2"), ("c", "3")]);
    let sessions = [scene.session("one"), scene.session("two"), scene.session("three")];
    for (session, key) in sessions.iter().zip(["a", "b", "c"]) {
        session.does(Do::Put(key, "9"), Ended::Done);
    }
    sessions[0].waits(Do::Get("b"));
    sessions[1].waits(Do::Get("c"));
    // The last step closes the circle. Session 2 is the youngest, and so the victim. Its abort lets session 1 continue,
    // and the commit of session 1 lets session 0 continue, so their results are awaited in this order.
    sessions[2].begins(Do::Get("a"));
    let mut victims = 0;
    for at in [2, 1, 0] {
        match sessions[at].ended() {
            Ended::Deadlock => victims += 1,
            ended => {
                assert!(matches!(ended, Ended::Value(Some(_))), "{ended:?}");
                sessions[at].does(Do::Commit, Ended::Done);
            }
        }
    }
    assert_eq!(victims, 1);
}

#[test]
fn run_runs_a_victim_again_until_it_commits() {
    let scene = Scene::new(Granularity::Record, &[]);
    let env = scene.env();
    let table = env.btree("table").unwrap();
    env.run(|txn| table.put(txn, b"x", b"0").and_then(|()| table.put(txn, b"y", b"0"))).unwrap();
    let number = |bytes: Option<Vec<u8>>| -> u64 { String::from_utf8(bytes.unwrap()).unwrap().parse().unwrap() };
    let (tries, barrier) = (AtomicU64::new(0), Barrier::new(2));
    let add = |first: &[u8], second: &[u8]| {
        barrier.wait();
        for _ in 0..200 {
            env.run(|txn| {
                tries.fetch_add(1, Ordering::Relaxed);
                for key in [first, second] {
                    let next = number(table.get(txn, key)?) + 1;
                    std::thread::yield_now();
                    table.put(txn, key, next.to_string().as_bytes())?;
                }
                Ok(())
            })
            .unwrap();
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| add(b"x", b"y"));
        scope.spawn(|| add(b"y", b"x"));
    });
    assert_eq!((scene.now("x").as_deref(), scene.now("y").as_deref()), (Some("400"), Some("400")));
    assert!(tries.into_inner() > 400, "there was no deadlock, so the test shows nothing");
}

#[test]
fn every_policy_of_victims_lets_all_work_end() {
    for victim in [Victim::Youngest, Victim::FewestLocks, Victim::FewestLogBytes] {
        for deadlock_period_millis in [None, Some(20)] {
            let directory = tempfile::tempdir().unwrap();
            let settings = Settings {
                victim: Some(victim),
                deadlock_period_millis,
                durability: Some(Durability::Relaxed),
                memory: Some(Bytes::mib(2)),
                ..Settings::default()
            };
            let env = Env::builder().settings(settings).open(directory.path()).unwrap();
            let table = env.btree("table").unwrap();
            let keys: Vec<[u8; 1]> = (0..6).map(|key| [key]).collect();
            env.run(|txn| keys.iter().try_for_each(|key| table.put(txn, key, &[0; 8]))).unwrap();
            std::thread::scope(|scope| {
                for thread in 0..4usize {
                    let (env, table, keys) = (&env, &table, &keys);
                    scope.spawn(move || {
                        for round in 0..30 {
                            env.run(|txn| {
                                for step in 0..3 {
                                    let key = &keys[(thread * 5 + round + step * (thread + 1)) % keys.len()];
                                    table.update_with(txn, key, |bytes| bytes[0] = bytes[0].wrapping_add(1))?;
                                }
                                Ok(())
                            })
                            .unwrap();
                        }
                    });
                }
            });
            let sum = |txn: &libtp::Txn<'_>| {
                keys.iter().map(|key| Ok(u64::from(table.get(txn, key)?.unwrap()[0]))).sum::<libtp::Result<u64>>()
            };
            assert_eq!(env.run(sum).unwrap() % 256, 360 % 256, "{victim:?} {deadlock_period_millis:?}");
        }
    }
}

#[test]
fn an_aborted_victim_leaves_no_change_and_no_lock() {
    with_both(|granularity| {
        let scene = Scene::new(granularity, XY);
        let (one, two) = (scene.session("one"), scene.session("two"));
        two.does(Do::Put("y", "22"), Ended::Done);
        one.does(Do::Get("x"), value("10"));
        two.does(Do::Get("x"), value("10"));
        one.waits(Do::Put("x", "11"));
        two.does(Do::Put("x", "12"), Ended::Deadlock);
        one.goes_on(Ended::Done);
        one.does(Do::Commit, Ended::Done);
        assert_eq!(scene.now("y").as_deref(), Some("20"));
        assert!(scene.env().locks().unwrap().is_empty(), "locks are left: {:?}", scene.env().locks().unwrap());
    });
}

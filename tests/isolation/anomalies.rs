//! The known anomalies, each as a schedule that produces it under weaker isolation (after Kleppmann's hermitage, with
//! Adya's names). Here each schedule ends in a wait, a deadlock, or an answer as if the transactions ran one by one.

use crate::session::{pairs, value, with_both, Do, Ended, Scene, Session};

const XY: &[(&str, &str)] = &[("x", "10"), ("y", "20")];

/// Checks that exactly one of two steps that wait for each other ends in a deadlock. Returns the survivor.
#[track_caller]
fn one_is_victim<'s>(one: &'s Session, other: &'s Session) -> &'s Session {
    match (one.ended(), other.ended()) {
        (Ended::Deadlock, Ended::Done) => other,
        (Ended::Done, Ended::Deadlock) => one,
        both => panic!("one session should be the victim, and the other should continue: {both:?}"),
    }
}

#[test]
fn dirty_write_a_write_waits_for_an_uncommitted_write() {
    with_both(|granularity| {
        let scene = Scene::new(granularity, XY);
        let (one, two) = (scene.session("one"), scene.session("two"));
        one.does(Do::Put("x", "11"), Ended::Done);
        two.waits(Do::Put("x", "12"));
        one.does(Do::Put("y", "21"), Ended::Done);
        one.does(Do::Commit, Ended::Done);
        two.goes_on(Ended::Done);
        two.does(Do::Put("y", "22"), Ended::Done);
        two.does(Do::Commit, Ended::Done);
        assert_eq!((scene.now("x").as_deref(), scene.now("y").as_deref()), (Some("12"), Some("22")));
    });
}

#[test]
fn dirty_read_an_aborted_write_is_never_seen() {
    with_both(|granularity| {
        let scene = Scene::new(granularity, XY);
        let (one, two) = (scene.session("one"), scene.session("two"));
        one.does(Do::Put("x", "101"), Ended::Done);
        two.waits(Do::Get("x"));
        one.does(Do::Abort, Ended::Done);
        two.goes_on(value("10"));
        two.does(Do::Commit, Ended::Done);
    });
}

#[test]
fn dirty_read_an_aborted_insert_and_delete_are_never_seen() {
    with_both(|granularity| {
        let scene = Scene::new(granularity, XY);
        let (one, two) = (scene.session("one"), scene.session("two"));
        one.does(Do::PutNew("new", "1"), Ended::Done);
        one.does(Do::Delete("x"), Ended::WasThere(true));
        two.waits(Do::Scan("a", "xx"));
        one.does(Do::Abort, Ended::Done);
        two.goes_on(pairs(&["x=10"]));
        two.does(Do::Commit, Ended::Done);
    });
}

#[test]
fn intermediate_read_only_the_last_write_is_seen() {
    with_both(|granularity| {
        let scene = Scene::new(granularity, XY);
        let (one, two) = (scene.session("one"), scene.session("two"));
        one.does(Do::Put("x", "101"), Ended::Done);
        two.waits(Do::Get("x"));
        one.does(Do::Put("x", "11"), Ended::Done);
        one.does(Do::Commit, Ended::Done);
        two.goes_on(value("11"));
        two.does(Do::Commit, Ended::Done);
    });
}

#[test]
fn circular_information_flow_makes_one_transaction_a_victim() {
    with_both(|granularity| {
        let scene = Scene::new(granularity, XY);
        let (one, two) = (scene.session("one"), scene.session("two"));
        one.does(Do::Put("x", "11"), Ended::Done);
        two.does(Do::Put("y", "22"), Ended::Done);
        one.waits(Do::Get("y"));
        two.begins(Do::Get("x"));
        let (first, second) = (one.ended(), two.ended());
        match (first, second) {
            (Ended::Deadlock, read) => assert_eq!(read, value("10"), "the second must not read the victim's change"),
            (read, Ended::Deadlock) => assert_eq!(read, value("20"), "the first must not read the victim's change"),
            both => panic!("one session should be the victim: {both:?}"),
        }
    });
}

#[test]
fn observed_transaction_does_not_vanish() {
    with_both(|granularity| {
        let scene = Scene::new(granularity, XY);
        let (one, two, three) = (scene.session("one"), scene.session("two"), scene.session("three"));
        one.does(Do::Put("x", "11"), Ended::Done);
        one.does(Do::Put("y", "19"), Ended::Done);
        two.waits(Do::Put("x", "12"));
        one.does(Do::Commit, Ended::Done);
        two.goes_on(Ended::Done);
        three.waits(Do::Get("x"));
        two.does(Do::Put("y", "18"), Ended::Done);
        two.does(Do::Commit, Ended::Done);
        three.goes_on(value("12"));
        three.does(Do::Get("y"), value("18"));
        three.does(Do::Commit, Ended::Done);
    });
}

#[test]
fn lost_update_of_one_record_makes_one_transaction_a_victim() {
    with_both(|granularity| {
        let scene = Scene::new(granularity, XY);
        let (one, two) = (scene.session("one"), scene.session("two"));
        one.does(Do::Get("x"), value("10"));
        two.does(Do::Get("x"), value("10"));
        one.waits(Do::Put("x", "11"));
        two.begins(Do::Put("x", "12"));
        let survivor = one_is_victim(&one, &two);
        survivor.does(Do::Commit, Ended::Done);
        assert!(["11", "12"].contains(&scene.now("x").unwrap().as_str()));
    });
}

#[test]
fn lost_update_a_second_read_for_update_waits() {
    with_both(|granularity| {
        let scene = Scene::new(granularity, XY);
        let (one, two) = (scene.session("one"), scene.session("two"));
        one.does(Do::GetForUpdate("x"), value("10"));
        two.waits(Do::GetForUpdate("x"));
        one.does(Do::Put("x", "11"), Ended::Done);
        one.does(Do::Commit, Ended::Done);
        two.goes_on(value("11"));
        two.does(Do::Put("x", "12"), Ended::Done);
        two.does(Do::Commit, Ended::Done);
        assert_eq!(scene.now("x").as_deref(), Some("12"));
    });
}

#[test]
fn read_skew_a_read_record_stays_unchanged() {
    with_both(|granularity| {
        let scene = Scene::new(granularity, XY);
        let (one, two) = (scene.session("one"), scene.session("two"));
        one.does(Do::Get("x"), value("10"));
        two.waits(Do::Put("x", "12"));
        one.does(Do::Get("y"), value("20"));
        one.does(Do::Commit, Ended::Done);
        two.goes_on(Ended::Done);
        two.does(Do::Put("y", "18"), Ended::Done);
        two.does(Do::Commit, Ended::Done);
    });
}

#[test]
fn read_skew_a_record_that_was_read_is_not_deleted() {
    with_both(|granularity| {
        let scene = Scene::new(granularity, XY);
        let (one, two) = (scene.session("one"), scene.session("two"));
        one.does(Do::Get("x"), value("10"));
        two.waits(Do::Delete("x"));
        one.does(Do::Get("x"), value("10"));
        one.does(Do::Commit, Ended::Done);
        two.goes_on(Ended::WasThere(true));
        two.does(Do::Commit, Ended::Done);
        assert_eq!(scene.now("x"), None);
    });
}

#[test]
fn write_skew_over_two_records_makes_one_transaction_a_victim() {
    with_both(|granularity| {
        let scene = Scene::new(granularity, XY);
        let (one, two) = (scene.session("one"), scene.session("two"));
        for session in [&one, &two] {
            session.does(Do::Get("x"), value("10"));
            session.does(Do::Get("y"), value("20"));
        }
        one.waits(Do::Put("x", "11"));
        two.begins(Do::Put("y", "21"));
        let survivor = one_is_victim(&one, &two);
        survivor.does(Do::Commit, Ended::Done);
        let changed =
            usize::from(scene.now("x").as_deref() == Some("11")) + usize::from(scene.now("y").as_deref() == Some("21"));
        assert_eq!(changed, 1, "exactly one of the two writes must be there");
    });
}

const ROWS: &[(&str, &str)] = &[("b", "1"), ("f", "2"), ("p", "3")];

#[test]
fn phantom_nothing_enters_a_range_that_was_read() {
    with_both(|granularity| {
        for scan in [Do::Scan("c", "k"), Do::ScanBack("c", "k")] {
            for new in ["c", "d", "g", "jz"] {
                let scene = Scene::new(granularity, ROWS);
                let (one, two) = (scene.session("one"), scene.session("two"));
                one.does(scan.clone(), pairs(&["f=2"]));
                two.waits(Do::PutNew(new, "9"));
                one.does(scan.clone(), pairs(&["f=2"]));
                one.does(Do::Commit, Ended::Done);
                two.goes_on(Ended::Done);
                two.does(Do::Commit, Ended::Done);
                assert_eq!(scene.now(new).as_deref(), Some("9"));
            }
        }
    });
}

#[test]
fn phantom_nothing_leaves_a_range_that_was_read() {
    with_both(|granularity| {
        let scene = Scene::new(granularity, ROWS);
        let (one, two) = (scene.session("one"), scene.session("two"));
        one.does(Do::Scan("c", "k"), pairs(&["f=2"]));
        two.waits(Do::Delete("f"));
        one.does(Do::ScanBack("c", "k"), pairs(&["f=2"]));
        one.does(Do::Commit, Ended::Done);
        two.goes_on(Ended::WasThere(true));
        two.does(Do::Commit, Ended::Done);
    });
}

#[test]
fn phantom_nothing_is_added_after_the_last_record_that_was_read() {
    with_both(|granularity| {
        let upwards = (Do::Scan("a", "zz"), ["b=1", "f=2", "p=3"]);
        let downwards = (Do::ScanBack("a", "zz"), ["p=3", "f=2", "b=1"]);
        for (scan, found) in [upwards, downwards] {
            let scene = Scene::new(granularity, ROWS);
            let (one, two) = (scene.session("one"), scene.session("two"));
            one.does(scan, pairs(&found));
            two.waits(Do::Put("q", "4"));
            one.does(Do::Commit, Ended::Done);
            two.goes_on(Ended::Done);
            two.does(Do::Commit, Ended::Done);
        }
    });
}

#[test]
fn phantom_a_key_that_was_not_found_is_not_inserted() {
    with_both(|granularity| {
        let scene = Scene::new(granularity, ROWS);
        let (one, two) = (scene.session("one"), scene.session("two"));
        one.does(Do::Get("g"), Ended::Value(None));
        two.waits(Do::PutNew("g", "4"));
        one.does(Do::Get("g"), Ended::Value(None));
        one.does(Do::Commit, Ended::Done);
        two.goes_on(Ended::Done);
        two.does(Do::Commit, Ended::Done);
    });
}

#[test]
fn phantom_nothing_enters_an_empty_database_that_was_read() {
    with_both(|granularity| {
        let scene = Scene::new(granularity, &[]);
        let (one, two) = (scene.session("one"), scene.session("two"));
        one.does(Do::Scan("a", "zz"), pairs(&[]));
        two.waits(Do::Put("m", "1"));
        one.does(Do::Commit, Ended::Done);
        two.goes_on(Ended::Done);
        two.does(Do::Commit, Ended::Done);
        assert_eq!(scene.now("m").as_deref(), Some("1"));
    });
}

#[test]
fn phantom_write_skew_over_a_range_makes_one_transaction_a_victim() {
    with_both(|granularity| {
        let scene = Scene::new(granularity, ROWS);
        let (one, two) = (scene.session("one"), scene.session("two"));
        one.does(Do::Scan("c", "k"), pairs(&["f=2"]));
        two.does(Do::Scan("c", "k"), pairs(&["f=2"]));
        one.waits(Do::Put("d", "8"));
        two.begins(Do::Put("g", "9"));
        let survivor = one_is_victim(&one, &two);
        survivor
            .does(Do::Scan("c", "k"), pairs(if is_same(survivor, &one) { &["d=8", "f=2"] } else { &["f=2", "g=9"] }));
        survivor.does(Do::Commit, Ended::Done);
    });
}

fn is_same(survivor: &Session, one: &Session) -> bool {
    std::ptr::eq(survivor, one)
}

#[test]
fn phantom_an_insert_at_a_ghost_in_a_range_that_was_read_waits() {
    with_both(|granularity| {
        let scene = Scene::new(granularity, ROWS);
        let first = scene.session("first");
        first.does(Do::Delete("f"), Ended::WasThere(true));
        first.does(Do::Commit, Ended::Done);
        let (one, two) = (scene.session("one"), scene.session("two"));
        one.does(Do::Scan("c", "k"), pairs(&[]));
        two.waits(Do::Put("f", "7"));
        one.does(Do::Scan("c", "k"), pairs(&[]));
        one.does(Do::Commit, Ended::Done);
        two.goes_on(Ended::Done);
        two.does(Do::Commit, Ended::Done);
    });
}

#[test]
fn phantom_a_gap_that_its_reader_splits_stays_closed_to_others() {
    with_both(|granularity| {
        let scene = Scene::new(granularity, ROWS);
        let (one, two) = (scene.session("one"), scene.session("two"));
        one.does(Do::Scan("g", "p"), pairs(&[]));
        one.does(Do::Put("k", "5"), Ended::Done);
        // The key `h` is in the gap below the first session's new key `k`. Only the lock on this gap keeps the other
        // session from inserting `h`.
        two.waits(Do::Put("h", "6"));
        one.does(Do::Scan("g", "p"), pairs(&["k=5"]));
        one.does(Do::Commit, Ended::Done);
        two.goes_on(Ended::Done);
        two.does(Do::Commit, Ended::Done);
    });
}

#[test]
fn predicate_a_scan_waits_for_an_unfinished_insert() {
    with_both(|granularity| {
        let scene = Scene::new(granularity, ROWS);
        let (one, two) = (scene.session("one"), scene.session("two"));
        one.does(Do::Put("g", "9"), Ended::Done);
        two.waits(Do::Scan("c", "k"));
        one.does(Do::Commit, Ended::Done);
        two.goes_on(pairs(&["f=2", "g=9"]));
        two.does(Do::Commit, Ended::Done);
    });
}

#[test]
fn predicate_a_put_new_waits_until_a_delete_commits_or_aborts() {
    with_both(|granularity| {
        for end in [Do::Commit, Do::Abort] {
            let scene = Scene::new(granularity, ROWS);
            let (one, two) = (scene.session("one"), scene.session("two"));
            one.does(Do::Delete("f"), Ended::WasThere(true));
            two.waits(Do::PutNew("f", "9"));
            let is_gone = matches!(end, Do::Commit);
            one.does(end, Ended::Done);
            two.goes_on(if is_gone { Ended::Done } else { Ended::Exists });
            two.does(Do::Commit, Ended::Done);
            assert_eq!(scene.now("f").as_deref(), Some(if is_gone { "9" } else { "2" }));
        }
    });
}

#[test]
fn records_far_apart_do_not_wait_for_each_other() {
    let scene = Scene::new(libtp::Granularity::Record, ROWS);
    let (one, two) = (scene.session("one"), scene.session("two"));
    one.does(Do::Put("b", "8"), Ended::Done);
    two.does(Do::Put("f", "9"), Ended::Done);
    one.does(Do::Scan("o", "p"), pairs(&[]));
    two.does(Do::Put("c", "9"), Ended::Done);
    two.does(Do::Delete("f"), Ended::WasThere(true));
    two.does(Do::Commit, Ended::Done);
    one.does(Do::Commit, Ended::Done);
}

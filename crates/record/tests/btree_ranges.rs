//! Tests of ranges of keys: walks, counts, deletions and locks, and the reuse of their pages.
//!
//! Possible bugs: a bounded cursor stops one key too early or too late, or locks one gap too few, so that a count
//! changes. Or empty pages are never reused, so that a file in which keys are inserted and deleted grows without end.

#![allow(clippy::unwrap_used)] // in the functions that tests share

mod world;

use std::collections::BTreeMap;
use std::ops::Bound;

use libtp_lock::Wait;
use libtp_record::{Access, BtreeCursor, Database, KeyRange, Method, Snapshot, SnapshotAccess, SnapshotCursor};
use libtp_txn::{Durability, TxnSession};
use world::{Place, Random, World};

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn key(number: u64) -> Vec<u8> {
    // Keys of different lengths; some keys are the beginning of other keys.
    format!("{:03}{}", number / 3, "x".repeat(usize::try_from(number % 3).unwrap() * 7)).into_bytes()
}

fn of_model<'m>(model: &'m Model, range: &'m KeyRange) -> impl DoubleEndedIterator<Item = (&'m Vec<u8>, &'m Vec<u8>)> {
    let is_within = |key: &[u8]| key >= range.low() && range.high().is_none_or(|high| key < high);
    model.iter().filter(move |(key, _)| is_within(key))
}

#[test]
fn ranges_are_walked_counted_and_deleted_as_in_a_btree_map() {
    let place = Place::new();
    let world = World::new(&place, 32 << 20);
    let txn = world.join();
    let database = world.database(&txn, "ranges", Method::Btree, 4096);
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut model = Model::new();
    for round in 0..150 {
        world.run(&txn, &database, |access| {
            for _ in 0..60 {
                let (key, value) = (key(random.below(2000)), vec![7; usize::try_from(random.below(300)).unwrap()]);
                access.put(&key, &value).unwrap();
                model.insert(key, value);
            }
        });
        let range = any_range(&mut random);
        let sought = [(); 4].map(|()| key(random.below(2000)));
        assert_walks(&world, &txn, &database, &model, &range, &sought);
        if round % 3 == 0 {
            let gone: Vec<Vec<u8>> = of_model(&model, &range).map(|(key, _)| key.clone()).collect();
            world.run(&txn, &database, |access| {
                assert_eq!(access.delete_range(range.clone()).unwrap(), gone.len() as u64, "{range:?}");
                assert_eq!(access.count_range(range.clone()).unwrap(), 0);
            });
            model.retain(|key, _| !gone.contains(key));
            settle(&world, &txn);
            world.access(&txn, &database).clear_away(&range).unwrap();
        }
    }
    assert_walks(&world, &txn, &database, &model, &KeyRange::default(), &[key(777), key(0), b"~".to_vec()]);
    world.assert_sound(&txn, &database);
}

fn any_range(random: &mut Random) -> KeyRange {
    let (a, b) = (key(random.below(2000)), key(random.below(2000)));
    let bound = |key: Vec<u8>, kind| match kind {
        0 => Bound::Unbounded,
        1 => Bound::Excluded(key),
        _ => Bound::Included(key),
    };
    match random.below(4) {
        0 => KeyRange::with_prefix(&a[..2]),
        _ => {
            let (low, high) = (bound(a, random.below(8)), bound(b, random.below(8)));
            KeyRange::between(low.as_ref().map(Vec::as_slice), high.as_ref().map(Vec::as_slice))
        }
    }
}

/// Writes all commits to disk. From then on snapshots show them, and deleted records can be removed.
fn settle(world: &World, txn: &TxnSession) {
    let log = &world.managers.log;
    log.force(txn.session(), log.tail().minus(8)).unwrap();
}

/// Returns the number of pairs of a range that are below the key `sought`, and the keys of the next two pairs.
fn places<'m>(model: &'m Model, range: &'m KeyRange, sought: &[u8]) -> (usize, [Option<&'m Vec<u8>>; 2]) {
    let below = of_model(model, range).take_while(|(key, _)| &key[..] < sought).count();
    let mut after = of_model(model, range).skip(below).map(|it| it.0);
    (below, [after.next(), after.next()])
}

/// Checks cursors of a transaction and of a snapshot, in both directions and after seeks, and the counts.
fn assert_walks(
    world: &World,
    txn: &TxnSession,
    database: &Database,
    model: &Model,
    range: &KeyRange,
    sought: &[Vec<u8>],
) {
    world.run(txn, database, |access| {
        let mut cursor = BtreeCursor::new(*access).within(range.clone());
        for wanted in of_model(model, range) {
            assert_eq!(cursor.next().unwrap().as_ref().map(|(key, value)| (key, value)), Some(wanted), "{range:?}");
        }
        assert_eq!(cursor.next().unwrap(), None, "{range:?}");
        // The cursor is still on the last record.
        for wanted in of_model(model, range).rev().skip(1) {
            assert_eq!(cursor.prev().unwrap().as_ref().map(|(key, value)| (key, value)), Some(wanted), "{range:?}");
        }
        assert_eq!(cursor.prev().unwrap(), None, "{range:?}");
        let mut cursor = BtreeCursor::new(*access).within(range.clone());
        assert_eq!(
            cursor.last().unwrap().map(|pair| pair.0).as_ref(),
            of_model(model, range).next_back().map(|it| it.0)
        );
        for sought in sought {
            let (place, wanted) = places(model, range, sought);
            let first = cursor.seek(sought).unwrap();
            let found = [first.clone(), first.and_then(|_| cursor.next().unwrap())];
            assert_eq!(found.each_ref().map(|pair| pair.as_ref().map(|pair| &pair.0)), wanted, "{range:?} {sought:?}");
            if found[0].is_none() || place == 0 {
                continue;
            }
            cursor.seek(sought).unwrap();
            let before = of_model(model, range).nth(place - 1).map(|it| it.0);
            assert_eq!(cursor.prev().unwrap().map(|pair| pair.0).as_ref(), before, "{range:?} {sought:?}");
        }
        assert_eq!(access.count_range(range.clone()).unwrap(), of_model(model, range).count() as u64);
    });
    settle(world, txn);
    let view = world.managers.begin_snapshot(txn).unwrap();
    let snapshot = Snapshot::new(view);
    let at = || SnapshotAccess::new(&world.managers, txn, database, &snapshot);
    let mut cursor = SnapshotCursor::new(at()).within(range.clone());
    let forwards: Vec<_> = std::iter::from_fn(|| cursor.next().unwrap()).collect();
    let backwards: Vec<_> = std::iter::from_fn(|| cursor.prev().unwrap()).collect();
    let wanted: Vec<_> = of_model(model, range).map(|(key, value)| (key.clone(), value.clone())).collect();
    assert!(forwards == wanted, "{range:?}: a snapshot shows {} of {} pairs", forwards.len(), wanted.len());
    let before_the_last = &wanted[..wanted.len().saturating_sub(1)];
    assert!(backwards.iter().rev().eq(before_the_last), "{range:?}: {} of {} pairs", backwards.len(), wanted.len());
    let mut cursor = SnapshotCursor::new(at()).within(range.clone());
    assert_eq!(cursor.last().unwrap().as_ref(), wanted.last());
    for sought in sought {
        let (place, wanted) = places(model, range, sought);
        let first = cursor.seek(sought).unwrap();
        let found = [first.clone(), first.and_then(|_| cursor.next().unwrap())];
        assert_eq!(found.each_ref().map(|pair| pair.as_ref().map(|pair| &pair.0)), wanted, "{range:?} {sought:?}");
        if found[0].is_none() {
            continue;
        }
        cursor.seek(sought).unwrap();
        let before = place.checked_sub(1).and_then(|before| of_model(model, range).nth(before)).map(|it| it.0);
        assert_eq!(cursor.prev().unwrap().map(|pair| pair.0).as_ref(), before, "{range:?} {sought:?}");
    }
    assert_eq!(at().count_range(range.clone()).unwrap(), wanted.len() as u64);
    world.managers.end_snapshot(txn);
}

/// Returns whether another transaction may put a key now.
fn may_put(world: &World, database: &Database, key: &[u8]) -> bool {
    let other = world.join();
    other.begin(&world.managers);
    let put = Access::new(&world.managers, &other, database, Wait::No).put(key, b"other");
    other.abort(&world.managers).unwrap();
    world.managers.leave(other);
    put.is_ok()
}

#[test]
fn a_counted_or_deleted_range_is_locked_and_the_keys_beside_it_are_free() {
    let place = Place::new();
    let world = World::new(&place, 16 << 20);
    let txn = world.join();
    let database = world.database(&txn, "locks", Method::Btree, 4096);
    let name = |number: u32| format!("{number:05}").into_bytes();
    world.run(&txn, &database, |access| {
        for number in (0..2000).step_by(10) {
            access.put(&name(number), &[1; 100]).unwrap();
        }
    });
    type Work<'w> = &'w dyn Fn(&Access<'_>, KeyRange) -> u64;
    let works: [Work<'_>; 4] = [
        &|access, range| access.count_range(range).unwrap(),
        &|access, range| access.delete_range(range).unwrap(),
        &|access, range| {
            let mut cursor = BtreeCursor::new(*access).within(range);
            std::iter::from_fn(|| cursor.next().unwrap()).count() as u64
        },
        &|access, range| {
            let mut cursor = BtreeCursor::new(*access).within(range);
            std::iter::from_fn(|| cursor.prev().unwrap()).count() as u64
        },
    ];
    for work in works {
        for (low, high) in [(505, 1495), (500, 1500), (501, 509), (0, 95), (1905, 9999)] {
            txn.begin(&world.managers);
            let access = world.access(&txn, &database);
            let range = KeyRange::of(&(name(low)..name(high)));
            let count = (0..2000).step_by(10).filter(|number| (low..high).contains(number)).count() as u64;
            assert_eq!(work(&access, range), count);
            for number in (low..high.min(2010)).filter(|number| number % 10 == 4) {
                assert!(!may_put(&world, &database, &name(number)), "{number} entered {low}..{high}");
            }
            // The keys just outside both ends, and the gaps beyond them, are not locked.
            let above = high.div_ceil(10) * 10;
            for number in [above, above + 1, low.saturating_sub(10) / 10 * 10].into_iter().filter(|it| *it < 1990) {
                let is_inside = (low..high).contains(&number);
                assert_eq!(may_put(&world, &database, &name(number)), !is_inside, "{number} beside {low}..{high}");
            }
            txn.abort(&world.managers).unwrap();
        }
    }
    world.assert_sound(&txn, &database);
}

#[test]
fn a_file_in_which_ranges_come_and_go_does_not_grow() {
    const LIVE: u64 = 300;
    const STEP: u64 = 100;
    // Long keys with a common beginning, so that the pages above the leaves have few children.
    let name = |number: u64| [&[b'k'; 900][..], &number.to_be_bytes()].concat();
    for is_rising in [true, false] {
        let place = Place::new();
        let world = World::new(&place, 32 << 20);
        let txn = world.join();
        let database = world.database(&txn, "moving", Method::Btree, 4096);
        let name = |number: u64| name(if is_rising { number } else { 1_000_000 - number });
        let mut sizes = Vec::new();
        for round in 0..40 {
            world.run(&txn, &database, |access| {
                for number in round * STEP..(round + 1) * STEP {
                    access.put(&name(number), &[5; 50]).unwrap();
                }
            });
            if let Some(end) = ((round + 1) * STEP).checked_sub(LIVE).filter(|&end| end != 0) {
                let (a, b) = (name(end - STEP), name(end));
                let range = if is_rising {
                    KeyRange::of(&(a..b))
                } else {
                    KeyRange::between(Bound::Excluded(&b), Bound::Included(&a))
                };
                world.run(&txn, &database, |access| assert_eq!(access.delete_range(range.clone()).unwrap(), STEP));
                settle(&world, &txn);
                assert!(world.access(&txn, &database).clear_away(&range).unwrap() > 10);
            }
            let verified = world.assert_sound(&txn, &database);
            sizes.push(verified.tree_pages + verified.free_pages);
        }
        println!("pages, rising {is_rising}: {sizes:?}");
        assert!(sizes[39] <= sizes[6] + 8, "the file grows, rising {is_rising}: {sizes:?}");
    }
}

/// Commits a transaction and clears emptied leaves, as `libtp` does.
fn commit_and_clear(world: &World, txn: &TxnSession, database: &Database) {
    let emptied = txn.take_for_later();
    txn.commit(&world.managers, Durability::Relaxed).unwrap();
    settle(world, txn);
    for (file, key) in emptied {
        assert_eq!(file, database.id().raw());
        world.access(txn, database).clear_around(&key).unwrap();
    }
}

#[test]
fn a_file_in_which_single_keys_come_and_go_does_not_grow_though_other_sessions_delay_the_clearing() {
    const LIVE: u64 = 300;
    const STEP: u64 = 50;
    let name = |number: u64| [&[b'k'; 200][..], &number.to_be_bytes()].concat();
    for is_rising in [true, false] {
        let place = Place::new();
        let world = World::new(&place, 32 << 20);
        let (one, two, reader) = (world.join(), world.join(), world.join());
        let database = world.database(&one, "queue", Method::Btree, 4096);
        let name = |number: u64| name(if is_rising { number } else { 1_000_000 - number });
        let mut sizes = Vec::new();
        let mut view = None;
        for round in 0..80 {
            world.run(&one, &database, |access| {
                for number in round * STEP..(round + 1) * STEP {
                    access.put(&name(number), &[5; 500]).unwrap();
                }
            });
            // For some rounds a snapshot needs the deleted records.
            if round % 20 == 5 {
                view = Some(world.managers.begin_snapshot(&reader).unwrap());
            } else if round % 20 == 10 && view.take().is_some() {
                world.managers.end_snapshot(&reader);
            }
            if let Some(end) = ((round + 1) * STEP).checked_sub(LIVE).filter(|&end| end != 0) {
                one.begin(&world.managers);
                two.begin(&world.managers);
                for number in end - STEP..end {
                    let txn = if number % 2 == 0 { &one } else { &two };
                    assert!(world.access(txn, &database).delete(&name(number)).unwrap());
                }
                // The session that emptied a leaf finds the other session's ghosts on the leaf. The other session does
                // not know that the leaf has nothing but these ghosts.
                commit_and_clear(&world, &two, &database);
                commit_and_clear(&world, &one, &database);
            }
            let verified = world.assert_sound(&one, &database);
            sizes.push(verified.tree_pages + verified.free_pages);
        }
        println!("pages, rising {is_rising}: {sizes:?}");
        let most = |rounds: std::ops::Range<usize>| sizes[rounds].iter().max().copied().unwrap();
        assert!(most(60..80) <= most(20..40) + 8, "the file grows, rising {is_rising}: {sizes:?}");
        let enough = sizes[5];
        let in_use = world.assert_sound(&one, &database).tree_pages;
        assert!(in_use < 2 * enough, "{in_use} pages are in use, {enough} were enough: {sizes:?}");
    }
}

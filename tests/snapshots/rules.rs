//! The rules S1 to S4 of PROTOCOLS, one at a time.

use std::time::Duration;

use libtp_record::{Database, Error, Method, SnapshotCursor};
use libtp_txn::{Settings, TxnSession};

use crate::held::{commit, put, Held};
use crate::world::{Place, World};

fn is_too_old<T: std::fmt::Debug>(read: Result<T, Error>) -> bool {
    match read {
        Err(Error::SnapshotTooOld { .. }) => true,
        other => {
            assert!(other.is_ok(), "the read failed with another error than `SnapshotTooOld`: {other:?}");
            false
        }
    }
}

#[test]
fn s1_a_snapshot_waits_for_unanswered_sync_commits_but_for_no_answered_commits() {
    let place = Place::new();
    let world = World::new(&place, 1 << 24);
    let (txn, other) = (world.join(), world.join());
    let database = world.database(&txn, "records", Method::Btree, 4096);
    put(&world, &txn, &database, b"key", b"relaxed");
    let held = Held::begin(&world);
    assert_eq!(held.get(&database, b"key").as_deref(), Some(&b"relaxed"[..]));
    assert!(!held.snapshot.is_unsure());
    held.end();
    txn.begin(&world.managers);
    world.access(&txn, &database).put(b"key", b"sync").unwrap();
    let committed = txn.commit_now(&world.managers).unwrap();
    // The change is committed but not answered: other sessions may have read it, and a crash may still lose it. So a
    // reader that sees the change waits first.
    let held = Held::begin(&world);
    assert_eq!(held.get(&database, b"other"), None);
    assert!(!held.snapshot.is_unsure(), "a read of a record that was not changed lately must not wait");
    assert_eq!(held.get(&database, b"key").as_deref(), Some(&b"sync"[..]));
    assert!(held.snapshot.is_unsure());
    txn.wait_durable(&world.managers, committed).unwrap();
    assert_eq!(held.get(&database, b"key").as_deref(), Some(&b"sync"[..]), "a snapshot must not change");
    held.end();
    let held = Held::begin(&world);
    assert_eq!(held.get(&database, b"key").as_deref(), Some(&b"sync"[..]));
    assert!(!held.snapshot.is_unsure());
    held.end();
    // A reader that sees a deletion which a crash may lose must wait, too.
    txn.begin(&world.managers);
    world.access(&txn, &database).delete(b"key").unwrap();
    let committed = txn.commit_now(&world.managers).unwrap();
    let held = Held::begin(&world);
    assert_eq!(held.get(&database, b"key"), None);
    assert!(held.snapshot.is_unsure());
    txn.wait_durable(&world.managers, committed).unwrap();
    held.end();
    // A change may be durable although its commit record is not yet durable. In this case the reader must wait, too.
    txn.begin(&world.managers);
    world.access(&txn, &database).put(b"key", b"early").unwrap();
    world.managers.log.force_all(txn.session()).unwrap();
    let committed = txn.commit_now(&world.managers).unwrap();
    let held = Held::begin(&world);
    assert_eq!(held.get(&database, b"key").as_deref(), Some(&b"early"[..]));
    assert!(held.snapshot.is_unsure());
    txn.wait_durable(&world.managers, committed).unwrap();
    held.end();
    // The relaxed commit below is answered before it is durable. Then all earlier commits count as answered, too: the
    // relaxed transaction may have read their changes.
    txn.begin(&world.managers);
    world.access(&txn, &database).put(b"key", b"waits").unwrap();
    txn.commit_now(&world.managers).unwrap();
    put(&world, &other, &database, b"other", b"relaxed");
    let held = Held::begin(&world);
    assert_eq!(held.get(&database, b"key").as_deref(), Some(&b"waits"[..]));
    assert!(!held.snapshot.is_unsure());
    world.managers.wait_view_durable(&held.txn, held.snapshot.view()).unwrap();
    assert!(world.managers.log.durable() >= held.snapshot.view().lsn());
    held.end();
}

#[test]
fn s2_changes_logged_before_a_snapshot_by_a_running_transaction_are_not_visible() {
    let place = Place::new();
    let world = World::new(&place, 1 << 24);
    let (one, two) = (world.join(), world.join());
    let database = world.database(&one, "records", Method::Btree, 4096);
    let numbers = world.database(&one, "numbers", Method::Recno { record_bytes: 4 }, 4096);
    put(&world, &one, &database, b"key", b"old");
    one.begin(&world.managers);
    world.access(&one, &database).put(b"key", b"dirty").unwrap();
    world.access(&one, &database).put(b"new", b"dirty").unwrap();
    world.access(&one, &numbers).recno_put(3, b"dirt").unwrap();
    // This commit moves the visible LSN past the log records of the running transaction.
    put(&world, &two, &database, b"later", b"clean");
    let held = Held::begin(&world);
    let check = |held: &Held<'_>| {
        assert_eq!(held.get(&database, b"key").as_deref(), Some(&b"old"[..]));
        assert_eq!(held.get(&database, b"new"), None);
        assert_eq!(held.get(&database, b"later").as_deref(), Some(&b"clean"[..]));
        assert_eq!(held.of(&numbers).recno_get(3, <[u8]>::to_vec).unwrap(), None);
        assert_eq!(held.forwards(&database).len(), 2);
        assert_eq!(held.forwards(&database), held.backwards(&database));
    };
    check(&held);
    commit(&world, &one);
    check(&held);
    held.end();
    let held = Held::begin(&world);
    assert_eq!(held.get(&database, b"key").as_deref(), Some(&b"dirty"[..]));
    assert_eq!(held.of(&numbers).recno_get(3, <[u8]>::to_vec).unwrap().as_deref(), Some(&b"dirt"[..]));
    held.end();
}

#[test]
fn s2_a_commit_that_is_not_on_disk_is_visible_after_its_session_has_begun_another_transaction() {
    let place = Place::new();
    let world = World::new(&place, 1 << 24);
    let (one, two) = (world.join(), world.join());
    let database = world.database(&one, "records", Method::Btree, 4096);
    put(&world, &one, &database, b"key", b"old");
    one.begin(&world.managers);
    world.access(&one, &database).put(b"key", b"new").unwrap();
    // The change is on the disk, and its commit record is not.
    put(&world, &two, &database, b"later", b"clean");
    one.commit_now(&world.managers).unwrap();
    // The session's slot then has another transaction.
    one.begin(&world.managers);
    let held = Held::begin(&world);
    assert_eq!(held.get(&database, b"key").as_deref(), Some(&b"new"[..]));
    assert!(held.snapshot.is_unsure(), "the commit record is not on the disk");
    one.abort(&world.managers).unwrap();
    assert_eq!(held.get(&database, b"key").as_deref(), Some(&b"new"[..]));
    held.end();
}

#[test]
fn s3_an_undone_record_has_its_old_lsn() {
    let place = Place::new();
    let world = World::new(&place, 1 << 24);
    let txn = world.join();
    let database = world.database(&txn, "records", Method::Btree, 4096);
    let numbers = world.database(&txn, "numbers", Method::Recno { record_bytes: 4 }, 4096);
    put(&world, &txn, &database, b"key", b"value");
    put(&world, &txn, &database, b"gone", b"value");
    txn.begin(&world.managers);
    world.access(&txn, &database).delete(b"gone").unwrap();
    world.access(&txn, &numbers).recno_put(1, b"abcd").unwrap();
    commit(&world, &txn);
    let held = Held::begin(&world);
    txn.begin(&world.managers);
    let access = world.access(&txn, &database);
    access.put(b"key", b"another value").unwrap();
    access.put(b"gone", b"again").unwrap();
    access.put(b"new", b"value").unwrap();
    world.access(&txn, &numbers).recno_put(1, b"efgh").unwrap();
    txn.abort(&world.managers).unwrap();
    assert_eq!(held.get(&database, b"key").as_deref(), Some(&b"value"[..]));
    assert_eq!(held.get(&database, b"gone"), None);
    assert_eq!(held.get(&database, b"new"), None);
    assert_eq!(held.of(&numbers).recno_get(1, <[u8]>::to_vec).unwrap().as_deref(), Some(&b"abcd"[..]));
    assert_eq!(held.snapshot.log_reads(), 0, "an undone record must have its old LSN, so no log is read");
    held.end();
}

/// Deletes keys, and inserts other keys, so that the leaves need the room of the ghosts.
fn churn(world: &World, txn: &TxnSession, database: &Database, deleted: std::ops::Range<u32>, bytes: usize) {
    txn.begin(&world.managers);
    for number in deleted {
        world.access(txn, database).delete(&number.to_be_bytes()).unwrap();
    }
    commit(world, txn);
    for number in 0..600_u32 {
        put(world, txn, database, &[&number.to_be_bytes()[..], b"+"].concat(), &vec![7; bytes]);
    }
}

fn filled(world: &World, txn: &TxnSession) -> Database {
    let database = world.database(txn, "records", Method::Btree, 4096);
    txn.begin(&world.managers);
    for number in 0..600_u32 {
        world.access(txn, &database).put(&number.to_be_bytes(), &[1; 90]).unwrap();
    }
    commit(world, txn);
    database
}

#[test]
fn s3_ghosts_wait_for_the_oldest_snapshot() {
    let place = Place::new();
    let world = World::new(&place, 1 << 24);
    let txn = world.join();
    let database = filled(&world, &txn);
    let held = Held::begin(&world);
    let before = held.forwards(&database);
    churn(&world, &txn, &database, 100..500, 90);
    assert_eq!(before.len(), 600);
    for number in 0..600_u32 {
        assert_eq!(held.get(&database, &number.to_be_bytes()).as_deref(), Some(&[1; 90][..]), "{number}");
    }
    assert_eq!(held.forwards(&database), before);
    assert_eq!(held.backwards(&database), before);
    let kept = world.assert_sound(&txn, &database).ghosts;
    assert!(kept >= 400, "only {kept} ghosts were kept for the snapshot");
    held.end();
    churn(&world, &txn, &database, 0..600, 700);
    assert!(world.assert_sound(&txn, &database).ghosts < kept, "ghosts that no snapshot needs must be removed");
}

#[test]
fn s3_a_snapshot_beyond_the_bounds_gets_an_error_if_it_needs_removed_ghosts() {
    told_that_ghosts_are_gone(Settings { snapshot_log_bytes: 0, ..Settings::default() });
    told_that_ghosts_are_gone(Settings { snapshot_age: Duration::ZERO, ..Settings::default() });
}

fn told_that_ghosts_are_gone(settings: Settings) {
    let place = Place::new();
    let world = World::with_settings(&place, 1 << 24, settings);
    let txn = world.join();
    let database = filled(&world, &txn);
    let held = Held::begin(&world);
    churn(&world, &txn, &database, 100..500, 90);
    assert!(world.assert_sound(&txn, &database).ghosts < 400, "ghosts must not wait for a snapshot beyond the bounds");
    let mut too_old = 0;
    for number in 0..600_u32 {
        match held.of(&database).get(&number.to_be_bytes(), <[u8]>::to_vec) {
            // A ghost may have been removed from a page that was split or unlinked afterwards. Even then the read must
            // not return `None`.
            Ok(found) => assert_eq!(found.as_deref(), Some(&[1; 90][..]), "the snapshot must show {number}"),
            Err(Error::SnapshotTooOld { .. }) => too_old += 1,
            Err(other) => panic!("{other}"),
        }
    }
    assert!(too_old > 0);
    assert!(is_too_old(SnapshotCursor::new(held.of(&database)).last().and_then(|_| {
        let mut cursor = SnapshotCursor::new(held.of(&database));
        while cursor.move_next()? {}
        Ok(())
    })));
    held.end();
}

#[test]
fn s3_replaced_chains_wait_for_the_oldest_snapshot() {
    for bytes in [4 << 30, 0] {
        let place = Place::new();
        let world =
            World::with_settings(&place, 1 << 24, Settings { snapshot_log_bytes: bytes, ..Settings::default() });
        let txn = world.join();
        let database = world.database(&txn, "records", Method::Btree, 4096);
        put(&world, &txn, &database, b"long", &[1; 30_000]);
        let held = Held::begin(&world);
        for round in 2..8_u8 {
            put(&world, &txn, &database, b"long", &vec![round; 20_000 + usize::from(round)]);
            put(&world, &txn, &database, b"long", &[round]);
            put(&world, &txn, &database, &[round], &[round; 9000]);
        }
        match held.of(&database).get(b"long", <[u8]>::to_vec) {
            Ok(found) => assert_eq!((found.as_deref(), bytes != 0), (Some(&[1; 30_000][..]), true)),
            Err(Error::SnapshotTooOld { .. }) => assert_eq!(bytes, 0),
            Err(other) => panic!("{other}"),
        }
        held.end();
        put(&world, &txn, &database, b"long", b"short");
        world.assert_sound(&txn, &database);
    }
}

#[test]
fn s4_the_log_that_a_snapshot_needs_is_kept_within_the_bound() {
    for (bytes, is_kept) in [(4 << 30, true), (1 << 20, false)] {
        let place = Place::new();
        let world =
            World::with_settings(&place, 1 << 24, Settings { snapshot_log_bytes: bytes, ..Settings::default() });
        let txn = world.join();
        let database = world.database(&txn, "records", Method::Btree, 4096);
        // Other records fill the log, so that the snapshot becomes too old because of its log.
        let filler = world.database(&txn, "filler", Method::Btree, 4096);
        // A shortcut leads a reader of this record to a version that was written soon after the snapshot. From there
        // the reader needs the log.
        put(&world, &txn, &database, b"key", &[1; 600]);
        let held = Held::begin(&world);
        for round in 0..40_u32 {
            txn.begin(&world.managers);
            for number in 0..60_u32 {
                let value = (round * 60 + number).to_le_bytes().repeat(500);
                world.access(&txn, &filler).put(&number.to_le_bytes(), &value).unwrap();
            }
            world.access(&txn, &database).put(b"key", &round.to_le_bytes().repeat(150)).unwrap();
            commit(&world, &txn);
            world.managers.checkpoint(&txn).unwrap();
        }
        let needed = held.snapshot.view().horizon();
        assert_eq!(world.managers.log.oldest() <= needed, is_kept, "with a bound of {bytes} bytes");
        assert_eq!(world.managers.snapshots()[0].is_kept, is_kept);
        assert_eq!(is_too_old(held.of(&database).get(b"key", <[u8]>::to_vec)), !is_kept);
        held.end();
        assert!(world.managers.snapshots().is_empty());
        world.managers.checkpoint(&txn).unwrap();
        assert!(world.managers.log.oldest() > needed, "log that no snapshot needs must be recycled");
    }
}

#[test]
fn s4_a_long_history_is_walked_once() {
    let place = Place::new();
    let world = World::new(&place, 1 << 24);
    let txn = world.join();
    // The records are too long for shortcuts.
    let database = world.database(&txn, "records", Method::Recno { record_bytes: 20_000 }, 65_536);
    let value = |round: u64| round.to_be_bytes().repeat(2500);
    let change = |round: u64| {
        txn.begin(&world.managers);
        world.access(&txn, &database).recno_put(7, &value(round)).unwrap();
        commit(&world, &txn);
    };
    change(0);
    let held = Held::begin(&world);
    let read = || held.of(&database).recno_get(7, <[u8]>::to_vec).unwrap();
    (1..=1000).for_each(change);
    assert_eq!(read(), Some(value(0)));
    assert_eq!(held.snapshot.log_reads(), 1000);
    change(1001);
    assert_eq!(read(), Some(value(0)));
    assert_eq!(held.snapshot.log_reads(), 1000);
    held.end();
}

#[test]
fn s4_a_shortcut_lets_a_late_reader_skip_a_long_history() {
    let place = Place::new();
    let world = World::new(&place, 1 << 24);
    let txn = world.join();
    let database = world.database(&txn, "records", Method::Btree, 4096);
    let numbers = world.database(&txn, "numbers", Method::Recno { record_bytes: 4 }, 4096);
    let hot = [&b"hot"[..], b"hotter", b"hottest"];
    for key in hot {
        put(&world, &txn, &database, key, b"first");
    }
    put(&world, &txn, &database, b"long", &[1; 900]);
    let wide = world.database(&txn, "wide", Method::Btree, 65_536);
    let lengths = [4000, 16_000];
    for length in lengths {
        put(&world, &txn, &wide, &length.to_string().into_bytes(), &vec![1; length]);
    }
    for number in 0..3000_u32 {
        put(&world, &txn, &database, &number.to_be_bytes(), b"cold");
    }
    txn.begin(&world.managers);
    world.access(&txn, &numbers).recno_put(7, b"abcd").unwrap();
    commit(&world, &txn);
    let held = Held::begin(&world);
    for round in 0..3000_u32 {
        for key in hot {
            put(&world, &txn, &database, key, &round.to_le_bytes());
        }
        put(&world, &txn, &database, b"long", &round.to_le_bytes().repeat(225));
        for length in lengths {
            let mut value = vec![1; length];
            value[..4].copy_from_slice(&round.to_le_bytes());
            put(&world, &txn, &wide, &length.to_string().into_bytes(), &value);
        }
        txn.begin(&world.managers);
        world.access(&txn, &numbers).recno_put(7, &round.to_le_bytes()).unwrap();
        commit(&world, &txn);
        // Records that seldom change must not displace the shortcuts of records that often change.
        for times in 0..round % 5 {
            put(&world, &txn, &database, &round.to_be_bytes(), &[b'c'; 7][..usize::try_from(times + 1).unwrap()]);
        }
        put(&world, &txn, &database, &round.to_be_bytes(), b"changed");
    }
    for key in hot {
        assert_eq!(held.get(&database, key).as_deref(), Some(&b"first"[..]));
    }
    assert_eq!(held.get(&database, b"long").as_deref(), Some(&[1; 900][..]));
    assert_eq!(held.of(&numbers).recno_get(7, <[u8]>::to_vec).unwrap().as_deref(), Some(&b"abcd"[..]));
    for length in lengths {
        assert_eq!(held.get(&wide, &length.to_string().into_bytes()), Some(vec![1; length]));
    }
    let reads = held.snapshot.log_reads();
    // These reads are for seven records, each of which was changed 3,000 times.
    assert!(reads < 200, "{reads} log records were read");
    assert!(held.forwards(&database).values().filter(|value| **value == b"cold").count() == 3000);
    held.end();
}

#[test]
fn s4_shortcuts_are_made_for_each_held_snapshot_and_for_no_ended_snapshot() {
    let place = Place::new();
    let world = World::new(&place, 1 << 24);
    let txn = world.join();
    let database = world.database(&txn, "records", Method::Btree, 4096);
    let change = |count: u32| (0..count).for_each(|round| put(&world, &txn, &database, b"hot", &round.to_le_bytes()));
    for _ in 0..3 {
        put(&world, &txn, &database, b"hot", b"first");
        let held = Held::begin(&world);
        change(1000);
        assert_eq!(held.get(&database, b"hot").as_deref(), Some(&b"first"[..]));
        assert!(held.snapshot.log_reads() < 100, "{} log records were read", held.snapshot.log_reads());
        assert!(world.managers.wants_shortcuts());
        held.end();
        change(1000);
        assert!(!world.managers.wants_shortcuts(), "writers must not make shortcuts without a snapshot");
    }
}

#[test]
fn s4_a_snapshot_uses_no_shortcut_of_a_change_that_was_undone_before_the_snapshot() {
    let place = Place::new();
    let world = World::new(&place, 1 << 24);
    let (undone, other) = (world.join(), world.join());
    let database = world.database(&undone, "records", Method::Btree, 4096);
    let first = Held::begin(&world);
    let keys = || (0..200_u32).map(u32::to_be_bytes);
    undone.begin(&world.managers);
    keys().for_each(|key| world.access(&undone, &database).put(&key, b"undone").unwrap());
    // This commit moves the visible LSN past the first changes.
    put(&world, &other, &database, b"other", b"1");
    keys().for_each(|key| world.access(&undone, &database).put(&key, b"undone, too").unwrap());
    undone.abort(&world.managers).unwrap();
    let held = Held::begin(&world);
    keys().for_each(|key| put(&world, &other, &database, &key, b"later"));
    for key in keys() {
        assert_eq!(held.get(&database, &key), None, "{key:?}");
    }
    held.end();
    first.end();
}

#[test]
fn s4_a_snapshot_uses_no_shortcut_that_was_made_for_an_earlier_snapshot() {
    let place = Place::new();
    let world = World::new(&place, 1 << 24);
    let txn = world.join();
    let database = world.database(&txn, "records", Method::Btree, 4096);
    let mut all = Vec::new();
    for round in 0..12_u8 {
        put(&world, &txn, &database, b"key", &[round; 9]);
        all.push((Held::begin(&world), round));
        for between in 100..103 {
            put(&world, &txn, &database, b"key", &[between; 9]);
        }
    }
    for (held, round) in all {
        assert_eq!(held.get(&database, b"key").as_deref(), Some(&[round; 9][..]), "{round}");
        held.end();
    }
}

//! Segments that are made ahead, recycled and deleted, and a full disk.

use libtp_io::{Directory, Operation};
use libtp_process::SessionId;
use libtp_sim::{Calls, Fault, LossMode, Repeat, SimDisk};

use super::rig::{control_file, small, Rig};
use crate::reserve::CREDIT_BYTES;
use crate::{
    record_bytes, segment_name, segment_number, Control, Error, Lsn, Settings, TxnId, KEPT_BACK_BYTES, UNDO_SHARE_BYTES,
};

fn segments(rig: &Rig) -> Vec<u32> {
    rig.disk.paths().iter().filter_map(|path| segment_number(path)).collect()
}

#[test]
fn a_full_disk_is_an_error_of_reserve_and_changes_nothing() {
    let rig = Rig::new();
    rig.disk.set_capacity(Some(rig.disk.bytes_used() + (40 << 10)));
    let mut safe = Vec::new();
    let error = loop {
        match rig.one.commit(&[5; 3000]) {
            Ok(lsn) => safe.push(lsn),
            Err(error) => break error,
        }
        assert!(safe.len() < 1000, "the disk never got full");
    };
    assert!(matches!(error, Error::Full { .. }), "{error}");
    let (tail, durable, files) = (rig.one.log.tail(), rig.one.log.durable(), segments(&rig));
    for _ in 0..3 {
        assert!(matches!(rig.two.commit(b"x"), Err(Error::Full { .. })));
    }
    assert_eq!((rig.one.log.tail(), rig.one.log.durable(), segments(&rig)), (tail, durable, files));
    assert!(!rig.disk.paths().iter().any(|path| path.contains("preparing")));
    assert!(!rig.one.log.is_poisoned());
    for &lsn in &safe {
        assert_eq!(rig.two.log.read(lsn).unwrap().body, [5; 3000]);
    }
    // Space is freed: the log continues without a restart.
    rig.disk.set_capacity(None);
    rig.two.commit(b"on").unwrap();
}

#[test]
fn each_disk_call_of_preparing_a_segment_may_fail_once() {
    for calls in 0..12 {
        for fault in [Fault::Eio, Fault::Enospc] {
            let rig = Rig::new();
            rig.one.commit(b"safe").unwrap();
            let end = rig.one.log.header.file_end.load();
            rig.disk.fail_call(Calls::Any, calls, fault, Repeat::Once);
            let outcome = rig.one.log.prepare_segment(&rig.one.session, end.plus(8));
            rig.disk.clear_faults();
            if rig.one.log.is_poisoned() {
                assert!(matches!(outcome, Err(Error::Failed { .. })), "only a failed sync of the directory is final");
                continue;
            }
            let expected_full = fault == Fault::Enospc;
            match outcome {
                Ok(()) => {}
                Err(Error::Full { .. }) => assert!(expected_full),
                Err(Error::Io(_)) => {}
                Err(other) => panic!("{other}"),
            }
            assert_eq!(rig.one.log.header.preparer.load(), SessionId::NONE);
            for number in 0..200 {
                rig.one.commit(&[number; 1000]).unwrap();
            }
            assert_eq!(rig.two.bodies(Lsn::FIRST).len(), 201);
        }
    }
}

#[test]
fn promised_bytes_are_kept_free_for_undo() {
    let rig = Rig::new();
    rig.one.put(b"x");
    let ready = |rig: &Rig| rig.one.log.header.file_end.load().since(rig.one.log.tail());
    let before = ready(&rig);
    rig.one.log.promise(&rig.one.session, 500_000).unwrap();
    assert!(ready(&rig) >= 500_000 && before < 500_000);
    rig.disk.set_capacity(Some(rig.disk.bytes_used()));
    assert!(matches!(rig.one.log.promise(&rig.one.session, 500_000), Err(Error::Full { .. })));
    rig.one.log.release_promise(500_000);
    while rig.two.try_put(&[0; 1000]).is_ok() {}
    assert!(ready(&rig) < 400_000 + 2 * CREDIT_BYTES, "every session may use released bytes");
}

#[test]
fn on_a_full_disk_undo_has_its_reserved_room_and_other_appends_are_refused() {
    let rig = Rig::new();
    rig.one.put(b"x");
    rig.one.log.promise(&rig.one.session, 300_000).unwrap();
    rig.disk.set_capacity(Some(rig.disk.bytes_used()));
    while rig.two.try_put(&[0; 1000]).is_ok() {}
    // Undo uses all promised bytes, and both sessions' shares.
    for _ in 0..(300_000 + 2 * UNDO_SHARE_BYTES) / 1100 {
        let body = [1; 1000];
        rig.one.log.reserve_undo(&rig.one.session, record_bytes(body.len())).unwrap();
        rig.one.log.log(&rig.one.session, 1024, TxnId::new(1), Lsn::NONE, &[&body[..]]);
        rig.one.session.clear_append();
        assert!(matches!(rig.two.try_put(b"x"), Err(Error::Full { .. })));
    }
    rig.one.log.force_all(&rig.one.session).unwrap();
}

#[test]
fn on_a_full_disk_a_segment_gets_only_the_needed_blocks_and_the_others_later() {
    let settings = Settings { segment_bytes_first: 1 << 20, segment_bytes_max: 8 << 20, ..small() };
    let rig = Rig::on(SimDisk::new(1), settings.clone());
    let log = &rig.one.log;
    rig.one.commit(b"x").unwrap();
    // The disk has room for less than a quarter of the next segment.
    rig.disk.set_capacity(Some(rig.disk.bytes_used() + (450 << 10)));
    let mut put = 0;
    while rig.one.commit(&[put as u8; 4000]).is_ok() {
        put += 1;
    }
    assert!(put > (1 << 20) / 4100, "{put} records: the segment after the first was not begun");
    assert_eq!(segments(&rig), [1, 2]);
    // The log still has room for a delete.
    let freeing = rig.one.session.begin_freeing();
    rig.one.commit(b"frees").unwrap();
    drop(freeing);
    // A restart finds the whole log, and the file has its whole length.
    assert_eq!(rig.disk.open("log.00000002", libtp_io::OpenMode::ReadOnly).unwrap().len().unwrap(), 2 << 20);
    let again = Rig::restart_on(rig.disk.clone(), settings).unwrap().0;
    assert_eq!(again.one.bodies(Lsn::FIRST).len(), put + 2);
    assert!(matches!(again.one.commit(&[0; 4000]), Err(Error::Full { .. })), "the log found room that does not exist");
    again.disk.set_capacity(None);
    for _ in 0..1000 {
        again.one.commit(&[1; 4000]).unwrap();
    }
    assert_eq!(again.one.bodies(Lsn::FIRST).len(), put + 1002);
    assert!(!again.one.log.is_poisoned() && !log.is_poisoned());
}

#[test]
fn unneeded_segments_are_renamed_or_removed_and_old_records_are_gone() {
    let rig = Rig::new();
    let first = rig.one.commit(b"first").unwrap();
    for number in 0..300 {
        rig.one.commit(&[number as u8; 2000]).unwrap();
    }
    let keep = rig.one.commit(b"keep").unwrap();
    let files = segments(&rig);
    assert_eq!(files[0], 1);
    rig.one.log.recycle(&rig.one.session, keep, Lsn::new(u64::MAX)).unwrap();
    let left = segments(&rig);
    assert_eq!(left[0], rig.one.log.files.geometry().locate(keep).segment);
    assert!(left.last() > files.last(), "some segments were made ready ahead: {left:?}");
    assert!(left.windows(2).all(|two| two[1] == two[0] + 1), "the numbers have no gaps: {left:?}");
    assert!(matches!(rig.two.log.read(first), Err(Error::TooOld { .. })));
    assert!(matches!(rig.two.log.roll(first).next(), Some(Err(Error::TooOld { .. }))));
    assert_eq!(rig.two.log.read(keep).unwrap().body, b"keep");
    // The log continues in the recycled segments.
    for number in 0..300 {
        rig.two.commit(&[number as u8; 2000]).unwrap();
    }
    assert_eq!(rig.one.bodies(keep).len(), 301);
}

#[test]
fn the_log_does_not_grow_when_it_is_recycled() {
    let rig = Rig::new();
    let mut most = 0;
    for round in 0..40 {
        for _ in 0..40 {
            rig.one.put(&[round; 3000]);
        }
        rig.one.log.force_all(&rig.one.session).unwrap();
        rig.one.log.recycle(&rig.one.session, rig.one.log.durable(), Lsn::new(u64::MAX)).unwrap();
        most = most.max(rig.disk.bytes_used());
    }
    assert!(most < (700 << 10) + KEPT_BACK_BYTES, "{most} bytes for a log whose records are recycled at once");
    assert!(rig.disk.trace().iter().filter(|entry| format!("{entry:?}").contains("Rename")).count() > 20);
}

#[test]
fn the_number_of_segments_needed_recently_is_kept_ready_for_a_while() {
    let rig = Rig::on(SimDisk::new(1), Settings { recycled_bytes: 128 << 10, recycled_bytes_max: 1 << 20, ..small() });
    let log = &rig.one.log;
    let round = |bytes: usize| {
        for _ in 0..bytes >> 12 {
            rig.one.put(&[7; 4000]);
        }
        log.force_all(&rig.one.session).unwrap();
        log.recycle(&rig.one.session, log.durable(), Lsn::new(u64::MAX)).unwrap();
        log.header.file_end.load().since(log.tail())
    };
    let always = (0..40).map(|_| round(64 << 10)).max().unwrap();
    let ready_max = ((128 + 64) << 10) + KEPT_BACK_BYTES + CREDIT_BYTES;
    assert!(always <= ready_max, "{always} bytes ready without need");
    round(800 << 10);
    let ready = round(800 << 10);
    assert!(ready <= (1 << 20) + (64 << 10), "{ready} bytes ready");
    assert!(ready >= 700 << 10, "{ready} bytes ready after 800 KiB were needed twice");
    // A larger need is forgotten as fast as this need, and so is a wrong value of the word.
    round(6 << 20);
    log.header.needed_lately.publish(u64::MAX);
    let ready = (0..200).fold(0, |_, _| round(64 << 10));
    assert!(ready <= ready_max, "{ready} bytes are ready long after the need");
}

#[test]
fn the_next_segment_is_made_in_the_background() {
    let settings = Settings { segment_bytes_first: 1 << 20, segment_bytes_max: 4 << 20, ..small() };
    let rig = Rig::on(SimDisk::new(1), settings);
    assert!(!rig.one.log.prepare_next_segment(&rig.one.session).unwrap());
    while rig.one.log.tail() < Lsn::new(520 << 10) {
        rig.one.put(&[0; 1000]);
    }
    assert_eq!(segments(&rig), [1]);
    assert!(rig.two.log.prepare_next_segment(&rig.two.session).unwrap());
    assert_eq!(segments(&rig), [1, 2]);
    assert!(!rig.two.log.prepare_next_segment(&rig.two.session).unwrap());
}

#[test]
fn the_file_of_a_dead_preparer_does_not_prevent_the_next_segment() {
    let rig = Rig::new();
    let ghost = rig.another().session.id();
    rig.one.log.header.preparer.publish(ghost);
    rig.disk.open("log.preparing", libtp_io::OpenMode::Create).unwrap().write_at(b"half a segment", 0).unwrap();
    let next = rig.one.log.files.geometry().locate(rig.one.log.header.file_end.load()).segment;
    rig.one.log.files.prepare_new(next, 1).unwrap();
    let writes = rig.disk.calls(&Calls::On(Operation::Write, String::new()));
    rig.one.log.prepare_segment(&rig.one.session, rig.one.log.files.geometry().end(next)).unwrap();
    assert_eq!(rig.disk.calls(&Calls::Of(Operation::Write)), writes, "the finished segment was used");
    rig.two.commit(&[1; 30_000]).unwrap();
    assert!(rig.disk.paths().contains(&segment_name(next)));
}

#[test]
fn only_the_reservation_that_the_ring_cannot_hold_for_every_session_is_refused() {
    let rig = Rig::new();
    // Both sessions are counted. The directory of the small ring names 4 MiB.
    rig.one.commit(b"x").unwrap();
    rig.two.commit(b"x").unwrap();
    for _ in 0..2 {
        assert!(matches!(rig.one.log.reserve(&rig.one.session, 3 << 20), Err(Error::Full { .. })));
    }
    rig.two.commit(b"on").unwrap();
    rig.one.log.reserve_undo(&rig.one.session, 1000).unwrap();
    rig.one.commit(&[1; 100_000]).unwrap();
}

#[test]
fn room_reserved_by_dead_sessions_is_released() {
    let rig = Rig::new();
    rig.one.log.promise(&rig.one.session, 40_000).unwrap();
    rig.one.log.reserve(&rig.one.session, 100_000).unwrap();
    let header = &rig.two.log.header;
    assert!(header.reserve_largest.load() >= 100_000);
    rig.two.log.repair_alone().unwrap();
    assert_eq!((header.promised.load(), header.reserve_largest.load()), (0, crate::reserve::RESERVE_BYTES_MIN));
    // A session can reserve as much as before the deaths.
    rig.two.log.reserve(&rig.two.session, 100_000).unwrap();
    assert!(header.reserve_largest.load() >= 100_000);
}

#[test]
fn a_failed_sync_of_a_growing_segment_poisons_the_log() {
    let settings = Settings { segment_bytes_first: 1 << 20, segment_bytes_max: 8 << 20, ..small() };
    let rig = Rig::on(SimDisk::new(1), settings);
    rig.one.commit(b"x").unwrap();
    rig.disk.set_capacity(Some(rig.disk.bytes_used() + (450 << 10)));
    while rig.one.commit(&[7; 4000]).is_ok() {}
    assert_eq!(segments(&rig), [1, 2]);
    // The next record is logged, but not synced. If the process that syncs the file gets an error, it must report the
    // error.
    let freeing = rig.one.session.begin_freeing();
    rig.one.put(b"frees");
    drop(freeing);
    rig.disk.set_capacity(None);
    rig.disk.fail_call(Calls::On(Operation::Sync, "log.00000002".into()), 0, Fault::Eio, Repeat::Once);
    let error = rig.two.try_put(&[8; 4000]).unwrap_err();
    assert!(matches!(error, Error::Failed { .. }), "{error}");
    assert!(rig.one.log.is_poisoned());
}

#[test]
fn a_finished_segment_without_all_its_blocks_keeps_its_name_when_the_log_is_recycled() {
    let settings = Settings { segment_bytes_first: 64 << 10, segment_bytes_max: 64 << 10, ..small() };
    let rig = Rig::on(SimDisk::new(1), settings.clone());
    let geometry = *rig.one.log.files.geometry();
    while geometry.locate(rig.one.log.durable()).segment < 4 {
        rig.one.commit(&[6; 1000]).unwrap();
    }
    let next = geometry.locate(rig.one.log.header.file_end.load()).segment;
    // The preparer finds the disk almost full, and dies when the segment has its name.
    rig.disk.set_capacity(Some(rig.disk.bytes_used() + (16 << 10)));
    rig.two.log.files.extend(next, rig.two.log.incarnation, 0..12 << 10).unwrap();
    rig.disk.set_capacity(Some(rig.disk.bytes_used()));
    // Another process finds no more blocks for the segment, and keeps the file open.
    assert!(matches!(rig.one.log.prepare_segment(&rig.one.session, geometry.end(next)), Err(Error::Full { .. })));
    let named = rig.disk.identity_of(&segment_name(next)).unwrap();
    let keep = rig.two.log.durable();
    let file = control_file(&rig.directory);
    file.write(&Control { oldest: keep, durable_end: keep, ..file.read().unwrap() }).unwrap();
    rig.two.log.recycle(&rig.two.session, keep, Lsn::new(u64::MAX)).unwrap();
    assert_eq!(rig.disk.identity_of(&segment_name(next)).unwrap(), named, "another file has the segment's name");
    rig.disk.set_capacity(None);
    let mut kept = Vec::new();
    while geometry.locate(rig.one.log.durable()).segment <= next {
        kept.push(rig.one.commit(&[7; 1000]).unwrap());
    }
    let (again, _) = Rig::restart_on(rig.disk.crash_image(LossMode::DropAll, 1), settings).unwrap();
    kept.iter().for_each(|&lsn| assert_eq!(again.one.log.read(lsn).unwrap().body.len(), 1000, "the commit at {lsn}"));
}

//! The log's end after a crash: a torn tail is the end, a damaged middle is an error that names the place, and the
//! leftovers of an earlier incarnation are never read.

use std::sync::Arc;

use libtp_io::{Directory, OpenMode};
use libtp_sim::{Calls, Fault, LossMode, Repeat, SimDisk};

use super::rig::{checkpoint, control_file, fill, flip, image, small, Rig};
use crate::restart::MARK_BYTES;
use crate::{
    find_end, record_bytes, segment_name, ControlFile, Error, LogFiles, Lsn, Settings, CONTROL_NAME,
    RECORD_HEADER_BYTES,
};

#[test]
fn a_restart_continues_from_the_last_time_in_the_log() {
    let rig = Rig::new();
    fill(&rig, 30, 700);
    // From here on, the time in the log is one hour ahead of the wall clock.
    let ahead = rig.one.log.time() + 3_600_000_000;
    rig.one.log.header.mark_time.init(ahead);
    fill(&rig, 30, 700);
    let (next, _) = Rig::restart_on(image(&rig), small()).unwrap();
    assert_eq!(next.one.log.header.mark_time.get(), rig.one.log.header.mark_time.get());
    fill(&next, 5, 100);
    let mut last = 0;
    for record in next.one.log.roll(Lsn::FIRST) {
        let record = record.unwrap();
        if record.header.kind() == crate::KIND_FLUSH_MARK {
            let time = record.header.time().unwrap();
            assert!(time > last, "the time of the mark at LSN {}", record.lsn);
            last = time;
        }
    }
    assert!(last > ahead + 30);
}

#[test]
fn a_restarted_log_continues_at_its_end() {
    let mut rig = Rig::new();
    let mut all = 0;
    for incarnation in 1..6 {
        fill(&rig, 30, 700);
        all += 30;
        let end = rig.one.log.durable();
        rig.two.put(b"never flushed");
        let (next, found) = Rig::restart_on(image(&rig), small()).unwrap();
        assert_eq!((found.end.end, found.control.incarnation()), (end, incarnation + 1));
        assert!(!found.control.clean);
        assert_eq!(next.one.log.tail(), end);
        assert_eq!(next.two.bodies(Lsn::FIRST).len(), all);
        rig = next;
    }
    rig.one.log.check().unwrap();
}

#[test]
fn a_wrong_segment_header_is_damage_and_not_a_torn_tail() {
    let rig = Rig::new();
    fill(&rig, 1, 100);
    let name = segment_name(1);
    let good = rig.disk.file_bytes(&name).unwrap();
    for at in [0, 12, 40, 50, 4000] {
        let disk = image(&rig);
        disk.damage(&name, at, &[good[at as usize] ^ 0x10]);
        match Rig::restart_on(disk, small()) {
            Err(error @ Error::Corrupt { .. }) => assert!(error.to_string().contains(&name), "{error}"),
            Err(other) => panic!("byte {at}: {other}"),
            Ok((_, found)) => panic!("byte {at}: the log ends at {}", found.end.end),
        }
    }
}

#[test]
fn a_tail_torn_at_any_byte_of_the_last_flush_ends_the_log() {
    let rig = Rig::new();
    fill(&rig, 20, 300);
    let durable = rig.one.log.durable();
    let last = rig.one.put(&[0xEE; 504]);
    let place = rig.one.log.files.geometry().locate(last);
    let before = rig.disk.file_bytes(&segment_name(place.segment)).unwrap();
    rig.one.log.force(&rig.one.session, last).unwrap();
    let after = rig.disk.file_bytes(&segment_name(place.segment)).unwrap();
    let bytes = rig.one.log.durable().since(last) as usize;
    for kept in 0..bytes {
        // Only the first `kept` bytes of the flush reached the disk, or only the bytes after them.
        for is_first in [true, false] {
            let disk = image(&rig);
            let at = place.offset as usize;
            let lost = if is_first { at + kept..at + bytes } else { at..at + kept };
            disk.damage(&segment_name(place.segment), lost.start as u64, &before[lost]);
            let (_, found) = Rig::restart_on(disk.clone(), small()).unwrap();
            let left = disk.file_bytes(&segment_name(place.segment)).unwrap();
            // The first 528 bytes are the record, and the rest is the mark. A lost byte does no damage if the flush did
            // not change it.
            let expected = if left == after {
                rig.one.log.durable()
            } else if left[at..at + 528] == after[at..at + 528] {
                last.plus(528)
            } else {
                durable
            };
            assert_eq!(found.end.end, expected, "{kept} bytes, first: {is_first}");
        }
    }
    assert_ne!(before, after);
}

#[test]
fn a_flipped_byte_in_the_middle_is_corrupt_with_its_lsn() {
    let rig = Rig::new();
    let lsns = fill(&rig, 60, 700);
    for &damaged in &lsns[..lsns.len() - 1] {
        for byte in [0, 5, 9, 40, 700] {
            let disk = image(&rig);
            let place = rig.one.log.files.geometry().locate(damaged.plus(byte));
            let name = segment_name(place.segment);
            let old = disk.file_bytes(&name).unwrap()[place.offset as usize];
            disk.damage(&name, place.offset, &[old ^ 0x10]);
            match Rig::restart_on(disk, small()).map(drop) {
                Err(Error::Corrupt { lsn, .. }) => assert_eq!(lsn, damaged),
                other => panic!("byte {byte} of {damaged}: {other:?}"),
            }
        }
    }
}

#[test]
fn damage_to_the_very_last_flush_is_noticed_after_a_clean_close_or_a_checkpoint() {
    let rig = Rig::new();
    let lsns = fill(&rig, 10, 100);
    flip(&rig, lsns[9]);
    let (_, found) = Rig::restart_on(image(&rig), small()).unwrap();
    assert_eq!(found.end.end, lsns[9], "damage beyond the durable end of the control file looks like a torn tail");
    checkpoint(&rig, true);
    // The record is before the durable end, and redo needs it.
    let refused = Rig::restart_on(image(&rig), small()).map(drop);
    assert!(matches!(refused, Err(Error::Corrupt { lsn, .. }) if lsn == lsns[9]), "{refused:?}");
}

#[test]
fn a_damaged_or_missing_segment_in_the_middle_is_corrupt() {
    let rig = Rig::new();
    fill(&rig, 100, 1000);
    let geometry = *rig.one.log.files.geometry();
    let expected = geometry.start(2);
    let must_fail = |disk: &SimDisk, what: &str| match Rig::restart_on(disk.clone(), small()).map(drop) {
        Err(Error::Corrupt { lsn, what: why, .. }) => {
            assert!(lsn <= expected && lsn.plus(1100) > expected, "{what}: {lsn}");
            why
        }
        other => panic!("{what}: {other:?}"),
    };
    let name = segment_name(2);
    let disk = image(&rig);
    disk.remove(&name).unwrap();
    must_fail(&disk, "removed");
    let disk = image(&rig);
    disk.open(&name, libtp_io::OpenMode::Existing).unwrap().set_len(5000).unwrap();
    assert!(Rig::restart_on(disk, small()).is_err(), "cut off");
    let disk = image(&rig);
    disk.damage(&name, 24, &[9]);
    assert!(must_fail(&disk, "its header damaged").contains("header"));
    let disk = image(&rig);
    disk.rename(&segment_name(3), &name).unwrap();
    must_fail(&disk, "replaced by the file of another segment");
    let disk = image(&rig);
    disk.damage(&name, 0, &vec![0; 32 << 10]);
    must_fail(&disk, "zeroed");
}

/// A file that was made by mistake after the end of the log has no record. So its refusal names only that file, says its
/// fault once, and the log opens when the file is gone.
#[test]
fn a_file_after_the_end_of_the_log_is_refused_with_its_own_remedy() {
    let rig = Rig::new();
    fill(&rig, 5, 100);
    let disk = image(&rig);
    let name = segment_name(7);
    disk.open(&name, libtp_io::OpenMode::CreateNew).unwrap();
    let refused = Rig::restart_on(disk.clone(), small()).map(drop).unwrap_err();
    let text = refused.to_string();
    assert!(matches!(refused, Error::Unusable { .. }), "{text}");
    assert!(text.contains(&name) && text.contains("Move this file away") && !text.contains("tp restore"), "{text}");
    assert_eq!(text.matches("its header is cut off").count(), 1, "{text}");
    disk.remove(&name).unwrap();
    Rig::restart_on(disk, small()).unwrap();
}

#[test]
fn the_refusal_of_a_damaged_header_says_the_fault_once() {
    let rig = Rig::new();
    fill(&rig, 100, 1000);
    let disk = image(&rig);
    disk.damage(&segment_name(2), 24, &[9]);
    let text = Rig::restart_on(disk, small()).map(drop).unwrap_err().to_string();
    assert_eq!(text.matches("its header's checksum is wrong").count(), 1, "{text}");
    assert!(text.contains("tp restore") && !text.contains("the file ends"), "{text}");
}

#[test]
fn records_beyond_a_torn_tail_never_come_back() {
    let rig = Rig::new();
    fill(&rig, 5, 100);
    // One flush wrote two records of equal length, and the first record was torn.
    let first = rig.one.put(&[0x11; 100]);
    let second = rig.one.commit(&[0x22; 100]).unwrap();
    flip(&rig, first);
    let (next, found) = Rig::restart_on(image(&rig), small()).unwrap();
    assert_eq!(found.end.end, first);
    // The new incarnation writes a record and a flush mark that end just where the old record begins.
    assert_eq!(next.one.commit(&[0x33; record_bytes(100) - MARK_BYTES - RECORD_HEADER_BYTES]).unwrap(), first);
    assert_eq!(next.one.log.durable(), second);
    let (after, found) = Rig::restart_on(image(&next), small()).unwrap();
    assert_eq!(found.end.end, second);
    assert!(after.two.bodies(Lsn::FIRST).iter().all(|body| *body != [0x22; 100]));
}

#[test]
fn a_stale_record_in_a_recycled_segment_does_not_verify() {
    let settings = Settings { segment_bytes_first: 16 << 10, segment_bytes_max: 16 << 10, ..small() };
    let rig = Rig::on(SimDisk::new(1), settings.clone());
    let geometry = *rig.one.log.files.geometry();
    while rig.one.log.tail() < geometry.start(12) {
        rig.one.put(&[6; 64]);
    }
    rig.one.log.force_all(&rig.one.session).unwrap();
    rig.one.log.recycle(&rig.one.session, rig.one.log.durable(), Lsn::new(u64::MAX)).unwrap();
    // Append log to a recycled file so that the log, with its mark, ends just where an old record begins.
    let is_old = |bytes: &[u8]| bytes[RECORD_HEADER_BYTES..].starts_with(&[6; 64]);
    let old_record = |place: crate::Place| {
        let bytes = rig.disk.file_bytes(&segment_name(place.segment)).unwrap();
        let from = place.offset as usize + 200;
        let begins = |at: &usize| is_old(&bytes[*at..]);
        (from..bytes.len() - record_bytes(64)).step_by(8).find(begins).map(|at| at - place.offset as usize)
    };
    let distance = loop {
        rig.one.put(&[7; 64]);
        if let Some(distance) = old_record(geometry.locate(rig.one.log.tail())) {
            break distance;
        }
    };
    rig.one.put(&vec![8; distance - RECORD_HEADER_BYTES - MARK_BYTES]);
    rig.one.log.force_all(&rig.one.session).unwrap();
    let place = geometry.locate(rig.one.log.durable());
    let bytes = rig.disk.file_bytes(&segment_name(place.segment)).unwrap();
    assert!(is_old(&bytes[place.offset as usize..]), "an old record begins at the end");

    let directory: Arc<dyn Directory> = Arc::new(rig.disk.clone());
    let mut control = control_file(&directory).read().unwrap();
    (control.durable_end, control.oldest) = (rig.one.log.durable(), rig.one.log.oldest());
    let files = LogFiles::new(directory, &control);
    assert_eq!(find_end(&files, &control, &settings).unwrap().end, rig.one.log.durable());
}

/// Runs a workload of relaxed and durable records, checkpoints and recycling. Stops at the first error. Returns the
/// acknowledged records, each with the number of I/O calls at that moment.
fn workload(rig: &Rig) -> (Vec<(usize, Lsn)>, Option<Error>) {
    let mut acknowledged = Vec::new();
    for round in 0..60_usize {
        let outcome = (|| {
            for _ in 0..round % 4 {
                rig.one.try_put(&vec![round as u8; 90 * round])?;
            }
            let lsn = rig.two.commit(&[round as u8; 40])?;
            acknowledged.push((rig.disk.io_index(), lsn));
            if round % 20 == 19 {
                let directory: Arc<dyn Directory> = Arc::new(rig.disk.clone());
                let file = ControlFile::new(directory.open(CONTROL_NAME, OpenMode::Existing)?, CONTROL_NAME);
                let mut control = file.read()?;
                (control.durable_end, control.oldest) = (rig.one.log.durable(), acknowledged[round - 4].1);
                file.write(&control)?;
                rig.one.log.recycle(&rig.one.session, control.oldest, Lsn::new(u64::MAX))?;
            }
            Ok(())
        })();
        if let Err(error) = outcome {
            return (acknowledged, Some(error));
        }
    }
    (acknowledged, None)
}

/// Restarts on the disk, checks that the log is whole and reaches beyond `safe`, and appends more log.
fn judge(disk: SimDisk, safe: Option<Lsn>, what: &str) {
    let (next, found) = Rig::restart_on(disk, small()).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert!(Some(found.end.end) > safe, "{what}: {safe:?} was acknowledged, the log ends at {}", found.end.end);
    next.one.commit(b"on").unwrap();
    assert!(next.two.log.roll(found.control.oldest).all(|record| record.is_ok()), "{what}");
    next.two.log.check().unwrap();
}

#[test]
fn crashes_at_every_call_in_every_mode_lose_nothing_durable() {
    crashes_at_every_call_in_every_mode(&Rig::new());
}

#[test]
fn crashes_lose_nothing_durable_without_zeros_in_new_segments() {
    let disk = SimDisk::new(1);
    disk.notes_no_first_writes();
    crashes_at_every_call_in_every_mode(&Rig::on(disk, small()));
}

fn crashes_at_every_call_in_every_mode(rig: &Rig) {
    let begun = rig.disk.io_index();
    let (acknowledged, error) = workload(rig);
    assert!(error.is_none(), "{error:?}");
    let mut images = rig.disk.crash_images();
    images.advance_to(begun);
    let mut states = 0;
    while images.advance().is_some() {
        let position = images.position();
        let safe = acknowledged.iter().rev().find(|(io_index, _)| *io_index <= position).map(|(_, lsn)| *lsn);
        for mode in LossMode::ALL {
            judge(images.image(mode, position as u64), safe, &format!("{mode:?} at {position}"));
            states += 1;
        }
    }
    assert!(states > 1400, "{states} states");
}

#[test]
fn after_any_failed_call_no_acknowledged_record_is_lost_and_a_failed_sync_ends_acknowledgements() {
    let mut failures = 0;
    for fault in [Fault::Eio, Fault::Enospc] {
        for repeat in [Repeat::Once, Repeat::Forever] {
            for call in (0..).step_by(5) {
                let rig = Rig::new();
                let before = rig.disk.calls(&Calls::Any);
                rig.disk.fail_call(Calls::Any, call, fault, repeat);
                let (acknowledged, error) = workload(&rig);
                if rig.disk.calls(&Calls::Any) - before <= call {
                    break;
                }
                failures += 1;
                rig.disk.clear_faults();
                let what = format!("{fault:?} {repeat:?} at call {call}: {error:?}");
                let was_poisoned = rig.one.log.is_poisoned();
                assert_eq!(rig.two.commit(b"after").is_err(), was_poisoned, "{what}");
                let safe = acknowledged.last().map(|(_, lsn)| *lsn);
                for mode in [LossMode::DropAll, LossMode::KeepAll, LossMode::Reordered] {
                    judge(rig.disk.crash_image(mode, call), safe, &what);
                }
            }
        }
    }
    assert!(failures > 100, "{failures} failures");
}

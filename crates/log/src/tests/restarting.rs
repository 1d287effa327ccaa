//! The log's end after a crash: a torn tail is the end, a damaged middle is an error that names the place, and the
//! leftovers of an earlier life never come back.

use std::sync::Arc;

use libtp_io::{Directory, OpenMode};
use libtp_sim::{Calls, Fault, LossMode, Repeat, SimDisk};
use rio::{Offset, RootSlot, Word};

use super::rig::{control_file, small, Rig};
use crate::tail::LogHeader;
use crate::{
    all_in_files, find_end, overwrite_from_ring, rescue_ring, segment_name, ControlFile, Error, LogFiles, Lsn,
    Settings, CONTROL_NAME,
};

/// Appends and forces `count` records; returns their LSNs.
fn fill(rig: &Rig, count: usize, bytes: usize) -> Vec<Lsn> {
    (0..count).map(|number| rig.one.commit(&vec![number as u8; bytes]).unwrap()).collect()
}

fn flip(rig: &Rig, lsn: Lsn) {
    let place = rig.one.log.files.geometry().locate(lsn);
    let name = segment_name(place.segment);
    let old = rig.disk.file_bytes(&name).unwrap()[place.offset as usize];
    rig.disk.damage(&name, place.offset, &[old ^ 0x10]);
}

/// Writes the control file as a checkpoint or a clean close would.
fn checkpoint(rig: &Rig, is_clean: bool) {
    let directory: Arc<dyn Directory> = Arc::new(rig.disk.clone());
    let file = control_file(&directory);
    let mut control = file.read().unwrap();
    control.durable_end = rig.one.log.durable();
    control.clean = is_clean;
    file.write(&control).unwrap();
}

fn image(rig: &Rig) -> SimDisk {
    rig.disk.crash_image(LossMode::KeepAll, 1)
}

#[test]
fn a_restart_goes_on_with_the_last_time_of_the_log() {
    let rig = Rig::new();
    fill(&rig, 30, 700);
    // As if the wall clock had been ahead by an hour.
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
            assert!(record.header.prev().raw() > last, "the time of the mark at LSN {}", record.lsn);
            last = record.header.prev().raw();
        }
    }
    assert!(last > ahead + 30);
}

#[test]
fn a_restarted_log_goes_on_where_it_ended() {
    let mut rig = Rig::new();
    let mut all = 0;
    for life in 1..6 {
        fill(&rig, 30, 700);
        all += 30;
        let end = rig.one.log.durable();
        rig.two.put(b"never flushed");
        let (next, found) = Rig::restart_on(image(&rig), small()).unwrap();
        assert_eq!((found.end.end, found.control.incarnation()), (end, life + 1));
        assert!(!found.control.clean);
        assert_eq!(next.one.log.tail(), end);
        assert_eq!(next.two.bodies(Lsn::FIRST).len(), all);
        rig = next;
    }
    rig.one.log.check().unwrap();
}

#[test]
fn a_wrong_header_is_no_torn_tail_though_nobody_testifies_for_what_lies_behind_it() {
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
fn a_tail_torn_at_any_byte_of_the_last_flush_is_an_end() {
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
        // Either only the first `written_back` bytes of the flush reached the disk, or all bytes but those.
        for is_first in [true, false] {
            let disk = image(&rig);
            let at = place.offset as usize;
            let lost = if is_first { at + kept..at + bytes } else { at..at + kept };
            disk.damage(&segment_name(place.segment), lost.start as u64, &before[lost]);
            let (_, found) = Rig::restart_on(disk.clone(), small()).unwrap();
            let left = disk.file_bytes(&segment_name(place.segment)).unwrap();
            // The record has 536 bytes, the mark the rest. Some of the lost bytes were zeros anyway.
            let expected = if left == after {
                rig.one.log.durable()
            } else if left[at..at + 536] == after[at..at + 536] {
                last.plus(536)
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
    assert_eq!(found.end.end, lsns[9], "nobody can testify: it passes for a torn tail");
    checkpoint(&rig, true);
    // The record lies before the durable end, and redo needs it.
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
    must_fail(&disk, "another's file in its place");
    let disk = image(&rig);
    disk.damage(&name, 0, &vec![0; 32 << 10]);
    must_fail(&disk, "zeroed");
}

#[test]
fn what_lay_beyond_a_torn_tail_never_comes_back() {
    let rig = Rig::new();
    fill(&rig, 5, 100);
    // A flush of two equal records whose first was torn.
    let first = rig.one.put(&[0x11; 100]);
    let second = rig.one.commit(&[0x22; 100]).unwrap();
    flip(&rig, first);
    let (next, found) = Rig::restart_on(image(&rig), small()).unwrap();
    assert_eq!(found.end.end, first);
    // The new life writes a record and a flush mark that end just where the old record begins.
    assert_eq!(next.one.commit(&[0x33; 136 - 40 - 32]).unwrap(), first);
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
    // Log into a recycled file, and end, mark included, just where one of its old records begins.
    let old_record = |place: crate::Place| {
        let bytes = rig.disk.file_bytes(&segment_name(place.segment)).unwrap();
        let from = place.offset as usize + 200;
        let begins =
            |at: &usize| bytes[*at..].starts_with(&96_u32.to_le_bytes()) && bytes[at + 32..].starts_with(&[6; 64]);
        (from..bytes.len() - 96).step_by(8).find(begins).map(|at| at - place.offset as usize)
    };
    let distance = loop {
        rig.one.put(&[7; 64]);
        if let Some(distance) = old_record(geometry.locate(rig.one.log.tail())) {
            break distance;
        }
    };
    rig.one.put(&vec![8; distance - 32 - 40]);
    rig.one.log.force_all(&rig.one.session).unwrap();
    let place = geometry.locate(rig.one.log.durable());
    let bytes = rig.disk.file_bytes(&segment_name(place.segment)).unwrap();
    assert!(bytes[place.offset as usize..].starts_with(&96_u32.to_le_bytes()), "an old record begins at the end");

    let directory: Arc<dyn Directory> = Arc::new(rig.disk.clone());
    let mut control = control_file(&directory).read().unwrap();
    (control.durable_end, control.oldest) = (rig.one.log.durable(), rig.one.log.oldest());
    let files = LogFiles::new(directory, &control);
    assert_eq!(find_end(&files, &control, &settings).unwrap().end, rig.one.log.durable());
}

/// A workload of relaxed and durable records, checkpoints and recycling. Stops at the first error. Returns the
/// acknowledged records, each with the I/O index at that moment.
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

/// Restarts on the disk, checks that the log is whole and reaches beyond `safe`, and goes on.
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
fn nor_where_new_segments_are_not_filled_with_zeros() {
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
fn whichever_call_fails_nothing_acknowledged_is_lost_and_nothing_more_is_acknowledged_after_a_failed_sync() {
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

#[test]
fn the_ring_of_a_region_is_saved_before_the_region_is_discarded() {
    let rig = Rig::new();
    fill(&rig, 10, 300);
    let relaxed: Vec<Lsn> = (0..90).map(|number| rig.two.put(&[number; 400])).collect();
    let tail = rig.two.log.tail();
    let disk = image(&rig);
    let directory: Arc<dyn Directory> = Arc::new(disk.clone());
    for _ in 0..2 {
        let saved = rescue_ring(&rig.region, &directory, &rig.control).unwrap().unwrap();
        assert_eq!((saved.to, saved.tail), (tail, Some(tail)));
    }
    let (next, found) = Rig::restart_on(disk.crash_image(LossMode::DropAll, 1), small()).unwrap();
    assert_eq!(found.end.end, tail);
    assert!(relaxed.iter().all(|&lsn| next.one.log.read(lsn).is_ok()));
}

#[test]
fn a_log_whose_words_were_hit_is_saved_by_its_records() {
    use std::mem::offset_of;
    let words = [offset_of!(LogHeader, tail), offset_of!(LogHeader, durable), offset_of!(LogHeader, directory)];
    for hit in [&words[..1], &words[1..2], &words[2..], &words[..]] {
        let rig = Rig::new();
        fill(&rig, 10, 300);
        let relaxed: Vec<Lsn> = (0..90).map(|number| rig.two.put(&[number; 400])).collect();
        let tail = rig.two.log.tail();
        let header = rig.region.root::<LogHeader>(RootSlot::Log).unwrap().raw();
        for word in hit {
            let place = Offset::<Word<u64>>::from_raw(header + *word as u64).unwrap();
            rig.region.at(place).init(1000);
        }
        assert!(rig.one.log.check().is_err());
        let disk = image(&rig);
        let directory: Arc<dyn Directory> = Arc::new(disk.clone());
        let saved = rescue_ring(&rig.region, &directory, &rig.control).unwrap().unwrap();
        assert_eq!((saved.to, saved.tail), (tail, None));
        let (next, found) = Rig::restart_on(disk.crash_image(LossMode::DropAll, 1), small()).unwrap();
        assert_eq!(found.end.end, tail);
        assert!(relaxed.iter().all(|&lsn| next.one.log.read(lsn).is_ok()));
    }
}

#[test]
fn after_a_failed_sync_the_ring_is_saved_into_new_files() {
    let rig = Rig::new();
    fill(&rig, 10, 300);
    rig.two.put(&[1; 3000]);
    rig.disk.fail_call(Calls::On(libtp_io::Operation::Sync, "log.0".into()), 0, Fault::Eio, Repeat::Once);
    let error = rig.one.commit(b"unknown").unwrap_err();
    assert!(rig.one.log.is_poisoned(), "{error}");
    let tail = rig.one.log.tail();
    let directory: Arc<dyn Directory> = Arc::new(rig.disk.clone());
    let saved = rescue_ring(&rig.region, &directory, &rig.control).unwrap().unwrap();
    assert_eq!(saved.to, tail);
    assert!(rig.disk.trace().iter().any(|entry| format!("{entry:?}").contains("Rename")));
    let (next, found) = Rig::restart_on(rig.disk.crash_image(LossMode::DropAll, 1), small()).unwrap();
    assert_eq!(found.end.end, tail);
    assert_eq!(next.one.bodies(Lsn::FIRST).len(), 12);
}

#[test]
fn a_region_and_files_that_disagree_are_never_mixed() {
    let rig = Rig::new();
    fill(&rig, 40, 300);
    rig.one.log.check_against_files(&rig.control).unwrap();
    // A restored directory: the log in it is another.
    let other = Rig::new();
    (0..40).for_each(|number| assert!(other.one.commit(&[number ^ 0xFF; 300]).is_ok()));
    let directory: Arc<dyn Directory> = Arc::new(other.disk.clone());
    let outcome = rescue_ring(&rig.region, &directory, &rig.control);
    assert!(matches!(outcome, Err(Error::Disagree { .. })), "{outcome:?}");
    // The files were set back to before the region's last flush.
    let rig = Rig::new();
    let directory = rig.directory.clone();
    let lsn = fill(&rig, 2, 300)[1];
    flip(&rig, lsn);
    let outcome = rescue_ring(&rig.region, &directory, &rig.control);
    assert!(matches!(outcome, Err(Error::Disagree { files, .. }) if files <= lsn), "{outcome:?}");
    assert!(matches!(rig.one.log.check_against_files(&rig.control), Err(Error::Disagree { .. })));
}

#[test]
fn where_they_disagree_the_regions_log_goes_to_the_files_on_demand() {
    let rig = Rig::new();
    let lsn = fill(&rig, 20, 300)[18];
    rig.two.put(&[5; 400]);
    flip(&rig, lsn);
    assert!(matches!(rescue_ring(&rig.region, &rig.directory, &rig.control), Err(Error::Disagree { .. })));
    let control = control_file(&rig.directory);
    let saved = overwrite_from_ring(&rig.region, &rig.directory, &control).unwrap();
    assert_eq!((saved.to, saved.tail), (rig.two.log.tail(), Some(rig.two.log.tail())));
    rig.one.log.check_against_files(&rig.control).unwrap();
    let (next, _) = Rig::restart_on(image(&rig), small()).unwrap();
    assert_eq!(next.one.bodies(Lsn::FIRST).len(), 21);
    let mut later = control.read().unwrap();
    later.durable_end = rig.one.log.tail().plus(8);
    control.write(&later).unwrap();
    let outcome = overwrite_from_ring(&rig.region, &rig.directory, &control);
    assert!(matches!(outcome, Err(Error::Unusable { .. })), "{outcome:?}");
}

/// The files are set back to a backup of the life before the region's, and the region has log beyond them.
#[test]
fn a_region_of_a_later_life_is_told_from_the_files_and_put_behind_them_on_demand() {
    let first = Rig::new();
    fill(&first, 5, 300);
    checkpoint(&first, true);
    let backup = image(&first);
    let (later, _) = Rig::restart_on(image(&first), small()).unwrap();
    let began = later.one.log.tail();
    let region_and = |disk: &SimDisk| {
        let directory: Arc<dyn Directory> = Arc::new(disk.clone());
        let control = control_file(&directory);
        let told = all_in_files(&later.region, &directory, &control.read().unwrap());
        (directory, control, told)
    };
    assert!(region_and(&backup).2.is_ok(), "it knows no more than the files");
    fill(&later, 5, 300);
    later.two.put(b"not flushed");
    let end = later.one.log.tail();
    assert!(matches!(region_and(&later.disk).2, Err(Error::Disagree { region, .. }) if region == end));
    later.one.commit(b"the last").unwrap();
    let end = later.one.log.tail();
    assert!(region_and(&later.disk).2.is_ok());
    let (directory, control, told) = region_and(&backup);
    assert!(matches!(told, Err(Error::Disagree { region, files }) if region == end && files == began), "{told:?}");
    for _ in 0..2 {
        let saved = overwrite_from_ring(&later.region, &directory, &control).unwrap();
        assert_eq!((saved.from, saved.to), (began, end));
    }
    let (next, found) = Rig::restart_on(backup, small()).unwrap();
    assert_eq!((found.end.end, found.control.incarnation()), (end, later.one.log.incarnation() + 1));
    assert_eq!(next.one.bodies(Lsn::FIRST).len(), 12);
}

#[test]
fn a_region_whose_log_begins_beyond_the_files_cannot_be_put_behind_them() {
    let rig = Rig::new();
    fill(&rig, 5, 300);
    let backup = image(&rig);
    // Until the ring no longer has the place where the backup ends.
    while rig.one.log.header.ring_start.load() <= Lsn::new(8192) {
        fill(&rig, 20, 700);
    }
    let directory: Arc<dyn Directory> = Arc::new(backup.clone());
    let before = backup.trace().len();
    let refused = overwrite_from_ring(&rig.region, &directory, &control_file(&directory)).unwrap_err();
    assert!(matches!(refused, Error::Unusable { .. }) && refused.to_string().contains("--keep-files"), "{refused}");
    let wrote = format!("{:?}", &backup.trace()[before..]);
    assert!(!wrote.contains("Write"), "nothing was to be changed: {wrote}");
}

#[test]
fn a_file_in_the_middle_that_was_set_back_is_noticed_though_the_last_one_is_right() {
    let rig = Rig::new();
    fill(&rig, 5, 300);
    let old = image(&rig);
    let first = rig.one.log.files.geometry().locate(rig.one.log.durable()).segment;
    while rig.one.log.files.geometry().locate(rig.one.log.durable().minus(8192)).segment <= first {
        fill(&rig, 20, 700);
    }
    rig.one.log.check_against_files(&rig.control).unwrap();
    let name = segment_name(first);
    rig.disk.damage(&name, 0, &old.file_bytes(&name).unwrap());
    let outcome = rig.one.log.check_against_files(&rig.control);
    assert!(matches!(outcome, Err(Error::Disagree { .. })), "{outcome:?}");
}

#[test]
fn a_region_of_another_life_is_not_taken_for_this_one() {
    let rig = Rig::new();
    fill(&rig, 5, 100);
    let (next, _) = Rig::restart_on(image(&rig), small()).unwrap();
    let outcome = rescue_ring(&rig.region, &next.directory, &next.control).unwrap();
    assert_eq!(outcome, None);
    assert!(
        crate::LogManager::attach(&rig.region, &small(), &next.directory, &next.control, &next.one.processes).is_err()
    );
}

#[test]
fn everyone_died_and_the_region_is_put_in_order() {
    let rig = Rig::new();
    let lsn = rig.one.put(b"published");
    let ghost = rig.another().session.id();
    rig.one.log.header.leader.publish(ghost);
    rig.one.log.header.preparer.publish(ghost);
    rig.one.log.header.waiters[5].session.publish(ghost);
    rig.one.log.header.waiter_high.publish(6);
    std::mem::forget(rig.one.log.header.append.exclusive(&rig.one.session, libtp_process::Rank::LOG_APPEND));
    let fresh = rig.another();
    fresh.log.repair_alone().unwrap();
    assert!(fresh.commit(b"on").unwrap() > lsn);
    assert_eq!(fresh.bodies(Lsn::FIRST).len(), 2);
    fresh.log.header.durable.publish(fresh.log.tail().plus(8));
    assert!(fresh.log.repair_alone().unwrap_err().contains("out of order"));
}

#[test]
fn a_full_disk_does_not_keep_anyone_from_opening_and_reading() {
    let rig = Rig::new();
    let lsns = fill(&rig, 30, 1000);
    let disk = image(&rig);
    disk.set_capacity(Some(disk.bytes_used()));
    let (next, _) = Rig::restart_on(disk, small()).unwrap();
    assert!(lsns.iter().all(|&lsn| next.one.log.read(lsn).is_ok()));
}

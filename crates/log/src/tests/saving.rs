//! The log of a region is saved into the files, or compared with them, before the region is used or discarded.

use std::sync::Arc;

use libtp_io::Directory;
use libtp_sim::{Calls, Fault, LossMode, Repeat, SimDisk};
use rio::{Offset, RootSlot, Word};

use super::rig::{checkpoint, control_file, fill, flip, image, small, Rig};
use crate::tail::LogHeader;
use crate::{all_in_files, overwrite_from_ring, rescue_ring, segment_name, Error, Lsn};

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
fn a_log_with_damaged_words_is_saved_by_its_records() {
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
    // A restored directory has another log.
    let other = Rig::new();
    (0..40).for_each(|number| assert!(other.one.commit(&[number ^ 0xFF; 300]).is_ok()));
    let directory: Arc<dyn Directory> = Arc::new(other.disk.clone());
    let outcome = rescue_ring(&rig.region, &directory, &rig.control);
    assert!(matches!(outcome, Err(Error::Disagree { .. })), "{outcome:?}");
    // The files were set back to their state before the region's last flush.
    let rig = Rig::new();
    let directory = rig.directory.clone();
    let lsn = fill(&rig, 2, 300)[1];
    flip(&rig, lsn);
    let outcome = rescue_ring(&rig.region, &directory, &rig.control);
    assert!(matches!(outcome, Err(Error::Disagree { files, .. }) if files <= lsn), "{outcome:?}");
    assert!(matches!(rig.one.log.check_against_files(&rig.control), Err(Error::Disagree { .. })));
}

#[test]
fn the_log_of_a_region_that_disagrees_with_the_files_is_written_to_them_on_demand() {
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

/// The files are replaced by a backup from the incarnation before the region's, and the region has log beyond them.
#[test]
fn a_region_of_a_later_incarnation_is_recognized_and_written_to_the_files_on_demand() {
    let first = Rig::new();
    fill(&first, 5, 300);
    checkpoint(&first, true);
    let backup = image(&first);
    let (later, _) = Rig::restart_on(image(&first), small()).unwrap();
    let began = later.one.log.tail();
    let region_and = |disk: &SimDisk| {
        let directory: Arc<dyn Directory> = Arc::new(disk.clone());
        let control = control_file(&directory);
        let outcome = all_in_files(&later.region, &directory, &control.read().unwrap());
        (directory, control, outcome)
    };
    assert!(region_and(&backup).2.is_ok(), "the region has no more log than the files");
    fill(&later, 5, 300);
    later.two.put(b"not flushed");
    let end = later.one.log.tail();
    assert!(matches!(region_and(&later.disk).2, Err(Error::Disagree { region, .. }) if region == end));
    later.one.commit(b"the last").unwrap();
    let end = later.one.log.tail();
    assert!(region_and(&later.disk).2.is_ok());
    let (directory, control, outcome) = region_and(&backup);
    assert!(
        matches!(outcome, Err(Error::Disagree { region, files }) if region == end && files == began),
        "{outcome:?}"
    );
    for _ in 0..2 {
        let saved = overwrite_from_ring(&later.region, &directory, &control).unwrap();
        assert_eq!((saved.from, saved.to), (began, end));
    }
    let (next, found) = Rig::restart_on(backup, small()).unwrap();
    assert_eq!((found.end.end, found.control.incarnation()), (end, later.one.log.incarnation() + 1));
    assert_eq!(next.one.bodies(Lsn::FIRST).len(), 12);
}

#[test]
fn a_region_whose_log_begins_beyond_the_files_cannot_be_written_to_them() {
    let rig = Rig::new();
    fill(&rig, 5, 300);
    let backup = image(&rig);
    // Append until the ring no longer has the LSN where the backup ends.
    while rig.one.log.header.ring_start.load() <= Lsn::new(8192) {
        fill(&rig, 20, 700);
    }
    let directory: Arc<dyn Directory> = Arc::new(backup.clone());
    let before = backup.trace().len();
    let refused = overwrite_from_ring(&rig.region, &directory, &control_file(&directory)).unwrap_err();
    assert!(matches!(refused, Error::Unusable { .. }) && refused.to_string().contains("--keep-files"), "{refused}");
    let wrote = format!("{:?}", &backup.trace()[before..]);
    assert!(!wrote.contains("Write"), "the refused call changed the files: {wrote}");
}

#[test]
fn a_file_in_the_middle_that_was_set_back_is_noticed_though_the_last_file_is_right() {
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
fn a_region_of_another_incarnation_is_refused() {
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
fn a_repair_after_all_sessions_died_puts_the_log_in_order() {
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
fn an_environment_on_a_full_disk_can_be_opened_and_read() {
    let rig = Rig::new();
    let lsns = fill(&rig, 30, 1000);
    let disk = image(&rig);
    disk.set_capacity(Some(disk.bytes_used()));
    let (next, _) = Rig::restart_on(disk, small()).unwrap();
    assert!(lsns.iter().all(|&lsn| next.one.log.read(lsn).is_ok()));
}

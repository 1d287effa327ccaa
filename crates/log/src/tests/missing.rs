//! Segments that are missing, or too short: a restart refuses them, and a restart that refuses changes no byte.

use std::sync::Arc;

use libtp_io::{Directory, OpenMode};
use libtp_sim::{LossMode, SimDisk};

use super::rig::{control_file, image, small, Rig};
use crate::segment::NOTE_AT;
use crate::{segment_name, Error, Lsn};

/// Commits until the log's newest record is in segment `number`, then commits one more record.
fn fill_into(rig: &Rig, number: u32) {
    let geometry = *rig.one.log.files.geometry();
    while geometry.locate(rig.one.log.durable()).segment < number {
        rig.one.commit(&[7; 200]).unwrap();
    }
    rig.one.commit(b"the last").unwrap();
}

/// Every file with its bytes.
fn contents(disk: &SimDisk) -> Vec<(String, Option<Vec<u8>>)> {
    disk.paths().into_iter().map(|path| (path.clone(), disk.file_bytes(&path))).collect()
}

/// Checks that a restart on `disk` is refused and changes nothing. Returns the error's text.
fn must_refuse(disk: &SimDisk, what: &str) -> String {
    let before = contents(disk);
    let refused = Rig::restart_on(disk.clone(), small()).map(|(_, found)| found.end);
    let Err(error @ Error::Corrupt { .. }) = &refused else { panic!("{what}: {refused:?}") };
    assert!(contents(disk) == before, "{what}: the refused restart has changed a file");
    error.to_string()
}

fn cut(disk: &SimDisk, name: &str, bytes: u64) {
    disk.open(name, OpenMode::Existing).unwrap().set_len(bytes).unwrap();
}

/// Writes the control file as a checkpoint does that keeps the log from its beginning.
fn checkpoint(rig: &Rig) {
    let directory: Arc<dyn Directory> = Arc::new(rig.disk.clone());
    let file = control_file(&directory);
    let mut control = file.read().unwrap();
    control.durable_end = rig.one.log.durable();
    file.write(&control).unwrap();
}

/// Checks that a restart needs each segment. Removes one segment, or cuts it to one of several lengths: the restart is
/// refused. After the file is put back, nothing is lost.
fn every_segment_counts(rig: &Rig, newest: u32) {
    let end = rig.one.log.durable();
    for number in 1..=newest {
        let name = segment_name(number);
        let whole = image(rig).file_bytes(&name).unwrap();
        for kept in [None, Some(0), Some(100), Some(4096), Some(5000), Some(whole.len() as u64 - 1)] {
            let what = format!("segment {number} of {newest}, {kept:?} bytes of it left");
            let disk = image(rig);
            match kept {
                None => disk.remove(&name).unwrap(),
                Some(bytes) => cut(&disk, &name, bytes),
            }
            let sentence = must_refuse(&disk, &what);
            assert!(sentence.contains(&name), "{what}: {sentence}");
            disk.open(&name, OpenMode::Create).unwrap().write_at(&whole, 0).unwrap();
            let (_, found) = Rig::restart_on(disk, small()).unwrap_or_else(|error| panic!("{what}, put back: {error}"));
            assert_eq!(found.end.end, end, "{what}, put back");
        }
    }
}

#[test]
fn a_segment_that_is_missing_or_too_short_is_refused_and_nothing_is_changed() {
    for newest in 1..=4 {
        let (rig, _) = Rig::restart_on(image(&Rig::new()), small()).unwrap();
        fill_into(&rig, newest);
        every_segment_counts(&rig, newest);
    }
}

#[test]
fn a_missing_segment_is_refused_after_a_checkpoint_too() {
    for (checkpointed, newest) in [(1, 1), (1, 2), (2, 2), (2, 4)] {
        let (rig, _) = Rig::restart_on(image(&Rig::new()), small()).unwrap();
        fill_into(&rig, checkpointed);
        checkpoint(&rig);
        fill_into(&rig, newest);
        every_segment_counts(&rig, newest);
    }
}

#[test]
fn a_log_without_all_its_newer_segments_is_refused() {
    let rig = Rig::new();
    fill_into(&rig, 4);
    for first in 2..=4 {
        let disk = image(&rig);
        for path in
            disk.paths().iter().filter(|path| path.as_str() >= segment_name(first).as_str() && path.starts_with("log."))
        {
            disk.remove(path).unwrap();
        }
        must_refuse(&disk, &format!("without the segments from {first} on"));
    }
}

#[test]
fn a_segment_that_a_restart_has_found_must_exist_later_even_without_a_note() {
    let rig = Rig::new();
    fill_into(&rig, 2);
    let disk = image(&rig);
    // Erases the note in the first segment, as if power was cut between the first records of the second segment and the
    // note.
    disk.open(&segment_name(1), OpenMode::Existing).unwrap().write_at(&[0; 16], NOTE_AT as u64).unwrap();
    let (next, found) = Rig::restart_on(disk, small()).unwrap();
    assert_eq!(found.end.end, rig.one.log.durable());
    let disk = image(&next);
    disk.remove(&segment_name(2)).unwrap();
    must_refuse(&disk, "the segment that a restart has found");
}

#[test]
fn a_segment_that_a_saved_ring_was_written_to_must_exist_later() {
    let rig = Rig::new();
    fill_into(&rig, 1);
    let geometry = *rig.one.log.files.geometry();
    while geometry.locate(rig.one.log.tail()).segment < 2 {
        rig.one.put(&[8; 200]);
    }
    rig.one.put(b"the last");
    let disk = image(&rig);
    let directory: Arc<dyn Directory> = Arc::new(disk.clone());
    let saved = crate::rescue_ring(&rig.region, &directory, &rig.control).unwrap().unwrap();
    assert!(saved.to > geometry.start(2));
    disk.remove(&segment_name(2)).unwrap();
    must_refuse(&disk, "the segment that the saved ring went into");
}

#[test]
fn a_segment_that_was_only_prepared_may_be_missing() {
    let rig = Rig::new();
    fill_into(&rig, 1);
    let end = rig.one.log.durable();
    rig.one.log.prepare_next_segment(&rig.one.session).unwrap();
    let disk = image(&rig);
    for number in 2..9 {
        let _ = disk.remove(&segment_name(number));
    }
    let (_, found) = Rig::restart_on(disk, small()).unwrap();
    assert_eq!(found.end.end, end);
}

#[test]
fn a_log_without_segments_below_its_oldest_record_is_whole() {
    let rig = Rig::new();
    fill_into(&rig, 4);
    let directory: Arc<dyn Directory> = Arc::new(rig.disk.clone());
    let file = control_file(&directory);
    let mut control = file.read().unwrap();
    (control.durable_end, control.oldest) = (rig.one.log.durable(), rig.one.log.durable());
    file.write(&control).unwrap();
    let disk = image(&rig);
    for number in 1..4 {
        disk.remove(&segment_name(number)).unwrap();
    }
    let (_, found) = Rig::restart_on(disk, small()).unwrap();
    assert_eq!(found.end.end, rig.one.log.durable());
    assert!(found.end.end > Lsn::FIRST);
}

#[test]
fn a_flush_over_several_segments_that_a_power_cut_breaks_off_is_a_torn_tail() {
    let rig = Rig::new();
    rig.one.commit(b"first").unwrap();
    let (safe, begun) = (rig.one.log.durable(), rig.disk.io_index());
    let geometry = *rig.one.log.files.geometry();
    while geometry.locate(rig.one.log.tail()).segment < 4 {
        // With this length some records begin in one segment and end in the next.
        rig.one.put(&[9; 1001]);
    }
    rig.one.commit(b"last").unwrap();
    let mut images = rig.disk.crash_images();
    images.advance_to(begun);
    while images.advance().is_some() {
        for mode in LossMode::ALL {
            let what = format!("{mode:?} at {}", images.position());
            let restarted = Rig::restart_on(images.image(mode, images.position() as u64), small());
            let (_, found) = restarted.unwrap_or_else(|error| panic!("{what}: {error}"));
            assert!(found.end.end >= safe, "{what}: the log ends at {}", found.end.end);
        }
    }
}

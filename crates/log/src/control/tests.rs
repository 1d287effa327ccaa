//! The control file under torn writes, foreign files and unknown versions.

use libtp_io::{Directory, OpenMode, Operation, PosixDirectory};
use libtp_sim::{Calls, Fault, LossMode, Repeat, SimDisk};

use super::*;

struct Room {
    path: std::path::PathBuf,
    directory: PosixDirectory,
}

impl Room {
    fn new(name: &str) -> Room {
        let path = std::env::temp_dir().join(format!("libtp-control-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        let directory = PosixDirectory::create(&path).unwrap();
        Room { path, directory }
    }

    fn file(&self) -> ControlFile {
        ControlFile::new(self.directory.open(CONTROL_NAME, OpenMode::Create).unwrap(), "bank/control")
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

fn some_control() -> Control {
    let mut control = Control::new([7; 16], &Settings::default());
    control.incarnations.begin(Lsn::new(4096)).unwrap();
    control.redo_point = Lsn::new(800);
    control.checkpoint = Lsn::new(1600);
    control.durable_end = Lsn::new(2400);
    control.unresolved = vec![TxnId::new(3), TxnId::new(9)];
    control.clean = false;
    control
}

fn flip(file: &ControlFile, byte: u64) {
    let mut one = [0];
    file.file.read_at(&mut one, byte).unwrap();
    file.file.write_at(&[one[0] ^ 0x40], byte).unwrap();
}

#[test]
fn the_written_control_file_is_read() {
    let room = Room::new("read");
    let file = room.file();
    file.create(&some_control()).unwrap();
    assert_eq!(file.read().unwrap(), some_control());
    for next in 2..9 {
        let control = Control { next_file_id: next, ..some_control() };
        file.write(&control).unwrap();
        assert_eq!(file.read().unwrap(), control);
    }
    assert_eq!(file.file.len().unwrap(), CONTROL_BYTES);
}

#[test]
fn a_torn_write_leaves_the_earlier_slot() {
    let room = Room::new("torn");
    let file = room.file();
    let old = some_control();
    file.create(&old).unwrap();
    for round in 0..4 {
        let new = Control { next_file_id: 100 + round, ..some_control() };
        let before = file.newest().unwrap().0;
        file.write(&new).unwrap();
        let block = if (before + 1) % 2 == 1 { 1 } else { 2 };
        flip(&file, block * BLOCK_BYTES + 40);
        let found = file.read().unwrap();
        assert_ne!(found, new, "the damaged slot is ignored");
        file.write(&new).unwrap();
        assert_eq!(file.read().unwrap(), new);
    }
}

#[test]
fn two_damaged_slots_are_an_error_that_names_the_file() {
    let room = Room::new("both");
    let file = room.file();
    file.create(&some_control()).unwrap();
    flip(&file, 4096 + 100);
    flip(&file, 8192 + 4000);
    let error = file.read().unwrap_err().to_string();
    assert!(error.contains("bank/control") && error.contains("both copies of its contents are damaged"), "{error}");
    assert!(file.write(&some_control()).is_err());
}

#[test]
fn foreign_files_empty_files_and_other_versions_are_refused() {
    let room = Room::new("foreign");
    let file = room.file();
    assert!(file.read().unwrap_err().to_string().contains("too short"));
    file.file.write_at(b"SQLite format 3\0 and so on, and so on, and so on", 0).unwrap();
    assert!(file.read().unwrap_err().to_string().contains("not the control file"));
    file.create(&some_control()).unwrap();
    file.file.write_at(&9_u32.to_le_bytes(), 8).unwrap();
    assert!(file.read().unwrap_err().to_string().contains("version 9"));
}

#[test]
fn every_flipped_bit_of_the_first_block_is_noticed() {
    let room = Room::new("front");
    let file = room.file();
    file.create(&some_control()).unwrap();
    for byte in [0, 8, 12, 16, 31, 32, 4095] {
        flip(&file, byte);
        assert!(matches!(file.read(), Err(Error::Unusable { .. })), "byte {byte}");
        flip(&file, byte);
    }
    file.read().unwrap();
}

#[test]
fn a_power_cut_after_an_unsynced_write_of_a_dead_process_leaves_a_valid_slot() {
    let disk = SimDisk::new(3);
    let view = disk.process_view();
    let file = ControlFile::new(view.directory().open(CONTROL_NAME, OpenMode::Create).unwrap(), "bank/control");
    file.create(&some_control()).unwrap();
    view.directory().sync().unwrap();
    // The lists are so long that a slot has several sectors, and a disk writes only single sectors whole.
    let with = |number: u64| Control {
        unresolved: (0..200).map(|each| TxnId::new(number + each)).collect(),
        ..some_control()
    };
    for round in 0..4 {
        // Killed between the write and the sync.
        let next = file.newest().unwrap().0 + 1;
        let block = if next % 2 == 1 { 1 } else { 2 };
        file.file.write_at(&with(1000 * round).to_slot(next).0, block * BLOCK_BYTES).unwrap();
        let from = disk.io_index();
        file.write(&with(1000 * round + 500)).unwrap();
        let mut walk = disk.crash_images();
        for position in from..=disk.io_index() {
            walk.advance_to(position);
            for (mode, seed) in LossMode::ALL.into_iter().flat_map(|mode| (0..8).map(move |seed| (mode, seed))) {
                let image = walk.image(mode, seed);
                let view = image.process_view();
                let found = view.directory().open(CONTROL_NAME, OpenMode::Existing).unwrap();
                let read = ControlFile::new(found, "bank/control").read();
                assert!(read.is_ok(), "cut at change {position} ({mode:?}, seed {seed}): {}", read.unwrap_err());
            }
        }
    }
}

/// Returns the contents after `restarts` restarts without a checkpoint.
fn after_restarts(restarts: u64) -> Control {
    let mut control = some_control();
    let from = control.incarnations.current().start.raw();
    for restart in 1..=restarts {
        control.incarnations.begin(Lsn::new(from + restart * 800)).unwrap();
    }
    control
}

#[test]
fn each_slot_keeps_its_own_list_of_incarnations_that_do_not_fit_in_it() {
    let room = Room::new("incarnations");
    let file = room.file();
    file.create(&some_control()).unwrap();
    let mut before = some_control();
    // Each list has two incarnations more than `restarts`, and a slot has room for 128. The last two lists are shorter
    // than the earlier lists, as after a recycling of the log.
    for restarts in [125, 126, 127, 200, 382, 383, 600, 1500, 300, 90] {
        let control = after_restarts(restarts);
        file.write(&control).unwrap();
        assert!(file.read().unwrap() == control);
        let block = 2 - file.newest().unwrap().0 % 2;
        let older = control.incarnations.list().len().saturating_sub(SLOT_INCARNATIONS);
        for index in 0..(older * INCARNATION_BYTES).div_ceil(SLOT_BYTES) {
            flip(&file, further_block_at(block, index) + 5);
            assert!(file.read().unwrap() == before, "the other slot is read");
            flip(&file, further_block_at(block, index) + 5);
        }
        if older > 0 {
            // Damages both slots.
            flip(&file, further_block_at(block, 0) + 5);
            flip(&file, (3 - block) * BLOCK_BYTES + 40);
            let error = file.read().unwrap_err().to_string();
            assert!(
                error.contains("its list of earlier restarts is damaged") && error.contains("`tp restore`"),
                "{error}"
            );
            flip(&file, further_block_at(block, 0) + 5);
            flip(&file, (3 - block) * BLOCK_BYTES + 40);
        }
        before = control;
    }
}

#[test]
fn a_death_or_power_cut_during_a_write_of_many_incarnations_leaves_one_good_slot() {
    let disk = SimDisk::new(4);
    let view = disk.process_view();
    let file = ControlFile::new(view.directory().open(CONTROL_NAME, OpenMode::Create).unwrap(), "bank/control");
    file.create(&some_control()).unwrap();
    view.directory().sync().unwrap();
    let mut before = some_control();
    for restarts in [300, 301, 700] {
        let control = after_restarts(restarts);
        let from = disk.io_index();
        file.write(&control).unwrap();
        let mut walk = disk.crash_images();
        for position in from..=disk.io_index() {
            walk.advance_to(position);
            for mode in LossMode::ALL {
                let image = walk.image(mode, restarts);
                let found = ControlFile::new(image.open(CONTROL_NAME, OpenMode::Existing).unwrap(), "bank/control");
                let found = found.read().unwrap();
                assert!(found == before || found == control, "{mode:?} at {position}");
            }
        }
        assert!(file.read().unwrap() == control);
        before = control;
    }
}

#[test]
fn further_blocks_of_a_failed_sync_are_written_again() {
    for restarts in [300, 600] {
        let disk = SimDisk::new(5);
        let view = disk.process_view();
        let file = ControlFile::new(view.directory().open(CONTROL_NAME, OpenMode::Create).unwrap(), "bank/control");
        file.create(&after_restarts(restarts)).unwrap();
        view.directory().sync().unwrap();
        let control = after_restarts(restarts + 1);
        // The first sync is of the old contents.
        disk.fail_call(Calls::On(Operation::Sync, CONTROL_NAME.into()), 1, Fault::Eio, Repeat::Once);
        assert!(matches!(file.write(&control), Err(Error::Failed { .. })));
        for _ in 0..2 {
            file.write(&control).unwrap();
        }
        let image = disk.crash_image(LossMode::DropAll, 1);
        let found = ControlFile::new(image.open(CONTROL_NAME, OpenMode::Existing).unwrap(), "bank/control");
        for slot in [1, 2] {
            let message = found.slot(slot).unwrap().map(|(_, message)| message);
            assert!(message.as_ref() == Ok(&control), "slot {slot} after {restarts} restarts: {:?}", message.err());
        }
    }
}

#[test]
fn on_a_full_disk_a_list_that_needs_a_further_block_fails_and_changes_nothing() {
    let disk = SimDisk::new(6);
    let view = disk.process_view();
    let file = ControlFile::new(view.directory().open(CONTROL_NAME, OpenMode::Create).unwrap(), "bank/control");
    file.create(&some_control()).unwrap();
    let before = after_restarts(120);
    file.write(&before).unwrap();
    disk.fail_call(Calls::On(Operation::Allocate, CONTROL_NAME.into()), 0, Fault::Enospc, Repeat::Forever);
    // Every allocation for the control file fails from here on. A restart whose list does not fit into the slot is then
    // refused, and changes nothing.
    let control = after_restarts(140);
    let refused = file.write(&control).unwrap_err();
    assert!(matches!(refused, Error::Full { .. }), "{refused}");
    assert!(file.slot(1).unwrap().is_ok() && file.slot(2).unwrap().is_ok());
    assert!(file.read().unwrap() == before);
    disk.clear_faults();
    file.write(&control).unwrap();
    assert!(file.read().unwrap() == control);
}

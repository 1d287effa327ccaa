//! The control file under torn writes, foreign files and strange versions.

use libtp_io::{Directory, OpenMode, PosixDirectory};

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
fn what_is_written_is_read() {
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
fn a_torn_write_leaves_the_slot_before_it() {
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
        assert_ne!(found, new, "the damaged slot does not count");
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
    assert!(error.contains("bank/control") && error.contains("both its slots are damaged"), "{error}");
    assert!(file.write(&some_control()).is_err());
}

#[test]
fn a_foreign_file_an_empty_one_and_another_version_are_refused() {
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

//! Tests that need a real filesystem; `libtp-sim` tests the contract itself over both disks.

use super::*;
use crate::contract::{Directory, OpenMode};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

/// A separate directory for one test, removed afterwards.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Scratch {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        // Relaxed: a counter that publishes nothing.
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("libtp-io-{}-{number}", std::process::id());
        Scratch(std::env::temp_dir().join(name))
    }

    fn directory(&self) -> PosixDirectory {
        PosixDirectory::create(&self.0).unwrap()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn mode_of(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

#[test]
fn create_makes_all_missing_parents_and_open_makes_no_directory() {
    let scratch = Scratch::new();
    let deep = scratch.0.join("a/b/c");
    assert!(matches!(PosixDirectory::open(&deep), Err(Error::NotFound { .. })));
    assert!(!scratch.0.exists());
    let made = PosixDirectory::create(&deep).unwrap();
    assert_eq!(made.path(), deep);
    assert!(deep.is_dir());
    PosixDirectory::create(&deep).unwrap();
}

#[test]
fn a_file_takes_its_permissions_from_the_directory_and_not_from_the_umask() {
    let scratch = Scratch::new();
    let directory = scratch.directory();
    for (directory_mode, file_mode) in [(0o770, 0o660), (0o700, 0o600), (0o777, 0o666)] {
        std::fs::set_permissions(&scratch.0, PermissionsExt::from_mode(directory_mode)).unwrap();
        for (name, mode) in [("new", OpenMode::CreateNew), ("some", OpenMode::Create)] {
            directory.open(name, mode).unwrap();
            assert_eq!(mode_of(&scratch.0.join(name)), file_mode);
            directory.remove(name).unwrap();
        }
        directory.subdirectory("below").unwrap();
        assert_eq!(mode_of(&scratch.0.join("below")), directory_mode);
        std::fs::remove_dir(scratch.0.join("below")).unwrap();
    }
}

#[test]
fn a_directory_that_is_renamed_while_open_can_still_be_used() {
    let scratch = Scratch::new();
    let directory = PosixDirectory::create(scratch.0.join("old")).unwrap();
    std::fs::rename(scratch.0.join("old"), scratch.0.join("new")).unwrap();
    directory.open("file", OpenMode::Create).unwrap();
    assert!(scratch.0.join("new/file").exists());
}

#[test]
fn directories_and_pipes_are_refused_by_name_and_without_waiting() {
    let scratch = Scratch::new();
    let directory = scratch.directory();
    std::fs::create_dir(scratch.0.join("below")).unwrap();
    let pipe = scratch.0.join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    for name in ["below", "pipe"] {
        for mode in [OpenMode::Existing, OpenMode::Create, OpenMode::ReadOnly] {
            let error = directory.open(name, mode).unwrap_err();
            assert!(matches!(&error, Error::Unsuitable { .. }), "{name} {mode:?}: {error}");
            assert!(error.to_string().contains(name));
        }
    }
    directory.open("file", OpenMode::Create).unwrap();
    assert!(matches!(PosixDirectory::open(scratch.0.join("file")), Err(Error::Unsuitable { .. })));
    assert!(matches!(directory.subdirectory("file"), Err(Error::Unsuitable { .. })));
    assert_eq!(directory.list().unwrap(), ["file", "pipe"]);
}

#[test]
fn allocated_blocks_exist_on_the_disk() {
    use std::os::unix::fs::MetadataExt;
    let scratch = Scratch::new();
    let file = scratch.directory().open("file", OpenMode::Create).unwrap();
    file.allocate(0..1 << 20).unwrap();
    let status = std::fs::metadata(scratch.0.join("file")).unwrap();
    assert_eq!(status.len(), 1 << 20);
    assert!(status.blocks() * 512 >= 1 << 20);
}

#[test]
fn only_the_given_range_is_allocated() {
    use std::os::unix::fs::MetadataExt;
    let scratch = Scratch::new();
    let file = scratch.directory().open("file", OpenMode::Create).unwrap();
    file.allocate(1 << 20..2 << 20).unwrap();
    file.allocate(3 << 20..3 << 20).unwrap();
    let status = std::fs::metadata(scratch.0.join("file")).unwrap();
    assert_eq!(status.len(), 2 << 20);
    let blocks = status.blocks() * 512;
    assert!((1 << 20..2 << 20).contains(&blocks), "{blocks} bytes");
}

#[test]
fn a_filesystem_in_memory_notes_no_first_writes() {
    // A memfd is on tmpfs on every machine.
    let of_memory = rustix::fs::memfd_create("first-writes", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
    assert!(!PosixFile::new(of_memory, "a file in memory".into(), true).notes_first_writes());
    let of_another = std::fs::File::open("/proc/version").unwrap();
    assert!(PosixFile::new(of_another.into(), "/proc/version".into(), false).notes_first_writes());
}

#[test]
fn without_fallocate_zeros_are_written_and_old_bytes_stay() {
    let scratch = Scratch::new();
    let directory = scratch.directory();
    let opened = directory.open_or_make("file").unwrap();
    let path = scratch.0.join("file");
    let file = PosixFile::new(opened, path, true);
    file.write_at(b"kept", 0).unwrap();
    file.write_zeros(200_000).unwrap();
    assert_eq!(file.len().unwrap(), 200_000);
    let mut head = [1; 8];
    file.read_at(&mut head, 0).unwrap();
    assert_eq!(&head, b"kept\0\0\0\0");
    file.write_zeros(10).unwrap();
    assert_eq!(file.len().unwrap(), 200_000);
}

#[test]
fn a_write_to_a_full_disk_returns_full() {
    // /dev/full is not a regular file, so it is opened without `PosixDirectory`.
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let path = PathBuf::from("/dev/full");
    let file = PosixFile::new(full.into(), path, true);
    let error = file.write_at(b"x", 7).unwrap_err();
    assert!(matches!(error, Error::Full { offset: Some(7), .. }), "{error}");
    assert!(matches!(file.write_two_at(b"x", b"y", 7), Err(Error::Full { .. })));
}

#[test]
fn a_lock_dies_with_its_process() {
    let scratch = Scratch::new();
    let file = scratch.directory().open("control", OpenMode::Create).unwrap();
    // A child process locks a byte until its standard input ends. The child is this test binary itself; an
    // environment variable selects its work.
    let mut child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "posix::tests::hold_a_lock_for_a_parent", "--nocapture"])
        .env("LIBTP_IO_HOLD", &scratch.0)
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut told = std::io::BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    while !line.contains("locked") {
        line.clear();
        assert!(std::io::BufRead::read_line(&mut told, &mut line).unwrap() > 0);
    }
    let byte = (1 << 32) + 5;
    assert_eq!(file.locked_by_other(1 << 32, 100).unwrap(), Some(byte));
    assert!(!file.lock(byte, LockMode::Shared, false).unwrap());
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(file.locked_by_other(1 << 32, 100).unwrap(), None);
    assert!(file.lock(byte, LockMode::Exclusive, false).unwrap());
}

/// Not a test, but the work of the child of `a_lock_dies_with_its_process`. Without the environment variable it does
/// nothing.
#[test]
fn hold_a_lock_for_a_parent() {
    let Some(path) = std::env::var_os("LIBTP_IO_HOLD") else {
        return;
    };
    let file = PosixDirectory::open(path).unwrap().open("control", OpenMode::Existing).unwrap();
    assert!(file.lock((1 << 32) + 5, LockMode::Exclusive, false).unwrap());
    println!("locked");
    std::io::Read::read(&mut std::io::stdin(), &mut [0]).unwrap();
}

#[test]
fn closing_another_handle_of_the_file_keeps_the_lock() {
    let scratch = Scratch::new();
    let directory = scratch.directory();
    let one = directory.open("control", OpenMode::Create).unwrap();
    let two = directory.open("control", OpenMode::Existing).unwrap();
    assert!(one.lock(3, LockMode::Exclusive, true).unwrap());
    drop(directory.open("control", OpenMode::Existing).unwrap());
    assert_eq!(two.locked_by_other(0, 10).unwrap(), Some(3));
}

#[test]
fn the_identity_follows_the_inode_and_not_the_name() {
    let scratch = Scratch::new();
    let directory = scratch.directory();
    let file = directory.open("file", OpenMode::Create).unwrap();
    let before = file.identity().unwrap();
    file.write_at(b"changed", 0).unwrap();
    directory.rename("file", "other").unwrap();
    assert_eq!(file.identity().unwrap(), before);
    std::fs::copy(scratch.0.join("other"), scratch.0.join("copy")).unwrap();
    let copy = directory.open("copy", OpenMode::ReadOnly).unwrap();
    assert_ne!(copy.identity().unwrap(), before);
    if before.is_birth_known() {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        assert!(u128::from(before.birth_ns).abs_diff(now.as_nanos()) < 3600 * 1_000_000_000);
    }
}

#[test]
fn the_system_s_own_filesystems_are_not_on_a_network() {
    assert!(!PosixDirectory::open("/proc").unwrap().is_network().unwrap());
}

#[test]
fn a_read_only_handle_reads_and_changes_nothing() {
    let scratch = Scratch::new();
    let directory = scratch.directory();
    directory.open("file", OpenMode::Create).unwrap().write_at(b"abc", 0).unwrap();
    let file = directory.open("file", OpenMode::ReadOnly).unwrap();
    assert!(matches!(file.write_at(b"x", 0), Err(Error::ReadOnly { .. })));
    assert!(matches!(file.write_two_at(b"x", b"y", 0), Err(Error::ReadOnly { .. })));
    assert!(matches!(file.set_len(0), Err(Error::ReadOnly { .. })));
    assert!(matches!(file.allocate(0..9), Err(Error::ReadOnly { .. })));
    assert!(matches!(file.lock(0, LockMode::Exclusive, false), Err(Error::ReadOnly { .. })));
    assert!(file.lock(0, LockMode::Shared, false).unwrap());
    assert_eq!(file.len().unwrap(), 3);
}

#[test]
fn a_vectored_write_that_stops_short_is_continued() {
    let scratch = Scratch::new();
    let directory = scratch.directory();
    for written in 0..=5 {
        let name = format!("file{written}");
        let descriptor = directory.open_or_make(&name).unwrap();
        let file = PosixFile::new(descriptor, scratch.0.join(&name), true);
        file.write_at(&b"-abcde"[..=written], 0).unwrap();
        file.write_rest(b"abc", b"de", 1, written).unwrap();
        let mut all = [0; 9];
        assert_eq!(file.read_at(&mut all, 0).unwrap(), 6);
        assert_eq!(&all[..6], b"-abcde");
    }
}

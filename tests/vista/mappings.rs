//! A process that may have few mappings more: automatic ranges that lie apart take one each, until there are none.
#![allow(unsafe_code)]

use std::process::Command;

use rustix::mm::{mmap_anonymous, mprotect, MapFlags, MprotectFlags, ProtFlags};
use vista::{Error, Options};

const PATH: &str = "VISTA_TEST_MAPPINGS";
const BYTES: usize = 8 << 20;
const PAGE: usize = 4096;
/// Mappings that are left.
const LEFT: usize = 300;

/// Has all mappings that the kernel lets a process have but a few.
fn use_up_mappings() {
    let most = std::fs::read_to_string("/proc/sys/vm/max_map_count").unwrap().trim().parse::<usize>().unwrap();
    let bytes = 2 * (most + 2) * PAGE;
    let lazy = MapFlags::PRIVATE | MapFlags::NORESERVE;
    // SAFETY: a null hint without MAP_FIXED replaces no existing mapping; nobody uses it.
    let place = unsafe { mmap_anonymous(std::ptr::null_mut(), bytes, ProtFlags::empty(), lazy) }.unwrap();
    let protect = |from: usize, pages: usize, flags: MprotectFlags| {
        // SAFETY: a part of the mapping just made, which nobody uses.
        unsafe { mprotect(place.wrapping_byte_add(from * PAGE), pages * PAGE, flags) }
    };
    // Every other page may be read: each is a mapping.
    let refused = (0..most).map(|nth| nth * 2 + 1).find(|page| protect(*page, 1, MprotectFlags::READ).is_err());
    assert!(refused.is_some(), "{most} mappings, and the kernel gives more");
    protect(0, LEFT, MprotectFlags::empty()).unwrap();
}

/// The child's part.
fn work(path: &str) {
    let mut segment = Options::new(BYTES as u64).anywhere().open(path.as_ref()).unwrap();
    use_up_mappings();
    let store = |bytes: &mut [u8], value: u8| bytes.iter_mut().step_by(2 * PAGE).for_each(|byte| *byte = value);
    let is = |bytes: &[u8], value: u8| {
        bytes.iter().enumerate().all(|(at, byte)| *byte == if at % (2 * PAGE) == 0 { value } else { 0 })
    };
    for value in [1, 2] {
        let refused: Result<(), Error> = segment.automatically(|bytes| {
            store(bytes, value + 100);
            Err(Error::NoRoom { path: "told to".into(), wanted: 0, most: 0 })
        });
        assert!(refused.is_err() && is(segment.bytes(), value - 1), "what did not end is taken back");
        segment
            .automatically(|bytes| {
                store(bytes, value);
                Ok::<(), Error>(())
            })
            .unwrap();
        assert!(is(segment.bytes(), value));
    }
    std::process::exit(0);
}

#[test]
fn ranges_are_found_by_themselves_when_the_kernel_gives_no_more_mappings() {
    if let Ok(path) = std::env::var(PATH) {
        work(&path);
    }
    let directory = tempfile::tempdir().unwrap();
    let test = "mappings::ranges_are_found_by_themselves_when_the_kernel_gives_no_more_mappings";
    let ended = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--test-threads=1"])
        .env(PATH, directory.path().join("segment"))
        .output()
        .unwrap();
    assert!(ended.status.success(), "{}: {}", ended.status, String::from_utf8_lossy(&ended.stderr));
}

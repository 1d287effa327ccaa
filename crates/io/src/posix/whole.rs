//! Writes that the disk makes whole or not at all (Linux: atomic writes).
//!
//! `statx` reports the lengths of such writes (since Linux 6.11). The kernel makes them only past its page cache, so
//! they need a second descriptor of the file, opened with `O_DIRECT`, and memory that begins at a multiple of a block.
//! Each write returns when the disk has answered it, so several threads write at the same time.
//!
//! Reads through the first descriptor see the bytes: the kernel writes cached changes of the same place back before a
//! direct write, and drops that place from its cache before and after the write. If it cannot drop the place, it
//! reports an error to the next sync of the file. A sync through the first descriptor makes the bytes durable.
//!
//! Invariants
//! 1. Nothing is guessed: without an answer of `statx`, or if the kernel does not accept the flag, nothing counts as
//!    written.
//! 2. The program may close the second descriptor, too, and its number may then belong to a file of the program. So its
//!    identity is checked before and after each call, and before the descriptor is closed.

use std::io::IoSlice;
use std::mem::ManuallyDrop;
use std::ops::RangeInclusive;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use rustix::fs::{AtFlags, Mode, OFlags, Statx, StatxFlags};
use rustix::io::{retry_on_intr, ReadWriteFlags};

use super::{above_standard, filesystem_magic, identity_in, identity_of};
use crate::contract::{Identity, MayBegin};

/// `STATX_WRITE_ATOMIC` and `RWF_ATOMIC`, which rustix does not name.
const STATX_WRITE_ATOMIC: StatxFlags = StatxFlags::from_bits_retain(0x1_0000);
const RWF_ATOMIC: ReadWriteFlags = ReadWriteFlags::from_bits_retain(0x40);

/// The memory of a direct write begins at a multiple of this number of bytes. If the system asks for more, it promises
/// nothing.
const BLOCK_BYTES: usize = 4096;
/// The type of the filesystem ext4, which makes whole writes only by the device.
const EXT4_MAGIC: u32 = 0xEF53;
/// The largest number of threads that write at the same time, and the fewest pieces for which one more is started.
const THREADS_MAX: usize = 8;
const PIECES_A_THREAD: usize = 4;

/// A piece and its offset.
type Piece<'p> = (u64, &'p [u8]);

/// The answer of the system about a file, and the second descriptor.
#[derive(Debug)]
pub(super) struct Direct {
    /// `None` if the file could not be opened a second time.
    descriptor: Option<ManuallyDrop<OwnedFd>>,
    identity: Identity,
    bytes: RangeInclusive<u32>,
}

impl Drop for Direct {
    fn drop(&mut self) {
        if let Some(descriptor) = self.descriptor.take() {
            // Closing the number would close the program's file.
            if is_of(&descriptor, self.identity) {
                drop(ManuallyDrop::into_inner(descriptor));
            }
        }
    }
}

impl Direct {
    /// Asks the system which writes of the file the disk makes whole. Returns `None` if there are none.
    pub(super) fn of(file: &OwnedFd) -> Option<Direct> {
        let asked = STATX_WRITE_ATOMIC | StatxFlags::DIOALIGN | StatxFlags::INO | StatxFlags::BTIME;
        let status = rustix::fs::statx(file, c"", AtFlags::EMPTY_PATH, asked).ok()?;
        let is_ext4 = filesystem_magic(file).is_ok_and(|magic| magic == EXT4_MAGIC);
        let bytes = promised(&status, is_ext4)?;
        Some(Direct::open(file, identity_in(&status), bytes))
    }

    /// Opens the file a second time, whatever its present name.
    fn open(file: &OwnedFd, identity: Identity, bytes: RangeInclusive<u32>) -> Direct {
        let name = format!("/proc/self/fd/{}", file.as_raw_fd());
        let flags = OFlags::WRONLY | OFlags::DIRECT | OFlags::CLOEXEC | OFlags::NOCTTY;
        let opened = retry_on_intr(|| rustix::fs::open(&name, flags, Mode::empty())).and_then(above_standard);
        // Another filesystem than the kernel's may be mounted at `/proc`.
        let descriptor = opened.ok().filter(|opened| is_of(opened, identity)).map(ManuallyDrop::new);
        Direct { descriptor, identity, bytes }
    }

    pub(super) fn bytes(&self) -> RangeInclusive<u32> {
        self.bytes.clone()
    }

    /// Writes the pieces. Returns false if the kernel or `may_begin` refuses a piece, or the disk fails.
    pub(super) fn write(&self, pieces: &[Piece<'_>], may_begin: &MayBegin<'_>) -> bool {
        self.write_with(pieces, may_begin, RWF_ATOMIC)
    }

    fn write_with(&self, pieces: &[Piece<'_>], may_begin: &MayBegin<'_>, flags: ReadWriteFlags) -> bool {
        let Some(descriptor) = self.descriptor.as_deref().filter(|opened| is_of(opened, self.identity)) else {
            return false;
        };
        // Relaxed: the counter only hands out the pieces. The end of the scope orders the threads' results.
        let next = AtomicUsize::new(0);
        let work = || {
            let mut memory = Vec::new();
            while let Some(piece) = pieces.get(next.fetch_add(1, Ordering::Relaxed)) {
                if !may_begin() || !write_piece(descriptor, piece, &mut memory, flags) {
                    // The other threads need not try the rest.
                    next.store(pieces.len(), Ordering::Relaxed);
                    return false;
                }
            }
            true
        };
        let helpers = (pieces.len() / PIECES_A_THREAD).min(THREADS_MAX - 1);
        let written = thread::scope(|scope| {
            let start = |_| thread::Builder::new().name("libtp-pages".into()).spawn_scoped(scope, work).ok();
            // A thread that cannot be started is not needed.
            let started: Vec<_> = (0..helpers).filter_map(start).collect();
            let own = work();
            started.into_iter().fold(own, |all, helper| helper.join().unwrap_or(false) && all)
        });
        written && is_of(descriptor, self.identity)
    }
}

/// Returns the lengths that the disk writes whole, by the answer of `statx`.
fn promised(status: &Statx, is_ext4: bool) -> Option<RangeInclusive<u32>> {
    let wanted = STATX_WRITE_ATOMIC | StatxFlags::DIOALIGN;
    if status.stx_mask & wanted.bits() != wanted.bits() {
        return None;
    }
    // A file without direct writes: ext4 would accept the flag, and write through its cache.
    if !(1..=4096).contains(&status.stx_dio_offset_align) || !(1..=4096).contains(&status.stx_dio_mem_align) {
        return None;
    }
    let largest = match status.stx_atomic_write_unit_max_opt {
        // XFS makes a whole write of more than a block without the device by moving the file's blocks, and reports it
        // by this zero. Such a write costs more than the double write.
        0 if is_ext4 => status.stx_atomic_write_unit_max,
        0 => return None,
        best => best.min(status.stx_atomic_write_unit_max),
    };
    let least = status.stx_atomic_write_unit_min;
    (least > 0 && least <= largest).then_some(least..=largest)
}

/// Writes one piece. Returns false if the kernel refuses it, or the disk fails: the caller writes the piece in another
/// way, and that write reports the reason.
fn write_piece(
    descriptor: &OwnedFd,
    &(offset, bytes): &Piece<'_>,
    memory: &mut Vec<u8>,
    flags: ReadWriteFlags,
) -> bool {
    memory.resize(bytes.len() + BLOCK_BYTES, 0);
    let start = memory.as_ptr().align_offset(BLOCK_BYTES);
    let Some(aligned) = memory.get_mut(start..start.saturating_add(bytes.len())) else { return false };
    aligned.copy_from_slice(bytes);
    // One part: the kernel refuses an atomic write of several.
    let parts = [IoSlice::new(aligned)];
    let written = retry_on_intr(|| rustix::io::pwritev2(descriptor, &parts, offset, flags));
    written.is_ok_and(|written| written == bytes.len())
}

/// Returns whether the descriptor belongs to the file with this identity.
fn is_of(descriptor: &OwnedFd, identity: Identity) -> bool {
    identity_of(descriptor).is_ok_and(|now| now == identity)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Directory, File, OpenMode, PosixDirectory};
    use std::fs;
    use std::sync::Arc;

    const PAGE: usize = 8192;

    /// Returns a file of 100 pages, and a second descriptor as [`Direct::of`] makes it where the disk promises
    /// something.
    fn file() -> (tempfile::TempDir, Arc<dyn File>, Direct) {
        let place = tempfile::tempdir().unwrap();
        let file = PosixDirectory::open(place.path()).unwrap().open("pages", OpenMode::Create).unwrap();
        file.allocate(0..100 * PAGE as u64).unwrap();
        let descriptor = OwnedFd::from(fs::File::options().write(true).open(place.path().join("pages")).unwrap());
        let direct = Direct::open(&descriptor, identity_of(&descriptor).unwrap(), 4096..=65536);
        (place, file, direct)
    }

    #[test]
    fn only_a_device_and_direct_writes_are_a_promise() {
        let place = tempfile::tempdir().unwrap();
        let mut status = rustix::fs::statx(rustix::fs::CWD, place.path(), AtFlags::empty(), StatxFlags::INO).unwrap();
        status.stx_mask = (STATX_WRITE_ATOMIC | StatxFlags::DIOALIGN).bits();
        let mut promises = |least, largest, best, align, is_ext4| {
            (status.stx_atomic_write_unit_min, status.stx_atomic_write_unit_max) = (least, largest);
            status.stx_atomic_write_unit_max_opt = best;
            (status.stx_dio_offset_align, status.stx_dio_mem_align) = (align, align);
            promised(&status, is_ext4)
        };
        assert_eq!(promises(0, 0, 0, 512, true), None, "a disk without whole writes");
        assert_eq!(promises(4096, 16384, 0, 512, true), Some(4096..=16384), "ext4 on a device with whole writes");
        assert_eq!(promises(4096, 1 << 22, 0, 512, false), None, "XFS without a device");
        assert_eq!(promises(4096, 1 << 22, 16384, 512, false), Some(4096..=16384), "XFS on a device");
        assert_eq!(promises(4096, 16384, 0, 0, true), None, "a file without direct writes");
        assert_eq!(promises(4096, 16384, 0, 8192, true), None, "memory at a multiple of 8 KiB");
        status.stx_mask = STATX_WRITE_ATOMIC.bits();
        assert_eq!(promised(&status, true), None, "a kernel without an answer");
    }

    #[test]
    fn a_disk_that_promises_nothing_refuses_and_writes_nothing() {
        let (_place, file, direct) = file();
        if let Some(bytes) = file.whole_write_bytes() {
            println!("not tried: this disk promises whole writes of {bytes:?} bytes");
            return;
        }
        assert!(!file.write_whole(&[(0, &[1; PAGE])], &|| true).unwrap());
        // The kernel is asked all the same.
        assert!(!direct.write(&[(0, &[1; PAGE])], &|| true));
        let mut found = [1; PAGE];
        file.read_at(&mut found, 0).unwrap();
        assert!(found == [0; PAGE], "a refused write has written");
    }

    #[test]
    fn pieces_that_several_threads_write_are_read_through_the_first_descriptor() {
        let (_place, file, direct) = file();
        let pages: Vec<Vec<u8>> = (1..=50).map(|number| vec![number; PAGE]).collect();
        let pieces: Vec<Piece<'_>> = (1_u64..).zip(&pages).map(|(at, page)| (at * PAGE as u64, &page[..])).collect();
        // The first page is in the kernel's cache, changed.
        file.write_at(&[99; PAGE], PAGE as u64).unwrap();
        // Without the flag, which hardly any disk of a test accepts.
        if !direct.write_with(&pieces, &|| true, ReadWriteFlags::empty()) {
            return println!("not tried: this filesystem makes no direct writes");
        }
        let mut found = vec![0; PAGE];
        for (offset, page) in pieces {
            file.read_at(&mut found, offset).unwrap();
            assert!(found == page, "the page at byte {offset}");
        }
    }

    #[test]
    fn after_a_refusal_no_thread_begins_another_piece() {
        let (_place, file, direct) = file();
        let page = [1; PAGE];
        // The kernel refuses the first piece, because its offset is negative for the kernel.
        let offsets = std::iter::once(1 << 63).chain((0..100).map(|at| at * PAGE as u64));
        let pieces: Vec<Piece<'_>> = offsets.map(|offset| (offset, &page[..])).collect();
        let is_cut_short = |_| {
            file.set_len(0).unwrap();
            file.allocate(0..100 * PAGE as u64).unwrap();
            assert!(!direct.write_with(&pieces, &|| true, ReadWriteFlags::empty()));
            let mut found = vec![1; 100 * PAGE];
            file.read_at(&mut found, 0).unwrap();
            found.chunks(PAGE).any(|found| found == [0; PAGE])
        };
        // The thread that is refused may sleep before it stops the others.
        assert!((0..20).any(is_cut_short), "all other pieces were written");
    }

    #[test]
    fn no_piece_is_begun_that_the_caller_refuses() {
        let (_place, file, direct) = file();
        let page = [1; PAGE];
        let pieces: Vec<Piece<'_>> = (0..20).map(|at| (at * PAGE as u64, &page[..])).collect();
        let asked = AtomicUsize::new(0);
        assert!(!direct.write_with(&pieces, &|| asked.fetch_add(1, Ordering::Relaxed) < 5, ReadWriteFlags::empty()));
        let mut found = vec![1; 20 * PAGE];
        file.read_at(&mut found, 0).unwrap();
        assert!(found.chunks(PAGE).filter(|found| *found == [1; PAGE]).count() <= 5);
    }

    #[test]
    fn a_descriptor_that_the_program_has_taken_is_neither_written_nor_closed() {
        let (place, _file, mut direct) = file();
        let program = place.path().join("program");
        fs::write(&program, vec![7; PAGE]).unwrap();
        let Some(taken) = direct.descriptor.as_deref_mut() else {
            return println!("not tried: this filesystem makes no direct writes");
        };
        let number = taken.as_raw_fd();
        rustix::io::dup2(fs::File::options().write(true).open(&program).unwrap(), taken).unwrap();
        assert!(!direct.write_with(&[(0, &[1; PAGE])], &|| true, ReadWriteFlags::empty()));
        drop(direct);
        assert_eq!(fs::read_link(format!("/proc/self/fd/{number}")).unwrap(), program);
        assert!(fs::read(&program).unwrap() == [7; PAGE], "a file of the program was written");
    }
}

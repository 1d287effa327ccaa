//! Steps a child from one store to the next, and reports the effect of each step on a file that it maps.
//!
//! The `unsafe` code in this file maps the traced file.
#![allow(unsafe_code)]

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use libtp_tests::stepping::{self, on_one_processor, Effect, Instructions, Memory};
use nix::sys::ptrace;
use nix::sys::signal::Signal;
use nix::sys::wait::{waitpid, WaitPidFlag, WaitStatus};
use nix::unistd::Pid;
use rustix::mm::{mmap, munmap, MapFlags, ProtFlags};

/// The effect of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The file's bytes have changed.
    Store,
    /// A write-back of the line of 64 bytes at this offset of the file has begun.
    WriteBack(usize),
    /// The lines whose write-back had begun are now in memory.
    Fence,
    /// A file was synced: its present length is on its disk.
    Sync,
    /// The child has acknowledged its transactions as safe ([`answer`]).
    Answered,
}

/// Called in the child: acknowledges the transactions that have ended, which must then survive.
pub fn answer() {
    // A call without an effect.
    let _ = std::os::unix::process::parent_id();
}

/// Called in the child: from here on the parent steps this thread. The file `path` with the extension `thread` has the
/// thread's number.
pub fn be_traced(path: &Path) {
    let tell = |thread: i32| {
        let passing = path.with_extension("passing");
        std::fs::write(&passing, thread.to_string()).unwrap();
        std::fs::rename(passing, path.with_extension("thread")).unwrap();
    };
    stepping::be_traced(tell).unwrap();
}

/// Waits until the child has stopped. Returns the thread to be stepped.
pub fn stopped(child: &mut Child, path: &Path) -> Pid {
    let announced = path.with_extension("thread");
    while !announced.exists() {
        let ended = child.try_wait().unwrap();
        assert!(ended.is_none(), "the child ended before it was stepped: {ended:?}");
        std::thread::sleep(Duration::from_millis(1));
    }
    let pid = Pid::from_raw(std::fs::read_to_string(announced).unwrap().parse().unwrap());
    stepping::stopped(pid);
    pid
}

/// Runs the command, which calls [`be_traced`], to its end. Calls `report` with each event and the file's bytes after
/// the event. Returns the number of steps, or a text that says how the child failed.
pub fn trace(command: &mut Command, path: &Path, mut report: impl FnMut(Event, &[u8])) -> Result<u64, String> {
    trace_while(command, path, |event, bytes| {
        report(event, bytes);
        true
    })
}

/// Does the same as [`trace`], but kills the child as soon as `report` returns false.
pub fn trace_while(
    command: &mut Command,
    path: &Path,
    mut report: impl FnMut(Event, &[u8]) -> bool,
) -> Result<u64, String> {
    on_one_processor(None, || step_through(command, path, &mut report))
}

fn step_through(
    command: &mut Command,
    path: &Path,
    report: &mut dyn FnMut(Event, &[u8]) -> bool,
) -> Result<u64, String> {
    let mut child = command.stdout(Stdio::null()).spawn().unwrap();
    let pid = stopped(&mut child, path);
    let file = Mapped::new(path);
    let mut instructions = Instructions::new(pid, Memory::File(path.to_path_buf()));
    let (mut before, mut steps) = (file.bytes().to_vec(), 0);
    loop {
        let effect = instructions.upcoming();
        ptrace::step(pid, None).unwrap();
        match waitpid(pid, Some(WaitPidFlag::__WALL)).unwrap() {
            WaitStatus::Stopped(_, Signal::SIGTRAP) => {}
            WaitStatus::Exited(..) => {
                let ended = child.wait().unwrap();
                return if ended.success() { Ok(steps) } else { Err(format!("the child ended with {ended}")) };
            }
            other => panic!("unexpected state of the child: {other:?}"),
        }
        steps += 1;
        let event = match effect {
            Effect::None => None,
            Effect::Fence => Some(Event::Fence),
            Effect::WriteBack(line) => Some(Event::WriteBack(line)),
            Effect::Call(libc::SYS_fsync | libc::SYS_fdatasync) => Some(Event::Sync),
            Effect::Call(libc::SYS_getppid) => Some(Event::Answered),
            Effect::Call(_) | Effect::Store => {
                if effect != Effect::Store {
                    instructions.has_called();
                }
                (file.bytes() != before).then(|| {
                    file.bytes().clone_into(&mut before);
                    Event::Store
                })
            }
        };
        if !event.is_none_or(|event| report(event, file.bytes())) {
            child.kill().unwrap();
            // This thread waits for the stepped thread, before it waits for the child.
            while matches!(waitpid(pid, Some(WaitPidFlag::__WALL)), Ok(WaitStatus::Stopped(..))) {}
            let _ = child.wait();
            return Ok(steps);
        }
    }
}

/// The greatest length of the file, in bytes.
const BYTES_MAX: usize = 16 << 20;

/// A file, mapped for reading.
struct Mapped {
    file: File,
    place: *mut libc::c_void,
}

impl Mapped {
    fn new(path: &Path) -> Mapped {
        let file = File::open(path).unwrap();
        // SAFETY: a null hint without MAP_FIXED replaces no existing mapping.
        let place =
            unsafe { mmap(std::ptr::null_mut(), BYTES_MAX, ProtFlags::READ, MapFlags::SHARED, &file, 0) }.unwrap();
        Mapped { file, place }
    }

    /// Returns the bytes. The stepped child, which changes the file, is stopped whenever this process runs.
    fn bytes(&self) -> &[u8] {
        let bytes = usize::try_from(self.file.metadata().unwrap().len()).unwrap();
        assert!(bytes <= BYTES_MAX, "the file has grown to {bytes} bytes");
        // SAFETY: the mapping just made, which lives as long as `self`; the file has these bytes and does not become
        // shorter; the process that writes it is stopped.
        unsafe { std::slice::from_raw_parts(self.place.cast::<u8>(), bytes) }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: the mapping made in `new`; nothing borrows from it.
        unsafe { munmap(self.place, BYTES_MAX) }.unwrap();
    }
}

//! A child stepped from one store to the next, with what each step did to a file that it maps.
//!
//! The `unsafe` is the mapping of that file here.
#![allow(unsafe_code)]

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use nix::sched::{sched_getaffinity, sched_setaffinity, CpuSet};
use nix::sys::ptrace;
use nix::sys::signal::{raise, Signal};
use nix::sys::wait::{waitpid, WaitPidFlag, WaitStatus};
use nix::unistd::{gettid, Pid};
use rustix::mm::{mmap, munmap, MapFlags, ProtFlags};

use crate::instructions::{Effect, Instructions};

/// What a step did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The file's bytes are others than before.
    Store,
    /// The line of 64 bytes at this offset of the file is on its way to memory.
    WriteBack(usize),
    /// What was on its way is there.
    Fence,
    /// A file was synced: the file is as long on its disk as it is now.
    Sync,
    /// The child says that what it has ended is safe ([`answer`]).
    Answered,
}

/// In the child: what was ended so far was answered, so it is there whatever happens.
pub fn answer() {
    // A call that does nothing.
    let _ = std::os::unix::process::parent_id();
}

/// In the child: from here on the parent steps this thread, whose number it finds beside the file.
pub fn be_traced(path: &Path) {
    ptrace::traceme().unwrap();
    let passing = path.with_extension("passing");
    std::fs::write(&passing, gettid().to_string()).unwrap();
    std::fs::rename(passing, path.with_extension("thread")).unwrap();
    raise(Signal::SIGSTOP).unwrap();
}

/// The thread of the child that is to be stepped, when it has stopped.
pub fn stopped(child: &mut Child, path: &Path) -> Pid {
    let told = path.with_extension("thread");
    while !told.exists() {
        let ended = child.try_wait().unwrap();
        assert!(ended.is_none(), "the child ended before it was stepped: {ended:?}");
        std::thread::sleep(Duration::from_millis(1));
    }
    let pid = Pid::from_raw(std::fs::read_to_string(told).unwrap().parse().unwrap());
    let stopped = waitpid(pid, Some(WaitPidFlag::__WALL)).unwrap();
    assert!(matches!(stopped, WaitStatus::Stopped(_, Signal::SIGSTOP)), "the child came to {stopped:?}");
    // Should we be killed, it is not left behind.
    ptrace::setoptions(pid, ptrace::Options::PTRACE_O_EXITKILL).unwrap();
    pid
}

/// Runs the command, which calls [`be_traced`], to its end, and tells of each event with the file's bytes after it.
/// Returns the number of steps, or what else the child came to.
pub fn trace(command: &mut Command, path: &Path, mut told: impl FnMut(Event, &[u8])) -> Result<u64, String> {
    trace_while(command, path, |event, bytes| {
        told(event, bytes);
        true
    })
}

/// The same, until `told` answers false: the child is killed then.
pub fn trace_while(
    command: &mut Command,
    path: &Path,
    mut told: impl FnMut(Event, &[u8]) -> bool,
) -> Result<u64, String> {
    // On one processor, where the two take turns: to wake another for each step takes many times as long as the step.
    let here = Pid::from_raw(0);
    let all = sched_getaffinity(here).unwrap();
    let ours: Vec<usize> = (0..CpuSet::count()).filter(|&nth| all.is_set(nth).unwrap()).collect();
    let mine = least_busy(&ours);
    let mut one = CpuSet::new();
    one.set(mine).unwrap();
    sched_setaffinity(here, &one).unwrap();
    let steps = step_through(command, path, &mut told);
    sched_setaffinity(here, &all).unwrap();
    busy()[mine] -= 1;
    steps
}

/// How many pairs each processor has. Of a test that failed in between the pair is still counted: the suite has failed then.
fn busy() -> MutexGuard<'static, Vec<usize>> {
    static PAIRS: Mutex<Vec<usize>> = Mutex::new(Vec::new());
    PAIRS.lock().unwrap()
}

/// The processor among `ours` with the fewest pairs, which has one more now.
fn least_busy(ours: &[usize]) -> usize {
    let mut busy = busy();
    busy.resize(CpuSet::count(), 0);
    let mine = *ours.iter().min_by_key(|&&nth| busy[nth]).unwrap();
    busy[mine] += 1;
    mine
}

fn step_through(command: &mut Command, path: &Path, told: &mut dyn FnMut(Event, &[u8]) -> bool) -> Result<u64, String> {
    let mut child = command.stdout(Stdio::null()).spawn().unwrap();
    let pid = stopped(&mut child, path);
    let file = Mapped::new(path);
    let mut instructions = Instructions::new(pid, path);
    let (mut before, mut steps) = (file.bytes().to_vec(), 0);
    loop {
        let effect = instructions.next();
        ptrace::step(pid, None).unwrap();
        match waitpid(pid, Some(WaitPidFlag::__WALL)).unwrap() {
            WaitStatus::Stopped(_, Signal::SIGTRAP) => {}
            WaitStatus::Exited(..) => {
                let ended = child.wait().unwrap();
                return if ended.success() { Ok(steps) } else { Err(format!("the child came to {ended}")) };
            }
            other => panic!("the child came to {other:?}"),
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
        if !event.is_none_or(|event| told(event, file.bytes())) {
            child.kill().unwrap();
            // The stepped thread is ours to wait for, before the child is.
            while matches!(waitpid(pid, Some(WaitPidFlag::__WALL)), Ok(WaitStatus::Stopped(..))) {}
            let _ = child.wait();
            return Ok(steps);
        }
    }
}

/// The file grows no longer than this.
const BYTES_MAX: usize = 16 << 20;

/// A file, mapped to be looked at.
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

    /// The bytes. The one process that changes them is stopped whenever we run.
    fn bytes(&self) -> &[u8] {
        let bytes = usize::try_from(self.file.metadata().unwrap().len()).unwrap();
        assert!(bytes <= BYTES_MAX, "the file has grown to {bytes} bytes");
        // SAFETY: the mapping just made, which lives as long as `self`; the file has these bytes and does not become
        // shorter; who writes it is stopped.
        unsafe { std::slice::from_raw_parts(self.place.cast::<u8>(), bytes) }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: the mapping made in `new`, of which nothing is borrowed any more.
        unsafe { munmap(self.place, BYTES_MAX) }.unwrap();
    }
}

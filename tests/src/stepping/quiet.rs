//! Quiet instructions of a stepped child, which store to nothing but the stack. The child runs through them without a
//! stop.
//!
//! A single step costs two context switches. Most instructions are quiet. The child need not stop after a quiet
//! instruction, because the shared memory has the same bytes as before.

use std::collections::{BTreeSet, HashMap};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::sys::ptrace;
use nix::sys::signal::Signal;
use nix::sys::wait::{waitpid, WaitPidFlag, WaitStatus};
use nix::unistd::Pid;

/// The largest number of instructions of a run. A longer stretch of quiet instructions is several runs.
const LONGEST: usize = 128;
/// The smallest number of instructions of a run. The tracer steps through shorter stretches.
const SHORTEST: usize = 2;
/// The largest number of threads of the child: the stepped thread, and a thread that waits for it. Other threads could
/// run into a breakpoint.
const THREADS: usize = 2;
/// The number of times that the tracer checks whether the other thread sleeps. It pauses for [`MOMENT`] before each
/// check.
const LOOKS: usize = 100;
const MOMENT: Duration = Duration::from_millis(1);
/// The instruction `int3`.
const BREAKPOINT: u8 = 0xcc;
const ITS_CODE: &str = "a tracer may use its child's code";
const STOPPED: &str = "the child is stopped";

/// The addresses at which a child may be after a quiet instruction.
#[derive(Clone, Copy)]
pub struct Successors {
    pub one: u64,
    pub other: Option<u64>,
}

/// The exits of a run: the addresses of the instructions after it, each with the code byte at the address.
type Exits = Vec<(u64, u8)>;

/// The quiet runs of a child.
pub struct Quiet {
    pid: Pid,
    memory: File,
    /// The runs found so far, by the address of their first instruction; `None` for a run that is too short.
    runs: HashMap<u64, Option<Exits>>,
    /// Whether no other thread of the child can run into a breakpoint.
    is_alone: bool,
}

impl Quiet {
    /// Prepares for runs of the thread `pid`, which is stopped.
    pub fn new(pid: Pid) -> Quiet {
        let memory = OpenOptions::new().read(true).write(true).open(format!("/proc/{pid}/mem"));
        let memory = memory.expect("a tracer may use its child's memory");
        Quiet { pid, memory, runs: HashMap::new(), is_alone: is_alone(pid) }
    }

    /// Lets the child, which is at `address`, run to an exit of the run that begins there. Meanwhile each exit has a
    /// breakpoint. Returns whether the child has moved. The child may then be at another quiet instruction.
    pub fn run(&mut self, address: u64, successors: impl FnMut(u64) -> Option<Successors>) -> bool {
        if !self.is_alone {
            return false;
        }
        let memory = &self.memory;
        let run = self.runs.entry(address).or_insert_with(|| exits(memory, address, successors));
        let Some(exits) = run else { return false };
        for (exit, _) in exits.iter() {
            memory.write_all_at(&[BREAKPOINT], *exit).expect(ITS_CODE);
        }
        ptrace::cont(self.pid, None).expect(STOPPED);
        let ended = waitpid(self.pid, Some(WaitPidFlag::__WALL)).expect("the child is ours");
        assert!(
            matches!(ended, WaitStatus::Stopped(_, Signal::SIGTRAP)),
            "the child did not stop at a breakpoint: {ended:?}"
        );
        for (exit, byte) in exits.iter() {
            memory.write_all_at(&[*byte], *exit).expect(ITS_CODE);
        }
        let mut regs = ptrace::getregs(self.pid).expect(STOPPED);
        regs.rip -= 1;
        assert!(
            exits.iter().any(|exit| exit.0 == regs.rip),
            "the child left a quiet run at {:#x}, which is not an exit",
            regs.rip
        );
        ptrace::setregs(self.pid, regs).expect(STOPPED);
        true
    }
}

/// Returns whether the child has only the stepped thread and a thread that sleeps until the stepped thread ends.
/// Shortly after the child's start the other thread still runs, and could run into a breakpoint.
fn is_alone(pid: Pid) -> bool {
    let sleeps = |task: &Path| {
        let stat = std::fs::read_to_string(task.join("stat")).unwrap_or_default();
        // The state is after the program's name, which is in parentheses.
        stat.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with('S'))
    };
    let others_sleep = || {
        let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        let others: Vec<PathBuf> =
            tasks.map(|task| task.path()).filter(|task| !task.ends_with(pid.to_string())).collect();
        others.len() < THREADS && others.iter().all(|task| sleeps(task))
    };
    let sleep = || {
        std::thread::sleep(MOMENT);
        others_sleep()
    };
    // Two checks in a row must find the other thread asleep: at the first check, it may have slept only briefly.
    (0..LOOKS).any(|_| sleep() && sleep())
}

/// Returns the exits of the run of quiet instructions that begins at `address`; `None` if the run is too short.
fn exits(memory: &File, address: u64, mut successors: impl FnMut(u64) -> Option<Successors>) -> Option<Exits> {
    let (mut inside, mut exits, mut open) = (BTreeSet::new(), BTreeSet::new(), vec![address]);
    while let Some(address) = open.pop() {
        if inside.contains(&address) {
            continue;
        }
        match successors(address).filter(|_| inside.len() < LONGEST) {
            Some(after) => {
                inside.insert(address);
                open.extend([Some(after.one), after.other].into_iter().flatten());
            }
            None => {
                exits.insert(address);
            }
        }
    }
    let with_byte = |address| {
        let mut byte = [0];
        memory.read_exact_at(&mut byte, address).expect(ITS_CODE);
        (address, byte[0])
    };
    (inside.len() >= SHORTEST).then(|| exits.into_iter().map(with_byte).collect())
}

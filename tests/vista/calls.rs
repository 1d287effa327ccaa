//! A child whose system calls are told to its parent, each before it is carried out: the child is stopped meanwhile.
//!
//! What is told lies between two marks, which are calls that nothing else makes.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nix::sys::ptrace;
use nix::sys::wait::{waitpid, WaitPidFlag, WaitStatus};
use nix::unistd::{getppid, Pid};

use crate::trace::stopped;

/// A system call that the child is about to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// Its number.
    pub number: i64,
    /// What it is given first, third and fourth: the file's number, bytes and offset of what is written.
    pub given: [u64; 3],
    pid: Pid,
}

impl Call {
    /// The file that it is about, if its first argument is one.
    pub fn file(&self) -> Option<PathBuf> {
        std::fs::read_link(format!("/proc/{}/fd/{}", self.pid, self.given[0])).ok()
    }
}

/// In the child, after [`be_traced`](crate::trace::be_traced): what is to be told begins, or ends.
pub fn mark() {
    let _ = getppid();
}

/// Runs the command, which calls [`be_traced`](crate::trace::be_traced) with that path, to its end, and tells of each system call
/// between each first mark and the second after it.
///
/// # Errors
/// What else the child came to.
pub fn calls(command: &mut Command, path: &Path, mut told: impl FnMut(Call)) -> Result<(), String> {
    let mut child = command.stdout(Stdio::null()).spawn().unwrap();
    let pid = stopped(&mut child, path);
    ptrace::setoptions(pid, ptrace::Options::PTRACE_O_EXITKILL | ptrace::Options::PTRACE_O_TRACESYSGOOD).unwrap();
    let mut is_between = false;
    loop {
        ptrace::syscall(pid, None).unwrap();
        match waitpid(pid, Some(WaitPidFlag::__WALL)).unwrap() {
            WaitStatus::PtraceSyscall(_) => {}
            WaitStatus::Exited(..) => {
                let ended = child.wait().unwrap();
                return if ended.success() { Ok(()) } else { Err(format!("the child came to {ended}")) };
            }
            other => panic!("the child came to {other:?}"),
        }
        let regs = ptrace::getregs(pid).unwrap();
        let number = signed(regs.orig_rax);
        // A call is told of twice; when it begins there is no answer yet.
        if signed(regs.rax) != -i64::from(libc::ENOSYS) {
            continue;
        }
        if number == libc::SYS_getppid {
            is_between = !is_between;
        } else if is_between {
            told(Call { number, given: [regs.rdi, regs.rdx, regs.r10], pid });
        }
    }
}

fn signed(register: u64) -> i64 {
    i64::from_ne_bytes(register.to_ne_bytes())
}

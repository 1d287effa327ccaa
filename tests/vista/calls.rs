//! A child that is stopped before each of its system calls, so that its parent sees every call.
//!
//! Only calls between two marks are reported. A mark is a system call that the library never makes.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use libtp_tests::stepping::MARK;
use nix::sys::ptrace;
use nix::sys::wait::{waitpid, WaitPidFlag, WaitStatus};
use nix::unistd::Pid;

use crate::trace::stopped;

/// A system call that the child is about to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// Number of the system call.
    pub number: i64,
    /// First, third and fourth argument of the call: for a write the descriptor, the number of bytes and the offset.
    pub given: [u64; 3],
    pid: Pid,
}

impl Call {
    /// Returns the file of the call, if its first argument is a descriptor.
    pub fn file(&self) -> Option<PathBuf> {
        std::fs::read_link(format!("/proc/{}/fd/{}", self.pid, self.given[0])).ok()
    }
}

/// Begins or ends the reporting of calls. The child calls it after [`be_traced`](crate::trace::be_traced).
pub use libtp_tests::stepping::mark;

/// Runs the command to its end. The command calls [`be_traced`](crate::trace::be_traced) with this path. Calls `report`
/// with each system call that the child makes between its first mark and its second mark.
///
/// # Errors
/// Fails if the child ends with an error.
pub fn calls(command: &mut Command, path: &Path, mut report: impl FnMut(Call)) -> Result<(), String> {
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
                return if ended.success() { Ok(()) } else { Err(format!("the child ended with {ended}")) };
            }
            other => panic!("unexpected state of the child: {other:?}"),
        }
        let regs = ptrace::getregs(pid).unwrap();
        let number = signed(regs.orig_rax);
        // Each call is reported twice; the first time it has no result yet.
        if signed(regs.rax) != -i64::from(libc::ENOSYS) {
            continue;
        }
        if number == MARK {
            is_between = !is_between;
        } else if is_between {
            report(Call { number, given: [regs.rdi, regs.rdx, regs.r10], pid });
        }
    }
}

fn signed(register: u64) -> i64 {
    i64::from_ne_bytes(register.to_ne_bytes())
}

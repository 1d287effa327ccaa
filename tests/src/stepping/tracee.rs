//! A child that asks to be traced and stops.

use nix::sys::ptrace;
use nix::sys::signal::{raise, Signal};
use nix::sys::wait::{waitpid, WaitPidFlag, WaitStatus};
use nix::unistd::{getppid, gettid, Pid};

/// The system call by which a child marks a point of its work for its tracer. The library and the tests make this call
/// nowhere else.
pub const MARK: i64 = libc::SYS_getppid;

/// Stops this thread of the child until the parent steps the thread. The parent must learn the thread's number, so
/// `tell` receives this number before the stop.
///
/// # Errors
/// This system does not let a process be traced; `tell` is not called then.
///
/// # Panics
/// Never: a thread may stop itself.
pub fn be_traced(tell: impl FnOnce(i32)) -> Result<(), String> {
    ptrace::traceme().map_err(|error| error.to_string())?;
    tell(gettid().as_raw());
    raise(Signal::SIGSTOP).expect("a thread may stop itself");
    Ok(())
}

/// Marks a point of the child's work for its tracer.
pub fn mark() {
    let _ = getppid();
}

/// Waits until a child's thread has stopped in [`be_traced`]. The caller must be the thread that started the child.
///
/// # Panics
/// If the thread stops for another reason.
pub fn stopped(thread: Pid) {
    let stopped = waitpid(thread, Some(WaitPidFlag::__WALL)).expect("this thread started the child");
    assert!(
        matches!(stopped, WaitStatus::Stopped(_, Signal::SIGSTOP)),
        "the child should have stopped itself: {stopped:?}"
    );
    // If this process is killed, the kernel kills the child.
    ptrace::setoptions(thread, ptrace::Options::PTRACE_O_EXITKILL).expect("the child is stopped");
}

//! Child processes that inherit everything from their parent, made by fork, or by clone without the C library.
//!
//! Only for test programs that fork while none of their other threads is in the middle of a change.
#![allow(unsafe_code)]

/// How a child is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForkKind {
    /// By the C library.
    Fork,
    /// By the system call directly, so the C library's handlers of a fork do not run.
    RawClone,
}

/// The side of a fork on which the caller runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The parent, with the child's pid.
    Parent(i32),
    /// The child.
    Child,
}

/// Makes a child.
///
/// # Panics
/// If the kernel makes no child.
pub fn make_child(how: ForkKind) -> Side {
    let pid = match how {
        // SAFETY: takes nothing and returns an integer. In the child only this thread runs: the caller ensures that
        // no other thread was in the middle of a change.
        ForkKind::Fork => i64::from(unsafe { libc::fork() }),
        ForkKind::RawClone => {
            let none: libc::c_long = 0;
            // SAFETY: clone(2) without CLONE_VM and without a stack: the child is a copy of this process, as after a
            // fork.
            unsafe { libc::syscall(libc::SYS_clone, libc::c_long::from(libc::SIGCHLD), none, none, none, none) }
        }
    };
    assert!(pid >= 0, "no child was made: {}", std::io::Error::last_os_error());
    match pid {
        0 => Side::Child,
        pid => Side::Parent(i32::try_from(pid).expect("a pid has 31 bits")),
    }
}

/// Ends this process at once, without closing anything in good order.
pub fn exit_now(code: i32) -> ! {
    // SAFETY: takes an integer and does not return; nothing of this process runs after it.
    unsafe { libc::_exit(code) }
}

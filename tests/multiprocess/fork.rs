//! Forks: the only part of this suite that needs `unsafe`.
#![allow(unsafe_code)]

/// The longest life of an orphan, in seconds.
const SECONDS: u32 = 120;

/// Forks a child that does nothing for a while, and returns its pid. The child has all open files of this process.
/// `is_raw`: by the system call itself, so that no fork handler runs.
pub fn leave_a_child(is_raw: bool) -> i32 {
    let child = if is_raw { raw_clone() } else { fork() };
    assert!(child >= 0, "{}", std::io::Error::last_os_error());
    if child == 0 {
        do_nothing();
    }
    child
}

fn fork() -> i32 {
    // SAFETY: the child calls only `do_nothing`, which may be called after a fork of a program with threads: it takes
    // no lock, allocates nothing, and does not return.
    unsafe { libc::fork() }
}

fn raw_clone() -> i32 {
    let (signal, none) = (libc::c_long::from(libc::SIGCHLD), 0 as libc::c_long);
    // SAFETY: without flags and without a stack this is fork: the child gets a copy of all memory. The child calls
    // only `do_nothing`, as above.
    let child = unsafe { libc::syscall(libc::SYS_clone, signal, none, none, none, none) };
    i32::try_from(child).expect("a pid has 31 bits")
}

fn do_nothing() -> ! {
    // SAFETY: `alarm` may be called after a fork; its signal ends a process that has no handler for it.
    unsafe { libc::alarm(SECONDS) };
    loop {
        // SAFETY: `pause` may be called after a fork, and touches no memory.
        unsafe { libc::pause() };
    }
}

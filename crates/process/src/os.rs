//! The process manager's calls to the kernel, to sleep on a word and to wake the sleepers on a word.
//!
//! This is the only file of the crate with `unsafe`, except for `latch.rs`, whose guards implement rio's unsafe traits.
//! Futexes are shared, not private: the sleepers are in other processes, which map the word at other addresses. No call
//! here sleeps without a bound (PROTOCOLS D8).

use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::time::Duration;

use rustix::io::Errno;
use rustix::thread::futex;
use rustix::time::{clock_gettime, ClockId, Timespec};

use crate::latch_word::{Class, Wait};

/// Sleeps while `word` is `seen`, at most `bound`.
pub(crate) fn sleep_while(word: &AtomicU32, seen: u32, bound: Duration) -> Wait {
    if rio::schedule::instead_of_sleep() {
        return Wait::TimedOut;
    }
    let timeout = timespec(bound);
    outcome(futex::wait(word, futex::Flags::empty(), seen, Some(&timeout)), bound)
}

/// Wakes all sleepers on `word`.
pub(crate) fn wake_all(word: &AtomicU32) {
    // A wake is an optimisation (PROTOCOLS D8), so a failure is ignored.
    let _ = futex::wake(word, futex::Flags::empty(), i32::MAX.unsigned_abs());
}

/// Sleeps while the low half of the latch word equals that of `seen`, at most `bound`, as a sleeper of `class`.
///
/// The low half has the count, all waiting bits and most of the owner's index, so every change that a sleeper must
/// notice changes the low half.
pub(crate) fn sleep_on_latch(word: &AtomicU64, seen: u64, class: Class, bound: Duration) -> Wait {
    if rio::schedule::instead_of_sleep() {
        return Wait::TimedOut;
    }
    let now = clock_gettime(ClockId::Monotonic);
    let until = now.checked_add(timespec(bound)).unwrap_or(now);
    let seen = u32::try_from(seen & u64::from(u32::MAX)).expect("masked to 32 bits");
    let slept = futex::wait_bitset(low_half(word), futex::Flags::empty(), seen, Some(&until), bits(class));
    outcome(slept, bound)
}

/// Wakes all readers, or one writer, that sleep on a latch word.
pub(crate) fn wake_on_latch(word: &AtomicU64, class: Class) {
    let count = match class {
        Class::Reader => i32::MAX.unsigned_abs(),
        Class::Writer => 1,
    };
    let _ = futex::wake_bitset(low_half(word), futex::Flags::empty(), count, bits(class));
}

/// Returns when every running processor has passed a full fence. From then on, all threads see the stores made before
/// the call. If a thread had not seen these stores, its own earlier stores are visible to the caller.
pub(crate) fn barrier_everywhere() {
    if rustix::thread::membarrier(rustix::thread::MembarrierCommand::Global).is_err() {
        // The kernel or sandbox has no such call. Sleep far longer than any processor delays a store.
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Lets the barriers of other processes reach this process. Returns whether the kernel can do this.
pub(crate) fn join_barriers() -> bool {
    rustix::thread::membarrier(rustix::thread::MembarrierCommand::RegisterGlobalExpedited).is_ok()
}

/// Returns when every running thread of every process that has joined the barriers has passed a full fence. Takes
/// microseconds. If the kernel cannot do this, calls the slower [`barrier_everywhere`].
pub(crate) fn barrier_of_joined() {
    if rustix::thread::membarrier(rustix::thread::MembarrierCommand::GlobalExpedited).is_err() {
        barrier_everywhere();
    }
}

fn bits(class: Class) -> NonZeroU32 {
    let bits = match class {
        Class::Reader => 1,
        Class::Writer => 2,
    };
    NonZeroU32::new(bits).expect("neither is zero")
}

/// Returns the half of a latch word that the kernel compares. Only the kernel uses this reference. The program itself
/// never loads or stores half of a word, so all its accesses to the word have the same size.
fn low_half(word: &AtomicU64) -> &AtomicU32 {
    let halves = std::ptr::from_ref(word).cast::<[AtomicU32; 2]>();
    let low = if cfg!(target_endian = "little") { 0 } else { 1 };
    // SAFETY: an `AtomicU64` is eight bytes aligned to eight, so both halves are inside it and aligned to four; it
    // lives as long as the returned reference, and an atomic may be shared with any other reference to the same bytes.
    let halves = unsafe { &*halves };
    &halves[low]
}

pub(crate) fn timespec(duration: Duration) -> Timespec {
    Timespec { tv_sec: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX), tv_nsec: duration.subsec_nanos().into() }
}

fn outcome(result: rustix::io::Result<()>, bound: Duration) -> Wait {
    match result {
        // AGAIN: the word had changed. INTR: a signal; the caller looks again anyway.
        Ok(()) | Err(Errno::AGAIN | Errno::INTR) => Wait::Woken,
        Err(Errno::TIMEDOUT) => Wait::TimedOut,
        // The kernel or sandbox has no futexes: waiting still works, by checking the word from time to time.
        Err(_) => {
            std::thread::sleep(bound.min(Duration::from_millis(1)));
            Wait::TimedOut
        }
    }
}

/// Distinguishes a process from its children, made by fork or by a clone that the C library does not know.
///
/// The mark is a number in a page that the kernel wipes in a child ([`rio::ForkMark`]). A check costs one load, so
/// every call can afford it.
#[derive(Clone, Copy, Debug)]
pub struct ForkMark(rio::ForkMark);

/// The marks of processes with sessions. They are separate from rio's marks: a child that has made a mark of rio's kind
/// for its own memory may still have its parent's sessions.
static MARKS: rio::ForkMarks = rio::ForkMarks::new(1);

impl ForkMark {
    /// Returns the mark of the calling process.
    pub(crate) fn of_this_process() -> ForkMark {
        ForkMark(MARKS.of_this_process())
    }

    /// Returns whether the calling process made the mark, and is not a child of the maker. Costs one load.
    #[inline]
    pub fn is_current(&self) -> bool {
        self.0.is_current() || rio::planted("process: a forked child counts as its parent")
    }

    /// Returns whether the calling process is a child of a process that made marks, and has made no mark itself. Such a
    /// child must first give up the inherited descriptors. Always false if the kernel wipes no pages.
    pub fn none_since_fork() -> bool {
        MARKS.none_since_fork()
    }
}

/// One System V semaphore, removed when dropped. Only for the benchmark that repeats figure 5.
#[cfg(feature = "sysv")]
pub(crate) struct SemaphoreSet(libc::c_int);

#[cfg(feature = "sysv")]
impl SemaphoreSet {
    /// Makes a semaphore of value zero.
    pub(crate) fn create() -> std::io::Result<SemaphoreSet> {
        // SAFETY: takes and returns integers only.
        let id = unsafe { libc::semget(libc::IPC_PRIVATE, 1, libc::IPC_CREAT | 0o600) };
        if id < 0 {
            return Err(std::io::Error::last_os_error());
        }
        Ok(SemaphoreSet(id))
    }

    /// Adds `value`; with a negative value it waits until the semaphore is large enough.
    #[inline]
    pub(crate) fn add(&self, value: i16) -> std::io::Result<()> {
        add_to_semaphore(self.0, value)
    }

    /// Returns the semaphore's value.
    #[cfg(feature = "kernel-latches")]
    pub(crate) fn value(&self) -> std::io::Result<i32> {
        // SAFETY: GETVAL takes no further argument; takes and returns integers only.
        let value = unsafe { libc::semctl(self.0, 0, libc::GETVAL) };
        if value < 0 {
            return Err(std::io::Error::last_os_error());
        }
        Ok(value)
    }

    /// Returns the kernel's name for the semaphore, valid until this is dropped.
    #[cfg(feature = "kernel-latches")]
    pub(crate) fn id(&self) -> i32 {
        self.0
    }
}

/// Adds `value` to the semaphore that the kernel names `id`. Returns an error if the semaphore was removed.
#[cfg(feature = "sysv")]
#[inline]
pub(crate) fn add_to_semaphore(id: i32, value: i16) -> std::io::Result<()> {
    let mut operation = libc::sembuf { sem_num: 0, sem_op: value, sem_flg: 0 };
    loop {
        // SAFETY: the pointer is to one `sembuf`, as the count says, alive and exclusively ours during the call.
        let result = unsafe { libc::semop(id, &mut operation, 1) };
        if result == 0 {
            return Ok(());
        }
        let error = std::io::Error::last_os_error();
        if error.kind() != std::io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

#[cfg(feature = "sysv")]
impl Drop for SemaphoreSet {
    fn drop(&mut self) {
        // SAFETY: IPC_RMID takes no further argument, and no call on this semaphore can be under way: we own it.
        let _ = unsafe { libc::semctl(self.0, 0, libc::IPC_RMID) };
    }
}

//! A fork must not keep the locks of its parent (PROTOCOLS D9).
//!
//! The locks of an open file description are shared by all copies of the descriptor, and a child of a fork has a copy of
//! every one: the locks would outlive a killed parent for as long as the child runs. So each descriptor that may hold
//! locks is entered here, and in the child, before `fork` returns there, it is replaced by one of nothing. It keeps its
//! number, so that whatever closes it later closes what it thinks.
//!
//! A child made behind the C library's back (a raw `clone`) runs no such handler: it calls [`give_up_inherited`] as soon
//! as it is known for what it is.
//!
//! Invariants
//! 1. The list holds exactly the open descriptors that may hold locks, whenever `fork` looks at it: who changes it, or
//!    closes one of them, holds the list, and `fork` waits until nobody does.
//! 2. What the child does here takes no lock of the C library, allocates nothing and cannot panic.
//!
//! The `unsafe` is the calls that rustix does not have or that take a descriptor by its number.
#![allow(unsafe_code)]

use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::OnceLock;

const NONE: i32 = -1;
/// Descriptors in one block of the list.
const BLOCK: usize = 64;

/// A part of the list. Blocks are added and never taken away.
struct Block {
    descriptors: [AtomicI32; BLOCK],
    next: OnceLock<Box<Block>>,
}

impl Block {
    const fn new() -> Block {
        Block { descriptors: [const { AtomicI32::new(NONE) }; BLOCK], next: OnceLock::new() }
    }
}

static LIST: Block = Block::new();
/// Somebody has the list.
static HELD: AtomicBool = AtomicBool::new(false);

/// The list, held: no fork happens. For a few instructions and a `close` only.
#[derive(Debug)]
pub(crate) struct Hold(());

impl Hold {
    pub(crate) fn take() -> Hold {
        take();
        Hold(())
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        give();
    }
}

/// A place in the list.
#[derive(Debug)]
pub(crate) struct Entry(&'static AtomicI32);

impl Entry {
    /// Enters a descriptor. From now on a child does not keep it.
    pub(crate) fn new(descriptor: RawFd) -> Entry {
        install_handlers();
        let _hold = Hold::take();
        let mut block = &LIST;
        loop {
            // Relaxed, on all entries: `HELD` orders them.
            if let Some(free) = block.descriptors.iter().find(|entry| entry.load(Ordering::Relaxed) == NONE) {
                free.store(descriptor, Ordering::Relaxed);
                return Entry(free);
            }
            block = block.next.get_or_init(|| Box::new(Block::new()));
        }
    }

    /// Takes it out again, if it is still there. The caller has the list until the descriptor is closed.
    pub(crate) fn remove(&self, _hold: &Hold, descriptor: RawFd) {
        // In a child the entry is free, or another's.
        let _ = self.0.compare_exchange(descriptor, NONE, Ordering::Relaxed, Ordering::Relaxed);
    }
}

/// Has children of a fork not keep a descriptor that holds locks and is nobody's of this crate. It has to go before the
/// descriptor is closed: else a child may give up what has its number since.
#[derive(Debug)]
pub struct Uninherited {
    entry: Entry,
    descriptor: RawFd,
}

impl Uninherited {
    /// From now on a child does not keep it.
    pub fn new(descriptor: BorrowedFd<'_>) -> Uninherited {
        let descriptor = descriptor.as_raw_fd();
        Uninherited { entry: Entry::new(descriptor), descriptor }
    }
}

impl Drop for Uninherited {
    fn drop(&mut self) {
        self.entry.remove(&Hold::take(), self.descriptor);
    }
}

/// Replaces all descriptors that may hold locks by one of nothing. Only for the child of a fork or clone, for which the
/// handles it inherited are of no more use; the parent keeps its locks. Doing it again changes nothing.
pub fn give_up_inherited() {
    let mut nothing = NONE;
    let mut block = Some(&LIST);
    while let Some(here) = block {
        for entry in &here.descriptors {
            let descriptor = entry.swap(NONE, Ordering::Relaxed);
            if descriptor != NONE {
                nothing = replace(descriptor, nothing);
            }
        }
        block = here.next.get().map(|next| &**next);
    }
    if nothing != NONE {
        close(nothing);
    }
    // Whoever had the list when a raw clone was made is a thread of the parent and does not exist here.
    give();
}

/// Puts a copy of `nothing` in the place of a descriptor. Returns `nothing`, made here if there was none.
fn replace(descriptor: i32, nothing: i32) -> i32 {
    let nothing = if nothing == NONE { new_nothing() } else { nothing };
    if nothing == NONE {
        // No descriptor left for it: first of all the lock must go, and this makes room.
        close(descriptor);
        let late = new_nothing();
        if late == descriptor {
            return NONE;
        }
        copy(late, descriptor);
        return late;
    }
    copy(nothing, descriptor);
    nothing
}

fn new_nothing() -> i32 {
    // SAFETY: takes and returns integers only.
    unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) }
}

fn copy(from: i32, to: i32) {
    // SAFETY: dup3(2) takes and returns integers only. `to` is a descriptor of the list: its owner is a file that was
    // opened for its locks and inherited from the parent, and that is refused wherever it is used; it stays open, as its
    // owner assumes.
    let _ = unsafe { libc::dup3(from, to, libc::O_CLOEXEC) };
}

fn close(descriptor: i32) {
    // SAFETY: close(2) of a descriptor made here, or of one of the list whose number `replace` takes again at once: this is
    // the only thread of a new child.
    let _ = unsafe { libc::close(descriptor) };
}

fn install_handlers() {
    static INSTALLED: OnceLock<()> = OnceLock::new();
    INSTALLED.get_or_init(|| {
        if rio::planted("io: the child of a fork keeps its parent's locks") {
            return;
        }
        // SAFETY: the three functions live as long as the program, take nothing and return nothing. The child's only makes
        // system calls and works on atomics, as pthread_atfork(3) demands of it. Without memory for them the call fails:
        // then a child is known by its first call into the library, as one of a raw clone is.
        let _ = unsafe { libc::pthread_atfork(Some(before), Some(after_in_parent), Some(after_in_child)) };
    });
}

extern "C" fn before() {
    take();
}

extern "C" fn after_in_parent() {
    give();
}

extern "C" fn after_in_child() {
    give_up_inherited();
}

fn take() {
    // Acquire: pairs with the release in `give`; who has the list sees what the last one did with it.
    while HELD.compare_exchange_weak(false, true, Ordering::Acquire, Ordering::Relaxed).is_err() {
        std::thread::yield_now();
    }
}

fn give() {
    HELD.store(false, Ordering::Release);
}

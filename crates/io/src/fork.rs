//! Keeps the locks of a process from its forked children (PROTOCOLS D9).
//!
//! All copies of a descriptor share the locks of the open file description. A forked child has a copy of every
//! descriptor, so the locks would outlive a killed parent for as long as the child runs. Therefore this module lists
//! each descriptor that may hold locks. In the child, before `fork` returns there, a handler replaces each listed
//! descriptor by an unused eventfd under the same number. So a later close of that number closes only the eventfd.
//!
//! A child made by a raw `clone`, without the C library, runs no such handler. The library calls [`give_up_inherited`]
//! in such a child as soon as it recognizes the child.
//!
//! Invariants
//! 1. Whenever `fork` reads the list, the list has exactly the open descriptors of this crate that may hold locks, and
//!    those with an [`Uninherited`]. A thread acquires the list before it changes the list or closes a listed
//!    descriptor, and `fork` waits until the list is released.
//! 2. The handler in the child takes no lock of the C library, allocates nothing and cannot panic.
//!
//! `unsafe` is for calls that rustix does not have, and for calls that take a descriptor by its number.
#![allow(unsafe_code)]

use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::OnceLock;

const NONE: i32 = -1;
/// Descriptors in one block of the list.
const BLOCK: usize = 64;

/// A part of the list. Blocks are added and never removed.
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
/// Whether a thread holds the list.
static HELD: AtomicBool = AtomicBool::new(false);

/// Guard of the list: no fork happens while this value lives. Held only for a few instructions and a `close`.
#[derive(Debug)]
pub(crate) struct Hold(());

impl Hold {
    pub(crate) fn acquire() -> Hold {
        acquire_list();
        Hold(())
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        release_list();
    }
}

/// A place in the list.
#[derive(Debug)]
pub(crate) struct Entry(&'static AtomicI32);

impl Entry {
    /// Enters a descriptor into the list. From now on, each child of a fork gives the descriptor up.
    pub(crate) fn new(descriptor: RawFd) -> Entry {
        install_handlers();
        let _hold = Hold::acquire();
        let mut block = &LIST;
        loop {
            // Relaxed, for all accesses to entries: `HELD` orders them.
            if let Some(free) = block.descriptors.iter().find(|entry| entry.load(Ordering::Relaxed) == NONE) {
                free.store(descriptor, Ordering::Relaxed);
                return Entry(free);
            }
            block = block.next.get_or_init(|| Box::new(Block::new()));
        }
    }

    /// Removes the descriptor, if it is still in the list. No fork happens while `_hold` lives. A caller that drops
    /// `_hold` before the descriptor is closed risks a child that inherits the descriptor's locks.
    pub(crate) fn remove(&self, _hold: &Hold, descriptor: RawFd) {
        // In a child, the entry may be free or hold another descriptor. If so, the entry stays as it is.
        let _ = self.0.compare_exchange(descriptor, NONE, Ordering::Relaxed, Ordering::Relaxed);
    }
}

/// Makes children of a fork give up a descriptor that holds locks and that no file of this crate owns. Drop this value
/// before the descriptor is closed: otherwise a child may give up a newer descriptor that has the same number.
///
/// A child that is made between the lock and [`Uninherited::new`], or between the drop and the close, inherits the
/// lock. So the owner releases the lock before the close. If the owner is killed first, the child keeps the lock.
#[derive(Debug)]
pub struct Uninherited {
    entry: Entry,
    descriptor: RawFd,
}

impl Uninherited {
    /// Enters `descriptor` into the list. From now on, each child of a fork gives the descriptor up.
    pub fn new(descriptor: BorrowedFd<'_>) -> Uninherited {
        let descriptor = descriptor.as_raw_fd();
        Uninherited { entry: Entry::new(descriptor), descriptor }
    }
}

impl Drop for Uninherited {
    fn drop(&mut self) {
        self.entry.remove(&Hold::acquire(), self.descriptor);
    }
}

/// Replaces all descriptors that may hold locks by an unused descriptor. Only the child of a fork or clone may call
/// this function, and must not use the inherited handles afterwards. The parent keeps its locks. A second call changes
/// nothing.
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
    // If a thread of the parent held the list at a raw clone, that thread does not exist in the child, and cannot
    // release the list.
    release_list();
}

/// Makes `descriptor` a copy of the eventfd `nothing`. Returns that eventfd, which this call makes if `nothing` is
/// `NONE`.
fn replace(descriptor: i32, nothing: i32) -> i32 {
    let nothing = if nothing == NONE { new_nothing() } else { nothing };
    if nothing == NONE {
        // No descriptor number is left for the eventfd. Closing this descriptor gives up its lock, which matters most,
        // and frees a number.
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
    // SAFETY: dup3(2) takes and returns integers only. `to` is a descriptor of the list. Its owner is a file that was
    // opened for its locks and inherited from the parent, and the library refuses every use of that file. The number
    // stays open, as the owner assumes.
    let _ = unsafe { libc::dup3(from, to, libc::O_CLOEXEC) };
}

fn close(descriptor: i32) {
    // SAFETY: close(2) of a descriptor made here, or of a listed descriptor whose number `replace` uses again at once.
    // A new child has only this thread, so no other thread can take the number in between.
    let _ = unsafe { libc::close(descriptor) };
}

fn install_handlers() {
    static INSTALLED: OnceLock<()> = OnceLock::new();
    INSTALLED.get_or_init(|| {
        if rio::planted("io: a forked child keeps its parent's locks") {
            return;
        }
        // SAFETY: the three functions live as long as the program, take nothing and return nothing. The child's
        // function only makes system calls and works on atomics, as pthread_atfork(3) demands. If there is no memory
        // for their registration, the call fails. The library then recognizes a child at the child's first call, like a
        // child of a raw clone.
        let _ = unsafe { libc::pthread_atfork(Some(before), Some(after_in_parent), Some(after_in_child)) };
    });
}

extern "C" fn before() {
    acquire_list();
}

extern "C" fn after_in_parent() {
    release_list();
}

extern "C" fn after_in_child() {
    give_up_inherited();
}

fn acquire_list() {
    // Acquire: pairs with the release in `release_list`; this holder sees the changes of the previous holder.
    while HELD.compare_exchange_weak(false, true, Ordering::Acquire, Ordering::Relaxed).is_err() {
        std::thread::yield_now();
    }
}

fn release_list() {
    HELD.store(false, Ordering::Release);
}

//! Handles: C holds numbers instead of pointers to the library's memory.
//!
//! A handle is a number in the form of a pointer. The number names a slot in the table of the handle's kind, and a
//! generation of that slot. The library looks a handle up and never follows it as a pointer. So the library recognizes
//! and refuses NULL, a handle of another kind, a closed handle, and a word that never was a handle. A slot keeps its
//! address for as long as the process lives.
//!
//! Invariants
//! 1. A slot's word records whether the slot has a value, the value's generation, and the number of its users. A call
//!    uses a value only after it has counted itself as a user. A call removes a value only if it is the only user.
//! 2. `hold` makes a call the exclusive user of a value: one compare-and-swap finds that there is no other user, and
//!    marks the word so that no other call can become a user.
//! 3. No call waits in this module. So the child of a fork never waits for a thread that only its parent has.
#![allow(unsafe_code)]

use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

use crate::answer::{Outcome, Trouble};

/// The type that C calls `tp_env *`, `tp_txn *` and so on.
#[repr(transparent)]
pub struct Handle<T>(*mut c_void, PhantomData<fn() -> T>);

// SAFETY: a handle is a number, which no code follows as a pointer.
unsafe impl<T> Send for Handle<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Handle<T> {}

impl<T> Clone for Handle<T> {
    fn clone(&self) -> Handle<T> {
        *self
    }
}

impl<T> Copy for Handle<T> {}

impl<T> Handle<T> {
    pub(crate) const NULL: Handle<T> = Handle(std::ptr::null_mut(), PhantomData);

    pub(crate) fn is_null(self) -> bool {
        self.0.is_null()
    }

    pub(crate) fn word(self) -> u64 {
        self.0.addr() as u64
    }

    fn index(self) -> u32 {
        low(self.word() >> INDEX_SHIFT & ((1 << INDEX_BITS) - 1))
    }
}

/// Returns the lower half of a word.
fn low(word: u64) -> u32 {
    u32::try_from(word & u64::from(u32::MAX)).expect("the word is masked")
}

/// A kind of value that C has handles of.
pub(crate) trait Kind: Send + Sized + 'static {
    /// The kind's index in [`NAMES`].
    const CODE: usize;
    fn table() -> &'static Table<Self>;
}

/// Implements `Kind` for a type, with this code and a table for its values.
macro_rules! kind {
    ($name:ident = $code:literal) => {
        impl $crate::handles::Kind for $name {
            const CODE: usize = $code;
            fn table() -> &'static $crate::handles::Table<$name> {
                static TABLE: $crate::handles::Table<$name> = $crate::handles::Table::new();
                &TABLE
            }
        }
    };
}
pub(crate) use kind;

impl<T: Kind> Handle<T> {
    /// Stores a value in the table of its kind and returns its handle.
    pub(crate) fn of(value: T) -> Outcome<Handle<T>> {
        T::table().insert(value)
    }

    /// Shares the value with other users until the returned guard is dropped.
    pub(crate) fn pin(self) -> Outcome<Pinned<T>> {
        T::table().pin(self)
    }

    /// Makes the caller the exclusive user of the value until the returned guard is dropped. Refuses a value in use.
    pub(crate) fn hold(self) -> Outcome<Held<T>> {
        T::table().hold(self)
    }

    /// Removes the value if it has no user. If it has one, returns an error with the advice `in_use`.
    pub(crate) fn remove(self, in_use: &str) -> Outcome<T> {
        T::table().remove(self, in_use)
    }

    /// Drops the value if it has no user. A NULL handle has no effect.
    pub(crate) fn close(self, in_use: &str) -> Outcome<()> {
        if !self.is_null() {
            drop(self.remove(in_use)?);
        }
        Ok(())
    }
}

/// The names of all kinds, by code.
const NAMES: [&str; 19] = [
    "an environment",
    "a transaction",
    "a database",
    "a record-number database",
    "a cursor",
    "a cursor over a record-number database",
    "an asynchronous commit",
    "a file of db.h",
    "a file of pages",
    "a database of keys with several values",
    "a cursor over keys with several values",
    "a list",
    "a cursor over a list",
    "a text file",
    "an index",
    "a cursor over an index",
    "the keys of an index",
    "a segment of memory",
    "a segment of vista.h",
];

/// The parts of a handle, from its low end: one bit that is set (no pointer to an allocated object has an odd address),
/// seven bits for the kind's code, 24 bits for the slot's index, 32 bits for the generation.
const INDEX_BITS: u32 = 24;
const INDEX_SHIFT: u32 = 8;
const GENERATION_SHIFT: u32 = 32;
/// Bits in the lower half of a slot's word. The upper half is the generation.
const IS_THERE: u64 = 1 << 31;
const IS_EXCLUSIVE: u64 = 1 << 30;
const USERS: u64 = IS_EXCLUSIVE - 1;
/// Slots of the first chunk. Each further chunk is twice the size of the chunk before it.
const FIRST_CHUNK: u32 = 32;
const CHUNKS: usize = 20;

struct Slot<T> {
    word: AtomicU64,
    /// The next slot in the list of free slots, as its index plus one.
    next: AtomicU32,
    value: UnsafeCell<Option<T>>,
}

/// All values of one kind.
pub(crate) struct Table<T> {
    chunks: [AtomicPtr<Slot<T>>; CHUNKS],
    /// The lower half has the index of the first free slot, plus one. The upper half counts the changes of the list, so
    /// that a compare-and-swap notices that the list was changed and changed back.
    free: AtomicU64,
    made: AtomicU32,
}

// SAFETY: a value is reached only as invariants 1 and 2 state: by one thread through `hold`, which needs only `Send`;
// or by several threads through `Pinned`, whose `Deref` demands `Sync` itself.
unsafe impl<T: Send> Sync for Table<T> {}

fn place(index: u32) -> (usize, usize) {
    let chunk = (index / FIRST_CHUNK + 1).ilog2();
    let before = FIRST_CHUNK * ((1 << chunk) - 1);
    (chunk as usize, (index - before) as usize)
}

/// Returns whether the slot with this word has the value of this handle.
fn is_in<T>(word: u64, handle: Handle<T>) -> bool {
    word & IS_THERE != 0 && word >> GENERATION_SHIFT == handle.word() >> GENERATION_SHIFT
}

impl<T: Kind> Table<T> {
    /// The kind's name in messages.
    const NAME: &'static str = NAMES[T::CODE];

    pub(crate) const fn new() -> Table<T> {
        Table {
            chunks: [const { AtomicPtr::new(std::ptr::null_mut()) }; CHUNKS],
            free: AtomicU64::new(0),
            made: AtomicU32::new(0),
        }
    }

    /// Returns the slot, or `None` if no chunk has it.
    fn slot(&self, index: u32) -> Option<&Slot<T>> {
        let (chunk, at) = place(index);
        let first = self.chunks.get(chunk)?.load(Ordering::Acquire);
        if first.is_null() {
            return None;
        }
        // SAFETY: chunk `n` is a leaked slice of `FIRST_CHUNK << n` slots, and `place` returns no index beyond it.
        let slot = unsafe { first.add(at) };
        // SAFETY: as above; chunks are never freed, and change only through their atomics and `UnsafeCell`.
        Some(unsafe { &*slot })
    }

    fn make_chunk(&self, chunk: usize) {
        let new = || Slot { word: AtomicU64::new(0), next: AtomicU32::new(0), value: UnsafeCell::new(None) };
        let slots: Box<[Slot<T>]> = (0..FIRST_CHUNK << chunk).map(|_| new()).collect();
        let made = Box::into_raw(slots);
        let none = std::ptr::null_mut();
        if self.chunks[chunk].compare_exchange(none, made.cast(), Ordering::AcqRel, Ordering::Acquire).is_err() {
            // SAFETY: this slice was made above, and no other thread has seen it.
            drop(unsafe { Box::from_raw(made) });
        }
    }

    fn take_free(&self) -> Option<u32> {
        let mut free = self.free.load(Ordering::Acquire);
        while let Some(index) = low(free).checked_sub(1) {
            let next = self.slot(index)?.next.load(Ordering::Relaxed);
            let without = ((free >> 32) + 1) << 32 | u64::from(next);
            match self.free.compare_exchange_weak(free, without, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return Some(index),
                Err(now) => free = now,
            }
        }
        None
    }

    fn put_free(&self, index: u32, slot: &Slot<T>) {
        let mut free = self.free.load(Ordering::Acquire);
        loop {
            slot.next.store(low(free), Ordering::Relaxed);
            let with = ((free >> 32) + 1) << 32 | u64::from(index + 1);
            match self.free.compare_exchange_weak(free, with, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return,
                Err(now) => free = now,
            }
        }
    }

    /// Puts a value into the table and returns its handle.
    pub(crate) fn insert(&self, value: T) -> Outcome<Handle<T>> {
        let most = 1 << INDEX_BITS;
        let never_used = || {
            // The count stops at `most`: with plain increments, many failing calls would make it wrap around.
            let counted =
                self.made.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |made| (made < most).then_some(made + 1));
            counted.map_err(|_| {
                Trouble::misuse(format!(
                    "there are too many handles: at most {most} of one kind can be open; close some of them"
                ))
            })
        };
        let index = self.take_free().map_or_else(never_used, Ok)?;
        let (chunk, _) = place(index);
        if self.chunks[chunk].load(Ordering::Acquire).is_null() {
            self.make_chunk(chunk);
        }
        let slot = self.slot(index).expect("its chunk was made above");
        // SAFETY: the slot was free or never used. No other thread has its index, and no handle has its generation.
        unsafe { *slot.value.get() = Some(value) };
        let generation = slot.word.load(Ordering::Relaxed) >> GENERATION_SHIFT;
        slot.word.store(generation << GENERATION_SHIFT | IS_THERE, Ordering::Release);
        let word = generation << GENERATION_SHIFT | u64::from(index) << INDEX_SHIFT | (T::CODE as u64) << 1 | 1;
        let word = usize::try_from(word).expect("a pointer has 64 bits here");
        Ok(Handle(std::ptr::without_provenance_mut(word), PhantomData))
    }

    fn find(&self, handle: Handle<T>) -> Outcome<&Slot<T>> {
        let (name, word) = (Self::NAME, handle.word());
        let misuse = |what: String| Err(Trouble::misuse(what));
        if word == 0 {
            return misuse(format!(
                "NULL was given for {name}: the call that makes the handle failed, or was not made"
            ));
        }
        let strange = || misuse(format!("the call needs {name}, and {word:#x} is not a handle of this library"));
        let other = usize::try_from(word >> 1 & 127).ok().and_then(|code| NAMES.get(code));
        match (word & 1, other) {
            (1, Some(&other)) if other != name => misuse(format!("the call needs {name}, and {other} was given")),
            (1, Some(_)) => self.slot(handle.index()).map_or_else(strange, Ok),
            _ => strange(),
        }
    }

    /// Returns whether the table has the handle's value.
    pub(crate) fn has(&self, handle: Handle<T>) -> bool {
        self.find(handle).is_ok_and(|slot| is_in(slot.word.load(Ordering::Acquire), handle))
    }

    /// Counts the caller as a user of the value: a shared user or, if `exclusive`, the exclusive user.
    fn enter(&self, handle: Handle<T>, exclusive: bool) -> Outcome<&Slot<T>> {
        let slot = self.find(handle)?;
        let mut word = slot.word.load(Ordering::Acquire);
        loop {
            if !is_in(word, handle) {
                return Err(Trouble::misuse(format!("{} was given that was ended or closed before", Self::NAME)));
            }
            if word & IS_EXCLUSIVE != 0 || (exclusive && word & USERS != 0) {
                return Err(Trouble::misuse(format!(
                    "another call of this program uses {} now, and only one thread at a time can use it. In the child of a fork, that call can belong to a thread of the parent: then no call of the child can use or close the handle, which ends with the child or with exec",
                    Self::NAME
                )));
            }
            let counted = (word + 1) | if exclusive { IS_EXCLUSIVE } else { 0 };
            match slot.word.compare_exchange_weak(word, counted, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return Ok(slot),
                Err(now) => word = now,
            }
        }
    }

    /// Shares the value with other users until the returned guard is dropped.
    pub(crate) fn pin(&'static self, handle: Handle<T>) -> Outcome<Pinned<T>> {
        Ok(Pinned { slot: self.enter(handle, false)? })
    }

    /// Makes the caller the exclusive user of the value until the returned guard is dropped. Refuses a value in use.
    pub(crate) fn hold(&'static self, handle: Handle<T>) -> Outcome<Held<T>> {
        Ok(Held { slot: self.enter(handle, true)?, handle })
    }

    /// Removes the value if it has no user. If it has one, returns an error with the advice `in_use`.
    pub(crate) fn remove(&'static self, handle: Handle<T>, in_use: &str) -> Outcome<T> {
        match self.hold(handle) {
            Ok(held) => Ok(held.remove()),
            Err(refused) => {
                let slot = self.find(handle)?;
                let word = slot.word.load(Ordering::Acquire);
                match word & USERS {
                    0 => Err(refused),
                    _ if !is_in(word, handle) => Err(refused),
                    users => {
                        Err(Trouble::in_use(format!("{} is in use {users} times: {in_use}. It stays open", Self::NAME)))
                    }
                }
            }
        }
    }
}

/// A pinned value: the guard of a shared user. No call removes the value while the guard lives.
pub(crate) struct Pinned<T: Kind> {
    slot: &'static Slot<T>,
}

// SAFETY: the guard is a count in the slot, and gives several threads only the accesses that `T: Sync` allows.
unsafe impl<T: Kind + Sync> Send for Pinned<T> {}
// SAFETY: as above.
unsafe impl<T: Kind + Sync> Sync for Pinned<T> {}

impl<T: Kind> Pinned<T> {
    /// Pins the value once more. No call can become the exclusive user while either guard lives.
    pub(crate) fn again(&self) -> Pinned<T> {
        self.slot.word.fetch_add(1, Ordering::AcqRel);
        Pinned { slot: self.slot }
    }

    /// Returns whether both guards pin the same value.
    pub(crate) fn is(&self, other: &Pinned<T>) -> bool {
        std::ptr::eq(self.slot, other.slot)
    }
}

impl<T: Kind + Sync> Pinned<T> {
    /// Returns the pinned value with a longer lifetime, which the compiler does not check.
    ///
    /// # Safety
    /// The reference is not used after this `Pinned` is dropped.
    pub(crate) unsafe fn beyond(&self) -> &'static T {
        let value: *const T = &**self;
        // SAFETY: slots are never freed, and this slot keeps its value while it is pinned.
        unsafe { &*value }
    }
}

impl<T: Kind + Sync> Deref for Pinned<T> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: this guard is counted, so no call has the value exclusively or removes it (invariants 1 and 2).
        let value = unsafe { &*self.slot.value.get() };
        value.as_ref().expect("a slot that is there has a value")
    }
}

impl<T: Kind> Drop for Pinned<T> {
    fn drop(&mut self) {
        self.slot.word.fetch_sub(1, Ordering::Release);
    }
}

/// A held value: the guard of the exclusive user.
pub(crate) struct Held<T: Kind> {
    slot: &'static Slot<T>,
    handle: Handle<T>,
}

impl<T: Kind> Held<T> {
    /// Removes the value. Its handle becomes invalid.
    pub(crate) fn remove(self) -> T {
        // SAFETY: the value is held, so no other call reaches it (invariant 2).
        let value = unsafe { &mut *self.slot.value.get() }.take().expect("a slot that is there has a value");
        let generation = (self.handle.word() >> GENERATION_SHIFT).wrapping_add(1);
        self.slot.word.store(generation << GENERATION_SHIFT, Ordering::Release);
        T::table().put_free(self.handle.index(), self.slot);
        // The word stored above counts no user, so `drop` must not subtract this one.
        std::mem::forget(self);
        value
    }
}

impl<T: Kind> Deref for Held<T> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: the value is held (invariant 2).
        let value = unsafe { &*self.slot.value.get() };
        value.as_ref().expect("a slot that is there has a value")
    }
}

impl<T: Kind> DerefMut for Held<T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the value is held (invariant 2).
        let value = unsafe { &mut *self.slot.value.get() };
        value.as_mut().expect("a slot that is there has a value")
    }
}

impl<T: Kind> Drop for Held<T> {
    fn drop(&mut self) {
        self.slot.word.fetch_sub(1 | IS_EXCLUSIVE, Ordering::Release);
    }
}

#[cfg(test)]
mod tests;

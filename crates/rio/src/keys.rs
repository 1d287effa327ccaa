//! Protection keys: a thread's right to store into a range of pages, changed by one instruction.
//!
//! Paper: in Rio Vista, section 3, the page table keeps wild stores out of the file cache. With protection keys, a
//! range of pages has a key, and a register of each thread holds the thread's rights to the pages of each key. So the
//! begin and the end of a transaction need no system call.
//!
//! Each thread has its own rights. A thread that is older than the key has no rights to the key's pages until the
//! thread asks for them; a new thread inherits the rights of the thread that made it.

use std::sync::atomic::{compiler_fence, Ordering};

/// The kernel's `PKEY_DISABLE_WRITE`.
const DISABLE_WRITE: u32 = 2;

/// A protection key of this process, freed when it is dropped.
#[derive(Debug)]
pub struct Key {
    number: u32,
}

/// A thread's right to the pages with the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Right {
    /// Load.
    Read,
    /// Load and store.
    Write,
}

impl Key {
    /// Returns whether the processor and the kernel have protection keys.
    pub fn is_possible() -> bool {
        is_possible()
    }

    /// Takes a key. The calling thread may load from pages that get this key.
    ///
    /// # Errors
    /// `Unsupported` if there are no protection keys; the kernel's error if all keys are taken.
    pub fn take() -> std::io::Result<Key> {
        if !Key::is_possible() {
            return Err(std::io::ErrorKind::Unsupported.into());
        }
        // SAFETY: changes the rights of a key that no page has.
        let number = unsafe { libc::syscall(libc::SYS_pkey_alloc, 0, DISABLE_WRITE) };
        u32::try_from(number).map(|number| Key { number }).map_err(|_| std::io::Error::last_os_error())
    }

    /// Returns the key's number for the kernel.
    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    /// Sets the calling thread's right from now on.
    pub fn allow(&self, right: Right) {
        let shift = self.number * 2;
        let denied = if right == Right::Read { 0b10 } else { 0 };
        let rights = rights() & !(0b11 << shift) | denied << shift;
        // The compiler must not move a store of the program across the change.
        compiler_fence(Ordering::SeqCst);
        set_rights(rights);
        compiler_fence(Ordering::SeqCst);
    }

    /// Makes sure that the calling thread may load.
    pub fn allow_reading(&self) {
        if rights() >> (self.number * 2) & 1 != 0 {
            self.allow(Right::Read);
        }
    }
}

impl Drop for Key {
    fn drop(&mut self) {
        // SAFETY: the key belongs to this value, and no page has it any more: such pages are unmapped, or have key 0
        // again.
        unsafe { libc::syscall(libc::SYS_pkey_free, self.number) };
    }
}

// In later versions of Rust `__cpuid` is a safe function.
#[allow(unused_unsafe)]
#[cfg(target_arch = "x86_64")]
fn is_possible() -> bool {
    use std::arch::x86_64::{__cpuid, __cpuid_count};
    // SAFETY: every x86-64 has the instruction.
    let leaves = unsafe { __cpuid(0) }.eax;
    // SAFETY: as above; the leaf is there.
    let features = if leaves >= 7 { unsafe { __cpuid_count(7, 0) }.ecx } else { 0 };
    // Bit 4: the kernel has switched protection keys on.
    features >> 4 & 1 == 1
}

#[cfg(target_arch = "x86_64")]
fn rights() -> u32 {
    let rights: u32;
    // SAFETY: reads a register that the processor has, since a key was taken; changes `edx` and nothing else.
    unsafe { std::arch::asm!("rdpkru", in("ecx") 0, out("eax") rights, out("edx") _, options(nomem, nostack)) };
    rights
}

#[cfg(target_arch = "x86_64")]
fn set_rights(rights: u32) {
    // SAFETY: changes this thread's rights to pages with a key, and only a [`Key`] gives a key to pages. A load or
    // store that becomes forbidden faults.
    unsafe { std::arch::asm!("wrpkru", in("eax") rights, in("ecx") 0, in("edx") 0, options(nostack)) };
}

#[cfg(not(target_arch = "x86_64"))]
fn is_possible() -> bool {
    false
}

#[cfg(not(target_arch = "x86_64"))]
fn rights() -> u32 {
    0
}

#[cfg(not(target_arch = "x86_64"))]
fn set_rights(_: u32) {}

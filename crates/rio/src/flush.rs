//! Writes cache lines back to memory that outlives the processor's cache.
//!
//! Paper: a departure from Rio, whose memory and cache both survive a crash. If memory keeps its contents over
//! a reset or the loss of power, a crash still loses the lines that are only in the cache. So the undo log is written
//! back before the stores that it covers, and the stores are written back before the log is emptied. The instruction is
//! chosen at run time.

use std::sync::OnceLock;

/// Bytes of a cache line.
const LINE: usize = 64;

/// How cache lines are written back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum WriteBack {
    /// Lines are not written back: the memory and the cache go through a crash together.
    #[default]
    None,
    /// By `clwb`, which leaves the line in the cache.
    Clwb,
    /// By `clflushopt`, which evicts the line.
    Clflushopt,
    /// By `clflush`, one line after the other.
    Clflush,
    /// To the simulated cache of a test, whose crash may lose lines that were not written back.
    #[cfg(feature = "planted")]
    #[doc(hidden)]
    Simulated,
}

impl WriteBack {
    /// Returns the best instruction of this processor, or `None` if it has none.
    pub fn best() -> Option<WriteBack> {
        static BEST: OnceLock<Option<WriteBack>> = OnceLock::new();
        *BEST.get_or_init(find)
    }

    /// Starts to write back the lines of `bytes` bytes from `place` on. The lines are in memory after the next
    /// [`WriteBack::fence`]. The bytes must be mapped.
    #[inline]
    pub(crate) fn write_back(self, place: *const u8, bytes: usize) {
        let first = place.map_addr(|address| address & !(LINE - 1));
        for at in (0..place.addr() - first.addr() + bytes).step_by(LINE) {
            self.line(first.wrapping_add(at));
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[inline]
    fn line(self, place: *const u8) {
        use std::arch::asm;
        match self {
            WriteBack::None => {}
            #[cfg(feature = "planted")]
            WriteBack::Simulated => {}
            // SAFETY: writes back a line that the caller has mapped; the processor has the instruction (`find`); no
            // register or flag changes, and memory keeps what it has.
            WriteBack::Clwb => unsafe { asm!("clwb [{}]", in(reg) place, options(nostack, preserves_flags)) },
            // SAFETY: as above.
            WriteBack::Clflushopt => unsafe {
                asm!("clflushopt [{}]", in(reg) place, options(nostack, preserves_flags))
            },
            // SAFETY: as above; `clflush` is part of x86-64.
            WriteBack::Clflush => unsafe { asm!("clflush [{}]", in(reg) place, options(nostack, preserves_flags)) },
        }
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn line(self, _: *const u8) {}

    /// Calls [`WriteBack::fence`], unless lines are not written back at all.
    #[inline]
    pub(crate) fn fence_if_any(self) {
        if self != WriteBack::None {
            self.fence();
        }
    }

    /// Orders write-backs: lines written back before this call are in memory before any later store.
    #[cfg(target_arch = "x86_64")]
    #[inline]
    pub(crate) fn fence(self) {
        // SAFETY: a fence reads and writes nothing; SSE is part of x86-64.
        unsafe { std::arch::x86_64::_mm_sfence() };
    }

    #[cfg(not(target_arch = "x86_64"))]
    pub(crate) fn fence(self) {}
}

// In later versions of Rust `__cpuid` is a safe function.
#[allow(unused_unsafe)]
#[cfg(target_arch = "x86_64")]
fn find() -> Option<WriteBack> {
    use std::arch::x86_64::{__cpuid, __cpuid_count};
    // SAFETY: every x86-64 has the instruction.
    let leaves = unsafe { __cpuid(0) }.eax;
    // SAFETY: as above; the leaf is there.
    let features = if leaves >= 7 { unsafe { __cpuid_count(7, 0) }.ebx } else { 0 };
    Some(choose(features))
}

/// Returns the best instruction of a processor with these features: `ebx` of its leaf 7. Every x86-64 has `clflush`.
#[cfg(target_arch = "x86_64")]
fn choose(features: u32) -> WriteBack {
    match (features >> 24 & 1, features >> 23 & 1) {
        (1, _) => WriteBack::Clwb,
        (_, 1) => WriteBack::Clflushopt,
        _ => WriteBack::Clflush,
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn find() -> Option<WriteBack> {
    None
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    #[test]
    fn the_best_write_back_instruction_is_chosen_by_the_processors_flags() {
        let (clflushopt, clwb): (u32, u32) = (1 << 23, 1 << 24);
        assert_eq!(choose(0), WriteBack::Clflush);
        assert_eq!(choose(!(clflushopt | clwb)), WriteBack::Clflush, "another bit chose the instruction");
        assert_eq!(choose(clflushopt), WriteBack::Clflushopt);
        assert_eq!(choose(clflushopt | clwb), WriteBack::Clwb);
        assert_eq!(choose(clwb), WriteBack::Clwb);
    }

    /// The kernel reads the same bits of the processor, and lists the features by name.
    #[test]
    fn the_kernel_lists_the_chosen_instruction_for_this_processor() {
        let told = std::fs::read_to_string("/proc/cpuinfo").unwrap();
        let flags: Vec<&str> = told.lines().find(|line| line.starts_with("flags")).unwrap().split(' ').collect();
        let best = match (flags.contains(&"clwb"), flags.contains(&"clflushopt")) {
            (true, _) => WriteBack::Clwb,
            (_, true) => WriteBack::Clflushopt,
            _ => WriteBack::Clflush,
        };
        assert_eq!(WriteBack::best(), Some(best));
    }

    #[test]
    fn each_write_back_instruction_leaves_the_stored_bytes() {
        let told = std::fs::read_to_string("/proc/cpuinfo").unwrap();
        let has = |name: &str| told.split_whitespace().any(|flag| flag == name);
        let bytes: Vec<u8> = (0..=255).collect();
        for (how, name) in
            [(WriteBack::Clwb, "clwb"), (WriteBack::Clflushopt, "clflushopt"), (WriteBack::Clflush, "clflush")]
        {
            // Instructions that this processor does not have are skipped.
            if !has(name) {
                continue;
            }
            how.write_back(bytes[3..].as_ptr(), 200);
            how.fence();
            assert!(bytes.iter().copied().eq(0..=255), "{name}");
        }
    }
}

//! A seal: a checksum over a library's own tables in a kept region, made when the region is left in good order and
//! checked at the next opening.
//!
//! Paper: a departure. A seal detects changes that a disk or a wild store made while no process had the region. Data
//! that change during use are not sealed, so no transaction pays for the seal.

use std::fs::File;
use std::mem::offset_of;
use std::os::unix::fs::FileExt;

use rustix::fs::{fallocate, FallocateFlags};

use crate::checksum::mix;
use crate::error::unusable;
use crate::{Offset, Region, RegionHeader, Result, Word, HEADER_BYTES};

impl Region {
    /// Returns the checksum of the parts, which are made of whole words. Leaves out the region's header. The checksum
    /// is never zero.
    pub(crate) fn seal_of(&self, parts: &[(u64, u64)]) -> u64 {
        let mut sum = 1;
        for &(from, to) in parts {
            let (from, to) = (from.max(HEADER_BYTES), to.min(self.used()));
            let words = usize::try_from(to.saturating_sub(from) / 8).unwrap_or(0);
            let Some(start) = Offset::<Word<u64>>::from_raw(from).filter(|_| words != 0) else { continue };
            sum = self.slice(start, words).iter().fold(mix(sum, from), |sum, word| mix(sum, word.get()));
        }
        sum.max(1)
    }

    /// Compares the parts with a seal. A seal of zero means that there is no seal.
    pub(crate) fn check_seal(&self, seal: u64, parts: &[(u64, u64)]) -> Result<()> {
        if seal == 0 || seal == self.seal_of(parts) {
            return Ok(());
        }
        Err(unusable(
            self.path(),
            "its tables were changed after it was closed, by the disk or by a wrong store of a program; restore it from a checkpoint, which lacks later changes".into(),
        ))
    }
}

/// Makes a copy of a kept region ready to be opened: sets the file's length to the size in its header, and marks the
/// region as left in good order, without a seal.
///
/// # Errors
/// Errors of the system, also if the filesystem has no room.
pub(crate) fn admit_copy(file: &File) -> std::io::Result<()> {
    let mut word = [0; 8];
    file.read_exact_at(&mut word, offset_of!(RegionHeader, size) as u64)?;
    fallocate(file, FallocateFlags::empty(), 0, u64::from_ne_bytes(word))?;
    file.write_all_at(&0_u64.to_ne_bytes(), offset_of!(RegionHeader, seal) as u64)?;
    file.write_all_at(&1_u64.to_ne_bytes(), offset_of!(RegionHeader, clean) as u64)
}

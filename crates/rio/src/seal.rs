//! A seal: a checksum over what a library keeps for itself in a kept region, made when that is left in good order and looked at
//! when it is opened next.
//!
//! Paper: a departure. It finds what a disk or a wild store has changed while nobody had the region. What changes while it is
//! used is not sealed: no transaction pays for it.

use std::fs::File;
use std::mem::offset_of;
use std::os::unix::fs::FileExt;

use rustix::fs::{fallocate, FallocateFlags};

use crate::checksum::mix;
use crate::region::unusable;
use crate::{Kept, Offset, Region, RegionHeader, Result, Word, HEADER_BYTES};

impl Region {
    /// The checksum of some parts, each of whole words, the region's own header left out; never zero.
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
}

impl Kept {
    /// Compares the parts with the seal of when the region was left, if it was left in good order.
    ///
    /// # Errors
    /// `Unusable` if they do not agree.
    pub fn check_seal(&self, parts: &[(u64, u64)]) -> Result<()> {
        match self.seal {
            0 => Ok(()),
            seal if seal == self.region().seal_of(parts) => Ok(()),
            _ => Err(unusable(
                self.region().path(),
                "its tables are not as they were when it was left: the disk or a wild store has changed them. Restore it from a checkpoint".into(),
            )),
        }
    }
}

/// Makes a file to which the bytes of a kept region were copied one that can be opened: as long as the region says that it is,
/// and left in good order, without a seal, as far as it says.
///
/// # Errors
/// The system's, also if the file has no room.
pub(crate) fn admit_copy(file: &File) -> std::io::Result<()> {
    let mut word = [0; 8];
    file.read_exact_at(&mut word, offset_of!(RegionHeader, size) as u64)?;
    fallocate(file, FallocateFlags::empty(), 0, u64::from_ne_bytes(word))?;
    file.write_all_at(&0_u64.to_ne_bytes(), offset_of!(RegionHeader, seal) as u64)?;
    file.write_all_at(&1_u64.to_ne_bytes(), offset_of!(RegionHeader, clean) as u64)
}

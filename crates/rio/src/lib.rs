//! rio: memory that outlives a program's death, and its undo log.
//!
//! A [`Region`] is a file mapped by every process that opens it. A region contains no pointers: an [`Offset`] names a
//! value, and control words are [`Word`]s. Every change of more than one word is a [`Section`], whose before-images are
//! in an [`Undo`] log in the same memory. So a survivor can roll back the change of a process that was killed between
//! two instructions. This is Vista's idea (Rio Vista, section 4), applied to LIBTP's shared structures.
//!
//! rio does not know the contents of a region, nor the code that stores them.
//!
//! # Example
//! ```
//! rio::shared! {
//!     /// Two balances that must change together.
//!     pub struct Account { pub checking: Word<u64>, pub savings: Word<u64> } size 16
//! }
//! # use rio::{Region, Undo, Word};
//! let region = Region::anonymous(1 << 20)?;
//! let account = region.allocate::<Account>(1)?;
//! let log = Undo::create(&region, 4096)?;
//! let undo = Undo::open(&region, log);
//!
//! let mut section = undo.section();
//! region.at(account).checking.set(&mut section, 70);
//! region.at(account).savings.set(&mut section, 30);
//! section.close();
//! assert_eq!(region.at(account).checking.get(), 70);
//! # Ok::<(), rio::Error>(())
//! ```

mod access;
mod anchor;
mod bytes;
mod bytes_mut;
mod checked;
mod checkpoint;
mod checksum;
mod descriptor;
mod error;
mod extent;
pub mod failpoint;
mod flush;
mod fork_mark;
mod gate;
mod guard;
mod kept;
mod keys;
mod layout;
mod machine_memory;
mod map;
mod names;
mod offset;
pub mod planted;
mod racing;
mod region;
#[doc(hidden)]
pub mod schedule;
mod seal;
mod section;
mod shared;
mod short_crc;
mod slab;
mod survives;
mod undo;
mod view;
mod wiped;
mod word;

pub use access::Access;
pub use anchor::Anchor;
pub use bytes::{ExclusiveHold, SharedHold};
pub use bytes_mut::{BytesMut, Store};
pub use checked::{Checkable, Checked};
pub use descriptor::above_standard;
pub use error::{Error, Result};
#[doc(hidden)]
pub use extent::Extent;
pub use failpoint::failpoint;
pub use flush::WriteBack;
pub use fork_mark::{ForkMark, ForkMarks};
pub use guard::{OnFault, Watch};
pub use kept::{Keeping, Kept, Nameless};
pub use keys::{Key, Right};
pub use layout::LayoutHash;
pub use machine_memory::memory_bytes;
pub use map::Mapping;
pub use offset::{Bytes, Offset};
pub use planted::planted;
pub use racing::Racing;
#[cfg(feature = "planted")]
#[doc(hidden)]
pub use region::simulated_cache;
pub use region::{
    boot_id, remove_region, Broken, Held, HeldSlice, Identity, Lasting, Place, Region, RegionHeader, Remembered,
    RootSlot, UnusedRegion, HEADER_BYTES, SIZES,
};
pub use section::Section;
pub use shared::Shared;
pub use short_crc::short_crc32c;
pub use slab::{Slab, SlabHeader};
pub use survives::Survives;
pub use undo::mark::UndoMark;
pub use undo::quick::{Parts, Quick};
pub use undo::{Undo, UndoLog};
pub use view::{Flat, Shown, View};
pub use word::{Atom, Bits, Link, Word};

/// The layout of rio's own types.
pub const LAYOUT: u64 = layout![RegionHeader, SlabHeader, UndoLog];

#[cfg(test)]
mod tests;

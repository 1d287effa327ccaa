//! Reads from shared memory that is given up, or that an earlier generation of the environment left.

use std::panic::{catch_unwind, AssertUnwindSafe};

use rio::{Region, WriteBack};

use super::record_types;

/// Calls `reads` on memory that is given up. Returns `None` after a panic.
pub(crate) fn read<T>(reads: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(reads)).ok()
}

/// Returns whether the data of all managers, and not only of the log, are up to date and readable. If cache lines must
/// be written back to the memory, data outside of the log are not up to date, because only the log's lines are written
/// back. If another build has written the data, they have another layout and are not readable.
pub(crate) fn is_current(region: &Region) -> bool {
    let is_this_build = region.header().layout.get() == record_types::layout_hash();
    let is_known = !libtp_log::is_lasting_hit(region);
    is_this_build && is_known && libtp_log::lasting_of(region).write_back == WriteBack::None
}

//! Reading a page without its latch (docs/design/0022).
//!
//! The order of looks: the version; then the page's name; then bytes of the page; then the version again. The bytes are
//! believed only if both versions are the same: resident, with an even count. A reader stores nothing but the mark of
//! the replacement policy, so its death leaves nothing to repair.

use std::sync::atomic::{fence, Ordering};

use rio::{planted, Racing};

use crate::content::Body;
use crate::frame::FrameSlot;
use crate::version::Version;
use crate::{BufferManager, PageId};

/// A page that is read without its latch. Nothing that was read may be believed before [`Glance::is_unchanged`] has
/// returned true.
pub struct Glance<'p> {
    slot: &'p FrameSlot,
    seen: Version,
    bytes: Racing<'p>,
}

impl BufferManager {
    /// Returns the page, to be read without its latch. Returns `None` if a lookup without a latch does not find the
    /// page, if a session is changing the page or has died during a change, or if the processor does not keep the order
    /// of loads.
    #[inline(always)]
    pub fn glance(&self, id: PageId) -> Option<Glance<'_>> {
        let slot = self.look_up(id, false)?;
        // Acquire: the loads of the name and of the bytes come after this load.
        let seen = slot.version.load();
        let is_readable = seen.is_readable() || planted("buffer: a page that changes counts as readable");
        if !is_readable || slot.page.get() != id {
            return None;
        }
        let body = Body::taken(slot);
        Some(Glance { slot, seen, bytes: self.region.racing(body.data, body.page_bytes)? })
    }
}

impl<'p> Glance<'p> {
    /// Returns the page's bytes.
    #[inline(always)]
    pub fn bytes(&self) -> Racing<'p> {
        self.bytes
    }

    /// Returns whether no session has changed the page since the glance began. Then all the bytes that were read belong
    /// together.
    #[inline(always)]
    pub fn is_unchanged(&self) -> bool {
        // The load of the version comes after the loads of the bytes.
        fence(Ordering::Acquire);
        self.slot.version.load() == self.seen || planted("buffer: a glance reads the count only once")
    }
}

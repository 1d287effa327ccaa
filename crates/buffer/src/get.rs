//! Getting a page: from the table if the page is in memory, otherwise from the disk (`load`).
//!
//! Paper: LIBTP 3.2.2. The hot path computes the hash, finds the bucket and the slot, latches the slot, and checks its
//! page. It takes only the latch of the page, changes no counter and takes no pin
//! (docs/design/0001-pages-latched-not-pinned.md).
//!
//! Invariants
//! 1. A page that is returned was read whole, passed its checks, and is latched or pinned.
//! 2. No session *waits* for the latch of a frame that it has not pinned. Between the lookup and the wait, the frame
//!    could become a page of any rank, and the wait could be part of a deadlock. So a session waits for a busy latch
//!    through a pin, which it takes under the bucket's latch.
//!
//! If a session dies here: see `frame`.

use libtp_process::{Rank, Session};
use rio::planted;

use crate::content::Body;
use crate::frame::{FrameSlot, ANY_PAGE, HOT};
use crate::load::Source;
use crate::{BufferManager, ExclusivePage, PageId, Pin, Result, SharedPage};

/// The number of attempts to get a busy latch before the session waits for it through a pin.
const SPINS: u32 = 20;
impl BufferManager {
    /// Returns the page, latched shared.
    ///
    /// # Errors
    /// `Corrupt` if the bytes on the disk are not the page, `UnknownFile`, `Io`; `Full`, `Failed` and `Log` if there is
    /// no frame for the page.
    #[inline]
    pub fn shared<'s>(&'s self, session: &'s Session, id: PageId, rank: Rank) -> Result<SharedPage<'s>> {
        match self.shared_now(session, id, rank, true) {
            Some(page) => Ok(page),
            None => self.shared_slowly(session, id, rank),
        }
    }

    /// Returns the page, latched shared, if a lookup without a latch finds it and its latch is free. Otherwise returns
    /// `None`: [`BufferManager::shared`] gets such a page. If `is_far`, prefetches the page, because its bytes are
    /// probably not in the processor's cache. The bytes of a tree's inner pages probably are in the cache.
    // Always inlined, like `exclusive_now`, and without a `Result`: the page then stays in registers.
    #[inline(always)]
    pub fn shared_now<'s>(
        &'s self,
        session: &'s Session,
        id: PageId,
        rank: Rank,
        is_far: bool,
    ) -> Option<SharedPage<'s>> {
        let slot = self.look_up(id, is_far)?;
        let body = Body::taken(slot);
        let guard = slot.latch.try_shared(session, rank)?;
        if holds(slot, id) {
            return Some(SharedPage::new(&self.region, body, guard, id));
        }
        let_go(guard);
        None
    }

    /// Returns the page, latched exclusively, under the conditions of [`BufferManager::shared_now`].
    #[inline(always)]
    pub fn exclusive_now<'s>(&'s self, session: &'s Session, id: PageId, rank: Rank) -> Option<ExclusivePage<'s>> {
        self.exclusive_in(session, self.look_up(id, true)?, id, rank)
    }

    /// Works like [`BufferManager::exclusive_now`] for a page whose latch the session has just released: the page is
    /// not prefetched, and its use is noted already.
    #[inline(always)]
    pub fn exclusive_again<'s>(&'s self, session: &'s Session, id: PageId, rank: Rank) -> Option<ExclusivePage<'s>> {
        self.exclusive_in(session, self.table.find(id, false)?, id, rank)
    }

    /// Returns the page, latched exclusively, if its latch is free and the slot still has the page.
    #[inline(always)]
    fn exclusive_in<'s>(
        &'s self,
        session: &'s Session,
        slot: &'s FrameSlot,
        id: PageId,
        rank: Rank,
    ) -> Option<ExclusivePage<'s>> {
        let body = Body::taken(slot);
        let guard = slot.latch.try_exclusive(session, rank)?;
        if holds(slot, id) {
            return Some(ExclusivePage::new(&self.region, slot, body, guard, id));
        }
        let_go(guard);
        None
    }

    /// Returns the page, latched exclusively.
    ///
    /// # Errors
    /// As [`BufferManager::shared`].
    #[inline]
    pub fn exclusive<'s>(&'s self, session: &'s Session, id: PageId, rank: Rank) -> Result<ExclusivePage<'s>> {
        match self.exclusive_now(session, id, rank) {
            Some(page) => Ok(page),
            None => self.exclusive_slowly(session, id, rank),
        }
    }

    /// Returns the page, pinned in memory and not latched.
    ///
    /// # Errors
    /// As [`BufferManager::shared`].
    #[inline]
    pub fn pin<'s>(&'s self, session: &'s Session, id: PageId) -> Result<Pin<'s>> {
        if let Some(slot) = self.look_up(id, true) {
            if let Some(guard) = slot.latch.try_shared(session, ANY_PAGE) {
                if holds(slot, id) {
                    let note = slot.pin(session);
                    drop(guard);
                    return Ok(Pin::adopt(&self.region, session, slot, id, note));
                }
                let_go(guard);
            }
        }
        self.pin_from(session, id, Source::Disk)
    }

    /// Returns a pinned frame for a new page, which the caller will fill. If the page is neither in memory nor on the
    /// disk, its bytes are zeros.
    ///
    /// # Errors
    /// As [`BufferManager::shared`], but never `Corrupt`.
    pub fn pin_new<'s>(&'s self, session: &'s Session, id: PageId) -> Result<Pin<'s>> {
        self.pin_from(session, id, Source::Zeros)
    }

    /// Prefetches the frame, the headers and the first slots of a page that will be read soon. Reads no memory, takes
    /// no latch and never waits. Does nothing for a page that this process has not found yet.
    #[inline]
    pub fn bring_near(&self, id: PageId) {
        self.table.bring_near(id);
    }

    /// Returns whether the page is in memory now.
    pub fn is_resident(&self, id: PageId) -> bool {
        self.table.find(id, false).is_some()
    }

    #[cold]
    #[inline(never)]
    fn shared_slowly<'s>(&'s self, session: &'s Session, id: PageId, rank: Rank) -> Result<SharedPage<'s>> {
        for _ in 0..SPINS {
            let Some(slot) = self.look_up(id, true) else { break };
            let body = Body::taken(slot);
            if let Some(guard) = slot.latch.try_shared(session, rank) {
                if holds(slot, id) {
                    return Ok(SharedPage::new(&self.region, body, guard, id));
                }
            }
            std::hint::spin_loop();
        }
        Ok(self.pin_from(session, id, Source::Disk)?.shared(rank))
    }

    #[cold]
    #[inline(never)]
    fn exclusive_slowly<'s>(&'s self, session: &'s Session, id: PageId, rank: Rank) -> Result<ExclusivePage<'s>> {
        for _ in 0..SPINS {
            let Some(slot) = self.look_up(id, true) else { break };
            let body = Body::taken(slot);
            if let Some(guard) = slot.latch.try_exclusive(session, rank) {
                if holds(slot, id) {
                    return Ok(ExclusivePage::new(&self.region, slot, body, guard, id));
                }
            }
            std::hint::spin_loop();
        }
        Ok(self.pin_from(session, id, Source::Disk)?.exclusive(rank))
    }

    /// Returns the frame that seems to hold the page, and marks it as used.
    #[inline(always)]
    pub(crate) fn look_up(&self, id: PageId, is_far: bool) -> Option<&FrameSlot> {
        let slot = self.table.find(id, is_far)?;
        self.note_use(slot);
        Some(slot)
    }

    #[inline]
    pub(crate) fn note_use(&self, slot: &FrameSlot) {
        if slot.used.get() != HOT {
            self.note_first_use(slot);
        }
    }

    #[cold]
    fn note_first_use(&self, slot: &FrameSlot) {
        let part = self.pools.shelf_of(slot);
        part.policy().used(part, slot);
    }
}

/// Returns whether a latched frame holds the page. The page's id alone does not prove this: if a session died while it
/// read the page, its latch is released before the frame is removed from the table.
#[inline(always)]
fn holds(slot: &FrameSlot, id: PageId) -> bool {
    slot.page.get() == id && (slot.version.get().is_resident() || planted("buffer: a loading page counts as resident"))
}

/// Releases the latch of a frame that holds another page now. A separate function, to keep it out of the hot path.
#[cold]
#[inline(never)]
fn let_go<G>(guard: G) {
    drop(guard);
}

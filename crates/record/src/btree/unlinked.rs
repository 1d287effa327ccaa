//! Frees unlinked pages when no session can be on the way to them (PROTOCOLS T2).

use libtp_log::Lsn;
use rio::failpoint;
use zerocopy::IntoBytes;

use crate::btree::log_records::{FreeUnlinked, FREE_UNLINKED};
use crate::database::Unlinked;
use crate::locking::Access;
use crate::page::free_pages::META_PAGE;
use crate::page::node::Node;
use crate::pages::{loose_rank, rank};
use crate::Result;

/// Notes that page `gone` can be freed when no session can be on the way to it.
pub(crate) fn remember(access: &Access<'_>, left: u32, gone: u32, lsn: Lsn) {
    let epoch = access.pages.change.managers.processes.next_tree_epoch();
    let mut unlinked = access.database.unlinked();
    if !unlinked.iter().any(|known| (known.gone, known.lsn) == (gone, lsn)) {
        unlinked.push(Unlinked { left, gone, lsn, epoch, is_fenced: false });
    }
}

/// Frees the unlinked pages that no session can reach any more. Another process may have unlinked a page, perhaps
/// before a crash. Such a page is named by its left neighbour, `seen`, and its waiting time begins now.
pub(crate) fn free_unlinked(access: &Access<'_>, seen: Option<u32>) -> Result<()> {
    if let Some(left) = seen {
        let gone = {
            let page = access.pages.shared(left, 0)?;
            Node::over(&page).map_or(0, |node| node.header().unlinked.get())
        };
        if gone != 0 {
            let lsn = access.pages.shared(gone, 0)?.lsn();
            remember(access, left, gone, lsn);
        }
    }
    loop {
        let known = fenced(access);
        let processes = &access.pages.change.managers.processes;
        let is_ready = |page: &Unlinked| page.is_fenced && processes.tree_epoch_passed(page.epoch);
        let Some(ready) = known.into_iter().find(is_ready) else {
            return Ok(());
        };
        if take(access, ready) {
            free_one(access, ready)?;
        }
    }
}

/// Returns the unlinked pages. If a page was unlinked after the last barrier, first runs a barrier on all processors: a
/// session that has read an inner page without its latch may have a note of its visit that no other processor sees yet.
fn fenced(access: &Access<'_>) -> Vec<Unlinked> {
    // A copy: this thread holds no mutex while it works on shared memory.
    let known = access.database.unlinked().clone();
    if known.iter().all(|page| page.is_fenced) {
        return known;
    }
    access.pages.change.managers.processes.barrier_of_visits();
    failpoint("unlink: barrier passed, not noted");
    let mut unlinked = access.database.unlinked();
    unlinked.iter_mut().filter(|page| known.contains(page)).for_each(|page| page.is_fenced = true);
    unlinked.clone()
}

/// Removes a page from the list of unlinked pages. Returns false if another thread has removed it.
fn take(access: &Access<'_>, ready: Unlinked) -> bool {
    let mut unlinked = access.database.unlinked();
    let at = unlinked.iter().position(|known| *known == ready);
    at.map(|at| unlinked.swap_remove(at)).is_some()
}

fn free_one(access: &Access<'_>, unlinked: Unlinked) -> Result<()> {
    let pages = &access.pages;
    pages.check_apart(&[unlinked.left, unlinked.gone])?;
    pages.reserve_common(access.database.page_bytes(), 64)?;
    let (left_pin, gone_pin, meta_pin) = (pages.pin(unlinked.left)?, pages.pin(unlinked.gone)?, pages.pin(META_PAGE)?);
    let level = {
        let page = left_pin.shared(rank(0));
        Node::over(&page).map_or(0, |node| node.level())
    };
    let mut left = left_pin.exclusive(rank(level));
    // Another process may have freed the page meanwhile.
    if Node::over(&left).is_none_or(|node| node.header().unlinked.get() != unlinked.gone) {
        return Ok(());
    }
    let mut gone = gone_pin.exclusive(loose_rank());
    // The page was freed, used and unlinked again: other sessions may be on the way to it.
    if gone.lsn() != unlinked.lsn {
        return Ok(());
    }
    let mut meta = meta_pin.exclusive(libtp_process::Rank::META);
    let record = FreeUnlinked {
        page: pages.id(unlinked.left).raw().into(),
        gone: unlinked.gone.into(),
        next: pages.meta_of(&meta)?.free_head,
    };
    failpoint("unlink: about to free a page");
    pages.apply_checked(FREE_UNLINKED, record.as_bytes(), &mut [&mut left, &mut gone, &mut meta])?;
    failpoint("unlink: page freed");
    Ok(())
}

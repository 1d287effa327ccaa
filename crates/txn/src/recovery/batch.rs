//! A batch: the page changes of a part of the log, sorted by page before they are repeated.
//!
//! The changes of one page in that part are repeated together: the page is found, latched and brought into the
//! processor's cache once. Pages are read from the disk in the order of their numbers, neighbours in one read.
//!
//! Invariant: the changes of one page keep the order of the log. Redo needs no other order: it changes one page at a
//! time, and the effect of a record on one of its pages does not depend on its other pages.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use libtp_buffer::{PageId, PageNo};
use libtp_log::Lsn;
use libtp_process::Session;

use super::redo::{redo_on_page, PageChange};
use crate::{Managers, Result};

/// For each change that a batch may hold, the batch has room for this number of bytes of bodies.
const BODY_BYTES: usize = 64;
/// The longest run of neighbouring pages that are read together.
const AHEAD: usize = 32;
/// The fewest neighbours that are read in one call; fewer are read straight into their frames.
const RUN_MIN: u32 = 4;
/// Changes waiting to be repeated.
#[derive(Default)]
pub(super) struct Batch {
    /// The changes in the order of the log.
    logged: Changes,
    /// The changes in the order of their pages, while they are repeated.
    placed: Changes,
    /// The shares: each has the changes of one page.
    shares: Vec<Share>,
    /// The number of each page's share.
    share_of: HashMap<PageId, u32, BuildHasherDefault<PageHasher>>,
    /// The number of changes at which the batch is full.
    limit: usize,
}

/// Changes, and the bodies of their records, one after the other.
#[derive(Default)]
struct Changes {
    changes: Vec<Waiting>,
    bodies: Vec<u8>,
}

/// One change.
#[derive(Clone, Copy, Default)]
struct Waiting {
    page: PageId,
    lsn: Lsn,
    body_at: u32,
    body_bytes: u32,
    share: u32,
    kind: u16,
    role: u8,
}

/// The changes of one page.
#[derive(Clone, Copy)]
struct Share {
    page: PageId,
    changes: u32,
    body_bytes: u32,
    /// While changes are placed: the places of the page's next change and of its next body. Afterwards: the ends of
    /// the page's last change and of its last body.
    change_at: u32,
    body_at: u32,
}

impl Batch {
    /// Makes an empty batch for `limit` changes.
    pub(super) fn new(limit: usize) -> Batch {
        Batch { limit, ..Batch::default() }
    }

    /// Returns whether the batch should be repeated before more is added.
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.logged.changes.len() >= self.limit || self.logged.bodies.len() >= self.limit * BODY_BYTES
    }

    /// Adds a record's change of one page.
    #[inline]
    pub(super) fn push(&mut self, page: PageId, change: &PageChange<'_>) {
        self.logged.changes.push(Waiting {
            page,
            lsn: change.lsn,
            body_at: number(self.logged.bodies.len()),
            body_bytes: number(change.body.len()),
            share: 0,
            kind: change.record_type.code,
            role: u8::try_from(change.role).expect("a record names at most four pages"),
        });
        self.logged.bodies.extend_from_slice(change.body);
    }

    /// Repeats all changes and empties the batch. Returns how many changes were not on their page already.
    pub(super) fn repeat(&mut self, managers: &Managers, session: &Session) -> Result<u64> {
        self.count();
        self.place();
        let mut redone = 0;
        let mut fetched = 0;
        for (at, share) in self.shares.iter().enumerate() {
            if at >= fetched {
                fetched = at + fetch_neighbours(managers, session, &self.shares[at..]);
            }
            redone += redo_on_page(managers, session, share.page, self.placed.of(share, managers))?;
        }
        self.shares.clear();
        self.logged.changes.clear();
        self.logged.bodies.clear();
        Ok(redone)
    }

    /// Counts the changes of each page, and puts the pages in their order.
    fn count(&mut self) {
        self.share_of.clear();
        for change in &mut self.logged.changes {
            let fresh = number(self.shares.len());
            change.share = *self.share_of.entry(change.page).or_insert(fresh);
            if change.share == fresh {
                let page = change.page;
                self.shares.push(Share { page, changes: 0, body_bytes: 0, change_at: 0, body_at: 0 });
            }
            let share = &mut self.shares[change.share as usize];
            share.changes += 1;
            share.body_bytes += change.body_bytes;
        }
        let mut order: Vec<u32> = (0..number(self.shares.len())).collect();
        order.sort_unstable_by_key(|&share| self.shares[share as usize].page);
        let (mut change_at, mut body_at) = (0, 0);
        for share in order {
            let share = &mut self.shares[share as usize];
            (share.change_at, share.body_at) = (change_at, body_at);
            change_at += share.changes;
            body_at += share.body_bytes;
        }
    }

    /// Copies each change next to the other changes of its page. Reading changes that are next to each other is fast;
    /// reading them in the order of the log would be slow.
    fn place(&mut self) {
        self.placed.changes.resize(self.logged.changes.len(), Waiting::default());
        self.placed.bodies.resize(self.logged.bodies.len(), 0);
        for change in &self.logged.changes {
            let share = &mut self.shares[change.share as usize];
            let body = self.logged.body(change);
            self.placed.changes[share.change_at as usize] = Waiting { body_at: share.body_at, ..*change };
            self.placed.bodies[share.body_at as usize..][..body.len()].copy_from_slice(body);
            share.change_at += 1;
            share.body_at += change.body_bytes;
        }
        self.shares.sort_unstable_by_key(|share| share.page);
    }
}

impl Changes {
    fn body(&self, change: &Waiting) -> &[u8] {
        &self.bodies[change.body_at as usize..][..change.body_bytes as usize]
    }

    /// Returns the changes of a page, after all changes of the batch were placed.
    fn of<'b>(&'b self, share: &Share, managers: &'b Managers) -> impl Iterator<Item = PageChange<'b>> {
        let end = share.change_at as usize;
        self.changes[end - share.changes as usize..end].iter().map(|change| {
            let record_type = managers.types.get(change.kind).expect("the record's pages were found by this type");
            PageChange { record_type, role: usize::from(change.role), lsn: change.lsn, body: self.body(change) }
        })
    }
}

fn number(value: usize) -> u32 {
    u32::try_from(value).expect("a batch holds far less than 4 GiB")
}

/// Reads the first of these pages and its neighbours on the disk in one call, if there are at least [`RUN_MIN`] of
/// them. Returns the number of pages in the run, whether they were read or not.
fn fetch_neighbours(managers: &Managers, session: &Session, shares: &[Share]) -> usize {
    let first = shares[0].page;
    let is_neighbour = |&(number, share): &(u32, &Share)| {
        share.page.file() == first.file() && share.page.page().raw() == first.page().raw().wrapping_add(number)
    };
    let count = (0_u32..).zip(shares).take(AHEAD).take_while(is_neighbour).count();
    let run = u32::try_from(count).expect("the look-ahead is a small number");
    if run >= RUN_MIN {
        let fetched = managers.buffers.prefetch(session, first.file(), PageNo::new(first.page().raw()), run);
        // An error is ignored: the caller that asks for the pages one by one gets the same error, with the page.
        drop(fetched);
    }
    count
}

/// Spreads pages over the table of a batch. An attacker could choose pages with equal hashes only by writing the log,
/// so the hash need not be secret.
#[derive(Default)]
struct PageHasher(u64);

impl Hasher for PageHasher {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(u64::from(byte)));
    }

    #[inline]
    fn write_u64(&mut self, word: u64) {
        // 2^64 over the golden ratio; the high half, which depends on all bits, is folded into the low.
        let spread = (self.0.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = spread ^ (spread >> 32);
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }
}

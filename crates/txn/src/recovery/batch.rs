//! A batch: the page changes of a stretch of history, put in the order of pages before they are repeated.
//!
//! What one page went through in that stretch is repeated at one go: the page is found, latched and brought into the
//! processor's cache once, and pages come from the disk in the order in which they lie there, neighbours in one read.
//!
//! Invariant: the changes of one page keep the order of the log. That is all redo asks for: it looks at one page at a
//! time, and what a record does to one of its pages does not depend on the others.

use std::collections::hash_map::{Entry, HashMap};
use std::hash::{BuildHasherDefault, Hasher};

use libtp_buffer::{PageId, PageNo};
use libtp_log::Lsn;
use libtp_process::Session;

use super::redo::{redo_on_page, PageChange};
use crate::{Managers, Result};

/// Bytes of bodies a batch has room for, for each change it may hold.
const BODY_BYTES: usize = 64;
/// Pages looked ahead for neighbours that can be read with this one.
const AHEAD: usize = 32;
/// So many neighbours, at least, are read in one call; fewer are read straight into their frames.
const RUN_MIN: u32 = 4;
/// There is no next change of the page.
const LAST: u32 = u32::MAX;

/// Changes waiting to be repeated.
#[derive(Default)]
pub(super) struct Batch {
    /// In the order of the log.
    changes: Vec<Waiting>,
    /// The bodies of their records, one behind the other.
    bodies: Vec<u8>,
    /// The first and the last change of each page, while they are repeated.
    chains: HashMap<PageId, (u32, u32), BuildHasherDefault<PageHasher>>,
    /// How many changes it should hold.
    limit: usize,
}

/// One change.
struct Waiting {
    page: PageId,
    lsn: Lsn,
    body_at: u32,
    body_bytes: u32,
    /// The next change of the same page, or [`LAST`].
    next: u32,
    kind: u16,
    role: u8,
}

impl Batch {
    /// An empty batch for so many changes.
    pub(super) fn new(limit: usize) -> Batch {
        Batch { limit, ..Batch::default() }
    }

    /// Whether it should be repeated before more is added.
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.changes.len() >= self.limit || self.bodies.len() >= self.limit * BODY_BYTES
    }

    /// Adds what the next record does to a page.
    #[inline]
    pub(super) fn push(&mut self, page: PageId, change: &PageChange<'_>) {
        let number = |value: usize| u32::try_from(value).expect("a batch holds far less than 4 GiB");
        self.changes.push(Waiting {
            page,
            lsn: change.lsn,
            body_at: number(self.bodies.len()),
            body_bytes: number(change.body.len()),
            next: LAST,
            kind: change.record_type.code,
            role: u8::try_from(change.role).expect("a record names at most four pages"),
        });
        self.bodies.extend_from_slice(change.body);
    }

    /// Repeats everything in it and empties it; returns how many changes were not on their page already.
    pub(super) fn repeat(&mut self, managers: &Managers, session: &Session) -> Result<u64> {
        let pages = self.link();
        let mut redone = 0;
        let mut fetched = 0;
        for (at, &(page, first)) in pages.iter().enumerate() {
            if at >= fetched {
                fetched = at + fetch_neighbours(managers, session, &pages[at..]);
            }
            redone += redo_on_page(managers, session, page, self.chain(managers, first))?;
        }
        self.changes.clear();
        self.bodies.clear();
        Ok(redone)
    }

    /// Links the changes of each page; returns the pages in their order, each with its first change.
    fn link(&mut self) -> Vec<(PageId, u32)> {
        for at in 0..self.changes.len() {
            let number = u32::try_from(at).expect("a batch holds far fewer changes");
            match self.chains.entry(self.changes[at].page) {
                Entry::Vacant(none) => drop(none.insert((number, number))),
                Entry::Occupied(mut chain) => {
                    let (_, last) = chain.get_mut();
                    self.changes[*last as usize].next = number;
                    *last = number;
                }
            }
        }
        let mut pages: Vec<(PageId, u32)> = self.chains.drain().map(|(page, (first, _))| (page, first)).collect();
        pages.sort_unstable();
        pages
    }

    /// The changes of a page, from the one at `first` on.
    fn chain<'b>(&'b self, managers: &'b Managers, first: u32) -> impl Iterator<Item = PageChange<'b>> {
        let mut next = first;
        std::iter::from_fn(move || {
            let change = self.changes.get(next as usize)?;
            next = change.next;
            let record_type = managers.types.get(change.kind).expect("its pages were asked of this type");
            let at = change.body_at as usize;
            let body = &self.bodies[at..at + change.body_bytes as usize];
            Some(PageChange { record_type, role: usize::from(change.role), lsn: change.lsn, body })
        })
    }
}

/// Reads the first of these pages and those behind it that are its neighbours on the disk, if they are enough for one
/// call. Returns how many were looked at.
fn fetch_neighbours(managers: &Managers, session: &Session, pages: &[(PageId, u32)]) -> usize {
    let first = pages[0].0;
    let is_neighbour = |&(number, &(page, _)): &(u32, &(PageId, u32))| {
        page.file() == first.file() && page.page().raw() == first.page().raw().wrapping_add(number)
    };
    let count = (0_u32..).zip(pages).take(AHEAD).take_while(is_neighbour).count();
    let run = u32::try_from(count).expect("so far is not looked ahead");
    if run >= RUN_MIN {
        let fetched = managers.buffers.prefetch(session, first.file(), PageNo::new(first.page().raw()), run);
        // Whoever asks for the pages one by one meets the same error, and knows which page it is.
        drop(fetched);
    }
    count
}

/// Spreads pages over the table of a batch. Not meant to withstand anyone: who chooses pages has the log.
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

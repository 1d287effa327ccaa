//! Loading: fills an empty tree with records in key order, page after page, from the leaves up.
//!
//! Not in the paper. A page is written when the next cell does not fit: one log record holds its contents, its
//! allocation, and its link from the left neighbour (`LOAD`). The record belongs to the load's transaction, and the
//! undo of the record frees the page. No session reaches the page before the last record of the load gives the root its
//! children (`LOAD_ROOT`). That record makes the whole load permanent: it is a compensation, and undo skips the load
//! (ARIES calls this a nested top action). From then on no part of the load is undone, because readers without locks
//! may be on the way to the loaded pages. docs/design/0014-bulk-load.md explains why.
//!
//! The loading transaction locks the whole database in `X` before the first page is written, until the transaction
//! ends.
//!
//! If we die here: before `LOAD_ROOT` the tree is as empty as before, and undo frees the pages; after it, the tree has
//! all records.

use libtp_lock::Mode;
use libtp_log::Lsn;
use rio::failpoint;
use zerocopy::IntoBytes;

use crate::btree::descent::{node_of, ROOT};
use crate::btree::filling::{Filling, Loading};
use crate::btree::ghosts;
use crate::btree::log_records::{Load, LoadRoot, LOAD, LOAD_ROOT};
use crate::btree::long_value;
use crate::locking::Access;
use crate::log_body::short;
use crate::page::free_pages::META_PAGE;
use crate::page::record_lsn::RecordFlags;
use crate::page::slotted::common_prefix;
use crate::pages::undo::FREE_BODY_BYTES;
use crate::pages::{rank, ROUNDS_MAX};
use crate::{Error, Result};

/// Permitted fill of a page, in percent.
pub const FILL_PERCENT: std::ops::RangeInclusive<u8> = 10..=100;

/// One level of the tree that is being made.
struct Level {
    filling: Filling,
    /// The number of the last page that was written.
    left: u32,
    /// The last added cell, which is on no page yet.
    waiting: Option<Loading>,
}

/// A load in progress, in a transaction of its own.
pub struct Loader<'a> {
    access: Access<'a>,
    fill_percent: u8,
    /// The levels, from the leaves up.
    levels: Vec<Level>,
    /// The transaction's last LSN before the load.
    mark: Lsn,
    /// The highest LSN of a ghost that was removed from the root while it was the only leaf.
    deleter: Lsn,
    records: u64,
}

impl<'a> Access<'a> {
    /// Begins to load records into an empty database, and locks it. Fills leaves up to `fill_percent` of their room (10
    /// to 100).
    ///
    /// # Errors
    /// [`Error::NotEmpty`], `Unsuitable` for an impossible fill, and errors of locks and pages. Nothing was changed
    /// then.
    pub fn begin_load(&self, fill_percent: u8) -> Result<Loader<'a>> {
        self.check_btree()?;
        if !FILL_PERCENT.contains(&fill_percent) {
            let what = format!("pages are filled to between 10 and 100 percent, and {fill_percent} was given");
            return Err(Error::Unsuitable { name: self.database.name().into(), what });
        }
        self.lock_database(Mode::X)?;
        let deleter = match self.empty_root()? {
            Some(deleter) => deleter,
            // Ghosts may be removable now.
            None => {
                {
                    let _visit = self.pages.visit();
                    ghosts::clean(self, ROOT, None)?;
                }
                let not_empty = || Error::NotEmpty { database: self.database.name().into() };
                self.empty_root()?.ok_or_else(not_empty)?
            }
        };
        let mark = self.pages.change.txn.last_lsn();
        Ok(Loader { access: *self, fill_percent, levels: Vec::new(), mark, deleter, records: 0 })
    }

    /// If the tree is one empty leaf, returns the highest LSN of a ghost that was removed from the leaf.
    fn empty_root(&self) -> Result<Option<Lsn>> {
        let root = self.pages.shared(ROOT, 0)?;
        let node = node_of(&self.pages, ROOT, &root)?;
        Ok((node.is_leaf() && node.count() == 0).then(|| node.deleter_lsn()))
    }
}

/// Returns the shortest key that is above `left` and not above `right`.
fn separator(left: &[u8], right: &[u8]) -> Vec<u8> {
    right[..(common_prefix(left, right) + 1).min(right.len())].to_vec()
}

impl Loader<'_> {
    /// Adds a record, whose key must not be below the previous record's key. If both keys are equal, the last value
    /// replaces the earlier value.
    ///
    /// # Errors
    /// [`Error::OutOfOrder`], `KeyTooLong`, `ValueTooLong`, and errors of log and pages. The transaction must be
    /// aborted then.
    pub fn push(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.access.check_key(key)?;
        if let Some(waiting) = self.levels.first_mut().and_then(|leaves| leaves.waiting.as_mut()) {
            match waiting.key.as_slice().cmp(key) {
                std::cmp::Ordering::Less => {}
                std::cmp::Ordering::Equal => {
                    waiting.payload.clear();
                    waiting.payload.extend_from_slice(value);
                    return Ok(());
                }
                std::cmp::Ordering::Greater => {
                    let database = self.access.database.name().to_string();
                    return Err(Error::OutOfOrder { database, before: self.records });
                }
            }
        }
        self.records += 1;
        self.come(0, Loading { key: key.to_vec(), payload: value.to_vec(), flags: RecordFlags::NONE })
    }

    /// Returns the number of added records. Equal keys are one record.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// Adds a cell to a level, and puts the level's previous cell on a page.
    fn come(&mut self, at: usize, cell: Loading) -> Result<()> {
        if self.levels.len() == at {
            let level = u8::try_from(at).unwrap_or(u8::MAX);
            let filling = Filling::new(level, self.access.database.page_bytes(), self.fill_percent);
            self.levels.push(Level { filling, left: 0, waiting: None });
        }
        let key = cell.key.clone();
        match self.levels[at].waiting.replace(cell) {
            Some(before) => self.settle(at, before, Some(&key)),
            None => Ok(()),
        }
    }

    /// Puts a cell on the page that is being filled, or begins the next page with the cell. `next` is the key after the
    /// cell.
    fn settle(&mut self, at: usize, mut cell: Loading, next: Option<&[u8]>) -> Result<()> {
        if at == 0 && self.access.is_long(&cell.key, &cell.payload) {
            let chain = long_value::write(&self.access, &cell.payload, None)?;
            cell.payload.clear();
            cell.payload.extend_from_slice(chain.as_bytes());
            cell.flags = RecordFlags::OVERFLOW;
        }
        let between = |left: &[u8], right: &[u8]| if at == 0 { separator(left, right) } else { right.to_vec() };
        let high = next.map_or_else(Vec::new, |next| between(&cell.key, next));
        let filling = &self.levels[at].filling;
        if !filling.fits(&cell, &high) {
            let end = between(filling.last_key(), &cell.key);
            self.end_page(at, end)?;
        }
        self.levels[at].filling.add(&cell);
        Ok(())
    }

    /// Writes a level's current page, which ends at `high`, and adds the page to the level above.
    fn end_page(&mut self, at: usize, high: Vec<u8>) -> Result<()> {
        let number = self.write_page(at, &high)?;
        let level = &mut self.levels[at];
        level.left = number;
        let low = level.filling.begin_next(high);
        let payload = number.to_le_bytes().to_vec();
        self.come(at + 1, Loading { key: low, payload, flags: RecordFlags::NONE })
    }

    fn write_page(&self, at: usize, high: &[u8]) -> Result<u32> {
        let (pages, page_bytes) = (&self.access.pages, self.access.database.page_bytes());
        let Level { filling, left, .. } = &self.levels[at];
        let (record, rest) = filling.encode(high, self.deleter);
        for _ in 0..ROUNDS_MAX {
            pages.reserve_common(page_bytes, size_of::<Load>() + rest.len())?;
            pages.reserve_own(page_bytes, FREE_BODY_BYTES)?;
            let candidate = pages.candidate(false)?;
            let left_pin = (*left != 0).then(|| pages.pin(*left)).transpose()?;
            let mut left_page = left_pin.as_ref().map(|pin| pin.exclusive(rank(filling.level)));
            let Some(mut new) = pages.allocate(&candidate)? else {
                drop(left_page);
                candidate.wait();
                continue;
            };
            let record = Load {
                page: pages.id(new.number).raw().into(),
                left: (*left).into(),
                free_head: new.free_head.into(),
                page_count: new.page_count.into(),
                ..record
            };
            let mut body = pages.change.txn.scratch();
            body.writer().extend_from_slice(record.as_bytes());
            body.writer().extend_from_slice(&rest);
            failpoint("load: about to write a page");
            let change = &pages.change;
            match &mut left_page {
                None => change.apply_undone_by(LOAD, &mut body, &mut [&mut new.page, &mut new.meta], FREE_BODY_BYTES),
                Some(left) => {
                    change.apply_undone_by(LOAD, &mut body, &mut [&mut new.page, &mut new.meta, left], FREE_BODY_BYTES)
                }
            };
            failpoint("load: page written");
            return Ok(new.number);
        }
        Err(pages.corrupt(META_PAGE, "no page could be allocated for the load"))
    }

    /// Ends the load: from now on the tree has its records, even if the transaction aborts. The caller commits the
    /// transaction. Returns the number of records.
    ///
    /// # Errors
    /// Log or pages failed. The transaction must be aborted then.
    pub fn finish(mut self) -> Result<u64> {
        if self.levels.is_empty() {
            return Ok(0);
        }
        let mut at = 0;
        loop {
            if let Some(last) = self.levels[at].waiting.take() {
                self.settle(at, last, None)?;
            }
            if at > 0 && self.levels.len() == at + 1 {
                break;
            }
            self.end_page(at, Vec::new())?;
            at += 1;
        }
        self.write_root(&self.levels[at].filling)?;
        Ok(self.records)
    }

    fn write_root(&self, filling: &Filling) -> Result<()> {
        let pages = &self.access.pages;
        let page = pages.id(ROOT).raw().into();
        let record = LoadRoot { page, count: short(filling.count()), level: filling.level, ..LoadRoot::default() };
        let mut body = record.as_bytes().to_vec();
        filling.encode_cells(0, &mut body);
        pages.reserve_common(self.access.database.page_bytes(), body.len() + size_of::<u64>())?;
        let pin = pages.pin(ROOT)?;
        let mut root = pin.exclusive(rank(0));
        let node = node_of(pages, ROOT, &root)?;
        if !node.is_leaf() || node.count() != 0 {
            return Err(pages.corrupt(ROOT, "the page was changed while the whole database was locked"));
        }
        failpoint("load: about to give the root its children");
        pages.change.conclude(LOAD_ROOT, &body, &mut [&mut root], self.mark);
        failpoint("load: done, root latched");
        Ok(())
    }
}

//! The indices of a database: a list of files in its meta page.
//!
//! Paper: none; LIBTP leaves indices to the program (5.2, where an index is one more file that each transaction
//! changes). A writer must update the database's indices, so it must know the list. Reading the list for every record
//! would be too slow. The list changes only under the lock `X` on the whole database. A writer holds the database in
//! `IX` until its transaction ends. A session may keep this lock for its next transaction (`lock/kept.rs`), and loses
//! it when another session takes `X`. So a process reads the list only when a session takes the lock in the lock table.
//! While a session has the lock or has kept it, the process relies on its copy.
//!
//! Each file in the list has the LSN of the log record that listed it. A snapshot that does not see that log record
//! gets [`Listed::Later`], and its caller refuses the index instead of finding no records.
//!
//! Byte table: docs/formats/page.md.

use libtp_buffer::{FileId, PageMut};
use libtp_lock::Mode;
use libtp_log::{Lsn, RecordRef};
use libtp_process::Rank;
use libtp_txn::{Change, Damage, RecordType, Sight};
use rio::failpoint;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, IntoBytes};

use crate::locking::{Access, Purpose};
use crate::log_body::{self, body, file_number, first_page, read};
use crate::page::free_pages::META_PAGE;
use crate::page::PageKind;
use crate::page_header;
use crate::pages;
use crate::snapshot::SnapshotAccess;
use crate::{Error, Result};

/// A slot of the list of indices gets another file. Roles: the meta page. Undo: the slot gets the old file.
pub const INDEX_LIST: u16 = 83;

/// The largest number of indices of a database.
pub const INDICES_MAX: usize = 32;

/// Bytes 48 to 175 of the meta page: files, zero for none.
const AT: usize = 48;
const END: usize = AT + 4 * INDICES_MAX;
/// Bytes 176 to 431: the LSN since which each file is listed.
const SINCE_END: usize = END + 8 * INDICES_MAX;

body! {
    /// Body of [`INDEX_LIST`].
    IndexList, 24 {
        /// 00: the meta page.
        page: U64,
        /// 08: the slot in the list.
        place: U32,
        /// 12: the file in the slot before, zero for none.
        before: U32,
        /// 16: the file in the slot afterwards, zero for none.
        after: U32,
        /// 20: zero.
        unused: U32,
    }
}

body! {
    /// The bytes after [`IndexList`]. Log records of older builds do not have them.
    Since, 16 {
        /// 00: the LSN since which the file is listed; zero means the LSN of this log record.
        now: U64,
        /// 08: the LSN that the slot had before.
        before: U64,
    }
}

const BODY_BYTES: usize = size_of::<IndexList>() + size_of::<Since>();

/// Returns the list on a meta page.
fn list_of(page: &[u8]) -> Option<&[U32; INDICES_MAX]> {
    if page_header::kind(page) != PageKind::Meta as u8 {
        return None;
    }
    <[U32; INDICES_MAX]>::ref_from_bytes(page.get(AT..END)?).ok()
}

/// Returns the LSN since which each file is listed; zero if an older version did not store it.
fn since_of(page: &[u8]) -> Option<&[U64; INDICES_MAX]> {
    <[U64; INDICES_MAX]>::ref_from_bytes(page.get(END..SINCE_END)?).ok()
}

fn redo(page: &mut PageMut<'_, '_>, role: usize, lsn: Lsn, body: &[u8]) -> std::result::Result<(), Damage> {
    let (record, rest) = read::<IndexList>(body)?;
    let place = record.place.get() as usize;
    if role != 0 || place >= INDICES_MAX || list_of(page.bytes()).is_none() {
        return Err(Damage(format!("the list of indices has no slot {place}")));
    }
    let at = AT + 4 * place;
    page.range(at..at + 4).copy_from_slice(record.after.as_bytes());
    let at = END + 8 * place;
    let since = since_in(rest).now.get();
    let since = if since == 0 { lsn.raw() } else { since };
    page.range(at..at + 8).copy_from_slice(&since.to_le_bytes());
    Ok(())
}

fn since_in(rest: &[u8]) -> Since {
    read::<Since>(rest).map(|(since, _)| *since).unwrap_or_default()
}

/// Undoes a change of the list. No other session has changed the list since, because the database is locked.
fn undo(change: &Change<'_>, logged: &RecordRef<'_>) -> libtp_txn::Result<()> {
    pages::undo::undo(change, logged, read::<IndexList>, |pages, (record, rest)| {
        let back = IndexList { before: record.after, after: record.before, ..*record };
        // An index whose removal is undone was listed all the time, so it gets its old LSN, and snapshots find it.
        let since = Since { now: since_in(rest).before, before: 0.into() };
        let body = [back.as_bytes(), since.as_bytes()].concat();
        pages.reserve_undo(pages.page_bytes()?, BODY_BYTES)?;
        let mut page = change.managers.buffers.exclusive(change.session(), pages.id(META_PAGE), Rank::META)?;
        if list_of(&page).is_none() {
            return Err(pages.corrupt(META_PAGE, "it is not a meta page"));
        }
        failpoint("undo: list of indices latched");
        pages.compensate_checked(INDEX_LIST, &body, &mut [&mut page], logged.header.prev())?;
        Ok(())
    })
}

fn describe(body: &[u8]) -> String {
    let file = |file: U32| if file.get() == 0 { "none".into() } else { format!("file {file}") };
    log_body::describe(body, |record: &IndexList, _, _| {
        let database = file_number(record.page.get());
        format!("index {} of file {database} is {}, was {}", record.place, file(record.after), file(record.before))
    })
}

/// Returns the record type of the list.
pub(crate) fn record_types() -> Vec<RecordType> {
    vec![RecordType { code: INDEX_LIST, name: "index list", pages: first_page, redo, undo: Some(undo), describe }]
}

impl Access<'_> {
    /// Returns whether the database has indices, which each change of its records must update. Locks the database in
    /// `IX` for the transaction.
    ///
    /// # Errors
    /// As [`Access::put`].
    #[inline]
    pub fn has_indices(&self) -> Result<bool> {
        self.enter(Purpose::Write)?;
        Ok(self.database.has_indices())
    }

    /// Returns the files of the database's indices. Locks the database in `IX` for the transaction.
    ///
    /// # Errors
    /// As [`Access::put`].
    pub fn indices(&self) -> Result<Vec<FileId>> {
        self.enter(Purpose::Write)?;
        self.read_indices()
    }

    fn read_indices(&self) -> Result<Vec<FileId>> {
        let pages = &self.pages;
        let page = pages.change.managers.buffers.shared(pages.session(), pages.id(META_PAGE), Rank::META)?;
        let list = list_of(&page).ok_or_else(|| pages.corrupt(META_PAGE, "it is not a meta page"))?;
        Ok(list.iter().map(|file| file.get()).filter(|&file| file != 0).map(FileId::new).collect())
    }

    /// Returns whether a file is listed. For readers: locks the database in `IS` for the transaction.
    ///
    /// # Errors
    /// As [`Access::get`].
    pub fn is_index(&self, index: FileId) -> Result<bool> {
        self.enter(Purpose::Read)?;
        Ok(self.listed_since(index)?.is_some())
    }

    /// Returns the LSN of the log record that listed a file, if the file is listed.
    fn listed_since(&self, index: FileId) -> Result<Option<Lsn>> {
        let pages = &self.pages;
        let page = pages.change.managers.buffers.shared(pages.session(), pages.id(META_PAGE), Rank::META)?;
        let both = list_of(&page).zip(since_of(&page));
        let (list, since) = both.ok_or_else(|| pages.corrupt(META_PAGE, "it is not a meta page"))?;
        let place = list.iter().position(|file| file.get() == index.raw());
        Ok(place.map(|place| Lsn::new(since[place].get())))
    }

    /// Notes for this process whether the list has files. The database is locked at least in `IX`.
    pub(crate) fn learn_indices(&self) -> Result<()> {
        self.database.note_has_indices(!self.read_indices()?.is_empty());
        Ok(())
    }

    /// Lists a file, or removes it from the list. First locks the whole database: the call waits until no other
    /// transaction uses the database.
    ///
    /// # Errors
    /// As [`Access::put`]; [`Error::Unsuitable`] if the list is full.
    pub fn set_index(&self, index: FileId, is_one: bool) -> Result<()> {
        self.lock_database(Mode::X)?;
        let pages = &self.pages;
        pages.reserve_own(self.database.page_bytes(), BODY_BYTES)?;
        let mut page = pages.change.managers.buffers.exclusive(pages.session(), pages.id(META_PAGE), Rank::META)?;
        let both = list_of(&page).zip(since_of(&page));
        let (list, since) = both.ok_or_else(|| pages.corrupt(META_PAGE, "it is not a meta page"))?;
        let (before, after) = if is_one { (0, index.raw()) } else { (index.raw(), 0) };
        let is_there = list.iter().any(|file| file.get() == index.raw());
        if is_there == is_one {
            return Ok(());
        }
        let Some(place) = list.iter().position(|file| file.get() == before) else {
            let what = format!(
                "it has {INDICES_MAX} indices already, and a database has at most as many; drop an index first"
            );
            return Err(Error::Unsuitable { name: self.database.name().into(), what });
        };
        let record = IndexList {
            page: pages.id(META_PAGE).raw().into(),
            place: u32::try_from(place).unwrap_or(0).into(),
            before: before.into(),
            after: after.into(),
            unused: 0.into(),
        };
        let since = Since { now: 0.into(), before: since[place] };
        let mut scratch = pages.change.txn.scratch();
        scratch.writer().extend_from_slice(record.as_bytes());
        scratch.writer().extend_from_slice(since.as_bytes());
        failpoint("index: list latched");
        pages.change.apply(INDEX_LIST, &mut scratch, &mut [&mut page]);
        failpoint("index: on the list, not committed");
        Ok(())
    }
}

/// A snapshot's view of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listed {
    /// The file is listed, and was listed when the snapshot was taken.
    Then,
    /// The file was listed after the snapshot was taken.
    Later,
    /// The file is not listed.
    No,
}

impl SnapshotAccess<'_> {
    /// Returns whether a file is listed, and whether it was listed when the snapshot was taken.
    ///
    /// # Errors
    /// Pages or the log failed.
    pub fn is_index(&self, index: FileId) -> Result<Listed> {
        let Some(since) = self.access.listed_since(index)? else { return Ok(Listed::No) };
        let is_seen = match self.view().sight(since) {
            Sight::Seen => true,
            Sight::Hidden => false,
            // The transaction that listed the file may have been open when the snapshot was taken.
            Sight::Ask => self.view().sees(self.read_log(since, &mut Vec::new())?.header.txn()),
        };
        Ok(if is_seen { Listed::Then } else { Listed::Later })
    }
}

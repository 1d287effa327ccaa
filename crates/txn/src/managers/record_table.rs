//! The table of log-record types, through which recovery calls access methods that it does not know.
//!
//! Paper: LIBTP 3.2.6, "the Log Manager performs a table lookup on the record type to call the appropriate routines".
//! Departure: the table is in the transaction manager, since redo and undo work on pages, which the log does not know.

use libtp_buffer::{PageId, PageMut};
use libtp_log::{Lsn, RecordRef};
use libtp_process::Session;

use super::Managers;
use crate::application::Applications;
use crate::{Result, TxnSession};

/// The reason why a record does not fit a page: redo found bytes for which the record was not made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage(pub String);

/// The pages a record names, in the order of their roles; at most four.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PageList {
    pages: [Option<PageId>; 4],
}

impl PageList {
    /// No page: the record has nothing to redo.
    pub const NONE: PageList = PageList { pages: [None; 4] };

    /// Lists one page.
    pub fn one(page: PageId) -> PageList {
        PageList { pages: [Some(page), None, None, None] }
    }

    /// Lists several pages, role by role; a role may be empty.
    pub fn of(pages: [Option<PageId>; 4]) -> PageList {
        PageList { pages }
    }

    /// Returns each page with its role.
    pub fn iter(&self) -> impl Iterator<Item = (usize, PageId)> + '_ {
        self.pages.iter().enumerate().filter_map(|(role, page)| page.map(|page| (role, page)))
    }
}

/// The managers, and the session with its transaction. Access methods get this value in order to change and to undo.
#[derive(Clone, Copy)]
pub struct Change<'a> {
    /// The environment's managers.
    pub managers: &'a Managers,
    /// The session and its running transaction.
    pub txn: &'a TxnSession,
}

impl<'a> Change<'a> {
    /// Makes the handle for changes on behalf of the session's transaction.
    #[inline]
    pub fn new(managers: &'a Managers, txn: &'a TxnSession) -> Change<'a> {
        Change { managers, txn }
    }

    /// Returns the process manager's session.
    #[inline]
    pub fn session(&self) -> &'a Session {
        self.txn.session()
    }
}

/// Undoes one change logically: finds the record again, by key, and logs the compensation through `Change::compensate`
/// with the log record's previous LSN as the place where undo continues.
pub type UndoFn = fn(&Change<'_>, &RecordRef<'_>) -> Result<()>;

/// Repeats a change on the page of a role. Pure: no I/O, no latch, no LSN test; the driver does those.
pub type RedoFn = fn(page: &mut PageMut<'_, '_>, role: usize, lsn: Lsn, body: &[u8]) -> std::result::Result<(), Damage>;

/// Everything that recovery needs of a log-record type.
#[derive(Clone, Copy)]
pub struct RecordType {
    /// The code in the record's header. Never reused.
    pub code: u16,
    /// The type's name, for messages.
    pub name: &'static str,
    /// Returns the pages that a body names.
    pub pages: fn(body: &[u8]) -> PageList,
    /// Repeats the change on the page of that role.
    pub redo: RedoFn,
    /// Undoes the change; `None` for changes that are never undone (splits).
    pub undo: Option<UndoFn>,
    /// One line for `tp printlog`.
    pub describe: fn(body: &[u8]) -> String,
}

impl std::fmt::Debug for RecordType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}({})", self.name, self.code)
    }
}

/// All record types that a process knows, by code.
#[derive(Debug, Default)]
pub struct RecordTable {
    types: Vec<Option<RecordType>>,
    /// The application's types.
    pub applications: Applications,
}

impl RecordTable {
    /// Makes a table of these types.
    ///
    /// # Panics
    /// If two types have one code: a mistake in the program.
    pub fn new(types: impl IntoIterator<Item = RecordType>) -> RecordTable {
        let mut table = RecordTable::default();
        for record_type in types {
            let code = usize::from(record_type.code);
            if table.types.len() <= code {
                table.types.resize(code + 1, None);
            }
            assert!(table.types[code].is_none(), "two log-record types have the code {code}");
            table.types[code] = Some(record_type);
        }
        table
    }

    /// Returns the same table, with the application's types.
    #[must_use]
    pub fn with(mut self, applications: Applications) -> RecordTable {
        self.applications = applications;
        self
    }

    /// Returns the type with that code.
    #[inline]
    pub fn get(&self, code: u16) -> Option<&RecordType> {
        self.types.get(usize::from(code)).and_then(Option::as_ref)
    }

    /// Returns every type, in the order of codes.
    pub fn iter(&self) -> impl Iterator<Item = &RecordType> {
        self.types.iter().flatten()
    }
}

//! Reads in a snapshot. A snapshot takes no lock and waits for nothing but the disk.
//!
//! Not in the paper (PROTOCOLS S1 to S4). A record has the LSN of the log record that made its version. That
//! log record has the previous version and the LSN of the *previous* version: the log is the version store. A reader
//! copies the record from its page, asks the view about the LSN, and goes back in the log to the first version that the
//! view shows.
//!
//! The *absence* of a key is a result, too. A key that the page does not have, or whose first version the view does not
//! show, was absent when the snapshot was taken, unless a ghost of the key has been removed since. So each page has the
//! highest LSN of the removed ghosts and of the freed replaced chains. A snapshot whose horizon is not above that LSN
//! gets [`SnapshotTooOld`](crate::Error::SnapshotTooOld).
//!
//! | file | contents |
//! |---|---|
//! | `history` | rebuilds the previous version of a record from a log record |
//! | `batch` | the records that a cursor has copied |
//! | `cache` | versions that were found by a long search |
//! | `btree`, `recno`, `hash` | reads one record, and record after record |
//!
//! Latches: a reader holds the latch of one page at a time, and no latch while it reads the log.

mod batch;
mod btree;
mod cache;
mod hash;
mod history;
mod recno;

use std::cell::{Cell, RefCell};

use libtp_buffer::FileId;
use libtp_lock::Wait;
use libtp_log::{Lsn, RecordRef, RECORD_HEADER_BYTES};
use libtp_txn::{Managers, Sight, TxnSession, View};
use rio::planted;

use crate::database::Database;
use crate::locking::Access;
use crate::page::record_lsn::RecordFlags;
use crate::shortcuts::Name;
use crate::{Error, Result};

pub use btree::SnapshotCursor;
pub use hash::SnapshotHashCursor;
pub use recno::SnapshotNumberCursor;

use cache::Cache;
use history::Version;

/// A snapshot of one thread: the view, and a cache of versions.
#[derive(Debug)]
pub struct Snapshot {
    view: View,
    found: RefCell<Cache>,
    /// A buffer for log records.
    buffer: RefCell<Vec<u8>>,
    log_reads: Cell<u64>,
    shown: Cell<Certainty>,
}

/// Whether a crash could undo versions that a snapshot has shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Certainty {
    /// A crash of the machine cannot undo any shown version.
    Sure,
    /// A crash of the machine could undo a shown version.
    Unsure,
    /// Every change that the view shows is on disk.
    OnDisk,
}

impl Snapshot {
    /// Returns a snapshot that shows this view.
    pub fn new(view: View) -> Snapshot {
        let (found, buffer) = (RefCell::default(), RefCell::default());
        Snapshot { view, found, buffer, log_reads: Cell::new(0), shown: Cell::new(Certainty::Sure) }
    }

    /// Returns the view.
    pub fn view(&self) -> &View {
        &self.view
    }

    /// Returns whether the snapshot has shown a version that a crash of the machine could undo. Before the caller acts
    /// on such a version, every change that the view shows must be on disk (PROTOCOLS S1).
    #[inline]
    pub fn is_unsure(&self) -> bool {
        self.shown.get() == Certainty::Unsure
    }

    /// Notes that every change that the view shows is on disk.
    pub fn note_on_disk(&self) {
        self.shown.set(Certainty::OnDisk);
    }

    /// Notes that the snapshot shows this version, or shows no record because this version is a ghost.
    #[inline]
    fn note_shown(&self, version: Lsn) {
        if self.view.is_unsure(version) && self.shown.get() == Certainty::Sure {
            self.shown.set(Certainty::Unsure);
        }
    }

    /// Returns the number of log records read for the snapshot.
    pub fn log_reads(&self) -> u64 {
        self.log_reads.get()
    }
}

/// A database as a snapshot shows it.
#[derive(Clone, Copy)]
pub struct SnapshotAccess<'a> {
    pub(crate) access: Access<'a>,
    snapshot: &'a Snapshot,
}

impl<'a> SnapshotAccess<'a> {
    /// Returns access for the session's snapshot.
    pub fn new(
        managers: &'a Managers,
        txn: &'a TxnSession,
        database: &'a Database,
        snapshot: &'a Snapshot,
    ) -> SnapshotAccess<'a> {
        SnapshotAccess { access: Access::new(managers, txn, database, Wait::No), snapshot }
    }

    /// Returns the database.
    pub fn database(&self) -> &'a Database {
        self.access.database()
    }

    pub(crate) fn view(&self) -> &'a View {
        &self.snapshot.view
    }

    #[inline]
    fn sees(&self, version: Lsn) -> bool {
        self.view().shows_plainly(version) || self.sees_slowly(version)
    }

    fn sees_slowly(&self, version: Lsn) -> bool {
        let is_seen = self.view().sight(version) == Sight::Seen;
        if is_seen {
            self.snapshot.note_shown(version);
        }
        is_seen
    }

    /// Checks that no version that the snapshot needs was removed from the page. Otherwise the snapshot is too old.
    fn check_removed(&self, deleter: Lsn) -> Result<()> {
        if deleter < self.view().horizon() || planted("snapshot: a reader does not notice that a version was removed") {
            return Ok(());
        }
        let what = format!(
            "versions up to LSN {deleter} were removed from a page, and the snapshot needs the versions from LSN {} on",
            self.view().horizon()
        );
        Err(Error::SnapshotTooOld { what })
    }

    /// Returns the version of a record that the view shows; `None` if there was no record when the snapshot was taken.
    /// `newest` is the version on the page, from which versions up to the LSN `deleter` were removed.
    fn resolve(&self, name: Name<'_>, newest: Version, deleter: Lsn) -> Result<Option<Version>> {
        if self.sees(newest.lsn) {
            return Ok(newest.into_record());
        }
        let file = self.access.database().id();
        if let Some(found) = self.snapshot.found.borrow_mut().get(file, name) {
            return Ok(found);
        }
        let mut version = newest;
        let mut steps = 0_u64;
        if let Some(older) = self.shortcut(file, name, version.lsn) {
            self.check_removed(deleter)?;
            steps = 2;
            version = older;
        }
        let found = loop {
            let sight = self.view().sight(version.lsn);
            if sight == Sight::Seen {
                self.snapshot.note_shown(version.lsn);
                break version.into_record();
            }
            let mut buffer = self.snapshot.buffer.borrow_mut();
            let record = self.read_log(version.lsn, &mut buffer)?;
            if sight == Sight::Ask && self.view().sees(record.header.txn()) {
                self.snapshot.note_shown(version.lsn);
                break version.into_record();
            }
            self.check_removed(deleter)?;
            steps += 1;
            match history::before(name, &record, version)? {
                Some(older) => version = older,
                None => break None,
            }
        };
        // One step back is cheaper than an entry in the cache.
        if steps > 1 && !planted("snapshot: found versions are not cached") {
            self.snapshot.found.borrow_mut().put(file, name, found.as_ref());
        }
        Ok(found)
    }

    /// Returns a shortcut: a version older than `newest` that a writer has left in memory. It was current after the
    /// view was taken, so the shown version is this version or an older version. (The check uses `taken_at`, not the
    /// view's `lsn`: the view ends earlier if the log was not yet on disk, and a version between the two LSNs may have
    /// been undone since.)
    fn shortcut(&self, file: FileId, name: Name<'_>, newest: Lsn) -> Option<Version> {
        let managers = self.access.pages.change.managers;
        let is_early = planted("snapshot: a snapshot uses shortcuts made between its LSN and its begin");
        let from = if is_early { self.view().lsn() } else { self.view().taken_at() };
        let found = managers.find_shortcut(name.hash(file), &name.bytes(file), from)?;
        let version = Version { lsn: found.lsn, flags: RecordFlags(found.flags), stored: found.stored };
        (version.lsn < newest).then_some(version)
    }

    /// Reads the log record that made a version. If the log record is recycled, the snapshot is too old; this is no
    /// damage (PROTOCOLS S4).
    pub(crate) fn read_log<'b>(&self, lsn: Lsn, buffer: &'b mut Vec<u8>) -> Result<RecordRef<'b>> {
        self.snapshot.log_reads.set(self.snapshot.log_reads.get() + 1);
        match self.access.pages.change.managers.log.read_into(lsn, buffer) {
            Ok(header) => {
                let body = &buffer[RECORD_HEADER_BYTES..RECORD_HEADER_BYTES + header.body_bytes()];
                Ok(RecordRef { lsn, header, body })
            }
            Err(libtp_log::Error::TooOld { lsn, oldest }) if !planted("snapshot: recycled log counts as damage") => {
                let what =
                    format!("the snapshot needs the log from LSN {lsn} on, and the kept log begins at LSN {oldest}");
                Err(Error::SnapshotTooOld { what })
            }
            Err(error) => Err(error.into()),
        }
    }
}

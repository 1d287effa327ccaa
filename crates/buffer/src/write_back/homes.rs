//! Pages go home: into their data files, which are synced.

use std::collections::btree_map::{BTreeMap, Entry};
use std::collections::BTreeSet;
use std::sync::Arc;

use libtp_log::FlushedTo;
use libtp_process::{leaves_roles, Session};
use rio::{failpoint, planted};

use super::writer::leave_given_up;
use super::Fault;
use crate::batch::Batch;
use crate::files::OpenFile;
use crate::page_header::page_lsn;
use crate::{BufferManager, Error, FileId, Result};

/// A planted bug (rio's `planted`): the write-ahead rule is broken.
pub(super) const LOG_NOT_FORCED: &str = "buffer: log not forced before pages";

/// The pages of a batch that must go home.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Homes {
    /// All pages: the session that claimed them has their files open.
    All,
    /// The pages whose files are there: the missing file of one page must not keep a dead session's other pages from
    /// their homes.
    Present,
}

/// The files that pages were written into, and those that were away.
type Written = (BTreeMap<FileId, Arc<OpenFile>>, BTreeSet<FileId>);

impl BufferManager {
    /// Writes the pages to their homes and syncs the files. The batch is in the double-write file. Returns the files
    /// that are away.
    pub(super) fn bring_home(
        &self,
        session: &Session,
        flushed: FlushedTo,
        batch: &Batch,
        wanted: Homes,
    ) -> std::result::Result<BTreeSet<FileId>, Fault> {
        let _homes = HomeWrites::begin(self);
        let (homes, mut away) = self.write_homes(session, flushed, batch, wanted)?;
        failpoint("buffer: homes written, not synced");
        for home in homes.values().filter(|_| !planted("buffer: homes not synced")) {
            home.file.sync().map_err(|error| self.sync_fault(error))?;
        }
        // After the sync: the pages are in the file that bears the name, and not in a file of the program.
        for home in homes.values() {
            match self.files.check_in_place(home) {
                Err(Error::Away { .. }) if wanted == Homes::Present => _ = away.insert(home.info.id),
                checked => checked?,
            }
        }
        Ok(away)
    }

    /// Writes pages to their homes: the only function that does. `flushed` enforces the write-ahead rule: it says how
    /// far the log is durable, and only the log can make such a value.
    ///
    /// # Panics
    /// If a page is younger than the durable log: that would break the rule.
    pub(super) fn write_homes(
        &self,
        session: &Session,
        flushed: FlushedTo,
        batch: &Batch,
        wanted: Homes,
    ) -> Result<Written> {
        for image in batch.images() {
            let lsn = page_lsn(batch.page(image));
            let is_covered = lsn.is_none() || flushed.covers(lsn) || planted(LOG_NOT_FORCED);
            assert!(is_covered, "a page is written only after the log of its last change");
        }
        let mut homes: BTreeMap<FileId, Arc<OpenFile>> = BTreeMap::new();
        let mut away = BTreeSet::new();
        for run in batch.home_runs() {
            let home = match homes.entry(run.id.file()) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(place) => match self.files.open_own(session, run.id.file()) {
                    Ok(file) => place.insert(file),
                    // The file was removed since, and its pages are not needed.
                    Err(Error::UnknownFile { .. }) => continue,
                    Err(Error::Away { .. }) if wanted == Homes::Present => {
                        away.insert(run.id.file());
                        continue;
                    }
                    Err(error) => return Err(error),
                },
            };
            failpoint("buffer: between two pages written home");
            leave_given_up(session);
            let bytes = batch.page(&run);
            home.note_written(run.id, bytes.len() as u64 / u64::from(home.info.page_bytes))?;
            home.file.write_at(bytes, home.offset(run.id))?;
        }
        Ok((homes, away))
    }
}

/// While it lives, pages are on their way home: a page that was read from the disk before must not be believed
/// (`prefetch`).
pub(super) struct HomeWrites<'m>(&'m BufferManager);

impl<'m> HomeWrites<'m> {
    pub(super) fn begin(manager: &'m BufferManager) -> HomeWrites<'m> {
        let count = manager.header.home_writes.load();
        // Odd while pages are under way. If the count is odd already, the last writer died, and this session takes its
        // place.
        manager.header.home_writes.publish(if count % 2 == 0 { count + 1 } else { count + 2 });
        failpoint("buffer: pages marked as being written home");
        HomeWrites(manager)
    }
}

impl Drop for HomeWrites<'_> {
    fn drop(&mut self) {
        if !leaves_roles(&self.0.region) {
            self.0.header.home_writes.fetch_add(1);
        }
    }
}

//! Writes pages home, that is, into their data files, and syncs these files.

use std::collections::btree_map::{BTreeMap, Entry};
use std::collections::BTreeSet;
use std::sync::Arc;

use libtp_log::FlushedTo;
use libtp_process::{leaves_roles, Session};
use rio::{failpoint, planted};

use super::writer::{is_given_up, leave_given_up};
use super::Fault;
use crate::batch::Batch;
use crate::double_write::DoubleWrite;
use crate::files::OpenFile;
use crate::page_header::page_lsn;
use crate::{BufferManager, Error, FileId, Result};

/// A planted bug (rio's `planted`): the write-ahead rule is broken.
pub(super) const LOG_NOT_FORCED: &str = "buffer: the log is not forced before pages are written";

/// The pages of a batch that must be written home.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Homes {
    /// All pages: the session that claimed them has their files open.
    All,
    /// The pages whose files exist: the missing file of one page must not prevent the writing of a dead session's other
    /// pages.
    Present,
}

/// The files into which pages were written, not yet synced.
pub(super) type Written = BTreeMap<FileId, Arc<OpenFile>>;

impl BufferManager {
    /// Writes the pages to their homes. Syncs their files, and the files that `homes` has already. The batch is in the
    /// double-write file. Returns the missing files.
    pub(super) fn bring_home(
        &self,
        session: &Session,
        flushed: FlushedTo,
        batch: &Batch,
        wanted: Homes,
        mut homes: Written,
    ) -> std::result::Result<BTreeSet<FileId>, Fault> {
        let _homes = HomeWrites::begin(self);
        let mut away = self.write_homes(session, flushed, batch, wanted, &mut homes)?;
        failpoint("buffer: homes written, not synced");
        for home in homes.values().filter(|_| !planted("buffer: pages written home are not synced")) {
            home.file.sync().map_err(|error| self.sync_fault(error))?;
        }
        // Checked after the sync: the pages are in the file with the database's name, and not in a file of the program.
        for home in homes.values() {
            match self.files.check_in_place(home) {
                Err(Error::FileMissing { .. }) if wanted == Homes::Present => _ = away.insert(home.info.id),
                checked => checked?,
            }
        }
        Ok(away)
    }

    /// Writes the pages of those files that the disk writes whole, and takes them out of the batch. `homes` gets the
    /// files. If the system refuses a page, the pages of its file stay in the batch.
    ///
    /// The double-write file is made empty first: it may have an older image of a page.
    ///
    /// # Panics
    /// As [`BufferManager::write_homes`].
    pub(super) fn write_whole(
        &self,
        session: &Session,
        flushed: FlushedTo,
        batch: &mut Batch,
        double: &DoubleWrite,
        homes: &mut Written,
    ) -> std::result::Result<(), Fault> {
        let mut ids: Vec<FileId> = batch.images().iter().map(|image| image.id.file()).collect();
        ids.sort_unstable();
        ids.dedup();
        ids.retain(|id| self.files.open(*id).is_ok_and(|home| home.is_whole()));
        for id in ids {
            assert_logged(flushed, batch);
            // The error is reported when the file's pages are written home.
            let Ok(home) = self.files.open_own(session, id) else { continue };
            leave_given_up(session);
            self.empty_double(double)?;
            let _homes = HomeWrites::begin(self);
            let mut pages = Vec::new();
            for image in batch.images().iter().filter(|image| image.id.file() == id) {
                home.note_written(image.id, 1)?;
                pages.push((home.offset(image.id), batch.page(image)));
            }
            let count = pages.len() as u64;
            let is_written = home.write_whole(&pages, &|| !is_given_up(&self.region))?;
            leave_given_up(session);
            if is_written {
                self.header.whole.fetch_add(count);
                batch.retain(|page| page.file() != id);
                homes.insert(id, home);
            }
        }
        Ok(())
    }

    /// Makes the double-write file empty on the disk, unless it is. The writer calls this when no batch is open.
    fn empty_double(&self, double: &DoubleWrite) -> std::result::Result<(), Fault> {
        if self.header.double_is_empty.load() == 0 && !planted("buffer: an older image stays in the double-write file")
        {
            double.empty()?;
            self.sync_double(double)?;
            self.header.double_is_empty.publish(1);
        }
        Ok(())
    }

    /// Writes pages to their homes; only this function and [`BufferManager::write_whole`] write pages home. `flushed`
    /// enforces the write-ahead rule: it states the durable end of the log, and only the log can make such a value.
    /// `homes` gets the files. Returns the missing files.
    ///
    /// # Panics
    /// If a page's LSN is beyond the durable end of the log: that would violate the rule.
    pub(super) fn write_homes(
        &self,
        session: &Session,
        flushed: FlushedTo,
        batch: &Batch,
        wanted: Homes,
        homes: &mut Written,
    ) -> Result<BTreeSet<FileId>> {
        assert_logged(flushed, batch);
        let mut away = BTreeSet::new();
        for run in batch.home_runs() {
            let home = match homes.entry(run.id.file()) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(place) => match self.files.open_own(session, run.id.file()) {
                    Ok(file) => place.insert(file),
                    // The file was dropped meanwhile, and its pages are not needed.
                    Err(Error::UnknownFile { .. }) => continue,
                    Err(Error::FileMissing { .. }) if wanted == Homes::Present => {
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
        Ok(away)
    }
}

fn assert_logged(flushed: FlushedTo, batch: &Batch) {
    for image in batch.images() {
        let lsn = page_lsn(batch.page(image));
        let is_covered = lsn.is_none() || flushed.covers(lsn) || planted(LOG_NOT_FORCED);
        assert!(is_covered, "a page is written only after the log of its last change");
    }
}

/// While this guard exists, pages are being written home. Page bytes that were read from the disk before the guard must
/// not be used (`prefetch`).
pub(super) struct HomeWrites<'m>(&'m BufferManager);

impl<'m> HomeWrites<'m> {
    pub(super) fn begin(manager: &'m BufferManager) -> HomeWrites<'m> {
        let count = manager.header.home_writes.load();
        // The count is odd while pages are being written home. If it is odd already, the last writer died, and this
        // session replaces it.
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

//! A process opens a registered file under its present name.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, PoisonError};

use libtp_io::{Directory, File, OpenMode};
use libtp_process::{Rank, Session};
use rio::planted;

use super::identity::{check_own, environment_of, note_identity, REPLACED};
use super::open_file::OpenFile;
use super::slot::{read, FileInfo, FileSlot, LIVE};
use super::Files;
use crate::registry::file_name;
use crate::{Error, FileId, Result};

const OWED: &str =
    "its file was missing when the environment was opened, and changes that are in the log are missing from the file: when the file is in its place, close the environment in every process and open it again";
/// The largest number of reads of a slot while another session renames its file.
const RENAMED_LOOKS: u32 = 10_000;

impl Files {
    /// Returns the file with the number `id`. Opens it if this process has not opened it yet.
    pub(crate) fn open(&self, id: FileId) -> Result<Arc<OpenFile>> {
        let known = self.open.read().unwrap_or_else(PoisonError::into_inner).get(&id).cloned();
        if let Some(file) = known.filter(|file| file.is_current()) {
            return Ok(file);
        }
        let slot = self.slot_of(id).ok_or(Error::UnknownFile { file: id })?;
        let (info, generation) = self.read_whole(slot, id).ok_or(Error::UnknownFile { file: id })?;
        let away = |what: &str| Error::FileMissing { name: info.name.clone(), what: what.into() };
        if !slot.unrepeated_from.load().is_none() {
            return Err(away(OWED));
        }
        let file = match self.open_by_name(&info) {
            Err(Error::Io(error @ libtp_io::Error::Unsuitable { .. })) => return Err(away(&error.to_string())),
            file => file?.ok_or_else(|| away("its file is missing"))?,
        };
        // A planted bug (rio's `planted`): pages go into any file that has the name.
        if !planted("buffer: a file is accepted by its name alone") && self.registry.entry(id)?.is_some() {
            check_own(&*file, &info, environment_of(&self.region))?;
        }
        let identity = file.identity()?;
        if !note_identity(slot, &identity, id) && !planted(REPLACED) {
            return Err(away("another file was put in its place while the environment was in use"));
        }
        let slot = self.region.hold(self.region.offset_of(slot));
        let is_promised = file.whole_write_bytes().is_some_and(|bytes| bytes.contains(&info.page_bytes))
            || planted("buffer: a page is written once although the disk may tear it");
        let is_refused = AtomicBool::new(false);
        let opened = Arc::new(OpenFile { info, file, identity, slot, generation, is_promised, is_refused });
        // If two threads open the file at once, one descriptor is closed after its last use.
        self.open.write().unwrap_or_else(PoisonError::into_inner).insert(id, opened.clone());
        Ok(opened)
    }

    /// Works like [`Files::open`] for a caller that writes pages: `UnknownFile` means that the file was removed from
    /// the table. A dead session may have made the file's slot live without raising the count. This call raises the
    /// count, so that all processes find the file from now on.
    pub(crate) fn open_for_pages(&self, session: &Session, id: FileId) -> Result<Arc<OpenFile>> {
        match self.open(id) {
            Err(Error::UnknownFile { .. }) => {
                let guard = self.table.latch.exclusive(session, Rank::REPLACER);
                self.note_the_dead_ones();
                drop(guard);
                self.open(id)
            }
            opened => opened,
        }
    }

    /// Works like [`Files::open_for_pages`], and also checks that the descriptor belongs to the file. Called before
    /// each batch of pages.
    pub(crate) fn open_own(&self, session: &Session, id: FileId) -> Result<Arc<OpenFile>> {
        let opened = self.open_for_pages(session, id)?;
        match self.forget_foreign(&opened) {
            true => self.open_for_pages(session, id),
            false => Ok(opened),
        }
    }

    /// Returns the contents of the file's slot. A session that renames the file changes the slot in a short section; if
    /// it dies in the section, the change is rolled back.
    fn read_whole(&self, slot: &FileSlot, id: FileId) -> Option<(FileInfo, u32)> {
        for _ in 0..RENAMED_LOOKS {
            match read(slot).filter(|(info, _)| info.id == id) {
                None if slot.state.load() == LIVE && slot.id.load() == id => std::thread::yield_now(),
                found => return found,
            }
        }
        None
    }

    /// Opens the file under its present name. While a database is renamed, the file has one of two names.
    fn open_by_name(&self, info: &FileInfo) -> Result<Option<Arc<dyn File>>> {
        if let Some(file) = existing(&*self.directory, &info.file_name())? {
            return Ok(Some(file));
        }
        let Some(entry) = self.registry.entry(info.id)?.filter(|entry| !entry.is_dropped) else { return Ok(None) };
        for name in [Some(entry.name), entry.was].into_iter().flatten() {
            if let Some(file) = existing(&*self.directory, &file_name(&name))? {
                return Ok(Some(file));
            }
        }
        Ok(None)
    }

    /// Works like [`Files::open`], also for a database that may not have been registered since the region was made.
    pub(crate) fn open_entered(&self, session: &Session, id: FileId) -> Result<Arc<OpenFile>> {
        match self.open(id) {
            Err(Error::UnknownFile { .. }) => {
                let entry = self.registry.entry(id)?.ok_or(Error::UnknownFile { file: id })?;
                if entry.is_dropped {
                    return Err(Error::Dropped { name: entry.name });
                }
                self.register(session, &FileInfo::of(&entry))?;
                // A session that drops the database first marks the drop in the register. So either this session sees
                // the drop, or that session sees the registered file.
                if self.registry.entry(id)?.is_some_and(|entry| entry.is_dropped) {
                    self.unregister(session, id);
                    return Err(Error::Dropped { name: entry.name });
                }
                self.open(id)
            }
            opened => opened,
        }
    }
}

fn existing(directory: &dyn Directory, name: &str) -> Result<Option<Arc<dyn File>>> {
    match directory.open(name, OpenMode::Existing) {
        Err(libtp_io::Error::NotFound { .. }) => Ok(None),
        file => Ok(Some(file?)),
    }
}

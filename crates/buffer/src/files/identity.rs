//! Checks whether the file with a database's name is that database's file.
//!
//! Page 0 states to which database and environment a file belongs. A word in the file's slot identifies the file that
//! had the name when it was first opened. So a copy that has replaced this file is recognised as another file.

use std::sync::{Arc, PoisonError};

use libtp_io::{is_foreign, File, Identity, Operation};
use rio::{planted, Region};

use super::open_file::OpenFile;
use super::slot::{FileInfo, FileSlot};
use super::Files;
use crate::page_header;
use crate::registry::file_name;
use crate::{Error, FileId, PageId, PageNo, Result};

/// A planted bug (rio's `planted`): pages go into a file that another file has replaced.
pub(super) const REPLACED: &str = "buffer: pages are written to a replaced file";

/// The offset of the environment's number in page 0.
const ENVIRONMENT_AT: usize = 48;

/// Returns the number of the environment that the region belongs to.
pub fn environment_of(region: &Region) -> [u8; 16] {
    let mut id = [0; 16];
    for (eight, word) in id.chunks_exact_mut(8).zip(&region.header().environment) {
        eight.copy_from_slice(&word.get().to_le_bytes());
    }
    id
}

/// Checks, by page 0 (docs/formats/file.md), that a file with a database's name is that database's file.
///
/// # Errors
/// [`Error::FileMissing`] if it is another file, or if the page cannot be read; another error if this process
/// has reached one of its limits.
pub(super) fn check_own(file: &dyn File, info: &FileInfo, environment: [u8; 16]) -> Result<()> {
    let away = |what| Error::FileMissing { name: info.name.clone(), what };
    match first_page(file, info) {
        Ok((page, read)) => check_own_page(&page, read, info, environment).map_err(away),
        Err(error) if error.is_limit_of_process() => Err(error.into()),
        Err(error) => Err(away(error.to_string())),
    }
}

/// Returns whether the file is that database's file. A failed read is an error, and does not count as false.
pub(crate) fn is_own(file: &dyn File, info: &FileInfo, environment: [u8; 16]) -> libtp_io::Result<bool> {
    let (page, read) = first_page(file, info)?;
    Ok(check_own_page(&page, read, info, environment).is_ok())
}

fn first_page(file: &dyn File, info: &FileInfo) -> libtp_io::Result<(Vec<u8>, usize)> {
    let mut page = vec![0; info.page_bytes as usize];
    let read = file.read_at(&mut page, 0)?;
    Ok((page, read))
}

fn check_own_page(page: &[u8], read: usize, info: &FileInfo, environment: [u8; 16]) -> std::result::Result<(), String> {
    let what = if read < page.len() {
        "the file of that name is shorter than a page"
    } else if page_header::check(page, PageId::new(info.id, PageNo::HEADER)).is_err() {
        "the file of that name is another file, or its first page is damaged"
    } else if page[ENVIRONMENT_AT..ENVIRONMENT_AT + 16] != environment {
        "the file of that name belongs to another environment"
    } else {
        return Ok(());
    };
    Err(what.into())
}

impl Files {
    /// Forgets the open file if its descriptor no longer belongs to the file: the program has closed the descriptor,
    /// and its number may now belong to a file of the program. Returns whether the file was forgotten. The next use
    /// opens the file again.
    pub(crate) fn forget_foreign(&self, opened: &OpenFile) -> bool {
        if !is_foreign(&*opened.file, &opened.identity)
            || planted("buffer: pages are written into files of the program")
        {
            return false;
        }
        tracing::warn!(
            database = opened.info.name,
            "the program has closed the descriptor of a database's file: the file is opened again"
        );
        // Closing the number would close the program's file.
        std::mem::forget(Arc::clone(&opened.file));
        let mut open = self.open.write().unwrap_or_else(PoisonError::into_inner);
        // Another thread may have opened the file again.
        if open.get(&opened.info.id).is_some_and(|known| Arc::ptr_eq(&known.file, &opened.file)) {
            open.remove(&opened.info.id);
        }
        true
    }

    /// Checks that the bytes which were just synced through the open file are in the database's file.
    ///
    /// # Errors
    /// [`Error::Io`], not final, if the descriptor no longer belongs to the file.
    pub(crate) fn check_descriptor(&self, opened: &OpenFile) -> Result<()> {
        match self.forget_foreign(opened) {
            true => Err(closed(opened.info.file_name())),
            false => Ok(()),
        }
    }

    /// Checks that the open file still has the database's name, and that the descriptor belongs to the file: pages that
    /// are written into a file without the name are lost. If another file or no file has the name, this process closes
    /// the file, so that its next use opens the file with the name.
    ///
    /// # Errors
    /// [`Error::FileMissing`]; an error of the directory; the error of [`Files::check_descriptor`].
    pub(crate) fn check_in_place(&self, opened: &OpenFile) -> Result<()> {
        self.check_descriptor(opened)?;
        let (id, known) = (opened.info.id, opened.slot.identity.load());
        let bears = |name: &str| -> Result<bool> {
            let found = self.directory.identity_of(&file_name(name))?;
            Ok(found.is_some_and(|found| identity_word(&found, id) == known))
        };
        // The slot of a dropped file may belong to another file now.
        if planted(REPLACED) || !is_tagged(known, id) || bears(&opened.info.name)? {
            return Ok(());
        }
        if let Some(entry) = self.registry.entry(id)? {
            // During a renaming the file has one of these names. A dropped file needs no pages.
            let names = [Some(entry.name), entry.was];
            for name in names.iter().flatten() {
                if entry.is_dropped || bears(name)? {
                    return Ok(());
                }
            }
        }
        self.open.write().unwrap_or_else(PoisonError::into_inner).remove(&id);
        let what = "its file was moved away or replaced while the environment was in use".into();
        Err(Error::FileMissing { name: opened.info.name.clone(), what })
    }
}

/// Returns the error of a call whose descriptor the program has closed.
pub(crate) fn closed(file: String) -> Error {
    libtp_io::Error::closed_descriptor(Operation::Sync, file).into()
}

/// The bits of an identity word that come from the file's number. A slow session may note a file's identity in a slot
/// that belongs to another file now. These bits show that such a word is not the identity of the slot's file.
const TAG: u64 = 0xFFFF;

/// Returns a word that distinguishes two files of one filesystem. The word does not include the device number, because
/// processes in containers see the same filesystem under different device numbers.
fn identity_word(identity: &Identity, id: FileId) -> u64 {
    let mixed = identity.inode.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ identity.birth_ns.rotate_left(32);
    let hash = mixed ^ mixed << 16;
    hash & !TAG | u64::from(id.raw()) & TAG
}

fn is_tagged(word: u64, id: FileId) -> bool {
    word != 0 && word & TAG == u64::from(id.raw()) & TAG
}

/// Notes that this file has the database's name, if no session has noted a file yet. Returns whether the noted file is
/// this file.
pub(super) fn note_identity(slot: &FileSlot, identity: &Identity, id: FileId) -> bool {
    let identity = identity_word(identity, id);
    loop {
        let known = slot.identity.load();
        if is_tagged(known, id) {
            return known == identity;
        }
        if slot.identity.compare_exchange(known, identity).is_ok() {
            return true;
        }
    }
}

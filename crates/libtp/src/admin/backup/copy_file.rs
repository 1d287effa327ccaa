//! Copies a database file while other sessions write its pages.
//!
//! A page that is read while a session writes it has a wrong checksum. The copy reads such a page again. If the
//! checksum stays wrong, the copy reads the page through the page cache, because the writer may have died. So each
//! copied page was whole at some moment between the begin and the end of the copy, and this moment differs from page to
//! page. Redo of the log of that time brings all pages to one state.

use std::sync::Arc;
use std::time::Duration;

use libtp_buffer::{check, page_lsn, FileInfo, PageId, PageNo};
use libtp_io::{Directory, File, OpenMode};
use libtp_log::Lsn;
use rio::{failpoint, planted};

use super::manifest::CopiedFile;
use crate::ground::damage::Damage;
use crate::{Error, Result};

/// Bytes copied at a time: a whole number of pages of any size.
pub(crate) const PIECE_BYTES: usize = 1 << 20;
/// The number of times that a torn page is read again before it is read through the page cache.
const READS: u32 = 50;
/// The pause between two reads of a torn page.
const MOMENT: Duration = Duration::from_millis(1);

/// A file copy in progress, with its findings.
pub(crate) struct FileCopy<'c> {
    pub(crate) from: &'c dyn Directory,
    pub(crate) to: &'c dyn Directory,
    /// Reads a page through the page cache.
    pub(crate) cached: &'c mut dyn FnMut(PageId, &mut [u8]) -> Result<()>,
    /// Called with the number of bytes copied since the last call.
    pub(crate) watch: &'c mut dyn FnMut(u64),
    /// Pages that were read more than once.
    pub(crate) reread: u64,
    /// The highest LSN on any page.
    pub(crate) highest: Lsn,
}

impl FileCopy<'_> {
    /// Copies the existing pages of a file, and syncs the copy.
    ///
    /// # Errors
    /// `Corrupt` with the page if it is damaged; `Full`, `Io`.
    pub(crate) fn copy(&mut self, info: &FileInfo) -> Result<CopiedFile> {
        let name = info.file_name();
        let (from, to) = (self.from.open(&name, OpenMode::ReadOnly)?, self.to.open(&name, OpenMode::Create)?);
        let page_bytes = u64::from(info.page_bytes);
        let length = from.len()? / page_bytes * page_bytes;
        let mut piece = vec![0; PIECE_BYTES];
        let (mut at, mut crc) = (0, 0);
        while at < length {
            let want = usize::try_from(length - at).unwrap_or(PIECE_BYTES).min(PIECE_BYTES);
            let read = from.read_at(&mut piece[..want], at)?;
            // If the file became shorter meanwhile, the copy ends there.
            let whole = read - read % info.page_bytes as usize;
            for (index, page) in piece[..whole].chunks_exact_mut(info.page_bytes as usize).enumerate() {
                let number = at / page_bytes + index as u64;
                self.take_page(&from, info, number, page)?;
            }
            to.write_at(&piece[..whole], at)?;
            failpoint("backup: a piece of a file copied");
            crc = crc32c::crc32c_append(crc, &piece[..whole]);
            at += whole as u64;
            (self.watch)(whole as u64);
            if whole < want {
                break;
            }
        }
        to.sync()?;
        Ok(CopiedFile { name, bytes: at, crc })
    }

    /// Makes sure that a page is whole.
    fn take_page(&mut self, from: &Arc<dyn File>, info: &FileInfo, number: u64, page: &mut [u8]) -> Result<()> {
        let number =
            u32::try_from(number).map_err(|_| Error::Corrupt(format!("{} is too long", info.file_name()).into()))?;
        let id = PageId::new(info.id, PageNo::new(number));
        let is_believed = |page: &[u8]| check(page, id).is_ok() || planted("libtp: a backup keeps a torn page");
        if !is_believed(page) {
            self.reread += 1;
            let mut reads = 0;
            while reads < READS && !is_believed(page) {
                std::thread::sleep(MOMENT);
                from.read_at(page, id.page().offset(info.page_bytes))?;
                reads += 1;
            }
            if !is_believed(page) {
                (self.cached)(id, page)?;
            }
        }
        self.highest = self.highest.max(page_lsn(page));
        Ok(())
    }
}

/// Copies a file that was made after the other files were copied: only page 0, because the log has everything else.
pub(crate) fn copy_header(from: &dyn Directory, to: &dyn Directory, info: &FileInfo, pages: u64) -> Result<CopiedFile> {
    let name = info.file_name();
    let (bytes, page_bytes) = (u64::from(info.page_bytes) * pages, info.page_bytes as usize);
    let mut piece = vec![0; PIECE_BYTES];
    from.open(&name, OpenMode::ReadOnly)?.read_at(&mut piece[..page_bytes], 0)?;
    // Page 0 was written once, before the file had its name.
    check(&piece[..page_bytes], PageId::new(info.id, PageNo::HEADER)).map_err(|damage| {
        Error::Corrupt(Damage::in_page(&name, 0, &damage.to_string(), format!("{name} page 0: {damage}")))
    })?;
    let file = to.open(&name, OpenMode::Create)?;
    let (mut at, mut crc) = (0, 0);
    while at < bytes {
        let want = usize::try_from(bytes - at).unwrap_or(PIECE_BYTES).min(PIECE_BYTES);
        file.write_at(&piece[..want], at)?;
        crc = crc32c::crc32c_append(crc, &piece[..want]);
        at += want as u64;
        // Zeros follow the header page.
        piece[..page_bytes].fill(0);
    }
    file.sync()?;
    Ok(CopiedFile { name, bytes, crc })
}

//! Images of pages whose file was missing when the pages of their batch were written to their homes.
//!
//! Paper: none. PROTOCOLS L8.
//!
//! If a page's write was interrupted, the page may be torn in its file, and the double-write file has the only whole
//! image. The next batch overwrites that image. So while the page's file is missing, the image is kept in a separate
//! file, `libtp.double.N.S`: `N` is the number of the page's file, and `S` is the number of the batch. This file has
//! the format of the double-write file. A restart that finds the page's file again writes the images to their homes and
//! removes the file of images. A checkpoint removes images whose pages are synced at their homes.
//!
//! Invariants
//! 1. A batch is marked as done, or overwritten, only when each image of the batch is synced at its home, is synced in
//!    a file of kept images, or belongs to a dropped database.
//! 2. Images are written to their homes in the order of their batches, and before the batch in the double-write file,
//!    which is newer. A home that is undamaged and newer than an image is not overwritten.
//!
//! If the process dies here: the batch is still open, and the next restart keeps the images again, in the same file.

use libtp_io::{Directory, OpenMode};
use libtp_log::Lsn;

use crate::batch::Batch;
use crate::double_write::{DoubleWrite, DOUBLE_WRITE_NAME};
use crate::files::environment_of;
use crate::page_header::page_lsn;
use crate::{BufferManager, FileId, Result};

/// Returns the name of the file that keeps a batch's images of one data file.
fn kept_name(file: FileId, sequence: u64) -> String {
    format!("{DOUBLE_WRITE_NAME}.{}.{sequence}", file.raw())
}

/// Returns the data file and the batch of a file of kept images; `None` for the name of another file.
fn parse(name: &str) -> Option<(FileId, u64)> {
    let (file, sequence) = name.strip_prefix(DOUBLE_WRITE_NAME)?.strip_prefix('.')?.split_once('.')?;
    Some((FileId::new(file.parse().ok()?), sequence.parse().ok()?))
}

/// Writes the images of one missing data file into a separate file, and makes this file durable.
///
/// # Errors
/// The disk refused; the batch must stay open.
pub(crate) fn keep(
    directory: &dyn Directory,
    environment: [u8; 16],
    (file, sequence): (FileId, u64),
    batch: &Batch,
) -> Result<()> {
    let mut kept = Batch::default();
    kept.clear();
    for image in batch.images().iter().filter(|image| image.id.file() == file) {
        kept.push(image.id, batch.page(image));
    }
    let name = kept_name(file, sequence);
    // If a file with the name exists, its sync may have failed, and a repeated sync would not write it.
    remove(directory, &name)?;
    let made = DoubleWrite::of(directory.open(&name, OpenMode::CreateNew)?, environment);
    if let Err(error) = made.write_synced(sequence, &mut kept) {
        let _ = remove(directory, &name);
        return Err(error);
    }
    directory.sync()?;
    tracing::warn!(pages = kept.len(), "{name} keeps pages of a database until its file is back");
    Ok(())
}

/// Returns the kept images, with the data file of each batch, in the order of the batches. Ignores a damaged batch: its
/// file was never synced, so its images are still in the double-write file.
///
/// # Errors
/// The disk refused.
pub(crate) fn kept(directory: &dyn Directory, environment: [u8; 16]) -> Result<Vec<(FileId, Batch, String)>> {
    let mut found = Vec::new();
    directory.visit_names(&mut |name| {
        found.extend(parse(name).map(|(file, sequence)| (sequence, file, name.to_string())))
    })?;
    found.sort_unstable();
    let mut kept = Vec::new();
    for (_, file, name) in found {
        let images = DoubleWrite::of(directory.open(&name, OpenMode::Existing)?, environment).open_batch()?;
        kept.push((file, images.map(|(_, batch)| batch).unwrap_or_default(), name));
    }
    Ok(kept)
}

fn remove(directory: &dyn Directory, name: &str) -> Result<()> {
    match directory.remove(name) {
        Ok(()) | Err(libtp_io::Error::NotFound { .. }) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

impl BufferManager {
    /// Notes that files of images exist, so that checkpoints try to remove them.
    pub fn note_kept_images(&self) {
        self.header.kept_images.fetch_add(1);
    }

    /// Removes the kept images that no restart from `redo_point` on needs, because their pages are synced at their
    /// homes. An image that was not removed would hide later damage of its page. Called when the control file has the
    /// redo point.
    ///
    /// # Errors
    /// The disk refused; the next call tries again.
    pub fn forget_kept_images(&self, redo_point: Lsn) -> Result<()> {
        let noted = self.header.kept_images.load();
        if noted == 0 {
            return Ok(());
        }
        let mut is_any_needed = false;
        for (_, batch, name) in kept(self.files.directory(), environment_of(&self.region))? {
            // If a page is not synced at its home, its first change, and so its LSN, is not before the redo point.
            if batch.images().iter().any(|image| page_lsn(batch.page(image)) >= redo_point) {
                is_any_needed = true;
            } else {
                remove(self.files.directory(), &name)?;
            }
        }
        if !is_any_needed {
            // The swap fails if another session has kept images meanwhile.
            let _ = self.header.kept_images.compare_exchange(noted, 0);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_kept_images_are_distinguished_from_other_names() {
        assert_eq!(parse(&kept_name(FileId::new(7), 42)), Some((FileId::new(7), 42)));
        for other in ["libtp.double", "libtp.double.7", "libtp.double.x.1", "databases.7.42", "libtp.double7.42"] {
            assert_eq!(parse(other), None, "{other}");
        }
    }
}

//! The check that all processes have the log's files in the same directory.
//!
//! Every process opens the log's directory by its own settings. A flush by a process with another directory would write
//! into files that no restart reads. The region therefore has a note of the directory of the process that made the
//! region. The note has the directory's inode and time of birth, because one directory may have several paths. The path
//! is in the note for error texts only.
//!
//! If we die while we write the note: no other process is attached, and the next process that attaches without others
//! writes the note again.

use std::sync::Arc;

use libtp_io::Directory;
use rio::{planted, Region, RootSlot};

use crate::tail::LogHeader;
use crate::{Error, Result};

/// Returns the path for error texts, absolute if possible.
fn path_of(directory: &dyn Directory) -> String {
    let path = directory.describe("");
    std::fs::canonicalize(&path).map_or(path, |whole| whole.display().to_string())
}

/// Notes in the region that the log's files are in `directory`. No other process uses the region.
///
/// # Errors
/// [`Error::Io`] when the directory cannot be inspected.
pub fn note_files(region: &Region, directory: &Arc<dyn Directory>) -> Result<()> {
    let Some(header) = region.root::<LogHeader>(RootSlot::Log).map(|offset| region.hold(offset)) else { return Ok(()) };
    let identity = directory.identity()?;
    header.files_inode.publish(identity.map_or(0, |identity| identity.inode));
    header.files_birth.publish(identity.map_or(0, |identity| identity.birth_ns));
    let path = path_of(directory.as_ref());
    let room = header.files_path.len() * 8;
    let bytes = &path.as_bytes()[..path.len().min(room)];
    for (word, piece) in header.files_path.iter().zip(bytes.chunks(8)) {
        let mut whole = [0; 8];
        whole[..piece.len()].copy_from_slice(piece);
        word.publish(u64::from_le_bytes(whole));
    }
    header.files_path_bytes.publish(bytes.len() as u64);
    Ok(())
}

/// Refuses a process that has the log's files in another directory than the processes that use the region.
///
/// # Errors
/// [`Error::OtherDirectory`] with both directories; [`Error::Io`] when the directory cannot be inspected.
pub fn check_same_files(region: &Region, directory: &Arc<dyn Directory>) -> Result<()> {
    let Some(header) = region.root::<LogHeader>(RootSlot::Log).map(|offset| region.hold(offset)) else { return Ok(()) };
    let noted = (header.files_inode.load(), header.files_birth.load());
    let Some(own) = directory.identity()?.filter(|_| noted.0 != 0) else { return Ok(()) };
    if noted == (own.inode, own.birth_ns) || planted("log: a process with another log directory is admitted") {
        return Ok(());
    }
    let bytes: Vec<u8> = header.files_path.iter().flat_map(|word| word.load().to_le_bytes()).collect();
    let length = usize::try_from(header.files_path_bytes.load()).unwrap_or(usize::MAX).min(bytes.len());
    let shared = String::from_utf8_lossy(&bytes[..length]).into_owned();
    Err(Error::OtherDirectory { own: path_of(directory.as_ref()), shared })
}

//! Whether the file that bears a database's name is that database's file.

use libtp_io::File;
use rio::Region;

use crate::page_header;
use crate::{Error, FileInfo, PageId, PageNo, Result};

/// Where page 0 has the environment's number.
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
/// [`Error::Away`] if it is not, or if the disk does not give the page; a limit of this process.
pub(crate) fn check_own(file: &dyn File, info: &FileInfo, environment: [u8; 16]) -> Result<()> {
    let away = |what| Error::Away { name: info.name.clone(), what };
    match first_page(file, info) {
        Ok((page, read)) => check_own_page(&page, read, info, environment).map_err(away),
        Err(error) if error.is_limit_of_process() => Err(error.into()),
        Err(error) => Err(away(error.to_string())),
    }
}

/// Returns whether the file is that database's. A failed read is an error, and not the answer that the file is
/// another's.
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

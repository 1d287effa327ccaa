//! A database file of another environment: page 0 says whose the file is, and a restored copy is a new environment's.

use libtp_buffer::{check, seal, FileId, PageHeader, PageId, PageNo};
use zerocopy::FromBytes;

use crate::open::{FileHeader, AT, END};
use crate::{Error, Result};

/// Makes page 0 of a copied file that of a file of `environment`.
///
/// # Errors
/// [`Error::Corrupt`] if it is no page 0 that is whole.
pub fn give_to(environment: [u8; 16], full_name: &str, page: &mut [u8]) -> Result<()> {
    let damaged = |what: String| Error::Corrupt { file: full_name.to_string(), page: 0, what };
    let file = FileId::new(PageHeader::of(page).file_id.get());
    check(page, PageId::new(file, PageNo::HEADER)).map_err(|damage| damaged(damage.to_string()))?;
    let header = page.get_mut(AT..END).and_then(|bytes| FileHeader::mut_from_bytes(bytes).ok());
    let header = header.ok_or_else(|| damaged("it is too short".into()))?;
    header.environment = environment;
    page[..4].fill(0);
    seal(page);
    Ok(())
}

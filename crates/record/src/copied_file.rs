//! A copied database file: page 0 names the file's environment, and a restored copy belongs to a new environment.

use libtp_buffer::{check, seal, FileId, PageHeader, PageId, PageNo};
use zerocopy::FromBytes;

use crate::file_header::{FileHeader, AT, END};
use crate::{Error, Result};

/// Makes `environment` the owner of a copied file in its page 0.
///
/// # Errors
/// [`Error::Corrupt`] if the page is damaged, or is not page 0.
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

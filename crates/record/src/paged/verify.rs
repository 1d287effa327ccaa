//! Verification of pages with contents of the program: each page must be undamaged and of this kind. Only the program
//! can check the contents.

use crate::btree::verify::{Finding, Verified, FINDINGS_MAX};
use crate::locking::Access;
use crate::page::free_pages::FIRST_PAGE;
use crate::page::PageKind;
use crate::page_header;
use crate::{Error, Result};

/// Verifies a file of pages.
///
/// # Errors
/// A page cannot be read for a reason other than damage. Damage is a finding in the result, not an error.
pub fn verify(access: &Access<'_>) -> Result<Verified> {
    access.check_paged()?;
    let mut result = Verified::default();
    for number in FIRST_PAGE..access.pages.meta()?.page_count.get() {
        if result.findings.len() >= FINDINGS_MAX {
            break;
        }
        match access.pages.shared(number, 0) {
            Ok(page) if page_header::kind(&page) == PageKind::Application as u8 => result.tree_pages += 1,
            Ok(_) => result.findings.push(Finding { page: number, what: "it is not a page of the program".into() }),
            Err(Error::Buffer(error @ libtp_buffer::Error::Corrupt { .. })) => {
                result.findings.push(Finding { page: number, what: error.to_string() });
            }
            Err(other) => return Err(other),
        }
    }
    Ok(result)
}

//! Verification of a recno file: checks each page against the file's arithmetic, and each slot against its page.

use crate::btree::verify::{Finding, Verified, FINDINGS_MAX};
use crate::locking::Access;
use crate::page::free_pages::FIRST_PAGE;
use crate::page::recno::RecnoPage;
use crate::page::record_lsn::RecordFlags;
use crate::{Error, Result};

/// Verifies a recno file.
///
/// # Errors
/// A page cannot be read for a reason other than damage. Damage is no error, but a finding in the result.
pub fn verify(access: &Access<'_>) -> Result<Verified> {
    access.check_recno()?;
    let mut result = Verified::default();
    let tail = access.recno_tail()?;
    for number in FIRST_PAGE..=tail {
        if result.findings.len() >= FINDINGS_MAX {
            break;
        }
        match access.pages.shared(number, 0) {
            Ok(page) => look(access, number, &page, &mut result),
            Err(Error::Buffer(error @ libtp_buffer::Error::Corrupt { .. })) => {
                result.findings.push(Finding { page: number, what: error.to_string() });
            }
            Err(other) => return Err(other),
        }
    }
    Ok(result)
}

fn look(access: &Access<'_>, number: u32, page: &[u8], result: &mut Verified) {
    let mut report = |what: String| result.findings.push(Finding { page: number, what });
    let Some(recno) = RecnoPage::over(page) else {
        return report("it is not a recno page, or its header contradicts itself".into());
    };
    if recno.record_bytes() != access.database().arithmetic().record_bytes {
        return report(format!("its records have {} bytes", recno.record_bytes()));
    }
    if recno.used() > recno.capacity() {
        return report(format!("it states that {} slots were used, and it has {}", recno.used(), recno.capacity()));
    }
    let mut counts = (0, 0);
    for slot in 0..recno.capacity() {
        let Some(record) = recno.slot(slot) else { return report(format!("slot {slot} is outside the page")) };
        let is_empty = record.bytes.iter().all(|&byte| byte == 0);
        if record.is_record() {
            counts.0 += 1;
            if slot >= recno.used() {
                report(format!("slot {slot} has a record, and should never have been used"));
            }
        } else if !is_empty {
            report(format!("slot {slot} has no record, and has bytes other than zero"));
        }
        counts.1 += u64::from(record.flags.has(RecordFlags::GHOST));
    }
    result.tree_pages += 1;
    result.records += counts.0;
    result.ghosts += counts.1;
}

//! Rebuilds the previous version of a record from the log record of a change.
//!
//! The log record of a change has the removed bytes, their offset, and the number of inserted bytes. So the version
//! before the change is the version after it with the removed bytes restored. The log record is checked: it must be a
//! change of this record, and lead to an older LSN.

use libtp_log::{Lsn, RecordRef};
use libtp_txn::Damage;

use crate::btree::log_records as btree;
use crate::changed::Changed;
use crate::hash::log_records as hash;
use crate::log_body::read;
use crate::page::node::Record;
use crate::page::record_lsn::RecordFlags;
use crate::recno::log_records as recno;
use crate::shortcuts::Name;
use crate::{Error, Result};

/// A version of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Version {
    pub(super) lsn: Lsn,
    pub(super) flags: RecordFlags,
    /// The stored value, including references; empty for a ghost of a recno file.
    pub(super) stored: Vec<u8>,
}

impl Version {
    pub(super) fn of(record: &Record<'_>) -> Version {
        Version { lsn: record.lsn, flags: record.flags, stored: record.stored.to_vec() }
    }

    /// Returns the version; `None` if it is a ghost.
    pub(super) fn into_record(self) -> Option<Version> {
        (!self.flags.has(RecordFlags::GHOST) && !self.lsn.is_none()).then_some(self)
    }

    /// Returns the version as a record of a page.
    pub(super) fn as_record(&self) -> Record<'_> {
        Record { lsn: self.lsn, flags: self.flags, stored: &self.stored, room: 0, cell_at: 0, stored_at: 0 }
    }
}

/// The log record `record` made the version `after`. Returns the version before `after`; `None` if there was no such
/// version.
pub(super) fn before(name: Name<'_>, record: &RecordRef<'_>, after: Version) -> Result<Option<Version>> {
    let damaged = |damage: Damage| {
        Error::from(libtp_txn::Error::Damaged { lsn: record.lsn, name: "version of a record", what: damage.0 })
    };
    let changed = match (name, record.header.kind()) {
        // Before a load there was no record.
        (Name::Key(_), btree::LOAD) => read::<btree::Load>(record.body).map(|_| None),
        (Name::Key(key), btree::INSERT | hash::INSERT) => changed_at_key(key, record.body).map(|_| None),
        (Name::Key(key), btree::UPDATE | btree::DELETE | hash::UPDATE | hash::DELETE) => {
            changed_at_key(key, record.body).map(Some)
        }
        (Name::Slot { page, slot }, recno::PUT | recno::UPDATE | recno::DELETE) => {
            changed_in_slot(page, slot, record.body).map(Some)
        }
        (_, kind) => Err(Damage(format!("it has type {kind}, which changes other records"))),
    };
    let Some(changed) = changed.map_err(damaged)? else { return Ok(None) };
    put_back(&changed, record.lsn, after).map(Some).map_err(damaged)
}

fn changed_at_key<'b>(key: &[u8], body: &'b [u8]) -> std::result::Result<Changed<'b, 'b>, Damage> {
    let changed = Changed::read(body)?;
    match changed.key == key {
        true => Ok(changed),
        false => Err(Damage("it changes the record of another key".into())),
    }
}

fn changed_in_slot(page: u64, slot: usize, body: &[u8]) -> std::result::Result<Changed<'_, '_>, Damage> {
    let changed = Changed::read(body)?;
    match (changed.page, changed.slot) == (page, slot) {
        true => Ok(changed),
        false => Err(Damage("it changes the record of another number".into())),
    }
}

fn put_back(changed: &Changed<'_, '_>, at: Lsn, after: Version) -> std::result::Result<Version, Damage> {
    let lsn = changed.lsn_before;
    if lsn >= at {
        return Err(Damage("it names a later version as the version before".into()));
    }
    let mut stored = after.stored;
    let put = changed.offset..changed.offset + changed.put.len();
    if put.end > stored.len() {
        return Err(Damage(format!("it inserted more bytes than the {} of the value", stored.len())));
    }
    if changed.cut.len() == put.len() {
        stored[put].copy_from_slice(changed.cut);
    } else {
        stored.splice(put, changed.cut.iter().copied());
    }
    Ok(Version { lsn, flags: changed.flags_before, stored })
}

//! Shortcuts: before a record changes, its present version is left in memory for snapshots that will need it (PROTOCOLS
//! S4).

use libtp_buffer::FileId;
use libtp_log::Lsn;
use libtp_txn::OldVersion;

use crate::key_hash::key_hash;
use crate::locking::Access;
use crate::page::record_lsn::RecordFlags;

/// The name of a record.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Name<'k> {
    /// The record of this key.
    Key(&'k [u8]),
    /// The record in this slot of this page. Such a record never moves.
    Slot { page: u64, slot: usize },
}

impl Name<'_> {
    /// Returns the name as bytes, with its file's number.
    pub(crate) fn bytes(self, file: FileId) -> Vec<u8> {
        let mut name = file.raw().to_le_bytes().to_vec();
        match self {
            Name::Key(key) => name.extend_from_slice(key),
            Name::Slot { page, slot } => {
                name.extend_from_slice(&page.to_le_bytes());
                name.extend_from_slice(&slot.to_le_bytes());
            }
        }
        name
    }

    /// Returns the length of [`Name::bytes`].
    pub(crate) fn bytes_count(self) -> usize {
        let place = match self {
            Name::Key(key) => key.len(),
            Name::Slot { page, slot } => size_of_val(&page) + size_of_val(&slot),
        };
        size_of::<u32>() + place
    }

    /// Returns a hash of the name. A caller that must distinguish names with the same hash compares the names.
    pub(crate) fn hash(self, file: FileId) -> u64 {
        let hash = match self {
            Name::Key(key) => key_hash(key),
            Name::Slot { page, slot } => key_hash(&(page << 16 ^ slot as u64).to_le_bytes()),
        };
        // The hash is never zero, because zero means no name.
        (hash ^ u64::from(file.raw())) | 1
    }
}

impl Access<'_> {
    /// Leaves a shortcut to the present version of a record that is about to change, for snapshots that will need it
    /// (PROTOCOLS S4). The record's page is latched.
    #[inline]
    pub(crate) fn leave_shortcut(&self, name: Name<'_>, lsn: Lsn, flags: RecordFlags, stored: &[u8]) {
        if self.pages.change.managers.wants_shortcut(lsn) {
            self.leave_wanted_shortcut(name, lsn, flags, stored);
        }
    }

    #[cold]
    fn leave_wanted_shortcut(&self, name: Name<'_>, lsn: Lsn, flags: RecordFlags, stored: &[u8]) {
        let change = &self.pages.change;
        let file = self.database.id();
        let version = || OldVersion { lsn, flags: flags.0, stored: stored.to_vec() };
        let bytes = name.bytes_count() + stored.len();
        change.managers.leave_shortcut(change.session(), lsn, name.hash(file), bytes, || name.bytes(file), version);
    }
}

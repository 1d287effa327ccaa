//! Log records that a restart could not repeat, because their files were missing. Until a new region is made, redo
//! begins at the oldest of these records, and no session uses these files.

use std::sync::PoisonError;

use libtp_log::Lsn;
use rio::Word;

use super::Files;
use crate::{FileId, Result};

impl Files {
    /// Notes that a restart could not repeat the log record at `lsn`, because the file was missing. If the file is
    /// registered, other sessions do not use it. In any case, redo begins no later than `lsn` from now on.
    pub(crate) fn note_unrepeated(&self, id: FileId, lsn: Lsn) {
        // Several threads repeat the log.
        let lower = |word: &Word<Lsn>| loop {
            let known = word.load();
            let is_lower = known.is_none() || lsn < known;
            if !is_lower || word.compare_exchange(known, lsn).is_ok() {
                break;
            }
        };
        lower(&self.table.unrepeated_from);
        let mut unrepeated_from = self.unrepeated_from.lock().unwrap_or_else(PoisonError::into_inner);
        unrepeated_from.entry(id).and_modify(|known| *known = (*known).min(lsn)).or_insert(lsn);
        drop(unrepeated_from);
        if let Some(slot) = self.slot_of(id) {
            lower(&slot.unrepeated_from);
        }
    }

    /// Forgets the noted records whose files were dropped. No other session is attached.
    pub(crate) fn forgive_dropped(&self) -> Result<()> {
        let unrepeated_from: Vec<(FileId, Lsn)> = self
            .unrepeated_from
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .iter()
            .map(|(id, lsn)| (*id, *lsn))
            .collect();
        let mut least = Lsn::NONE;
        for (id, lsn) in unrepeated_from {
            let is_dropped = self.registry.entry(id)?.is_some_and(|entry| entry.is_dropped);
            if !is_dropped && (least.is_none() || lsn < least) {
                least = lsn;
            }
        }
        self.table.unrepeated_from.publish(least);
        Ok(())
    }

    /// Returns the LSN at which redo must begin for missing files.
    pub(crate) fn unrepeated_from(&self) -> Option<Lsn> {
        Some(self.table.unrepeated_from.load()).filter(|lsn| !lsn.is_none())
    }
}

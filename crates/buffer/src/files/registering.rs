//! Adds a file to the table, renames it there, and removes it.
//!
//! Invariant: a file's number is never used again. A slot is used again, with a new generation.
//!
//! Latches: the latch of the table.
//!
//! If a session dies here: registering is one section and one store. `uncounted` states that a slot was changed and
//! that `changed` may not have been raised: the next session under the latch raises `changed`.

use std::sync::PoisonError;

use libtp_log::Lsn;
use libtp_process::{Rank, Session};
use rio::{failpoint, planted};

use super::slot::{check, read, word_of, FileInfo, FileSlot, FREE, LIVE};
use super::Files;
use crate::{Error, FileId, Result};

impl Files {
    /// Registers a file. Registering the same file again changes nothing.
    pub(crate) fn register(&self, session: &Session, info: &FileInfo) -> Result<()> {
        check(info)?;
        let _guard = self.table.latch.exclusive(session, Rank::REPLACER);
        self.note_the_dead_ones();
        if let Some(known) = self.by_id(info.id).or_else(|| self.by_name(&info.name)) {
            let what = format!("{} is registered as number {}", known.file_name(), known.id);
            return if known == *info { Ok(()) } else { Err(Error::Unsuitable { name: info.name.clone(), what }) };
        }
        let (number, slot) = self.free_slot()?;
        let is_used_again = number <= self.table.used.load();
        let mut section = session.section();
        failpoint("buffer: registers a file, section open");
        slot.generation.set(&mut section, slot.generation.get().wrapping_add(1));
        slot.id.set(&mut section, info.id);
        slot.page_bytes.set(&mut section, info.page_bytes);
        slot.pool.set(&mut section, info.pool.0);
        slot.allocated.set(&mut section, 0);
        slot.written.set(&mut section, 0);
        slot.agreed.set(&mut section, 0);
        slot.unrepeated_from.set(&mut section, Lsn::NONE);
        slot.identity.set(&mut section, 0);
        slot.name_bytes.set(&mut section, u32::try_from(info.name.len()).expect("names have at most 200 bytes"));
        for (index, word) in slot.name.iter().enumerate() {
            word.set(&mut section, word_of(info.name.as_bytes(), index));
        }
        failpoint("buffer: file registered, section open");
        section.close();
        failpoint("buffer: file registered, not live");
        if is_used_again {
            self.table.uncounted.publish(1);
        }
        slot.state.publish(LIVE);
        failpoint("buffer: file live, not counted");
        if is_used_again {
            self.count_change();
        } else {
            self.table.used.fetch_max(number);
        }
        Ok(())
    }

    /// Makes every process read the slots again. The caller has the table's latch.
    fn count_change(&self) {
        self.table.changed.fetch_add(1);
        self.table.uncounted.publish(0);
    }

    /// Counts the changes that dead sessions made and did not count. The caller has the table's latch.
    pub(super) fn note_the_dead_ones(&self) {
        if self.table.uncounted.load() != 0 && !planted("buffer: a dead process's new file slot is not counted") {
            self.count_change();
        }
        let mut used = self.table.used.load();
        while used < self.slots.capacity() && self.slots.at(used + 1).state.load() == LIVE {
            used += 1;
            self.table.used.fetch_max(used);
        }
    }

    /// Returns a slot that no file has. The caller has the table's latch.
    fn free_slot(&self) -> Result<(u32, &FileSlot)> {
        let used = self.table.used.load();
        if self.table.freed.load() != 0 {
            let is_free = |number: &u32| self.slots.at(*number).state.get() == FREE;
            if let Some(number) = (1..=used.min(self.slots.capacity())).find(is_free) {
                return Ok((number, self.slots.at(number)));
            }
            self.table.freed.publish(0);
        }
        while used >= self.slots.capacity() {
            self.slots.grow()?;
        }
        Ok((used + 1, self.slots.at(used + 1)))
    }

    /// Removes a file from the table. Its frames are freed afterwards, see [`BufferManager::forget_file`].
    pub(crate) fn unregister(&self, session: &Session, id: FileId) {
        let _guard = self.table.latch.exclusive(session, Rank::REPLACER);
        self.note_the_dead_ones();
        if let Some(slot) = self.slot_of(id) {
            slot.state.publish(FREE);
            self.table.freed.fetch_add(1);
        }
        self.open.write().unwrap_or_else(PoisonError::into_inner).remove(&id);
    }

    /// Gives a registered file another name in the table. The caller has renamed the file.
    ///
    /// If the session dies here: the section is rolled back, and a session that opens the file finds it under its name
    /// in the register.
    pub(crate) fn rename(&self, session: &Session, id: FileId, name: &str) {
        let _guard = self.table.latch.exclusive(session, Rank::REPLACER);
        self.note_the_dead_ones();
        let Some(slot) = self.slot_of(id) else { return };
        if read(slot).is_some_and(|(info, _)| info.name == name) {
            return;
        }
        let mut section = session.section();
        // This store is first: a process that reads the slot while the name is empty skips the slot, and reads it again
        // only after `changed` has grown. If this session dies, the next session under the latch sees `uncounted`
        // and raises `changed`. Rollback does not change `uncounted`.
        self.table.uncounted.publish(1);
        // The generation changes before and after the name, and the name is empty in between. A reader of the slot
        // notices the new generation or the empty name.
        slot.generation.set(&mut section, slot.generation.get().wrapping_add(1));
        slot.name_bytes.set(&mut section, 0);
        failpoint("buffer: renames a file, section open");
        for (index, word) in slot.name.iter().enumerate() {
            word.set(&mut section, word_of(name.as_bytes(), index));
        }
        slot.name_bytes.set(&mut section, u32::try_from(name.len()).expect("names have at most 200 bytes"));
        slot.generation.set(&mut section, slot.generation.get().wrapping_add(1));
        section.close();
        failpoint("buffer: file renamed, not counted");
        self.count_change();
    }
}

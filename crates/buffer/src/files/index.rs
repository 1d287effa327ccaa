//! A map in each process from a file's number or name to its slot in the table of files, which all processes share.
//!
//! The table's slots are used in their order, from the first slot. `used` is the number of slots that were ever live; a
//! session raises it after it has made a slot live. A session that reuses a slot, or renames the file of a slot, raises
//! `changed`. So a process reads each slot once, and reads all slots again only after `changed` has grown. A search for
//! a file that is not registered need not read the whole table.
//!
//! Invariant: the map is a hint. The caller checks the slot.
//!
//! If a session dies between making a slot live and raising `used` or `changed`: lookups miss that file. The next
//! session to register, rename or take out a file, or to write a page of the missed file, raises both.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rio::Slab;

use super::slot::{read, FileInfo, FileSlot, FileTable};
use crate::FileId;

/// The part of the table that one process knows.
#[derive(Default)]
pub(super) struct FileIndex(Mutex<Known>);

#[derive(Default)]
struct Known {
    by_id: HashMap<FileId, u32>,
    by_name: HashMap<String, u32>,
    /// The number of slots that were read.
    read_to: u32,
    /// The value of `changed` when these slots were read.
    changed: u32,
}

impl FileIndex {
    /// Returns the number of a file's slot.
    pub(super) fn of_id(&self, id: FileId, table: &FileTable, slots: &Slab<FileSlot>) -> Option<u32> {
        self.up_to_date(table, slots).by_id.get(&id).copied()
    }

    /// Returns the number of the slot of the file with that name.
    pub(super) fn of_name(&self, name: &str, table: &FileTable, slots: &Slab<FileSlot>) -> Option<u32> {
        self.up_to_date(table, slots).by_name.get(name).copied()
    }

    /// Reads the slots in use that this process does not know yet, and returns the whole map. Shared words are read
    /// without the mutex: at each of them the scheduler of the test suite `schedules` may switch to another thread.
    fn up_to_date(&self, table: &FileTable, slots: &Slab<FileSlot>) -> MutexGuard<'_, Known> {
        loop {
            let (changed, used) = (table.changed.load(), table.used.load().min(slots.capacity()));
            let read_to = {
                let mut known = self.known();
                if known.changed != changed {
                    *known = Known { changed, ..Known::default() };
                }
                if known.read_to >= used {
                    return known;
                }
                known.read_to
            };
            let slot = |number: u32| read(slots.at(number)).map(|(info, _)| (number, info));
            let found: Vec<(u32, FileInfo)> = (read_to + 1..=used).filter_map(slot).collect();
            let mut known = self.known();
            // Another thread may have reset the map meanwhile.
            if known.changed == changed && known.read_to >= read_to {
                for (number, info) in found {
                    known.by_id.insert(info.id, number);
                    known.by_name.insert(info.name, number);
                }
                known.read_to = known.read_to.max(used);
                return known;
            }
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

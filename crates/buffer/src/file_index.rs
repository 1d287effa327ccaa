//! Which slot of the table of files a number or a name has: a map in each process, over what all processes share.
//!
//! The table's slots are used from the first on. `used` says how many were ever live, and is raised after a slot is live. A
//! slot that is used again, or has another name, raises `changed`. So a process reads each slot once, and all slots again
//! only when `changed` is raised. Looking up a file that is not registered costs no walk through the table.
//!
//! Invariant: the map is a hint. The caller looks at the slot.
//!
//! If a session dies between making a slot live and raising `used`: lookups miss that file, and the next session to
//! register a file raises `used`.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rio::Slab;

use crate::files::{read, FileSlot, FileTable};
use crate::FileId;

/// What one process knows of the table.
#[derive(Default)]
pub(crate) struct FileIndex(Mutex<Known>);

#[derive(Default)]
struct Known {
    by_id: HashMap<FileId, u32>,
    by_name: HashMap<String, u32>,
    /// The slots up to here were read.
    read_to: u32,
    /// What `changed` was then.
    changed: u32,
}

impl FileIndex {
    /// The slot's number of a file.
    pub(crate) fn of_id(&self, id: FileId, table: &FileTable, slots: &Slab<FileSlot>) -> Option<u32> {
        self.up_to_date(table, slots).by_id.get(&id).copied()
    }

    /// The slot's number of a name.
    pub(crate) fn of_name(&self, name: &str, table: &FileTable, slots: &Slab<FileSlot>) -> Option<u32> {
        self.up_to_date(table, slots).by_name.get(name).copied()
    }

    fn up_to_date(&self, table: &FileTable, slots: &Slab<FileSlot>) -> MutexGuard<'_, Known> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let changed = table.changed.load();
        if known.changed != changed {
            *known = Known { changed, ..Known::default() };
        }
        let used = table.used.load().min(slots.capacity());
        for number in known.read_to + 1..=used {
            if let Some((info, _)) = read(slots.at(number)) {
                known.by_id.insert(info.id, number);
                known.by_name.insert(info.name, number);
            }
        }
        known.read_to = known.read_to.max(used);
        known
    }
}

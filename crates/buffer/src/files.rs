//! Database files: their numbers, names and page sizes in the region, their descriptors in each process.
//!
//! Paper: LIBTP 3.2.2, and its source's split into `buf_fids` in shared memory and `fds[]` in the process. Making and
//! removing a file is the record manager's task. Here a file is registered under its number, and any process finds it
//! again.
//!
//! Page `n` of a file is at byte `n` times its page size. Page 0 is the file's header, which is written when the file
//! is made and never again. It has the same checksum as every page.
//!
//! | file | contents |
//! |---|---|
//! | `slot` | the words of a file and of the table |
//! | `registering` | adds a file to the table, renames it there, and removes it |
//! | `index` | finds the slot of a number or name, in each process |
//! | `opening`, `identity` | opens the file in a process, and checks that it is the database's file |
//! | `open_file` | an open file: its blocks, and how far it was written |
//! | `unrepeated` | log records that could not be repeated because their file is missing |
//!
//! Latches: the table's latch (rank 52, like those of all small tables in this crate).

mod identity;
mod index;
mod open_file;
mod opening;
mod registering;
mod slot;
mod unrepeated;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, RwLock};

use libtp_io::Directory;
use libtp_log::Lsn;
use rio::{Held, Offset, Region, Slab};

pub use identity::environment_of;
pub(crate) use identity::{closed, is_own};
pub(crate) use open_file::OpenFile;
pub use slot::FileInfo;
pub(crate) use slot::{FileSlot, FileTable};

use index::FileIndex;
use slot::{read, LIVE};

use crate::{BufferManager, Error, FileId, Registry, Result};

const FILES_FIRST: u32 = 8;

/// One process's handle to the table of files.
pub(crate) struct Files {
    region: Region,
    directory: Arc<dyn Directory>,
    table: Held<FileTable>,
    slots: Slab<FileSlot>,
    index: FileIndex,
    registry: Registry,
    /// The value of `renamed` when names were last read.
    renamed: AtomicU32,
    /// For each file, the first log record that a restart by this process could not repeat.
    unrepeated_from: Mutex<HashMap<FileId, Lsn>>,
    open: RwLock<HashMap<FileId, Arc<OpenFile>>>,
}

impl Files {
    /// Makes an empty table.
    pub(crate) fn init(region: &Region) -> Result<Offset<FileTable>> {
        let place = region.allocate::<FileTable>(1)?;
        region.at(place).slots.init(Some(Slab::<FileSlot>::init(region, FILES_FIRST)?));
        Ok(place)
    }

    /// Opens the table at `place`. The files are in `directory`.
    pub(crate) fn attach(region: &Region, place: Offset<FileTable>, directory: Arc<dyn Directory>) -> Files {
        let table = region.hold(place);
        let slots = table.slots.load().expect("the table of files was made before it is opened");
        Files {
            region: region.clone(),
            registry: Registry::new(Arc::clone(&directory), environment_of(region)),
            directory,
            slots: Slab::attach(region, slots),
            table,
            index: FileIndex::default(),
            renamed: AtomicU32::new(0),
            unrepeated_from: Mutex::default(),
            open: RwLock::new(HashMap::new()),
        }
    }

    /// Returns the files of the table at `place`, in a region to which no other process is attached.
    pub(crate) fn listed_in(region: &Region, place: Offset<FileTable>) -> Vec<FileInfo> {
        let Some(slots) = region.at(place).slots.load() else { return Vec::new() };
        let slots = Slab::<FileSlot>::attach(region, slots);
        (1..=slots.capacity()).filter_map(|number| read(slots.at(number)).map(|(info, _)| info)).collect()
    }

    pub(crate) fn region(&self) -> &Region {
        &self.region
    }

    pub(crate) fn directory(&self) -> &dyn Directory {
        &*self.directory
    }

    /// Returns every registered file.
    pub(crate) fn live(&self) -> impl Iterator<Item = FileInfo> + '_ {
        self.numbers().filter_map(|number| read(self.slots.at(number)).map(|(info, _)| info))
    }

    /// Returns whether the file is registered, and the last restart skipped none of its log records because the file
    /// was missing. If so, pages of the file may be in memory.
    pub(crate) fn is_used(&self, id: FileId) -> bool {
        self.slot_of(id).is_some_and(|slot| slot.unrepeated_from.load().is_none())
    }

    /// Returns the register of databases.
    pub(crate) fn registry(&self) -> &Registry {
        let renamed = self.table.renamed.load();
        // Relaxed: reading names once too often only costs time.
        if self.renamed.swap(renamed, Ordering::Relaxed) != renamed {
            self.registry.forget_names();
        }
        &self.registry
    }

    /// Makes all processes read the names again, because a database has another name in the register.
    pub(crate) fn note_renamed(&self) {
        self.table.renamed.fetch_add(1);
    }

    /// Returns whether the file is registered.
    pub(crate) fn has(&self, id: FileId) -> bool {
        self.slot_of(id).is_some()
    }

    fn slot_of(&self, id: FileId) -> Option<&FileSlot> {
        let slot = self.slots.at(self.index.of_id(id, &self.table, &self.slots)?);
        (slot.state.load() == LIVE && slot.id.get() == id).then_some(slot)
    }

    /// Returns the registered file with the number `id`.
    pub(crate) fn by_id(&self, id: FileId) -> Option<FileInfo> {
        read(self.slot_of(id)?).map(|(info, _)| info).filter(|info| info.id == id)
    }

    /// Returns the registered file with the name `name`.
    pub(crate) fn by_name(&self, name: &str) -> Option<FileInfo> {
        let slot = self.slots.at(self.index.of_name(name, &self.table, &self.slots)?);
        read(slot).map(|(info, _)| info).filter(|info| info.name == name)
    }

    fn numbers(&self) -> std::ops::RangeInclusive<u32> {
        1..=self.slots.capacity()
    }

    /// Frees the latch. No other session is attached.
    pub(crate) fn reset_alone(&self) {
        self.table.latch.reset_alone();
    }
}

impl BufferManager {
    /// Makes all users of a file agree on a number that has no meaning in this crate. The first number that is not zero
    /// is kept as long as any process is attached. Returns this number.
    ///
    /// # Errors
    /// [`Error::UnknownFile`].
    pub fn agree(&self, id: FileId, wish: u64) -> Result<u64> {
        let slot = self.files.slot_of(id).ok_or(Error::UnknownFile { file: id })?;
        match slot.agreed.compare_exchange(0, wish) {
            Ok(_) => Ok(wish),
            Err(agreed) => Ok(agreed),
        }
    }
}

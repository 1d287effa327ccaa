//! Database files: their numbers, names and page sizes in the region, their descriptors in each process.
//!
//! Paper: LIBTP 3.2.2, and its source's split into `buf_fids` in shared memory and `fds[]` in the process. Making and
//! removing a file is the record manager's task. Here a file is registered under its number, and any process finds it
//! again.
//!
//! Page `n` of a file lies at byte `n` times its page size. Page 0 is the file's header, written when the file is made
//! and never again; it passes the same checksum as every page.
//!
//! Invariants
//! 1. A slot's words are stored before `state` says that it is live. A reader of the slot looks at `state` and
//!    `generation` before and after.
//! 2. A file's number is never used again. A slot is used again, with a new generation.
//!
//! Latches: the table's (rank 52, as of all small tables here).
//!
//! If a session dies here: registering is one section and one store.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use libtp_io::{Directory, File, Identity, OpenMode};
use libtp_log::Lsn;
use libtp_process::{Latch, Rank, Session};
use rio::{failpoint, planted, Held, Link, Offset, Region, Slab, SlabHeader, Word};

use crate::file_index::FileIndex;
use crate::frame::{FrameSlot, State};
use crate::get::ANY_PAGE;
use crate::own_file::{check_own, environment_of};
use crate::page_header::is_page_size;
use crate::pool::{FrameInHand, PoolId, PoolPart};
use crate::{BufferManager, Entry, Error, FileId, PageId, Registry, Result};

const FILES_FIRST: u32 = 8;
/// The longest name, in bytes.
pub const NAME_BYTES_MAX: usize = 200;
const NAME_WORDS: usize = 26;
const OWED: &str =
    "its file was away when the environment was opened, and its changes in the log wait to be repeated: with the \
                    file in its place, close the environment everywhere and open it again";
/// A planted bug (rio's `planted`): pages go into a file that another file has replaced.
const REPLACED: &str = "buffer: a file that was replaced is written on";
/// The pause between two looks at a busy frame whose file is given up.
const SLICE: Duration = Duration::from_micros(300);
/// The most looks at a busy frame.
const GIVE_UP_TRIES: u32 = 10_000;
/// The most looks at a slot while another session renames its file.
const RENAMED_LOOKS: u32 = 10_000;
const FREE: u32 = 0;
const LIVE: u32 = 1;
/// A file is extended by its own length, but by at least and at most these bytes at a time.
const EXTEND_BYTES_MIN: u64 = 64 << 10;
const EXTEND_BYTES_MAX: u64 = 4 << 20;

rio::shared! {
    /// A registered file.
    pub(crate) struct FileSlot {
        /// Whether the slot has a file.
        pub(crate) state: Word<u32>,
        /// Counts the files that had this slot.
        pub(crate) generation: Word<u32>,
        /// The file's number.
        pub(crate) id: Word<FileId>,
        /// Bytes of a page.
        pub(crate) page_bytes: Word<u32>,
        /// The pool its pages go to.
        pub(crate) pool: Word<u32>,
        /// Bytes of the name.
        pub(crate) name_bytes: Word<u32>,
        /// Bytes the file has blocks for, as far as known. Only grows.
        pub(crate) allocated: Word<u64>,
        /// The number that all users of the file have agreed on, see [`BufferManager::agree`]; zero before the first.
        pub(crate) agreed: Word<u64>,
        /// The end of the pages that may ever have been written; zero while no session has looked. Only grows.
        pub(crate) written: Word<u64>,
        /// The name, padded with zeros.
        pub(crate) name: [Word<u64>; 26],
        /// The oldest log record that a restart could not repeat because the file was away; `Lsn::NONE` if there is no
        /// such record.
        pub(crate) unrepeated_from: Word<Lsn>,
        /// The file that bore the name when it was first opened, see `identity_word`; zero before that.
        pub(crate) identity: Word<u64>,
        /// Zero, kept for later.
        pub(crate) spare: [Word<u64>; 6],
    } size 320
}

rio::shared! {
    /// The table of files.
    pub(crate) struct FileTable {
        /// Guards registering.
        pub(crate) latch: Latch,
        /// The slots.
        pub(crate) slots: Link<SlabHeader>,
        /// The slots up to this number were live at some time. Only grows.
        pub(crate) used: Word<u32>,
        /// Counts the slots that were used again.
        pub(crate) changed: Word<u32>,
        /// How many slots are free again, at least.
        pub(crate) freed: Word<u32>,
        /// Counts the databases that got other names.
        pub(crate) renamed: Word<u32>,
        /// The least of all `unrepeated_from`: redo begins there as long as this region lives. `Lsn::NONE` if there is no such
        /// record.
        pub(crate) unrepeated_from: Word<Lsn>,
        /// Not zero while `changed` may not count a slot that was used again or has another name.
        pub(crate) uncounted: Word<u64>,
    } size 48
}

/// A registered file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileInfo {
    /// Its number.
    pub id: FileId,
    /// Its name, without `.tp`.
    pub name: String,
    /// Bytes of a page.
    pub page_bytes: u32,
    /// The pool its pages go to.
    pub pool: PoolId,
}

impl FileInfo {
    /// Returns the file of a register's entry, in the pool that all databases have.
    pub fn of(entry: &Entry) -> FileInfo {
        FileInfo { id: entry.id, name: entry.name.clone(), page_bytes: entry.page_bytes, pool: PoolId::DEFAULT }
    }

    /// Returns the file's name in the environment's directory.
    pub fn file_name(&self) -> String {
        file_name(&self.name)
    }
}

/// Returns the name in the directory of the database `name`.
pub fn file_name(name: &str) -> String {
    format!("{name}.tp")
}

/// A file this process has open.
pub(crate) struct OpenFile {
    pub(crate) info: FileInfo,
    pub(crate) file: Arc<dyn File>,
    slot: Held<FileSlot>,
    generation: u32,
}

impl OpenFile {
    /// Returns whether the slot is still this file's.
    fn is_current(&self) -> bool {
        self.slot.state.load() == LIVE && self.slot.generation.load() == self.generation
    }

    /// Returns where a page begins.
    pub(crate) fn offset(&self, id: PageId) -> u64 {
        id.page().offset(self.info.page_bytes)
    }

    /// Makes sure that the page `id` can be written without being refused for want of room.
    ///
    /// The file is extended by its own length, up to 4 MiB at a time: a later page seldom changes the file's metadata.
    pub(crate) fn make_room(&self, id: PageId) -> Result<()> {
        let needed = self.offset(id) + u64::from(self.info.page_bytes);
        let had = self.slot.allocated.load();
        if needed <= had {
            return Ok(());
        }
        let length = self.file.len()?;
        let target = match needed > length {
            true => length + length.clamp(EXTEND_BYTES_MIN, EXTEND_BYTES_MAX),
            // There may be holes before the end: a refused step can leave the file longer without blocks.
            false => length,
        };
        let mut allocated = needed.max(target).next_multiple_of(u64::from(self.info.page_bytes));
        // Only from where the file has no blocks: tmpfs looks at each page of the range.
        if self.file.allocate(had..allocated).is_err() {
            // A disk too full for a whole step may have room for the bytes that are needed now.
            allocated = needed;
            self.file.allocate(had..allocated)?;
        }
        failpoint("buffer: file longer, not said");
        // Below `allocated` no byte may be without blocks. So nothing is stored if another session has changed the word
        // since, or the slot is another file's by now: this session has then only allocated in vain.
        if self.is_current() {
            let _ = self.slot.allocated.compare_exchange(had, allocated);
        }
        Ok(())
    }

    /// Notes where the file ends, if no session has since it was registered: the pages before may have been written
    /// then. Called before the file is made longer.
    pub(crate) fn note_end(&self) -> Result<()> {
        if self.slot.written.load() == 0 {
            let end = self.file.len()?.div_ceil(u64::from(self.info.page_bytes));
            // Page 0 was written when the file was made.
            self.slot.written.fetch_max(end.max(1));
        }
        Ok(())
    }

    /// Notes that `pages` pages from `id` on may have been written. Called before they are.
    pub(crate) fn note_written(&self, id: PageId, pages: u64) -> Result<()> {
        self.note_end()?;
        let end = u64::from(id.page().raw()) + pages;
        if self.slot.written.load() < end {
            self.slot.written.fetch_max(end);
        }
        Ok(())
    }

    /// Returns whether no session can have written the page `id`. The caller has the page in the table, so no session
    /// is about to.
    pub(crate) fn was_never_written(&self, id: PageId) -> bool {
        let end = self.slot.written.load();
        end != 0 && u64::from(id.page().raw()) >= end
    }

    /// Makes the error that a page of the file is damaged.
    pub(crate) fn corrupt(&self, id: PageId, what: &dyn std::fmt::Display) -> Error {
        Error::Corrupt { file: self.info.file_name(), page: id.page(), what: what.to_string() }
    }
}

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

    /// Opens the table at `place`; the files lie in `directory`.
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

    /// Returns the files of the table at `place`, in a region that no other process is attached to.
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

    /// Makes every process read the slots anew. The caller has the table's latch.
    fn count_change(&self) {
        self.table.changed.fetch_add(1);
        self.table.uncounted.publish(0);
    }

    /// Counts the changes that dead sessions made and did not count. The caller has the table's latch.
    fn note_the_dead_ones(&self) {
        if self.table.uncounted.load() != 0 && !planted("buffer: a slot that a dead process made live is not counted") {
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

    /// Takes a file out of the table. Its frames are given up afterwards, see [`BufferManager::forget_file`].
    pub(crate) fn unregister(&self, session: &Session, id: FileId) {
        let _guard = self.table.latch.exclusive(session, Rank::REPLACER);
        self.note_the_dead_ones();
        if let Some(slot) = self.slot_of(id) {
            slot.state.publish(FREE);
            self.table.freed.fetch_add(1);
        }
        self.open.write().unwrap_or_else(PoisonError::into_inner).remove(&id);
    }

    /// Returns every registered file.
    pub(crate) fn live(&self) -> impl Iterator<Item = FileInfo> + '_ {
        self.numbers().filter_map(|number| read(self.slots.at(number)).map(|(info, _)| info))
    }

    /// Returns the file of that number. Opens it if this process has not opened it yet.
    pub(crate) fn open(&self, id: FileId) -> Result<Arc<OpenFile>> {
        let known = self.open.read().unwrap_or_else(PoisonError::into_inner).get(&id).cloned();
        if let Some(file) = known.filter(|file| file.is_current()) {
            return Ok(file);
        }
        let slot = self.slot_of(id).ok_or(Error::UnknownFile { file: id })?;
        let (info, generation) = self.read_whole(slot, id).ok_or(Error::UnknownFile { file: id })?;
        let away = |what: &str| Error::Away { name: info.name.clone(), what: what.into() };
        if !slot.unrepeated_from.load().is_none() {
            return Err(away(OWED));
        }
        let file = match self.open_by_name(&info) {
            Err(Error::Io(error @ libtp_io::Error::Unsuitable { .. })) => return Err(away(&error.to_string())),
            file => file?.ok_or_else(|| away("its file is missing"))?,
        };
        // A planted bug (rio's `planted`): pages go into any file that has the name.
        if !planted("buffer: a file is taken for a database's by its name") && self.registry.entry(id)?.is_some() {
            check_own(&*file, &info, environment_of(&self.region))?;
        }
        if !note_identity(slot, identity_word(&file.identity()?, id), id) && !planted(REPLACED) {
            return Err(away("another file was put in its place while the environment was in use"));
        }
        let slot = self.region.hold(self.region.offset_of(slot));
        let opened = Arc::new(OpenFile { info, file, slot, generation });
        // If two threads open it at once, one descriptor is closed with its last use.
        self.open.write().unwrap_or_else(PoisonError::into_inner).insert(id, opened.clone());
        Ok(opened)
    }

    /// Does as [`Files::open`], for pages that are to be written: `UnknownFile` means that the file was taken out of
    /// the table. A dead session may have made the file's slot live without counting it. This call counts it, and all
    /// processes find the file from now on.
    pub(crate) fn open_for_pages(&self, session: &Session, id: FileId) -> Result<Arc<OpenFile>> {
        match self.open(id) {
            Err(Error::UnknownFile { .. }) => {
                let guard = self.table.latch.exclusive(session, Rank::REPLACER);
                self.note_the_dead_ones();
                drop(guard);
                self.open(id)
            }
            opened => opened,
        }
    }

    /// Returns the contents of the file's slot. A session that renames the file changes the slot within a moment; if it
    /// dies in that moment, the change is rolled back.
    fn read_whole(&self, slot: &FileSlot, id: FileId) -> Option<(FileInfo, u32)> {
        for _ in 0..RENAMED_LOOKS {
            match read(slot).filter(|(info, _)| info.id == id) {
                None if slot.state.load() == LIVE && slot.id.load() == id => std::thread::yield_now(),
                found => return found,
            }
        }
        None
    }

    /// Checks that the open file still bears the database's name: pages that go into a file without the name are lost.
    /// If another file or no file bears the name, this process closes the file, so that its next use looks for the name.
    ///
    /// # Errors
    /// [`Error::Away`]; a failed look at the directory.
    pub(crate) fn check_in_place(&self, opened: &OpenFile) -> Result<()> {
        let (id, known) = (opened.info.id, opened.slot.identity.load());
        let bears = |name: &str| -> Result<bool> {
            let found = self.directory.identity_of(&file_name(name))?;
            Ok(found.is_some_and(|found| identity_word(&found, id) == known))
        };
        // The slot of a dropped file may be another file's.
        if planted(REPLACED) || !is_tagged(known, id) || bears(&opened.info.name)? {
            return Ok(());
        }
        if let Some(entry) = self.registry.entry(id)? {
            // A renaming gives the file one of these names. A dropped file needs no pages.
            let names = [Some(entry.name), entry.was];
            for name in names.iter().flatten() {
                if entry.is_dropped || bears(name)? {
                    return Ok(());
                }
            }
        }
        self.open.write().unwrap_or_else(PoisonError::into_inner).remove(&id);
        let what = "its file was moved away or replaced while the environment was in use".into();
        Err(Error::Away { name: opened.info.name.clone(), what })
    }

    /// Opens the file under the name that it has. While a database is renamed, the file has one of two names.
    fn open_by_name(&self, info: &FileInfo) -> Result<Option<Arc<dyn File>>> {
        if let Some(file) = existing(&*self.directory, &info.file_name())? {
            return Ok(Some(file));
        }
        let Some(entry) = self.registry.entry(info.id)?.filter(|entry| !entry.is_dropped) else { return Ok(None) };
        for name in [Some(entry.name), entry.was].into_iter().flatten() {
            if let Some(file) = existing(&*self.directory, &file_name(&name))? {
                return Ok(Some(file));
            }
        }
        Ok(None)
    }

    /// Does as [`Files::open`], for a database that may not be registered since the region was made.
    pub(crate) fn open_entered(&self, session: &Session, id: FileId) -> Result<Arc<OpenFile>> {
        match self.open(id) {
            Err(Error::UnknownFile { .. }) => {
                let entry = self.registry.entry(id)?.ok_or(Error::UnknownFile { file: id })?;
                if entry.is_dropped {
                    return Err(Error::Dropped { name: entry.name });
                }
                self.register(session, &FileInfo::of(&entry))?;
                // A session that drops the database enters the drop in the register first: one of the two sessions sees
                // the other.
                if self.registry.entry(id)?.is_some_and(|entry| entry.is_dropped) {
                    self.unregister(session, id);
                    return Err(Error::Dropped { name: entry.name });
                }
                self.open(id)
            }
            opened => opened,
        }
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
        // First: a process that looks while the name is empty passes over the slot, and looks again only after a count.
        // Roll-back leaves the word as it is.
        self.table.uncounted.publish(1);
        // The generation changes before and after the name, and the name is empty in between. A reader of the slot
        // notices either.
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

    /// Notes that a restart could not repeat the log record at `lsn`, because the file was away. If the file is
    /// registered, other sessions do not use it. Redo begins no later than `lsn` from now on in any case.
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

    /// Returns whether the file was used since the region was made.
    pub(crate) fn is_used(&self, id: FileId) -> bool {
        self.slot_of(id).is_some_and(|slot| slot.unrepeated_from.load().is_none())
    }

    /// Returns where redo must begin for files that are away.
    pub(crate) fn unrepeated_from(&self) -> Option<Lsn> {
        Some(self.table.unrepeated_from.load()).filter(|lsn| !lsn.is_none())
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

    /// Makes all processes read the names anew, because a database has another name in the register.
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

    /// Returns the registered file of that number.
    pub(crate) fn by_id(&self, id: FileId) -> Option<FileInfo> {
        read(self.slot_of(id)?).map(|(info, _)| info).filter(|info| info.id == id)
    }

    /// Returns the registered file of that name.
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
    /// Makes all users of a file agree on a number that means nothing here. The first number that is not zero stays, as
    /// long as any process is attached. Returns that number.
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

    /// Takes a file out of the table and gives its frames up, unwritten: the file was removed, or is about to be. No
    /// session uses its pages any more (the caller has a lock on the database), and the caller holds no latch.
    ///
    /// A frame that stays pinned, by a stopped process in a snapshot for example, is waited for a few seconds and then
    /// left. It is never written, and makes room like any other.
    ///
    /// If the session dies here: repair gives up the frames of a file that is not registered, and they are never
    /// written.
    pub fn forget_file(&self, session: &Session, id: FileId) {
        self.files.unregister(session, id);
        for (_, part) in self.pools.shelves() {
            for slot in part.frames().filter(|slot| slot.page.load().file() == id) {
                let mut tries = 0..GIVE_UP_TRIES;
                while tries.next().is_some() && !self.give_up_page(session, part, slot, id) {
                    // A writer may have died with a claim on the page.
                    self.settle_dead_writer(session);
                    session.sleep(SLICE);
                }
            }
        }
    }

    /// Frees a frame if it holds a page of the file. Returns false if the frame is busy.
    fn give_up_page(&self, session: &Session, part: &PoolPart, slot: &FrameSlot, id: FileId) -> bool {
        let Some(guard) = slot.latch.try_exclusive(session, ANY_PAGE) else { return false };
        if slot.page.get().file() != id || slot.state() != State::Resident {
            return true;
        }
        if !slot.unsynced.load().is_none() && !self.is_failed() {
            return false;
        }
        slot.recovery.publish(Lsn::NONE);
        slot.unsynced.publish(Lsn::NONE);
        if !self.table.remove(session, slot, 0) {
            return false;
        }
        part.push_free(session, FrameInHand { slot, guard });
        true
    }
}

/// Bits of an identity word that name the file's number: a session that was slow may note the file in a slot that
/// another file has by now.
const TAG: u64 = 0xFFFF;

/// Returns a word that tells two files of one filesystem apart. Not the device: processes in containers see one
/// filesystem under several device numbers.
fn identity_word(identity: &Identity, id: FileId) -> u64 {
    let mixed = identity.inode.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ identity.birth_ns.rotate_left(32);
    let hash = mixed ^ mixed << 16;
    hash & !TAG | u64::from(id.raw()) & TAG
}

fn is_tagged(word: u64, id: FileId) -> bool {
    word != 0 && word & TAG == u64::from(id.raw()) & TAG
}

/// Notes which file bears the database's name, if no session has. Returns whether it is this file.
fn note_identity(slot: &FileSlot, identity: u64, id: FileId) -> bool {
    loop {
        let known = slot.identity.load();
        if is_tagged(known, id) {
            return known == identity;
        }
        if slot.identity.compare_exchange(known, identity).is_ok() {
            return true;
        }
    }
}

fn existing(directory: &dyn Directory, name: &str) -> Result<Option<Arc<dyn File>>> {
    match directory.open(name, OpenMode::Existing) {
        Err(libtp_io::Error::NotFound { .. }) => Ok(None),
        file => Ok(Some(file?)),
    }
}

fn check(info: &FileInfo) -> Result<()> {
    let what = if info.id == FileId::NONE {
        "zero is no file's number".to_string()
    } else if info.name.is_empty() || info.name.len() > NAME_BYTES_MAX {
        format!("its name has {} bytes, it may have 1 to {NAME_BYTES_MAX}", info.name.len())
    } else if !is_page_size(info.page_bytes) {
        format!("its pages have {} bytes; pages have 4, 8, 16, 32 or 64 KiB", info.page_bytes)
    } else {
        return Ok(());
    };
    Err(Error::Unsuitable { name: info.name.clone(), what })
}

/// Returns the contents of a live slot, with its generation, if the slot did not change meanwhile.
pub(crate) fn read(slot: &FileSlot) -> Option<(FileInfo, u32)> {
    let generation = slot.generation.load();
    if slot.state.load() != LIVE {
        return None;
    }
    let bytes: Vec<u8> = slot.name.iter().flat_map(|word| word.load().to_le_bytes()).collect();
    let name = bytes.get(..slot.name_bytes.load() as usize)?;
    let info = FileInfo {
        id: slot.id.load(),
        name: String::from_utf8(name.to_vec()).ok()?,
        page_bytes: slot.page_bytes.load(),
        pool: PoolId(slot.pool.load()),
    };
    let same = slot.state.load() == LIVE && slot.generation.load() == generation;
    (same && check(&info).is_ok()).then_some((info, generation))
}

/// Returns eight bytes of a name, padded with zeros.
fn word_of(name: &[u8], index: usize) -> u64 {
    let mut eight = [0; 8];
    let rest = name.get(index * 8..).unwrap_or(&[]);
    let count = rest.len().min(8);
    eight[..count].copy_from_slice(&rest[..count]);
    u64::from_le_bytes(eight)
}

const _: () = assert!(NAME_WORDS * 8 >= NAME_BYTES_MAX);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_comes_back_from_its_words() {
        for name in ["a", "accounts", "a name of just over eight bytes, naïve"] {
            let bytes: Vec<u8> =
                (0..NAME_WORDS).flat_map(|index| word_of(name.as_bytes(), index).to_le_bytes()).collect();
            assert_eq!(&bytes[..name.len()], name.as_bytes());
            assert!(bytes[name.len()..].iter().all(|&byte| byte == 0));
        }
    }
}

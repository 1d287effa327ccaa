//! Database files: their numbers, names and page sizes in the region, their descriptors in each process.
//!
//! Paper: LIBTP 3.2.2, and its source's split into `buf_fids` in shared memory and `fds[]` in the process. Making and
//! removing a file is the record manager's; here a file is registered under its number, and found again by any process.
//!
//! Page `n` of a file lies at byte `n` times its page size. Page 0 is the file's header, written when the file is made
//! and never again; it passes the same checksum as every page.
//!
//! Invariants
//! 1. A slot's words are stored before `state` says that it is live; whoever reads one looks at `state` and `generation`
//!    before and after.
//! 2. A file's number is never used again; a slot is, with a new generation.
//!
//! Latches: the table's (rank 52, as of all small tables here). If we die here: registering is
//! one section and one store.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use libtp_io::{Directory, File, OpenMode};
use libtp_log::Lsn;
use libtp_process::{Latch, Rank, Session};
use rio::{failpoint, Held, Link, Offset, Region, Slab, SlabHeader, Word};

use crate::frame::{FrameSlot, State};
use crate::get::ANY_PAGE;
use crate::page_header::is_page_size;
use crate::pool::{PoolId, Shelf, Taken};
use crate::{BufferManager, Error, FileId, PageId, Result};

const FILES_FIRST: u32 = 8;
/// The longest name, in bytes.
pub const NAME_BYTES_MAX: usize = 200;
const NAME_WORDS: usize = 26;
/// So often who gives a file's frames up looks again at one that is busy.
const SLICE: Duration = Duration::from_micros(300);
const FREE: u32 = 0;
const LIVE: u32 = 1;
/// A file is extended by what it has, but at least and at most so many bytes at a time.
const EXTEND_BYTES_MIN: u64 = 64 << 10;
const EXTEND_BYTES_MAX: u64 = 4 << 20;

rio::shared! {
    /// A registered file.
    pub(crate) struct FileSlot {
        /// Whether it is one.
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
        /// What all who use the file have agreed on, see [`BufferManager::agree`]; zero before the first.
        pub(crate) agreed: Word<u64>,
        /// The end of the pages that may ever have been written, zero while nobody has looked. Only grows.
        pub(crate) written: Word<u64>,
        /// The name, padded with zeros.
        pub(crate) name: [Word<u64>; 26],
    } size 256
}

rio::shared! {
    /// The table of files.
    pub(crate) struct FileTable {
        /// Guards registering.
        pub(crate) latch: Latch,
        /// The slots.
        pub(crate) slots: Link<SlabHeader>,
    } size 16
}

/// What is known of a registered file.
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
    /// The file's name in the environment's directory.
    pub fn file_name(&self) -> String {
        file_name(&self.name)
    }
}

/// The name in the directory of the database `name`.
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
    /// Whether its slot is still its own.
    fn is_current(&self) -> bool {
        self.slot.state.load() == LIVE && self.slot.generation.load() == self.generation
    }

    /// Where a page begins.
    pub(crate) fn offset(&self, id: PageId) -> u64 {
        id.page().offset(self.info.page_bytes)
    }

    /// Makes sure that the page `id` can be written without being refused for want of room.
    ///
    /// The file is extended by what it has, up to 4 MiB at a time: a later page seldom changes the file's metadata.
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
        // Only from where it has none: tmpfs looks at each page of what is asked for.
        if self.file.allocate(had..allocated).is_err() {
            // A disk too full for a whole step may have room for what is needed now.
            allocated = needed;
            self.file.allocate(had..allocated)?;
        }
        failpoint("buffer: file longer, not said");
        // Nothing below what is said may be without blocks: so not where anybody has said something since, or the slot is another file's by
        // now. Who fails has only asked in vain.
        if self.is_current() {
            let _ = self.slot.allocated.compare_exchange(had, allocated);
        }
        Ok(())
    }

    /// Looks where the file ends, if nobody has since it was registered: what lies before that may have been written then. To be called
    /// before the file is made longer.
    pub(crate) fn note_end(&self) -> Result<()> {
        if self.slot.written.load() == 0 {
            let end = self.file.len()?.div_ceil(u64::from(self.info.page_bytes));
            // Page 0 was written when the file was made.
            self.slot.written.fetch_max(end.max(1));
        }
        Ok(())
    }

    /// Says that so many pages from `id` on may have been written. To be called before they are.
    pub(crate) fn note_written(&self, id: PageId, pages: u64) -> Result<()> {
        self.note_end()?;
        let end = u64::from(id.page().raw()) + pages;
        if self.slot.written.load() < end {
            self.slot.written.fetch_max(end);
        }
        Ok(())
    }

    /// Whether nobody can have written the page `id`: asked by who has it in the table, so that nobody is about to.
    pub(crate) fn was_never_written(&self, id: PageId) -> bool {
        let end = self.slot.written.load();
        end != 0 && u64::from(id.page().raw()) >= end
    }

    /// How an error names a page of it.
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
            directory,
            slots: Slab::attach(region, slots),
            table,
            open: RwLock::new(HashMap::new()),
        }
    }

    /// What the table at `place` has, of a region that nobody else is attached to.
    pub(crate) fn listed_in(region: &Region, place: Offset<FileTable>) -> Vec<FileInfo> {
        let Some(slots) = region.at(place).slots.load() else { return Vec::new() };
        let slots = Slab::<FileSlot>::attach(region, slots);
        (1..=slots.capacity()).filter_map(|number| read(slots.at(number)).map(|(info, _)| info)).collect()
    }

    pub(crate) fn directory(&self) -> &dyn Directory {
        &*self.directory
    }

    /// Enters a file. Entering the same again changes nothing.
    pub(crate) fn register(&self, session: &Session, info: &FileInfo) -> Result<()> {
        check(info)?;
        let _guard = self.table.latch.exclusive(session, Rank::REPLACER);
        if let Some(known) = self.live().find(|known| known.id == info.id || known.name == info.name) {
            let what = format!("{} is registered as number {}", known.file_name(), known.id);
            return if known == *info { Ok(()) } else { Err(Error::Unsuitable { name: info.name.clone(), what }) };
        }
        let slot = loop {
            let free = self.numbers().map(|number| self.slots.at(number)).find(|slot| slot.state.get() == FREE);
            match free {
                Some(slot) => break slot,
                None => {
                    self.slots.grow()?;
                }
            }
        };
        let mut section = session.section();
        failpoint("buffer: registers a file, section open");
        slot.generation.set(&mut section, slot.generation.get().wrapping_add(1));
        slot.id.set(&mut section, info.id);
        slot.page_bytes.set(&mut section, info.page_bytes);
        slot.pool.set(&mut section, info.pool.0);
        slot.allocated.set(&mut section, 0);
        slot.written.set(&mut section, 0);
        slot.agreed.set(&mut section, 0);
        slot.name_bytes.set(&mut section, u32::try_from(info.name.len()).expect("names have at most 200 bytes"));
        for (index, word) in slot.name.iter().enumerate() {
            word.set(&mut section, word_of(info.name.as_bytes(), index));
        }
        failpoint("buffer: file registered, section open");
        section.close();
        failpoint("buffer: file registered, not live");
        slot.state.publish(LIVE);
        Ok(())
    }

    /// Takes a file out. Its frames were given up before.
    pub(crate) fn unregister(&self, session: &Session, id: FileId) {
        let _guard = self.table.latch.exclusive(session, Rank::REPLACER);
        if let Some(slot) = self.slot_of(id) {
            slot.state.publish(FREE);
        }
        self.open.write().unwrap_or_else(PoisonError::into_inner).remove(&id);
    }

    /// Every registered file.
    pub(crate) fn live(&self) -> impl Iterator<Item = FileInfo> + '_ {
        self.numbers().filter_map(|number| read(self.slots.at(number)).map(|(info, _)| info))
    }

    /// The file of that number, opened in this process if it was not yet.
    pub(crate) fn open(&self, id: FileId) -> Result<Arc<OpenFile>> {
        let known = self.open.read().unwrap_or_else(PoisonError::into_inner).get(&id).cloned();
        if let Some(file) = known.filter(|file| file.is_current()) {
            return Ok(file);
        }
        let slot = self.slot_of(id).ok_or(Error::UnknownFile { file: id })?;
        let (info, generation) = read(slot).filter(|(info, _)| info.id == id).ok_or(Error::UnknownFile { file: id })?;
        let file = self.directory.open(&info.file_name(), OpenMode::Existing)?;
        let slot = self.region.hold(self.region.offset_of(slot));
        let opened = Arc::new(OpenFile { info, file, slot, generation });
        // Of two that open it at once, one descriptor is closed with the last use of it.
        self.open.write().unwrap_or_else(PoisonError::into_inner).insert(id, opened.clone());
        Ok(opened)
    }

    /// Whether the file is registered.
    pub(crate) fn has(&self, id: FileId) -> bool {
        self.slot_of(id).is_some()
    }

    fn slot_of(&self, id: FileId) -> Option<&FileSlot> {
        let mut slots = self.numbers().map(|number| self.slots.at(number));
        slots.find(|slot| slot.state.load() == LIVE && slot.id.get() == id)
    }

    fn numbers(&self) -> std::ops::RangeInclusive<u32> {
        1..=self.slots.capacity()
    }

    /// Frees the latch. Nobody else is attached.
    pub(crate) fn reset_alone(&self) {
        self.table.latch.reset_alone();
    }
}

impl BufferManager {
    /// Lets all who use a file agree on a number that means nothing here: the first to wish for one, not zero, has it until
    /// nobody is attached any more. Returns it.
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

    /// Takes a file out of the table and gives its frames up, unwritten: the file was, or is about to be, removed.
    /// Nobody uses its pages any more (the caller has seen to that, by a lock on the database), and the caller holds no
    /// latch.
    ///
    /// If we die here: frames of a file that is not registered are given up by repair, and never written.
    pub fn forget_file(&self, session: &Session, id: FileId) {
        self.files.unregister(session, id);
        for (_, shelf) in self.pools.shelves() {
            for slot in shelf.frames().filter(|slot| slot.page.load().file() == id) {
                while !self.give_up_page(session, shelf, slot, id) {
                    session.sleep(SLICE);
                }
            }
        }
    }

    /// Frees a frame if it holds a page of the file. Returns false if somebody is busy with it.
    fn give_up_page(&self, session: &Session, shelf: &Shelf, slot: &FrameSlot, id: FileId) -> bool {
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
        shelf.push_free(session, Taken { slot, guard });
        true
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

/// What a slot says, with its generation, if it is live and did not change meanwhile.
fn read(slot: &FileSlot) -> Option<(FileInfo, u32)> {
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

/// Eight bytes of a name, padded with zeros.
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

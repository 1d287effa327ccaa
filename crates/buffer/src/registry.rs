//! The register of databases: a file with the file numbers and names of all databases.
//!
//! Not in the paper. A directory does not show whether a database was dropped or its file is missing. The register
//! shows this: a database is entered before the log has a record of it, and only a drop marks the entry as dropped.
//!
//! The file `databases` has one slot of 512 bytes for each file number, at offset 512 times the number. Slot 0 is the
//! front.
//! Byte table: docs/formats/databases.md.
//!
//! Invariants
//! 1. A database is entered, and the entry is synced, before the file is registered in the region. So the log has no
//!    record of a database that is not entered.
//! 2. A number is never used again. A name can be used again after its database was dropped.
//!
//! If a session dies here: a slot is written by one call, and its checksum shows whether it is torn or damaged. A torn
//! or damaged slot has no entry. A restart enters the database again if its file exists. If a crash has torn the slot,
//! the log has no record of the number.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use libtp_io::{is_foreign, Directory, File, Identity, OpenMode};
use rio::failpoint;
use zerocopy::little_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::{Error, FileId, Result};

/// The register's name in the environment's directory.
pub const REGISTRY_NAME: &str = "databases";
/// The longest name of a database, in bytes.
pub const NAME_BYTES_MAX: usize = 200;
const UNFINISHED: &str = "databases.new";
const MAGIC: [u8; 8] = *b"libtpdbs";
const VERSION: u32 = 1;
const SLOT_BYTES: usize = 512;
/// The number of slots that are read in one call.
const SLOTS_A_READ: u32 = 512;
const LIVE: u32 = 1;
const DROPPED: u32 = 2;

/// Slot 0. See docs/formats/databases.md.
#[derive(FromBytes, IntoBytes, Unaligned, Immutable, KnownLayout, Clone, Copy)]
#[repr(C)]
struct Front {
    magic: [u8; 8],
    version: U32,
    /// CRC-32C of bytes 16 to 511.
    crc: U32,
    environment: [u8; 16],
    zero: [u8; 480],
}

/// Any other slot. See docs/formats/databases.md.
#[derive(FromBytes, IntoBytes, Unaligned, Immutable, KnownLayout, Clone, Copy)]
#[repr(C)]
struct Slot {
    /// CRC-32C of bytes 4 to 511.
    crc: U32,
    state: U32,
    id: U32,
    page_bytes: U32,
    name_bytes: U32,
    /// Bytes of the earlier name, which the file may still have; zero if there is no earlier name.
    was_bytes: U32,
    zero_small: [u8; 8],
    name: [u8; NAME_BYTES_MAX],
    was: [u8; NAME_BYTES_MAX],
    zero: [u8; 80],
}

const _: () = assert!(size_of::<Front>() == SLOT_BYTES && size_of::<Slot>() == SLOT_BYTES);

/// The register's entry of a file number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The file's number.
    pub id: FileId,
    /// The database's name.
    pub name: String,
    /// Bytes of a page.
    pub page_bytes: u32,
    /// Whether the database was dropped.
    pub is_dropped: bool,
    /// The old name, while a database is renamed: the file may still have this name.
    pub was: Option<String>,
}

impl Front {
    fn new(environment: [u8; 16]) -> Front {
        let mut front = Front { magic: MAGIC, version: VERSION.into(), crc: 0.into(), environment, zero: [0; 480] };
        front.crc = crc32c::crc32c(&front.as_bytes()[16..]).into();
        front
    }
}

impl Slot {
    fn new(entry: &Entry) -> Slot {
        let padded = |text: &str| {
            let mut bytes = [0; NAME_BYTES_MAX];
            bytes[..text.len()].copy_from_slice(text.as_bytes());
            bytes
        };
        let length = |text: &str| U32::new(u32::try_from(text.len()).expect("names have at most 200 bytes"));
        let was = entry.was.as_deref().unwrap_or_default();
        let mut slot = Slot {
            crc: 0.into(),
            state: if entry.is_dropped { DROPPED } else { LIVE }.into(),
            id: entry.id.raw().into(),
            page_bytes: entry.page_bytes.into(),
            name_bytes: length(&entry.name),
            was_bytes: length(was),
            zero_small: [0; 8],
            name: padded(&entry.name),
            was: padded(was),
            zero: [0; 80],
        };
        slot.crc = crc32c::crc32c(&slot.as_bytes()[4..]).into();
        slot
    }

    /// Returns whether the slot has an entry: a free or damaged slot has no entry.
    fn is_whole(&self, id: FileId) -> bool {
        self.state.get() != 0 && self.id.get() == id.raw() && crc32c::crc32c(&self.as_bytes()[4..]) == self.crc.get()
    }

    /// Returns the entry in the slot.
    fn entry(&self, id: FileId) -> Option<Entry> {
        if !self.is_whole(id) {
            return None;
        }
        let text = |bytes: &[u8; NAME_BYTES_MAX], length: U32| {
            String::from_utf8(bytes.get(..length.get() as usize)?.to_vec()).ok()
        };
        Some(Entry {
            id,
            name: text(&self.name, self.name_bytes)?,
            was: Some(text(&self.was, self.was_bytes)?).filter(|was| !was.is_empty()),
            page_bytes: self.page_bytes.get(),
            is_dropped: self.state.get() == DROPPED,
        })
    }
}

/// The part of the register that a process has read.
#[derive(Default)]
struct Known {
    /// The open file, and its identity when it was opened.
    file: Option<(Arc<dyn File>, Identity)>,
    /// File numbers of live databases by name, as the process last read them. A lookup by name reads the slot again.
    names: HashMap<String, FileId>,
    /// The slots below this number were read.
    read_to: u32,
    /// Numbers below `read_to` that had no entry. A database with a higher number may have been entered first.
    holes: Vec<FileId>,
}

/// One process's handle to the register.
pub struct Registry {
    directory: Arc<dyn Directory>,
    environment: [u8; 16],
    known: Mutex<Known>,
}

impl Registry {
    /// Makes a handle to the register in `directory`, of the environment with the number `environment`. Opens no file.
    pub fn new(directory: Arc<dyn Directory>, environment: [u8; 16]) -> Registry {
        Registry { directory, environment, known: Mutex::default() }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the open file, or `None` if the environment has no register.
    fn file(&self, known: &mut Known) -> Result<Option<Arc<dyn File>>> {
        match known.file.take() {
            // The program has closed the descriptor, and its number may now belong to a file of the program.
            Some((file, identity)) if is_foreign(&*file, &identity) => std::mem::forget(file),
            Some((file, identity)) => return Ok(Some(Arc::clone(&known.file.insert((file, identity)).0))),
            None => {}
        }
        let file = match self.directory.open(REGISTRY_NAME, OpenMode::Existing) {
            Err(libtp_io::Error::NotFound { .. }) => return Ok(None),
            file => file?,
        };
        let mut bytes = [0; SLOT_BYTES];
        let read = file.read_at(&mut bytes, 0)?;
        let refuse = |what: &str| {
            let what = format!(
                "{what}. Close the environment in every process, and move this file away, and each copy of a data file under another name: the next opening makes the register again from the data files"
            );
            Error::Register { what }
        };
        let front = Front::ref_from_bytes(&bytes).expect("a slot has the bytes of a front");
        if read < SLOT_BYTES || front.magic != MAGIC || crc32c::crc32c(&bytes[16..]) != front.crc.get() {
            return Err(refuse("it does not begin like a register of databases"));
        }
        if front.version.get() != VERSION {
            return Err(refuse(&format!(
                "it has format version {}, and this library reads version {VERSION}",
                front.version
            )));
        }
        if front.environment != self.environment {
            return Err(refuse("it belongs to another environment"));
        }
        known.file = Some((Arc::clone(&file), file.identity()?));
        Ok(Some(file))
    }

    /// Returns whether the environment has a register.
    ///
    /// # Errors
    /// [`Error::Register`] if the file cannot be the register of this environment; [`Error::Io`].
    pub fn is_there(&self) -> Result<bool> {
        Ok(self.file(&mut self.known())?.is_some())
    }

    /// Makes the register with these entries, unless it exists.
    ///
    /// # Errors
    /// The disk refused. Then no register exists.
    pub fn make(&self, entries: &[Entry]) -> Result<()> {
        let mut known = self.known();
        if self.file(&mut known)?.is_some() {
            return Ok(());
        }
        let file = self.directory.open(UNFINISHED, OpenMode::Create)?;
        file.set_len(0)?;
        file.write_at(Front::new(self.environment).as_bytes(), 0)?;
        for entry in entries {
            file.write_at(Slot::new(entry).as_bytes(), place(entry.id))?;
        }
        failpoint("register: written, not synced");
        file.sync()?;
        failpoint("register: synced, not renamed");
        self.directory.rename(UNFINISHED, REGISTRY_NAME)?;
        self.directory.sync()?;
        Ok(())
    }

    /// Returns the entry of a file number, or `None` if the register has no entry.
    ///
    /// # Errors
    /// As [`Registry::is_there`].
    pub fn entry(&self, id: FileId) -> Result<Option<Entry>> {
        let Some(file) = self.file(&mut self.known())? else { return Ok(None) };
        let mut bytes = [0; SLOT_BYTES];
        let read = file.read_at(&mut bytes, place(id))?;
        let slot = Slot::ref_from_bytes(&bytes).expect("the bytes have the length of a slot");
        Ok(if read == SLOT_BYTES { slot.entry(id) } else { None })
    }

    /// Returns the database with the name `name`, if it was not dropped.
    ///
    /// # Errors
    /// As [`Registry::is_there`].
    pub fn find(&self, name: &str) -> Result<Option<Entry>> {
        let (id, holes) = {
            let mut known = self.known();
            let Some(file) = self.file(&mut known)? else { return Ok(None) };
            let from = known.read_to.max(1);
            let Known { names, holes, .. } = &mut *known;
            let end = read_slots(&*file, from, &mut |id, slot| match slot.entry(id) {
                // A live database with a smaller number may have the name of a dropped one.
                Some(entry) if !entry.is_dropped => drop(names.insert(entry.name, id)),
                Some(_) => {}
                None => holes.push(id),
            })?;
            known.read_to = end;
            (known.names.get(name).copied(), known.holes.clone())
        };
        let is_it = |entry: &Entry| entry.name == name && !entry.is_dropped;
        if let Some(entry) = id.map(|id| self.entry(id)).transpose()?.flatten().filter(is_it) {
            return Ok(Some(entry));
        }
        for id in holes {
            if let Some(entry) = self.entry(id)?.filter(is_it) {
                return Ok(Some(entry));
            }
        }
        Ok(None)
    }

    /// Makes the next search by name read all names again, because a database was renamed.
    pub fn forget_names(&self) {
        let mut known = self.known();
        known.names.clear();
        known.holes.clear();
        known.read_to = 0;
    }

    /// Returns every database that was not dropped.
    ///
    /// # Errors
    /// As [`Registry::is_there`].
    pub fn all(&self) -> Result<Vec<Entry>> {
        let Some(file) = self.file(&mut self.known())? else { return Ok(Vec::new()) };
        let mut all = Vec::new();
        read_slots(&*file, 1, &mut |id, slot| all.extend(slot.entry(id).filter(|entry| !entry.is_dropped)))?;
        Ok(all)
    }

    /// Returns whether every number below `next` has an entry.
    ///
    /// # Errors
    /// As [`Registry::is_there`].
    pub fn is_whole(&self, next: u32) -> Result<bool> {
        let Some(file) = self.file(&mut self.known())? else { return Ok(false) };
        let mut is_whole = true;
        let end = read_slots(&*file, 1, &mut |id, slot| is_whole &= slot.is_whole(id))?;
        Ok(is_whole && end >= next)
    }

    /// Stores an entry (of a new, dropped or renamed database), and syncs it. Storing the same entry again changes
    /// nothing.
    ///
    /// # Errors
    /// The disk refused. After a failed sync it is not known whether the database is entered.
    pub fn enter(&self, entry: &Entry) -> Result<()> {
        if self.entry(entry.id)?.as_ref() == Some(entry) {
            return Ok(());
        }
        self.write(entry)
    }

    /// Like [`Registry::enter`], but also writes an entry that the register has already: after a failed sync this entry
    /// may be only in the kernel's cache.
    ///
    /// # Errors
    /// As [`Registry::enter`].
    pub fn write(&self, entry: &Entry) -> Result<()> {
        self.make(&[])?;
        let file = self.file(&mut self.known())?;
        let gone = || Error::Register { what: "another program removed it a moment ago; put it back".into() };
        let file = file.ok_or_else(gone)?;
        file.write_at(Slot::new(entry).as_bytes(), place(entry.id))?;
        failpoint("register: entry written, not synced");
        file.sync()?;
        Ok(())
    }
}

/// Returns the file name of the database `name`.
pub fn file_name(name: &str) -> String {
    format!("{name}.tp")
}

/// Returns the offset of the slot of a number.
fn place(id: FileId) -> u64 {
    u64::from(id.raw()) * SLOT_BYTES as u64
}

/// Reads the slots from `from` to the end, and calls `take` with each slot and its number. Returns the number after the
/// last whole slot.
fn read_slots(file: &dyn File, from: u32, take: &mut dyn FnMut(FileId, &Slot)) -> Result<u32> {
    let mut bytes = vec![0; SLOT_BYTES * SLOTS_A_READ as usize];
    let mut next = from;
    loop {
        let read = file.read_at(&mut bytes, place(FileId::new(next)))?;
        let whole = bytes[..read].chunks_exact(SLOT_BYTES);
        let count = whole.len();
        for chunk in whole {
            let slot = Slot::ref_from_bytes(chunk).expect("the bytes have the length of a slot");
            take(FileId::new(next), slot);
            next += 1;
        }
        if count < SLOTS_A_READ as usize {
            return Ok(next);
        }
    }
}

impl Entry {
    /// Returns the file's name in the environment's directory. While the database is renamed, the file may have the
    /// name [`Entry::was`].
    pub fn file_name(&self) -> String {
        file_name(&self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_leads_to_the_live_database_even_if_a_dropped_one_has_a_higher_number() {
        let registry = Registry::new(Arc::new(libtp_sim::SimDisk::new(1)), [7; 16]);
        let entry = |id, name: &str, is_dropped| Entry {
            id: FileId::new(id),
            name: name.into(),
            page_bytes: 8192,
            is_dropped,
            was: None,
        };
        let (live, dropped) = (entry(2, "c", false), entry(3, "c", true));
        registry.make(&[live.clone(), dropped]).unwrap();
        assert_eq!(registry.find("c").unwrap(), Some(live));
        registry.enter(&entry(2, "c", true)).unwrap();
        assert_eq!(registry.find("c").unwrap(), None);
        // This handle has read the other numbers, but not this number.
        let next = entry(4, "c", false);
        registry.enter(&next).unwrap();
        assert_eq!(registry.find("c").unwrap(), Some(next));
    }

    #[test]
    fn a_database_that_is_entered_after_a_higher_number_is_found() {
        let disk: Arc<dyn Directory> = Arc::new(libtp_sim::SimDisk::new(1));
        let [mine, theirs] = [0, 1].map(|_| Registry::new(Arc::clone(&disk), [7; 16]));
        let entry = |id, name: &str| Entry {
            id: FileId::new(id),
            name: name.into(),
            page_bytes: 8192,
            is_dropped: false,
            was: None,
        };
        mine.make(&[entry(1, "a"), entry(4, "d")]).unwrap();
        assert_eq!(theirs.find("c").unwrap(), None);
        assert!(!theirs.is_whole(5).unwrap());
        for late in [entry(3, "c"), entry(2, "b")] {
            mine.enter(&late).unwrap();
            assert_eq!(theirs.find(&late.name).unwrap().as_ref(), Some(&late));
        }
        assert!(theirs.is_whole(5).unwrap() && !theirs.is_whole(6).unwrap());
        let renamed = entry(3, "e");
        mine.enter(&renamed).unwrap();
        assert_eq!([theirs.find("c").unwrap(), theirs.find("e").unwrap()], [None, Some(renamed)]);
    }
}

//! The redo log: a file of fixed length. The file is filled with zeros when it is made, so that a later write changes
//! only bytes and no length.
//!
//! The file begins with two headers, which are written alternately. The records follow, one after another. After
//! each truncation they begin at the same place again. A record of an earlier generation is ignored.
//!
//! If we die here: while records are written, the first incomplete record ends the log. If a later record states that
//! the incomplete record was synced, the log is damaged. While a header is written, the other header is valid, and the
//! database has all records of that header's generation. Records of a generation are written only when the generation's
//! header is safe. So if the first record has a higher generation than both headers, a header was damaged later.

use std::sync::Arc;

use libtp_io::{Directory, File, OpenMode};
use rio::planted;

use crate::record::{self, Header};
use crate::{Error, Result};

/// The log's name in its directory.
pub(crate) const NAME: &str = "log";
const MAGIC: u64 = u64::from_le_bytes(*b"libtprvm");
const VERSION: u64 = 1;
/// Where the records begin.
const FRONT: u64 = 4096;
/// The distance between the two headers: they never share a sector.
const SLOT: u64 = 2048;
const SLOT_BYTES: usize = 44;
const PIECE: usize = 1 << 20;

/// A log that this handle has locked.
#[derive(Debug)]
pub(crate) struct RedoLog {
    file: Arc<dyn File>,
    name: String,
    capacity: u64,
    generation: u64,
    /// The place in the file where the pending records go.
    tail: u64,
    next: u64,
    synced: u64,
    /// Records that are not written yet.
    pending: Vec<u8>,
    /// Bytes written since the log was opened.
    written: u64,
    is_poisoned: bool,
}

impl RedoLog {
    /// Makes a log in place of any file with its name. Returns `None` if a `database` exists by now: a file with the
    /// log's name then belongs to that database.
    pub(crate) fn create(directory: &dyn Directory, capacity: u64, database: &str) -> Result<Option<RedoLog>> {
        let file = directory.open(NAME, OpenMode::Create)?;
        let capacity = capacity.max(64 << 10).next_multiple_of(4096);
        let mut log = RedoLog::lock(directory, file, capacity)?;
        // Another process may have made the database, and ended transactions, after this process looked for it and
        // before this process had the lock.
        if directory.exists(database)? && !planted("rvm: a late opener creates the log again") {
            return Ok(None);
        }
        log.file.set_len(0)?;
        log.file.allocate(0..capacity)?;
        let zeros = vec![0; PIECE];
        for at in (0..capacity).step_by(PIECE) {
            let bytes = usize::try_from(capacity - at).map_or(PIECE, |left| left.min(PIECE));
            log.file.write_at(&zeros[..bytes], at)?;
        }
        log.file.sync()?;
        log.restart()?;
        Ok(Some(log))
    }

    /// Opens the log and calls `each` with the images of all its records, in order. The caller must restart the log
    /// before it appends a record.
    pub(crate) fn open(directory: &dyn Directory, each: impl FnMut(u64, &[u8]) -> Result<()>) -> Result<RedoLog> {
        let file = directory.open(NAME, OpenMode::Existing)?;
        let mut log = RedoLog::lock(directory, file, 0)?;
        let mut front = vec![0; usize::try_from(FRONT).expect("FRONT is small")];
        log.file.read_at(&mut front, 0)?;
        let slots = [0, SLOT].map(|at| read_slot(&front[usize::try_from(at).expect("SLOT is small")..]));
        if let Some(other) = slots.iter().flatten().map(|slot| slot[0]).find(|version| *version != VERSION) {
            return Err(log.damaged(format!("it has version {other}, and this build reads version {VERSION}")));
        }
        let Some([_, generation, capacity, next]) = slots.into_iter().flatten().max() else {
            return Err(log.damaged("it has no complete header".into()));
        };
        if log.file.len()? < capacity || capacity < FRONT {
            return Err(log.damaged(format!("it was made with {capacity} bytes and has {}", log.file.len()?)));
        }
        (log.generation, log.capacity, log.next) = (generation, capacity, next);
        log.repeat(each)?;
        Ok(log)
    }

    fn lock(directory: &dyn Directory, file: Arc<dyn File>, capacity: u64) -> Result<RedoLog> {
        let name = directory.describe(NAME);
        if !file.lock_uninherited()? {
            return Err(Error::InUse { log: name });
        }
        let (generation, tail, next, synced, written) = (0, FRONT, 0, 0, 0);
        let pending = Vec::new();
        Ok(RedoLog { file, name, capacity, generation, tail, next, synced, pending, written, is_poisoned: false })
    }

    fn damaged(&self, what: String) -> Error {
        Error::Damaged { file: self.name.clone(), what }
    }

    fn repeat(&mut self, mut each: impl FnMut(u64, &[u8]) -> Result<()>) -> Result<()> {
        let mut bytes = vec![0; usize::try_from(self.capacity).unwrap_or(usize::MAX)];
        self.file.read_at(&mut bytes, 0)?;
        let mut at = usize::try_from(FRONT).expect("FRONT is small");
        let newer = record::generation(&bytes, at).filter(|generation| *generation > self.generation);
        if let Some(newer) = newer.filter(|newer| record::read(&bytes, at, *newer).is_some()) {
            let own = self.generation;
            return Err(self.damaged(format!("it has records of its generation {newer}, and no header above {own}")));
        }
        while let Some((header, record)) =
            record::read(&bytes, at, self.generation).filter(|it| it.0.sequence == self.next)
        {
            for (place, image) in record::images(record) {
                each(place, image)?;
            }
            self.next += 1;
            at += record.len();
            self.tail += header.bytes;
        }
        // The first incomplete record was being written when the machine crashed. But if a later record states that the
        // incomplete record was synced, the log is damaged.
        let later = (at + 8..bytes.len()).step_by(8).find(|at| {
            record::peek(&bytes, *at, self.generation).is_some_and(|header| header.synced > self.next)
                && record::read(&bytes, *at, self.generation).is_some()
        });
        match later {
            Some(later) => Err(self.damaged(format!(
                "its record {} at {at} is incomplete, and the record at {later} states that it was synced",
                self.next
            ))),
            None => Ok(()),
        }
    }

    /// Begins a new generation. The database already has all records of the old generation.
    pub(crate) fn restart(&mut self) -> Result<()> {
        debug_assert!(self.pending.is_empty(), "unwritten bytes are not in the database");
        let generation = self.generation + 1;
        let words = [MAGIC, VERSION, generation, self.capacity, self.next];
        let mut slot: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        slot.extend(crc32c::crc32c(&slot).to_le_bytes());
        self.guarded(|log| Ok(log.file.write_at(&slot, generation % 2 * SLOT).and_then(|()| log.file.sync())?))?;
        (self.generation, self.tail, self.synced) = (generation, FRONT, self.next);
        Ok(())
    }

    /// Appends a record; [`RedoLog::flush`] makes it safe.
    pub(crate) fn append(&mut self, fill: impl FnOnce(&mut Vec<u8>)) -> Result<()> {
        self.check()?;
        let before = self.pending.len();
        let (generation, sequence, synced) = (self.generation, self.next, self.synced);
        let bytes = record::append(&mut self.pending, Header { bytes: 0, generation, sequence, synced }, fill);
        let most = (self.capacity - FRONT) / 2;
        if bytes > most || self.tail + self.pending.len() as u64 > self.capacity {
            self.pending.truncate(before);
            return Err(Error::TooLarge { log: self.name.clone(), bytes, most });
        }
        self.next += 1;
        Ok(())
    }

    /// Removes the last appended record. `bytes` is the number of bytes that were pending before it.
    pub(crate) fn retract(&mut self, bytes: usize) {
        self.pending.truncate(bytes);
        self.next -= 1;
    }

    /// Returns the number of bytes written since the log was opened.
    pub(crate) fn written(&self) -> u64 {
        self.written
    }

    /// Returns the number of bytes not written yet.
    pub(crate) fn pending_bytes(&self) -> usize {
        self.pending.len()
    }

    /// Writes and syncs the appended records.
    pub(crate) fn flush(&mut self) -> Result<()> {
        self.check()?;
        if self.pending.is_empty() {
            return Ok(());
        }
        self.guarded(|log| {
            log.file.write_at(&log.pending, log.tail)?;
            if !planted("rvm: the log is not synced") {
                log.file.sync()?;
            }
            Ok(())
        })?;
        self.tail += self.pending.len() as u64;
        self.written += self.pending.len() as u64;
        self.pending.clear();
        self.synced = self.next;
        Ok(())
    }

    /// Returns whether the log may lack room for the longest record.
    pub(crate) fn is_nearly_full(&self) -> bool {
        self.tail + self.pending.len() as u64 > FRONT + (self.capacity - FRONT) / 2
    }

    fn check(&self) -> Result<()> {
        if self.is_poisoned {
            return Err(Error::Poisoned { log: self.name.clone() });
        }
        Ok(())
    }

    /// Does work whose failure leaves the contents of the disk unknown. A failure poisons the log.
    pub(crate) fn guarded<T>(&mut self, work: impl FnOnce(&RedoLog) -> Result<T>) -> Result<T> {
        self.check()?;
        let done = work(self);
        self.is_poisoned = done.is_err() && !planted("rvm: a failed log accepts more writes");
        done
    }
}

/// Returns version, generation, capacity and first sequence number of a header, if it is whole.
fn read_slot(bytes: &[u8]) -> Option<[u64; 4]> {
    let (words, rest) = bytes.get(..SLOT_BYTES)?.split_at(SLOT_BYTES - 4);
    let sum = u32::from_le_bytes(*rest.first_chunk()?);
    let word = |nth: usize| words.get(nth * 8..)?.first_chunk().map(|word| u64::from_le_bytes(*word));
    let is_whole = crc32c::crc32c(words) == sum && word(0)? == MAGIC;
    is_whole.then_some([word(1)?, word(2)?, word(3)?, word(4)?])
}

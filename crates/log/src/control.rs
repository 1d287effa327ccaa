//! The control file: the facts that restart needs before it can read the log, and the identity of the environment.
//!
//! Byte table: `docs/formats/control.md`. Block 0 names the format. Blocks 1 and 2 are two slots that are written in
//! turn, each with a sequence number and a checksum, so a torn write leaves the other slot. The incarnations that do
//! not fit into a slot are in further blocks after both slots. The durable end in this file is a second witness of the
//! log's durable end, besides the flush marks (PROTOCOLS L2, L7).
//!
//! Invariants
//! 1. A write replaces the older slot and its further blocks, and is synced before it returns. The newer slot is never
//!    touched.
//! 2. Of two good slots, the slot with the larger sequence number is valid. If no slot is good, the file is damaged; it
//!    is never treated as empty.
//! 3. One writer at a time: creation, restart and the checkpointer exclude each other (F1, D5).
//!
//! If we die here: in `write`, the new slot is valid if it is complete. Otherwise its checksum or the checksum of its
//! further blocks is wrong, and the old slot is still valid.

use std::sync::Arc;
use std::time::{Duration, Instant};

use libtp_io::{File, LockMode};
use rio::{failpoint, planted};
use zerocopy::byteorder::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::incarnation::{INCARNATIONS_MAX, SLOT_INCARNATIONS};
use crate::{Error, Incarnation, Incarnations, Lsn, Result, Settings, TxnId, DAMAGED_LOG_REMEDY};

/// The name of the control file in an environment's directory.
pub const CONTROL_NAME: &str = "control";
/// The version of an environment's format.
pub const CONTROL_VERSION: u32 = 1;
/// Bytes of a control file without further blocks. The bytes on which processes take locks are far beyond these blocks.
pub const CONTROL_BYTES: u64 = 3 * BLOCK_BYTES;
/// The largest number of unresolved transactions.
pub const UNRESOLVED_MAX: usize = 240;

const BLOCK_BYTES: u64 = 4096;
const MAGIC: [u8; 8] = *b"libtpenv";
const SLOT_BYTES: usize = 4096;
/// The largest plausible incarnation or sequence number; a larger number is damage.
const COUNT_MAX: u64 = 1 << 48;
const FLAG_CLEAN: u32 = 1;
const FLAG_RIO: u32 = 2;
const FLAG_LOST: u32 = 4;
const FLAG_BEGUN: u32 = 8;
const FLAG_RELAXED: u32 = 16;

/// The first block: the format's name. Written once.
#[derive(FromBytes, IntoBytes, Unaligned, Immutable, KnownLayout)]
#[repr(C)]
struct Front {
    magic: [u8; 8],        // 00-07  "libtpenv"
    version: U32,          // 08-11
    crc: U32,              // 12-15  CRC-32C of bytes 16..4096
    environment: [u8; 16], // 16-31
}

/// The fixed part of a slot; the lists follow it.
#[derive(FromBytes, IntoBytes, Unaligned, Immutable, KnownLayout)]
#[repr(C)]
struct Slot {
    crc: U32,                 // 00-03  CRC-32C of bytes 4..4096
    flags: U32, // 04-07  bit 0: clean close, bit 1: commits answered from memory, bit 2: those are lost, bit 3: begun, bit 4: relaxed commits answered
    sequence: U64, // 08-15
    environment: [u8; 16], // 16-31
    redo_point: U64, // 32-39
    checkpoint: U64, // 40-47
    durable_end: U64, // 48-55
    oldest: U64, // 56-63
    segment_bytes_first: U64, // 64-71
    segment_bytes_max: U64, // 72-79
    next_file_id: U32, // 80-83
    incarnation_count: U32, // 84-87
    unresolved_count: U32, // 88-91
    older_crc: U32, // 92-95  CRC-32C of the incarnations in the further blocks
}

const INCARNATIONS_AT: usize = 96;
const INCARNATION_BYTES: usize = 16;
/// The file has blocks for this number of further restarts, if the disk has room: a restart on a full disk then needs
/// no new block.
const RESTARTS_AHEAD: usize = 32;
const UNRESOLVED_AT: usize = INCARNATIONS_AT + INCARNATION_BYTES * SLOT_INCARNATIONS;
const _: () = {
    // The file's last block is below the bytes that are locked.
    assert!((3 * BLOCK_BYTES + 2 * (INCARNATIONS_MAX * INCARNATION_BYTES) as u64) < CHANGING_BYTE);
    assert!(size_of::<Front>() == 32);
    assert!(size_of::<Slot>() == INCARNATIONS_AT);
    assert!(UNRESOLVED_AT + 8 * UNRESOLVED_MAX <= SLOT_BYTES);
};

/// The contents of the control file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Control {
    /// The environment's id, drawn when the environment was made.
    pub environment_id: [u8; 16],
    /// The incarnations that sealed the parts of the log.
    pub incarnations: Incarnations,
    /// The LSN where redo begins.
    pub redo_point: Lsn,
    /// The last checkpoint's record, or [`Lsn::NONE`].
    pub checkpoint: Lsn,
    /// A position up to which the log is known to be durable (L2).
    pub durable_end: Lsn,
    /// The LSN from which on the log is kept.
    pub oldest: Lsn,
    /// Whether the last close was orderly: then `durable_end` is the log's very end.
    pub clean: bool,
    /// Whether commits may have been answered, since restart or the last orderly close, while they were only in memory
    /// that outlives the system (L9).
    pub rio: bool,
    /// Whether relaxed commits may have been answered, since restart or the last orderly close (L5).
    pub relaxed: bool,
    /// Whether commits that were answered from memory may be lost, and no program has been informed of the loss yet.
    pub lost: bool,
    /// Whether the log's first segment was made and its name is durable. From then on a segment exists wherever the log
    /// ends.
    pub begun: bool,
    /// The id for the next database file.
    pub next_file_id: u32,
    /// Bytes of the first segment file.
    pub segment_bytes_first: u64,
    /// Bytes of the largest segment file.
    pub segment_bytes_max: u64,
    /// Committed transactions whose commit a segment of memory may not know yet. The list states their outcome after
    /// the log with their commit records was recycled (F2).
    pub unresolved: Vec<TxnId>,
}

impl Control {
    /// Returns the contents of a new environment's control file.
    pub fn new(environment_id: [u8; 16], settings: &Settings) -> Control {
        Control {
            environment_id,
            incarnations: Incarnations::first(),
            redo_point: Lsn::FIRST,
            checkpoint: Lsn::NONE,
            durable_end: Lsn::FIRST,
            oldest: Lsn::FIRST,
            clean: false,
            rio: false,
            relaxed: false,
            lost: false,
            begun: false,
            next_file_id: 1,
            segment_bytes_first: settings.segment_bytes_first,
            segment_bytes_max: settings.segment_bytes_max,
            unresolved: Vec::new(),
        }
    }

    /// Returns the number of the current incarnation.
    pub fn incarnation(&self) -> u64 {
        self.incarnations.current().number
    }

    /// Returns the segment geometry.
    ///
    /// # Panics
    /// Never for a `Control` that this module has read or made, because it has then checked the sizes.
    pub fn geometry(&self) -> crate::Geometry {
        crate::Geometry::new(self.segment_bytes_first, self.segment_bytes_max)
            .expect("the sizes were checked when the control file was read")
    }

    /// Returns the slot's bytes, and the bytes of its further blocks.
    fn to_slot(&self, sequence: u64) -> (Vec<u8>, Vec<u8>) {
        let count = |items: usize| U32::new(u32::try_from(items).expect("lists are bounded by the slot's size"));
        let list = self.incarnations.list();
        let (older, newest) = list.split_at(list.len().saturating_sub(SLOT_INCARNATIONS));
        let older: Vec<u8> = older.iter().flat_map(incarnation_bytes).collect();
        assert!(self.unresolved.len() <= UNRESOLVED_MAX, "more unresolved transactions than the control file holds");
        let mut slot = Slot {
            crc: U32::ZERO,
            flags: U32::new(
                (u32::from(self.clean) * FLAG_CLEAN)
                    | (u32::from(self.rio) * FLAG_RIO)
                    | (u32::from(self.relaxed) * FLAG_RELAXED)
                    | (u32::from(self.lost) * FLAG_LOST)
                    | (u32::from(self.begun) * FLAG_BEGUN),
            ),
            sequence: U64::new(sequence),
            environment: self.environment_id,
            redo_point: U64::new(self.redo_point.raw()),
            checkpoint: U64::new(self.checkpoint.raw()),
            durable_end: U64::new(self.durable_end.raw()),
            oldest: U64::new(self.oldest.raw()),
            segment_bytes_first: U64::new(self.segment_bytes_first),
            segment_bytes_max: U64::new(self.segment_bytes_max),
            next_file_id: U32::new(self.next_file_id),
            incarnation_count: count(list.len()),
            unresolved_count: count(self.unresolved.len()),
            older_crc: U32::new(crc32c::crc32c(&older)),
        };
        let mut bytes = vec![0; SLOT_BYTES];
        bytes[..INCARNATIONS_AT].copy_from_slice(slot.as_bytes());
        for (place, incarnation) in
            bytes[INCARNATIONS_AT..UNRESOLVED_AT].chunks_exact_mut(INCARNATION_BYTES).zip(newest)
        {
            place.copy_from_slice(&incarnation_bytes(incarnation));
        }
        for (place, txn) in bytes[UNRESOLVED_AT..].chunks_exact_mut(8).zip(&self.unresolved) {
            place.copy_from_slice(&txn.raw().to_le_bytes());
        }
        slot.crc = U32::new(crc32c::crc32c(&bytes[4..]));
        bytes[..INCARNATIONS_AT].copy_from_slice(slot.as_bytes());
        (bytes, older)
    }

    /// Returns a slot's sequence number and contents, or the reason why the slot is not good. `older` has its further
    /// blocks.
    fn from_slot(slot: &Slot, bytes: &[u8], older: &[u8]) -> std::result::Result<(u64, Control), &'static str> {
        let (incarnation_count, unresolved) =
            (slot.incarnation_count.get() as usize, slot.unresolved_count.get() as usize);
        if incarnation_count > INCARNATIONS_MAX || unresolved > UNRESOLVED_MAX {
            return Err("its lists of restarts and transactions are too long");
        }
        if slot.older_crc.get() != crc32c::crc32c(older) {
            return Err("its list of earlier restarts is damaged");
        }
        let newest = &bytes[INCARNATIONS_AT..][..INCARNATION_BYTES * incarnation_count.min(SLOT_INCARNATIONS)];
        let words: Vec<u64> = words_of(older).chain(words_of(newest)).collect();
        let list = words.chunks_exact(2).map(|two| Incarnation { number: two[0], start: Lsn::new(two[1]) });
        let incarnations = Incarnations::from_list(list.collect()).ok_or("its restarts are out of order")?;
        let (first, max) = (slot.segment_bytes_first.get(), slot.segment_bytes_max.get());
        let geometry = crate::Geometry::new(first, max).ok_or("its segment sizes are impossible")?;
        let places =
            [slot.redo_point, slot.checkpoint, slot.durable_end, slot.oldest].map(|place| Lsn::new(place.get()));
        let starts = incarnations.list().iter().map(|incarnation| incarnation.start);
        if !places.into_iter().chain(starts).all(|lsn| geometry.may_reach(lsn)) {
            return Err("it names an LSN that no log can reach");
        }
        if slot.sequence.get() > COUNT_MAX || incarnations.current().number > COUNT_MAX {
            return Err("its counters are too large");
        }
        let control = Control {
            environment_id: slot.environment,
            incarnations,
            redo_point: Lsn::new(slot.redo_point.get()),
            checkpoint: Lsn::new(slot.checkpoint.get()),
            durable_end: Lsn::new(slot.durable_end.get()),
            oldest: Lsn::new(slot.oldest.get()),
            clean: slot.flags.get() & FLAG_CLEAN != 0,
            rio: slot.flags.get() & FLAG_RIO != 0,
            relaxed: slot.flags.get() & FLAG_RELAXED != 0,
            lost: slot.flags.get() & FLAG_LOST != 0,
            begun: slot.flags.get() & FLAG_BEGUN != 0,
            next_file_id: slot.next_file_id.get(),
            segment_bytes_first: first,
            segment_bytes_max: max,
            unresolved: words_of(&bytes[UNRESOLVED_AT..]).take(unresolved).map(TxnId::new).collect(),
        };
        Ok((slot.sequence.get(), control))
    }
}

fn incarnation_bytes(incarnation: &Incarnation) -> [u8; INCARNATION_BYTES] {
    let mut bytes = [0; INCARNATION_BYTES];
    bytes[..8].copy_from_slice(&incarnation.number.to_le_bytes());
    bytes[8..].copy_from_slice(&incarnation.start.raw().to_le_bytes());
    bytes
}

fn words_of(bytes: &[u8]) -> impl Iterator<Item = u64> + '_ {
    let eights = bytes.chunks_exact(8);
    eights.map(|eight| u64::from_le_bytes(eight.try_into().expect("chunks_exact(8) yields eight bytes")))
}

/// Returns the position of further block `index` of `slot`, which is 1 or 2.
fn further_block_at(slot: u64, index: usize) -> u64 {
    (2 + slot + 2 * index as u64) * BLOCK_BYTES
}

/// Returns the bytes of a file with `incarnation_count` incarnations.
fn file_bytes(incarnation_count: usize) -> u64 {
    let blocks = (incarnation_count.saturating_sub(SLOT_INCARNATIONS) * INCARNATION_BYTES).div_ceil(SLOT_BYTES);
    further_block_at(1, blocks)
}

/// The lock on this byte is the right to change the contents. It is far beyond the contents, just before the bytes
/// whose locks show the attached processes.
const CHANGING_BYTE: u64 = (1 << 32) - 1;

/// An environment's control file, open. Cloning shares the file.
#[derive(Clone, Debug)]
pub struct ControlFile {
    file: Arc<dyn File>,
    /// The name in error texts.
    name: String,
}

impl ControlFile {
    /// Takes an open file; nothing is read yet. `name` is the file's name in error texts.
    pub fn new(file: Arc<dyn File>, name: impl Into<String>) -> ControlFile {
        ControlFile { file, name: name.into() }
    }

    /// Returns the file itself. Locks on its bytes far beyond the contents show the attached processes (F1).
    pub fn file(&self) -> &Arc<dyn File> {
        &self.file
    }

    /// Waits until no other process changes the contents, and returns the right to change them. The caller holds the
    /// right from reading the contents to writing them. The kernel releases it when its holder dies. A holder may also
    /// be stopped, so the result is `None` after `patience`. One open file counts as one holder: the threads of a
    /// process exclude each other by other means.
    ///
    /// # Errors
    /// [`Error::Io`] where the filesystem has no locks.
    pub fn changing_within(&self, patience: Duration) -> Result<Option<Changing<'_>>> {
        let begun = Instant::now();
        while !self.file.lock(CHANGING_BYTE, LockMode::Exclusive, false)? {
            if begun.elapsed() >= patience {
                return Ok(None);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(Some(Changing { file: self }))
    }

    /// Writes a new control file and syncs it. The caller syncs the directory, and has made sure that the directory is
    /// not an environment already.
    ///
    /// # Errors
    /// [`Error::Full`], [`Error::Io`].
    pub fn create(&self, control: &Control) -> Result<()> {
        let full = |error| Error::from_disk("a control file", error);
        self.file.allocate(0..CONTROL_BYTES).map_err(full)?;
        self.allocate_further(control.incarnations.list().len())?;
        for slot in [1, 2] {
            let (bytes, older) = control.to_slot(slot);
            self.write_further(slot, &older)?;
            self.file.write_at(&bytes, slot * BLOCK_BYTES).map_err(full)?;
        }
        // A good first block proves that the slots are good, so it must not reach the disk before them.
        self.file.sync().map_err(full)?;
        let mut front = Front {
            magic: MAGIC,
            version: U32::new(CONTROL_VERSION),
            crc: U32::ZERO,
            environment: control.environment_id,
        };
        let mut block = vec![0; SLOT_BYTES];
        block[..32].copy_from_slice(front.as_bytes());
        front.crc = U32::new(crc32c::crc32c(&block[16..]));
        block[..32].copy_from_slice(front.as_bytes());
        failpoint("control: slots synced, front not written");
        self.file.write_at(&block, 0).map_err(full)?;
        failpoint("control: front written, not synced");
        self.file.sync().map_err(full)
    }

    /// Reads the contents of the newest good slot.
    ///
    /// # Errors
    /// [`Error::Unusable`] when the file is no control file, has another version, or has no good slot; [`Error::Io`].
    pub fn read(&self) -> Result<Control> {
        let environment = self.check_front()?;
        let (_, control) = self.newest()?;
        if control.environment_id != environment {
            return Err(self.damaged("its blocks belong to two environments"));
        }
        Ok(control)
    }

    /// Writes `control` over the older slot and syncs it. The newer slot is synced first: its writer may have died
    /// before its sync, and then a power cut would leave only the older slot.
    ///
    /// # Errors
    /// [`Error::Unusable`] when neither slot is good, [`Error::Full`], [`Error::Io`]: the old contents stay valid.
    /// [`Error::Failed`] after a failed sync: it is unknown which contents are valid, and the caller must not write
    /// again (contract of `libtp_io::File::sync`).
    pub fn write(&self, control: &Control) -> Result<()> {
        let (sequence, _) = self.newest()?;
        let next = sequence + 1;
        // Slots 1 and 2 were made with sequences 1 and 2: odd numbers go to block 1, even numbers to block 2.
        let block = if next % 2 == 1 { 1 } else { 2 };
        let failed = |error: libtp_io::Error| Error::Failed { cause: error.to_string() };
        self.file.sync().map_err(failed)?;
        self.allocate_further(control.incarnations.list().len())?;
        failpoint("control: slot chosen");
        let full = |error| Error::from_disk("the control file", error);
        let (slot, older) = control.to_slot(next);
        self.write_further(block, &older)?;
        self.file.write_at(&slot, block * BLOCK_BYTES).map_err(full)?;
        failpoint("control: slot written, not synced");
        if planted("control: the control file is not synced") {
            return Ok(());
        }
        self.file.sync().map_err(failed)
    }

    fn check_front(&self) -> Result<[u8; 16]> {
        let block = self.block(0)?;
        let Ok((front, _)) = Front::read_from_prefix(&block) else {
            return Err(self.damaged("it is too short for a control file"));
        };
        if front.magic != MAGIC {
            return Err(self.damaged("it is not the control file of a libtp environment"));
        }
        if front.version.get() != CONTROL_VERSION {
            let found = front.version.get();
            return Err(self.unusable(&format!(
                "it has version {found} of the format, and this build reads version {CONTROL_VERSION}; use the build that made the environment"
            )));
        }
        if block.len() < SLOT_BYTES || front.crc.get() != crc32c::crc32c(&block[16..]) {
            return Err(self.damaged("the checksum of its first block is wrong"));
        }
        Ok(front.environment)
    }

    fn newest(&self) -> Result<(u64, Control)> {
        match (self.slot(1)?, self.slot(2)?) {
            (Ok(one), Ok(two)) => Ok(if one.0 > two.0 { one } else { two }),
            (Ok(good), Err(_)) | (Err(_), Ok(good)) => Ok(good),
            (Err(one), Err(two)) => {
                Err(self.damaged(&format!("both copies of its contents are damaged (first: {one}; second: {two})")))
            }
        }
    }

    /// Returns the sequence number and contents of slot `number`, or the reason why the slot is not good.
    fn slot(&self, number: u64) -> Result<std::result::Result<(u64, Control), &'static str>> {
        let bytes = self.block(number)?;
        let Ok((slot, _)) = Slot::read_from_prefix(&bytes) else { return Ok(Err("the slot is cut off")) };
        if bytes.len() < SLOT_BYTES || slot.crc.get() != crc32c::crc32c(&bytes[4..]) {
            return Ok(Err("its checksum is wrong"));
        }
        let incarnation_count = (slot.incarnation_count.get() as usize).min(INCARNATIONS_MAX);
        let mut older = vec![0; incarnation_count.saturating_sub(SLOT_INCARNATIONS) * INCARNATION_BYTES];
        for (index, block) in older.chunks_mut(SLOT_BYTES).enumerate() {
            if self.file.read_at(block, further_block_at(number, index))? < block.len() {
                // The file is cut off, and the checksum of the rest is wrong.
                break;
            }
        }
        Ok(Control::from_slot(&slot, &bytes, &older))
    }

    /// Writes the further blocks of a slot, even the blocks that the file seems to have: after a failed sync, a read
    /// may return other bytes than the disk has.
    fn write_further(&self, slot: u64, older: &[u8]) -> Result<()> {
        for (index, block) in older.chunks(SLOT_BYTES).enumerate() {
            let written = self.file.write_at(block, further_block_at(slot, index));
            written.map_err(|error| Error::from_disk("the control file", error))?;
        }
        Ok(())
    }

    /// Allocates disk blocks for the further blocks of both slots, before a slot is overwritten.
    fn allocate_further(&self, incarnation_count: usize) -> Result<()> {
        let (needed, ahead) = (file_bytes(incarnation_count), file_bytes(incarnation_count + RESTARTS_AHEAD));
        if ahead > CONTROL_BYTES && self.file.allocate(CONTROL_BYTES..ahead).is_err() && needed > CONTROL_BYTES {
            let full = |error| Error::from_disk("the control file", error);
            self.file.allocate(CONTROL_BYTES..needed).map_err(full)?;
        }
        Ok(())
    }

    fn block(&self, number: u64) -> Result<Vec<u8>> {
        let mut bytes = vec![0; SLOT_BYTES];
        let read = self.file.read_at(&mut bytes, number * BLOCK_BYTES)?;
        bytes.truncate(read);
        Ok(bytes)
    }

    fn damaged(&self, what: &str) -> Error {
        self.unusable(&format!("{what}. {DAMAGED_LOG_REMEDY}"))
    }

    fn unusable(&self, what: &str) -> Error {
        Error::Unusable { file: self.name.clone(), what: what.to_string() }
    }
}

/// The right to change the contents of the control file. Dropping it releases the right.
#[must_use = "other processes may change the file as soon as this is dropped"]
pub struct Changing<'f> {
    file: &'f ControlFile,
}

impl Drop for Changing<'_> {
    fn drop(&mut self) {
        // If the unlock fails, the kernel releases the lock when the file is closed.
        let _ = self.file.file.unlock(CHANGING_BYTE);
    }
}

#[cfg(test)]
mod tests;

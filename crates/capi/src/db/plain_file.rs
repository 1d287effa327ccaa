//! The file of plain mode (docs/formats/plain.md): a header with two slots, and a sequence of frames. Each frame
//! records a put or a deletion. A slot names the range of frames that are the file's contents.
//!
//! Invariants
//! 1. The file's contents are the frames in the range of the valid slot with the greater generation. These frames were
//!    synced before the slot was written.
//! 2. The frames of a slot are not overwritten before a later slot with another range is on the disk.
//! 3. Only `sync` writes, and only if the file has the contents that this process last read or wrote. So no process
//!    overwrites changes of another process.
//!
//! If we die here: the file has the contents of the last `sync`.

use std::ffi::c_int;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use crate::db::alone::Alone;
use crate::db::refusal::{make_room, Answer, Refusal};

// format: begin
const MAGIC: [u8; 8] = *b"libtp db";
const VERSION: u32 = 1;
const HEADER_BYTES: usize = 32;
const SLOT_BYTES: usize = 32;
/// The offset of the first frame.
const FIRST: u64 = (HEADER_BYTES + 2 * SLOT_BYTES) as u64;
const FRAME_BYTES: usize = 24;
const PUT: u32 = 1;
const DELETE: u32 = 2;
// format: end
/// Bytes of one write.
const WRITTEN_BYTES: usize = 1 << 20;
/// A number of bytes in two limits. Dead frames may take this number in addition to the size of the live frames.
/// Unwritten frames may take this number in addition to half the size of the live frames.
const WASTE_MAX: u64 = 1 << 16;

/// The kind of a file, as its header states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kind {
    pub(crate) is_hash: bool,
    pub(crate) has_duplicates: bool,
    /// The hash function's value for a fixed text; zero if there is no function.
    pub(crate) hash_of_text: u32,
}

/// One change.
#[derive(Clone, Copy)]
pub(crate) enum Frame<'a> {
    Put { key: &'a [u8], number: u64, value: &'a [u8] },
    Delete { key: &'a [u8], number: u64 },
}

impl Frame<'_> {
    /// Returns the frame's size in the file, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        let (key, value) = match self {
            Frame::Put { key, value, .. } => (key.len(), value.len()),
            Frame::Delete { key, .. } => (key.len(), 0),
        };
        (FRAME_BYTES + key + value) as u64
    }

    fn append_to(&self, noted: &mut Vec<u8>) {
        let (kind, key, number, value) = match *self {
            Frame::Put { key, number, value } => (PUT, key, number, value),
            Frame::Delete { key, number } => (DELETE, key, number, &[][..]),
        };
        let at = noted.len();
        noted.extend_from_slice(&[0; 4]);
        noted.extend_from_slice(&kind.to_le_bytes());
        // Both lengths fit: `check_length` of `plain.rs` has checked them.
        noted.extend_from_slice(&u32::try_from(key.len()).unwrap_or(u32::MAX).to_le_bytes());
        noted.extend_from_slice(&u32::try_from(value.len()).unwrap_or(u32::MAX).to_le_bytes());
        noted.extend_from_slice(&number.to_le_bytes());
        noted.extend_from_slice(key);
        noted.extend_from_slice(value);
        let sum = crc32c::crc32c(&noted[at + 4..]);
        noted[at..at + 4].copy_from_slice(&sum.to_le_bytes());
    }
}

/// The contents of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Slot {
    generation: u64,
    start: u64,
    end: u64,
}

impl Slot {
    fn to_bytes(self) -> [u8; SLOT_BYTES] {
        let mut bytes = [0; SLOT_BYTES];
        bytes[..8].copy_from_slice(&self.generation.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.start.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.end.to_le_bytes());
        let sum = crc32c::crc32c(&bytes[..24]);
        bytes[24..28].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    fn of_bytes(bytes: &[u8]) -> Option<Slot> {
        let word = |at: usize| Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
        let slot = Slot { generation: word(0)?, start: word(8)?, end: word(16)? };
        (slot.to_bytes() == bytes && slot.start >= FIRST && slot.end >= slot.start).then_some(slot)
    }

    fn place(self) -> u64 {
        HEADER_BYTES as u64 + self.generation % 2 * SLOT_BYTES as u64
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |word| u32::from_le_bytes(*word))
}

/// An open file.
pub(crate) struct PlainFile {
    file: Arc<File>,
    path: PathBuf,
    kind: Kind,
    /// The slot that names the file's contents; `None` while the file is empty.
    slot: Option<Slot>,
    /// A later slot that was written, and whose sync failed. It may or may not be on the disk.
    doubtful: Option<Slot>,
    /// Frames that are not written yet.
    noted: Vec<u8>,
    /// The end of the last frame that was written.
    written: u64,
    is_changed: bool,
    /// Whether the next sync must write all live frames: `noted` does not have all changes, or a written frame may be
    /// missing on the disk.
    is_to_be_anew: bool,
}

impl PlainFile {
    /// Opens a file. An empty file gets the kind `wanted`. The header of any other file says whether it has duplicates.
    /// Refuses a file with another type or hash function than `wanted`.
    pub(crate) fn open(file: File, path: &Path, wanted: Kind) -> Answer<PlainFile> {
        let mut opened = PlainFile {
            file: Arc::new(file),
            path: path.into(),
            kind: wanted,
            slot: None,
            doubtful: None,
            noted: Vec::new(),
            written: FIRST,
            is_changed: false,
            is_to_be_anew: false,
        };
        if opened.length()? == 0 {
            return Ok(opened);
        }
        let mut header = [0; HEADER_BYTES];
        let read = opened.file.read_exact_at(&mut header, 0);
        if read.is_err() || header[..8] != MAGIC {
            return Err(opened.wrong("libtp has not made this file in plain mode"));
        }
        if u32_at(&header, 8) != VERSION || u32_at(&header, 28) != crc32c::crc32c(&header[..28]) {
            return Err(opened.wrong("its header is damaged, or of a later version of libtp"));
        }
        let kind = u32_at(&header, 12);
        opened.kind = Kind { is_hash: kind & 1 != 0, has_duplicates: kind & 2 != 0, hash_of_text: u32_at(&header, 16) };
        if opened.kind.is_hash != wanted.is_hash {
            let what =
                if wanted.is_hash { "it is a DB_BTREE, not a DB_HASH" } else { "it is a DB_HASH, not a DB_BTREE" };
            return Err(opened.wrong(what));
        }
        if opened.kind.hash_of_text != wanted.hash_of_text {
            return Err(opened.wrong("it was made with another hash function; give that function"));
        }
        let slot = opened.read_slot()?;
        opened.written = slot.end;
        opened.slot = Some(slot);
        Ok(opened)
    }

    fn trouble(&self, what: &str, error: &io::Error) -> Refusal {
        Refusal::io(&format!("{}: {what}", self.path.display()), error)
    }

    fn wrong(&self, what: &str) -> Refusal {
        Refusal::wrong_file(format!("{}: {what}; nothing was changed", self.path.display()))
    }

    /// Returns the kind of the file.
    pub(crate) fn kind(&self) -> Kind {
        self.kind
    }

    pub(crate) fn descriptor(&self) -> c_int {
        self.file.as_raw_fd()
    }

    fn length(&self) -> Answer<u64> {
        Ok(self.file.metadata().map_err(|error| self.trouble("its state cannot be read", &error))?.len())
    }

    fn read_slot(&self) -> Answer<Slot> {
        let mut bytes = [0; 2 * SLOT_BYTES];
        self.file
            .read_exact_at(&mut bytes, HEADER_BYTES as u64)
            .map_err(|error| self.trouble("its header cannot be read", &error))?;
        // A file that was never synced has only one slot. If a slot is invalid, the file is damaged, because the disk
        // writes a slot as a whole or not at all.
        let made = bytes.chunks(SLOT_BYTES).filter(|slot| slot.iter().any(|byte| *byte != 0));
        let slots: Option<Vec<Slot>> = made.map(Slot::of_bytes).collect();
        let newest = slots.and_then(|slots| slots.into_iter().max_by_key(|slot| slot.generation));
        newest.ok_or_else(|| self.wrong("a slot of its header is damaged"))
    }

    /// Passes all frames of the contents to `each`, the oldest first.
    pub(crate) fn read(&mut self, mut each: impl FnMut(Frame<'_>)) -> Answer<()> {
        let Some(slot) = self.slot else { return Ok(()) };
        let mut from = BufReader::with_capacity(1 << 16, At { file: &self.file, at: slot.start, end: slot.end });
        let mut at = slot.start;
        let (mut head, mut rest) = ([0; FRAME_BYTES], Vec::new());
        while at < slot.end {
            let damaged = || self.wrong(&format!("the frame at byte {at} is damaged"));
            from.read_exact(&mut head).map_err(|_| damaged())?;
            let (key_bytes, value_bytes) = (u32_at(&head, 8) as usize, u32_at(&head, 12) as usize);
            let bytes = key_bytes + value_bytes;
            if bytes as u64 > slot.end - at {
                return Err(damaged());
            }
            rest.clear();
            make_room(&mut rest, bytes)?;
            rest.resize(bytes, 0);
            from.read_exact(&mut rest).map_err(|_| damaged())?;
            if u32_at(&head, 0) != crc32c::crc32c_append(crc32c::crc32c(&head[4..]), &rest) {
                return Err(damaged());
            }
            let number = u64::from(u32_at(&head, 16)) | u64::from(u32_at(&head, 20)) << 32;
            let (key, value) = rest.split_at(key_bytes);
            match u32_at(&head, 4) {
                PUT => each(Frame::Put { key, number, value }),
                DELETE => each(Frame::Delete { key, number }),
                _ => return Err(damaged()),
            }
            at += (FRAME_BYTES + bytes) as u64;
        }
        Ok(())
    }

    /// Returns whether the file still has the contents that this process last read or wrote: no other process has
    /// written or emptied the file since.
    fn is_as_known(&self) -> Answer<bool> {
        let length = self.length()?;
        match self.slot {
            None => Ok(length == 0),
            Some(_) if length < FIRST => Ok(false),
            known => {
                let now = Some(self.read_slot()?);
                Ok(now == known || now == self.doubtful)
            }
        }
    }

    /// Refuses to overwrite the changes of another process.
    fn check_is_as_known(&self) -> Answer<()> {
        if self.is_as_known()? {
            return Ok(());
        }
        let text = "another program has changed the file since this program opened it, so the changes of this program were not written. In plain mode only one program may use a file at a time. Open the file with DB_TXN, or lock it first";
        Err(Refusal::new(libc::ESTALE, format!("{}: {text}", self.path.display())))
    }

    /// Adds a change to the frames that the next sync writes. `live_bytes` is the size of all live frames after the
    /// change.
    pub(crate) fn note(&mut self, frame: Frame<'_>, live_bytes: u64) {
        self.is_changed = true;
        if self.is_to_be_anew {
            return;
        }
        frame.append_to(&mut self.noted);
        if self.noted.len() as u64 > live_bytes / 2 + WASTE_MAX {
            // The unwritten frames are dropped, to save memory, and the next sync writes all live frames instead. This
            // sync takes at most about twice as long.
            self.is_to_be_anew = true;
            self.noted = Vec::new();
        }
    }

    /// Writes the unwritten frames after the written frames, where no slot names any bytes.
    fn write_noted(&mut self) -> Answer<()> {
        self.check_is_as_known()?;
        if self.slot.is_none() {
            self.write_header()?;
        }
        let written = self.file.write_all_at(&self.noted, self.written);
        written.map_err(|error| self.trouble("it cannot be written", &error))?;
        self.written += self.noted.len() as u64;
        self.noted.clear();
        Ok(())
    }

    /// Syncs the file. After a failed sync, the system may regard bytes as written that are not on the disk. So the
    /// next sync writes all live frames again.
    fn force(&mut self) -> Answer<()> {
        let synced = self.file.sync_data();
        #[cfg(test)]
        let synced = synced.and_then(|()| faults::next());
        self.is_to_be_anew |= synced.is_err();
        synced.map_err(|error| self.trouble("it cannot be synced", &error))
    }

    /// Makes `live` the file's contents. `live` is the result of all changes so far.
    pub(crate) fn sync<'a>(&mut self, live: impl Iterator<Item = Frame<'a>>, live_bytes: u64) -> Answer<()> {
        // A new file is written even if it has no pairs, unless another program has written it since this process
        // opened it.
        if !self.is_changed && (self.slot.is_some() || !self.is_as_known()?) {
            return Ok(());
        }
        // The lock borrows this clone and not `self.file`, because `self` changes while the lock is held.
        let file = Arc::clone(&self.file);
        let _alone = Alone::wait_for(&file);
        self.check_is_as_known()?;
        let mut start = self.slot.map_or(FIRST, |slot| slot.start);
        let after = (self.written + self.noted.len() as u64).saturating_sub(start);
        if self.is_to_be_anew || after > 2 * live_bytes + WASTE_MAX {
            self.is_to_be_anew = true;
            start = self.write_anew(live, live_bytes)?;
        }
        self.write_noted()?;
        self.force()?;
        let slot = Slot { generation: self.next_generation(), start, end: self.written };
        // The sync may have taken long. A program without this lock may have written to the file in that time.
        self.check_is_as_known()?;
        let named = self.file.write_all_at(&slot.to_bytes(), slot.place());
        named.map_err(|error| self.trouble("its header cannot be written", &error))?;
        self.doubtful = Some(slot);
        self.force()?;
        (self.slot, self.doubtful) = (Some(slot), None);
        (self.is_changed, self.is_to_be_anew) = (false, false);
        if matches!(self.is_as_known(), Ok(true)) {
            // Bytes after the end belong to no frame and do no harm, so a failure of this call does not matter.
            let _ = self.file.set_len(slot.end);
        }
        Ok(())
    }

    /// Returns the next generation. A file's first generation comes from the clock, so that the slots differ from those
    /// of an earlier file at the same path, which was emptied.
    fn next_generation(&self) -> u64 {
        match self.slot {
            Some(slot) if slot.generation > 0 => slot.generation + 1,
            _ => {
                let nanos = UNIX_EPOCH.elapsed().map_or(0, |since| since.as_nanos());
                // The number is odd, because the slot for odd generations is unused in a new file.
                u64::try_from(nanos).unwrap_or(0) | 1
            }
        }
    }

    /// Writes all live frames again: before the frames of the current slot if there is room, and otherwise after them.
    /// Leaves the last frames in `noted`. Returns the offset of the first frame.
    fn write_anew<'a>(&mut self, live: impl Iterator<Item = Frame<'a>>, live_bytes: u64) -> Answer<u64> {
        self.noted.clear();
        // If there is a doubtful slot, its frames may be in the room before the current slot's frames, and the frames
        // of both slots must stay.
        let front = self.slot.filter(|_| self.doubtful.is_none()).map_or(0, |slot| slot.start - FIRST);
        let named = [self.slot, self.doubtful].into_iter().flatten().map(|slot| slot.end).fold(FIRST, u64::max);
        let start = if live_bytes <= front { FIRST } else { named };
        self.written = start;
        for frame in live {
            frame.append_to(&mut self.noted);
            if self.noted.len() > WRITTEN_BYTES {
                self.write_noted()?;
            }
        }
        Ok(start)
    }

    /// Writes the header of an empty file.
    fn write_header(&mut self) -> Answer<()> {
        let mut header = [0; HEADER_BYTES + 2 * SLOT_BYTES];
        header[..8].copy_from_slice(&MAGIC);
        header[8..12].copy_from_slice(&VERSION.to_le_bytes());
        let kind = u32::from(self.kind.is_hash) | u32::from(self.kind.has_duplicates) << 1;
        header[12..16].copy_from_slice(&kind.to_le_bytes());
        header[16..20].copy_from_slice(&self.kind.hash_of_text.to_le_bytes());
        let sum = crc32c::crc32c(&header[..28]);
        header[28..32].copy_from_slice(&sum.to_le_bytes());
        let nothing = Slot { generation: 0, start: FIRST, end: FIRST };
        header[HEADER_BYTES..HEADER_BYTES + SLOT_BYTES].copy_from_slice(&nothing.to_bytes());
        self.file.write_all_at(&header, 0).map_err(|error| self.trouble("it cannot be written", &error))?;
        self.slot = Some(nothing);
        Ok(())
    }
}

/// A reader of the bytes of a file from `at` to `end`.
struct At<'f> {
    file: &'f File,
    at: u64,
    end: u64,
}

impl Read for At<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.end - self.at).unwrap_or(usize::MAX).min(into.len());
        let count = self.file.read_at(&mut into[..left], self.at)?;
        self.at += count as u64;
        Ok(count)
    }
}

/// Failing syncs, for tests.
#[cfg(test)]
pub(crate) mod faults {
    use std::cell::Cell;
    use std::io;

    thread_local! {
        /// The number of syncs that succeed before one fails; `None` if all succeed.
        pub(crate) static SYNCS_LEFT: Cell<Option<u32>> = const { Cell::new(None) };
    }

    pub(super) fn next() -> io::Result<()> {
        match SYNCS_LEFT.get() {
            Some(0) => {
                SYNCS_LEFT.set(None);
                Err(io::Error::from_raw_os_error(libc::EIO))
            }
            left => {
                SYNCS_LEFT.set(left.map(|left| left - 1));
                Ok(())
            }
        }
    }
}

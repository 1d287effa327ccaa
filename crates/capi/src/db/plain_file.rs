//! The file of plain mode (docs/formats/plain.md): a header, and frames that say what was put and deleted, one behind the other.
//!
//! Invariants
//! 1. What the file says is what stands between the two ends that the valid slot with the greater generation names. It was synced
//!    before the slot was written.
//! 2. Nothing that the slot names is written over before another slot names something else.
//! 3. Nothing is written outside of `sync`, and by that only into a file that says what it said when this process read or wrote it
//!    last: what two processes have changed and not synced yet is in none of their ways.
//!
//! If we die here: the file says what it said after the last `sync`.

use std::ffi::c_int;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use crate::db::alone::Alone;
use crate::db::refusal::{Answer, Refusal};

// format: begin
const MAGIC: [u8; 8] = *b"libtp db";
const VERSION: u32 = 1;
const HEADER_BYTES: usize = 32;
const SLOT_BYTES: usize = 32;
/// Where the first frame may stand.
const FIRST: u64 = (HEADER_BYTES + 2 * SLOT_BYTES) as u64;
const FRAME_BYTES: usize = 24;
const PUT: u32 = 1;
const DELETE: u32 = 2;
// format: end
/// So much is written at a time.
const WRITTEN_BYTES: usize = 1 << 20;
/// What was put and is gone may take so many bytes more than twice what is there; and what is noted so many more than half of that.
const WASTE_MAX: u64 = 1 << 16;

/// What a file is, as its header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kind {
    pub(crate) is_hash: bool,
    pub(crate) has_duplicates: bool,
    /// What the hash function makes of a text that everybody knows; zero where there is no function.
    pub(crate) hash_of_text: u32,
}

/// One change.
#[derive(Clone, Copy)]
pub(crate) enum Frame<'a> {
    Put { key: &'a [u8], number: u64, value: &'a [u8] },
    Delete { key: &'a [u8], number: u64 },
}

impl Frame<'_> {
    /// So many bytes of the file it takes.
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
        // `note` has seen that they fit.
        noted.extend_from_slice(&u32::try_from(key.len()).unwrap_or(u32::MAX).to_le_bytes());
        noted.extend_from_slice(&u32::try_from(value.len()).unwrap_or(u32::MAX).to_le_bytes());
        noted.extend_from_slice(&number.to_le_bytes());
        noted.extend_from_slice(key);
        noted.extend_from_slice(value);
        let sum = crc32c::crc32c(&noted[at + 4..]);
        noted[at..at + 4].copy_from_slice(&sum.to_le_bytes());
    }
}

/// What a slot says.
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
    /// What the file says; none while it is empty.
    slot: Option<Slot>,
    /// What it may say instead: a later slot was written, and syncing that failed.
    doubtful: Option<Slot>,
    /// Frames that are not written yet.
    noted: Vec<u8>,
    /// Behind the last frame that was written.
    written: u64,
    is_changed: bool,
    /// All frames are to be written: those that are noted are not all, or of those that were written some may not be on the disk.
    is_to_be_anew: bool,
}

impl PlainFile {
    /// A file, which is what `wanted` says if it is empty. What it is decides, else: `wanted` gives way where it may.
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
            return Err(opened.wrong("it is no database that libtp has made in plain mode"));
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
            return Err(opened.wrong("it was made with another hash function; give that"));
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

    /// What it is.
    pub(crate) fn kind(&self) -> Kind {
        self.kind
    }

    pub(crate) fn descriptor(&self) -> c_int {
        self.file.as_raw_fd()
    }

    fn length(&self) -> Answer<u64> {
        Ok(self.file.metadata().map_err(|error| self.trouble("it cannot be looked at", &error))?.len())
    }

    fn read_slot(&self) -> Answer<Slot> {
        let mut bytes = [0; 2 * SLOT_BYTES];
        self.file
            .read_exact_at(&mut bytes, HEADER_BYTES as u64)
            .map_err(|error| self.trouble("its header cannot be read", &error))?;
        // A file that was never synced has one yet. One that is neither is damaged: slots are written whole or not at all.
        let made = bytes.chunks(SLOT_BYTES).filter(|slot| slot.iter().any(|byte| *byte != 0));
        let slots: Option<Vec<Slot>> = made.map(Slot::of_bytes).collect();
        let newest = slots.and_then(|slots| slots.into_iter().max_by_key(|slot| slot.generation));
        newest.ok_or_else(|| self.wrong("a slot of its header is damaged"))
    }

    /// Hands out all frames, oldest first.
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

    /// Whether the file says what it said when it was last read or written here. Another process may have written it meanwhile, or
    /// have emptied it.
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

    /// Refuses to write over what another process has made of the file.
    fn check_is_as_known(&self) -> Answer<()> {
        if self.is_as_known()? {
            return Ok(());
        }
        let text = "another program has changed it since it was opened here, and in plain mode one has it at a time: what was changed here is not in the file. Open it with DB_TXN, or lock it first";
        Err(Refusal::new(libc::ESTALE, format!("{}: {text}", self.path.display())))
    }

    /// Notes a change, for the next sync; with it there is as much as `live_bytes` says.
    pub(crate) fn note(&mut self, frame: Frame<'_>, live_bytes: u64) {
        self.is_changed = true;
        if self.is_to_be_anew {
            return;
        }
        frame.append_to(&mut self.noted);
        if self.noted.len() as u64 > live_bytes / 2 + WASTE_MAX {
            // Writing all takes at most twice as long, and what is noted would be in memory twice.
            self.is_to_be_anew = true;
            self.noted = Vec::new();
        }
    }

    /// Writes what is noted behind what is there, where nothing stands that a slot names.
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

    /// Syncs the file. After one that failed the system may take for written what is not on the disk, so all is to be written again.
    fn force(&mut self) -> Answer<()> {
        let synced = self.file.sync_data();
        #[cfg(test)]
        let synced = synced.and_then(|()| faults::next());
        self.is_to_be_anew |= synced.is_err();
        synced.map_err(|error| self.trouble("it cannot be synced", &error))
    }

    /// Makes the file say what `live` does, which all that was noted has led to.
    pub(crate) fn sync<'a>(&mut self, live: impl Iterator<Item = Frame<'a>>, live_bytes: u64) -> Answer<()> {
        // One that is new, and has nothing in it, is made to say so, unless somebody else has made it meanwhile.
        if !self.is_changed && (self.slot.is_some() || !self.is_as_known()?) {
            return Ok(());
        }
        // Of its own handle, whose lock this is: it is changed meanwhile.
        let file = Arc::clone(&self.file);
        let _alone = Alone::wait_for(&file);
        self.check_is_as_known()?;
        let mut start = self.slot.map_or(FIRST, |slot| slot.start);
        let behind = (self.written + self.noted.len() as u64).saturating_sub(start);
        if self.is_to_be_anew || behind > 2 * live_bytes + WASTE_MAX {
            self.is_to_be_anew = true;
            start = self.write_anew(live, live_bytes)?;
        }
        self.write_noted()?;
        self.force()?;
        let slot = Slot { generation: self.next_generation(), start, end: self.written };
        // Syncing may have taken long.
        self.check_is_as_known()?;
        let named = self.file.write_all_at(&slot.to_bytes(), slot.place());
        named.map_err(|error| self.trouble("its header cannot be written", &error))?;
        self.doubtful = Some(slot);
        self.force()?;
        (self.slot, self.doubtful) = (Some(slot), None);
        (self.is_changed, self.is_to_be_anew) = (false, false);
        if matches!(self.is_as_known(), Ok(true)) {
            // What is left behind the end is nobody's, and does no harm.
            let _ = self.file.set_len(slot.end);
        }
        Ok(())
    }

    /// The first is of the clock: of a file that was emptied and made again meanwhile the slots are others, and not taken for known.
    fn next_generation(&self) -> u64 {
        match self.slot {
            Some(slot) if slot.generation > 0 => slot.generation + 1,
            _ => {
                let nanos = UNIX_EPOCH.elapsed().map_or(0, |since| since.as_nanos());
                // Odd, for the place that the slot of a new file does not have.
                u64::try_from(nanos).unwrap_or(0) | 1
            }
        }
    }

    /// Begins the frames anew with those that are needed, in front of what the slot names if there is room; returns where.
    fn write_anew<'a>(&mut self, live: impl Iterator<Item = Frame<'a>>, live_bytes: u64) -> Answer<u64> {
        self.noted.clear();
        // A doubtful slot may name what stands in front, and then each slot's frames stand where they are.
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

    /// What a file is, with nothing in it.
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

/// A part of a file, read from its beginning on.
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

/// A sync that fails, for tests.
#[cfg(test)]
pub(crate) mod faults {
    use std::cell::Cell;
    use std::io;

    thread_local! {
        /// The sync that fails is the one before which so many succeed.
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

//! Repair of the log's part of a region that no other process is attached to, and saving the log's tail when the region
//! must be discarded.
//!
//! PROTOCOLS L6, F1. A killed session can leave little in the log: latches, role words, places in the table of waiters.
//! The tail itself needs no repair: a record was published or it does not exist (D1).
//!
//! If we die here: the next process to open does everything again.

use std::sync::Arc;

use libtp_io::Directory;
use libtp_process::SessionId;
use rio::{failpoint, Checked, Extent, Held, Region, RootSlot};

use crate::agree::agree;
use crate::record::verify;
use crate::ring::Ring;
use crate::salvage::salvage;
use crate::segment_files::Opened;
use crate::tail::{LogHeader, POISONED};
use crate::{Control, Error, LogFiles, LogManager, Lsn, Result, Settings};

/// How many bytes below `durable` the ring and the files must have in common.
pub(crate) const WITNESS_BYTES: u64 = 4096;
/// No bound: all bytes in the files came from memory that has not changed since.
const ALL_OF_IT: Lsn = Lsn::new(u64::MAX);

impl LogManager {
    /// Puts the log's part of the region in order while no other process is attached; open sections were rolled back
    /// before.
    ///
    /// # Errors
    /// The damage, half a sentence: the region must be made anew (after [`rescue_ring`]).
    pub fn repair_alone(&self) -> std::result::Result<(), String> {
        let header = &*self.header;
        header.append.reset_alone();
        header.ring.reset_alone();
        header.leader.publish(SessionId::NONE);
        header.preparer.publish(SessionId::NONE);
        header.waiters.iter().for_each(|place| place.session.publish(SessionId::NONE));
        header.waiter_high.publish(0);
        header.session_high.publish(1);
        // The sessions that promised are dead, and only their repair appends meanwhile.
        header.promised.publish(0);
        self.check()
    }

    /// Checks the invariants of the tail and the ring.
    ///
    /// # Errors
    /// The damage, half a sentence.
    pub fn check(&self) -> std::result::Result<(), String> {
        check_header(&self.header, false)?;
        self.ring.check()
    }

    /// Checks the tail's words alone, while other sessions work.
    ///
    /// # Errors
    /// As [`LogManager::check`].
    pub fn check_words(&self) -> std::result::Result<(), String> {
        check_header(&self.header, false)
    }

    /// Returns where the log's structures lie: for tests that damage them.
    #[doc(hidden)]
    pub fn extents(&self) -> Vec<Extent> {
        let all = Extent::of("log header", &self.header).range;
        let words = all.start + std::mem::offset_of!(LogHeader, directory) as u64;
        let waiters = all.start + std::mem::offset_of!(LogHeader, waiters) as u64;
        // Only the part of the directory that is in use: the ring begins with few chunks.
        vec![
            Extent { name: "log header", range: all.start..words },
            Extent { name: "log directory", range: words..words + 64 },
            Extent { name: "flush waiters", range: waiters..waiters + 1024 },
        ]
    }

    /// Checks that the files hold the log up to the region's durable end, and just below it the same bytes as the
    /// region (PROTOCOLS F1). The first process to attach calls this before it uses a region that it found.
    ///
    /// # Errors
    /// [`Error::Disagree`], [`Error::Io`].
    pub fn check_against_files(&self, control: &Control) -> Result<()> {
        agree(&self.header, &self.ring, &self.files, control)
    }
}

/// Checks the header's words. With `is_lost`, cache lines were lost, and the words for the ends of ring and files may
/// be of any earlier time.
fn check_header(header: &LogHeader, is_lost: bool) -> std::result::Result<(), String> {
    // In this order: the words only grow, and other sessions may be at work, so each is at least the word read before
    // it.
    let look = |what: &str, word: &Checked<Lsn>| {
        word.try_load()
            .ok_or_else(|| format!("the log's word for {what} has a value that the library does not store there"))
    };
    let (oldest, start) = (look("its oldest record", &header.oldest)?, look("the ring's begin", &header.ring_start)?);
    let durable = look("what is durable", &header.durable)?;
    let kept = look("what is kept", &header.written_back)?;
    let tail = look("its tail", &header.tail)?;
    let (end, files) = (look("the ring's end", &header.ring_end)?, look("the files' end", &header.file_end)?);
    look("its begin", &header.start)?;
    if [&header.leader, &header.preparer].iter().any(|role| role.try_load().is_none()) {
        return Err("the log's word for its writer has a value that the library does not store there".into());
    }
    if ![0, POISONED].contains(&header.poison.load()) {
        return Err("the log's word for a failed write has a value that the library does not store there".into());
    }
    let ends_fit = is_lost || kept <= tail && tail <= end && tail <= files;
    let words_fit = start <= durable && durable <= tail && ends_fit;
    if !words_fit || durable < Lsn::FIRST || oldest > durable || tail.raw() % 8 != 0 {
        return Err(format!(
            "the log's tail is out of order: ring from {start}, durable {durable}, kept {kept}, tail {tail}, ring to {end}, \
             files to {files}"
        ));
    }
    let chunk = header.chunk_bytes.get();
    if !is_chunk(chunk) {
        return Err(format!("the log's ring has chunks of {chunk} bytes"));
    }
    if header.directory.iter().any(|entry| entry.try_load().is_none()) {
        return Err("the directory of the log's ring has a value that the library does not store there".into());
    }
    Ok(())
}

pub(crate) fn is_chunk(bytes: u64) -> bool {
    bytes.is_power_of_two() && (4096..=1 << 30).contains(&bytes)
}

/// Returns the log's header, unchecked, if it lies inside the region.
pub(crate) fn header_of(region: &Region) -> Option<Held<LogHeader>> {
    let offset = region.root::<LogHeader>(RootSlot::Log)?;
    region.try_at(offset)?;
    Some(region.hold(offset))
}

/// Returns the size of the ring's chunks; the default size if the word is damaged.
pub(crate) fn chunk_bytes_of(header: &LogHeader) -> u64 {
    let stated = Some(header.chunk_bytes.get()).filter(|&bytes| is_chunk(bytes));
    stated.unwrap_or(Settings::default().ring_chunk_bytes)
}

/// The part of a region's ring that was saved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rescued {
    /// The region's durable end; if its words were damaged, the end of the files' log.
    pub from: Lsn,
    /// The log files are good and synced up to here.
    pub to: Lsn,
    /// The region's tail: log between `to` and the tail could not be saved. `None` if the region's words were damaged:
    /// then there may have been more log.
    pub tail: Option<Lsn>,
}

/// Writes the tail of a region's ring to the log files and syncs them, before the region is discarded (PROTOCOLS L6):
/// acknowledged Relaxed commits are kept. `None` if the region has no log that could be trusted. The caller is alone.
/// If a wild store has damaged the log's own words, the records that verify are kept.
///
/// After a failed write or sync (L3) the tail goes into *new* files, since it is unknown which bytes of the old files
/// are on the disk.
///
/// # Errors
/// [`Error::Disagree`] when files and region contradict each other; [`Error::Full`], [`Error::Io`]: try again.
pub fn rescue_ring(region: &Region, directory: &Arc<dyn Directory>, control: &Control) -> Result<Option<Rescued>> {
    let any = ring_of_any_life(region, control);
    let is_in_order = any.is_some();
    if let Some((header, ring)) = any {
        // A log of another life is not this environment's. But the word for the life may itself be damaged: the records
        // state it too.
        if header.incarnation.get() == control.incarnation() {
            return rescue(&header, &ring, directory, control);
        }
    }
    let Some(header) = header_of(region) else { return Ok(None) };
    let found = salvage(region, &header, chunk_bytes_of(&header), directory, control, ALL_OF_IT)?;
    // A log in order and without a record of this life is another life's.
    Ok(found.filter(|found| !is_in_order || found.to > found.from))
}

fn rescue(
    header: &LogHeader,
    ring: &Ring,
    directory: &Arc<dyn Directory>,
    control: &Control,
) -> Result<Option<Rescued>> {
    let files = LogFiles::new(Arc::clone(directory), control);
    let (from, tail) = (header.durable.load(), header.tail.load());
    agree(header, ring, &files, control)?;
    let bytes = good_records(ring, from, tail, control.incarnation());
    let to = from.plus(bytes.len() as u64);
    // If a record in the ring is damaged, the files may have more, even if not synced: then they are not made anew.
    if header.poison.load() != 0 && to == tail {
        files.rewrite(from, &bytes, control.incarnation())?;
    } else {
        files.write(from, &bytes, control.incarnation())?;
    }
    Ok(Some(Rescued { from, to, tail: Some(tail) }))
}

impl LogManager {
    /// Returns whether the log is of the life in the control file: no other life has begun since.
    pub fn is_of_life(&self, control: &Control) -> bool {
        self.incarnation == control.incarnation()
    }

    /// As [`rescue_ring`], by a process that was attached to the region and so knows where the log lies without the
    /// region's header.
    ///
    /// # Errors
    /// As [`rescue_ring`].
    pub fn rescue(&self, directory: &Arc<dyn Directory>, control: &Control) -> Result<Option<Rescued>> {
        if !self.is_of_life(control) {
            return Ok(None);
        }
        if let Err(why) = self.check() {
            tracing::error!(why, "the log's words in memory were hit: its records are looked for without them");
            let (region, chunk_bytes) = (self.processes.region(), self.ring.chunk_bytes());
            return salvage(region, &self.header, chunk_bytes, directory, control, ALL_OF_IT);
        }
        rescue(&self.header, &self.ring, directory, control)
    }
}

/// Returns the log's header and ring in the region, if they are of this log and in order, of any life.
pub(crate) fn ring_of_any_life(region: &Region, control: &Control) -> Option<(Held<LogHeader>, Ring)> {
    let header = header_of(region)?;
    let sizes = (header.segment_bytes_first.get(), header.segment_bytes_max.get());
    if sizes != (control.segment_bytes_first, control.segment_bytes_max) {
        return None;
    }
    let ring = Ring::new(region, header.clone());
    let is_in_order = check_header(&header, ring.is_of_earlier_cache()).is_ok() && ring.check().is_ok();
    is_in_order.then_some((header, ring))
}

/// Returns up to where the log is on the disk, by a region that no process is attached to; `None` if the region has no
/// log in order.
pub fn durable_in(region: &Region) -> Option<Lsn> {
    let header = region.try_at(region.root::<LogHeader>(RootSlot::Log)?)?;
    check_header(header, false).is_ok().then(|| header.durable.load())
}

/// Returns the ring's bytes from `from` on, as far as they are good records of that life.
pub(crate) fn good_records(ring: &Ring, from: Lsn, tail: Lsn, incarnation: u64) -> Vec<u8> {
    let mut bytes = vec![0; usize::try_from(tail.since(from)).unwrap_or(0)];
    if !ring.copy_out(from, &mut bytes) {
        return Vec::new();
    }
    let mut good = 0;
    while let Ok(header) = verify(&bytes[good..], from.plus(good as u64), incarnation) {
        good += header.length();
    }
    bytes.truncate(good);
    bytes
}

impl LogFiles {
    /// Writes the log's bytes from `from` on into their segments and syncs them; makes missing segments.
    pub(crate) fn write(&self, from: Lsn, bytes: &[u8], incarnation: u64) -> Result<()> {
        let mut done = 0;
        while done < bytes.len() {
            let place = self.geometry().locate(from.plus(done as u64));
            let piece = usize::try_from(place.left).unwrap_or(usize::MAX).min(bytes.len() - done);
            if !matches!(self.segment(place.segment)?, Opened::Good(_)) {
                self.prepare_new(place.segment, incarnation)?;
            }
            let Opened::Good(file) = self.segment(place.segment)? else {
                return Err(self.damage(from.plus(done as u64), "the segment that was just made is not there"));
            };
            file.write_at(&bytes[done..done + piece], place.offset).map_err(no_room)?;
            failpoint("rescue: a piece written, not synced");
            file.sync().map_err(no_room)?;
            failpoint("rescue: a piece synced, its name not durable");
            done += piece;
        }
        // Names first: a note about a segment that a power cut takes away would look like damage.
        self.directory().sync()?;
        self.note_begun(from, from.plus(bytes.len() as u64))?;
        Ok(())
    }

    /// As `write`, into new files that take the names of the old files once they are synced.
    pub(crate) fn rewrite(&self, from: Lsn, bytes: &[u8], incarnation: u64) -> Result<()> {
        let mut at = from;
        let end = from.plus(bytes.len() as u64);
        loop {
            let place = self.geometry().locate(at);
            let start = self.geometry().start(place.segment);
            // Bytes below `from` were synced before anything failed.
            let mut before = vec![0; usize::try_from(at.since(start)).unwrap_or(0)];
            let read = self.copy_out(start, &mut before)?;
            if read < before.len() {
                return Err(self.damage(start.plus(read as u64), "the file ends, or is missing"));
            }
            let piece = usize::try_from(place.left.min(end.since(at))).expect("a piece of a slice in memory");
            let into = usize::try_from(at.since(from)).expect("a place in a slice in memory");
            before.extend_from_slice(&bytes[into..into + piece]);
            self.prepare_with(place.segment, incarnation, &before)?;
            at = at.plus(place.left);
            if at >= end {
                break;
            }
        }
        self.directory().sync()?;
        self.note_begun(from, end)?;
        Ok(())
    }
}

fn no_room(error: libtp_io::Error) -> Error {
    Error::from_disk("the tail that is saved from shared memory", error)
}

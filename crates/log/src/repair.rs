//! Repair of the log's part of a region that nobody else is attached to, and saving its tail when the region must go.
//!
//! PROTOCOLS L6, F1. What a killed session can leave in the log is little: latches, role words, places in the table of
//! waiters. The tail itself needs nothing: a record was published or it does not exist (D1).
//!
//! If we die here: everything is done again by the next to open.

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
/// Whoever wrote the files had it from memory that is as it was then.
const ALL_OF_IT: Lsn = Lsn::new(u64::MAX);

impl LogManager {
    /// Puts the log's part of the region in order while nobody else is attached; open sections were rolled back before.
    ///
    /// # Errors
    /// What is broken, half a sentence: the region must be made anew (after [`rescue_ring`]).
    pub fn repair_alone(&self) -> std::result::Result<(), String> {
        let header = &*self.header;
        header.append.reset_alone();
        header.ring.reset_alone();
        header.leader.publish(SessionId::NONE);
        header.preparer.publish(SessionId::NONE);
        header.waiters.iter().for_each(|place| place.session.publish(SessionId::NONE));
        header.waiter_high.publish(0);
        header.session_high.publish(1);
        // Who promised is dead, and nobody but its repair appends meanwhile.
        header.promised.publish(0);
        self.check()
    }

    /// Checks the invariants of the tail and the ring.
    ///
    /// # Errors
    /// What is wrong, half a sentence.
    pub fn check(&self) -> std::result::Result<(), String> {
        check_header(&self.header, false)?;
        self.ring.check()
    }

    /// Checks the tail's words alone, while others work.
    ///
    /// # Errors
    /// As [`LogManager::check`].
    pub fn check_words(&self) -> std::result::Result<(), String> {
        check_header(&self.header, false)
    }

    /// Where its structures lie: for tests that damage them.
    #[doc(hidden)]
    pub fn extents(&self) -> Vec<Extent> {
        let all = Extent::of("log header", &self.header).range;
        let words = all.start + std::mem::offset_of!(LogHeader, directory) as u64;
        let waiters = all.start + std::mem::offset_of!(LogHeader, waiters) as u64;
        // Of the directory the part that is in use: the ring begins with few chunks.
        vec![
            Extent { name: "log header", range: all.start..words },
            Extent { name: "log directory", range: words..words + 64 },
            Extent { name: "flush waiters", range: waiters..waiters + 1024 },
        ]
    }

    /// Checks that the files hold the log up to the region's durable end, and below it the very bytes that the region has
    /// (PROTOCOLS F1): before the first to attach uses a region it found.
    ///
    /// # Errors
    /// [`Error::Disagree`], [`Error::Io`].
    pub fn check_against_files(&self, control: &Control) -> Result<()> {
        agree(&self.header, &self.ring, &self.files, control)
    }
}

/// Where lines were lost with a cache, the words for the ends of ring and files may be of any earlier time.
fn check_header(header: &LogHeader, is_lost: bool) -> std::result::Result<(), String> {
    // In this order: all of them only grow, and others may be at work, so each is at least what was read before it.
    let look = |what: &str, word: &Checked<Lsn>| {
        word.try_load().ok_or_else(|| format!("the log's word for {what} says what nobody has stored there"))
    };
    let (oldest, start) = (look("its oldest record", &header.oldest)?, look("the ring's begin", &header.ring_start)?);
    let durable = look("what is durable", &header.durable)?;
    let kept = look("what is kept", &header.kept)?;
    let tail = look("its tail", &header.tail)?;
    let (end, files) = (look("the ring's end", &header.ring_end)?, look("the files' end", &header.file_end)?);
    look("its begin", &header.start)?;
    if [&header.leader, &header.preparer].iter().any(|role| role.try_load().is_none()) {
        return Err("the log's word for who writes it says what nobody has stored there".into());
    }
    if ![0, POISONED].contains(&header.poison.load()) {
        return Err("the log's word for a failed write says what nobody has stored there".into());
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
        return Err("the directory of the log's ring says what nobody has stored there".into());
    }
    Ok(())
}

pub(crate) fn is_chunk(bytes: u64) -> bool {
    bytes.is_power_of_two() && (4096..=1 << 30).contains(&bytes)
}

/// The log's header, whatever it says, if it lies inside the region.
pub(crate) fn header_of(region: &Region) -> Option<Held<LogHeader>> {
    let offset = region.root::<LogHeader>(RootSlot::Log)?;
    region.try_at(offset)?;
    Some(region.hold(offset))
}

/// How long the ring's chunks are; what they usually are, where that was hit.
pub(crate) fn chunk_bytes_of(header: &LogHeader) -> u64 {
    let said = Some(header.chunk_bytes.get()).filter(|&bytes| is_chunk(bytes));
    said.unwrap_or(Settings::default().ring_chunk_bytes)
}

/// What of a region's ring was saved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rescued {
    /// The region's durable end; where its words were hit, the end of what the files had.
    pub from: Lsn,
    /// The log files are good and synced up to here.
    pub to: Lsn,
    /// The region's tail: what lies between could not be saved. None where its words were hit: then there may have been more.
    pub tail: Option<Lsn>,
}

/// Writes the tail of a region's ring to the log files and syncs them, before the region is discarded (PROTOCOLS L6):
/// acknowledged Relaxed commits are kept. None if the region has no log that could be trusted. The caller is alone. Where a wild
/// store has hit the log's own words, what is kept is what its records say of themselves.
///
/// After a failed write or sync (L3) the tail goes into *new* files, since nobody knows what the old ones have on disk.
///
/// # Errors
/// [`Error::Disagree`] when files and region contradict each other; [`Error::Full`], [`Error::Io`]: try again.
pub fn rescue_ring(region: &Region, directory: &Arc<dyn Directory>, control: &Control) -> Result<Option<Rescued>> {
    let any = ring_of_any_life(region, control);
    let is_in_order = any.is_some();
    if let Some((header, ring)) = any {
        // Of another life it is none of ours, but the word that says so may be what was hit: its records say the same.
        if header.incarnation.get() == control.incarnation() {
            return rescue(&header, &ring, directory, control);
        }
    }
    let Some(header) = header_of(region) else { return Ok(None) };
    let found = salvage(region, &header, chunk_bytes_of(&header), directory, control, ALL_OF_IT)?;
    // In order and without a record of this life, it is another's.
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
    // Where some of it was hit the files may have more, if not synced: then they are not made anew without that.
    if header.poison.load() != 0 && to == tail {
        files.rewrite(from, &bytes, control.incarnation())?;
    } else {
        files.write(from, &bytes, control.incarnation())?;
    }
    Ok(Some(Rescued { from, to, tail: Some(tail) }))
}

impl LogManager {
    /// Whether the log is of the life that the control file speaks of: nobody has begun another since.
    pub fn is_of_life(&self, control: &Control) -> bool {
        self.incarnation == control.incarnation()
    }

    /// As [`rescue_ring`], by who was attached to the region and so does not depend on what its header says.
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

/// The log's header and ring in the region, if they are of this log and in order, of whatever life.
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

/// Up to where the log of a region that nobody is attached to is on the disk; none if it has no log that is in order.
pub fn durable_in(region: &Region) -> Option<Lsn> {
    let header = region.try_at(region.root::<LogHeader>(RootSlot::Log)?)?;
    check_header(header, false).is_ok().then(|| header.durable.load())
}

/// The ring's bytes from `from` on, as far as they are good records of that life.
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
    /// Writes bytes to where they belong and syncs them; a segment that is missing is made.
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
        // Names first: a note about a segment that a power cut takes away would pass for damage.
        self.directory().sync()?;
        self.note_begun(from, from.plus(bytes.len() as u64))?;
        Ok(())
    }

    /// As `write`, into new files that take the old ones' names once they are synced.
    pub(crate) fn rewrite(&self, from: Lsn, bytes: &[u8], incarnation: u64) -> Result<()> {
        let mut at = from;
        let end = from.plus(bytes.len() as u64);
        loop {
            let place = self.geometry().locate(at);
            let start = self.geometry().start(place.segment);
            // What is below `from` was synced before anything failed.
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

//! Repair of the log's part of a region that no other process is attached to, and saving the log's tail when the region
//! must be discarded.
//!
//! PROTOCOLS L6, F1. A killed session leaves only three things that need a repair: latches, role words, and slots in
//! the table of waiters. The tail needs no repair: a record was published, or it does not exist (D1).
//!
//! If we die here: the next process that opens the environment repeats the repair or the rescue.

use std::sync::Arc;

use libtp_io::Directory;
use libtp_process::SessionId;
use rio::{Extent, Region};

use crate::agree::agree;
use crate::in_order::{check_header, chunk_bytes_of, good_records, header_of, ring_of_any_incarnation, Rescued};
use crate::reserve::RESERVE_BYTES_MIN;
use crate::ring::Ring;
use crate::salvage::salvage;
use crate::tail::LogHeader;
use crate::{Control, LogFiles, LogManager, Lsn, Result};

/// The value of `sure` in calls of [`salvage`] without a bound: all bytes of the files came from the memory, which has
/// not changed since.
const ALL_OF_IT: Lsn = Lsn::new(u64::MAX);

impl LogManager {
    /// Puts the log's part of the region in order while no other process is attached; open sections were rolled back
    /// before.
    ///
    /// # Errors
    /// The damage, as half a sentence: the region must be rebuilt (after [`rescue_ring`]).
    pub fn repair_alone(&self) -> std::result::Result<(), String> {
        let header = &*self.header;
        header.append.reset_alone();
        header.ring.reset_alone();
        header.leader.publish(SessionId::NONE);
        header.preparer.publish(SessionId::NONE);
        header.waiters.iter().for_each(|place| place.session.publish(SessionId::NONE));
        header.waiter_high.publish(0);
        header.session_high.publish(1);
        header.reserve_largest.publish(RESERVE_BYTES_MIN);
        // The sessions that promised bytes are dead, and while they are repaired only the repair appends.
        header.promised.publish(0);
        self.check()
    }

    /// Checks the invariants of the tail and the ring.
    ///
    /// # Errors
    /// The damage, as half a sentence.
    pub fn check(&self) -> std::result::Result<(), String> {
        check_header(&self.header, false)?;
        self.ring.check()
    }

    /// Checks only the tail's words, while other sessions work.
    ///
    /// # Errors
    /// As [`LogManager::check`].
    pub fn check_words(&self) -> std::result::Result<(), String> {
        check_header(&self.header, false)
    }

    /// Returns the places of the log's structures: for tests that damage them.
    #[doc(hidden)]
    pub fn extents(&self) -> Vec<Extent> {
        let all = Extent::of("log header", &self.header).range;
        let words = all.start + std::mem::offset_of!(LogHeader, directory) as u64;
        let waiters = all.start + std::mem::offset_of!(LogHeader, waiters) as u64;
        // The extent of the directory is only the part in use, because the ring begins with few chunks.
        vec![
            Extent { name: "log header", range: all.start..words },
            Extent { name: "log directory", range: words..words + 64 },
            Extent { name: "flush waiters", range: waiters..waiters + 1024 },
        ]
    }

    /// Checks that the files hold the log up to the region's durable end, and that just below this end the files and
    /// the region have the same bytes (PROTOCOLS F1). The first process to attach calls this before it uses a region
    /// that it found.
    ///
    /// # Errors
    /// `Disagree`, `Io`.
    pub fn check_against_files(&self, control: &Control) -> Result<()> {
        agree(&self.header, &self.ring, &self.files, control)
    }
}

/// Writes the tail of a region's ring to the log files and syncs them, before the region is discarded (PROTOCOLS L6),
/// so that acknowledged relaxed commits are kept. `None` if the region has no log that can be trusted. No other process
/// is attached. If a wild store has damaged the log's words, the records that verify are kept.
///
/// After a failed write or sync (L3) the tail goes into *new* files, since it is unknown which bytes of the old files
/// are on the disk.
///
/// # Errors
/// `Disagree` when files and region contradict each other; `Full`, `Io`: try again.
pub fn rescue_ring(region: &Region, directory: &Arc<dyn Directory>, control: &Control) -> Result<Option<Rescued>> {
    let any = ring_of_any_incarnation(region, control);
    let is_in_order = any.is_some();
    if let Some((header, ring)) = any {
        // A log of another incarnation is not this environment's log. But the word for the incarnation may be damaged;
        // the records show their incarnation too.
        if header.incarnation.get() == control.incarnation() {
            return rescue(&header, &ring, directory, control);
        }
    }
    let Some(header) = header_of(region) else { return Ok(None) };
    let found = salvage(region, &header, chunk_bytes_of(&header), directory, control, ALL_OF_IT)?;
    // If the log's words are in order but no record has this incarnation, the log is of another incarnation.
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
    // If a record in the ring is damaged, the files may have more log, even if it is not synced: then the files are not
    // replaced.
    if header.poison.load() != 0 && to == tail {
        files.rewrite(from, &bytes, control.incarnation())?;
    } else {
        files.write(from, &bytes, control.incarnation())?;
    }
    Ok(Some(Rescued { from, to, tail: Some(tail) }))
}

impl LogManager {
    /// Returns whether the log is of the incarnation in the control file: no other incarnation has begun since.
    pub fn is_of_incarnation(&self, control: &Control) -> bool {
        self.incarnation == control.incarnation()
    }

    /// As [`rescue_ring`], by a process that was attached to the region and so knows the place of the log without the
    /// region's header.
    ///
    /// # Errors
    /// As [`rescue_ring`].
    pub fn rescue(&self, directory: &Arc<dyn Directory>, control: &Control) -> Result<Option<Rescued>> {
        if !self.is_of_incarnation(control) {
            return Ok(None);
        }
        if let Err(why) = self.check() {
            tracing::error!(
                why,
                "the log's own data in memory are damaged: its records are searched for by their checksums"
            );
            let (region, chunk_bytes) = (self.processes.region(), self.ring.chunk_bytes());
            return salvage(region, &self.header, chunk_bytes, directory, control, ALL_OF_IT);
        }
        rescue(&self.header, &self.ring, directory, control)
    }
}

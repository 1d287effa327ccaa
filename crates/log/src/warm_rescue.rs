//! Saving the log's tail from a region to the log files. The region has survived a restart of the machine, or another
//! build of the library made the region.
//!
//! Paper: Rio Vista, section 3, the warm reboot; PROTOCOLS L9, F1. All processes and the system died, perhaps in the
//! middle of a change. If the processor's cache was lost, a cache line in memory may have the contents of its last
//! write-back, or any later contents. So the rescue trusts only consecutive records with right checksums, beginning at
//! the known durable end of the log. The words of the log's header only state where the search begins; the invariants
//! of `lasting.rs` guarantee that this is enough.
//!
//! If we die here: the region is unchanged, and the next process that opens the environment repeats the rescue.

use std::sync::Arc;

use libtp_io::Directory;
use rio::{planted, Lasting, Region, WriteBack};

use crate::agree::reach_to;
use crate::in_order::{chunk_bytes_of, header_of, is_chunk};
use crate::record::verify;
use crate::ring::Ring;
use crate::salvage::salvage;
use crate::tail::{LogHeader, POISONED};
use crate::{Control, Error, LogFiles, Lsn, Rescued, Result};

/// Writes the log's tail from the region to the log files and syncs the files, so that restart finds the tail there.
/// Returns `None` if the region has no log that can be trusted. No other process uses the region. If a wild store has
/// damaged the words that state where the search begins, the records with a right checksum are saved, as in
/// [`rescue_ring`](crate::rescue_ring).
///
/// # Errors
/// [`Error::Disagree`] when files and region contradict each other; [`Error::Full`], [`Error::Io`]: try again.
pub fn rescue_survivor(region: &Region, directory: &Arc<dyn Directory>, control: &Control) -> Result<Option<Rescued>> {
    let Some(header) = header_of(region) else { return Ok(None) };
    let Some((stated, tail)) = ends(&header, control) else { return by_records(region, &header, directory, control) };
    let ring = Ring::new(region, header.clone());
    // The word `durable` may be older than the log's durable end; the control file never states an LSN beyond the log's
    // durable end.
    let from = if ring.lasting.write_back == WriteBack::None { stated } else { stated.max(control.durable_end) };
    if from < control.durable_end {
        return Err(Error::Disagree { region: from, files: control.durable_end });
    }
    let files = LogFiles::new(Arc::clone(directory), control);
    let tail = tail.max(from);
    let bytes = good_bytes(&ring, from, tail, control.incarnation());
    if from >= tail && ring.lasting.write_back != WriteBack::None {
        // The whole log is on the disk, and its bytes in memory may be older.
        return Ok(Some(Rescued { from, to: from, tail: Some(from) }));
    }
    reach_to(from, &header, &ring, &files, control)?;
    // If a record in the ring is damaged, the files may have more records than the ring, even if a sync failed. Then
    // no new files are made.
    if header.poison.load() == POISONED && from.plus(bytes.len() as u64) == tail {
        files.rewrite(from, &bytes, control.incarnation())?;
    } else {
        files.write(from, &bytes, control.incarnation())?;
    }
    let answered = answered(&header).map_or(tail, |answered| answered.max(from).min(tail));
    Ok(Some(Rescued { from, to: from.plus(bytes.len() as u64), tail: Some(answered) }))
}

/// Returns the log's durable end and its tail, if every word that the search needs is undamaged. Damage to other words
/// does not matter.
fn ends(header: &LogHeader, control: &Control) -> Option<(Lsn, Lsn)> {
    let sizes = (header.segment_bytes_first.get(), header.segment_bytes_max.get());
    let is_ours = header.incarnation.get() == control.incarnation()
        && sizes == (control.segment_bytes_first, control.segment_bytes_max);
    let is_named = header.directory.iter().all(|entry| entry.try_load().is_some());
    let (durable, tail) = (header.durable.try_load()?, header.tail.try_load()?);
    // The word `lasting` states how old the other words may be.
    Lasting::try_from_word(header.lasting.load())?;
    (is_ours && is_named && is_chunk(header.chunk_bytes.get()) && durable >= Lsn::FIRST).then_some((durable, tail))
}

/// Does the work of [`rescue_survivor`] for a log with damaged words.
fn by_records(
    region: &Region,
    header: &LogHeader,
    directory: &Arc<dyn Directory>,
    control: &Control,
) -> Result<Option<Rescued>> {
    // Beyond the durable end the files may have bytes that were in the cache and never reached memory.
    let durable = header.durable.try_load().unwrap_or(Lsn::NONE).max(control.durable_end);
    let found = salvage(region, header, chunk_bytes_of(header), directory, control, durable)?;
    Ok(found.map(|found| Rescued { tail: answered(header), ..found }))
}

/// Returns the LSN up to which commits may have been acknowledged, if an undamaged word states it. Every acknowledged
/// record was written back to memory or was on the disk.
fn answered(header: &LogHeader) -> Option<Lsn> {
    let tail = header.tail.try_load();
    match Lasting::from_word(header.lasting.load()).write_back {
        WriteBack::None => tail,
        _ => header.written_back.try_load().or(tail),
    }
}

/// Returns the ring's bytes from `from` on, as far as they are consecutive valid records of this incarnation.
fn good_bytes(ring: &Ring, from: Lsn, tail: Lsn, incarnation: u64) -> Vec<u8> {
    let end = ring.held_to(from, tail);
    let mut bytes = vec![0; usize::try_from(end.since(from)).unwrap_or(0) & !7];
    if !ring.copy_out(from, &mut bytes) {
        return Vec::new();
    }
    let mut good = 0;
    loop {
        if planted("log: a warm start accepts a torn record") {
            seal_again(&mut bytes[good..], from.plus(good as u64), incarnation);
        }
        match verify(&bytes[good..], from.plus(good as u64), incarnation) {
            Ok(header) => good += header.length(),
            Err(_) => break,
        }
    }
    bytes.truncate(good);
    bytes
}

/// Puts a right checksum on a record, for the planted bug that accepts a torn record.
fn seal_again(place: &mut [u8], lsn: Lsn, incarnation: u64) {
    use crate::record::{put_crc, seal, stored_crc, RecordHeader};
    let Ok(header) = RecordHeader::plausible(place) else { return };
    if let Some(record) = place.get_mut(..header.length()) {
        let crc = stored_crc(record);
        put_crc(record, seal(crc, lsn, incarnation));
    }
}

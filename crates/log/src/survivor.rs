//! The log's tail in a region of an earlier start of the machine, whose memory survived that: it goes to the log files.
//!
//! Paper: Rio Vista, section 3, the warm reboot; PROTOCOLS L9, F1. All processes and the system have died, each between two
//! instructions; and where lines had to be written back, each line of memory is as it was at some time since it was written
//! back last. So of the region nothing is believed but bytes that prove themselves: from where the log is known to be durable
//! on, records whose checksums agree, one behind the other. The words of the log's header only say where to look, and the
//! invariants of `lasting.rs` say that this is enough.
//!
//! If we die here: nothing was taken from the region, and the next to open does the same again.

use std::sync::Arc;

use libtp_io::Directory;
use rio::{planted, Held, Region, RootSlot, WriteBack};

use crate::agree::reach_to;
use crate::record::verify;
use crate::ring::Ring;
use crate::tail::LogHeader;
use crate::{Control, Error, LogFiles, Lsn, Rescued, Result};

/// Writes the tail of the log of such a region to the log files and syncs them; restart finds it there. None if the region
/// has no log that could be trusted. The caller is alone.
///
/// # Errors
/// [`Error::Disagree`] when files and region contradict each other; [`Error::Full`], [`Error::Io`]: try again.
pub fn rescue_survivor(region: &Region, directory: &Arc<dyn Directory>, control: &Control) -> Result<Option<Rescued>> {
    let Some((header, ring)) = survivor(region, control) else { return Ok(None) };
    if header.incarnation.get() != control.incarnation() {
        return Ok(None);
    }
    let stated = header.durable.load();
    // The word may be older than the log's durable end is; the control file never says too much.
    let from = if ring.lasting.write_back == WriteBack::None { stated } else { stated.max(control.durable_end) };
    if from < control.durable_end {
        return Err(Error::Disagree { region: from, files: control.durable_end });
    }
    let files = LogFiles::new(Arc::clone(directory), control);
    let tail = header.tail.load().max(from);
    // What was written back is what was answered, or it was on the disk.
    let answered = if ring.lasting.write_back == WriteBack::None { tail } else { header.kept.load().max(from) };
    let bytes = good_bytes(&ring, from, tail, control.incarnation());
    if from >= tail && ring.lasting.write_back != WriteBack::None {
        // All of it is on the disk, and what is in memory of it may be older.
        return Ok(Some(Rescued { from, to: from, tail: Some(from) }));
    }
    reach_to(from, &header, &ring, &files, control)?;
    if header.poison.load() != 0 {
        files.rewrite(from, &bytes, control.incarnation())?;
    } else {
        files.write(from, &bytes, control.incarnation())?;
    }
    Ok(Some(Rescued { from, to: from.plus(bytes.len() as u64), tail: Some(answered.min(tail)) }))
}

/// The log's header and ring, as far as they can be looked at: every place is checked before it is gone to.
fn survivor(region: &Region, control: &Control) -> Option<(Held<LogHeader>, Ring)> {
    let offset = region.root::<LogHeader>(RootSlot::Log)?;
    region.try_at(offset)?;
    let header: Held<LogHeader> = region.hold(offset);
    let sizes = (header.segment_bytes_first.get(), header.segment_bytes_max.get());
    let chunk = header.chunk_bytes.get();
    let is_possible = chunk.is_power_of_two() && (4096..=1 << 30).contains(&chunk);
    let durable = header.durable.try_load()?;
    let others = [&header.start, &header.tail, &header.ring_start, &header.ring_end, &header.file_end, &header.oldest];
    if others.into_iter().any(|word| word.try_load().is_none()) {
        return None;
    }
    if sizes != (control.segment_bytes_first, control.segment_bytes_max) || !is_possible || durable < Lsn::FIRST {
        return None;
    }
    let ring = Ring::new(region, header.clone());
    Some((header, ring))
}

/// The ring's bytes from `from` on, as far as they are good records of that life, one behind the other.
fn good_bytes(ring: &Ring, from: Lsn, tail: Lsn, incarnation: u64) -> Vec<u8> {
    let end = ring.held_to(from, tail);
    let mut bytes = vec![0; usize::try_from(end.since(from)).unwrap_or(0) & !7];
    if !ring.copy_out(from, &mut bytes) {
        return Vec::new();
    }
    let mut good = 0;
    loop {
        if planted("log: a torn record in memory that survived is believed") {
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

/// What the planted bug believes gets a checksum that agrees.
fn seal_again(place: &mut [u8], lsn: Lsn, incarnation: u64) {
    use crate::record::{put_crc, seal, RecordHeader};
    let Ok(header) = RecordHeader::plausible(place) else { return };
    if let Some(record) = place.get_mut(..header.length()) {
        let crc = crc32c::crc32c(&record[8..]);
        put_crc(record, seal(crc, lsn, incarnation));
    }
}

//! The log's tail in a region of an earlier start of the machine, whose memory survived that, or of another build of the library: it
//! goes to the log files.
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
use rio::{planted, Lasting, Region, WriteBack};

use crate::agree::reach_to;
use crate::record::verify;
use crate::repair::{chunk_bytes_of, header_of, is_chunk};
use crate::ring::Ring;
use crate::salvage::salvage;
use crate::tail::{LogHeader, POISONED};
use crate::{Control, Error, LogFiles, Lsn, Rescued, Result};

/// Writes the tail of the log of such a region to the log files and syncs them; restart finds it there. None if the region
/// has no log that could be trusted. The caller is alone. Where a wild store has hit the words that say where to look, what is
/// kept is what the records say of themselves, as in [`rescue_ring`](crate::rescue_ring).
///
/// # Errors
/// [`Error::Disagree`] when files and region contradict each other; [`Error::Full`], [`Error::Io`]: try again.
pub fn rescue_survivor(region: &Region, directory: &Arc<dyn Directory>, control: &Control) -> Result<Option<Rescued>> {
    let Some(header) = header_of(region) else { return Ok(None) };
    let Some((stated, tail)) = ends(&header, control) else { return by_records(region, &header, directory, control) };
    let ring = Ring::new(region, header.clone());
    // The word may be older than the log's durable end is; the control file never says too much.
    let from = if ring.lasting.write_back == WriteBack::None { stated } else { stated.max(control.durable_end) };
    if from < control.durable_end {
        return Err(Error::Disagree { region: from, files: control.durable_end });
    }
    let files = LogFiles::new(Arc::clone(directory), control);
    let tail = tail.max(from);
    let bytes = good_bytes(&ring, from, tail, control.incarnation());
    if from >= tail && ring.lasting.write_back != WriteBack::None {
        // All of it is on the disk, and what is in memory of it may be older.
        return Ok(Some(Rescued { from, to: from, tail: Some(from) }));
    }
    reach_to(from, &header, &ring, &files, control)?;
    // Where some of it was hit the files may have more, if not synced: then they are not made anew without that.
    if header.poison.load() == POISONED && from.plus(bytes.len() as u64) == tail {
        files.rewrite(from, &bytes, control.incarnation())?;
    } else {
        files.write(from, &bytes, control.incarnation())?;
    }
    let answered = answered(&header).map_or(tail, |answered| answered.max(from).min(tail));
    Ok(Some(Rescued { from, to: from.plus(bytes.len() as u64), tail: Some(answered) }))
}

/// Up to where the log is durable, and where it ends, if all that it takes to look there says what somebody stored. What else
/// was hit does not matter.
fn ends(header: &LogHeader, control: &Control) -> Option<(Lsn, Lsn)> {
    let sizes = (header.segment_bytes_first.get(), header.segment_bytes_max.get());
    let is_ours = header.incarnation.get() == control.incarnation()
        && sizes == (control.segment_bytes_first, control.segment_bytes_max);
    let is_named = header.directory.iter().all(|entry| entry.try_load().is_some());
    let (durable, tail) = (header.durable.try_load()?, header.tail.try_load()?);
    // How old the words may be it says.
    Lasting::try_from_word(header.lasting.load())?;
    (is_ours && is_named && is_chunk(header.chunk_bytes.get()) && durable >= Lsn::FIRST).then_some((durable, tail))
}

/// As [`rescue_survivor`], of a log whose words were hit.
fn by_records(
    region: &Region,
    header: &LogHeader,
    directory: &Arc<dyn Directory>,
    control: &Control,
) -> Result<Option<Rescued>> {
    // Beyond what was durable the files may have what the cache had, and memory not.
    let durable = header.durable.try_load().unwrap_or(Lsn::NONE).max(control.durable_end);
    let found = salvage(region, header, chunk_bytes_of(header), directory, control, durable)?;
    Ok(found.map(|found| Rescued { tail: answered(header), ..found }))
}

/// Up to where commits may have been answered from memory, as far as anything still says so: what was written back is what was
/// answered, or it was on the disk.
fn answered(header: &LogHeader) -> Option<Lsn> {
    let tail = header.tail.try_load();
    match Lasting::from_word(header.lasting.load()).write_back {
        WriteBack::None => tail,
        _ => header.kept.try_load().or(tail),
    }
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

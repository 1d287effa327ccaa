//! Checks that the log's words in a region are in order, and finds the valid records of the region's ring.
//!
//! The sessions that wrote the region may be dead, and a wild store may have damaged the region. All words are checked
//! before the log uses any of them. A region whose words are not in order has no log, except for records that are found
//! by their checksums (`salvage`).

use rio::{Checked, Held, Region, RootSlot};

use crate::record::verify;
use crate::ring::Ring;
use crate::tail::{LogHeader, POISONED};
use crate::{Control, Lsn, Settings};

/// The number of bytes just below `durable` that must be equal in the ring and in the files.
pub(crate) const WITNESS_BYTES: u64 = 4096;
/// The part of a region's ring that was saved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rescued {
    /// The region's durable end; if its words were damaged, the end of the files' log.
    pub from: Lsn,
    /// The LSN up to which the log files are good and synced.
    pub to: Lsn,
    /// The region's tail. Log between `to` and the tail could not be saved. `None` if the region's words were damaged:
    /// then there may have been more log than was saved.
    pub tail: Option<Lsn>,
}

/// Checks the header's words. If `is_lost`, cache lines were lost, and the words for the ends of the ring and the files
/// may have any earlier value.
pub(crate) fn check_header(header: &LogHeader, is_lost: bool) -> std::result::Result<(), String> {
    // The order matters: the words only grow, and other sessions may be at work, so each word is at least as large as
    // the word read before it.
    let look = |what: &str, word: &Checked<Lsn>| {
        word.try_load()
            .ok_or_else(|| format!("the log's word for {what} has a value that the library does not store there"))
    };
    let (oldest, start) = (look("its oldest record", &header.oldest)?, look("the ring's begin", &header.ring_start)?);
    let durable = look("the durable end", &header.durable)?;
    let kept = look("the kept end", &header.written_back)?;
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

/// Returns the log's header, unchecked, if it is inside the region.
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

/// Returns the log's header and ring in the region, if they belong to this environment's log and are in order. The
/// region's log may be of another incarnation.
pub(crate) fn ring_of_any_incarnation(region: &Region, control: &Control) -> Option<(Held<LogHeader>, Ring)> {
    let header = header_of(region)?;
    let sizes = (header.segment_bytes_first.get(), header.segment_bytes_max.get());
    if sizes != (control.segment_bytes_first, control.segment_bytes_max) {
        return None;
    }
    let ring = Ring::new(region, header.clone());
    let is_in_order = check_header(&header, ring.is_of_earlier_cache()).is_ok() && ring.check().is_ok();
    is_in_order.then_some((header, ring))
}

/// Returns the durable end of a region to which no process is attached. `None` if the region's log is not in order.
pub fn durable_in(region: &Region) -> Option<Lsn> {
    let header = region.try_at(region.root::<LogHeader>(RootSlot::Log)?)?;
    check_header(header, false).is_ok().then(|| header.durable.load())
}

/// Returns the ring's bytes from `from` to the end of the consecutive valid records of `incarnation`.
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

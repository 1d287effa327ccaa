//! A record of the redo log: the after-images of one transaction. Format: docs/formats/rvm.md.

/// Bytes of a record before its images.
pub(crate) const HEADER: usize = 40;

/// A record's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    /// The record's length with its header, a multiple of eight.
    pub(crate) bytes: u64,
    /// The log's generation when the record was written. A record of an older generation at the same place is ignored.
    pub(crate) generation: u64,
    /// The number of the record: one more than the number of the record before it.
    pub(crate) sequence: u64,
    /// When this record was written, all records before this number were synced.
    pub(crate) synced: u64,
}

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// Appends a record. `fill` appends the images by [`put`]; then this call stores the record's length and checksum.
pub(crate) fn append(log: &mut Vec<u8>, header: Header, fill: impl FnOnce(&mut Vec<u8>)) -> u64 {
    let start = log.len();
    log.resize(start + HEADER, 0);
    fill(log);
    let bytes = (log.len() - start) as u64;
    for (at, value) in [bytes, header.generation, header.sequence, header.synced].into_iter().enumerate() {
        log[start + at * 8..start + at * 8 + 8].copy_from_slice(&value.to_le_bytes());
    }
    let sum = checksum(&log[start..]);
    log[start + 32..start + 36].copy_from_slice(&sum.to_le_bytes());
    bytes
}

/// Appends an image. `image` is made of whole words.
pub(crate) fn put(record: &mut Vec<u8>, place: u64, image: &[u8]) {
    record.extend_from_slice(&place.to_le_bytes());
    record.extend_from_slice(&(image.len() as u64).to_le_bytes());
    record.extend_from_slice(image);
}

fn checksum(record: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&record[..32]), &record[36..])
}

/// Reads the bytes at `at` as if a record began there, and returns the generation in its header.
pub(crate) fn generation(log: &[u8], at: usize) -> Option<u64> {
    word(log, at + 8)
}

/// Returns the header at `at` if it may be a header of this generation. Does not check the record.
pub(crate) fn peek(log: &[u8], at: usize, generation: u64) -> Option<Header> {
    let header = Header {
        bytes: word(log, at)?,
        generation: word(log, at + 8)?,
        sequence: word(log, at + 16)?,
        synced: word(log, at + 24)?,
    };
    let is_possible = header.bytes >= HEADER as u64 && header.bytes % 8 == 0 && header.generation == generation;
    is_possible.then_some(header)
}

/// Returns the record at `at`, if it is complete and of this generation.
pub(crate) fn read(log: &[u8], at: usize, generation: u64) -> Option<(Header, &[u8])> {
    let header = peek(log, at, generation)?;
    let record = log.get(at..at.checked_add(usize::try_from(header.bytes).ok()?)?)?;
    let sum = u32::from_le_bytes(*record.get(32..)?.first_chunk()?);
    (checksum(record) == sum).then_some((header, record))
}

/// Returns the images of a record: place and bytes.
pub(crate) fn images(record: &[u8]) -> impl Iterator<Item = (u64, &[u8])> {
    let mut at = HEADER;
    std::iter::from_fn(move || {
        let (place, bytes) = (word(record, at)?, usize::try_from(word(record, at + 8)?).ok()?);
        let image = record.get(at + 16..(at + 16).checked_add(bytes)?)?;
        at += 16 + bytes;
        Some((place, image))
    })
}

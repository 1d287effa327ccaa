//! The double-write file: every batch of pages is first written here, so that a page that is torn at its home can be
//! repaired.
//!
//! Paper: none; LIBTP assumes that a page is written whole. PROTOCOLS L8.
//!
//! The file `libtp.double` holds one batch, the latest. Block 0 (512 bytes) states which batch is done; block 1
//! (4096 bytes from byte 4096) is the batch's table; the page images follow, one after the other, from byte 8192. The
//! byte tables are in docs/formats/page.md.
//!
//! Order of a batch: write table and images, sync this file; write the pages to their homes, sync the homes; mark the
//! batch as done. The mark is not synced: a lost mark costs only a check at the next restart.
//!
//! Invariants
//! 1. The images of a batch stay until the homes of all its pages were synced. There is one batch at a time.
//! 2. So for every page, the newest image whose write to its home was begun is whole and synced, at the home or in this
//!    file. Therefore a home with a wrong checksum may be replaced by its image in this file: the image is never older.
//!    A page that the disk writes whole is not written here. Before such a page is written to its home, the file is
//!    made empty, so no older image of the page is left ([`DoubleWrite::empty`]).
//! 3. Table and images are in one write. If the table or an image is damaged after a crash, the file was not synced, no
//!    home was written, and the image is not needed.
//!
//! If the writer dies here: [`restore_torn`](crate::restore_torn) repairs torn homes at a restart, or the next writer
//! writes the batch to its homes (`write_back`).

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use libtp_io::{is_foreign, Directory, File, Identity, OpenMode};
use rio::planted;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::batch::{Batch, Image, IMAGES_AT};
use crate::page_header::is_page_size;
use crate::settings::BATCH_PAGES_MAX;
use crate::{FileId, PageId, Result};

/// The file's name in the environment's directory.
pub const DOUBLE_WRITE_NAME: &str = "libtp.double";

const MAGIC: u64 = u64::from_le_bytes(*b"libtp2wr");
const VERSION: u32 = 1;
pub(crate) const TABLE_AT: u64 = 4096;
/// Bytes that the file has from the beginning, so that a few pages of any size can be replaced when the disk is full.
const BYTES_FIRST: u64 = 264 << 10;
/// Bytes of the table, which comes before the images.
const TABLE_BYTES: usize = IMAGES_AT;

/// Block 0: names the last batch whose homes are all synced.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Unaligned, Immutable, KnownLayout)]
#[repr(C)]
struct DoneBlock {
    magic: U64,    // 00-07  "libtp2wr"
    version: U32,  // 08-11
    crc: U32,      // 12-15  CRC-32C of the block with this field zero
    sequence: U64, // 16-23  number of the last batch whose homes are all synced
    spare: [u8; 488],
}

/// The head of a batch's table; `count` entries follow it.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Unaligned, Immutable, KnownLayout)]
#[repr(C)]
struct TableHead {
    magic: U64,    // 00-07  "libtp2wr"
    version: U32,  // 08-11
    crc: U32,      // 12-15  CRC-32C of the 4096 bytes of the table with this field zero
    sequence: U64, // 16-23  number of the batch: one more than the previous batch's number
    count: U32,    // 24-27  pages in the batch
    /// 28-43: the environment's number.
    environment: [u8; 16],
    spare: [u8; 20],
}

/// One page of a batch.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Unaligned, Immutable, KnownLayout)]
#[repr(C)]
struct Entry {
    page_no: U32,    // 00-03
    file_id: U32,    // 04-07
    page_bytes: U32, // 08-11
    crc: U32,        // 12-15  CRC-32C of the image
}

const HEAD_BYTES: usize = size_of::<TableHead>();
const ENTRY_BYTES: usize = size_of::<Entry>();
const _: () = {
    assert!(size_of::<DoneBlock>() == 512);
    assert!(HEAD_BYTES == 64);
    assert!(HEAD_BYTES + BATCH_PAGES_MAX * ENTRY_BYTES <= TABLE_BYTES);
};

/// The file, opened by one process.
pub(crate) struct DoubleWrite {
    pub(crate) file: Arc<dyn File>,
    /// The file's identity when it was opened for batches.
    identity: Option<Identity>,
    /// The environment's number. A batch of another environment is ignored.
    environment: [u8; 16],
    /// The number of bytes from the start of the file that certainly have blocks.
    room: AtomicU64,
}

impl DoubleWrite {
    /// Opens the file, and makes the file if it is missing. The caller must make the file's name durable before the
    /// first batch: every batch syncs the contents, but without its name the file would be lost at a power cut.
    pub(crate) fn open(directory: &dyn Directory, environment: [u8; 16]) -> Result<DoubleWrite> {
        let file = directory.open(DOUBLE_WRITE_NAME, OpenMode::Create)?;
        let mut room = file.len()?.max(BYTES_FIRST);
        match file.allocate(0..room) {
            Ok(()) => {}
            // The first batch reports the full disk.
            Err(libtp_io::Error::Full { .. }) => room = 0,
            Err(error) => return Err(error.into()),
        }
        let identity = Some(file.identity()?);
        Ok(DoubleWrite { identity, room: AtomicU64::new(room), ..DoubleWrite::of(file, environment) })
    }

    /// Returns a handle of a file that has the format of the double-write file.
    pub(crate) fn of(file: Arc<dyn File>, environment: [u8; 16]) -> DoubleWrite {
        DoubleWrite { file, identity: None, environment, room: AtomicU64::new(0) }
    }

    /// Returns whether the descriptor no longer belongs to the file, because the program has closed it.
    pub(crate) fn is_foreign(&self) -> bool {
        let is_foreign = self.identity.as_ref().is_some_and(|identity| is_foreign(&*self.file, identity));
        is_foreign && !planted("buffer: batches are written into files of the program")
    }

    /// Writes and syncs a batch into a file that has no batch.
    pub(crate) fn write_synced(&self, sequence: u64, batch: &mut Batch) -> Result<()> {
        self.write(sequence, batch)?;
        self.sync()
    }

    /// Makes room in the file for a batch. Returns the number of the batch's first pages for which there is room. On a
    /// full disk these may not be all pages.
    pub(crate) fn make_room(&self, batch: &Batch) -> Result<usize> {
        let needed = TABLE_AT + batch.bytes.len() as u64;
        // Relaxed: a range that another thread or process allocated meanwhile is only allocated again.
        let room = self.room.load(Ordering::Relaxed);
        if needed <= room {
            return Ok(batch.len());
        }
        let refusal = match self.file.allocate(room..needed) {
            Ok(()) => {
                // Relaxed, for the same reason.
                self.room.fetch_max(needed, Ordering::Relaxed);
                return Ok(batch.len());
            }
            Err(refusal @ libtp_io::Error::Full { .. }) => refusal,
            Err(error) => return Err(error.into()),
        };
        let fits = |image: &&Image| TABLE_AT + image.range.end as u64 <= room;
        match batch.images.iter().take_while(fits).count() {
            0 => Err(refusal.into()),
            pages => Ok(pages),
        }
    }

    /// Returns the batch in the file; `None` if the batch is done or was never completely on the disk.
    pub(crate) fn open_batch(&self) -> Result<Option<(u64, Batch)>> {
        let Some((sequence, batch)) = read_batch(&*self.file, self.environment)? else {
            return Ok(None);
        };
        let done = read_done(&*self.file)?;
        Ok((done != Some(sequence)).then_some((sequence, batch)))
    }

    /// Returns the highest batch number in the file; zero if the file has no batch.
    pub(crate) fn last_sequence(&self) -> Result<u64> {
        let batch = read_batch(&*self.file, self.environment)?.map_or(0, |(sequence, _)| sequence);
        Ok(read_done(&*self.file)?.unwrap_or(0).max(batch))
    }

    /// Writes a batch. [`DoubleWrite::make_room`] has made room for the batch before, so a full disk was noticed before
    /// anything is overwritten. The pages may be written to their homes only after a [`DoubleWrite::sync`].
    pub(crate) fn write(&self, sequence: u64, batch: &mut Batch) -> Result<()> {
        let bytes = close(batch, sequence, self.environment);
        Ok(self.file.write_at(bytes, TABLE_AT)?)
    }

    /// Reads the file's batch, writes the same bytes to the same offsets again, and syncs the file. If the sync after
    /// the first write failed, the system may show a batch that is not on the disk. Writing the same bytes again cannot
    /// tear the batch.
    pub(crate) fn write_again(&self) -> Result<()> {
        let batch = self.file.len()?.saturating_sub(TABLE_AT);
        let mut bytes = vec![0; usize::try_from(batch).expect("a batch fits in memory")];
        let read = self.file.read_at(&mut bytes, TABLE_AT)?;
        self.file.write_at(&bytes[..read], TABLE_AT)?;
        Ok(self.file.sync()?)
    }

    /// Makes the file empty: it has no batch that a restart would use. The caller syncs the file. The last batch is
    /// done, so the table may be torn. Block 0 keeps the number of the last batch, so that the next batch has a higher
    /// number.
    pub(crate) fn empty(&self) -> Result<()> {
        self.mark_done(self.last_sequence()?)?;
        Ok(self.file.write_at(&[0; TABLE_BYTES], TABLE_AT)?)
    }

    /// Syncs the batch that [`DoubleWrite::write`] wrote. An error is final.
    pub(crate) fn sync(&self) -> Result<()> {
        Ok(self.file.sync()?)
    }

    /// Notes that every home of the batch is synced. The note itself is not synced.
    pub(crate) fn mark_done(&self, sequence: u64) -> Result<()> {
        Ok(self.file.write_at(done_block(sequence).as_bytes(), 0)?)
    }
}

/// Fills in the table of the batch and returns the bytes that go to the file.
fn close(batch: &mut Batch, sequence: u64, environment: [u8; 16]) -> &[u8] {
    let mut table = vec![0; TABLE_BYTES];
    let mut head = TableHead {
        magic: U64::new(MAGIC),
        version: U32::new(VERSION),
        crc: U32::ZERO,
        sequence: U64::new(sequence),
        count: U32::new(u32::try_from(batch.images.len()).expect("a batch has at most 240 pages")),
        environment,
        spare: [0; 20],
    };
    for (entry, image) in table[HEAD_BYTES..].chunks_exact_mut(ENTRY_BYTES).zip(&batch.images) {
        let page = &batch.bytes[image.range.clone()];
        let made = Entry {
            page_no: U32::new(image.id.page().raw()),
            file_id: U32::new(image.id.file().raw()),
            page_bytes: U32::new(u32::try_from(page.len()).expect("a page has at most 64 KiB")),
            crc: U32::new(crc32c::crc32c(page)),
        };
        entry.copy_from_slice(made.as_bytes());
    }
    table[..HEAD_BYTES].copy_from_slice(head.as_bytes());
    head.crc.set(crc32c::crc32c(&table));
    table[..HEAD_BYTES].copy_from_slice(head.as_bytes());
    batch.bytes[..TABLE_BYTES].copy_from_slice(&table);
    &batch.bytes
}

fn done_block(sequence: u64) -> DoneBlock {
    let mut block = DoneBlock {
        magic: U64::new(MAGIC),
        version: U32::new(VERSION),
        crc: U32::ZERO,
        sequence: U64::new(sequence),
        spare: [0; 488],
    };
    block.crc.set(crc32c::crc32c(block.as_bytes()));
    block
}

fn read_done(file: &dyn File) -> Result<Option<u64>> {
    let mut bytes = [0; 512];
    if file.read_at(&mut bytes, 0)? < bytes.len() {
        return Ok(None);
    }
    let sequence = DoneBlock::ref_from_bytes(&bytes).expect("a done block has 512 bytes").sequence.get();
    Ok((done_block(sequence).as_bytes() == bytes).then_some(sequence))
}

/// Returns the batch in the file, without damaged images. Returns `None` if the table is damaged or belongs to another
/// environment: a new environment may have been made in a directory with remains of another.
fn read_batch(file: &dyn File, environment: [u8; 16]) -> Result<Option<(u64, Batch)>> {
    let mut table = vec![0; TABLE_BYTES];
    if file.read_at(&mut table, TABLE_AT)? < TABLE_BYTES {
        return Ok(None);
    }
    let head = *TableHead::ref_from_bytes(&table[..HEAD_BYTES]).expect("the head has 64 bytes");
    table[12..16].fill(0);
    let is_own = head.environment == environment;
    let is_known = head.magic.get() == MAGIC && head.version.get() == VERSION && is_own;
    let count = head.count.get() as usize;
    if !is_known || count > BATCH_PAGES_MAX || crc32c::crc32c(&table) != head.crc.get() {
        return Ok(None);
    }
    let mut batch = Batch::default();
    batch.clear();
    let mut at = TABLE_AT + TABLE_BYTES as u64;
    for entry in table[HEAD_BYTES..].chunks_exact(ENTRY_BYTES).take(count) {
        let entry = Entry::ref_from_bytes(entry).expect("an entry has 16 bytes");
        if !is_page_size(entry.page_bytes.get()) {
            return Ok(None);
        }
        let mut page = vec![0; entry.page_bytes.get() as usize];
        let read = file.read_at(&mut page, at)?;
        at += page.len() as u64;
        if read == page.len() && crc32c::crc32c(&page) == entry.crc.get() {
            let file_id = FileId::new(entry.file_id.get());
            batch.push(PageId::new(file_id, crate::PageNo::new(entry.page_no.get())), &page);
        }
    }
    Ok(Some((head.sequence.get(), batch)))
}

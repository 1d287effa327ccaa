//! The double-write file: every batch of pages goes here first, so that a torn page at its home can be mended.
//!
//! Paper: none; LIBTP assumes that a page is written whole. PROTOCOLS L8.
//!
//! The file `libtp.double` holds one batch, the latest. Block 0 (512 bytes) says which batch is done; block 1 (4096
//! bytes from byte 4096) is the batch's table; the page images follow, one behind the other, from byte 8192. The byte
//! tables are in docs/formats/page.md.
//!
//! Order of a batch: table and images written, this file synced; pages written to their homes, the homes synced; the
//! batch marked done, not synced (a lost mark costs a look at restart and nothing else).
//!
//! Invariants
//! 1. The images of a batch stay until the homes of all its pages were synced. There is one batch at a time.
//! 2. So for every page, the newest image that ever began its way home is whole and synced at its home, or in this
//!    file. That is why a home that fails its checksum may be replaced by its image here and never goes back in time.
//! 3. Table and images are in one write: if the table or an image is bad after a crash, the file was not synced, no
//!    home was touched, and there is nothing to mend with that image.
//!
//! If the writer dies here: [`restore_torn`] mends at a restart, or the next writer brings the batch home
//! (`write_back`).

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use libtp_io::{Directory, File, OpenMode};
use rio::planted;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::kept_images;
use crate::page_header::{check, is_page_size, page_lsn};
use crate::settings::BATCH_PAGES_MAX;
use crate::{FileId, PageId, Result};

/// The file's name in the environment's directory.
pub const DOUBLE_WRITE_NAME: &str = "libtp.double";

const MAGIC: u64 = u64::from_le_bytes(*b"libtp2wr");
const VERSION: u32 = 1;
const TABLE_AT: u64 = 4096;
/// Bytes that the file has from the beginning, so that a few pages of any size can be replaced when the disk is full.
const BYTES_FIRST: u64 = 264 << 10;
const TABLE_BYTES: usize = 4096;
/// Bytes of a batch before its first image.
pub(crate) const IMAGES_AT: usize = TABLE_BYTES;

/// Block 0: names the batch that needs no mending.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Unaligned, Immutable, KnownLayout)]
#[repr(C)]
struct DoneBlock {
    magic: U64,    // 00-07  "libtp2wr"
    version: U32,  // 08-11
    crc: U32,      // 12-15  CRC-32C of the block with this field zero
    sequence: U64, // 16-23  the batch all of whose homes are synced
    spare: [u8; 488],
}

/// The head of a batch's table; `count` entries follow it.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Unaligned, Immutable, KnownLayout)]
#[repr(C)]
struct TableHead {
    magic: U64,    // 00-07  "libtp2wr"
    version: U32,  // 08-11
    crc: U32,      // 12-15  CRC-32C of the 4096 bytes of the table with this field zero
    sequence: U64, // 16-23  number of the batch, one more than the batch before
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

/// A page in a batch: its name and where its image lies in the batch's bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Image {
    pub(crate) id: PageId,
    pub(crate) range: std::ops::Range<usize>,
}

/// A batch in private memory: room for the table, then the images in the order they were added.
#[derive(Default)]
pub(crate) struct Batch {
    bytes: Vec<u8>,
    images: Vec<Image>,
}

impl Batch {
    /// Forgets its pages and keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.bytes.resize(IMAGES_AT, 0);
        self.images.clear();
    }

    pub(crate) fn len(&self) -> usize {
        self.images.len()
    }

    /// Copies a page in.
    pub(crate) fn push(&mut self, id: PageId, page: &[u8]) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(page);
        self.images.push(Image { id, range: start..self.bytes.len() });
    }

    /// Keeps the first pages only.
    pub(crate) fn truncate(&mut self, pages: usize) {
        self.images.truncate(pages);
        self.bytes.truncate(self.images.last().map_or(IMAGES_AT, |image| image.range.end));
    }

    pub(crate) fn images(&self) -> &[Image] {
        &self.images
    }

    /// Returns the bytes of an image, or of a run of images.
    pub(crate) fn page(&self, image: &Image) -> &[u8] {
        &self.bytes[image.range.clone()]
    }

    pub(crate) fn page_mut(&mut self, index: usize) -> &mut [u8] {
        &mut self.bytes[self.images[index].range.clone()]
    }

    /// Returns the images sorted by home. Images that lie side by side here and at home are one run.
    pub(crate) fn home_runs(&self) -> Vec<Image> {
        let mut images = self.images.clone();
        images.sort_unstable_by_key(|image| image.id);
        let mut runs: Vec<Image> = Vec::with_capacity(images.len());
        let mut last = PageId::NONE;
        for image in images {
            let is_next = image.id.file() == last.file() && image.id.raw() == last.raw() + 1;
            last = image.id;
            match runs.last_mut() {
                Some(run) if is_next && run.range.end == image.range.start => run.range.end = image.range.end,
                _ => runs.push(image),
            }
        }
        runs
    }

    /// Fills in the table and returns the bytes that go to the file.
    fn close(&mut self, sequence: u64, environment: [u8; 16]) -> &[u8] {
        let mut table = vec![0; TABLE_BYTES];
        let mut head = TableHead {
            magic: U64::new(MAGIC),
            version: U32::new(VERSION),
            crc: U32::ZERO,
            sequence: U64::new(sequence),
            count: U32::new(u32::try_from(self.images.len()).expect("a batch has at most 240 pages")),
            environment,
            spare: [0; 20],
        };
        for (entry, image) in table[HEAD_BYTES..].chunks_exact_mut(ENTRY_BYTES).zip(&self.images) {
            let page = &self.bytes[image.range.clone()];
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
        self.bytes[..TABLE_BYTES].copy_from_slice(&table);
        &self.bytes
    }
}

/// The result of a look at the file after a crash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Restored {
    /// Pages in the last batch; zero if it was done, or never reached the disk.
    pub looked_at: usize,
    /// Homes that failed their checksum and were written again.
    pub mended: usize,
    /// Files of images that wait for a data file.
    pub kept: usize,
}

/// The file, opened by one process.
pub(crate) struct DoubleWrite {
    file: Arc<dyn File>,
    /// The environment's number. A batch of another environment is none.
    environment: [u8; 16],
    /// The bytes from the start of the file that have blocks for certain.
    room: AtomicU64,
}

impl DoubleWrite {
    /// Opens the file, and makes it if need be. The caller must make its name durable before the first batch: the
    /// contents are synced with every batch, and a name lost at a power cut would lose them all.
    pub(crate) fn open(directory: &dyn Directory, environment: [u8; 16]) -> Result<DoubleWrite> {
        let file = directory.open(DOUBLE_WRITE_NAME, OpenMode::Create)?;
        let mut room = file.len()?.max(BYTES_FIRST);
        match file.allocate(0..room) {
            Ok(()) => {}
            // A full disk: the first batch reports it.
            Err(libtp_io::Error::Full { .. }) => room = 0,
            Err(error) => return Err(error.into()),
        }
        Ok(DoubleWrite { room: AtomicU64::new(room), ..DoubleWrite::of(file, environment) })
    }

    /// Returns the handle of a file of the double-write file's form.
    pub(crate) fn of(file: Arc<dyn File>, environment: [u8; 16]) -> DoubleWrite {
        DoubleWrite { file, environment, room: AtomicU64::new(0) }
    }

    /// Writes and syncs a batch into a file that no batch is in.
    pub(crate) fn write_synced(&self, sequence: u64, batch: &mut Batch) -> Result<()> {
        self.write(sequence, batch)?;
        self.sync()
    }

    /// Makes room in the file for a batch. Returns how many of its first pages there is room for, which on a full disk
    /// may be fewer than all.
    pub(crate) fn make_room(&self, batch: &Batch) -> Result<usize> {
        let needed = TABLE_AT + batch.bytes.len() as u64;
        // Relaxed: a range that another thread or process allocated meanwhile is only allocated again.
        let room = self.room.load(Ordering::Relaxed);
        if needed <= room {
            return Ok(batch.len());
        }
        let refusal = match self.file.allocate(room..needed) {
            Ok(()) => {
                // Relaxed: as above.
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

    /// Returns the batch in the file, unless it is done or never came to the disk whole.
    pub(crate) fn open_batch(&self) -> Result<Option<(u64, Batch)>> {
        let Some((sequence, batch)) = read_batch(&*self.file, self.environment)? else {
            return Ok(None);
        };
        let done = read_done(&*self.file)?;
        Ok((done != Some(sequence)).then_some((sequence, batch)))
    }

    /// Returns the highest batch number in the file, or zero if there is none.
    pub(crate) fn last_sequence(&self) -> Result<u64> {
        let batch = read_batch(&*self.file, self.environment)?.map_or(0, |(sequence, _)| sequence);
        Ok(read_done(&*self.file)?.unwrap_or(0).max(batch))
    }

    /// Writes a batch that [`DoubleWrite::make_room`] has made room for, so that a refusal comes before anything is
    /// overwritten. Its pages may go to their homes only after a [`DoubleWrite::sync`].
    pub(crate) fn write(&self, sequence: u64, batch: &mut Batch) -> Result<()> {
        let bytes = batch.close(sequence, self.environment);
        Ok(self.file.write_at(bytes, TABLE_AT)?)
    }

    /// Writes the batch in the file again, the same bytes in the same places, and syncs it. If the sync before its
    /// pages went home failed, the system shows a batch that is not on the disk. Writing the same bytes again cannot
    /// tear them.
    fn write_again(&self) -> Result<()> {
        let batch = self.file.len()?.saturating_sub(TABLE_AT);
        let mut bytes = vec![0; usize::try_from(batch).expect("a batch fits in memory")];
        let read = self.file.read_at(&mut bytes, TABLE_AT)?;
        self.file.write_at(&bytes[..read], TABLE_AT)?;
        Ok(self.file.sync()?)
    }

    /// Syncs what [`DoubleWrite::write`] wrote. An error is final.
    pub(crate) fn sync(&self) -> Result<()> {
        Ok(self.file.sync()?)
    }

    /// Notes that every home of the batch is synced. The note itself is not synced.
    pub(crate) fn mark_done(&self, sequence: u64) -> Result<()> {
        Ok(self.file.write_at(done_block(sequence).as_bytes(), 0)?)
    }
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

/// Returns the batch in the file, without the images that are not whole; `None` if the table is not whole, or another
/// environment's: a new environment may be made where the remains of another are.
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
    let mut at = TABLE_AT + IMAGES_AT as u64;
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

/// Where the pages of a data file go.
#[derive(Debug)]
pub enum Home {
    /// The file, in its place.
    Here(Arc<dyn File>),
    /// The file is not in its place, or is not to be used now: its images are kept.
    Away,
    /// The database was dropped: its images are not needed.
    Dropped,
}

/// Mends torn homes from the last batch, and from the images that were kept while their file was away. Called at
/// restart, before any page is read.
///
/// `home` returns the file of a number. A home that fails its checksum is mended. A home that is no younger than its
/// image is written again all the same: after a failed sync, the system may show a home that is not on the disk, and
/// would never write it. For the same reason the batch itself is made durable again before a home is touched.
/// Everything written is synced before this returns. Doing it twice is the same as once.
///
/// # Errors
/// The disk refused; nothing is lost, and it can be done again.
pub fn restore_torn(
    directory: &dyn Directory,
    environment: [u8; 16],
    home: &mut dyn FnMut(FileId) -> Result<Home>,
) -> Result<Restored> {
    let mut restored = Restored::default();
    if planted("buffer: torn pages not mended") {
        return Ok(restored);
    }
    let mut is_removed = false;
    for (file, batch, name) in kept_images::kept(directory, environment)? {
        match home(file)? {
            Home::Away => {
                restored.kept += 1;
                continue;
            }
            Home::Dropped => {}
            Home::Here(opened) => {
                restored.mended += bring_home(&batch, file, &*opened)?;
            }
        }
        directory.remove(&name)?;
        is_removed = true;
    }
    if is_removed {
        // A file of images that came back at a power cut would be older than the pages at home.
        directory.sync()?;
    }
    if !directory.exists(DOUBLE_WRITE_NAME)? {
        return Ok(restored);
    }
    let double = DoubleWrite::of(directory.open(DOUBLE_WRITE_NAME, OpenMode::Existing)?, environment);
    let Some((sequence, batch)) = double.open_batch()? else {
        return Ok(restored);
    };
    double.write_again()?;
    restored.looked_at = batch.len();
    let files: BTreeSet<FileId> = batch.images().iter().map(|image| image.id.file()).collect();
    for file in files {
        match home(file)? {
            Home::Here(opened) => restored.mended += bring_home(&batch, file, &*opened)?,
            Home::Away if !planted("buffer: images of a file that is away are not kept") => {
                kept_images::keep(directory, environment, (file, sequence), &batch)?;
                restored.kept += 1;
            }
            Home::Away | Home::Dropped => {}
        }
    }
    double.mark_done(sequence)?;
    Ok(restored)
}

/// Brings a batch's images of one data file home and syncs the file. Returns how many homes were torn.
fn bring_home(batch: &Batch, file: FileId, home: &dyn File) -> Result<usize> {
    let mut mended = 0;
    for image in batch.images().iter().filter(|image| image.id.file() == file) {
        let page = batch.page(image);
        let at = image.id.page().offset(u32::try_from(page.len()).expect("a page has at most 64 KiB"));
        let mut found = vec![0; page.len()];
        home.read_at(&mut found, at)?;
        let is_whole = check(&found, image.id).is_ok();
        if !is_whole || page_lsn(&found) <= page_lsn(page) {
            home.write_at(page, at)?;
        }
        mended += usize::from(!is_whole);
    }
    // Synced even if nothing was written: the batch is about to be marked done, and its homes may be unsynced.
    home.sync()?;
    Ok(mended)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page_header::{seal, PageHeader, PAGE_HEADER_BYTES};
    use crate::PageNo;
    use libtp_io::PosixDirectory;
    use std::path::PathBuf;

    struct Place(PathBuf);
    impl Place {
        fn new(name: &str) -> (Place, Arc<dyn Directory>) {
            let path = std::env::temp_dir().join(format!("libtp-double-{name}-{}", std::process::id()));
            let _ = std::fs::remove_dir_all(&path);
            std::fs::create_dir_all(&path).unwrap();
            let directory: Arc<dyn Directory> = Arc::new(PosixDirectory::open(&path).unwrap());
            (Place(path), directory)
        }
    }
    impl Drop for Place {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    const FILE: FileId = FileId::new(7);
    const ENVIRONMENT: [u8; 16] = [5; 16];

    fn page(number: u32, fill: u8) -> Vec<u8> {
        page_at(number, fill, 0)
    }

    fn page_at(number: u32, fill: u8, lsn: u64) -> Vec<u8> {
        let id = PageId::new(FILE, PageNo::new(number));
        let mut page = vec![fill; 4096];
        page[..PAGE_HEADER_BYTES].copy_from_slice(PageHeader::new(id, 1, 0).as_bytes());
        page[8..16].copy_from_slice(&lsn.to_le_bytes());
        seal(&mut page);
        page
    }

    fn write_batch(double: &DoubleWrite, sequence: u64, pages: &[(u32, u8)]) {
        let mut batch = Batch::default();
        batch.clear();
        for &(number, fill) in pages {
            batch.push(PageId::new(FILE, PageNo::new(number)), &page(number, fill));
        }
        double.write(sequence, &mut batch).unwrap();
        double.sync().unwrap();
    }

    fn restore(directory: &Arc<dyn Directory>) -> Restored {
        let mut open = |file| {
            assert_eq!(file, FILE);
            Ok(Home::Here(directory.open("home.tp", OpenMode::Create)?))
        };
        restore_torn(&**directory, ENVIRONMENT, &mut open).unwrap()
    }

    #[test]
    fn a_batch_of_another_environment_stays_where_it_is() {
        let (_place, directory) = Place::new("foreign");
        let home = directory.open("home.tp", OpenMode::Create).unwrap();
        home.write_at(&page(3, 1), 3 * 4096).unwrap();
        let double = DoubleWrite::open(&*directory, [9; 16]).unwrap();
        let mut batch = Batch::default();
        batch.clear();
        batch.push(PageId::new(FILE, PageNo::new(3)), &page(3, 2));
        double.write_synced(1, &mut batch).unwrap();
        assert_eq!(restore(&directory), Restored::default());
        let mut found = vec![0; 4096];
        home.read_at(&mut found, 3 * 4096).unwrap();
        assert!(found == page(3, 1), "a page of another environment came home");
    }

    #[test]
    fn torn_homes_are_mended_and_no_home_goes_back_in_time() {
        let (_place, directory) = Place::new("torn");
        let home = directory.open("home.tp", OpenMode::Create).unwrap();
        for number in 1..=3 {
            home.write_at(&page(number, 1), u64::from(number) * 4096).unwrap();
        }
        let double = DoubleWrite::open(&*directory, ENVIRONMENT).unwrap();
        write_batch(&double, 1, &[(1, 2), (2, 2), (3, 2)]);
        // Page 1 came home whole and is younger by now, page 2 came home by half, and page 3 not at all.
        home.write_at(&page_at(1, 4, 100), 4096).unwrap();
        home.write_at(&page(2, 2)[..2048], 2 * 4096).unwrap();
        assert_eq!(restore(&directory), Restored { looked_at: 3, mended: 1, kept: 0 });
        let mut found = vec![0; 4096];
        for (number, wanted) in [(1_u64, page_at(1, 4, 100)), (2, page(2, 2)), (3, page(3, 2))] {
            home.read_at(&mut found, number * 4096).unwrap();
            assert_eq!(found, wanted, "page {number}");
        }
        assert_eq!(restore(&directory), Restored::default(), "a second look finds the batch done");
    }

    #[test]
    fn a_batch_that_is_done_mends_nothing() {
        let (_place, directory) = Place::new("done");
        let home = directory.open("home.tp", OpenMode::Create).unwrap();
        let double = DoubleWrite::open(&*directory, ENVIRONMENT).unwrap();
        write_batch(&double, 5, &[(1, 2)]);
        double.mark_done(5).unwrap();
        home.write_at(&[9; 4096], 4096).unwrap();
        assert_eq!(restore(&directory), Restored::default());
        write_batch(&double, 6, &[(1, 3)]);
        assert_eq!(restore(&directory), Restored { looked_at: 1, mended: 1, kept: 0 });
    }

    #[test]
    fn a_batch_that_is_torn_itself_gives_only_its_whole_images() {
        let (_place, directory) = Place::new("half");
        let double = DoubleWrite::open(&*directory, ENVIRONMENT).unwrap();
        write_batch(&double, 1, &[(1, 2), (2, 2)]);
        let second_image = TABLE_AT + 4096 + 4096;
        double.file.write_at(&[0; 512], second_image + 1024).unwrap();
        let (sequence, batch) = double.open_batch().unwrap().unwrap();
        assert_eq!((sequence, batch.len()), (1, 1));
        assert_eq!(batch.images()[0].id.page().raw(), 1);
        double.file.write_at(&[1; 8], TABLE_AT + 200).unwrap();
        assert!(double.open_batch().unwrap().is_none(), "a damaged table");
    }

    #[test]
    fn a_shorter_batch_leaves_nothing_of_the_longer_one_before_it() {
        let (_place, directory) = Place::new("shorter");
        let double = DoubleWrite::open(&*directory, ENVIRONMENT).unwrap();
        write_batch(&double, 1, &[(1, 1), (2, 1), (3, 1)]);
        write_batch(&double, 2, &[(1, 2)]);
        let (sequence, batch) = double.open_batch().unwrap().unwrap();
        assert_eq!((sequence, batch.len()), (2, 1));
    }

    #[test]
    fn neighbours_go_home_together() {
        let mut batch = Batch::default();
        batch.clear();
        for (file, number) in [(7, 2), (7, 3), (7, 9), (8, 1), (7, 4), (7, 1)] {
            batch.push(PageId::new(FileId::new(file), PageNo::new(number)), &[0; 4096]);
        }
        let runs: Vec<(u32, usize)> =
            batch.home_runs().iter().map(|run| (run.id.page().raw(), batch.page(run).len() / 4096)).collect();
        // Page 4 follows page 3, but its image does not lie behind that of page 3.
        assert_eq!(runs, [(1, 1), (2, 2), (4, 1), (9, 1), (1, 1)]);
    }

    #[test]
    fn numbers_of_batches_go_on_from_what_the_file_says() {
        let (_place, directory) = Place::new("sequence");
        let double = DoubleWrite::open(&*directory, ENVIRONMENT).unwrap();
        assert_eq!(double.last_sequence().unwrap(), 0);
        write_batch(&double, 5, &[(1, 2)]);
        assert_eq!(double.last_sequence().unwrap(), 5);
        double.mark_done(9).unwrap();
        assert_eq!(double.last_sequence().unwrap(), 9);
    }

    #[test]
    fn without_the_file_there_is_nothing_to_mend() {
        let (_place, directory) = Place::new("none");
        assert_eq!(restore(&directory), Restored::default());
    }
}

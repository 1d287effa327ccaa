//! Repairs torn pages at a restart, from the last batch in the double-write file and from kept images.
//!
//! Paper: none. PROTOCOLS L8.
//!
//! If the process dies here: the batch is still open, and the next restart does the same again.

use std::collections::BTreeSet;
use std::sync::Arc;

use libtp_io::{Directory, File, OpenMode};
use rio::planted;

use crate::batch::Batch;
use crate::double_write::{DoubleWrite, DOUBLE_WRITE_NAME};
use crate::kept_images;
use crate::page_header::{check, page_lsn};
use crate::{FileId, Result};

/// The result of the repair of torn pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Restored {
    /// Pages in the last batch; zero if it was done, or never reached the disk.
    pub looked_at: usize,
    /// Homes that had a wrong checksum and were written again.
    pub mended: usize,
    /// Files of images that are kept until their data file is restored.
    pub kept: usize,
}

/// The place of the pages of a data file.
#[derive(Debug)]
pub enum Home {
    /// The file exists.
    Here(Arc<dyn File>),
    /// The file is missing, or must not be used now: its images are kept.
    FileMissing,
    /// The database was dropped: its images are not needed.
    Dropped,
}

/// Repairs torn homes from the last batch, and from the images that were kept while their file was missing. Called at
/// restart, before any page is read.
///
/// `home` returns the file of a number. A home with a wrong checksum is repaired. An undamaged home that is not newer
/// than its image is also written again: after a failed sync, the system may show a home that is not on the disk, and
/// would never write it. For the same reason the batch itself is made durable again before a home is written.
/// Everything written is synced before this function returns. A second call changes nothing.
///
/// # Errors
/// The disk refused. No page is lost, and the call can be repeated.
pub fn restore_torn(
    directory: &dyn Directory,
    environment: [u8; 16],
    home: &mut dyn FnMut(FileId) -> Result<Home>,
) -> Result<Restored> {
    let mut restored = Restored::default();
    if planted("buffer: torn pages are not mended") {
        return Ok(restored);
    }
    let mut is_removed = false;
    for (file, batch, name) in kept_images::kept(directory, environment)? {
        match home(file)? {
            Home::FileMissing => {
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
        // If a removed file of images reappeared after a power cut, it would be older than the pages at home.
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
            Home::FileMissing if !planted("buffer: double-write images of a missing file are dropped") => {
                kept_images::keep(directory, environment, (file, sequence), &batch)?;
                restored.kept += 1;
            }
            Home::FileMissing | Home::Dropped => {}
        }
    }
    double.mark_done(sequence)?;
    Ok(restored)
}

/// Writes a batch's images of one data file to their homes and syncs the file. Returns the number of torn homes.
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
    // The file is synced even if no page was written: the batch will be marked as done, and its homes may be
    // unsynced.
    home.sync()?;
    Ok(mended)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::double_write::TABLE_AT;
    use crate::page_header::{seal, PageHeader, PAGE_HEADER_BYTES};
    use crate::{PageId, PageNo};
    use libtp_io::PosixDirectory;
    use std::path::PathBuf;
    use zerocopy::IntoBytes;

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
        assert!(found == page(3, 1), "a page of another environment was written home");
    }

    #[test]
    fn torn_homes_are_mended_and_no_newer_home_is_overwritten() {
        let (_place, directory) = Place::new("torn");
        let home = directory.open("home.tp", OpenMode::Create).unwrap();
        for number in 1..=3 {
            home.write_at(&page(number, 1), u64::from(number) * 4096).unwrap();
        }
        let double = DoubleWrite::open(&*directory, ENVIRONMENT).unwrap();
        write_batch(&double, 1, &[(1, 2), (2, 2), (3, 2)]);
        // Page 1 was wholly written home and has been changed since, page 2 was half written, page 3 was not written.
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
    fn only_the_undamaged_images_of_a_torn_batch_are_used() {
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
    fn a_shorter_batch_leaves_nothing_of_a_longer_earlier_batch() {
        let (_place, directory) = Place::new("shorter");
        let double = DoubleWrite::open(&*directory, ENVIRONMENT).unwrap();
        write_batch(&double, 1, &[(1, 1), (2, 1), (3, 1)]);
        write_batch(&double, 2, &[(1, 2)]);
        let (sequence, batch) = double.open_batch().unwrap().unwrap();
        assert_eq!((sequence, batch.len()), (2, 1));
    }

    #[test]
    fn numbers_of_batches_continue_from_the_number_in_the_file() {
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

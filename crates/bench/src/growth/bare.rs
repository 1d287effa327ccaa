//! Work without a library, for comparison: loads from memory of the same size, reads of pages from a file of the same
//! length, double writes of pages (in a batch, then in place), copies of values. If the time of this work rises from one
//! size to the next, the machine is the cause. The difference between an operation's time and these times is the
//! library's cost.

use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use super::tree::{mixed, PAGE_BYTES};
use crate::error::{Error, Result};
use crate::paper::{number, Sample};

/// Largest memory for loads, in bytes: in more memory, hardly any load hits the processor's cache anyway.
pub(super) const MEMORY_MAX: u64 = 1 << 30;
/// Longest file for writes of pages, in bytes.
const HOMES_MAX: u64 = 256 << 20;
/// Number of loads or copies between two readings of the clock.
const BATCH: u64 = 64;
/// Number of pages in one batch of writes.
const BATCH_PAGES: usize = 64;

/// Memory to load from.
pub(super) struct Memory {
    words: Vec<u64>,
}

impl Memory {
    /// Makes `bytes` bytes of memory, at most [`MEMORY_MAX`].
    pub fn of(bytes: u64) -> Memory {
        let words = bytes.min(MEMORY_MAX) / 8;
        Memory { words: (0..words.max(1)).map(mixed).collect() }
    }

    /// Returns the nanoseconds of a load of a random word in the first `bytes` bytes. Each load needs the result of the
    /// previous load.
    pub fn load(&self, bytes: u64, time: Duration) -> Result<Sample> {
        let count = (bytes / 8).clamp(1, self.words.len() as u64);
        let (mut word, mut loads) = (1_u64, 0_u64);
        per_operation(time, || {
            for _ in 0..BATCH {
                loads += 1;
                let wide = u128::from(mixed(word ^ loads)) * u128::from(count);
                word = self.words[usize::try_from(wide >> 64).unwrap_or(0)];
            }
            std::hint::black_box(word);
            Ok(BATCH)
        })
    }
}

/// Returns the nanoseconds of a read of a random page of a file.
///
/// # Errors
/// `File` if the file cannot be read.
pub(super) fn page_read(file: &File, time: Duration) -> Result<Sample> {
    let failed = || Error::file("read", Path::new("the data file"));
    let pages = file.metadata().map_err(failed())?.len() / PAGE_BYTES as u64;
    let (mut page, mut reads) = ([0; PAGE_BYTES], 0_u64);
    per_operation(time, || {
        reads += 1;
        let wide = u128::from(mixed(reads)) * u128::from(pages.max(1));
        let at = u64::try_from(wide >> 64).unwrap_or(0) * PAGE_BYTES as u64;
        file.read_exact_at(&mut page, at).map_err(failed())?;
        Ok(1)
    })
}

/// The files for writes of pages: one for batches in sequence, and one with a place for each page.
pub(super) struct Homes {
    batch: File,
    homes: File,
    pages: u64,
}

impl Homes {
    /// Makes a directory with an empty file for batches, and a written file of `bytes` bytes, at most [`HOMES_MAX`].
    ///
    /// # Errors
    /// `File` if a file cannot be made.
    pub fn make(directory: &Path, bytes: u64) -> Result<Homes> {
        let pages = (bytes.min(HOMES_MAX) / PAGE_BYTES as u64).max(1);
        std::fs::create_dir_all(directory).map_err(Error::file("make", directory))?;
        let make = |name: &str| {
            let path = directory.join(name);
            File::create(&path).map_err(Error::file("make", &path))
        };
        let (batch, mut homes) = (make("batch")?, make("homes")?);
        let mut zeros = std::io::repeat(0).take(pages * PAGE_BYTES as u64);
        std::io::copy(&mut zeros, &mut homes).map_err(Error::file("write", directory))?;
        homes.sync_data().map_err(Error::file("sync", directory))?;
        Ok(Homes { batch, homes, pages })
    }

    /// Returns the nanoseconds of writing a page twice. An engine writes pages twice so that it can restore torn pages:
    /// a batch of pages in sequence and a sync, then each page in its place in the first `bytes` bytes of a file and a
    /// sync.
    ///
    /// # Errors
    /// `File` if a file cannot be written.
    pub fn write(&self, bytes: u64, time: Duration) -> Result<Sample> {
        let failed = || Error::file("write", Path::new("pages"));
        let pages = (bytes / PAGE_BYTES as u64).clamp(1, self.pages);
        let (images, mut drawn) = (vec![b'.'; PAGE_BYTES * BATCH_PAGES], 0_u64);
        per_operation(time, || {
            self.batch.write_all_at(&images, 0).and_then(|()| self.batch.sync_data()).map_err(failed())?;
            for image in images.chunks(PAGE_BYTES) {
                drawn += 1;
                let wide = u128::from(mixed(drawn)) * u128::from(pages);
                let at = u64::try_from(wide >> 64).unwrap_or(0) * PAGE_BYTES as u64;
                self.homes.write_all_at(image, at).map_err(failed())?;
            }
            self.homes.sync_data().map_err(failed())?;
            Ok(BATCH_PAGES as u64)
        })
    }
}

/// Returns the nanoseconds of copying a value of `bytes` bytes.
pub(super) fn copy(bytes: usize, time: Duration) -> Result<Sample> {
    let from = vec![b'.'; bytes];
    let mut to = vec![0; bytes];
    per_operation(time, || {
        for _ in 0..BATCH {
            std::hint::black_box(&mut to).copy_from_slice(std::hint::black_box(&from));
        }
        Ok(BATCH)
    })
}

/// Repeats the work until the time is over. Returns the nanoseconds per operation. Each call of `some` returns the
/// number of operations that it carried out.
fn per_operation(time: Duration, mut some: impl FnMut() -> Result<u64>) -> Result<Sample> {
    let (begin, mut done) = (Instant::now(), 0);
    while begin.elapsed() < time || done == 0 {
        done += some()?;
    }
    Ok(Sample::of(begin.elapsed().as_secs_f64() * 1e9 / number(done)))
}

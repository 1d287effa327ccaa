//! The least time of a durable commit: a write of 512 bytes and fdatasync, on a preallocated file.
//!
//! The speed of a shared disk changes by up to a factor of ten in an hour. So an engine's figure can be compared only
//! with a figure of this loop from the same minute. Slices of the engine's work alternate with slices of this loop.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use libtp_console::numbers::{nanos, per_second};

use crate::error::{Error, Result};

/// Bytes of one write: about the length of the log records of a TPC-B transaction.
pub const WRITE_BYTES: usize = 512;
/// Length of the preallocated file. After the last bytes of the file, the loop continues with the first.
const FILE_BYTES: u64 = 16 << 20;

/// The file of the loop of writes and syncs. Dropping the value removes the file.
#[derive(Debug)]
pub struct BareDisk {
    file: File,
    path: PathBuf,
    bytes: u64,
    offset: u64,
}

impl BareDisk {
    /// Preallocates a zeroed and synced file in `directory`, which must be on the same disk as the
    /// engine that is compared.
    pub fn create(directory: &Path) -> Result<BareDisk> {
        BareDisk::of(directory, FILE_BYTES)
    }

    /// Preallocates a zeroed and synced file of `bytes` bytes, a multiple of 1 MiB, in `directory`.
    pub(crate) fn of(directory: &Path, bytes: u64) -> Result<BareDisk> {
        let path = directory.join(format!("bare-disk-{}", std::process::id()));
        let file = OpenOptions::new()
            .create(true)
            .truncate(true)
            .read(true)
            .write(true)
            .open(&path)
            .map_err(Error::file("create", &path))?;
        let disk = BareDisk { file, path, bytes, offset: 0 };
        let zeros = vec![0u8; 1 << 20];
        let mut at = 0;
        while at < disk.bytes {
            disk.file.write_all_at(&zeros, at).map_err(Error::file("preallocate", &disk.path))?;
            at += zeros.len() as u64;
        }
        disk.file.sync_all().map_err(Error::file("sync", &disk.path))?;
        Ok(disk)
    }

    /// Writes and syncs for the given time. Returns the writes per second.
    pub(crate) fn slice(&mut self, time: Duration) -> Result<u64> {
        let (begin, mut elapsed, mut writes) = (Instant::now(), Duration::ZERO, 0);
        while elapsed < time {
            self.write(WRITE_BYTES, 1)?;
            writes += 1;
            elapsed = begin.elapsed();
        }
        Ok(per_second(writes, nanos(elapsed)))
    }

    /// Writes `bytes` bytes and syncs them, `times` times. Returns the time.
    pub(crate) fn write(&mut self, bytes: usize, times: u64) -> Result<Duration> {
        let record = vec![b'.'; bytes];
        let begin = Instant::now();
        for _ in 0..times {
            if self.offset + bytes as u64 > self.bytes {
                self.offset = 0;
            }
            self.file.write_all_at(&record, self.offset).map_err(Error::file("write", &self.path))?;
            self.file.sync_data().map_err(Error::file("sync", &self.path))?;
            self.offset += bytes as u64;
        }
        Ok(begin.elapsed())
    }
}

impl Drop for BareDisk {
    fn drop(&mut self) {
        // A failure does no harm: the next `BareDisk` of this process overwrites the file.
        std::fs::remove_file(&self.path).ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_has_a_rate_and_the_file_is_gone_afterwards() {
        let directory = std::env::temp_dir();
        let mut disk = BareDisk::create(&directory).unwrap();
        let path = disk.path.clone();
        assert_eq!(std::fs::metadata(&path).unwrap().len(), FILE_BYTES);
        assert!(disk.slice(Duration::from_millis(10)).unwrap() > 0);
        assert!(disk.write(WRITE_BYTES, 3).unwrap() > Duration::ZERO);
        drop(disk);
        assert!(!path.exists());
    }

    #[test]
    fn the_error_for_a_missing_directory_names_the_directory() {
        let error = BareDisk::create(Path::new("/nowhere/at/all")).unwrap_err();
        assert!(error.to_string().contains("/nowhere/at/all"), "{error}");
    }
}

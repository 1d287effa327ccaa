//! The floor of a durable commit: write 512 bytes, fdatasync, on a preallocated file.
//!
//! The speed of a shared disk drifts by up to ten times in an hour. So an engine's figure is meaningful only beside
//! this loop's figure from the same minute, and both are measured in slices, in turns.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use libtp_console::numbers::{nanos, per_second};

use crate::error::{Error, Result};

/// Bytes of one write: a TPC-B commit's log records are about that long.
pub const WRITE_BYTES: usize = 512;
/// The preallocated file; the loop starts again at its end.
const FILE_BYTES: u64 = 16 << 20;

/// The file of the bare loop. The file is removed when this value is dropped.
#[derive(Debug)]
pub struct BareDisk {
    file: File,
    path: PathBuf,
    bytes: u64,
    offset: u64,
}

impl BareDisk {
    /// Preallocates a zeroed and synced file in `directory`, which must be on the disk that the
    /// engine beside it uses.
    pub fn create(directory: &Path) -> Result<BareDisk> {
        BareDisk::of(directory, FILE_BYTES)
    }

    /// Does the same with a file of `bytes` bytes, whole MiB.
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

    /// Writes and syncs for this long. Returns the writes per second.
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
        // Nothing depends on its removal; a second run takes the same name.
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
    fn a_directory_that_is_not_there_is_named() {
        let error = BareDisk::create(Path::new("/nowhere/at/all")).unwrap_err();
        assert!(error.to_string().contains("/nowhere/at/all"), "{error}");
    }
}

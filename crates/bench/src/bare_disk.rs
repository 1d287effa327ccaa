//! The floor of a durable commit: write 512 bytes, fdatasync, on a preallocated file.
//!
//! The speed of a shared disk drifts by up to ten times in an hour. So an engine's figure is meaningful only beside
//! this one from the same minute: measure in slices, in turns.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::Histogram;
use libtp_console::numbers::{micros, nanos, per_second};

/// Bytes of one write: a TPC-B commit's log records are about that long.
pub const WRITE_BYTES: usize = 512;
/// The preallocated file; the loop starts again at its end.
const FILE_BYTES: u64 = 16 << 20;

/// The bare loop, paused between slices. Its file is removed when it is dropped.
#[derive(Debug)]
pub struct BareDisk {
    file: File,
    path: PathBuf,
    bytes: u64,
    offset: u64,
    elapsed_ns: u64,
    latency: Histogram,
}

/// The result of the bare loop.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BareDiskReport {
    /// Always `bare-disk`.
    pub workload: String,
    /// Writes made durable in a second, one at a time.
    pub ops_per_second: u64,
    /// Median latency of a write, in microseconds.
    pub p50_us: f64,
    /// 99th percentile of the latency, in microseconds.
    pub p99_us: f64,
    /// Number of writes.
    pub writes: u64,
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
        let disk = BareDisk { file, path, bytes, offset: 0, elapsed_ns: 0, latency: Histogram::new() };
        let zeros = vec![0u8; 1 << 20];
        let mut at = 0;
        while at < disk.bytes {
            disk.file.write_all_at(&zeros, at).map_err(Error::file("preallocate", &disk.path))?;
            at += zeros.len() as u64;
        }
        disk.file.sync_all().map_err(Error::file("sync", &disk.path))?;
        Ok(disk)
    }

    /// Runs the loop for this long and adds to the results so far.
    pub fn run_for(&mut self, time: Duration) -> Result<()> {
        let record = [b'.'; WRITE_BYTES];
        let begin = Instant::now();
        let mut now = begin;
        while now - begin < time {
            let written = self.file.write_all_at(&record, self.offset);
            written.map_err(Error::file("write", &self.path))?;
            // sync_data is fdatasync(2).
            self.file.sync_data().map_err(Error::file("sync", &self.path))?;
            self.offset = (self.offset + WRITE_BYTES as u64) % self.bytes;
            let after = Instant::now();
            self.latency.record(nanos(after - now));
            now = after;
        }
        self.elapsed_ns += nanos(now - begin);
        Ok(())
    }

    /// Writes `bytes` bytes and syncs them, `times` times. Returns the time; the report does not include it.
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

    /// Does the same as [`BareDisk::run_for`]. Returns the writes per second in this slice alone.
    pub(crate) fn slice(&mut self, time: Duration) -> Result<u64> {
        let (writes, elapsed) = (self.latency.count(), self.elapsed_ns);
        self.run_for(time)?;
        Ok(per_second(self.latency.count() - writes, self.elapsed_ns - elapsed))
    }

    /// Returns the results so far.
    pub fn report(&self) -> BareDiskReport {
        BareDiskReport {
            workload: "bare-disk".to_string(),
            ops_per_second: per_second(self.latency.count(), self.elapsed_ns),
            p50_us: micros(self.latency.permille(500)),
            p99_us: micros(self.latency.permille(990)),
            writes: self.latency.count(),
        }
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
    fn slices_add_up_and_the_file_is_gone_afterwards() {
        let directory = std::env::temp_dir();
        let mut disk = BareDisk::create(&directory).unwrap();
        let path = disk.path.clone();
        assert_eq!(std::fs::metadata(&path).unwrap().len(), FILE_BYTES);
        disk.run_for(Duration::from_millis(10)).unwrap();
        let first = disk.report();
        disk.run_for(Duration::from_millis(10)).unwrap();
        let both = disk.report();
        assert!(first.writes > 0 && both.writes > first.writes);
        assert!(both.ops_per_second > 0 && both.p50_us > 0.0 && both.p50_us <= both.p99_us);
        drop(disk);
        assert!(!path.exists());
    }

    #[test]
    fn a_directory_that_is_not_there_is_named() {
        let error = BareDisk::create(Path::new("/nowhere/at/all")).unwrap_err();
        assert!(error.to_string().contains("/nowhere/at/all"), "{error}");
    }
}

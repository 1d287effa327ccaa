//! The settings of the log. No setting is needed: the defaults are suitable for logs of every size from 1 MiB.

use crate::segment::Geometry;

/// The log's settings. Sizes of segments are fixed when an environment is made and then kept in its control file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Bytes of the first segment file, a power of two from 16 KiB. Each next file is twice as large.
    pub segment_bytes_first: u64,
    /// Bytes of the largest segment file, a power of two.
    pub segment_bytes_max: u64,
    /// Bytes of one chunk of the ring, a power of two from 4 KiB.
    pub ring_chunk_bytes: u64,
    /// The usual limit of the ring, in bytes. At the limit an appender flushes before it enlarges the ring. The ring
    /// exceeds the limit only if a flush does not make enough room.
    pub ring_bytes_max: u64,
    /// Bytes of durable log that stay in the ring for readers.
    pub ring_bytes_kept: u64,
    /// The paper's group threshold: with at least this many active transactions a commit waits for other commits. With
    /// zero, the default, no commit waits for others.
    pub group_threshold: u32,
    /// The paper's wait threshold: the log is flushed when this share of the active transactions waits for a flush.
    pub wait_threshold_percent: u32,
    /// The paper's logdelay threshold: the log is flushed when this number of bytes is unflushed.
    pub log_delay_bytes: u64,
    /// The longest time that a commit waits for other commits, despite the thresholds.
    pub group_wait_micros_max: u64,
    /// The longest time between a relaxed commit and its flush to the disk (PROTOCOLS L5).
    pub relaxed_micros_max: u64,
    /// With this number of unflushed bytes the background flush does not wait for `relaxed_micros_max`.
    pub relaxed_bytes_max: u64,
    /// Bytes of recycled segments that are always kept ready ahead of the tail.
    pub recycled_bytes: u64,
    /// The limit of recycled bytes that are kept ready, if that much log was needed at once recently. One more segment
    /// may be kept ready; further segments are deleted. Only new log uses up the ready bytes: they are not freed with
    /// time.
    pub recycled_bytes_max: u64,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            segment_bytes_first: 1 << 20,
            segment_bytes_max: 64 << 20,
            ring_chunk_bytes: 256 << 10,
            ring_bytes_max: 32 << 20,
            ring_bytes_kept: 512 << 10,
            group_threshold: 0,
            wait_threshold_percent: 50,
            log_delay_bytes: 256 << 10,
            group_wait_micros_max: 5_000,
            relaxed_micros_max: 100_000,
            relaxed_bytes_max: 4 << 20,
            recycled_bytes: 256 << 20,
            recycled_bytes_max: 1 << 30,
        }
    }
}

impl Settings {
    /// Returns the arithmetic of the segment files.
    ///
    /// # Panics
    /// If a size is not a power of two from 16 KiB, or if the first size is above the largest.
    pub fn geometry(&self) -> Geometry {
        Geometry::new(self.segment_bytes_first, self.segment_bytes_max)
            .expect("segment sizes are powers of two from 16 KiB, and the first is not above the largest")
    }
}

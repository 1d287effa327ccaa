//! The settings of the log. No setting is needed: the defaults serve from 1 MiB of log to any size.

use crate::segment::Geometry;

/// The log's settings. Sizes of segments are fixed when an environment is made and then kept in its control file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Bytes of the first segment file, a power of two from 16 KiB. Each next one is twice as large.
    pub segment_bytes_first: u64,
    /// Bytes of the largest segment file, a power of two.
    pub segment_bytes_max: u64,
    /// Bytes of one piece of the ring, a power of two from 4 KiB.
    pub ring_chunk_bytes: u64,
    /// The usual limit of the ring, in bytes: beyond it an appender flushes first. The ring exceeds it only if nothing
    /// else helps.
    pub ring_bytes_max: u64,
    /// Bytes of durable log that stay in the ring for readers.
    pub ring_bytes_kept: u64,
    /// The paper's group threshold: with at least this many active transactions a commit waits for other commits. Zero,
    /// the default: never wait on purpose.
    pub group_threshold: u32,
    /// The paper's wait threshold: flush once this share of the active transactions waits for it.
    pub wait_threshold_percent: u32,
    /// The paper's logdelay threshold: flush once this number of bytes is unflushed.
    pub log_delay_bytes: u64,
    /// The longest time that a commit waits for other commits, despite the thresholds.
    pub group_wait_micros_max: u64,
    /// How old a relaxed commit may become before it is on the disk (PROTOCOLS L5).
    pub relaxed_micros_max: u64,
    /// With this number of unflushed bytes the background flush does not wait for the time.
    pub relaxed_bytes_max: u64,
    /// Bytes of recycled segments that may always lie ready ahead of the tail.
    pub recycled_bytes: u64,
    /// The limit, beside one segment, of recycled bytes that lie ready if that much log was needed at once recently;
    /// more is deleted. New log uses up the ready bytes; the passing of time does not.
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
    /// If the sizes are not powers of two from 16 KiB, the first at most the largest.
    pub fn geometry(&self) -> Geometry {
        Geometry::new(self.segment_bytes_first, self.segment_bytes_max)
            .expect("segment sizes are powers of two from 16 KiB, the first at most the largest")
    }
}

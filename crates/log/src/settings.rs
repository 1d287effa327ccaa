//! What may be set about the log. No setting is needed: the defaults serve from 1 MiB of log to any size.

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
    /// Bytes the ring should not pass: beyond them an appender flushes first. More is used when nothing else helps.
    pub ring_bytes_max: u64,
    /// Bytes of durable log that stay in the ring for readers.
    pub ring_bytes_kept: u64,
    /// The paper's group threshold: with at least this many active transactions a commit waits for company. Zero, the
    /// default: never wait on purpose.
    pub group_threshold: u32,
    /// The paper's wait threshold: flush once this share of the active transactions waits for it.
    pub wait_threshold_percent: u32,
    /// The paper's logdelay threshold: flush once so many bytes are unflushed.
    pub log_delay_bytes: u64,
    /// The longest a commit waits for company, whatever the thresholds say.
    pub group_wait_micros_max: u64,
    /// How old a relaxed commit may become before it is on the disk (PROTOCOLS L5).
    pub relaxed_micros_max: u64,
    /// How many unflushed bytes make the background flush not wait for the time.
    pub relaxed_bytes_max: u64,
    /// Bytes of recycled segments that may always lie ready ahead of the tail.
    pub recycled_bytes: u64,
    /// So many, and a segment, may lie ready if so much log was needed at once of late; what is more is deleted. They are used up by the
    /// log that is written, and not by time.
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
    /// The arithmetic of the segment files.
    ///
    /// # Panics
    /// If the sizes are not powers of two from 16 KiB, the first at most the largest.
    pub fn geometry(&self) -> Geometry {
        Geometry::new(self.segment_bytes_first, self.segment_bytes_max)
            .expect("segment sizes are powers of two from 16 KiB, the first at most the largest")
    }
}

//! The check that there is room for a database on the disk and in memory, before the database is made.

use std::path::Path;

use super::tree::Size;
use crate::paper::spelled;

/// The directory of the databases, and the machine's memory.
pub(super) struct Space<'s> {
    /// The directory of the databases' files.
    pub disk: &'s Path,
    /// Bytes of the machine's memory.
    pub machine: u64,
}

impl Space<'_> {
    /// Returns a sentence that names the missing resource if there is no room for one more database of this size;
    /// otherwise `None`.
    pub fn refusal(&self, size: &Size) -> Option<String> {
        let disk = rustix::fs::statvfs(self.disk).map(|stat| stat.f_bavail.saturating_mul(stat.f_frsize));
        // A resource that cannot be measured is no reason to refuse. If it is missing, the library returns an error.
        let free = [("disk", size.disk_bytes(), disk.ok()), ("memory", size.memory_bytes(self.machine), available())];
        free.into_iter().find_map(|(what, wanted, free)| {
            let free = free.filter(|free| *free < wanted)?;
            let records = spelled(crate::paper::number(size.records));
            Some(format!("{records} records take about {} of {what}, and {} are free", mib(wanted), mib(free)))
        })
    }
}

/// Returns the bytes of memory that the system can give to programs without swapping; `None` if they are unknown.
fn available() -> Option<u64> {
    in_meminfo("MemAvailable")
}

/// Returns the bytes of the machine's memory; 0 if they are unknown.
pub(super) fn of_machine() -> u64 {
    in_meminfo("MemTotal").unwrap_or(0)
}

fn in_meminfo(name: &str) -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kib * 1024)
}

/// Returns a number of bytes in MiB, for people.
pub(super) fn mib(bytes: u64) -> String {
    format!("{} MiB", spelled(crate::paper::number(bytes / (1 << 20))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_without_room_is_refused_with_a_sentence() {
        let space = Space { disk: &std::env::temp_dir(), machine: of_machine() };
        assert!(space.machine > 0);
        let size = |records| Size { records, value_bytes: 100, cache: Some(1 << 20) };
        assert_eq!(space.refusal(&size(1000)), None);
        let why = space.refusal(&size(1 << 50)).unwrap();
        assert!(why.contains("of disk, and "), "{why}");
    }
}

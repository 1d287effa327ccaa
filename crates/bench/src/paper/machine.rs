//! The machine on which a run measures.

use std::fs;
use std::path::Path;
use std::time::Duration;

use serde::Serialize;

use super::figure::spelled;
use crate::bare_disk::BareDisk;
use crate::error::Result;

/// Time for which the disk's syncs are counted.
const TRIED: Duration = Duration::from_millis(300);

/// The machine and the build.
#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    /// The processor's name.
    pub processor: String,
    /// The number of processors that this process may use.
    pub processors: usize,
    /// Memory, in GiB.
    pub memory_gib: f64,
    /// The kernel's version.
    pub kernel: String,
    /// The name of the operating system.
    pub system: String,
    /// The filesystem of the databases' directory.
    pub filesystem: String,
    /// Writes and syncs of 512 bytes per second, one after the other, before the run; `None` if they could not be
    /// measured.
    pub syncs_per_second: Option<u64>,
    /// The load average before the run, which shows the work of other programs.
    pub load: String,
    /// The version of libtp.
    pub libtp: String,
}

impl Machine {
    /// Inspects the machine. `directory` is the directory of the databases.
    pub fn look(directory: &Path) -> Machine {
        let word = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let after = |text: &str, name: &str, sign: char| {
            let line = text.lines().find(|line| line.starts_with(name));
            let value = line.and_then(|line| line.split_once(sign)).map(|(_, value)| value.trim().trim_matches('"'));
            value.unwrap_or("unknown").to_owned()
        };
        // The load is read before the syncs are counted, because counting them adds to the load.
        let load = word("/proc/loadavg").split(' ').take(3).collect::<Vec<_>>().join(" ");
        let kib = after(&word("/proc/meminfo"), "MemTotal", ':');
        let kib: f64 = kib.trim_end_matches(" kB").parse().unwrap_or(0.0);
        Machine {
            processor: after(&word("/proc/cpuinfo"), "model name", ':'),
            processors: std::thread::available_parallelism().map_or(1, usize::from),
            memory_gib: (kib / 1024.0 / 1024.0 * 10.0).round() / 10.0,
            kernel: word("/proc/sys/kernel/osrelease").trim().to_owned(),
            system: after(&word("/etc/os-release"), "PRETTY_NAME", '='),
            filesystem: crate::memory::filesystem_of(directory).unwrap_or_else(|| "unknown".to_owned()),
            syncs_per_second: syncs_per_second(directory).ok(),
            load,
            libtp: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }

    /// Returns a clause with the rate of the disk's syncs, for the end of the filesystem's name. Returns an empty text
    /// if the rate is unknown.
    pub fn disk(&self) -> String {
        let said = |syncs: u64| format!(" that syncs 512 bytes {} times per second", spelled(syncs as f64));
        self.syncs_per_second.map_or_else(String::new, said)
    }
}

fn syncs_per_second(directory: &Path) -> Result<u64> {
    BareDisk::create(directory)?.slice(TRIED)
}

/// The time of all processors since the machine's start, in ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuTime {
    all: u64,
    /// Ticks in which this virtual machine had work while another machine used the processor.
    stolen: u64,
}

impl CpuTime {
    /// Reads the counters, or returns `None` if the system has none.
    pub fn look() -> Option<CpuTime> {
        CpuTime::read(&fs::read_to_string("/proc/stat").ok()?)
    }

    /// Parses the first line of /proc/stat: user, nice, system, idle, waiting, two kinds of interrupts, stolen. The
    /// time of the later fields is included in these fields.
    fn read(stat: &str) -> Option<CpuTime> {
        let line = stat.lines().next()?.strip_prefix("cpu ")?;
        let ticks: Vec<u64> = line.split_whitespace().take(8).filter_map(|field| field.parse().ok()).collect();
        Some(CpuTime { all: ticks.iter().sum(), stolen: *ticks.get(7)? })
    }

    /// Returns the stolen part of the time between two readings, in percent.
    fn stolen_percent(self, until: CpuTime) -> f64 {
        let ticks = |from: u64, to: u64| to.saturating_sub(from) as f64;
        100.0 * ticks(self.stolen, until.stolen) / ticks(self.all, until.all).max(1.0)
    }

    /// Returns the stolen part of the time since this reading, in percent.
    pub fn stolen_percent_since(self) -> Option<f64> {
        CpuTime::look().map(|now| self.stolen_percent(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_eighth_field_is_the_stolen_time() {
        let before = CpuTime::read("cpu  100 0 50 800 10 0 5 35 7 0\ncpu0 1 2 3\n").unwrap();
        let after = CpuTime::read("cpu  150 0 60 820 10 0 5 55 9 0\n").unwrap();
        assert_eq!((before.all, before.stolen), (1000, 35));
        assert!((before.stolen_percent(after) - 20.0).abs() < 1e-9, "{after:?}");
        assert_eq!(CpuTime::read("cpu  1 2 3\n"), None);
        assert!(CpuTime::look().is_some());
    }

    #[test]
    fn this_machine_has_a_processor_and_memory() {
        let directory = tempfile::tempdir().unwrap();
        let machine = super::Machine::look(directory.path());
        assert!(machine.syncs_per_second.is_some_and(|syncs| syncs > 0), "{machine:?}");
        assert!(machine.processors > 0 && machine.memory_gib > 0.1, "{machine:?}");
        assert!(!machine.kernel.is_empty(), "{machine:?}");
    }
}

//! What the figures were measured on.

use std::fs;
use std::path::Path;

use serde::Serialize;

/// The machine and the build.
#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    /// The processor's name.
    pub processor: String,
    /// How many of them this process may use.
    pub processors: usize,
    /// Memory, in GiB.
    pub memory_gib: f64,
    /// The kernel.
    pub kernel: String,
    /// The system.
    pub system: String,
    /// The filesystem that the files lie in.
    pub filesystem: String,
    /// Work that others did when it began: the load average.
    pub load: String,
    /// The version of libtp.
    pub libtp: String,
    /// The compiler that the workspace asks for at least.
    pub rust_version: String,
}

impl Machine {
    /// Looks at it; `directory` is where the files are to lie.
    pub fn look(directory: &Path) -> Machine {
        let word = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let after = |text: &str, name: &str, sign: char| {
            let line = text.lines().find(|line| line.starts_with(name));
            let value = line.and_then(|line| line.split_once(sign)).map(|(_, value)| value.trim().trim_matches('"'));
            value.unwrap_or("unknown").to_owned()
        };
        let kib = after(&word("/proc/meminfo"), "MemTotal", ':');
        let kib: f64 = kib.trim_end_matches(" kB").parse().unwrap_or(0.0);
        Machine {
            processor: after(&word("/proc/cpuinfo"), "model name", ':'),
            processors: std::thread::available_parallelism().map_or(1, usize::from),
            memory_gib: (kib / 1024.0 / 1024.0 * 10.0).round() / 10.0,
            kernel: word("/proc/sys/kernel/osrelease").trim().to_owned(),
            system: after(&word("/etc/os-release"), "PRETTY_NAME", '='),
            filesystem: crate::memory::filesystem_of(directory).unwrap_or_else(|| "unknown".to_owned()),
            load: word("/proc/loadavg").split(' ').take(3).collect::<Vec<_>>().join(" "),
            libtp: env!("CARGO_PKG_VERSION").to_owned(),
            rust_version: env!("CARGO_PKG_RUST_VERSION").to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn this_machine_has_a_processor_and_memory() {
        let machine = super::Machine::look(&std::env::temp_dir());
        assert!(machine.processors > 0 && machine.memory_gib > 0.1, "{machine:?}");
        assert!(!machine.kernel.is_empty(), "{machine:?}");
    }
}

//! Detects what a region's memory survives.
//!
//! Paper: Rio Vista, section 3. There the memory was always the file cache of an operating system that writes the cache
//! back after a crash. Here the file decides: only memory that the filesystem hands out directly (DAX) can be mapped so
//! that the file's metadata are safe.

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::{Mapping, WriteBack};

/// The events that stores into a region survive, from the least to the most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Survives {
    /// The death of every process. The page cache of any file survives this event.
    Process,
    /// The death of the operating system too: the machine keeps its memory over a warm start.
    System,
    /// The loss of power too.
    Power,
}

impl std::fmt::Display for Survives {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Survives::Process => "the death of processes",
            Survives::System => "a crash of the operating system",
            Survives::Power => "the loss of power",
        })
    }
}

impl Survives {
    /// Returns what the memory of a file survives, and how its cache lines are written back. Both are as detected,
    /// unless the operator declares that the memory survives more, or sets whether lines are written back.
    pub(crate) fn decide(file: &File, declared: Option<Survives>, is_wanted: Option<bool>) -> (Survives, WriteBack) {
        Survives::weigh(detect(file), WriteBack::best(), declared, is_wanted)
    }

    fn weigh(
        (found, is_needed): (Survives, bool),
        best: Option<WriteBack>,
        declared: Option<Survives>,
        is_wanted: Option<bool>,
    ) -> (Survives, WriteBack) {
        // Without an instruction for the write-back, a crash of the machine may lose the lines in the cache.
        let found = if is_needed && best.is_none() { Survives::Process } else { found };
        let declared = declared.unwrap_or(found);
        // If the operator declares no more than was detected, the declaration states nothing about the cache.
        let is_wanted = is_wanted.unwrap_or(is_needed && declared <= found);
        (found.max(declared), best.filter(|_| is_wanted).unwrap_or_default())
    }

    /// Returns what stores into a mapping of the file survive.
    pub(crate) fn of(file: &File) -> Survives {
        detect(file).0
    }

    /// Returns whether lines in the processor's cache must be written to memory to survive a crash of the machine.
    pub(crate) fn needs_write_back(file: &File) -> bool {
        detect(file).1
    }
}

/// Detects what stores into a mapping of the file survive, and whether they must be written back.
fn detect(file: &File) -> (Survives, bool) {
    found(Mapping::is_synchronous(file).is_ok(), domain_of(file).as_deref())
}

/// Returns what stores survive, and whether they must be written back. `is_synchronous`: the memory can be mapped so
/// that the file's metadata are safe. `domain`: the kernel's persistence domain. In the domain `memory_controller` a
/// line is safe once it has left the cache; in `cpu_cache` it is already safe in the cache.
fn found(is_synchronous: bool, domain: Option<&str>) -> (Survives, bool) {
    match (is_synchronous, domain) {
        (false, _) => (Survives::Process, false),
        (true, Some("cpu_cache")) => (Survives::Power, false),
        (true, Some("memory_controller")) => (Survives::Power, true),
        (true, _) => (Survives::System, true),
    }
}

/// Returns the kernel's persistence domain of the device under the file.
fn domain_of(file: &File) -> Option<String> {
    persistence_domain(Path::new("/sys/dev/block"), file.metadata().ok()?.dev())
}

/// Reads the persistence domain of a device from the directory of devices by number.
fn persistence_domain(devices: &Path, device: u64) -> Option<String> {
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    // For a partition, the kernel's file is in the directory of the whole device.
    let places = ["device/../persistence_domain", "../device/../persistence_domain"];
    let device = devices.join(format!("{major}:{minor}"));
    let text = places.iter().find_map(|place| std::fs::read_to_string(device.join(place)).ok());
    Some(text?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::Region;

    #[test]
    fn memory_of_the_page_cache_survives_processes_and_no_more() {
        let region = Region::anonymous(1 << 20).unwrap();
        assert_eq!(region.survives(), Survives::Process);
        assert!(!Survives::needs_write_back(region.file()));
        assert!(Survives::Process < Survives::System && Survives::System < Survives::Power);
    }

    #[test]
    fn the_detected_survival_follows_from_the_mapping_and_the_kernels_file() {
        use Survives::{Power, Process, System};
        for (domain, survives, is_written_back) in [
            (Some("cpu_cache"), Power, false),
            (Some("memory_controller"), Power, true),
            // The kernel has no such file for memory declared at boot. For a region with neither domain, the file has
            // an empty line.
            (None, System, true),
            (Some(""), System, true),
            (Some("something new"), System, true),
        ] {
            assert_eq!(found(true, domain), (survives, is_written_back), "{domain:?}");
            assert_eq!(found(false, domain), (Process, false), "the file's metadata are not safe: {domain:?}");
        }
    }

    #[test]
    fn the_kernels_persistence_domain_is_found_for_a_device_and_for_its_partitions() {
        let sys = std::env::temp_dir().join(format!("libtp-rio-{}-sys", std::process::id()));
        let (devices, region) = (sys.join("dev/block"), sys.join("devices/region0"));
        let disk = region.join("namespace0.0/block/pmem0");
        std::fs::create_dir_all(disk.join("pmem0p1")).unwrap();
        std::fs::create_dir_all(&devices).unwrap();
        let link = |from: PathBuf, to: PathBuf| std::os::unix::fs::symlink(from, to).unwrap();
        link(region.join("namespace0.0"), disk.join("device"));
        link(disk.clone(), devices.join("259:0"));
        link(disk.join("pmem0p1"), devices.join("259:1"));
        let said = |minor| persistence_domain(&devices, rustix::fs::makedev(259, minor));
        assert_eq!((said(0), said(1)), (None, None), "the kernel states no domain");
        for word in ["memory_controller", "cpu_cache", ""] {
            std::fs::write(region.join("persistence_domain"), format!("{word}\n")).unwrap();
            assert_eq!((said(0).as_deref(), said(1).as_deref()), (Some(word), Some(word)));
        }
        assert_eq!(said(2), None, "no such device");
        std::fs::remove_dir_all(sys).unwrap();
    }

    #[test]
    fn cache_lines_are_written_back_unless_more_was_declared_than_detected() {
        use Survives::{Power, Process, System};
        let (how, none) = (WriteBack::Clflush, WriteBack::None);
        let weigh = |found, best, declared| Survives::weigh(found, best, declared, None);
        // `Power` is detected for memory that keeps only contents that were written back.
        for less in [None, Some(Process), Some(System), Some(Power)] {
            assert_eq!(weigh((Power, true), Some(how), less), (Power, how), "{less:?}");
        }
        assert_eq!(weigh((System, true), Some(how), Some(Power)), (Power, none), "an operator knows more");
        assert_eq!(weigh((Process, false), Some(how), None), (Process, none));
        assert_eq!(weigh((Power, true), None, None), (Process, none), "there is no instruction for the write-back");
        assert_eq!(weigh((Power, true), None, Some(System)), (System, none));
        assert_eq!(Survives::weigh((Process, false), Some(how), None, Some(true)), (Process, how));
    }
}

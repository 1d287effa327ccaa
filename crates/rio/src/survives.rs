//! What a region's memory survives: found out, never guessed.
//!
//! Paper: Rio Vista, section 3. There it was always the file cache of an operating system that writes it back after a
//! crash. Here the file says: memory that the file system hands out itself (DAX) can be mapped so that its metadata are
//! safe, and nothing else can.

use std::fs::File;
use std::os::unix::fs::MetadataExt;

use crate::{Mapping, Region};

/// What stores into a region survive, from the least to the most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Survives {
    /// The death of every process: the page cache of any file.
    Process,
    /// Also the death of the operating system, if the machine keeps its memory over a warm start.
    System,
    /// Also the loss of power.
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

impl Region {
    /// What stores into it survive, as far as can be found out: an operator may know more ([`Keeping`](crate::Keeping)).
    pub fn survives(&self) -> Survives {
        Survives::of(self.file())
    }
}

impl Survives {
    /// What stores into a mapping of the file survive.
    pub(crate) fn of(file: &File) -> Survives {
        if Mapping::is_synchronous(file).is_err() {
            return Survives::Process;
        }
        match persistence_domain(file).as_deref() {
            Some("cpu_cache" | "memory_controller") => Survives::Power,
            _ => Survives::System,
        }
    }

    /// Whether what is in the processor's cache when the machine goes down has to be written to memory first.
    pub(crate) fn needs_write_back(file: &File) -> bool {
        Survives::of(file) >= Survives::System && persistence_domain(file).as_deref() != Some("cpu_cache")
    }
}

/// Where the kernel says that stores are safe, of the device under the file.
fn persistence_domain(file: &File) -> Option<String> {
    let device = file.metadata().ok()?.dev();
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    // Of a partition it is the device around it that knows.
    let places = ["device/../persistence_domain", "../device/../persistence_domain"];
    let text =
        places.iter().find_map(|place| std::fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/{place}")).ok());
    Some(text?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_of_the_page_cache_survives_processes_and_no_more() {
        let region = Region::anonymous(1 << 20).unwrap();
        assert_eq!(region.survives(), Survives::Process);
        assert!(!Survives::needs_write_back(region.file()));
        assert!(Survives::Process < Survives::System && Survives::System < Survives::Power);
    }
}

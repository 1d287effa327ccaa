//! Regions that no process uses, and their removal.
//!
//! Invariants
//! 1. Only a process that holds a lock on the region's file, shared or exclusive, removes the file's name. So the
//!    holder of the exclusive lock knows that the name still refers to this file.
//! 2. A process that opens a region takes its lock, and then checks that the file still has a name. If the file has
//!    lost its name, the process opens the path again.

use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::{use_lock, Region};
use crate::descriptor::open_at_once;
use crate::error::system;
use crate::Result;

/// An unused region of our user, locked so that no process attaches to it.
pub struct UnusedRegion(Region);

impl UnusedRegion {
    /// Takes the region at `path`. Returns `None` if a process uses the region, if the region belongs to another user,
    /// or if the file is no region.
    ///
    /// # Errors
    /// `System` if the file cannot be opened or mapped, `Unusable` if it is too short to be a region.
    pub fn take(path: &Path) -> Result<Option<UnusedRegion>> {
        let own = rustix::process::geteuid().as_raw();
        let is_ours = |file: &std::fs::Metadata| file.is_file() && file.uid() == own;
        let opened = match std::fs::symlink_metadata(path) {
            Ok(metadata) if is_ours(&metadata) => open_at_once(path, true),
            Ok(_) => return Ok(None),
            Err(source) => Err(source),
        };
        let file = match opened {
            Err(source) if source.kind() == ErrorKind::NotFound => return Ok(None),
            opened => opened.map_err(|source| system(path, "opening", source))?,
        };
        let metadata = file.metadata().map_err(|source| system(path, "stat", source))?;
        if !is_ours(&metadata) || !use_lock::take(&file) {
            return Ok(None);
        }
        let unused = Region::map(file, path, 0).map(UnusedRegion)?;
        match use_lock::has_name(&unused.0 .0.file) {
            Ok(true) => Ok(Some(unused)),
            // Another process has just removed the region.
            Ok(false) => Ok(None),
            Err(source) => Err(system(path, "stat", source)),
        }
    }

    /// Returns the region. Nothing in it is checked.
    pub fn region(&self) -> &Region {
        &self.0
    }

    /// Checks that this build made the region, in this file and since the machine was started.
    ///
    /// # Errors
    /// The fault, as half a sentence.
    pub fn check_maker(&self, layout: u64) -> std::result::Result<(), String> {
        let own = self.0 .0.file.metadata().map_err(|error| error.to_string())?;
        self.0.header().check_maker(layout, own.ino())
    }

    /// Removes the region's file.
    ///
    /// # Errors
    /// The error of `unlink`.
    pub fn remove(self) -> io::Result<()> {
        std::fs::remove_file(self.0.path())
    }
}

impl Drop for UnusedRegion {
    fn drop(&mut self) {
        use_lock::give_back(&self.0 .0.file);
    }
}

/// Removes any file at the place of a region. Another process may have just found the old region unused. The lock keeps
/// that process from removing the new file that the caller makes at this place.
///
/// # Errors
/// The error of `unlink`.
pub fn remove_region(path: &Path) -> io::Result<()> {
    // A file that cannot be opened for reading is not ours, and only its owner may remove it as unused.
    let file = open_at_once(path, false);
    if let Ok(file) = &file {
        use_lock::lock_shared(file)?;
    }
    std::fs::remove_file(path)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::time::Duration;

    use super::*;
    use crate::{Access, Error, Identity};

    const RESERVE: u64 = 1 << 20;

    fn region(name: &str) -> (Region, PathBuf) {
        let path = std::env::temp_dir().join(format!("rio-unattended-{}-{name}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let region = Region::create(&path, &Identity::default(), RESERVE, &Access::own()).expect("it can be made");
        region.header().set_directory(Path::new("/some/where"));
        region.set_ready();
        (region, path)
    }

    fn attach(path: &Path) -> Result<Region> {
        Region::attach(path, &Identity::default(), RESERVE, &Access::own())
    }

    #[test]
    fn a_region_is_unattended_when_the_last_mapping_of_it_is_gone() {
        let (one, path) = region("mappings");
        let two = attach(&path).expect("whole");
        let again = one.map_again().expect("a second mapping");
        assert!(!one.is_alone(), "another mapping exists");
        for used in [one, two, again] {
            assert!(UnusedRegion::take(&path).expect("a region").is_none(), "the region is in use");
            drop(used);
        }
        let left = UnusedRegion::take(&path).expect("a region").expect("no process uses the region");
        assert_eq!(left.region().header().directory().as_deref(), Some(Path::new("/some/where")));
        assert!(UnusedRegion::take(&path).expect("a region").is_none(), "a second process cannot take the region");
        left.remove().expect("ours");
        assert!(UnusedRegion::take(&path).expect("nothing there").is_none());
    }

    #[test]
    fn an_attach_waits_while_a_region_is_inspected_and_fails_after_the_region_is_removed() {
        let (one, path) = region("meanwhile");
        drop(one);
        for is_removed in [false, true] {
            let left = UnusedRegion::take(&path).expect("a region").expect("no process uses the region");
            let came = std::thread::scope(|scope| {
                let comes = scope.spawn(|| attach(&path));
                // The outcome does not depend on the progress of the other thread in this time.
                std::thread::sleep(Duration::from_millis(50));
                if is_removed {
                    left.remove().expect("ours");
                } else {
                    drop(left);
                }
                comes.join().expect("no panic")
            });
            match came {
                Ok(region) => assert!(!is_removed && region.is_alone() && path.exists(), "a region without a name"),
                Err(Error::System { source, .. }) => assert!(is_removed && source.kind() == ErrorKind::NotFound),
                Err(error) => panic!("{error}"),
            }
        }
    }

    #[test]
    fn any_file_at_the_path_of_a_region_is_removed() {
        let (one, path) = region("removed");
        remove_region(&path).expect("used or not");
        assert!(!path.exists() && one.is_alone());
        assert_eq!(remove_region(&path).expect_err("gone").kind(), ErrorKind::NotFound);
        std::fs::write(&path, "no region").expect("a file");
        remove_region(&path).expect("whatever it is");
        assert!(!path.exists());
    }

    #[test]
    fn a_path_of_any_length_up_to_the_limit_is_noted() {
        let (one, path) = region("paths");
        for length in [1, 7, 8, 9, 3583, 3584, 3585, 20] {
            let noted = PathBuf::from(format!("/{}", "d".repeat(length - 1)));
            one.header().set_directory(&noted);
            assert_eq!(one.header().directory(), (length <= 3584).then_some(noted), "{length}");
        }
        std::fs::remove_file(path).expect("ours");
    }
}

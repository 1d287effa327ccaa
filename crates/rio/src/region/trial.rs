//! A trial: whether a region could be made at a place now. A caller that must change other files before it makes the
//! region can so find out first that the region is refused.

use std::path::Path;

use super::{extend, Region};
use crate::{Access, Result};

impl Region {
    /// Checks that a region of `bytes` for the users in `access` can be made at `path` now, with up to `reserve` bytes
    /// of address space. Takes the room and the address space in a file without a name, and gives them back: no name
    /// in the directory changes. If the filesystem has no files without a name, checks nothing.
    ///
    /// # Errors
    /// As [`Region::create`], but the file at `path` may exist.
    pub fn check_creation(path: &Path, bytes: u64, reserve: u64, access: &Access) -> Result<()> {
        let Some(file) = access.create_unnamed(path)? else { return Ok(()) };
        extend(&file, path, 0, bytes)?;
        Region::map(file, path, reserve).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::Region;
    use crate::{Access, Error};

    #[test]
    fn a_trial_leaves_no_file_and_finds_a_directory_without_permission_or_room() {
        let home = std::env::temp_dir().join(format!("rio-trial-{}", std::process::id()));
        fs::create_dir(&home).expect("a directory for temporary files");
        let check = |path: &str, bytes| Region::check_creation(&home.join(path), bytes, 1 << 30, &Access::own());
        check("region", 1 << 20).expect("there is room");
        assert_eq!(fs::read_dir(&home).expect("a directory").count(), 0);
        let refused = check("missing/region", 1 << 20).expect_err("the directory is missing");
        assert!(matches!(refused, Error::System { .. }), "{refused}");
        let refused = check("region", 1 << 60).expect_err("no disk has an exbibyte");
        assert!(matches!(refused, Error::Full { .. } | Error::System { .. }), "{refused}");
        fs::remove_dir(home).expect("empty");
    }
}

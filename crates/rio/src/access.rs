//! The permitted users of a region: exactly the users of the directory to which the region belongs.
//!
//! Each region belongs to a directory, for example to the directory of an environment. The region's file may be in
//! another directory, in which every user may make files, and may have a name that other users can guess. So a new
//! region gets the owner, the group and the rights of the directory to which it belongs. An existing region is used
//! only if its owner may write that directory, and if no further users may write the region. A symbolic link is not
//! followed.
//!
//! Access control lists are ignored.

use std::fs::{File, Metadata, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{fchown, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use crate::descriptor::{above_standard, open_at_once};
use crate::error::system;
use crate::{Error, Result};

const GROUP: u32 = 0o070;
const GROUP_WRITES: u32 = 0o020;
const OTHERS_WRITE: u32 = 0o002;
const READ_AND_WRITE: u32 = 0o666;
const ROOT: u32 = 0;

/// The users of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    owner: u32,
    group: u32,
    mode: u32,
}

impl Access {
    /// Returns the users of that directory.
    ///
    /// # Errors
    /// The error of `stat`.
    pub fn of_directory(path: &Path) -> io::Result<Access> {
        let metadata = std::fs::metadata(path)?;
        Ok(Access { owner: metadata.uid(), group: metadata.gid(), mode: metadata.mode() & 0o777 })
    }

    /// Returns an access for this process's user only.
    pub fn own() -> Access {
        let (owner, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        Access { owner, group, mode: 0o700 }
    }

    /// Makes a new file and gives it to these users.
    pub(crate) fn create(&self, path: &Path) -> Result<File> {
        let made =
            OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path).and_then(above_standard);
        let file = made.map_err(|source| system(path, "creation", source))?;
        match self.give(&file) {
            Ok(()) => Ok(file),
            Err(source) => {
                // The file is empty, and no other process has it.
                let _ = std::fs::remove_file(path);
                Err(system(path, "setting the users", source))
            }
        }
    }

    /// Makes a file without a name, for these users, in the directory of `path`. Returns `None` if the filesystem has
    /// no such files.
    pub(crate) fn create_unnamed(&self, path: &Path) -> Result<Option<File>> {
        let failed = |source| system(path, "creation", source);
        let home = path.parent().ok_or_else(|| failed(io::ErrorKind::NotFound.into()))?;
        let flags = libc::O_TMPFILE | libc::O_CLOEXEC;
        let made = OpenOptions::new().read(true).write(true).mode(0o600).custom_flags(flags).open(home);
        // A filesystem that does not know the flag returns `EISDIR`: it takes the call for an opening of the directory.
        let is_unknown = |error: &io::Error| matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::EISDIR));
        match made.and_then(above_standard) {
            Err(error) if is_unknown(&error) => Ok(None),
            made => {
                let file = made.map_err(failed)?;
                self.give(&file).map_err(|source| system(path, "setting the users", source))?;
                Ok(Some(file))
            }
        }
    }

    /// Returns the mode of a file for these users. A user who may not write the directory may not read the file either:
    /// a reader can lock the file and keep other users waiting, and the memory holds the contents of files that the
    /// user may not read.
    fn rights(&self) -> u32 {
        let writers = self.mode & 0o222;
        (writers | writers << 1) & self.mode & READ_AND_WRITE | 0o600
    }

    fn give(&self, file: &File) -> io::Result<()> {
        let own = file.metadata()?;
        let mut mode = self.rights();
        if own.uid() != self.owner && own.uid() == ROOT {
            // A file that root makes here belongs to the directory's owner. If root may not change the owner, root
            // stays the owner.
            let _ = fchown(file, Some(self.owner), None);
        }
        if own.gid() != self.group && fchown(file, None, Some(self.group)).is_err() {
            // The file cannot get the directory's group, so its present group gets no right to the file.
            mode &= !GROUP;
        }
        // The mode is set explicitly, so that the directory's mode decides and not the umask.
        file.set_permissions(Permissions::from_mode(mode))
    }

    /// Opens these users' file for reading and writing.
    pub(crate) fn open(&self, path: &Path) -> Result<File> {
        // The owner is checked before the file is opened, so that a planted file is refused even if it could be opened.
        let metadata = std::fs::symlink_metadata(path).map_err(|source| system(path, "opening", source))?;
        self.check(path, &metadata)?;
        // After the check, the name may have been given to a pipe, so the call opens the file without waiting.
        let file = open_at_once(path, true).map_err(|source| system(path, "opening", source))?;
        // The check is repeated, because the name may have been given to another file.
        self.check(path, &file.metadata().map_err(|source| system(path, "stat", source))?)?;
        Ok(file)
    }

    fn check(&self, path: &Path, file: &Metadata) -> Result<()> {
        let not_ours = |what: String| Err(Error::Planted { path: path.to_path_buf(), what });
        if !file.is_file() {
            return not_ours("it is a link, a directory, a pipe or a device, and not a file".into());
        }
        if !self.may_write(file) {
            return not_ours(format!(
                "its owner, user {}, may not write the directory to which this region belongs",
                file.uid()
            ));
        }
        // If the file has another group than the directory, the directory's mode gives that group no rights.
        let of_group = if file.gid() == self.group { self.mode } else { self.mode & !GROUP };
        let wider = file.mode() & !of_group & (GROUP_WRITES | OTHERS_WRITE);
        if wider != 0 {
            let (found, allowed) = (file.mode() & 0o777, self.mode & READ_AND_WRITE);
            return Err(Error::TooWide { path: path.to_path_buf(), found, allowed });
        }
        Ok(())
    }

    /// Returns whether the file's owner may write the directory. If the file has the directory's group, its owner
    /// counts as a member of that group: only a member can have made it.
    fn may_write(&self, file: &Metadata) -> bool {
        let by_group = self.mode & GROUP_WRITES != 0 && file.gid() == self.group;
        let by_all = self.mode & OTHERS_WRITE != 0;
        let known = [self.owner, ROOT, rustix::process::geteuid().as_raw()];
        known.contains(&file.uid()) || by_group || by_all
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{symlink, MetadataExt, PermissionsExt};

    use super::Access;
    use crate::Error;

    fn directory(name: &str) -> std::path::PathBuf {
        let path = std::env::temp_dir().join(format!("rio-access-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir(&path).expect("a directory for temporary files");
        path
    }

    #[test]
    fn a_new_file_has_the_directorys_permissions_with_any_umask() {
        let home = directory("rights");
        for (mode, expected) in
            [(0o700, 0o600), (0o770, 0o660), (0o750, 0o600), (0o755, 0o600), (0o777, 0o666), (0o500, 0o600)]
        {
            let access = Access { mode, ..Access::of_directory(&home).expect("the directory exists") };
            let path = home.join(format!("{mode:o}"));
            let file = access.create(&path).expect("it may be made");
            assert_eq!(file.metadata().expect("open").mode() & 0o777, expected, "of a directory {mode:o}");
            access.open(&path).expect("its own");
            assert!(matches!(access.create(&path), Err(Error::System { .. })), "the file exists already");
        }
        fs::remove_dir_all(home).expect("ours");
    }

    #[test]
    fn links_folders_and_files_that_other_users_may_write_are_refused() {
        let home = directory("planted");
        let access = Access { mode: 0o700, ..Access::of_directory(&home).expect("the directory exists") };
        let real = home.join("real");
        drop(access.create(&real).expect("it may be made"));
        let link = home.join("link");
        symlink(&real, &link).expect("a link");
        fs::create_dir(home.join("folder")).expect("a folder");
        for name in ["link", "folder"] {
            assert!(matches!(access.open(&home.join(name)), Err(Error::Planted { .. })), "{name}");
        }
        for mode in [0o620, 0o602] {
            fs::set_permissions(&real, fs::Permissions::from_mode(mode)).expect("ours");
            let refused = access.open(&real).expect_err("more users may write to the file");
            assert!(matches!(refused, Error::TooWide { .. }) && refused.to_string().contains("chmod"), "{refused}");
        }
        fs::set_permissions(&real, fs::Permissions::from_mode(0o644)).expect("ours");
        access.open(&real).expect("a file that more users may read is no danger");
        fs::remove_dir_all(home).expect("ours");
    }
}

//! Valid paths of a transaction's files, and the names of temporary files.

use std::path::{Component, Path, PathBuf};

use libtp_io::{OpenMode, PlainKind, PlainStatus};
use libtp_log::CONTROL_NAME;
use libtp_record::key_hash::key_hash;

use rio::planted;

use super::row::{Row, TEMPORARY};
use crate::region::inner::Inner;
use crate::region::plain_files::Door;
use crate::{Error, Result};

/// The transaction that made a temporary file. After a restart, in another incarnation of the log, the number of a
/// transaction that logged nothing may be used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Owner {
    pub(crate) incarnation: u64,
    pub(crate) txn: u64,
}

impl Door {
    pub(crate) fn of(env: &Inner) -> Result<Door> {
        if let Some(door) = env.files.door.get() {
            return Ok(door.clone());
        }
        let directory = &env.platform.directory;
        let plain = directory.plain_files().ok_or_else(|| Error::Environment {
            environment: env.platform.path.clone(),
            what: "its disk does not support plain files".into(),
        })?;
        let control = directory.open(CONTROL_NAME, OpenMode::Existing)?.identity()?;
        let tag = key_hash(&[control.inode.to_le_bytes(), control.birth_ns.to_le_bytes()].concat());
        Ok(env.files.door.get_or_init(|| Door { plain, tag }).clone())
    }

    /// Returns the prefix of the names of this environment's temporary files.
    pub(crate) fn prefix(&self) -> String {
        format!("{TEMPORARY}{:016x}-", self.tag)
    }

    /// Returns the name of a temporary file.
    pub(crate) fn temporary(&self, owner: Owner, number: u64) -> String {
        format!("{}{}-{}-{number}", self.prefix(), owner.incarnation, owner.txn)
    }

    /// Returns the owner of a temporary file, if it belongs to this environment.
    pub(crate) fn owner(&self, name: &str) -> Option<Owner> {
        let mut numbers = name.strip_prefix(&self.prefix())?.splitn(3, '-').map(str::parse);
        let owner = Owner { incarnation: numbers.next()?.ok()?, txn: numbers.next()?.ok()? };
        numbers.next()?.ok().map(|_: u64| owner)
    }

    /// Returns the status of a path that is a file or missing.
    ///
    /// # Errors
    /// `File` if the path is anything else, or its directory is missing.
    pub(crate) fn file_at(&self, path: &str) -> Result<Option<PlainStatus>> {
        let refuse = |what: &str| Err(refused(path, what));
        match self.plain.status(path) {
            Ok(Some(found)) => match found.kind {
                PlainKind::File => Ok(Some(found)),
                PlainKind::Directory => refuse("it is a directory, and a transaction changes only files; nothing was changed. Name a file"),
                PlainKind::Link => refuse(
                    "it is a symbolic link, and links are not followed, because another program can change them; nothing was changed. Name the file itself",
                ),
                PlainKind::Other => refuse("it is a device, a pipe or a socket, and a transaction changes only files; nothing was changed. Name a file"),
            },
            Ok(None) => Ok(None),
            Err(libtp_io::Error::NotFound { .. }) => refuse("its directory is missing; nothing was changed. Make the directory first"),
            Err(error) => Err(error.into()),
        }
    }
}

impl Door {
    /// Returns whether a file that is to be removed has its witness (`Row::witness`); if it has, the file was not
    /// removed yet. Returns true for a row without a witness.
    ///
    /// # Errors
    /// As [`libtp_io::PlainFiles::status`].
    pub(crate) fn has_witness(&self, path: &str, row: &Row) -> Result<bool> {
        let Some(name) = &row.witness else { return Ok(true) };
        let found = self.plain.status(&beside(path, name))?;
        Ok(found.is_some_and(|it| row.old.is_some_and(|old| old.inode == it.inode)))
    }

    /// Refuses a path whose directory is not the directory in which a committed transaction left the file.
    ///
    /// # Errors
    /// `File`.
    pub(crate) fn check_directory(&self, path: &str, committed: &Row) -> Result<()> {
        let found = match self.plain.number_of(split(path).0) {
            Ok(number) => Some(number),
            Err(libtp_io::Error::NotFound { .. }) => None,
            Err(error) => return Err(error.into()),
        };
        // A row of an older build has no directory number.
        let is_that = found.is_some() && committed.directory.is_none_or(|number| found == Some(number));
        if is_that || planted("libtp: a replaced directory is accepted for a plain file") {
            return Ok(());
        }
        let what = match found {
            Some(_) => "was replaced by another directory",
            None => "is missing",
        };
        Err(refused(
            path,
            &format!(
                "a committed transaction has changed it, and its directory {what}. The change is kept: if a disk is not mounted, mount it, and the library puts the file in its place. If the directory was removed for good, `tp files --forget` gives the change up"
            ),
        ))
    }
}

/// Returns the error for a path that cannot be used.
pub(crate) fn refused(path: &str, what: &str) -> Error {
    Error::File { path: PathBuf::from(path), what: what.into() }
}

/// Returns the directory of a path, and its last name.
pub(crate) fn split(path: &str) -> (&str, &str) {
    match path.rfind('/') {
        None | Some(0) => ("/", path.trim_start_matches('/')),
        Some(at) => (&path[..at], &path[at + 1..]),
    }
}

/// Returns the path of another name in the same directory.
pub(crate) fn beside(path: &str, name: &str) -> String {
    match split(path).0 {
        "/" => format!("/{name}"),
        directory => format!("{directory}/{name}"),
    }
}

/// Returns a path in the form that rows store: absolute, without empty or `.` parts.
///
/// # Errors
/// `File` when it is not UTF-8, contains `..`, or is one of the environment's own files.
pub(crate) fn written(env: &Inner, given: &Path) -> Result<String> {
    let refuse = |what: &str| Err(Error::File { path: given.to_path_buf(), what: what.into() });
    let Ok(whole) = std::path::absolute(given) else {
        return refuse("it is not a path; nothing was changed. Give the path of a file");
    };
    let mut path = String::new();
    for part in whole.components() {
        match part {
            Component::Normal(name) => match name.to_str() {
                Some(name) => path.extend(["/", name]),
                None => return refuse("its path is not UTF-8, as the paths of a transaction's files must be; nothing was changed. Give the file another name"),
            },
            Component::ParentDir => {
                return refuse("its path contains `..`, so one file would have two paths; nothing was changed. Give a path without `..`")
            }
            _ => {}
        }
    }
    let (directory, name) = split(&path);
    if name.is_empty() {
        return refuse("it is a directory, and a transaction changes only files; nothing was changed. Name a file");
    }
    if name.starts_with(TEMPORARY) {
        return refuse("its name begins like the names of temporary files, which the library removes; nothing was changed. Choose another name");
    }
    let own = [Some(env.platform.path.clone()), env.settings.log_directory.clone()].into_iter().flatten();
    for own in own {
        let own = env.platform.path.join(own);
        if Path::new(directory) == std::fs::canonicalize(&own).unwrap_or(own) {
            return refuse("it is in a directory of the environment, where all files belong to the library; nothing was changed. Choose another directory");
        }
    }
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::{beside, split};

    #[test]
    fn a_path_has_a_directory_and_a_name() {
        assert_eq!(split("/etc/passwd"), ("/etc", "passwd"));
        assert_eq!(split("/vmlinuz"), ("/", "vmlinuz"));
        assert_eq!(split(""), ("/", ""));
        assert_eq!(beside("/etc/passwd", "group"), "/etc/group");
        assert_eq!(beside("/vmlinuz", "initrd"), "/initrd");
    }
}

//! The versions of an environment's files, read without opening the environment: each file states its format and
//! version at a fixed place.

use std::path::Path;

use libtp_io::{Directory, OpenMode, PosixDirectory};
use libtp_log::{segment_number, CONTROL_NAME, CONTROL_VERSION, LOG_VERSION};
use libtp_record::open::{FILE_VERSION, FILE_VERSION_PLAIN};
use serde::Serialize;

use crate::{Env, Result};

/// The place of the version in control file and log segments, after eight bytes that name the format.
const VERSION_AT: usize = 8;
/// The place of the version in a database file, after the header that every page has.
const FILE_VERSION_AT: usize = 40;

/// The version of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FileVersion {
    /// The file's name.
    pub name: String,
    /// The file's format; `None` if the file does not state the format that its name requires.
    pub format: Option<&'static str>,
    /// The file's version.
    pub version: u32,
    /// The versions that this build reads, oldest and newest.
    pub reads: [u32; 2],
    /// Whether this build reads the file.
    pub is_read: bool,
}

/// Returns the versions of the control file, the log's segments and the database files of the environment in
/// `directory`. Opens, locks and changes nothing in the environment.
///
/// # Errors
/// `Io`; `Settings` if `libtp.toml`, which may name the log's directory, cannot be read.
pub fn file_versions(directory: impl AsRef<Path>) -> Result<Vec<FileVersion>> {
    let own = PosixDirectory::open(directory.as_ref())?;
    let platform = Env::builder().create(false).platform(directory.as_ref())?;
    let mut all = Vec::new();
    all.extend(version_of(&own, CONTROL_NAME, ("control", b"libtpenv", VERSION_AT, [CONTROL_VERSION; 2]))?);
    for name in platform.log_directory.list()?.iter().filter(|name| segment_number(name).is_some()) {
        all.extend(version_of(
            platform.log_directory.as_ref(),
            name,
            ("log", b"libtplog", VERSION_AT, [LOG_VERSION; 2]),
        )?);
    }
    for name in own.list()?.iter().filter(|name| name.ends_with(".tp")) {
        let reads = [FILE_VERSION_PLAIN, FILE_VERSION];
        all.extend(version_of(&own, name, ("database", b"libtp.tp", FILE_VERSION_AT, reads))?);
    }
    Ok(all)
}

/// Returns the version of a file; `None` if the file was removed meanwhile.
fn version_of(
    directory: &dyn Directory,
    name: &str,
    (format, magic, at, reads): (&'static str, &[u8; 8], usize, [u32; 2]),
) -> Result<Option<FileVersion>> {
    let file = match directory.open(name, OpenMode::ReadOnly) {
        Err(libtp_io::Error::NotFound { .. }) => return Ok(None),
        file => file?,
    };
    let mut front = [0; FILE_VERSION_AT + 4];
    file.read_at(&mut front, 0)?;
    let four = front[at..at + 4].try_into().expect("the front contains the version of every format");
    let version = u32::from_le_bytes(four);
    let format = (front[at - 8..at] == *magic).then_some(format);
    let is_read = format.is_some() && (reads[0]..=reads[1]).contains(&version);
    Ok(Some(FileVersion { name: name.to_string(), format, version, reads, is_read }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_with_another_version_is_listed_as_not_read() {
        let directory = tempfile::tempdir().unwrap();
        {
            let env = Env::open_or_create(directory.path()).unwrap();
            env.btree("plain").unwrap();
            env.btree_ordered("other", crate::order::Descending).unwrap();
        }
        let versions = file_versions(directory.path()).unwrap();
        assert!(versions.len() >= 4 && versions.iter().all(|file| file.is_read), "{versions:?}");
        let of = |name: &str| versions.iter().find(|file| file.name == name).unwrap().version;
        assert_eq!((of("plain.tp"), of("other.tp")), (1, 2));
        let file = directory.path().join("plain.tp");
        let mut bytes = std::fs::read(&file).unwrap();
        bytes[FILE_VERSION_AT] = 9;
        std::fs::write(&file, bytes).unwrap();
        let versions = file_versions(directory.path()).unwrap();
        let refused: Vec<_> = versions.iter().filter(|file| !file.is_read).collect();
        assert_eq!((refused.len(), refused[0].version, refused[0].name.as_str()), (1, 9, "plain.tp"));
    }
}

//! Directories that are no environment yet, because a restore, a backup or the creation of an environment has begun in
//! them and is not finished.
//!
//! Paper: none. An opening must not mistake an interrupted restore for an environment: the environment would be empty,
//! and no error would be reported. So a restore first makes the file [`RESTORING`] and syncs its name. Then the restore
//! makes the control file, and removes [`RESTORING`] when the names of the restored log files are durable. While the
//! control file is empty, opening refuses a directory that has [`RESTORING`], a file of a backup, a database or a
//! segment of the log.
//!
//! If we die here: [`RESTORING`] or the segments of the log stay. An opening refuses a directory with either.
//!
//! An opening that must make a new environment makes the file [`CREATING`] before the control file. Every opening that
//! succeeds removes [`CREATING`]. If the first opening fails or dies, the next opening that must make a new environment
//! finds [`CREATING`], and accepts the environment as new.
//!
//! A load into a new environment makes the file [`FILLING`] before the control file, and removes it when all loaded
//! records are durable. Until then every other opening of the environment is refused. After an interrupted load, every
//! opening is refused.

use std::path::Path;

use libtp_io::{Directory, OpenMode};
use libtp_log::{segment_number, CONTROL_NAME, DAMAGED_LOG_REMEDY};
use rio::{failpoint, planted};

use crate::open::platform::Platform;
use crate::{Error, Result};

/// The file that marks a directory in which a restore is not finished.
pub(crate) const RESTORING: &str = "restore.unfinished";

/// The file that marks a new environment until an opening has succeeded. An opening that must make a new environment
/// makes this file.
const CREATING: &str = "create.unfinished";

/// The file that marks a new environment that is being filled (`admin/filling.rs`).
pub(crate) const FILLING: &str = "load.unfinished";

/// The file that marks a directory with an unfinished full backup.
pub(crate) const BACKING_UP: &str = "backup.unfinished";

/// The name of the manifest in the directory of a backup.
pub(crate) const MANIFEST: &str = "backup.toml";

/// Returns the error of an opening that found no environment and must not make one.
pub(crate) fn none_was_to_be_made(platform: &Platform) -> Error {
    let what = || {
        format!("its file `{CONTROL_NAME}` is missing or empty, so it is not an environment, and this call makes no new one. Check the directory, or make an environment (`tp put` and `tp load` make one; in a program, `Env::create`)")
    };
    match platform.directory.exists(RESTORING) {
        Ok(true) => not_restored(platform),
        _ => refuse_filling(platform).err().unwrap_or_else(|| refusal(&platform.path, what())),
    }
}

/// Returns the error for a directory in which a restore is not finished.
pub(crate) fn not_restored(platform: &Platform) -> Error {
    let what = format!(
        "it has `{RESTORING}`: a restore of a backup into it was not finished, so it is not an environment. Remove the directory, and restore the backup again"
    );
    refusal(&platform.path, what)
}

/// Returns the error of an opening that was to make an environment and found one.
pub(crate) fn one_exists(platform: &Platform) -> Error {
    refusal(&platform.path, "it is an environment already, and this call makes only new ones. Open it with `Env::open`, or choose another directory".into())
}

/// Refuses to make an environment in a directory that has data of another environment: the new environment could not
/// use the data, and would replace data that can still be restored.
///
/// # Errors
/// `Environment`, with the file that is in the way and the remedy.
pub(crate) fn refuse_others(platform: &Platform) -> Result<()> {
    refuse_filling(platform)?;
    let mut names = platform.directory.list()?;
    if names.iter().any(|name| name == RESTORING) && !planted("libtp: an unfinished restore opens as an environment") {
        return Err(not_restored(platform));
    }
    if let Some(name) = names.iter().find(|name| [MANIFEST, BACKING_UP].contains(&name.as_str())) {
        let what = format!(
            "it has `{name}`: the directory is a backup, and not an environment. `tp restore` makes an environment of a backup, in another directory"
        );
        return Err(refusal(&platform.path, what));
    }
    names.extend(platform.log_directory.list()?);
    let is_data = |name: &String| name.ends_with(".tp") || segment_number(name).is_some();
    let Some(orphan) = names.into_iter().find(is_data) else { return Ok(()) };
    let what = format!(
        "its file `{CONTROL_NAME}` is missing, empty or zeroed, but there is `{orphan}`, which belongs to an environment. \
         {DAMAGED_LOG_REMEDY}; or move all files away to make a new environment"
    );
    Err(refusal(&platform.path, what))
}

/// Refuses an environment that is being filled, or whose filling was interrupted.
///
/// # Errors
/// `Environment`, with the remedy.
pub(crate) fn refuse_filling(platform: &Platform) -> Result<()> {
    if !platform.directory.exists(FILLING)? || planted("libtp: an environment with an unfinished load opens") {
        return Ok(());
    }
    let what = format!(
        "it has `{FILLING}`: a dump is being loaded into this new environment, or the load was cut off. Wait for the end of the \
         load; if no load is under way, remove the directory, and load the dump again"
    );
    Err(refusal(&platform.path, what))
}

/// Records durably that the caller is about to create an environment here. Called while the door is held, so that no
/// other process creates one.
pub(crate) fn begin_creating(directory: &dyn Directory) -> Result<()> {
    directory.open(CREATING, OpenMode::Create)?;
    Ok(directory.sync()?)
}

/// Returns whether the environment was made for an opening that failed or died, and no opening has succeeded since.
pub(crate) fn is_creating(directory: &dyn Directory) -> Result<bool> {
    Ok(directory.exists(CREATING)? && !planted("libtp: a creation that was cut off counts as an environment"))
}

/// Records durably that an opening of the environment has succeeded.
pub(crate) fn end_creating(directory: &dyn Directory) -> Result<()> {
    if !directory.exists(CREATING)? {
        return Ok(());
    }
    remove_mark(directory, CREATING)
}

/// Records durably that the caller is about to create an environment here and to fill it. Called while the door is
/// held, so that no other process creates one.
pub(crate) fn begin_filling(directory: &dyn Directory) -> Result<()> {
    // The name of an existing mark may not be durable, because a sync failed: make the mark again.
    match directory.remove(FILLING) {
        Ok(()) | Err(libtp_io::Error::NotFound { .. }) => {}
        Err(error) => return Err(error.into()),
    }
    directory.open(FILLING, OpenMode::CreateNew)?;
    failpoint("load: begun, mark not durable");
    Ok(directory.sync()?)
}

/// Records durably that the environment is filled, or that all its files were removed.
pub(crate) fn end_filling(directory: &dyn Directory) -> Result<()> {
    remove_mark(directory, FILLING)
}

/// Records durably that a restore begins in this directory. Returns whether this call has made the file.
pub(crate) fn begin_restore(directory: &dyn Directory) -> Result<bool> {
    let is_new = match directory.open(RESTORING, OpenMode::CreateNew) {
        Ok(_) => true,
        Err(libtp_io::Error::Exists { .. }) => false,
        Err(error) => return Err(error.into()),
    };
    failpoint("restore: begun, mark not durable");
    directory.sync()?;
    Ok(is_new)
}

/// Records durably that the directory has all restored data except the contents of the control file.
pub(crate) fn end_restore(directory: &dyn Directory) -> Result<()> {
    remove_mark(directory, RESTORING)
}

/// Removes a mark durably. The mark may be missing, because the call that should make it may have failed.
fn remove_mark(directory: &dyn Directory, mark: &str) -> Result<()> {
    match directory.remove(mark) {
        Ok(()) | Err(libtp_io::Error::NotFound { .. }) => Ok(directory.sync()?),
        Err(error) => Err(error.into()),
    }
}

fn refusal(path: &Path, what: String) -> Error {
    Error::Environment { environment: path.to_path_buf(), what }
}

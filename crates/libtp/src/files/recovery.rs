//! Committed changes of plain files that are not in their places yet: recovered, listed, or given up.

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::Arc;

use super::{finish, paths, row};
use crate::region::inner::{FileUpkeep, Inner};
use crate::{Env, Error, Result};

/// The implementation of [`FileUpkeep`], which lower modules call.
pub(crate) static PLAIN_FILES: PlainFiles = PlainFiles;

/// See [`PLAIN_FILES`].
pub(crate) struct PlainFiles;

impl FileUpkeep for PlainFiles {
    fn recover(&self, env: &Arc<Inner>) {
        recover(env);
    }

    fn end_left(&self, env: &Arc<Inner>) {
        end_left(env);
    }
}

/// Puts committed files in their places and removes what dead processes left, if the environment ever had plain files.
/// If a step fails for a file, the next opening tries the step again. Until then, a transaction that touches the file
/// gets the error.
pub(crate) fn recover(env: &Arc<Inner>) {
    let recovered = env.platform.directory.exists(row::DATABASE_FILE).map_err(Error::from).and_then(|any| match any {
        true => {
            let finished = finish::finish(env, &[], true);
            // A file may wait for weeks, and its temporary file is kept meanwhile. The temporary files of dead
            // processes are removed all the same.
            finish::sweep(env).and(finished)
        }
        false => Ok(()),
    });
    if let Err(error) = recovered {
        tracing::warn!(%error, "plain files of committed transactions are not yet all in their places; transactions see them as committed");
    }
}

/// Deletes the rows of finished files that this handle could not delete, because another transaction was reading them.
pub(crate) fn end_left(env: &Arc<Inner>) {
    if env.files.is_left.swap(false, Ordering::Relaxed) {
        recover(env);
    }
}

/// A plain file that a committed transaction has changed, and that is not known to be in its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitingFile {
    /// The path of the file.
    pub path: PathBuf,
    /// The number of the transaction.
    pub txn: u64,
    /// Whether the file is to be removed, rather than created or replaced.
    pub is_removed: bool,
}

impl Env {
    /// Returns the plain files that committed transactions have changed and that are not known to be in their places.
    /// Usually the list is empty. A file that is being put in its place is listed for a moment. A file whose directory
    /// is missing, for example because a disk is not mounted, is listed until the directory is there again.
    ///
    /// # Errors
    /// `Io`, `Corrupt`.
    pub fn waiting_files(&self) -> Result<Vec<WaitingFile>> {
        if !self.0.platform.directory.exists(row::DATABASE_FILE)? {
            return Ok(Vec::new());
        }
        let found = finish::waiting(&self.0)?.into_iter();
        Ok(found
            .map(|(path, row)| WaitingFile { path: path.into(), txn: row.txn, is_removed: row.new.is_none() })
            .collect())
    }

    /// Gives up a committed change of a plain file that cannot be put in its place, because its directory was removed
    /// for good. Returns whether a change was given up; a change that can be carried out is not given up. A file that
    /// was to be renamed to this path keeps its old name. If the directory comes back, the temporary file in it is
    /// removed.
    ///
    /// # Errors
    /// `LockTimeout` while a transaction works on the file; `Io`; `File` if the path is invalid.
    pub fn forget_file(&self, path: impl AsRef<Path>) -> Result<bool> {
        self.0.check_writable("giving up the change of a file")?;
        let path = paths::written(&self.0, path.as_ref())?;
        if !self.0.platform.directory.exists(row::DATABASE_FILE)? {
            return Ok(false);
        }
        finish::give_up(&self.0, &path)
    }
}

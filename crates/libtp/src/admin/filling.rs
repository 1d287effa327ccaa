//! A new environment that is filled before any other process opens it, for example by `tp load`.
//!
//! Paper: none. After an interrupted load, an empty or half filled environment must not pass for a complete
//! environment. So the directory gets a mark (`unfinished.rs`) before it gets a control file, and loses the mark when
//! everything is durable. As long as the mark is there, every opening except the load's own opening is refused.
//!
//! If we die here: the mark stays, and openings of the environment are refused. Only [`Filling::abandon`] removes
//! files, the mark last.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use libtp_buffer::{DOUBLE_WRITE_NAME, REGISTRY_NAME};
use libtp_io::Directory;
use libtp_log::{segment_number, CONTROL_NAME, NAME_PREPARING};
use rio::failpoint;

use crate::ground::progress::Watch;
use crate::open::opening::Create;
use crate::open::platform::{Platform, REGION_NAME};
use crate::open::unfinished;
use crate::{Builder, Env, Result};

/// An environment that is open to be filled. An environment that existed before is open as usual. A new environment
/// refuses other openings until [`Filling::finish`]. If this value is dropped without a call of `finish`, the new
/// environment refuses all openings for ever.
#[derive(Debug)]
pub struct Filling {
    env: Env,
    /// The former contents of the directories of a new environment; `None` if the environment existed before.
    made: Option<Before>,
}

/// The contents of a directory before an environment was made in it.
#[derive(Debug)]
struct Before {
    /// The names in the environment's directory and in the log's directory.
    names: BTreeSet<String>,
    /// The directories that were made, innermost first.
    missing: Vec<PathBuf>,
}

impl Builder {
    /// Opens the environment in `directory` to be filled, and reports a restart's progress to `watch` as
    /// [`Builder::open_watched`] does.
    ///
    /// # Errors
    /// As [`Builder::open`]; also `Environment` when another load fills the environment, or was interrupted.
    pub fn open_to_fill(&self, directory: impl AsRef<Path>, watch: &mut Watch<'_>) -> Result<Filling> {
        let directory = directory.as_ref();
        let missing = directory.ancestors().filter(|path| !path.as_os_str().is_empty() && !path.exists());
        let missing = missing.map(Path::to_path_buf).collect();
        let platform = self.platform(directory)?;
        self.fill(platform, missing, watch)
    }

    /// Works as [`Builder::open_to_fill`], on any disk. The directories in `missing` did not exist before this opening.
    pub(crate) fn fill(&self, platform: Platform, missing: Vec<PathBuf>, watch: &mut Watch<'_>) -> Result<Filling> {
        let before = Before { names: names_of(&platform)?, missing };
        let begun = Cell::new(false);
        let create = if self.creates() { Create::ToFill(&begun) } else { Create::Never };
        match self.open_and(create, platform.clone(), watch) {
            Ok(env) => Ok(Filling { env, made: begun.get().then_some(before) }),
            Err(error) => {
                if begun.get() {
                    if let Err(left) = before.restore(&platform) {
                        tracing::error!(environment = %platform.path.display(), %left, "the incomplete environment stays");
                    }
                }
                Err(error)
            }
        }
    }
}

impl Filling {
    /// Returns the environment.
    pub fn env(&self) -> &Env {
        &self.env
    }

    /// Ends the filling: flushes the log, and lets all processes open the environment.
    ///
    /// # Errors
    /// `Io`; `Failed`: a new environment stays closed to other openings.
    pub fn finish(self) -> Result<()> {
        self.env.flush()?;
        if self.made.is_some() {
            failpoint("load: all durable, mark not removed");
            unfinished::end_filling(self.env.0.platform.directory.as_ref())?;
        }
        Ok(())
    }

    /// Closes the environment, and removes a new environment entirely; returns whether it was new. Drop the handles of
    /// its databases first.
    ///
    /// # Errors
    /// `Io`: the files that remain are no environment.
    pub fn abandon(self) -> Result<bool> {
        let platform = self.env.0.platform.clone();
        drop(self.env);
        let Some(before) = self.made else { return Ok(false) };
        before.restore(&platform)?;
        Ok(true)
    }
}

/// Returns the names in the environment's directory and in the log's directory.
fn names_of(platform: &Platform) -> Result<BTreeSet<String>> {
    let mut names = BTreeSet::from_iter(platform.directory.list()?);
    names.extend(platform.log_directory.list()?);
    Ok(names)
}

impl Before {
    /// Removes the library's files that were not there before, and the mark last.
    fn restore(self, platform: &Platform) -> Result<()> {
        for directory in [&platform.log_directory, &platform.directory] {
            for name in directory.list()? {
                if is_ours(&name) && !self.names.contains(&name) {
                    remove(directory.as_ref(), &name)?;
                }
            }
            directory.sync()?;
        }
        failpoint("load: only the mark left");
        unfinished::end_filling(platform.directory.as_ref())?;
        for path in self.missing {
            // A directory in which another program has made a file meanwhile stays.
            let _ = std::fs::remove_dir(path);
        }
        Ok(())
    }
}

/// Returns whether a file of that name belongs to an environment. Other programs may make files next to an
/// environment's files meanwhile.
fn is_ours(name: &str) -> bool {
    [CONTROL_NAME, REGISTRY_NAME, REGION_NAME, DOUBLE_WRITE_NAME, NAME_PREPARING].contains(&name)
        || segment_number(name).is_some()
        || name.strip_prefix(DOUBLE_WRITE_NAME).is_some_and(|rest| rest.starts_with('.'))
        // A database, a database that is being made, or the file of a sort.
        || name.contains(".tp")
        || name.strip_prefix(REGISTRY_NAME).is_some_and(|rest| rest.starts_with('.'))
}

/// Removes a file if it exists. For example, the last process that left may have removed the region.
fn remove(directory: &dyn Directory, name: &str) -> Result<()> {
    match directory.remove(name) {
        Err(libtp_io::Error::NotFound { .. }) => Ok(()),
        removed => Ok(removed?),
    }
}

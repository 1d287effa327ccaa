//! Opening an environment with a builder: the managers of its memory, its handle, its threads and its plain files.

use std::path::Path;

use crate::files::recovery::PLAIN_FILES;
use crate::ground::progress::{reporting, Watch};
use crate::open::attach;
use crate::open::builder::Builder;
use crate::open::log_type;
use crate::open::opening::{Create, OpenedBy};
use crate::open::platform::Platform;
use crate::open::unfinished;
use crate::{Durability, Env, Error, Result};

impl Builder {
    /// Opens the environment in `directory`.
    ///
    /// # Errors
    /// `Environment` when the environment cannot be opened, with the remedy; `Corrupt` when the restart found damage;
    /// `Settings`; `Io`.
    pub fn open(&self, directory: impl AsRef<Path>) -> Result<Env> {
        let directory = directory.as_ref();
        let platform = self.platform(directory)?;
        self.open_in(platform, &mut |_| {})
    }

    /// Works as [`Builder::open`], and reports a restart's progress to `watch`, in bytes.
    ///
    /// # Errors
    /// As [`Builder::open`].
    pub fn open_watched(&self, directory: impl AsRef<Path>, watch: &mut Watch<'_>) -> Result<Env> {
        let platform = self.platform(directory.as_ref())?;
        self.open_in(platform, watch)
    }

    /// Opens an environment on the given disk and memory.
    pub(crate) fn open_in(&self, platform: Platform, watch: &mut Watch<'_>) -> Result<Env> {
        self.open_and(self.to_create(), platform, watch)
    }

    /// Opens an environment. If there is no environment, does what `create` says.
    pub(crate) fn open_and(&self, create: Create<'_>, mut platform: Platform, watch: &mut Watch<'_>) -> Result<Env> {
        platform.check_local()?;
        log_type::check(&self.log_types)?;
        platform.log_types = self.log_types.clone().into();
        let settings = self.settings_over(platform.settings_file()?);
        settings.check()?;
        let attached = attach::open(&platform, &settings, self.keep, create, &mut reporting(watch))?;
        let env = Env::of(attached, platform, settings, &PLAIN_FILES, self.is_read_only);
        let first = env.0.newest();
        if env.0.durability == Durability::Rio {
            first.check_lasting()?;
        }
        match first.start_background(&env.0) {
            // `Rebuilt` is no failure of the opening: the next call uses the rebuilt region, and starts threads for
            // that region.
            Ok(()) | Err(Error::Rebuilt) => {
                // If the environment was joined, the other processes have already recovered the plain files. These
                // processes recover the files again when a process dies.
                if env.0.opened.how != OpenedBy::Joined {
                    crate::files::recovery::recover(&env.0);
                }
                #[cfg(feature = "unprotected")]
                if self.settings.is_unprotected {
                    // Unlogged pages carry the LSN of the log's first record, so that record must exist.
                    env.checkpoint()?;
                }
                unfinished::end_creating(env.0.platform.directory.as_ref())?;
                Ok(env)
            }
            Err(error) => {
                first.stop_background();
                Err(error)
            }
        }
    }
}

#[cfg(test)]
mod tests;

//! Opens an environment for an observer: a handle without an attachment lock (PROTOCOLS D9). Tools use the handle to
//! show the sessions that wait and the sessions that keep them waiting.
//!
//! The observer takes neither the door, nor an attachment lock, nor a slot, nor a latch, and changes nothing. So it
//! never waits, and other processes cannot notice it. Its view may be a moment old. If the shared memory is rebuilt
//! meanwhile, the observer still sees the old memory.
//!
//! If we die here: no other process notices.

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::path::Path;
use std::sync::Arc;

use libtp_io::OpenMode;
use libtp_log::CONTROL_NAME;
use libtp_process::ForkMark;

use crate::files::recovery::PLAIN_FILES;
use crate::ground::settings::Settings;
use crate::open::builder::Builder;
use crate::open::liveness::Liveness;
use crate::open::opening::{Attached, OpenedBy, Opening};
use crate::open::platform::{Platform, RegionState};
use crate::{Env, Result};

impl Builder {
    /// Opens the environment in `directory` to watch the processes at work in it: [`Env::sessions`],
    /// [`Env::transactions`], [`Env::stats`], [`Env::opening_process`]. The opening never waits, so it returns even
    /// while a stopped process keeps all other processes waiting. The environment refuses every other call. Returns
    /// `None` if no process has the environment open, or the shared memory cannot be seen at this moment.
    ///
    /// # Errors
    /// `Environment` when there is no environment; `Settings`; `Corrupt`; `Io`.
    pub fn look(&self, directory: impl AsRef<Path>) -> Result<Option<Env>> {
        let mut existing = self.clone().create(false);
        existing = existing.settings(Settings { no_background: true, ..Settings::default() });
        let platform = existing.platform(directory.as_ref())?;
        platform.check_local()?;
        let settings = existing.settings_over(platform.settings_file()?);
        Ok(attached(&platform, &settings)?
            .map(|attached| Env::of(attached, platform, settings, &PLAIN_FILES, self.is_read_only)))
    }
}

fn attached(platform: &Platform, settings: &Settings) -> Result<Option<Attached>> {
    if ForkMark::none_since_fork() {
        libtp_io::give_up_inherited();
    }
    let file = platform.directory.open(CONTROL_NAME, OpenMode::Existing)?;
    let liveness = Arc::new(Liveness::new(Arc::clone(&file), platform.path.clone()));
    if !liveness.others(|_| false)? {
        return Ok(None);
    }
    let opening = Opening::new(platform, settings, &liveness, &file);
    let control = opening.control_file.read()?;
    let identity = opening.identity(file.as_ref(), &control)?;
    let (RegionState::Good(region) | RegionState::Broken(region)) = platform.find_region(&identity)? else {
        return Ok(None);
    };
    // A broken region may fail in any way.
    let looked = catch_unwind(AssertUnwindSafe(|| opening.look(&region, &control)));
    let Ok(Ok(managers)) = looked else { return Ok(None) };
    let opened = opening.opened(OpenedBy::Joined);
    Ok(Some(Attached { managers, liveness, opened }))
}

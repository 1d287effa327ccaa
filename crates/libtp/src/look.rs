//! Looking at an environment without a place in it: for tools that say who keeps whom waiting.
//!
//! Who looks takes neither the door, nor a seat, nor a slot, nor a latch, and changes nothing, so it waits for nobody, and
//! nobody knows of it. What it sees may be of a moment ago; memory that is made anew meanwhile it sees as it was.
//!
//! If we die here: nobody notices.

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::path::Path;
use std::sync::Arc;

use libtp_io::OpenMode;
use libtp_log::{Control, CONTROL_NAME};
use libtp_process::{ForkMark, ProcessManager, Seats};
use libtp_txn::Managers;
use rio::Region;

use crate::attach::{Attached, How, Opening};
use crate::environment::Builder;
use crate::judge::Judge;
use crate::platform::{Found, Platform};
use crate::settings::Settings;
use crate::{Env, Result};

impl Builder {
    /// Opens the environment in `directory` to look at what those do who are at work in it: [`Env::sessions`],
    /// [`Env::transactions`], [`Env::stats`], [`Env::at_the_door`]. It waits for nobody, so it answers also while a stopped
    /// process keeps all others waiting; every other call is refused. None if nobody has it open, or their shared memory
    /// cannot be seen at this moment.
    ///
    /// # Errors
    /// `Environment` when there is none; `Settings`; `Corrupt`; `Io`.
    pub fn look(&self, directory: impl AsRef<Path>) -> Result<Option<Env>> {
        let mut existing = self.clone().create(false);
        existing = existing.settings(Settings { no_background: true, ..Settings::default() });
        let platform = existing.platform(directory.as_ref())?;
        platform.check_local()?;
        let settings = existing.settings_over(platform.settings_file()?);
        Ok(attached(&platform, &settings)?.map(|attached| Env::of(attached, platform, settings)))
    }
}

fn attached(platform: &Platform, settings: &Settings) -> Result<Option<Attached>> {
    if ForkMark::none_since_fork() {
        libtp_io::give_up_inherited();
    }
    let file = platform.directory.open(CONTROL_NAME, OpenMode::Existing)?;
    let judge = Arc::new(Judge::new(Arc::clone(&file), platform.path.clone()));
    if !judge.others(|_| false)? {
        return Ok(None);
    }
    let opening = Opening::new(platform, settings, &judge, &file);
    let control = opening.control_file.read()?;
    let identity = opening.identity(file.as_ref(), &control)?;
    let (Found::Good(region) | Found::Broken(region)) = platform.find_region(&identity)? else { return Ok(None) };
    // What is broken may be so in any way.
    let looked = catch_unwind(AssertUnwindSafe(|| opening.look(&region, &control)));
    let Ok(Ok(managers)) = looked else { return Ok(None) };
    let opened = opening.opened(How::Joined);
    Ok(Some(Attached { managers, judge, opened }))
}

impl Opening<'_> {
    /// The managers of a region, as one sees them who has no place in it.
    pub(crate) fn look(&self, region: &Region, control: &Control) -> Result<Arc<Managers>> {
        let seats = Arc::clone(self.judge) as Arc<dyn Seats>;
        let processes = ProcessManager::look(region, &libtp_process::Settings::default(), seats)?;
        self.attach_managers(region, control, processes)
    }
}

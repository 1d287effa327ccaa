//! A warm start: the machine went down, its memory survived, and the log's tail is found in the region (PROTOCOLS L9).
//! This is also used when all processes of another build have died: this build then uses only the log of their region.
//!
//! Paper: Rio Vista, section 3. Rio writes the file cache back to the disk before the system starts; here the next
//! process that opens the environment writes the tail of the log to the log files, and then restarts as after any
//! crash. Nothing else of the region is used: pages, locks and transactions come from disk and log. So only the log
//! must survive, and must be written back where the processor's cache does not survive.
//!
//! If the memory is missing, the control file states whether commits were answered from it. If commits were answered,
//! the opening is refused, because the memory may be missing only for a time. If the user decides to open the
//! environment without the memory, the loss is reported.
//!
//! If we die here: the region is unchanged until the restart raises the incarnation, so the next opening starts over.

use std::sync::Arc;

use libtp_io::File;
use libtp_log::Control;
use libtp_txn::Managers;
use rio::{failpoint, planted, Identity, Lasting, Region};

use crate::ground::settings::Settings;
use crate::open::keep::Keep;
use crate::open::old_memory::is_current;
use crate::open::opening::{Opened, OpenedBy, Opening, Watcher};
use crate::open::platform::{Platform, RegionState};
use crate::{Durability, Error, Result};

/// As [`Opening::check_new`], for an environment that may have no control file yet.
pub(crate) fn check_new(platform: &Platform, settings: &Settings, identity: &Identity) -> Result<()> {
    let is_late = planted("libtp: a process without lasting memory is refused too late");
    if settings.durability != Some(Durability::Rio) || is_late {
        return Ok(());
    }
    match platform.lasting_of_new(identity, settings.region_survives) {
        Some((region, lasting)) if !lasting.is_lasting() => {
            Err(Error::NotLasting { region, survives: lasting.survives })
        }
        _ => Ok(()),
    }
}

impl Opening<'_> {
    /// Takes the log's tail from a region of an earlier start of the machine or of another build, and restarts.
    pub(crate) fn warm_start(
        &self,
        region: &Region,
        control: &Control,
        file: &dyn File,
        watch: Watcher<'_>,
    ) -> Result<(Arc<Managers>, Opened)> {
        failpoint("warm start: memory found");
        let how = if region.is_of_earlier_start() { OpenedBy::Survived } else { OpenedBy::Restarted };
        let is_forgotten = planted("libtp: a warm start ignores the log's tail in memory");
        let rescue = || match is_forgotten {
            true => Ok(None),
            false => libtp_log::rescue_survivor(region, &self.platform.log_directory, control),
        };
        self.take_log(region, control, file, is_current(region), rescue)?;
        failpoint("warm start: tail in the files, log not restarted");
        self.restart(file, how, 0, watch)
    }

    /// Returns the error for the region of another build whose processes have all died: the region is not given up.
    pub(crate) fn unreadable(&self, why: &str) -> Error {
        let what = format!(
            "processes that died left its shared memory, and this build of the library cannot read the log in that memory: {why}. Commits that were answered before they were on disk may be only there. Open and close the environment once with the build that made the memory, or give the memory up with `tp recover --keep-files`; commits that had not reached the log files are then lost"
        );
        Error::Environment { environment: self.platform.path.clone(), what }
    }

    /// Returns whether commits were answered from memory, and the user has not decided to open the environment without
    /// this memory.
    pub(crate) fn misses_memory(&self, control: &Control) -> bool {
        let is_done_without = planted("libtp: an environment opens without its missing memory");
        control.rio && self.keep != Some(Keep::Files) && !is_done_without
    }

    /// Refuses to open the environment without the memory from which commits were answered: the memory may be found
    /// later, but after a restart without it the environment can no longer use it.
    ///
    /// # Errors
    /// `Environment` with the remedy, unless the user has decided for the files.
    pub(crate) fn refuse_without_memory(
        &self,
        found: &RegionState,
        identity: &Identity,
        control: &Control,
    ) -> Result<()> {
        if !self.misses_memory(control) {
            return Ok(());
        }
        let why = match found {
            RegionState::Unusable(why) | RegionState::Unreadable(why) => format!("cannot be used: {why}"),
            _ => format!("is missing: the library looked for {}", self.platform.first_place(identity).display()),
        };
        let what = format!(
            "commits were answered from its shared memory with durability Rio, and that memory {why}. Mount its filesystem, or set `region_directory` in libtp.toml to its directory. Or give the memory up with `tp recover --keep-files`; the commits answered since the last sync of the log are then lost"
        );
        Err(Error::Environment { environment: self.platform.path.clone(), what })
    }

    /// Refuses to create a region in memory that survives fewer events than the environment's durability promises.
    /// Called before anything is changed.
    ///
    /// # Errors
    /// `NotLasting`.
    pub(crate) fn check_new(&self, identity: &Identity) -> Result<()> {
        check_new(self.platform, self.settings, identity)
    }

    /// Notes that the former memory is gone, and which commits may be lost with it.
    pub(crate) fn memory_is_gone(&self, control: &Control) {
        self.memory_has_less(control, "the shared memory is gone");
    }

    /// Notes that the user has given up the memory of an earlier generation.
    pub(crate) fn memory_is_forgotten(&self, control: &Control) {
        self.memory_has_less(control, "the shared memory was given up, as the user asked");
    }

    /// Notes that commits answered from memory may be lost: commits with durability `Rio`, or relaxed commits.
    pub(crate) fn memory_has_less(&self, control: &Control, why: &'static str) {
        if control.rio {
            self.note_loss(why);
        } else if control.relaxed && !control.clean {
            self.has_lost.set(true);
            tracing::warn!(
                environment = %self.platform.path.display(),
                "relaxed commits were answered from shared memory, and {why}: those that were not yet on disk are lost"
            );
        }
    }

    /// Notes that the restart that follows loses commits that were answered from memory. The control file records this
    /// in the write that begins the new incarnation: a refused restart loses nothing, and if this process dies
    /// afterwards, the next opening reports the loss.
    fn note_loss(&self, why: &'static str) {
        self.has_lost.set(true);
        let promise = "commits were answered with durability Rio, which promises that memory keeps them over a crash of the system";
        self.loss.set(Some(format!("{promise}, and {why}: those since the last sync of the log are lost")));
    }

    /// Reports the noted loss. Called when the restart that loses the commits has begun.
    pub(crate) fn say_loss(&self) {
        if let Some(why) = self.loss.take() {
            tracing::error!(environment = %self.platform.path.display(), "{why}");
        }
    }

    /// Notes in an unused region what its memory survives, if that has changed.
    pub(crate) fn note_lasting(&self, region: &Region) -> Result<()> {
        let lasting = self.platform.lasting(region, self.settings.region_survives);
        let is_noted = planted("libtp: the region does not record a changed setting of surviving memory");
        if lasting != libtp_log::lasting_of(region) && !is_noted {
            region.set_lasting(lasting);
            libtp_log::note_lasting(region, lasting);
            settle(region, lasting)?;
        }
        Ok(())
    }

    /// Marks a new region as ready. From now on, an opening after a restart of the machine finds the region, if
    /// `lasting` says that its memory survives a crash of the system.
    pub(crate) fn set_ready(&self, region: &Region, lasting: Lasting) -> Result<()> {
        settle(region, lasting)?;
        failpoint("warm start: region safe, not ready");
        region.set_ready();
        region.write_back_thing(lasting.write_back, &region.header().ready);
        region.fence(lasting.write_back);
        Ok(())
    }
}

fn settle(region: &Region, lasting: Lasting) -> Result<()> {
    if lasting.is_lasting() {
        region.settle(lasting)?;
    }
    Ok(())
}

//! Opening an environment: create, join, repair or restart (PROTOCOLS F1, L6).
//!
//! A process opens while it holds the door ([`crate::open::liveness`]), so one process opens at a time:
//!
//! * no process is attached, and a region of this boot passes its checks: all processes have died. The region is
//!   **repaired** and used, and nothing is replayed.
//! * no process is attached, and no region passes the checks: **restart** from the log files (`restart.rs`). Before
//!   that, the good part of an old region's log is written to the files, also if the region survived a reboot or another
//!   build made it (`warm_start.rs`).
//! * other processes are attached: **join** their region. If this process cannot find that region, the opening fails:
//!   an opening never makes a second region.
//!
//! If we die here: the kernel releases the door, and the next process begins the work again. Other processes attach to
//! a region only after it was marked ready.

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::Arc;

use libtp_io::{File, OpenMode};
use libtp_log::{Control, CONTROL_NAME, DAMAGED_LOG_REMEDY};
use libtp_process::{ForkMark, ProcessManager};
use libtp_txn::Managers;
use rio::{failpoint, Region};

use crate::ground::settings::Settings;
use crate::open::keep::{self, Keep};
use crate::open::liveness::{Door, Liveness};
use crate::open::opening::{identity_of, Attached, Create, Opened, OpenedBy, Opening, Watcher, MOMENT, PATIENCE};
use crate::open::platform::{reserve_after, Platform, RegionState};
use crate::open::unfinished;
use crate::open::warm_start::check_new;
use crate::{Error, Result};

/// Opens the environment. Creates a missing environment if `create` allows this.
pub(crate) fn open(
    platform: &Platform,
    settings: &Settings,
    keep: Option<Keep>,
    create: Create<'_>,
    watch: Watcher<'_>,
) -> Result<Attached> {
    open_as(platform, settings, keep, create, None, watch)
}

/// Opens the environment again for a handle whose region is broken: attaches to the new region, or makes it.
pub(crate) fn open_again(platform: &Platform, settings: &Settings, left: &Managers) -> Result<Attached> {
    open_as(platform, settings, None, Create::Never, Some(left), &mut |_, _, _| {})
}

fn open_as(
    platform: &Platform,
    settings: &Settings,
    keep: Option<Keep>,
    create: Create<'_>,
    left: Option<&Managers>,
    watch: Watcher<'_>,
) -> Result<Attached> {
    if ForkMark::none_since_fork() {
        libtp_io::give_up_inherited();
    }
    let file = open_control(platform, settings, create)?;
    let liveness = Arc::new(Liveness::new(Arc::clone(&file), platform.path.clone()));
    let opening = Opening { keep, left, create, ..Opening::new(platform, settings, &liveness, &file) };
    opening.reserve.set(reserve_after(left.map(|left| &left.region)));
    let (managers, opened) = loop {
        let door = liveness.door()?;
        failpoint("attach: at the door");
        match opening.through(&door, file.as_ref(), watch)? {
            Some(through) => {
                failpoint("attach: attachment lock taken, door held");
                break through;
            }
            // An attached process may be about to make the region.
            None => drop(door),
        }
        std::thread::sleep(MOMENT);
    };
    failpoint("attach: attached");
    if left.is_none() {
        platform.sweep_once();
    }
    if !settings.no_background {
        // A panic here recurs at the first call, which reports it.
        let _ = catch_unwind(AssertUnwindSafe(|| warn_of_no_spares(managers.keep_spares())));
    }
    Ok(Attached { managers, liveness, opened })
}

/// Warns if no spare sessions could be made: without them, this process cannot repair dead sessions while memory is
/// full. A later attempt may succeed.
pub(crate) fn warn_of_no_spares(kept: libtp_txn::Result<()>) {
    if let Err(error) = kept {
        tracing::warn!(%error, "no sessions are kept for repairs: if memory stays full, this process may be unable to repair dead sessions");
    }
}

/// Returns whether the process with this attachment lock is known to have ended. False if the table of processes is
/// damaged.
fn is_seen_ended(region: &Region, lock: u64) -> bool {
    catch_unwind(|| ProcessManager::has_ended(region, lock)).unwrap_or(false)
}

/// Opens the control file. Creates an empty file if it is missing; the directory is no environment until
/// `create_if_empty` has filled the file. A refused opening creates no file.
fn open_control(platform: &Platform, settings: &Settings, create: Create<'_>) -> Result<Arc<dyn File>> {
    let existing = || match platform.directory.open(CONTROL_NAME, OpenMode::Existing) {
        Err(libtp_io::Error::NotFound { .. }) => Ok(None),
        opened => Ok::<_, Error>(Some(opened?)),
    };
    if let Some(file) = existing()? {
        return Ok(file);
    }
    if matches!(create, Create::Never) {
        return Err(unfinished::none_was_to_be_made(platform));
    }
    if let Err(refused) = unfinished::refuse_others(platform) {
        // Another process may have made the environment meanwhile.
        return existing()?.ok_or(refused);
    }
    // Both checks are repeated when the file exists. The identity here serves only these checks: no region is made with
    // it.
    let nowhere = libtp_io::Identity { device: 0, inode: 0, birth_ns: 0 };
    let identity = identity_of(&nowhere, &random_id(), 1);
    check_new(platform, settings, &identity)?;
    platform.check_memory(&identity, reserve_after(None))?;
    Ok(platform.directory.open(CONTROL_NAME, OpenMode::Create)?)
}

impl Opening<'_> {
    /// Opens the environment while `door` is held. Returns `None` if the attached processes have no region now, and the
    /// caller must try again.
    fn through(&self, door: &Door<'_>, file: &dyn File, watch: Watcher<'_>) -> Result<Option<(Arc<Managers>, Opened)>> {
        let others = door.others(|_| false)?;
        if others && matches!(self.create, Create::New) {
            return Err(unfinished::one_exists(self.platform));
        }
        let created = !others && self.create_if_empty(file)?;
        let is_ours = matches!(self.create, Create::ToFill(begun) if begun.get());
        if !is_ours && self.left.is_none() {
            unfinished::refuse_filling(self.platform)?;
        }
        let control = self.control_file.read()?;
        let identity = self.identity(file, &control)?;
        let found = self.platform.find_region(&identity)?;
        if let RegionState::Good(region) = &found {
            self.platform.note_directory(region);
        }
        let others = match &found {
            RegionState::Good(region) if others => door.others(|lock| is_seen_ended(region, lock))?,
            _ => others,
        };
        if control.lost {
            // No program has read the report of an earlier loss yet.
            self.has_lost.set(true);
        }
        if let Some(left) = self.left.filter(|left| self.is_last_incarnation(&found, left, &control)) {
            return self.rebuild(&left.region, &control, file, watch).map(Some);
        }
        match found {
            RegionState::Good(region) if others => self.join(&region, &control),
            RegionState::Good(region) => self.repair_or_restart(&region, &control, file, watch).map(Some),
            RegionState::Broken(region) => self.rebuild(&region, &control, file, watch).map(Some),
            found @ (RegionState::None
            | RegionState::Unusable(_)
            | RegionState::Unreadable(_)
            | RegionState::Left(..))
                if others && self.left.is_none() =>
            {
                if self.started.elapsed() < PATIENCE {
                    Ok(None)
                } else {
                    Err(self.unseen(found))
                }
            }
            RegionState::Left(region, _) => {
                self.check_new(&identity)?;
                self.warm_start(&region, &control, file, watch).map(Some)
            }
            RegionState::Unreadable(why) if self.keep != Some(Keep::Files) => Err(self.unreadable(&why)),
            RegionState::None | RegionState::Unusable(_) | RegionState::Unreadable(_) if created => {
                self.restart(file, OpenedBy::Created, 0, watch).map(Some)
            }
            found @ (RegionState::None | RegionState::Unusable(_) | RegionState::Unreadable(_)) => {
                if !self.misses_memory(&control) {
                    self.check_new(&identity)?;
                }
                self.check_memory(&identity)?;
                let survived = keep::settle(self.platform, &identity, &self.control_file, self.keep)?;
                if survived.is_empty() {
                    self.refuse_without_memory(&found, &identity, &control)?;
                }
                let how = if control.clean && !survived.is_kept { OpenedBy::Clean } else { OpenedBy::Restarted };
                self.memory_is_gone(&control);
                // The process that was rebuilding the memory has died.
                let rebuilds = self.left.map_or(0, |left| left.processes.rebuild_count() + 1);
                let restarted = self.restart(file, how, rebuilds, watch)?;
                survived.forget(&restarted.0.region);
                Ok(Some(restarted))
            }
        }
    }

    /// Joins the processes that use the region. Returns `None` after a panic: the caller must try again. A second panic
    /// also marks the region broken.
    fn join(&self, region: &Region, control: &Control) -> Result<Option<(Arc<Managers>, Opened)>> {
        libtp_log::check_same_files(region, &self.platform.log_directory)?;
        match catch_unwind(AssertUnwindSafe(|| self.attach(region, control))) {
            Ok(attached) => Ok(Some((attached?, self.opened(OpenedBy::Joined)))),
            // The first panic may come from a rare bug, and not from damage in the region.
            Err(_) if !self.has_panicked.replace(true) => Ok(None),
            Err(_) => {
                tracing::error!(region = %region.path().display(), "the shared memory is damaged and cannot be used");
                region.mark_broken();
                Ok(None)
            }
        }
    }

    /// Fills the control file if it is empty; returns whether this call has made the environment.
    fn create_if_empty(&self, file: &dyn File) -> Result<bool> {
        let mut front = [0; 8];
        let read = file.read_at(&mut front, 0)?;
        // The first bytes are written last: zeros mean an unfinished file.
        if read == front.len() && front != [0; 8] {
            return match self.create {
                Create::New if unfinished::is_creating(self.platform.directory.as_ref())? => Ok(false),
                Create::New => Err(unfinished::one_exists(self.platform)),
                Create::Never | Create::IfMissing | Create::ToFill(_) => Ok(false),
            };
        }
        if read > 0 && read < front.len() {
            let what =
                format!("its file `{CONTROL_NAME}` has only {read} bytes, so it is damaged. {DAMAGED_LOG_REMEDY}");
            return Err(Error::Environment { environment: self.platform.path.clone(), what });
        }
        if matches!(self.create, Create::Never) {
            return Err(unfinished::none_was_to_be_made(self.platform));
        }
        unfinished::refuse_others(self.platform)?;
        let log_settings = self.log_settings();
        let control = Control::new(random_id(), &log_settings);
        let identity = self.identity(file, &control)?;
        self.check_new(&identity)?;
        self.check_memory(&identity)?;
        match self.create {
            Create::New => unfinished::begin_creating(self.platform.directory.as_ref())?,
            Create::ToFill(begun) => {
                begun.set(true);
                unfinished::begin_filling(self.platform.directory.as_ref())?;
            }
            Create::Never | Create::IfMissing => {}
        }
        failpoint("attach: about to make an environment");
        self.control_file.create(&control)?;
        failpoint("attach: control file made, name not durable");
        self.platform.directory.sync()?;
        Ok(true)
    }

    fn unseen(&self, found: RegionState) -> Error {
        let what = match found {
            RegionState::Unusable(why) | RegionState::Unreadable(why) | RegionState::Left(_, why) => {
                format!("other processes use it, and this process cannot use their shared memory: {why}. Close it in those processes, or use the build of the library that they use")
            }
            _ => format!(
                "other processes use it, but their shared memory is not in {} of this process (another container, another user's \
                 mount, or another `region_directory`). Set `region_directory` in libtp.toml to a directory that all of them see",
                self.platform.describe_homes()
            ),
        };
        Error::Environment { environment: self.platform.path.clone(), what }
    }

    /// Repairs the region that the dead processes left, or restarts from the log.
    fn repair_or_restart(
        &self,
        region: &Region,
        control: &Control,
        file: &dyn File,
        watch: Watcher<'_>,
    ) -> Result<(Arc<Managers>, Opened)> {
        // A panic means the same as an error: the region is damaged.
        let repair = || catch_unwind(AssertUnwindSafe(|| self.repair(region, control)));
        match repair().unwrap_or_else(|_| Err("its repair fails".into())) {
            Ok(repaired) => Ok(repaired),
            Err(why) => {
                tracing::warn!(%why, "the shared memory of dead processes cannot be used; restarting from the log");
                // PROTOCOLS L6: take the region's log first, then give the region up.
                let rescue = || libtp_log::rescue_ring(region, &self.platform.log_directory, control);
                self.take_log(region, control, file, true, rescue)?;
                self.restart(file, OpenedBy::Restarted, 0, watch)
            }
        }
    }

    /// Repairs the region (PROTOCOLS D4, L6).
    fn repair(&self, region: &Region, control: &Control) -> std::result::Result<(Arc<Managers>, Opened), String> {
        let text = |error: Error| error.to_string();
        // This step comes before the managers attach, because they read the note.
        self.note_lasting(region).map_err(text)?;
        let managers = self.attach(region, control).map_err(text)?;
        if managers.log.is_poisoned() || managers.buffers.is_failed() {
            return Err("a sync had failed".into());
        }
        let mut repair = managers.processes.repair_alone();
        failpoint("alone: sections rolled back");
        managers.log.repair_alone()?;
        managers.log.check_against_files(control).map_err(|error| error.to_string())?;
        // The log's directory may have been moved while no process was attached.
        libtp_log::note_files(region, &self.platform.log_directory).map_err(|error| error.to_string())?;
        failpoint("alone: log repaired");
        managers.buffers.repair_alone();
        failpoint("alone: frames repaired");
        managers.locks.repair_alone();
        failpoint("alone: locks repaired");
        managers.reset_alone();
        let txn = managers.join().map_err(|error| error.to_string())?;
        failpoint("alone: joined");
        let done = managers.repair_alone(&txn, &mut repair).map_err(|error| error.to_string())?;
        failpoint("alone: all transactions ended");
        managers.leave(txn);
        failpoint("alone: slots not free");
        repair.finish();
        let opened = Opened { redone: done.redone, undone: done.undone, ..self.opened(OpenedBy::Repaired) };
        Ok((managers, opened))
    }
}

/// Returns sixteen random bytes.
pub(crate) fn random_id() -> [u8; 16] {
    let mut id = [0; 16];
    if !matches!(rustix::rand::getrandom(&mut id, rustix::rand::GetRandomFlags::empty()), Ok(16)) {
        // Without the system call, time and process number distinguish the environments of one machine.
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |now| now.as_nanos());
        id = (now ^ u128::from(std::process::id()) << 96).to_le_bytes();
    }
    id
}

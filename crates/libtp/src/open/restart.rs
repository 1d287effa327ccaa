//! A restart from the log files (PROTOCOLS L6).
//!
//! The steps are in two parts. [`Opening::restart`] only reads: an opening that it refuses has changed no file. Before
//! it, the opening has checked that it can make the shared memory (`trial.rs`). [`Opening::begin`] changes files. An
//! error there says that recovery was begun: the log's end and the new incarnation are in the control file, and no
//! region of this incarnation is ready, so the next opening restarts from the same checkpoint. docs/reliability.md has
//! the list of the steps that can fail there.
//!
//! If we die here: as after an error.

use std::sync::Arc;

use libtp_buffer::{BufferManager, Registry};
use libtp_io::File;
use libtp_lock::LockManager;
use libtp_log::{LogManager, Look, Lsn, Restarted};
use libtp_process::ProcessManager;
use libtp_txn::Managers;
use rio::{failpoint, planted};

use crate::ground::unfinished_opening::Begun;
use crate::open::opening::{Opened, OpenedBy, Opening, Watcher};
use crate::open::record_types;
use crate::Result;

/// If more restarts than this have followed each other without a checkpoint, the restart takes a checkpoint itself.
const RESTARTS_WITHOUT_CHECKPOINT: usize = 16;

impl Opening<'_> {
    /// Checks the log and the database files, and then restarts from them.
    ///
    /// # Errors
    /// Damage, missing files, and the errors of the disk and of the memory. If a file was changed, the message says that
    /// recovery was begun.
    pub(crate) fn restart(
        &self,
        file: &dyn File,
        how: OpenedBy,
        rebuilds: u64,
        watch: Watcher<'_>,
    ) -> Result<(Arc<Managers>, Opened)> {
        // The steps that only read come first: an unusable file is refused before any file is changed.
        let (log, log_settings) = (&self.platform.log_directory, self.log_settings());
        let looked = match how {
            OpenedBy::Created => None,
            _ => {
                let looked = libtp_log::look(log, &self.control_file, &log_settings)?;
                let types = libtp_txn::record_table(record_types::all(), self.applications());
                libtp_txn::look(&types, looked.files(), looked.control(), looked.end().end)?;
                Some(looked)
            }
        };
        let environment = self.control_file.read()?.environment_id;
        let directory = &self.platform.directory;
        let registry = Registry::new(Arc::clone(directory), environment);
        if !registry.is_there()? {
            // An environment of an earlier build has no register. The register is made from the database files below,
            // so these files are checked here.
            libtp_record::find_files(directory.as_ref(), &environment)?;
        }
        let begun = if how == OpenedBy::Created { Begun::Creation } else { Begun::Recovery };
        let restarted = self.begin(looked, (&registry, &environment), file, how, rebuilds, watch);
        restarted.map_err(|error| match planted("libtp: a refused recovery states that nothing was changed") {
            true => error,
            false => error.after(begun),
        })
    }

    /// Begins a new incarnation at the end of the log, makes the region, and replays the log.
    fn begin(
        &self,
        looked: Option<Look<'_>>,
        (registry, environment): (&Registry, &[u8; 16]),
        file: &dyn File,
        how: OpenedBy,
        rebuilds: u64,
        watch: Watcher<'_>,
    ) -> Result<(Arc<Managers>, Opened)> {
        let directory = &self.platform.directory;
        let restarted = match looked {
            None => Restarted::of_new_log(&self.platform.log_directory, &self.control_file)?,
            Some(looked) => looked
                .begin(self.has_lost.get() && !planted("libtp: a death before the report of a loss hides the loss"))?,
        };
        self.say_loss();
        let control = restarted.control;
        failpoint("restart: log's end found");
        libtp_record::make_registry(registry, directory.as_ref(), environment, control.next_file_id)?;
        let restored = libtp_record::restore_torn(registry, directory.as_ref(), environment)?;
        failpoint("restart: torn pages mended");
        let identity = self.identity(file, &control)?;
        let region = self.platform.make_region(&identity, self.reserve.get())?;
        let lasting = self.platform.lasting(&region, self.settings.region_survives);
        region.set_lasting(lasting);
        failpoint("restart: region made");
        ProcessManager::init(&region)?;
        LogManager::init(&region, &self.log_settings(), &self.platform.log_directory, &control, restarted.end.end)?;
        libtp_log::note_lasting(&region, lasting);
        LockManager::init(&region)?;
        BufferManager::init(&region, &self.buffer_settings(&region))?;
        failpoint("restart: managers made");
        let checkpoint = Some(control.checkpoint).filter(|&lsn| lsn != Lsn::NONE);
        Managers::init(&region, checkpoint.unwrap_or(control.oldest))?;
        let managers = self.attach(&region, &control)?;
        if restored.kept > 0 {
            managers.buffers.note_kept_images();
        }
        let txn = managers.join()?;
        failpoint("restart: joined");
        let done = libtp_txn::restart(&managers, &txn, checkpoint, control.oldest, watch)?;
        failpoint("restart: replayed");
        libtp_record::after_restart(&managers, &txn)?;
        let since_checkpoint =
            control.incarnations.list().iter().filter(|generation| generation.start > control.checkpoint).count();
        if since_checkpoint > RESTARTS_WITHOUT_CHECKPOINT {
            // A restart reads the log from the last checkpoint on. Without a new checkpoint, each restart would read
            // more.
            managers.checkpoint(&txn)?;
        }
        managers.leave(txn);
        managers.processes.set_rebuild_count(rebuilds);
        failpoint("restart: session left, region not ready");
        self.set_ready(&region, lasting)?;
        // The note of a clean close may be outdated: the process that closed the environment may have died before it
        // removed the memory, and other processes may have used that memory since.
        let has_work = done.redone != 0 || done.undone != 0;
        let how = if how == OpenedBy::Clean && has_work { OpenedBy::Restarted } else { how };
        let opened = Opened {
            log_bytes: done.end.since(done.redo_from),
            redone: done.redone,
            undone: done.undone,
            mended: restored.mended as u64,
            ..self.opened(how)
        };
        Ok((managers, opened))
    }
}

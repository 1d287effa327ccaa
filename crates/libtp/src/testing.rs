//! Calls that this repository's tests and measurements need, and no program needs: the feature `testing`. These calls
//! promise nothing; they change with the tests.
//!
//! They open environments, backups and restores on a simulated disk and in memory that simulated processes share, leave
//! a handle as a kill leaves it, and hand out the managers.

use std::sync::Arc;

use libtp_io::Directory;
use libtp_txn::Managers;

use crate::{BackedUp, Backup, Builder, Env, Filling, RestorePoint, Restored, Result, Settings, Txn, Watch};

pub use crate::open::platform::{Memory, Platform, SharedMemory};

impl Builder {
    /// Opens an environment on the given disk and memory instead of the machine's.
    ///
    /// # Errors
    /// As [`Builder::open`].
    pub fn open_on(&self, platform: Platform, watch: &mut Watch<'_>) -> Result<Env> {
        self.open_in(platform, watch)
    }

    /// As [`Builder::open_to_fill`], on any disk.
    ///
    /// # Errors
    /// As [`Builder::open_to_fill`].
    pub fn open_to_fill_on(&self, platform: Platform, watch: &mut Watch<'_>) -> Result<Filling> {
        self.fill(platform, Vec::new(), watch)
    }
}

impl Env {
    /// As [`Env::backup`], to any directory.
    ///
    /// # Errors
    /// As [`Env::backup`].
    pub fn backup_on(&self, to: &Arc<dyn Directory>, watch: &mut Watch<'_>) -> Result<BackedUp> {
        self.backup_to(to, watch)
    }

    /// As [`Env::backup_more`], to any directory.
    ///
    /// # Errors
    /// As [`Env::backup_more`].
    pub fn backup_more_on(&self, to: &Arc<dyn Directory>, watch: &mut Watch<'_>) -> Result<BackedUp> {
        self.backup_more_to(to, watch)
    }

    /// Leaves this handle as a kill would: its sessions stay in shared memory as they are. The caller must disable the
    /// files' handles first; otherwise dropping the last clone closes the environment in good order.
    pub fn die(&self) {
        self.0.die();
    }

    /// Returns the managers of the environment's present generation: log, locks, buffers, transactions.
    pub fn managers(&self) -> Arc<Managers> {
        Arc::clone(&self.0.newest().managers)
    }
}

impl Backup {
    /// As [`Backup::open`], in any directory.
    ///
    /// # Errors
    /// As [`Backup::open`].
    pub fn open_on(directory: Arc<dyn Directory>) -> Result<Backup> {
        Backup::open_in(directory)
    }

    /// As [`Backup::restore`], on another disk and memory than the machine's.
    ///
    /// # Errors
    /// As [`Backup::restore`].
    pub fn restore_on(
        &self,
        platform: Platform,
        settings: Settings,
        until: RestorePoint,
        watch: &mut Watch<'_>,
    ) -> Result<Restored> {
        self.make(&Env::builder().settings(settings), platform, until, watch)
    }
}

impl Txn<'_> {
    /// Leaves the transaction as a kill would: undoes nothing and releases no lock.
    pub fn die(self) {
        self.session().session().mark_dead();
    }
}

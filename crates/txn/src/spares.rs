//! Sessions kept for the repair of dead sessions: a repair needs one, and another for the transaction that it adopts. A
//! new session needs memory, and a repair must not fail for want of it: the dead session would hold its locks and
//! frames as long as memory is full, and these may be all that keeps other sessions from giving memory back.
//!
//! If the process dies here: the spares are idle sessions like any other, and the repair of the process gives their
//! slots back.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use libtp_process::Session;
use rio::planted;

use crate::{Managers, Result};

/// The number of spares: one repairs, one adopts.
const SPARES: usize = 2;
/// Bytes of before-images beside those of two pages, as the access methods reserve for a change.
const UNDO_BESIDE_PAGES: u64 = 4096;

/// The sessions of one process that only a repair uses.
#[derive(Default)]
pub(crate) struct Spares {
    list: Mutex<Vec<Session>>,
    /// Whether spares are kept: a process that only looks around in the environment keeps none.
    are_kept: AtomicBool,
}

impl Managers {
    /// Makes sure that this process can repair dead sessions when memory is full. Called when the process has attached.
    ///
    /// # Errors
    /// The region cannot grow.
    pub fn keep_spares(&self) -> Result<()> {
        // Relaxed, everywhere: the flag hands nothing over.
        self.spares.are_kept.store(!planted("txn: no session is kept for repairs"), Ordering::Relaxed);
        self.refill_spares()
    }

    /// Replaces spares that have died, and prepares all for larger pages. Does nothing if no spares are kept.
    ///
    /// # Errors
    /// As [`Managers::keep_spares`].
    pub fn refill_spares(&self) -> Result<()> {
        if !self.spares.are_kept.load(Ordering::Relaxed) {
            return Ok(());
        }
        let missing = SPARES.saturating_sub(self.spares.list().len());
        let fresh: Result<Vec<Session>> = (0..missing).map(|_| Ok(self.processes.join()?)).collect();
        let mut list = self.spares.list();
        list.extend(fresh?);
        let bytes = 2 * u64::from(self.buffers.largest_page_bytes()) + UNDO_BESIDE_PAGES;
        list.iter().try_for_each(|spare| spare.ensure_undo(bytes))?;
        Ok(())
    }

    /// Ends the spares, before this process gives its seat back: after that, other processes would take them for dead.
    pub fn drop_spares(&self) {
        self.spares.are_kept.store(false, Ordering::Relaxed);
        let all = std::mem::take(&mut *self.spares.list());
        drop(all);
    }

    /// Takes a session for a repair. The caller gives it back.
    pub(crate) fn take_spare(&self) -> Result<Session> {
        let spare = self.spares.list().pop();
        spare.map_or_else(|| Ok(self.processes.join()?), Ok)
    }

    /// Gives a spare back. A spare that died of the repair is left to other sessions to repair.
    pub(crate) fn give_spare(&self, spare: Session) {
        let mut list = self.spares.list();
        if !spare.is_dead() && list.len() < SPARES && self.spares.are_kept.load(Ordering::Relaxed) {
            list.push(spare);
        }
    }
}

impl Spares {
    fn list(&self) -> MutexGuard<'_, Vec<Session>> {
        // The list is whole between any two statements.
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

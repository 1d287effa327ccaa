//! Sessions kept for the repair of dead sessions: a repair needs a session, and a second session for the transaction
//! that it adopts. A new session needs memory. A repair must not fail because memory is full: other sessions may need
//! the locks and frames of the dead session before they can free memory.
//!
//! If the process dies here: the spares are idle sessions, and the repair of the process frees their slots.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use libtp_process::{ProcessManager, Session};
use rio::planted;

use crate::Result;

/// The number of spares: one repairs, one adopts.
const SPARES: usize = 2;
/// Bytes of before-images that the access methods reserve for a change, in addition to those of two pages.
const UNDO_BESIDE_PAGES: u64 = 4096;

/// The sessions of one process that only a repair uses.
#[derive(Default)]
pub(crate) struct Spares {
    list: Mutex<Vec<Session>>,
    /// Whether spares are kept: a process that only inspects the environment keeps no spares.
    are_kept: AtomicBool,
}

impl Spares {
    /// Keeps spares from now on. `page_bytes` is the length of the largest page that a repair changes.
    ///
    /// # Errors
    /// The region cannot grow.
    pub(crate) fn keep(&self, processes: &ProcessManager, page_bytes: u32) -> Result<()> {
        // Relaxed, everywhere: the flag publishes nothing else.
        self.are_kept.store(!planted("txn: no spare session is kept for repairs"), Ordering::Relaxed);
        self.refill(processes, page_bytes)
    }

    /// Replaces spares that have died, and prepares all spares for larger pages. Does nothing if no spares are kept.
    ///
    /// # Errors
    /// As [`Spares::keep`].
    pub(crate) fn refill(&self, processes: &ProcessManager, page_bytes: u32) -> Result<()> {
        if !self.are_kept.load(Ordering::Relaxed) {
            return Ok(());
        }
        let missing = SPARES.saturating_sub(self.list().len());
        let fresh: Result<Vec<Session>> = (0..missing).map(|_| Ok(processes.join()?)).collect();
        let mut list = self.list();
        list.extend(fresh?);
        let bytes = 2 * u64::from(page_bytes) + UNDO_BESIDE_PAGES;
        list.iter().try_for_each(|spare| spare.ensure_undo(bytes))?;
        Ok(())
    }

    /// Ends the spares, and keeps no spares from now on.
    pub(crate) fn drop_all(&self) {
        self.are_kept.store(false, Ordering::Relaxed);
        let all = std::mem::take(&mut *self.list());
        drop(all);
    }

    /// Takes a session for a repair. The caller returns it with [`Spares::give`].
    pub(crate) fn take(&self, processes: &ProcessManager) -> Result<Session> {
        let spare = self.list().pop();
        spare.map_or_else(|| Ok(processes.join()?), Ok)
    }

    /// Returns a spare to the list. If the spare died during the repair, other sessions repair it.
    pub(crate) fn give(&self, spare: Session) {
        let mut list = self.list();
        if !spare.is_dead() && list.len() < SPARES && self.are_kept.load(Ordering::Relaxed) {
            list.push(spare);
        }
    }

    fn list(&self) -> MutexGuard<'_, Vec<Session>> {
        // A panic leaves the list valid, because it is valid between any two statements.
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

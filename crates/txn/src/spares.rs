//! Sessions kept for the repair of the dead: who repairs needs one, and another for the transaction that it adopts. A new one
//! needs memory, and a repair must not want for it: what the dead hold, perhaps all that keeps others from giving memory
//! back, would be held as long as the memory is full.
//!
//! If we die here: they are idle sessions of ours like any other, and the repair of us gives their slots back.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use libtp_process::Session;
use rio::planted;

use crate::{Managers, Result};

/// How many: one repairs, one adopts.
const SPARES: usize = 2;
/// Bytes of before-images beside those of two pages, as the access methods reserve for a change.
const UNDO_BESIDE_PAGES: u64 = 4096;

/// The sessions of one process that nobody uses but a repair.
#[derive(Default)]
pub(crate) struct Spares {
    list: Mutex<Vec<Session>>,
    /// There are to be some: who only looks around in the environment keeps none.
    are_kept: AtomicBool,
}

impl Managers {
    /// Sees to it that this process can repair the dead when memory is full. Called when it has attached.
    ///
    /// # Errors
    /// The region cannot grow.
    pub fn keep_spares(&self) -> Result<()> {
        // Relaxed, everywhere: nothing is handed over by it.
        self.spares.are_kept.store(!planted("txn: no session is kept for repairs"), Ordering::Relaxed);
        self.refill_spares()
    }

    /// Again, when one has died or there may be larger pages. Changes nothing for who keeps none.
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

    /// They leave: before this process gives its seat back, or others would take them for dead.
    pub fn drop_spares(&self) {
        self.spares.are_kept.store(false, Ordering::Relaxed);
        let all = std::mem::take(&mut *self.spares.list());
        drop(all);
    }

    /// A session for a repair. To be given back.
    pub(crate) fn take_spare(&self) -> Result<Session> {
        let spare = self.spares.list().pop();
        spare.map_or_else(|| Ok(self.processes.join()?), Ok)
    }

    /// Gives one back. One that died of what it met is for others to repair.
    pub(crate) fn give_spare(&self, spare: Session) {
        let mut list = self.spares.list();
        if !spare.is_dead() && list.len() < SPARES && self.spares.are_kept.load(Ordering::Relaxed) {
            list.push(spare);
        }
    }
}

impl Spares {
    fn list(&self) -> MutexGuard<'_, Vec<Session>> {
        // A list is whole between any two statements.
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

//! Checks and preparations before a commit whose answer does not wait for the disk.

use libtp_txn::TxnSession;

use super::generation::Generation;
use crate::{Durability, Error, Result};

impl Generation {
    /// Checks that commits may be answered from this generation's memory.
    ///
    /// # Errors
    /// `NotLasting`.
    #[inline]
    pub(crate) fn check_lasting(&self) -> Result<()> {
        let lasting = self.managers.lasting();
        if lasting.is_lasting() {
            return Ok(());
        }
        let region = self.managers.region.path().to_path_buf();
        Err(Error::NotLasting { region, survives: lasting.survives })
    }

    /// Does the step that must come before a commit that is answered from memory.
    ///
    /// # Errors
    /// `NotLasting`; the control file cannot be written; `Rebuilt` if the control file now belongs to another
    /// generation.
    #[inline]
    pub(crate) fn prepare_answer(&self, txn: &TxnSession, durability: Durability) -> Result<()> {
        if durability == Durability::Rio {
            self.check_lasting()?;
        }
        txn.prepare_answer(&self.managers, durability.into()).map_err(|error| self.not_noted(error))
    }

    #[cold]
    fn not_noted(&self, error: libtp_txn::Error) -> Error {
        match self.managers.region.is_broken() {
            true => Error::Rebuilt,
            false => error.into(),
        }
    }
}

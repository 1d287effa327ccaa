//! Checks and preparations before a commit whose answer does not wait for the disk.

use libtp_txn::TxnSession;

use super::generation::Generation;
use crate::{Error, Result};

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

    /// Prepares for a commit that is answered from memory.
    ///
    /// # Errors
    /// `NotLasting`; the control file cannot be written; `Rebuilt` if the control file now belongs to another
    /// generation.
    #[inline]
    pub(crate) fn begin_rio(&self, txn: &TxnSession) -> Result<()> {
        self.check_lasting()?;
        self.managers.begin_rio(txn).map_err(|error| self.not_noted(error))
    }

    /// Prepares for a relaxed commit.
    ///
    /// # Errors
    /// The control file cannot be written; `Rebuilt` if the control file now belongs to another generation.
    #[inline]
    pub(crate) fn begin_relaxed(&self, txn: &TxnSession) -> Result<()> {
        self.managers.begin_relaxed(txn).map_err(|error| self.not_noted(error))
    }

    #[cold]
    fn not_noted(&self, error: libtp_txn::Error) -> Error {
        match self.managers.region.is_broken() {
            true => Error::Rebuilt,
            false => error.into(),
        }
    }
}

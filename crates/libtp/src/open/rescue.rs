//! Gives up shared memory: first writes the good part of its log to the log files, and reports the losses (PROTOCOLS
//! L6, L9, D13). The restart that follows finds the log in the files.
//!
//! Data read from memory that is given up are checked before use. If the library panics in spite of these checks, none
//! of the data can be trusted. The panic is caught here: the caller of the opening gets a report of the loss, or of the
//! decision that the user must make.
//!
//! If we die here: the next opening starts over. Log already written to the files stays there.

use libtp_io::File;
use libtp_log::{Control, Lsn, Rescued};
use libtp_txn::Managers;
use rio::{planted, Region};

use crate::open::keep::{self, Keep};
use crate::open::old_memory::read;
use crate::open::opening::Opening;
use crate::Result;

/// The rescued part of the log.
pub(crate) struct Taken {
    /// `None` if nothing could be trusted.
    rescued: Option<Rescued>,
    /// The last commit as the transaction manager recorded it, because the log manager's own words may be damaged.
    /// `None` if unknown.
    committed: Option<Lsn>,
}

impl Opening<'_> {
    /// Calls `rescue`, which writes a region's log to the files. If `rescue` could not take all of the log, notes that
    /// commits are lost. Returns `None` if files and region disagree and the user has decided between them.
    /// `is_current` states that the data of the other managers are up to date, too.
    ///
    /// # Errors
    /// `Environment` if the user must decide; the errors of `check_memory`, and errors of the files: the region is
    /// unchanged then.
    pub(crate) fn take_log(
        &self,
        region: &Region,
        control: &Control,
        file: &dyn File,
        is_current: bool,
        rescue: impl FnOnce() -> libtp_log::Result<Option<Rescued>>,
    ) -> Result<Option<Taken>> {
        // There must be memory for the region that the following restart makes: from here on the log files are changed.
        self.check_memory(&self.identity(file, control)?)?;
        let keep = self.keep.filter(|_| !planted("libtp: the choice between memory and files is ignored"));
        let rescued = match (read(rescue).unwrap_or(Ok(None)), keep) {
            // PROTOCOLS F1: a backup was restored while the region existed, and the user has decided.
            (Err(libtp_log::Error::Disagree { .. }), Some(Keep::Files)) => {
                self.memory_is_forgotten(control);
                return Ok(None);
            }
            (Err(libtp_log::Error::Disagree { .. }), Some(Keep::Region)) => {
                // The data files may be of any age: the restart brings them up to date from the log.
                keep::write_region_log(region, self.platform, &self.control_file)?;
                return Ok(None);
            }
            (rescued, _) => rescued?,
        };
        let committed = if is_current { read(|| Managers::last_commit(region)).flatten() } else { None };
        let taken = Taken { rescued, committed };
        if !taken.is_whole() {
            self.memory_has_less(control, "the log in the shared memory is damaged");
        }
        Ok(Some(taken))
    }
}

impl Taken {
    /// Returns whether all answered commits were taken. If the region's log does not show its end, the taken part must
    /// include the last commit.
    fn is_whole(&self) -> bool {
        self.rescued.is_some_and(|rescued| match rescued.tail {
            Some(tail) => rescued.to >= tail,
            None => self.committed.is_some_and(|commit| commit < rescued.to),
        })
    }

    /// Reports the commits that were lost with broken memory, if any.
    pub(crate) fn warn_of_loss(&self) {
        let Some(rescued) = self.rescued else {
            tracing::error!("the damaged memory has no usable log: commits that were not on disk are lost");
            return;
        };
        let committed = self.committed.filter(|&commit| commit >= rescued.to);
        match rescued.tail {
            Some(tail) if rescued.to < tail => {
                tracing::error!(from = %rescued.to, to = %tail, "commits that were not yet on disk are lost with the broken memory");
            }
            Some(_) => {}
            None if committed.is_some() => {
                tracing::error!(from = %rescued.to, ?committed, "commits that were not yet on disk are lost with the broken memory");
            }
            None => {
                tracing::warn!(from = %rescued.from, to = %rescued.to, "the log's own data in the damaged memory are wrong; its records were found by their checksums")
            }
        }
    }
}

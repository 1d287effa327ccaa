//! Shared memory is given up: what is good of its log goes to the log files first, and it is said what does not (PROTOCOLS L6,
//! L9, D13). The restart that follows finds it there.
//!
//! What is read of such memory is checked before it is used. A panic all the same says that nothing of it can be trusted, and
//! ends here: whoever opens an environment is told that something is lost, or what the user may decide.
//!
//! If we die here: the next to open does it again. What the log's files have got already they have.

use std::panic::{catch_unwind, AssertUnwindSafe};

use libtp_log::{Control, Lsn, Rescued};
use libtp_txn::Managers;
use rio::{planted, Region};

use crate::attach::Opening;
use crate::keep::{self, Keep};
use crate::Result;

/// What was taken of the log.
pub(crate) struct Taken {
    /// None if there is nothing that could be trusted.
    rescued: Option<Rescued>,
    /// The last commit, as another manager's words tell it: the log's own may be what was hit. None if that is not known.
    committed: Option<Lsn>,
}

/// Reads memory that is given up. None says that it panicked.
pub(crate) fn read<T>(reads: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(reads)).ok()
}

impl Opening<'_> {
    /// Has `rescue` put the log of a region to the files, and tells what `Rio` commits are lost with the rest. None where files and
    /// region disagree and the user has decided between them. `is_of_now` says that also what is not the log's is as it was last.
    ///
    /// # Errors
    /// `Environment` where the user is to decide; what the files fail with: the region is as it was.
    pub(crate) fn take_log(
        &self,
        region: &Region,
        control: &Control,
        is_of_now: bool,
        rescue: impl FnOnce() -> libtp_log::Result<Option<Rescued>>,
    ) -> Result<Option<Taken>> {
        let keep = self.keep.filter(|_| !planted("libtp: what to keep of broken memory is not asked"));
        let rescued = match (read(rescue).unwrap_or(Ok(None)), keep) {
            // PROTOCOLS F1: a backup was restored under it, and the user has decided.
            (Err(libtp_log::Error::Disagree { .. }), Some(Keep::Files)) => {
                self.memory_is_forgotten(control);
                return Ok(None);
            }
            (Err(libtp_log::Error::Disagree { .. }), Some(Keep::Region)) => {
                // Nor is it known of what time the data files are: everything else comes from the log.
                keep::put_behind(region, self.platform, &self.control_file)?;
                return Ok(None);
            }
            (rescued, _) => rescued?,
        };
        let committed = if is_of_now { read(|| Managers::last_commit(region)).flatten() } else { None };
        let taken = Taken { rescued, committed };
        if !taken.is_whole() {
            self.memory_has_less(control, "the log in the shared memory is damaged");
        }
        Ok(Some(taken))
    }
}

impl Taken {
    /// Whether it is all that was answered. Where the log's words do not say where it ended, the last commit does.
    fn is_whole(&self) -> bool {
        self.rescued.is_some_and(|rescued| match rescued.tail {
            Some(tail) => rescued.to >= tail,
            None => self.committed.is_some_and(|commit| commit < rescued.to),
        })
    }

    /// Says what could not be kept of broken memory, if anything.
    pub(crate) fn tell(&self) {
        let Some(rescued) = self.rescued else {
            tracing::error!("the broken memory holds no log that could be trusted: what was not yet on disk is lost");
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
                tracing::warn!(from = %rescued.from, to = %rescued.to, "the log's words in the broken memory were hit; its records were found without them")
            }
        }
    }
}

//! Rebuilds the shared memory while processes are attached (PROTOCOLS D13): at the door, by the first process through
//! it.
//!
//! It waits until no living session writes to a file; puts the good part of the old region's log into the files; and
//! then restarts as after a crash. If a writing process is stopped, the waiting callers get an error that names it, and
//! the next process through the door tries again.
//!
//! If we die here: the next process through the door starts over. Log already written to the files stays there.

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::Arc;
use std::time::{Duration, Instant};

use libtp_io::File;
use libtp_log::Control;
use libtp_process::SessionId;
use libtp_txn::Managers;
use rio::{failpoint, planted, Region};

use crate::open::opening::{How, Opened, Opening, Watcher, MOMENT, PATIENCE};
use crate::open::platform::{reserve_after, Found};
use crate::{Error, Result};

/// How long to wait for a living session that the broken region reports as writing to a file, if its process runs: a
/// wild store may have hit that note.
///
/// At each look during this time, no thread of the process may be in a system call that no signal ends. A thread that
/// is in a sync all the same, in a file system of another process for example, checks the region before its next write.
const LAST_PATIENCE: Duration = Duration::from_secs(10);
/// The pause between two looks.
const GLANCE: Duration = Duration::from_millis(50);
/// How long to wait for a stopped process, or for one that cannot be seen to run, before waiting callers get an error.
const STOPPED_PATIENCE: Duration = Duration::from_secs(5);
const UNSEEN_PATIENCE: Duration = Duration::from_secs(30);

impl Opening<'_> {
    /// Returns whether the region that this process left, and still has mapped, can no longer be found by others and
    /// has not been replaced since: its log was not all on disk.
    pub(crate) fn is_last_life(&self, found: &Found, left: &Managers, control: &Control) -> bool {
        matches!(found, Found::None | Found::Unusable(_) | Found::Unreadable(_)) && left.log.is_of_life(control)
    }

    /// Replaces a broken region (PROTOCOLS D13). Other processes may still use the broken region: no process may write
    /// to a file any more when the new region is made.
    pub(crate) fn rebuild(
        &self,
        broken: &Region,
        control: &Control,
        file: &dyn File,
        watch: Watcher<'_>,
    ) -> Result<(Arc<Managers>, Opened)> {
        failpoint("rebuild: begins");
        self.reserve.set(reserve_after(Some(broken)));
        broken.give_up_growth();
        let rebuilds = self.wait_for_writers(broken, control)?.unwrap_or(0);
        failpoint("rebuild: no writer left, ring not rescued");
        tracing::warn!(region = %broken.path().display(), "the shared memory is broken and is made anew from the log");
        let directory = &self.platform.log_directory;
        // Read again: a writer may have taken a checkpoint.
        let control = &self.control_file.read()?;
        let rescue = || match self.left.filter(|left| left.log.is_of_life(control)) {
            Some(left) => left.log.rescue(directory, control),
            None => libtp_log::rescue_ring(broken, directory, control),
        };
        let is_lost = planted("libtp: a rebuild drops the log in memory");
        if let Some(taken) = self.take_log(broken, control, true, || if is_lost { Ok(None) } else { rescue() })? {
            taken.warn_of_loss();
        }
        failpoint("rebuild: ring rescued, log not restarted");
        self.restart(file, How::Restarted, rebuilds + 1, watch)
    }

    /// Waits until no living session is about to write to a file. Returns how often the environment was rebuilt before;
    /// `None` if the region does not even show that. Takes no seat in the region: it may have none free.
    ///
    /// # Errors
    /// `Environment`, naming a process that is stopped while it writes, or cannot be seen to run.
    fn wait_for_writers(&self, broken: &Region, control: &Control) -> Result<Option<u64>> {
        let look = AssertUnwindSafe(|| {
            let takes_a_place = planted("libtp: a rebuild attaches to the old memory");
            let managers =
                if takes_a_place { self.attach(broken, control) } else { self.look(broken, control) }.ok()?;
            // A session that had not seen the region broken before this has finished its write.
            managers.processes.declare_broken();
            let (mut has_warned, begun) = (false, Instant::now());
            let (mut not_seen, mut looked) = (begun, begun);
            loop {
                let writers = managers.writers();
                if writers.is_empty() || planted("libtp: a rebuild does not wait for writers") {
                    return Some(Ok(managers.processes.rebuild_count()));
                }
                let is_running = |writer: &&SessionId| managers.processes.is_seen_running(**writer);
                if looked.elapsed() > GLANCE {
                    looked = Instant::now();
                    if !writers.iter().all(|writer| is_running(&writer)) {
                        not_seen = looked;
                    }
                }
                if not_seen.elapsed() > LAST_PATIENCE {
                    tracing::error!(?writers, "by the damaged memory these sessions still write to files; the memory has shown that for very long, and is not believed");
                    return Some(Ok(managers.processes.rebuild_count()));
                }
                let is_stopped = |writer: &SessionId| managers.processes.is_stopped(*writer);
                if begun.elapsed() > UNSEEN_PATIENCE
                    || begun.elapsed() > STOPPED_PATIENCE && writers.iter().any(is_stopped)
                {
                    let names: Vec<String> =
                        writers.iter().map(|writer| managers.processes.describe(*writer)).collect();
                    return Some(Err(self.still_written_by(&names.join(" and "))));
                }
                if !has_warned && begun.elapsed() > PATIENCE {
                    has_warned = true;
                    tracing::warn!(?writers, "the shared memory is to be made anew, and these sessions are still writing to files; if their processes are stopped, continue or kill them");
                }
                std::thread::sleep(MOMENT);
            }
        });
        let looked = catch_unwind(look).unwrap_or(None);
        if looked.is_none() {
            // The tables do not even name the sessions. A running write has this long to end; none begins any more.
            std::thread::sleep(PATIENCE);
        }
        looked.transpose()
    }

    fn still_written_by(&self, writer: &str) -> Error {
        let what = format!(
            "its shared memory is damaged and must be made anew from the log, and {writer} has not finished a write to the files. \
             Continue that process or end it, and try again (`tp sessions` shows it)"
        );
        Error::Environment { environment: self.platform.path.clone(), what }
    }
}

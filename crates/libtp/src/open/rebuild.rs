//! Rebuilds the shared memory while processes are attached (PROTOCOLS D13). The first process at the door does this.
//!
//! It waits until no living session writes to a file. Then it writes the good part of the old region's log to the log
//! files, and restarts as after a crash. If a process is stopped while it writes to a file, the callers that wait for
//! the rebuild get an error that names the process, and the next process at the door tries again.
//!
//! If we die here: the next process at the door starts over. Log already written to the files stays there.

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::Arc;
use std::time::{Duration, Instant};

use libtp_io::File;
use libtp_log::Control;
use libtp_process::SessionId;
use libtp_txn::Managers;
use rio::{failpoint, planted, Region};

use crate::open::opening::{Opened, OpenedBy, Opening, Watcher, MOMENT, PATIENCE};
use crate::open::platform::{reserve_after, RegionState};
use crate::{Error, Result};

/// How long to wait for a session that the broken region reports as writing to a file, while its process runs. The
/// report may come from a wild store.
///
/// The time begins again whenever a look finds a thread of the process in a system call that no signal ends, such as a
/// sync. But in some file systems a signal can end a sync, for example in a file system that another process serves. A
/// thread in such a sync may outlast this time, and checks the region before its next write.
const RUNNING_PATIENCE: Duration = Duration::from_secs(10);
/// The pause between two checks whether the processes of the writing sessions run.
const GLANCE: Duration = Duration::from_millis(50);
/// How long to wait for a stopped process before the waiting callers get an error.
const STOPPED_PATIENCE: Duration = Duration::from_secs(5);
/// How long to wait for any process before the waiting callers get an error.
const UNSEEN_PATIENCE: Duration = Duration::from_secs(30);

impl Opening<'_> {
    /// Returns whether this process's mapping of the broken region may be the only place that has the end of the log:
    /// no process can find the broken region any more, and no new region has replaced it.
    pub(crate) fn is_last_incarnation(&self, found: &RegionState, left: &Managers, control: &Control) -> bool {
        matches!(found, RegionState::None | RegionState::Unusable(_) | RegionState::Unreadable(_))
            && left.log.is_of_incarnation(control)
    }

    /// Replaces a broken region (PROTOCOLS D13). Other processes may still use the broken region, so the new region is
    /// made only when no process writes to a file any more.
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
        tracing::warn!(region = %broken.path().display(), "the shared memory is broken and is rebuilt from the log");
        let directory = &self.platform.log_directory;
        // Read the control file again: a writer may have taken a checkpoint.
        let control = &self.control_file.read()?;
        let rescue = || match self.left.filter(|left| left.log.is_of_incarnation(control)) {
            Some(left) => left.log.rescue(directory, control),
            None => libtp_log::rescue_ring(broken, directory, control),
        };
        let is_lost = planted("libtp: a rebuild drops the log in memory");
        if let Some(taken) = self.take_log(broken, control, file, true, || if is_lost { Ok(None) } else { rescue() })? {
            taken.warn_of_loss();
        }
        failpoint("rebuild: ring rescued, log not restarted");
        self.restart(file, OpenedBy::Restarted, rebuilds + 1, watch)
    }

    /// Waits until no living session writes to a file. Returns how often the environment was rebuilt before; `None` if
    /// the region is too damaged to show that. Takes no attachment lock in the region, because all attachment locks may
    /// be taken.
    ///
    /// # Errors
    /// `Environment`, naming the processes of the writing sessions, if one of them is stopped or the wait takes too
    /// long.
    fn wait_for_writers(&self, broken: &Region, control: &Control) -> Result<Option<u64>> {
        let look = AssertUnwindSafe(|| {
            let takes_a_place = planted("libtp: a rebuild attaches to the old memory");
            let managers =
                if takes_a_place { self.attach(broken, control) } else { self.look(broken, control) }.ok()?;
            // After this call, every session that writes without having seen the mark is visible as a writer.
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
                if not_seen.elapsed() > RUNNING_PATIENCE {
                    tracing::error!(?writers, "the damaged memory reports that these sessions still write to files; it has reported this for too long, and is not believed any more");
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
                    tracing::warn!(?writers, "the shared memory must be rebuilt, and these sessions are still writing to files; if their processes are stopped, continue or kill them");
                }
                std::thread::sleep(MOMENT);
            }
        });
        let looked = catch_unwind(look).unwrap_or(None);
        if looked.is_none() {
            // The region is too damaged to name the writing sessions. No new write begins, and a write that has begun
            // gets this time to end.
            std::thread::sleep(PATIENCE);
        }
        looked.transpose()
    }

    fn still_written_by(&self, writer: &str) -> Error {
        let what = format!(
            "its shared memory is damaged and must be rebuilt from the log, and {writer} has not finished a write to the files. \
             Continue that process or end it, and try again (`tp sessions` shows it)"
        );
        Error::Environment { environment: self.platform.path.clone(), what }
    }
}

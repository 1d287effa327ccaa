//! Making the shared memory anew under those who work in it (PROTOCOLS D13): at the door, by whoever comes first.
//!
//! It is waited until nobody who lives writes to a file any more; the good part of the old region's log goes to the files;
//! then all is as after a crash, beginning with the log. Who writes may be stopped: it is named to whoever waits, and the
//! next to come through the door tries again.
//!
//! If we die here: the next to come through the door does it again. What the log's files have got already they have.

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::Arc;
use std::time::{Duration, Instant};

use libtp_io::File;
use libtp_log::Control;
use libtp_process::SessionId;
use libtp_txn::Managers;
use rio::{failpoint, planted, Region};

use crate::attach::{How, Opened, Opening, Watcher, MOMENT, PATIENCE};
use crate::platform::{reserve_after, Found};
use crate::{Error, Result};

/// How long to wait for a living session that a broken region says writes to a file, if its process is seen to run: a wild
/// store may have hit what says so.
///
/// At each look of all that time none of its threads may be in a system call that no signal ends. Who sits in a sync all the same, in
/// a file system of another process say, looks before its next write whether the memory is anybody's.
const LAST_PATIENCE: Duration = Duration::from_secs(10);
/// How often it is looked at.
const GLANCE: Duration = Duration::from_millis(50);
/// How long to wait for one that is stopped, and for one that cannot be seen to run, until those are told who wait for us.
const STOPPED_PATIENCE: Duration = Duration::from_secs(5);
const UNSEEN_PATIENCE: Duration = Duration::from_secs(30);

impl Opening<'_> {
    /// Whether nobody finds any more what we have left, and still have mapped, and nothing has become of it since: its log was
    /// not all on disk.
    pub(crate) fn is_last_life(&self, found: &Found, left: &Managers, control: &Control) -> bool {
        matches!(found, Found::None | Found::Unusable(_) | Found::Unreadable(_)) && left.log.is_of_life(control)
    }

    /// The region was found broken (PROTOCOLS D13). Others may still be in it: nobody may write to a file any more when the
    /// new one is made.
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
        failpoint("rebuild: nobody writes, ring not rescued");
        tracing::warn!(region = %broken.path().display(), "the shared memory is broken and is made anew from the log");
        let directory = &self.platform.log_directory;
        // Read anew: who was writing may have taken a checkpoint.
        let control = &self.control_file.read()?;
        let rescue = || match self.left.filter(|left| left.log.is_of_life(control)) {
            Some(left) => left.log.rescue(directory, control),
            None => libtp_log::rescue_ring(broken, directory, control),
        };
        let is_lost = planted("libtp: the log of broken memory is not kept");
        if let Some(taken) = self.take_log(broken, control, true, || if is_lost { Ok(None) } else { rescue() })? {
            taken.tell();
        }
        failpoint("rebuild: ring rescued, log not restarted");
        self.restart(file, How::Restarted, rebuilds + 1, watch)
    }

    /// Waits until no living session is about to write to a file. Returns how often the environment was made anew before;
    /// none where the region does not even show that. It takes no place in it: there may be none.
    ///
    /// # Errors
    /// `Environment` with who is stopped while it writes, or cannot be seen to run.
    fn wait_for_writers(&self, broken: &Region, control: &Control) -> Result<Option<u64>> {
        let look = AssertUnwindSafe(|| {
            let takes_a_place = planted("libtp: who makes memory anew takes a place in the old");
            let managers =
                if takes_a_place { self.attach(broken, control) } else { self.look(broken, control) }.ok()?;
            // Whoever had not seen the region broken before this has done what it was about to do.
            managers.processes.declare_broken();
            let (mut said, begun) = (false, Instant::now());
            let (mut not_seen, mut looked) = (begun, begun);
            loop {
                let writers = managers.writers();
                if writers.is_empty() || planted("libtp: memory is made anew while somebody writes") {
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
                    tracing::error!(?writers, "the shared memory says that these sessions still write to files, which it has said for very long: it is not believed");
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
                if !said && begun.elapsed() > PATIENCE {
                    said = true;
                    tracing::warn!(?writers, "the shared memory is to be made anew, and these sessions are still writing to files; if their processes are stopped, continue or kill them");
                }
                std::thread::sleep(MOMENT);
            }
        });
        let looked = catch_unwind(look).unwrap_or(None);
        if looked.is_none() {
            // Its tables do not even say who works in it. Whoever is at a write has that long to end it; nobody begins another.
            std::thread::sleep(PATIENCE);
        }
        looked.transpose()
    }

    fn still_written_by(&self, who: &str) -> Error {
        let what = format!(
            "its shared memory is damaged and is to be made anew from the log, but {who} has not ended a write to its files. \
             Continue that process or end it, and try again (`tp sessions` shows it)"
        );
        Error::Environment { environment: self.platform.path.clone(), what }
    }
}

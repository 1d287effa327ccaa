//! Leaving an environment in good order.
//!
//! First this process writes the log and ends its sessions; both may have to wait for other sessions. Then it takes the
//! door lock, under which it waits only for the disk. The next process that takes the door lock finds either the shared
//! memory with other processes attached, or no shared memory. If another process is stopped while it has the door lock,
//! this process leaves without that lock. Then the shared memory stays, as after a death, but with nothing to repair.
//!
//! Leaving never hangs. If the holder of a latch is stopped and a wait takes too long, this process leaves its sessions
//! as a dead process does, and another process repairs them. The commits of these sessions are in the shared memory,
//! which exists while the stopped process is attached.
//!
//! If we die here: the next opening repairs or restarts.

use std::panic::resume_unwind;
use std::time::Duration;

use libtp_process::{catch_call, LeaveTimedOut};
use libtp_txn::{Managers, TxnSession};
use rio::{failpoint, planted};

use crate::open::liveness::{Door, Liveness};
use crate::open::platform::Platform;
use crate::region::generation::Sessions;
use crate::Result;

/// The longest wait for the door lock: far longer than a process usually holds it.
const PATIENCE: Duration = Duration::from_secs(5);

/// Leaves an environment in good order, with its commits on disk. The last process to leave takes a checkpoint, records
/// that the log ends here, and removes the shared memory.
pub(crate) fn leave(managers: &Managers, liveness: &Liveness, platform: &Platform, sessions: Sessions) -> Result<()> {
    if managers.processes.is_observer() {
        return Ok(());
    }
    let _early =
        if planted("libtp: sessions end while their process holds the door") { Some(liveness.door()?) } else { None };
    let ended = end(managers, sessions);
    let Some(door) = liveness.door_within(PATIENCE)? else {
        tracing::warn!(
            environment = %platform.path.display(),
            opening_process = liveness.describe_opening_process(),
            "the environment is left without its door lock, because the process that holds the lock does not run"
        );
        managers.drop_spares();
        liveness.release_attachment_lock();
        return ended;
    };
    if managers.region.is_broken() {
        // The next process that uses the environment rebuilds its memory, and these sessions end with the old region.
        return door.release_attachment_lock();
    }
    failpoint("leave: at the door");
    let left = ended.and_then(|()| close_if_last(&door, managers, platform));
    if !planted("libtp: spare sessions are not dropped before the attachment lock is released") {
        managers.drop_spares();
    }
    failpoint("leave: left, attachment lock still taken");
    door.release_attachment_lock()?;
    failpoint("leave: attachment lock given up, door held");
    left
}

/// Writes commits to disk, and ends the sessions. If the holder of a needed latch is stopped, leaves the sessions as
/// they are. Called before this process takes the door lock, because this function may wait for such a holder.
fn end(managers: &Managers, sessions: Sessions) -> Result<()> {
    if managers.region.is_broken() {
        return Ok(());
    }
    // Restarts the time limit: the end of the library's own threads may have taken long.
    managers.processes.begin_to_leave();
    catch_call(|| end_sessions(managers, sessions)).unwrap_or_else(|payload| {
        if !payload.is::<LeaveTimedOut>() {
            resume_unwind(payload);
        }
        tracing::warn!("another process, which is stopped or very slow, holds a lock that leaving needs: the sessions of this process are repaired as if it had died");
        Ok(())
    })
}

fn end_sessions(managers: &Managers, mut sessions: Sessions) -> Result<()> {
    // Without a session there is nothing to end.
    let Some(last) = sessions.pop() else { return Ok(()) };
    // A dead session cannot be used; another session repairs it.
    let forced = if last.session.session().is_dead() { Ok(()) } else { force(managers, &last.session) };
    failpoint("leave: log durable");
    for session in sessions {
        failpoint("leave: a session leaves");
        managers.leave(session.session);
    }
    failpoint("leave: sessions gone");
    managers.leave(last.session);
    forced
}

fn force(managers: &Managers, txn: &TxnSession) -> Result<()> {
    let tail = managers.log.tail();
    if tail > managers.log.durable() && !managers.log.is_poisoned() {
        managers.log.force(txn.session(), tail.minus(8))?;
    }
    Ok(())
}

/// Closes the environment if this is the last process. Waits for no process: no other living process is attached.
fn close_if_last(door: &Door<'_>, managers: &Managers, platform: &Platform) -> Result<()> {
    // An attachment lock that a child of a dead process still holds counts as a process, too. If this process removed
    // the region, the next opening would find a locked attachment lock and no region. It could not tell whether a
    // living process uses shared memory that the opening cannot see.
    if door.others(|_| false)? || managers.log.is_poisoned() {
        return Ok(());
    }
    failpoint("leave: last process");
    managers.processes.take_time();
    // Dead processes may have left sessions to repair, and no other process is attached to repair them.
    if let Err(error) = managers.reap() {
        // The transactions of that session stay unfinished, and the next opening ends them.
        tracing::warn!(%error, "a dead session could not be repaired");
    }
    let txn = managers.join()?;
    failpoint("leave: joined to leave");
    force(managers, &txn)?;
    // A transaction is left if another thread still holds it, or if it could not be undone. The next opening ends it.
    if !managers.transactions().is_empty() {
        managers.leave(txn);
        return Ok(());
    }
    managers.close(&txn)?;
    managers.leave(txn);
    failpoint("leave: closed, region not removed");
    platform.remove_region(&managers.region)
}

#[cfg(test)]
mod tests {
    use crate::Env;

    #[test]
    fn an_opening_succeeds_while_the_last_process_leaves() {
        let dir = tempfile::tempdir().unwrap();
        let come_and_go = &|name: &str| {
            for round in 0..150_u32 {
                let env = Env::open_or_create(dir.path()).unwrap();
                let visits = env.btree(name).unwrap();
                env.run(|txn| visits.put(txn, &round.to_be_bytes(), b"was here")).unwrap();
            }
        };
        std::thread::scope(|scope| {
            for name in ["one", "two"] {
                scope.spawn(move || come_and_go(name));
            }
        });
    }
}

//! Leaving an environment in good order.
//!
//! First the log is written and the sessions leave, which may have to wait for others; then, at the door, nothing waits but
//! for the disk: who comes through it next finds either others at work and their shared memory, or neither. If somebody
//! stands still at the door, one leaves past it: the memory stays then, as after a death, but nothing in it is left to be
//! repaired.
//!
//! Leaving never hangs. If what it waits for is not given in a moment, because who has it is stopped, the sessions are left as
//! by one who died; whoever comes to repair them does. What they had committed is in the memory, which stays with the other.
//!
//! If we die here: everyone died, and the next to open repairs or restarts.

use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::time::Duration;

use libtp_process::{Call, Late};
use libtp_txn::{Managers, TxnSession};
use rio::{failpoint, planted};

use crate::judge::{Door, Judge};
use crate::life::Sessions;
use crate::platform::Platform;
use crate::Result;

/// So long somebody else at the door is waited for: far longer than others come and go in.
const PATIENCE: Duration = Duration::from_secs(5);

/// Leaves an environment in good order: what was committed is on disk; the last to leave takes a checkpoint, writes down
/// that the log ends here, and takes the shared memory away.
pub(crate) fn leave(managers: &Managers, judge: &Judge, platform: &Platform, sessions: Sessions) -> Result<()> {
    if managers.processes.only_looks() {
        return Ok(());
    }
    let _early = if planted("libtp: sessions leave at the door") { Some(judge.door()?) } else { None };
    let ended = end(managers, sessions);
    let Some(door) = judge.door_within(PATIENCE)? else {
        tracing::warn!(
            environment = %platform.path.display(),
            at_the_door = judge.describe_at_the_door(),
            "the environment is left past its door, where somebody stands still"
        );
        managers.drop_spares();
        judge.leave_seat();
        return ended;
    };
    if managers.region.is_broken() {
        // The next to use the environment makes its memory anew; our sessions mean nothing there.
        return door.rise();
    }
    failpoint("leave: at the door");
    let left = ended.and_then(|()| close_if_last(&door, managers, platform));
    if !planted("libtp: sessions for repairs outlive the seat") {
        managers.drop_spares();
    }
    failpoint("leave: left, still seated");
    door.rise()?;
    failpoint("leave: risen, door held");
    left
}

/// What was committed goes to the disk, and our sessions leave. Not at the door: whoever has a latch that this takes may be
/// stopped. Then they are left as they are.
fn end(managers: &Managers, sessions: Sessions) -> Result<()> {
    if managers.region.is_broken() {
        return Ok(());
    }
    // Anew: our own threads may have had to write much.
    managers.processes.begin_to_leave();
    let call = Call::begin();
    let ended = catch_unwind(AssertUnwindSafe(|| end_sessions(managers, sessions)));
    drop(call);
    ended.unwrap_or_else(|payload| {
        if !payload.is::<Late>() {
            resume_unwind(payload);
        }
        tracing::warn!("another process, which is stopped or very slow, has what leaving needs: what is left of this one is repaired as if it had died");
        Ok(())
    })
}

fn end_sessions(managers: &Managers, mut sessions: Sessions) -> Result<()> {
    // Who has none has nothing to end.
    let Some(last) = sessions.pop() else { return Ok(()) };
    // A dead one does nothing any more: others repair what it left.
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

fn force(managers: &Managers, who: &TxnSession) -> Result<()> {
    let tail = managers.log.tail();
    if tail > managers.log.durable() && !managers.log.is_poisoned() {
        managers.log.force(who.session(), tail.minus(8))?;
    }
    Ok(())
}

/// The last one leaves nothing in memory. Nobody lives here whom it could have to wait for.
fn close_if_last(door: &Door<'_>, managers: &Managers, platform: &Platform) -> Result<()> {
    // A ghost counts: without the region nobody could tell it from others whose memory cannot be seen.
    if door.others(|_| false)? || managers.log.is_poisoned() {
        return Ok(());
    }
    failpoint("leave: the last one");
    managers.processes.take_time();
    // Whoever died beside us left work that nobody else may be there to do.
    if let Err(error) = managers.reap() {
        // Its transactions are then unfinished, and the next to open ends them.
        tracing::warn!(%error, "a dead session could not be repaired");
    }
    let who = managers.join()?;
    failpoint("leave: joined to leave");
    force(managers, &who)?;
    // A transaction that another thread still holds, or one that could not be undone: the next open ends it.
    if !managers.transactions().is_empty() {
        managers.leave(who);
        return Ok(());
    }
    managers.close(&who)?;
    managers.leave(who);
    failpoint("leave: closed, region there");
    platform.remove_region(&managers.region)
}

#[cfg(test)]
mod tests {
    use crate::Env;

    #[test]
    fn who_opens_while_the_last_one_leaves_finds_all_of_it_or_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let come_and_go = &|name: &str| {
            for round in 0..150_u32 {
                let env = Env::open(dir.path()).unwrap();
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

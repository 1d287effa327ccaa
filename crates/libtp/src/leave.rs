//! Leaving an environment in good order.
//!
//! At the door, like opening: who comes through it next finds either others at work and their shared memory, or neither.
//!
//! If we die here: everyone died, and the next to open repairs or restarts.

use libtp_txn::Managers;
use rio::{failpoint, planted};

use crate::judge::{Door, Judge};
use crate::life::Sessions;
use crate::platform::Platform;
use crate::Result;

/// Leaves an environment in good order: what was committed is on disk; the last to leave takes a checkpoint, writes down
/// that the log ends here, and takes the shared memory away.
pub(crate) fn leave(managers: &Managers, judge: &Judge, platform: &Platform, sessions: Sessions) -> Result<()> {
    let door = judge.door()?;
    if managers.region.is_broken() {
        // The next to use the environment makes its memory anew; our sessions mean nothing there.
        return door.rise();
    }
    failpoint("leave: at the door");
    let left = leave_through(&door, managers, platform, sessions);
    if !planted("libtp: sessions for repairs outlive the seat") {
        managers.drop_spares();
    }
    failpoint("leave: left, still seated");
    door.rise()?;
    failpoint("leave: risen, door held");
    left
}

fn leave_through(door: &Door<'_>, managers: &Managers, platform: &Platform, sessions: Sessions) -> Result<()> {
    if sessions.is_empty() && door.others(|_| false)? {
        // We only looked, or what we did is others' to end. Without a latch: a stopped process may hold any.
        return Ok(());
    }
    for session in sessions {
        failpoint("leave: a session leaves");
        managers.leave(session.session);
    }
    if managers.log.is_poisoned() {
        return Ok(());
    }
    // Whoever died beside us left work that nobody else may be there to do.
    failpoint("leave: sessions gone");
    if let Err(error) = managers.reap() {
        // Its transactions are then unfinished, and the next to open ends them.
        tracing::warn!(%error, "a dead session could not be repaired");
    }
    let who = managers.join()?;
    failpoint("leave: joined to leave");
    let tail = managers.log.tail();
    if tail > managers.log.durable() {
        managers.log.force(who.session(), tail.minus(8))?;
    }
    // A transaction that another thread still holds, or one that could not be undone: the next open ends it.
    failpoint("leave: log durable");
    let unfinished = !managers.transactions().is_empty();
    // A ghost counts: without the region nobody could tell it from others whose memory cannot be seen.
    if door.others(|_| false)? || unfinished {
        managers.leave(who);
        return Ok(());
    }
    failpoint("leave: the last one");
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

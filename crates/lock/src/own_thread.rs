//! Refusing a wait that only this thread could end.
//!
//! Not in the paper. A thread may have several transactions open. One of them may wait, directly or through other
//! threads' transactions, for a lock that another of them holds. Then no search for deadlocks finds a circle: the
//! holder waits for nothing, but its thread cannot continue it. So a locker that has waited long follows the waits,
//! beginning with its own wait, and gives up if they lead to a transaction of its own thread.
//!
//! A transaction may have been moved to another thread that has not used it yet, and then the check would wrongly count
//! it as a transaction of this thread. So a locker makes the check only after a long wait.

use std::collections::HashSet;
use std::time::Duration;

use libtp_process::Session;
use rio::planted;

use crate::{open_here, LockManager, LockerId};

/// A locker that has waited this long checks whether it waits for its own thread.
pub(crate) const OWN_THREAD_AFTER: Duration = Duration::from_secs(1);

impl LockManager {
    /// Returns a transaction of this thread that the locker waits for, directly or not.
    #[cold]
    pub(crate) fn own_thread_in_the_way(&self, session: &Session, locker: u32) -> Option<LockerId> {
        // Under a test's scheduler, the check would take all threads for one thread.
        if !open_here::has_several()
            || rio::schedule::is_scheduled()
            || planted("lock: a wait for another transaction of the same thread is allowed")
        {
            return None;
        }
        let mut met = HashSet::from([locker]);
        let mut to_follow = vec![locker];
        while let Some(waiter) = to_follow.pop() {
            let Some(seen) = self.seen_wait(session, waiter) else { continue };
            for holder in seen.blockers {
                if holder != locker && open_here::is_here(self, holder, self.table.locker(holder).birth.load()) {
                    return Some(LockerId(holder));
                }
                if met.insert(holder) {
                    to_follow.push(holder);
                }
            }
        }
        None
    }
}

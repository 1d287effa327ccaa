//! Refusing a wait that this thread alone could end.
//!
//! Not in the paper. A thread may have several transactions open. When one waits, directly or through transactions of others, for a
//! lock that another of the same thread holds, no search for deadlocks finds a circle: the other waits for nothing, and yet it does not go
//! on. So whoever has waited for long follows the waits from its own on, and gives up where they lead to a transaction of its own thread.
//!
//! A transaction may be on its way to another thread, where nobody has used it yet. So the wait goes on for a time first.

use std::collections::HashSet;
use std::time::Duration;

use libtp_process::Session;
use rio::planted;

use crate::{open_here, LockManager, LockerId};

/// Who has waited so long asks whether it waits for its own thread.
pub(crate) const OWN_THREAD_AFTER: Duration = Duration::from_secs(1);

impl LockManager {
    /// A transaction of this thread that the locker waits for, directly or not.
    #[cold]
    pub(crate) fn own_thread_in_the_way(&self, session: &Session, locker: u32) -> Option<LockerId> {
        // Threads of a test's scheduler are one thread here.
        if !open_here::has_several() || rio::schedule::is_scheduled() || planted("lock: a thread waits for itself") {
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

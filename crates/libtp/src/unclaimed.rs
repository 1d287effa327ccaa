//! Transactions that were passed on and that nobody takes over: ended after a time, by any process that has such a limit.
//!
//! Not in the paper. How long one waits is not written in the shared memory: each process that looks counts from when it saw the offer
//! first. So one that was just opened waits its full time, and who takes the transaction over meanwhile has it.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use libtp_txn::{Managers, Offer};

use crate::Result;

/// What one process has seen of them.
pub(crate) struct Unclaimed {
    limit: Duration,
    since: HashMap<Offer, Instant>,
}

impl Unclaimed {
    pub(crate) fn new(limit: Duration) -> Unclaimed {
        Unclaimed { limit, since: HashMap::new() }
    }

    /// How often to look.
    pub(crate) fn nap(&self) -> Duration {
        (self.limit / 4).clamp(Duration::from_millis(5), Duration::from_secs(1))
    }

    /// Ends those that have waited too long.
    ///
    /// # Errors
    /// What taking one over or undoing it can fail with.
    pub(crate) fn look(&mut self, managers: &Managers) -> Result<()> {
        let (offers, now) = (managers.offers(), Instant::now());
        self.since.retain(|offer, _| offers.contains(offer));
        for offer in offers {
            let since = *self.since.entry(offer).or_insert(now);
            if now.duration_since(since) >= self.limit && managers.abort_offered(offer)? {
                tracing::warn!(
                    txn = offer.txn.raw(),
                    "a transaction that was passed on was taken over by nobody, and is undone"
                );
            }
        }
        Ok(())
    }
}

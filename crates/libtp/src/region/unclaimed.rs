//! Aborts transactions that were passed on and that no session takes over within a time limit. Every process that has
//! set such a limit does this.
//!
//! Not in the paper. The shared memory does not record how long a transaction has waited: each process counts from when
//! it first saw the offer. So a process that just started grants the full time, and meanwhile the transaction can be
//! taken over.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use libtp_txn::{Managers, Offer};

use crate::Result;

/// One process's record of the transactions that wait to be taken over.
pub(crate) struct Unclaimed {
    limit: Duration,
    since: HashMap<Offer, Instant>,
}

impl Unclaimed {
    pub(crate) fn new(limit: Duration) -> Unclaimed {
        Unclaimed { limit, since: HashMap::new() }
    }

    /// Returns the pause between two looks.
    pub(crate) fn nap(&self) -> Duration {
        (self.limit / 4).clamp(Duration::from_millis(5), Duration::from_secs(1))
    }

    /// Aborts the transactions that have waited too long.
    ///
    /// # Errors
    /// The errors of taking over or undoing a transaction.
    pub(crate) fn look(&mut self, managers: &Managers) -> Result<()> {
        let (offers, now) = (managers.offers(), Instant::now());
        self.since.retain(|offer, _| offers.contains(offer));
        for offer in offers {
            let since = *self.since.entry(offer).or_insert(now);
            if now.duration_since(since) >= self.limit && managers.abort_offered(offer)? {
                tracing::warn!(txn = offer.txn.raw(), "a detached transaction was not taken over, and is undone");
            }
        }
        Ok(())
    }
}

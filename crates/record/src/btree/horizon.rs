//! The horizon: it tells which earlier versions of records a rollback or a snapshot may still need.

use std::cell::OnceCell;

use libtp_log::Lsn;
use libtp_txn::State;

use crate::locking::Access;

/// Returns a lower bound of the LSNs that the running transaction has logged.
pub(crate) fn first_own_lsn(access: &Access<'_>) -> Lsn {
    let txn = access.pages.change.txn;
    if txn.last_lsn().is_none() || txn.state() == State::Idle {
        return Lsn::new(u64::MAX);
    }
    let running = access.pages.change.managers.transactions();
    running.iter().find(|info| info.id == txn.id()).map_or(Lsn::NONE, |info| info.first_lsn)
}

/// The LSN below which no snapshot searches for replaced versions. Computed at the first use: most callers do not need
/// it.
#[derive(Default)]
pub(crate) struct Horizon(OnceCell<Lsn>);

impl Horizon {
    /// Returns whether every snapshot sees `version`. True for a ghost with LSN 0, whose insertion was undone.
    pub(crate) fn has_passed(&self, access: &Access<'_>, version: Lsn) -> bool {
        version < *self.0.get_or_init(|| access.pages.change.managers.reclaim_horizon())
    }
}

/// Returns whether no snapshot searches for the version that `version` replaced.
pub(crate) fn is_seen_by_all(access: &Access<'_>, version: Lsn) -> bool {
    Horizon::default().has_passed(access, version)
}

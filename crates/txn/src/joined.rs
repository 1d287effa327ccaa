//! The commit of a transaction that has joined segments of memory: one record decides for records and memory.
//!
//! Not in the paper (PROTOCOLS F2). The commit record names the segments. When the record is as durable as their
//! memory, and as durable as the caller asked, the segments follow the decision and empty their undo logs. Then their
//! locks are released; the locks on records were released before. A transaction that has changed only one segment needs
//! no record: the store that empties the undo log decides.
//!
//! If a session dies before the commit record is published, the transaction is not committed, and the next session that
//! joins the segments rolls back their undo logs. If the session dies after the record is published, its repair notes
//! each segment that may not know of the commit. (A restart notes these segments from the record's body.) The next
//! session that joins such a segment empties the segment's undo log.

use libtp_lock::LockName;
use libtp_log::{record_bytes, Lsn, TxnId};
use libtp_process::Session;
use rio::{failpoint, planted};

use crate::commit::Between;
use crate::slot::TxnSlot;
use crate::{Committed, Error, Managers, OpenOutcome, Result, TxnSession};

/// [`LockName::kind`] of a segment of memory.
const KIND_SEGMENT: u32 = 5;

/// Returns the name of the lock of the segment of memory with the number `segment`.
pub fn segment_lock(segment: u32) -> LockName {
    LockName { space: segment, kind: KIND_SEGMENT, hash: 0 }
}

impl TxnSlot {
    /// Returns the segments that the transaction has joined.
    pub(crate) fn segments(&self) -> Vec<u32> {
        self.segments.iter().map(|segment| segment.get()).take_while(|&segment| segment != 0).collect()
    }

    /// Clears the list of segments when the transaction is over. The first entry is cleared last: a zero there means
    /// that the list is empty.
    #[inline]
    pub(crate) fn forget_segments(&self) {
        if self.segments[0].get() != 0 {
            for segment in self.segments.iter().rev() {
                segment.publish(0);
                failpoint("joined: a segment forgotten");
            }
        }
    }
}

impl TxnSession {
    /// Notes that the running transaction has joined a segment of memory, whose lock it holds. Called before anything
    /// of the segment is changed.
    ///
    /// # Errors
    /// `TooManySegments`.
    pub fn note_segment(&self, segment: u32) -> Result<()> {
        let slots = &self.slot().segments;
        match slots.iter().find(|slot| [0, segment].contains(&slot.get())) {
            Some(slot) => {
                slot.publish(segment);
                Ok(())
            }
            None => Err(Error::TooManySegments { most: slots.len() }),
        }
    }

    /// Does as [`TxnSession::commit_now`], for a transaction that has joined segments of memory. `when_logged` is
    /// called before the segments' locks are released. It gets the LSN of the decision, and the segments then follow
    /// the decision. It gets `None` if `on_disk` is set and the decision could not be written to the disk: the segments
    /// must then ask for the decision later.
    ///
    /// # Errors
    /// `Log`. If the commit record was not written, the transaction still runs. If the record was written
    /// ([`TxnSession::commit_record`] returns it), the transaction is over, or its session has died; a crash of the
    /// machine may undo the transaction, as the error states.
    pub fn commit_joined(
        &self,
        managers: &Managers,
        on_disk: bool,
        when_logged: impl FnOnce(Option<Lsn>),
    ) -> Result<Committed> {
        let segments = self.slot().segments();
        if self.last_lsn() == Lsn::NONE && segments.len() == 1 {
            return self.commit_alone(managers, on_disk, when_logged);
        }
        let body: Vec<u8> = segments.iter().flat_map(|segment| segment.to_le_bytes()).collect();
        managers.reserve_last(self.session(), record_bytes(body.len()))?;
        let lsn = self.decide(managers, self.last_lsn(), &[&body], |between| match between {
            Between::StateAndRecord => failpoint("joined: committing, nothing logged"),
            Between::RecordAndLastCommit => failpoint("joined: logged, not the last commit"),
            Between::LastCommitAndSlot => {}
        });
        failpoint("joined: record in the slot, append noted");
        self.session().clear_append();
        failpoint("joined: logged, segments not committed");
        if on_disk {
            // The locks on records, which many sessions may want, do not wait for the disk.
            managers.locks.unlock_matching(self.session(), self.locker(), |name| {
                !segments.iter().any(|&it| name == segment_lock(it))
            });
        }
        let lasts = self.make_decision_durable(managers, on_disk, lsn);
        match lasts {
            Ok(()) => {
                self.leave_if_given_up();
                when_logged(Some(lsn));
                // The list is cleared before the locks are released: a later repair of this session must not touch a
                // segment that the next session has joined.
                self.slot().forget_segments();
            }
            Err(_) => {
                if let Err(error) = managers.leave_segments_open(self.session(), self.slot(), self.id(), lsn) {
                    // The transaction is committed, so no other end is allowed. Its session counts as dead, and the
                    // repair of that session ends the transaction.
                    self.session().mark_dead();
                    return Err(error);
                }
                when_logged(None);
            }
        }
        failpoint("joined: segments committed, locks held");
        self.release_and_end(managers, || failpoint("joined: locks released, not ended"));
        lasts.map(|()| Committed { lsn })
    }

    /// Commits a transaction that changed one segment and no record.
    fn commit_alone(
        &self,
        managers: &Managers,
        on_disk: bool,
        when_logged: impl FnOnce(Option<Lsn>),
    ) -> Result<Committed> {
        // PROTOCOLS L4. If the transaction has read any record, every commit that it read from is at or below this LSN.
        let has_read = managers.locks.count(self.locker()) > 1;
        let lsn = if has_read { managers.txns.header.last_commit.load() } else { Lsn::NONE };
        self.make_decision_durable(managers, on_disk, lsn)?;
        failpoint("joined: segment alone, not committed");
        self.leave_if_given_up();
        when_logged(Some(lsn));
        failpoint("joined: segment committed alone, locks held");
        self.release_and_end(managers, || {});
        Ok(Committed { lsn })
    }

    /// Leaves the call if the region was given up. A segment must not follow a decision that only an abandoned
    /// region has: the session that rebuilds the region may not find the decision (PROTOCOLS D13). A decision that was
    /// published before the region was given up is found, so a segment may follow it.
    fn leave_if_given_up(&self) {
        if !planted("txn: a session in a broken region commits segments") {
            self.session().leave_if_broken();
        }
    }

    /// Makes the log as durable as it has to be, before the segments follow the decision.
    fn make_decision_durable(&self, managers: &Managers, on_disk: bool, lsn: Lsn) -> Result<()> {
        if on_disk && lsn != Lsn::NONE && !planted("txn: segments commit before the commit record is durable") {
            managers.log.force_group(self.session(), lsn, managers.running_count())?;
        }
        Ok(())
    }
}

impl Managers {
    /// Notes that the segments of a slot's transaction may not know of its commit. Each segment already has its row of
    /// the table of unresolved transactions, so this call needs no room.
    ///
    /// # Errors
    /// A segment has no row, which is a broken invariant, and the region cannot grow for a new row.
    pub(crate) fn leave_segments_open(&self, by: &Session, slot: &TxnSlot, txn: TxnId, lsn: Lsn) -> Result<()> {
        for segment in slot.segments() {
            self.note_open(by, OpenOutcome { segment, txn, lsn })?;
        }
        slot.forget_segments();
        Ok(())
    }
}

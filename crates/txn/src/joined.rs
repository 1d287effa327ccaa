//! The commit of a transaction that has joined segments of memory: one record decides for records and memory.
//!
//! Not in the paper (PROTOCOLS F2). The commit record names the segments. When it is as durable as their memory, and as the
//! transaction is to be, they are told, which empties their undo logs; then their locks fall, those on records have fallen
//! before. A transaction that has changed nothing but one segment needs no
//! record: the store that empties the undo log decides.
//!
//! If we die here: before the commit record is published, the transaction is not committed, and whoever joins the segments
//! next puts back what their undo logs hold. After it, who repairs us notes for each segment that it may not know (or restart
//! does, from the record's body), and who joins it next empties its undo log.

use libtp_lock::LockName;
use libtp_log::Lsn;
use rio::{failpoint, planted};

use crate::log_records::COMMIT;
use crate::slot::{State, TxnSlot};
use crate::{Committed, Error, Managers, OpenOutcome, Result, TxnSession};

/// [`LockName::kind`] of a segment of memory.
const KIND_SEGMENT: u32 = 5;

/// What the lock of a segment of memory is called, by its number.
pub fn segment_lock(segment: u32) -> LockName {
    LockName { space: segment, kind: KIND_SEGMENT, hash: 0 }
}

impl TxnSlot {
    /// The segments that the transaction has joined.
    pub(crate) fn segments(&self) -> Vec<u32> {
        self.segments.iter().map(|segment| segment.get()).take_while(|&segment| segment != 0).collect()
    }

    /// The transaction is over. The first goes last: it says whether there is anything to be forgotten.
    #[inline]
    pub(crate) fn forget_segments(&self) {
        if self.segments[0].get() != 0 {
            for segment in self.segments.iter().rev() {
                segment.publish(0);
                failpoint("joined: one more segment forgotten");
            }
        }
    }
}

impl TxnSession {
    /// Notes that the running transaction has joined a segment of memory, whose lock it holds. Before anything of it is
    /// changed.
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

    /// As [`TxnSession::commit_now`], of a transaction that has joined segments of memory. `tell` is called before the segments'
    /// locks fall: with the place of the decision in the log, to be followed; or with none, if that could not be made as
    /// durable as it has to be (`on_disk` says that it has to be on the disk), so that it has to be asked later.
    ///
    /// # Errors
    /// `Log`: before the commit record was written, and then the transaction still runs; or after it
    /// ([`TxnSession::commit_record`] says so), and then it is over, or its session has died; it may be lost with the machine,
    /// as the error says.
    pub fn commit_joined(
        &self,
        managers: &Managers,
        on_disk: bool,
        tell: impl FnOnce(Option<Lsn>),
    ) -> Result<Committed> {
        let segments = self.slot().segments();
        if self.last_lsn() == Lsn::NONE && segments.len() == 1 {
            return self.commit_alone(managers, on_disk, tell);
        }
        let body: Vec<u8> = segments.iter().flat_map(|segment| segment.to_le_bytes()).collect();
        self.reserve_commit(managers, body.len())?;
        self.slot().state.publish(State::Committing as u32);
        failpoint("joined: committing, nothing logged");
        self.begin_commit_record();
        let lsn = managers.log.log(self.session(), COMMIT, self.id(), self.last_lsn(), &[&body]);
        self.note_commit_record(lsn);
        // If we die from here on, the transaction is committed (PROTOCOLS D6).
        failpoint("joined: logged, not the last commit");
        managers.txns.header.last_commit.fetch_max(lsn);
        self.logged(lsn);
        self.remember_end(lsn);
        failpoint("joined: record in the slot, append noted");
        self.session().clear_append();
        failpoint("joined: logged, memory not told");
        if on_disk {
            // Records that many want do not wait for the disk.
            managers.locks.unlock_those(self.session(), self.locker(), |name| {
                !segments.iter().any(|&it| name == segment_lock(it))
            });
        }
        let lasts = self.make_durable(managers, on_disk, lsn);
        match lasts {
            Ok(()) => {
                self.leave_if_given_up();
                tell(Some(lsn));
                // Before the locks: whoever joins next is not to be mistaken for us by who repairs us later.
                self.slot().forget_segments();
            }
            Err(_) => {
                if let Err(error) = self.leave_segments_open(managers, lsn) {
                    // It is committed, and may not be ended otherwise: it stays as a dead session's, for who repairs that.
                    self.session().mark_dead();
                    return Err(error);
                }
                tell(None);
            }
        }
        failpoint("joined: memory told, locks held");
        managers.locks.unlock_all(self.session(), self.locker());
        failpoint("joined: locks released, not over");
        self.end(managers);
        lasts.map(|()| Committed { lsn })
    }

    /// One segment and no record was changed.
    fn commit_alone(&self, managers: &Managers, on_disk: bool, tell: impl FnOnce(Option<Lsn>)) -> Result<Committed> {
        // PROTOCOLS L4, if it has read any record: all it has read from is at or below that.
        let has_read = managers.locks.count(self.locker()) > 1;
        let lsn = if has_read { managers.txns.header.last_commit.load() } else { Lsn::NONE };
        self.make_durable(managers, on_disk, lsn)?;
        failpoint("joined: memory alone, not told");
        self.leave_if_given_up();
        tell(Some(lsn));
        failpoint("joined: memory alone told, locks held");
        managers.locks.unlock_all(self.session(), self.locker());
        self.end(managers);
        Ok(Committed { lsn })
    }

    /// Memory is told nothing of what only shared memory says that was given up before it said so: who makes that anew may not have
    /// it (PROTOCOLS D13). What was said before is found there, so who is told now is told right.
    fn leave_if_given_up(&self) {
        if !planted("txn: memory is told by memory that was given up") {
            self.session().leave_if_broken();
        }
    }

    /// Has the log as durable as it has to be before memory is told.
    fn make_durable(&self, managers: &Managers, on_disk: bool, lsn: Lsn) -> Result<()> {
        if on_disk && lsn != Lsn::NONE && !planted("txn: memory is told before the disk") {
            managers.log.force_group(self.session(), lsn, managers.running_count())?;
        }
        Ok(())
    }

    /// Notes of all segments of the transaction that they may not know of its commit. They have their rows, so it needs no room.
    ///
    /// # Errors
    /// The region cannot grow for a segment that has no row, against the rule.
    pub(crate) fn leave_segments_open(&self, managers: &Managers, lsn: Lsn) -> Result<()> {
        for segment in self.slot().segments() {
            managers.note_open(self.session(), OpenOutcome { segment, txn: self.id(), lsn })?;
        }
        self.slot().forget_segments();
        Ok(())
    }
}

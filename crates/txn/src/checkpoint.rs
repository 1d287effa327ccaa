//! Fuzzy checkpoints. They limit the length of recovery, and are taken while transactions run.
//!
//! Not in the paper (ARIES). One session at a time, of any process, is the checkpointer. It writes the dirty pages in
//! batches, and holds the shared latch of a page only while it copies the page. Then it logs and forces a record with
//! the running transactions, and writes the redo point to the control file. Log segments that are not needed any more
//! are recycled.
//!
//! Invariants
//! 1. The change of every log record below the redo point is in the data files, which are synced.
//! 2. Every transaction that is unfinished at the end of the log either is in the last checkpoint's list or has a
//!    record at or above the checkpoint's `begin_lsn`.
//!
//! For invariant 2, notes of appends are read before slots: a note is cleared after its record is in the slot, so a
//! record below `begin_lsn` is found in the note or in the slot. If the checkpointer dies: nothing refers to its work
//! until the control file is written, and that write changes only one of the file's two slots. The next checkpoint
//! starts from the beginning.

use std::collections::BTreeMap;

use libtp_log::{Lsn, TxnId, WORTH_BYTES};
use libtp_process::SessionId;
use rio::{failpoint, planted};

use crate::log_records::{Checkpoint, CheckpointEntry, CHECKPOINT};
use crate::roles::Role;
use crate::slot::State;
use crate::{Checkpointed, Managers, Result, TxnSession};

impl Managers {
    /// Takes a checkpoint. Returns `None` if another session is taking one.
    ///
    /// # Errors
    /// A page or the control file cannot be written; the previous checkpoint stays in force.
    pub fn checkpoint(&self, txn: &TxnSession) -> Result<Option<Checkpointed>> {
        self.checkpoint_keeping(txn, self.kept_by_setting())
    }

    /// Does as [`Managers::checkpoint`], and keeps the log's files from `kept` on, even files that are not needed.
    pub(crate) fn checkpoint_keeping(&self, txn: &TxnSession, kept: Lsn) -> Result<Option<Checkpointed>> {
        let Some(_role) = self.take_checkpointer_role(txn) else { return Ok(None) };
        failpoint("checkpoint: has the role");
        let done = self.checkpoint_in_role(txn, kept);
        failpoint("checkpoint: done, has the role");
        done.map(Some)
    }

    /// Returns whether a checkpoint would free enough log to be worth its work. The last checkpoint may have left much
    /// log: it keeps the log that was written while it wrote the pages.
    pub(crate) fn is_checkpoint_worth(&self) -> bool {
        let tail = self.log.tail();
        let begun = self.running_at(tail).iter().map(|entry| entry.first_lsn).min().unwrap_or(tail);
        let held = self.needed_by_snapshots().min(self.needed_by_repairs()).min(self.needed_by_copies());
        begun.min(tail).min(held) >= self.log.oldest().plus(WORTH_BYTES)
    }

    /// Takes the role of the checkpointer, unless another session has it.
    fn take_checkpointer_role(&self, txn: &TxnSession) -> Option<Role<'_>> {
        let word = &self.txns.header.checkpointer;
        let me = txn.session().id();
        let holder = word.load();
        let is_held = holder != SessionId::NONE;
        if is_held && (self.processes.is_alive(holder) || planted("txn: sessions wait for a dead checkpointer")) {
            return None;
        }
        let role = word.compare_exchange(holder, me).ok().map(|_| Role { region: &self.region, word, me })?;
        // Checked after this session has become the checkpointer: a session that rebuilds the region waits until
        // there is no checkpointer.
        txn.session().leave_if_broken();
        Some(role)
    }

    /// Frees the disk blocks of the log that the last checkpoint made unneeded. Returns false, and does nothing, if
    /// another session takes a checkpoint or makes segments.
    ///
    /// # Errors
    /// As [`libtp_log::LogManager::recycle`].
    pub(crate) fn give_back_log(&self, txn: &TxnSession) -> Result<bool> {
        // This session holds the role, so a copy that begins meanwhile can take its checkpoint only after this call.
        // After its checkpoint, the copy reads where the log begins.
        let Some(_role) = self.take_checkpointer_role(txn) else { return Ok(false) };
        let keep_from = self.log.oldest().min(self.needed_by_copies()).min(self.kept_by_setting());
        Ok(self.log.free_blocks(txn.session(), keep_from)?)
    }

    /// Returns whether the log since the last checkpoint is so long that the next one is due.
    pub fn checkpoint_due(&self) -> bool {
        let since = self.txns.header.checkpoint_lsn.load().max(self.txns.header.restart_lsn.get());
        self.log.tail().since(since) >= self.settings.checkpoint_log_bytes
    }

    /// Closes the environment: the last session that leaves calls this. Takes a checkpoint while no transaction runs,
    /// and notes in the control file that the log ends after that checkpoint.
    ///
    /// # Errors
    /// As [`Managers::checkpoint`]: the next session to open the environment restarts from the log.
    pub fn close(&self, txn: &TxnSession) -> Result<()> {
        let Some(done) = self.checkpoint(txn)? else { return Ok(()) };
        failpoint("close: checkpoint taken, log not forced");
        self.log.force(txn.session(), self.log.tail().minus(8))?;
        failpoint("close: log forced, control file not clean");
        self.write_control(txn.session(), &done, self.kept_by_setting(), true)
    }

    fn checkpoint_in_role(&self, txn: &TxnSession, kept: Lsn) -> Result<Checkpointed> {
        let session = txn.session();
        let _freeing = session.begin_freeing();
        let ignores_pages = planted("txn: checkpoints write no pages");
        if !ignores_pages {
            self.buffers.write_all(session)?;
        }
        failpoint("checkpoint: pages written");
        let begin_lsn = self.log.tail();
        let mut running = self.running_at(begin_lsn);
        if planted("txn: checkpoints omit running transactions") {
            running.clear();
        }
        // The open outcomes are read after the transactions: if a transaction has ended in between, its outcomes are
        // among the open outcomes.
        let open = match planted("txn: checkpoints omit the segments of committed transactions") {
            true => Vec::new(),
            false => self.open_outcomes(session),
        };
        let redo_point =
            self.buffers.dirty_minimum().filter(|_| !ignores_pages).map_or(begin_lsn, |dirty| dirty.min(begin_lsn));
        let next_id = self.txns.header.next_id.load();
        let oldest = running.iter().map(|entry| entry.first_lsn).min().unwrap_or(begin_lsn);
        let body = Checkpoint { begin_lsn, redo_point, next_id, running, open }.encode();
        let bytes = libtp_log::record_bytes(body.len());
        self.reserve_last(session, bytes)?;
        failpoint("checkpoint: about to log");
        let lsn = self.log.log(session, CHECKPOINT, TxnId::NONE, Lsn::NONE, &[&body]);
        failpoint("checkpoint: logged, append noted");
        session.clear_append();
        failpoint("checkpoint: logged, not forced");
        self.log.force(session, lsn)?;
        // Computed after the force: a snapshot that is taken later needs no log below the first records of the
        // transactions that run now (`snapshot.rs`).
        let restart_from = redo_point.min(oldest);
        // For a moment, a session's pin may still name the horizon of its previous snapshot. The log is not kept from
        // that horizon on, and the oldest LSN must not become lower again.
        let for_snapshots = self.needed_by_snapshots().max(self.log.oldest());
        let keep_from = restart_from.min(for_snapshots).min(self.needed_by_repairs());
        let keep_from = keep_from.min(self.needed_by_copies());
        failpoint("checkpoint: forced, control file old");
        // A session that rebuilds the region waits for this session only for a limited time. The syncs of the pages may
        // have taken longer.
        session.leave_if_broken();
        let taken = Checkpointed { lsn, redo_point, keep_from, restart_from };
        self.write_control(session, &taken, kept, false)?;
        failpoint("checkpoint: control file written, region old");
        if let Err(error) = self.buffers.forget_kept_images(redo_point) {
            tracing::warn!(%error, "the double-write file keeps images of pages that were written, until the next checkpoint");
        }
        self.txns.header.checkpoint_lsn.publish(lsn);
        self.txns.header.checkpoints.fetch_add(1);
        failpoint("checkpoint: counted, log not recycled");
        self.log.recycle(session, keep_from, kept)?;
        Ok(taken)
    }

    /// Returns the lowest LSN that a session has noted for an append: if that session is dead, its repair reads the
    /// record.
    fn needed_by_repairs(&self) -> Lsn {
        self.processes.noted_appends().map(|(lsn, _)| Lsn::new(lsn)).min().unwrap_or(Lsn::new(u64::MAX))
    }

    /// Returns the transactions that had logged something below `begin` and may be unfinished.
    fn running_at(&self, begin: Lsn) -> Vec<CheckpointEntry> {
        let mut running: BTreeMap<u64, CheckpointEntry> = BTreeMap::new();
        let mut merge = |id: TxnId, first: Lsn, last: Lsn| {
            let entry = running.entry(id.raw()).or_insert(CheckpointEntry { id, first_lsn: first, last_lsn: last });
            entry.first_lsn = entry.first_lsn.min(first);
            entry.last_lsn = entry.last_lsn.max(last);
        };
        for (lsn, id) in self.processes.noted_appends() {
            if id != 0 && lsn < begin.raw() {
                merge(TxnId::new(id), Lsn::new(lsn), Lsn::new(lsn));
            }
        }
        for (_, slot) in self.txns.running() {
            let (id, last, first) = (slot.id.get(), slot.last_lsn.load(), slot.first_lsn.get());
            let still = slot.id.get() == id && State::from_word(slot.state.load()) != State::Idle;
            if still && last != Lsn::NONE && first != Lsn::NONE {
                merge(id, first, last);
            }
        }
        running.into_values().collect()
    }
}

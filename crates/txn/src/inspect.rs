//! Reads of the structures of all managers: for tools, for checks, and for a session that rebuilds the region.

use libtp_log::Lsn;
use libtp_process::SessionId;
use rio::{planted, Extent};

use crate::slot::TxnInfo;
use crate::Managers;

impl Managers {
    /// Returns the living sessions that are about to write to files. A session that rebuilds the region waits until
    /// there is no such session (PROTOCOLS D13).
    pub fn writers(&self) -> Vec<SessionId> {
        let header = &self.txns.header;
        let changer = if planted("txn: a rebuild does not wait for the writer of the control file") {
            SessionId::NONE
        } else {
            header.changer.load()
        };
        let roles = [header.checkpointer.load(), changer, self.buffers.writer()];
        let all = roles.into_iter().chain(self.log.writers());
        all.filter(|&session| session != SessionId::NONE && self.processes.is_alive(session)).collect()
    }

    /// Checks the structures for traces of a wild store, without stopping any session (PROTOCOLS F3). Called before a
    /// repair relies on them.
    ///
    /// # Errors
    /// The damage, as half a sentence.
    pub fn check_structures(&self) -> std::result::Result<(), String> {
        self.processes.check()?;
        self.log.check_words()?;
        self.locks.check_slabs()?;
        self.buffers.check_slabs()?;
        self.txns.unresolved.check()?;
        self.txns.slots.check()
    }

    /// Returns the name of the structure that the latch at `place` guards, for messages. Takes no latch.
    pub fn latch_name(&self, place: u64) -> String {
        if let Some(page) = self.buffers.page_at(place) {
            let name = self.buffers.file_by_id(page.file()).map_or_else(|| page.file().to_string(), |info| info.name);
            return format!("page {} of {name}", page.page());
        }
        let extents = self.extents();
        let extent = extents.iter().find(|extent| extent.range.contains(&place));
        match extent.map(|extent| (extent.name, place - extent.range.start)) {
            Some(("log header", 0)) => "the log's tail".into(),
            Some(("log header", _)) => "the log's ring".into(),
            Some(("lock buckets", _)) => "a bucket of the lock table".into(),
            Some(("lock header", _)) => "the lock table's free slots".into(),
            Some(("page table buckets", _)) => "a bucket of the page table".into(),
            Some(("page table header", _)) => "the growth of the page table".into(),
            Some(("pool parts", _)) => "a list of free frames".into(),
            Some(("pool table", _)) => "the table of buffer pools".into(),
            Some(("transaction header", _)) => "the table of transactions".into(),
            Some((name, _)) => format!("the latch at {place} in the {name}"),
            None => format!("the latch at {place}"),
        }
    }

    /// Returns the places of the structures of all managers, for tests that damage them.
    #[doc(hidden)]
    pub fn extents(&self) -> Vec<Extent> {
        let mut all = self.processes.extents();
        all.extend(self.log.extents());
        all.extend(self.locks.extents());
        all.extend(self.buffers.extents());
        all.push(Extent::of("transaction header", &self.txns.header));
        all.extend(Extent::of_slab("transaction slab", "transactions", &self.txns.slots));
        all.extend(Extent::of_slab("unresolved slab", "unresolved", &self.txns.unresolved));
        all
    }

    /// Returns every running transaction.
    pub fn transactions(&self) -> Vec<TxnInfo> {
        self.txns
            .running()
            .map(|(_, slot)| TxnInfo {
                id: slot.id.get(),
                state: crate::State::from_word(slot.state.load()),
                session: slot.owner.get(),
                first_lsn: slot.first_lsn.get(),
                last_lsn: slot.last_lsn.load(),
                locker: slot.locker.get(),
                is_offered: slot.is_offered(),
            })
            .collect()
    }

    /// Returns how many transactions ended with a commit record, and how many by an abort, since the region was made.
    pub fn ended_counts(&self) -> (u64, u64) {
        let counts = self.txns.used().map(|slot| (slot.ended_count.load(), slot.aborted_count.load()));
        counts.fold((0, 0), |(commits, aborts), (more, other)| (commits + more, aborts + other))
    }

    /// Returns the session that has that locker, whether it runs a transaction or not.
    pub fn session_of_locker(&self, locker: u32) -> Option<SessionId> {
        self.txns.used().find(|slot| slot.locker.get() == locker).map(|slot| slot.owner.get())
    }

    /// Returns the record of the last checkpoint since the region was made; `Lsn::NONE` if there was no checkpoint.
    pub fn last_checkpoint(&self) -> Lsn {
        self.txns.header.checkpoint_lsn.load()
    }

    /// Returns the number of checkpoints taken since the region was made.
    pub fn checkpoint_count(&self) -> u64 {
        self.txns.header.checkpoints.load()
    }
}

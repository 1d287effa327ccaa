//! The transaction table in the region: its header, the slots, the rows of unresolved transactions, and the shortcuts.
//!
//! Paper: LIBTP 3.2.5. The header has a cache line for each group of words that sessions write together. Slots are
//! never freed: a slot without an owner is in the header's list.

use libtp_log::{Lsn, TxnId};
use libtp_process::SessionId;
use rio::{Offset, Region, Slab, SlabHeader, Word};

use crate::shortcut_words::Shortcuts;
use crate::slot::{State, TxnSlot};
use crate::Result;

rio::shared! {
    /// The transaction manager's words in the region.
    pub struct TxnHeader {
        /// Guards the free list.
        pub latch: libtp_process::Latch,
        /// First free slot.
        pub free: Word<u32>,
        /// Not zero if the table of unresolved transactions may have entries.
        pub has_unresolved: Word<u32>,
        /// The slab of slots.
        pub slots: rio::Link<SlabHeader>,
        /// The session that takes a checkpoint; zero if no session does.
        pub checkpointer: Word<SessionId>,
        /// The last checkpoint's record.
        pub checkpoint_lsn: Word<Lsn>,
        /// The checkpoint that was the last one when the region was made; if there was none, the beginning of the log.
        pub restart_lsn: Word<Lsn>,
        /// The session that changes the control file, for the tools; zero if no session does.
        pub changer: Word<SessionId>,
        /// The slab of rows of unresolved transactions.
        pub unresolved: rio::Link<SlabHeader>,
        /// The next identifier: sessions take blocks of identifiers. In a separate cache line.
        pub next_id: Word<u64>,
        /// Checkpoints taken.
        pub checkpoints: Word<u64>,
        /// Not used: the slots count the commits.
        pub commits: Word<u64>,
        /// Not used: the slots count the aborts.
        pub aborts: Word<u64>,
        /// Non-zero once the control file states that commits are answered from memory.
        pub rio: Word<u64>,
        /// The highest number of a slot that was ever used. Slots with higher numbers are in no list.
        pub used: Word<u64>,
        /// Non-zero once the control file states that relaxed commits are answered from memory.
        pub relaxed: Word<u64>,
        /// Zero, kept for later.
        pub spare_line: Word<u64>,
        /// The highest commit record that was logged (PROTOCOLS L4). In a separate cache line: every commit writes it.
        pub last_commit: Word<Lsn>,
        /// The highest commit record that was answered before it was on disk (PROTOCOLS S1).
        pub answered: Word<Lsn>,
        /// Zero, kept for later.
        pub spare_last: [Word<u64>; 6],
        /// A session that changes a record whose version is at or above this LSN may leave a shortcut to the version;
        /// `Lsn::NONE` if no snapshot is held. In a cache line that is seldom written, because every change reads it.
        pub pinned_to: Word<Lsn>,
        /// The shortcuts.
        pub shortcuts: rio::Link<Shortcuts>,
        /// The largest `keep_log` of all processes since the region was made, bytes.
        pub keep_log: Word<u64>,
        /// The largest `snapshot_log` of all processes, bytes.
        pub snapshot_log: Word<u64>,
        /// The largest `snapshot_age_millis` of all processes, in microseconds.
        pub snapshot_age: Word<u64>,
        /// Zero, kept for later.
        pub spare_shortcuts: [Word<u64>; 3],
    } size 256
}

rio::shared! {
    /// A commit that a segment of memory may not know of.
    pub struct Unresolved {
        /// The transaction.
        pub txn: Word<TxnId>,
        /// Its commit record; `Lsn::NONE` while the segment knows of all commits.
        pub lsn: Word<Lsn>,
        /// The segment's number; zero while no segment has the row.
        pub segment: Word<u32>,
        /// Zero, kept for later.
        pub spare_small: Word<u32>,
        /// Zero, kept for later.
        pub spare: Word<u64>,
    } size 32
}

/// A process's handle to the transaction table.
pub(crate) struct TxnTable {
    pub(crate) header: rio::Held<TxnHeader>,
    pub(crate) slots: Slab<TxnSlot>,
    pub(crate) unresolved: Slab<Unresolved>,
    pub(crate) shortcuts: rio::Held<Shortcuts>,
}

impl TxnTable {
    /// Returns the slots that were used at some time. A session that runs a transaction or holds a snapshot got its
    /// slot before the transaction or snapshot could be seen.
    #[inline]
    pub(crate) fn used(&self) -> impl Iterator<Item = &TxnSlot> {
        let used = self.header.used.load();
        self.slots.iter().take(usize::try_from(used).unwrap_or(usize::MAX))
    }

    pub(crate) fn init(region: &Region) -> Result<Offset<TxnHeader>> {
        let slots = Slab::<TxnSlot>::init(region, 32)?;
        let unresolved = Slab::<Unresolved>::init(region, 16)?;
        let shortcuts = region.allocate::<Shortcuts>(1)?;
        let header = region.allocate::<TxnHeader>(1)?;
        let words = region.at(header);
        words.slots.init(Some(slots));
        words.unresolved.init(Some(unresolved));
        words.shortcuts.init(Some(shortcuts));
        words.next_id.init(1);
        region.set_root(rio::RootSlot::Txn, header);
        Ok(header)
    }

    pub(crate) fn attach(region: &Region) -> TxnTable {
        let header = region.root::<TxnHeader>(rio::RootSlot::Txn).expect("init came before attach");
        let header = region.hold(header);
        let slots = header.slots.load().expect("init made the slab");
        let unresolved = header.unresolved.load().expect("init made the slab");
        let shortcuts = region.hold(header.shortcuts.load().expect("init made the shortcuts"));
        let (slots, unresolved) = (Slab::attach(region, slots), Slab::attach(region, unresolved));
        TxnTable { slots, unresolved, shortcuts, header }
    }

    /// Returns every slot that runs a transaction, with its number.
    pub(crate) fn running(&self) -> impl Iterator<Item = (u32, &TxnSlot)> {
        (1..=self.slots.capacity())
            .map(|index| (index, self.slots.at(index)))
            .filter(|(_, slot)| State::from_word(slot.state.load()) != State::Idle)
    }
}

//! A transaction's slot: its shared state.
//!
//! Paper: LIBTP 3.2.5, "a per-process transaction structure in shared memory": the last log sequence number, a state
//! (idle, running, aborting or committing), and a pointer into the lock table. A slot belongs to one session as long as
//! the session lives, and has one transaction after the other, so begin and end touch no shared list.
//!
//! The state word only informs. A transaction's last log record decides its fate (PROTOCOLS D6).

use libtp_log::{Lsn, TxnId};
use libtp_process::SessionId;
use rio::{Offset, Region, Slab, SlabHeader, Word};

use crate::shortcuts::Shortcuts;
use crate::unresolved::Unresolved;
use crate::Result;

/// The state of a transaction: the paper's four states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum State {
    /// No transaction.
    Idle = 0,
    /// Between begin and its end.
    Running = 1,
    /// Its commit record is being written.
    Committing = 2,
    /// Its changes are being undone.
    Aborting = 3,
}

impl State {
    /// Reads a stored word. An unknown word reads as running, which is the careful answer.
    pub fn from_word(word: u32) -> State {
        match word {
            0 => State::Idle,
            2 => State::Committing,
            3 => State::Aborting,
            _ => State::Running,
        }
    }
}

/// The most segments of memory that one transaction can join.
pub const SEGMENTS_MAX: usize = 14;

/// Places for ended transactions in each slot; one of them may be in the middle of being written. A snapshot that is
/// taken at this moment must not show a transaction that ended after the snapshot's place (PROTOCOLS S2).
pub(crate) const ENDED: usize = 8;

rio::shared! {
    /// A transaction that has ended with a commit record.
    pub struct Ended {
        /// Its identifier.
        pub id: Word<TxnId>,
        /// Its first log record.
        pub first_lsn: Word<Lsn>,
        /// Its commit record.
        pub end_lsn: Word<Lsn>,
    } size 24
}

rio::shared! {
    /// A transaction's slot. Written by its owner only; read by checkpoints, snapshots and tools.
    pub struct TxnSlot {
        /// The session it belongs to; zero while the slot is free.
        pub owner: Word<SessionId>,
        /// The transaction's identifier.
        pub id: Word<TxnId>,
        /// Its first log record; `Lsn::NONE` while it has written nothing.
        pub first_lsn: Word<Lsn>,
        /// Its last log record.
        pub last_lsn: Word<Lsn>,
        /// The tail of the log when it began.
        pub begin_lsn: Word<Lsn>,
        /// Log bytes its abort may need.
        pub undo_bytes: Word<u64>,
        /// How much of that the log has promised, in steps of [`UNDO_STEP`].
        pub undo_counted: Word<u64>,
        /// A [`State`].
        pub state: Word<u32>,
        /// Its locker.
        pub locker: Word<u32>,
        /// The next free slot, for the free list.
        pub next_free: Word<u32>,
        /// Marks the running transaction as offered: another session may take it over (`pass.rs`).
        pub offered: Word<u32>,
        /// The segments of memory that it has joined, by number; zeros behind the last (PROTOCOLS F2).
        pub segments: [Word<u32>; SEGMENTS_MAX],

        /// When the session's snapshot was begun, in microseconds since the machine started; zero without a snapshot.
        /// The pin has a cache line of its own: each snapshot writes its pin, and reads the ended transactions of all
        /// slots.
        pub pinned_since: Word<u64>,
        /// The snapshot's place in the log; `Lsn::NONE` while the snapshot is being taken.
        pub pinned_lsn: Word<Lsn>,
        /// The snapshot may need the log from here on.
        pub pinned_horizon: Word<Lsn>,
        /// Zero, kept for later.
        pub spare_pin: [Word<u64>; 5],

        /// Transactions that ended here with a commit record: the next is remembered at this number modulo the places.
        pub ended_count: Word<u64>,
        /// Its session copies the log from here on, which is kept; `Lsn::NONE` if it copies nothing (`kept_log.rs`).
        pub kept_from: Word<Lsn>,
        /// The session that made the offer. The offer holds as long as this session is the owner.
        pub offered_by: Word<SessionId>,
        /// Transactions that ended here by an abort, for the tools. A session that dies at the end of an abort may be
        /// counted twice.
        pub aborted_count: Word<u64>,
        /// Zero, kept for later.
        pub spare_line: [Word<u64>; 4],
        /// The transactions that ended here last.
        pub ended: [Ended; 8],
    } size 448
}

rio::shared! {
    /// The transaction manager's words in the region.
    pub struct TxnHeader {
        /// Guards the free list.
        pub latch: libtp_process::Latch,
        /// First free slot.
        pub free: Word<u32>,
        /// Not zero if the table of unresolved transactions may have entries.
        pub has_unresolved: Word<u32>,
        /// Where the slots lie.
        pub slots: rio::Link<SlabHeader>,
        /// The session that takes a checkpoint, zero if none does.
        pub checkpointer: Word<SessionId>,
        /// The last checkpoint's record.
        pub checkpoint_lsn: Word<Lsn>,
        /// The last checkpoint when the region was made, or where the log began.
        pub restart_lsn: Word<Lsn>,
        /// The session that changes the control file, for the tools; zero if none does.
        pub changer: Word<SessionId>,
        /// Where the table of unresolved transactions lies.
        pub unresolved: rio::Link<SlabHeader>,
        /// The next identifier to hand out, in blocks. On a cache line of its own.
        pub next_id: Word<u64>,
        /// Checkpoints taken.
        pub checkpoints: Word<u64>,
        /// Transactions ended, summed from the sessions now and then.
        pub commits: Word<u64>,
        /// Aborts.
        pub aborts: Word<u64>,
        /// Non-zero once the control file says that commits are answered from memory.
        pub rio: Word<u64>,
        /// Slots up to this number were used at some time. Slots above were never used, and are in no list.
        pub used: Word<u64>,
        /// Non-zero once the control file says that relaxed commits are answered.
        pub relaxed: Word<u64>,
        /// Zero, kept for later.
        pub spare_line: Word<u64>,
        /// The highest commit record there is (PROTOCOLS L4). On a cache line of its own: every commit writes it.
        pub last_commit: Word<Lsn>,
        /// The highest commit record that was answered before it was on disk (PROTOCOLS S1).
        pub answered: Word<Lsn>,
        /// Zero, kept for later.
        pub spare_last: [Word<u64>; 6],
        /// A session that changes a record whose version is at or above this may leave a shortcut to that version;
        /// `Lsn::NONE` if no snapshot is held. On a cache line that is seldom written: every change reads it.
        pub pinned_to: Word<Lsn>,
        /// Where the shortcuts lie.
        pub shortcuts: rio::Link<Shortcuts>,
        /// The largest `keep_log` of all processes since the region was made, bytes.
        pub keep_log: Word<u64>,
        /// The largest `snapshot_log` that any of them asked for, bytes.
        pub snapshot_log: Word<u64>,
        /// The largest `snapshot_age_millis` that any of them asked for, in microseconds.
        pub snapshot_age: Word<u64>,
        /// Zero, kept for later.
        pub spare_shortcuts: [Word<u64>; 3],
    } size 256
}

/// The log promises space for undo in steps of this size, so that small transactions never touch a shared word.
pub const UNDO_STEP: u64 = libtp_log::UNDO_SHARE_BYTES;

/// Identifiers handed to a session at a time.
pub const ID_BLOCK: u64 = 1024;

/// A transaction, as tools show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TxnInfo {
    /// Its identifier.
    pub id: TxnId,
    /// Its state.
    pub state: State,
    /// The session that runs it.
    pub session: SessionId,
    /// Its first log record, if it wrote any.
    pub first_lsn: Lsn,
    /// Its last log record.
    pub last_lsn: Lsn,
    /// Its locker's number.
    pub locker: u32,
    /// Whether the transaction is offered: no session works in it until one takes it over.
    pub is_offered: bool,
}

/// A process's handle to the transaction table.
pub(crate) struct TxnTable {
    pub(crate) header: rio::Held<TxnHeader>,
    pub(crate) slots: Slab<TxnSlot>,
    pub(crate) unresolved: Slab<Unresolved>,
    pub(crate) shortcuts: rio::Held<Shortcuts>,
}

impl TxnTable {
    /// Returns the slots that were used at some time. A session that runs a transaction or holds a snapshot has one of
    /// them, and had it before the transaction or snapshot could be seen.
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

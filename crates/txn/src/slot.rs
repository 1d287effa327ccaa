//! A transaction's slot: its shared state.
//!
//! Paper: LIBTP 3.2.5, "a per-process transaction structure in shared memory": the last log sequence number, a state
//! (idle, running, aborting or committing), and a pointer into the lock table. A slot belongs to one session for the
//! life of the session, and the session's transactions use it one after the other, so the beginning and the end of a
//! transaction touch no shared list.
//!
//! The state word is only information. A transaction's last log record decides its fate (PROTOCOLS D6).

use libtp_log::{Lsn, TxnId};
use libtp_process::SessionId;
use rio::Word;

/// The state of a transaction: the paper's four states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum State {
    /// No transaction.
    Idle = 0,
    /// The transaction has begun, and does not commit or abort yet.
    Running = 1,
    /// Its commit record is being written.
    Committing = 2,
    /// Its changes are being undone.
    Aborting = 3,
}

impl State {
    /// Decodes a stored word. An unknown word counts as running, which is the safe assumption.
    pub fn from_word(word: u32) -> State {
        match word {
            0 => State::Idle,
            2 => State::Committing,
            3 => State::Aborting,
            _ => State::Running,
        }
    }
}

/// The largest number of segments of memory that one transaction can join.
pub const SEGMENTS_MAX: usize = 14;

/// The number of places for ended transactions in each slot. By these places, a session that takes a snapshot
/// recognises the transactions that ended after the snapshot's place and must not be shown (PROTOCOLS S2). The session
/// may read the places while one of them is written.
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
        /// The session to which the slot belongs; zero while the slot is free.
        pub owner: Word<SessionId>,
        /// The transaction's identifier.
        pub id: Word<TxnId>,
        /// Its first log record; `Lsn::NONE` while it has written nothing.
        pub first_lsn: Word<Lsn>,
        /// Its last log record.
        pub last_lsn: Word<Lsn>,
        /// Zero, kept for later.
        pub spare: Word<u64>,
        /// Log bytes that its abort may need.
        pub undo_bytes: Word<u64>,
        /// The part of `undo_bytes` that the log has promised, in steps of [`UNDO_STEP`].
        pub undo_counted: Word<u64>,
        /// A [`State`].
        pub state: Word<u32>,
        /// Its locker.
        pub locker: Word<u32>,
        /// The next free slot, for the free list.
        pub next_free: Word<u32>,
        /// Marks the running transaction as offered: another session may take it over (`pass.rs`).
        pub offered: Word<u32>,
        /// The numbers of the segments of memory that it has joined; zeros after the last (PROTOCOLS F2).
        pub segments: [Word<u32>; SEGMENTS_MAX],

        /// When the session's snapshot was begun, in microseconds since the machine started; zero without a snapshot.
        /// The pin has a separate cache line: each snapshot writes its pin, and reads the ended transactions of all
        /// slots.
        pub pinned_since: Word<u64>,
        /// The snapshot's place in the log; `Lsn::NONE` while the snapshot is being taken.
        pub pinned_lsn: Word<Lsn>,
        /// The LSN from which on the snapshot may need the log.
        pub pinned_horizon: Word<Lsn>,
        /// Zero, kept for later.
        pub spare_pin: [Word<u64>; 5],

        /// The number of transactions that ended here with a commit record. The next one is stored in `ended` at this
        /// number modulo `ENDED`.
        pub ended_count: Word<u64>,
        /// The LSN from which on the log is kept because the session copies it; `Lsn::NONE` if the session copies
        /// nothing (`kept_log.rs`).
        pub kept_from: Word<Lsn>,
        /// The session that made the offer. The offer holds as long as this session is the owner.
        pub offered_by: Word<SessionId>,
        /// The number of transactions that ended here by an abort, for the tools. A session that dies at the end of an
        /// abort may be counted twice.
        pub aborted_count: Word<u64>,
        /// Zero, kept for later.
        pub spare_line: [Word<u64>; 4],
        /// The last transactions that ended here.
        pub ended: [Ended; 8],
    } size 448
}

/// The log promises space for undo in steps of this size, so that small transactions never touch a shared word.
pub const UNDO_STEP: u64 = libtp_log::UNDO_SHARE_BYTES;

/// The number of identifiers that a session takes at a time.
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
    /// Whether the transaction is offered: no session works in it until a session takes it over.
    pub is_offered: bool,
}

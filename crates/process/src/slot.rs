//! A session's slot in the region: the facts that other sessions may read, and the notes that its survivors need.
//!
//! Most words of a slot are written only by the slot's session, with plain stores. One cache line of the slot is read
//! by all sessions.
//!
//! Invariants
//! 1. The status word names the tenant: state, generation and attachment change together.
//! 2. A dead session's slot keeps everything until the repair is complete; only then it is free.

use std::fmt;
use std::time::SystemTime;

use rio::{bits, planted, shared, Link, SlabHeader, UndoLog, Word};

use crate::attachment_id::AttachmentId;
use crate::latch_word::OWNER_SHIFT;
use crate::notes::Note;
use crate::repair_times::RepairCounts;
use crate::rounds::ROUNDS;
use crate::NOTES;

/// The number of pins that a session can note. Further pins are only counted: if a session dies with such pins, all
/// pins of all sessions are recounted.
pub(crate) const PINS: usize = 62;
/// Bits of a slot's index in a latch word.
const INDEX_BITS: u32 = 20;
/// Bits of the generation in a latch word. All other words have the same number of bits for it.
pub(crate) const GENERATION_BITS: u32 = 26;
/// The largest number of sessions that a latch word can name, in whole chunks of the slab.
pub(crate) const SESSIONS_MAX: u32 = (1 << INDEX_BITS) - crate::FIRST_SLOTS;

/// Names a session for as long as the region lives: the slot's index (low half) and its generation (high half).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionId(u64);
bits!(SessionId: u64);

impl rio::Checkable for SessionId {
    /// An index has 20 bits, a generation 26.
    const FREE: u64 = !(((1 << GENERATION_BITS) - 1) << 32 | ((1 << INDEX_BITS) - 1));
}

impl SessionId {
    /// No session.
    pub const NONE: SessionId = SessionId(0);

    pub(crate) fn new(index: u32, generation: u32) -> SessionId {
        SessionId(u64::from(generation) << 32 | u64::from(index))
    }

    /// Returns the number, as it is stored; zero means no session.
    #[inline]
    pub fn raw(self) -> u64 {
        self.0
    }

    /// Makes a name from a stored number.
    #[inline]
    pub fn from_raw(raw: u64) -> SessionId {
        SessionId(raw)
    }

    /// Returns the slot's number, one-based; zero for no session.
    #[inline]
    pub fn index(self) -> u32 {
        u32::try_from(self.0 & u64::from(u32::MAX)).expect("masked to 32 bits")
    }

    /// Returns the number of the tenant of the slot, counted from one.
    #[inline]
    pub fn generation(self) -> u32 {
        u32::try_from(self.0 >> 32).expect("32 bits are left")
    }

    /// Returns the bits that name this session as the owner in a latch word.
    pub(crate) fn owner_bits(self) -> u64 {
        (u64::from(self.index()) << OWNER_SHIFT) | (u64::from(self.generation()) << (OWNER_SHIFT + INDEX_BITS))
    }

    /// Returns the owner that a latch word names, if any.
    pub(crate) fn from_latch_word(word: u64) -> Option<SessionId> {
        let owner = word >> OWNER_SHIFT;
        let index = owner & ((1 << INDEX_BITS) - 1);
        (owner != 0).then_some(SessionId((owner >> INDEX_BITS) << 32 | index))
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "session {}.{}", self.index(), self.generation())
    }
}

impl fmt::Debug for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SessionId({}.{})", self.index(), self.generation())
    }
}

/// The right to repair a slot's tenant: the repairer, and the tenant to be repaired. Zero: no session has it.
///
/// Bits 0-19 and 32-57 are the repairer's name; bits 20-31 and 58-63 are the low 18 bits of the tenant's generation. So
/// if a repairer stops after the burial, its right ends with the tenant, and does not block the repair of the next
/// tenant.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Claim(u64);
bits!(Claim: u64);

/// The number of bits of the tenant's generation that are next to the repairer's index.
const BESIDE_INDEX: u32 = 32 - INDEX_BITS;
const GENERATION_SHIFT: u32 = 32 + GENERATION_BITS;
const REPAIRER: u64 = ((1 << GENERATION_BITS) - 1) << 32 | ((1 << INDEX_BITS) - 1);

impl Claim {
    /// No session has the right.
    pub(crate) const NONE: Claim = Claim(0);

    /// Returns the right of `by` to repair the tenant of that generation.
    pub(crate) fn new(by: SessionId, generation: u32) -> Claim {
        let generation = u64::from(generation);
        let low = generation & ((1 << BESIDE_INDEX) - 1);
        Claim(by.0 | low << INDEX_BITS | (generation >> BESIDE_INDEX) << GENERATION_SHIFT)
    }

    /// Returns the repairer of the tenant of that generation. `NONE` if there is no repairer, or if the right is for an
    /// earlier tenant.
    pub(crate) fn of_tenant(self, generation: u32) -> SessionId {
        let by = SessionId(self.0 & REPAIRER);
        let is_this =
            self == Claim::new(by, generation) || planted("process: a repair claim outlives the slot's tenant");
        if is_this {
            by
        } else {
            SessionId::NONE
        }
    }
}

/// The state of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// The slot has no tenant: the next session that joins may take it.
    Free,
    /// The tenant has not left; its process may have died.
    Alive,
    /// The tenant is known to be dead and is not yet repaired.
    Dead,
}

/// State (bits 0-1), generation (2-27) and attachment (28-63) of a slot's tenant.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Status(u64);
bits!(Status: u64);

/// The lowest bit of the attachment in a status.
const ATTACHMENT_SHIFT: u32 = 2 + GENERATION_BITS;

impl Status {
    fn new(state: State, generation: u32, attachment: AttachmentId) -> Status {
        let state = match state {
            State::Free => 0,
            State::Alive => 1,
            State::Dead => 2,
        };
        Status(state | u64::from(generation) << 2 | attachment.raw() << ATTACHMENT_SHIFT)
    }

    pub(crate) fn state(self) -> State {
        match self.0 & 3 {
            0 => State::Free,
            1 => State::Alive,
            _ => State::Dead,
        }
    }

    pub(crate) fn generation(self) -> u32 {
        u32::try_from((self.0 >> 2) & ((1 << GENERATION_BITS) - 1)).expect("masked to 26 bits")
    }

    /// Returns the attach of the region that the tenant belongs to.
    pub(crate) fn attachment(self) -> AttachmentId {
        AttachmentId::from_raw(self.0 >> ATTACHMENT_SHIFT)
    }

    /// Returns the same tenant in another state.
    pub(crate) fn with_state(self, state: State) -> Status {
        Status::new(state, self.generation(), self.attachment())
    }

    /// Returns the next tenant, of that attach. Generations wrap around and skip zero.
    pub(crate) fn next_tenant(self, attachment: AttachmentId) -> Status {
        let generation = (self.generation() + 1) % (1 << GENERATION_BITS);
        Status::new(State::Alive, generation.max(1), attachment)
    }
}

shared! {
    /// The process manager's root in the region.
    pub(crate) struct ProcessHeader {
        /// The slab of session slots.
        pub(crate) slots: Link<SlabHeader>,
        /// Counts the tree epochs, from one (PROTOCOLS T2).
        pub(crate) tree_epoch: Word<u64>,
        /// Counts the attaches of the region.
        pub(crate) attachments: Word<u64>,
        /// The attachment that is adding slots, or zero.
        pub(crate) growing: Word<u64>,
        /// The slab of process slots.
        pub(crate) processes: Link<SlabHeader>,
        /// The session that counts the holders of a latch (`recount.rs`), or zero.
        pub(crate) freezer: Word<SessionId>,
        /// The latch whose holders the session `freezer` counts, or zero.
        pub(crate) frozen: Word<u64>,
        /// The number of dead sessions that were repaired while other sessions lived.
        pub(crate) repaired: Word<u64>,
        /// The number of times that the environment's region was rebuilt while in use, including this rebuild.
        pub(crate) rebuilt: Word<u64>,
        /// The time when the last round of each kind of background work began (`rounds.rs`), in microseconds since
        /// the machine started; zero: never.
        pub(crate) rounds: [Word<u64>; ROUNDS],
        /// The durations of repairs.
        pub(crate) times: Link<RepairCounts>,
        /// Not zero if a process has ever joined the barriers.
        pub(crate) has_joined: Word<u64>,
        /// Zero, kept for later.
        pub(crate) spare: [Word<u64>; 2],
    } size 128
}

shared! {
    /// A session's slot.
    pub(crate) struct SessionSlot {
        /// The tree epoch at which the session entered a tree operation, or zero (PROTOCOLS T2). Only the session
        /// writes this and the words down to `wait_subject`. Every read of records writes this word and the first
        /// notes, so they share no cache line with words that other sessions read.
        pub(crate) tree_epoch: Word<u64>,
        /// The latches that the session holds or wants (PROTOCOLS D7).
        pub(crate) notes: [Word<Note>; 12],
        /// The LSN that the session is about to publish, or zero (PROTOCOLS D3). A session that takes a snapshot
        /// reads it.
        pub(crate) append_lsn: Word<u64>,
        /// The transaction of the noted append.
        pub(crate) append_txn: Word<u64>,
        /// The object for which the session waits: a number that only the object's manager interprets.
        pub(crate) wait_subject: Word<u64>,

        /// The tenant; stored last when a tenant joins or leaves.
        pub(crate) status: Word<Status>,
        /// The right to repair the tenant (PROTOCOLS D5), or zero.
        pub(crate) reaper: Word<Claim>,
        /// The tenant's undo log; stays with the slot.
        pub(crate) undo: Link<UndoLog>,
        /// The word that the session sleeps on: bit 0 asleep, above it the number of wakes.
        pub(crate) sleep: Word<u32>,
        /// The kind of object for which the session waits; zero: it does not wait.
        pub(crate) wait_kind: Word<u32>,
        /// When the wait began, in microseconds since the machine started; zero: not stated.
        pub(crate) wait_since: Word<u64>,
        /// Zero, kept for later.
        pub(crate) spare: [Word<u64>; 3],

        /// The object that the session has taken from a list and not yet put into another place: a number that only the
        /// list's manager interprets. Only the session writes this and the words below.
        pub(crate) in_hand: Word<u64>,
        /// The number of pins without a note.
        pub(crate) pins_unnoted: Word<u64>,
        /// The pins that the session holds (PROTOCOLS D7).
        pub(crate) pins: [Word<Note>; 62],
    } size 704
}

const _: () = assert!(NOTES == 12, "the slot has as many notes as a session may hold latches");
const _: () = assert!(PINS == 62, "the slot has as many notes as a session usually has pins");

impl SessionSlot {
    /// Clears all words of a tenant, except its status, its undo log, and the right to repair it. If that right were
    /// released before the slot is free, a second repairer could take it and bury the next tenant.
    pub(crate) fn clear(&self) {
        self.notes.iter().chain(&self.pins).for_each(|note| note.init(Note::NONE));
        let own = [&self.append_lsn, &self.append_txn, &self.wait_subject, &self.in_hand, &self.pins_unnoted];
        for word in own {
            word.init(0);
        }
        self.wait_kind.init(0);
        self.wait_since.init(0);
        self.sleep.init(0);
        self.tree_epoch.publish(0);
    }

    /// Returns the facts that tools show about the slot's session. The session has the status `status` and belongs to
    /// the process `pid`.
    pub(crate) fn info(&self, index: u32, status: Status, alive: bool, pid: u32) -> SessionInfo {
        SessionInfo {
            id: SessionId::new(index, status.generation()),
            pid,
            alive,
            latches: self.notes.iter().filter(|note| note.get().is_held()).count(),
            noted: self.notes.iter().map(|note| note.load()).filter(|note| note.is_held()).map(Note::held).collect(),
            append_lsn: self.append_lsn.load(),
            tree_epoch: self.tree_epoch.load(),
            wait_kind: self.wait_kind.load(),
            wait_subject: self.wait_subject.load(),
            wait_since: Some(self.wait_since.load()).filter(|&since| since != 0).map(crate::wall_time),
        }
    }
}

/// The facts that the tools show about a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionInfo {
    /// The session's name.
    pub id: SessionId,
    /// The pid of its process, in that process's own pid namespace; zero: not known.
    pub pid: u32,
    /// Whether the session lives.
    pub alive: bool,
    /// The number of latches that it holds.
    pub latches: usize,
    /// The latches that it holds, or is about to take, by its notes: the place of each, and whether it is exclusive.
    pub noted: Vec<(u64, bool)>,
    /// The LSN of the record that the session is about to publish, or has published before the record's changes are
    /// complete; otherwise zero.
    pub append_lsn: u64,
    /// The tree epoch that it is in, or zero.
    pub tree_epoch: u64,
    /// The kind of object for which it waits, in its manager's numbering; zero: it does not wait.
    pub wait_kind: u32,
    /// The object for which it waits.
    pub wait_subject: u64,
    /// When the wait began, if the session stated that.
    pub wait_since: Option<SystemTime>,
}

#[cfg(test)]
mod tests {
    use super::{Claim, SessionId, State, Status, GENERATION_BITS, SESSIONS_MAX};
    use crate::attachment_id::AttachmentId;

    #[test]
    fn a_latch_word_names_a_session_with_its_whole_generation() {
        for id in [SessionId::new(1, 1), SessionId::new(SESSIONS_MAX, (1 << GENERATION_BITS) - 1)] {
            assert_eq!(SessionId::from_latch_word(id.owner_bits()), Some(id));
        }
        assert_eq!(SessionId::from_latch_word(crate::latch_word::COUNT), None);
    }

    #[test]
    fn the_right_to_repair_is_for_one_tenant() {
        let largest = (1 << GENERATION_BITS) - 1;
        for by in [SessionId::new(1, 1), SessionId::new(SESSIONS_MAX, largest)] {
            for generation in [1, 4095, 4096, largest] {
                let claim = Claim::new(by, generation);
                assert_eq!(claim.of_tenant(generation), by);
                assert_eq!(claim.of_tenant(generation - 1), SessionId::NONE);
                assert_eq!(claim.of_tenant(generation + 1), SessionId::NONE);
            }
        }
        assert_eq!(Claim::NONE.of_tenant(0), SessionId::NONE);
    }

    #[test]
    fn generations_wrap_around_and_skip_zero() {
        let [seven, largest] = [7, (1 << 36) - 1].map(AttachmentId::from_raw);
        let last = Status::new(State::Free, (1 << GENERATION_BITS) - 1, seven);
        let next = last.next_tenant(largest);
        assert_eq!((next.generation(), next.attachment(), next.state()), (1, largest, State::Alive));
    }
}

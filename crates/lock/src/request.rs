//! A request: one locker's claim on one object, granted or waiting. One cache line.
//!
//! A link has the *place* of a slot, so following the link is an addition and a bounds check. The bytes of a free slot
//! have no meaning, except for the two words of its locker's stack. So filling a free slot needs no before-images.
//!
//! If we die while filling a free slot: the slot is still free.

use rio::{bits, planted, shared, Bits, Offset, Word};

use crate::mode::Mode;
use crate::name::LockName;

/// Bytes of a slot, and the unit in which places are counted.
pub(crate) const REQUEST_BYTES: u64 = 64;
/// The end of the bytes that slots may occupy: places have 32 bits.
pub(crate) const REACH: u64 = (1 << 32) * REQUEST_BYTES;

/// The place of a request: its distance from the region's base, in slots. Zero: no request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Place(pub(crate) u32);
bits!(Place: u32);

impl Place {
    pub(crate) const NONE: Place = Place(0);

    /// Returns the place; `None` for [`Place::NONE`].
    #[inline]
    pub(crate) fn some(self) -> Option<Place> {
        (self != Place::NONE).then_some(self)
    }

    /// Returns the place of the slot at an offset, if the offset is in reach.
    pub(crate) fn of(offset: Offset<Request>) -> Option<Place> {
        debug_assert_eq!(offset.raw() % REQUEST_BYTES, 0, "chunks of slots are aligned to slots");
        u32::try_from(offset.raw() / REQUEST_BYTES).ok().map(Place)
    }

    /// Returns the offset in the region.
    #[inline]
    pub(crate) fn offset(self) -> Option<Offset<Request>> {
        Offset::from_raw(u64::from(self.0) * REQUEST_BYTES)
    }
}

/// The mode that a request holds, and the mode that it waits for.
///
/// ```text
///   31   20   19      18      17          16     15        8 7          0
///  +-------+------+-------+-----------+------+-------------+------------+
///  | check | FIRM | FRESH | CONTENDED | KEPT | mode waited | mode       |
///  |       |      |       |           |      | for, code   | held, code |
///  +-------+------+-------+-----------+------+-------------+------------+
/// ```
/// Only kept requests have bits 16 and 17 (`kept.rs`). A kept request that holds no mode is revoked. Only requests that
/// wait, or waited a moment ago, have `FRESH` and `FIRM` (`overtake.rs`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct State(u32);

impl Bits for State {
    type Raw = u32;
    #[inline]
    fn to_raw(self) -> u32 {
        self.0 | State::check(self.0)
    }
    /// # Panics
    /// If a wild store has damaged the word.
    #[inline]
    fn from_raw(raw: u32) -> State {
        let bits = raw & !State::CHECK;
        if raw & State::CHECK != State::check(bits) && !planted("lock: the check bits of requests are ignored") {
            nonsense(raw);
        }
        State(bits)
    }
}

#[cold]
#[inline(never)]
fn nonsense(raw: u32) -> ! {
    panic!("a lock request has the value {raw:#x}, which the library does not store there")
}

impl State {
    /// The bits of a checksum of the other bits. Only the stored word has them.
    const CHECK: u32 = !0 << 20;

    #[inline]
    fn check(bits: u32) -> u32 {
        bits.wrapping_mul(0x9E37_79B1) & State::CHECK
    }

    const KEPT: u32 = 1 << 16;
    const CONTENDED: u32 = 1 << 17;
    /// The request waited and is granted, and its locker has not noticed the grant yet.
    const FRESH: u32 = 1 << 18;
    /// The request waits, and is not overtaken once it is granted.
    const FIRM: u32 = 1 << 19;
    /// The request is kept, but not in force.
    pub(crate) const REVOKED: State = State(State::KEPT);

    /// The request is in no queue; the mode is in the word of the name (`thin.rs`).
    pub(crate) const THIN: State = State(0);

    #[inline]
    pub(crate) fn is_thin(self) -> bool {
        self == State::THIN
    }

    #[inline]
    pub(crate) fn granted_in(mode: Mode) -> State {
        State(mode.code())
    }

    #[inline]
    pub(crate) fn waiting_for(mode: Mode) -> State {
        State(mode.code() << 8)
    }

    #[inline]
    pub(crate) fn converting(from: Mode, to: Mode) -> State {
        State(from.code() | to.code() << 8)
    }

    #[inline]
    pub(crate) fn kept(mode: Mode) -> State {
        State(mode.code() | State::KEPT)
    }

    /// Returns the state after a wait, when the mode waited for is granted.
    #[inline]
    pub(crate) fn granted_after_wait(self, mode: Mode) -> State {
        State(mode.code() | if self.0 & State::FIRM == 0 { State::FRESH } else { 0 })
    }

    #[inline]
    pub(crate) fn is_fresh(self) -> bool {
        self.0 & State::FRESH != 0
    }

    /// Returns the state after the locker has noticed the grant.
    #[inline]
    pub(crate) fn noticed(self) -> State {
        State(self.0 & !State::FRESH)
    }

    /// Returns the state after the locker was woken and did not get the lock.
    #[inline]
    pub(crate) fn firm(self) -> State {
        State(self.0 | State::FIRM)
    }

    #[inline]
    pub(crate) fn granted(self) -> Option<Mode> {
        Mode::from_code(self.0 & 0xFF)
    }

    #[inline]
    pub(crate) fn wanted(self) -> Option<Mode> {
        Mode::from_code(self.0 >> 8 & 0xFF)
    }

    #[inline]
    pub(crate) fn waits(self) -> bool {
        self.0 & 0xFF00 != 0
    }

    /// Returns the bit of the mode granted; zero without a granted mode.
    #[inline]
    pub(crate) fn granted_bit(self) -> u32 {
        (1 << (self.0 & 0x7)) & !1
    }

    #[inline]
    pub(crate) fn is_kept(self) -> bool {
        self.0 & State::KEPT != 0
    }

    #[inline]
    pub(crate) fn is_contended(self) -> bool {
        self.0 & State::CONTENDED != 0
    }

    /// Returns whether the granted mode, of a kept request, covers the intent mode asked for.
    #[inline]
    pub(crate) fn is_intent_covering(self, asked: Mode) -> bool {
        // IS is 1 and IX 2; a kept request has no other mode.
        self.0 & 0xFF >= asked.code()
    }

    #[inline]
    pub(crate) fn contended(self) -> State {
        State(self.0 | State::CONTENDED)
    }
}

/// The head's summary of the whole queue: bits 1 to 6 the modes granted, bit 8 whether a request waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Summary(u32);
bits!(Summary: u32);

impl Summary {
    const WAITING: u32 = 1 << 8;

    #[inline]
    pub(crate) fn new(granted: u32, waiting: bool) -> Summary {
        Summary(granted | if waiting { Summary::WAITING } else { 0 })
    }

    /// Returns the granted modes, and perhaps some modes that were released.
    #[inline]
    pub(crate) fn granted(self) -> u32 {
        self.0 & !Summary::WAITING
    }

    #[inline]
    pub(crate) fn waiting(self) -> bool {
        self.0 & Summary::WAITING != 0
    }

    #[inline]
    pub(crate) fn with(self, granted: u32) -> Summary {
        Summary(self.0 | granted)
    }

    #[inline]
    pub(crate) fn with_waiting(self) -> Summary {
        Summary(self.0 | Summary::WAITING)
    }
}

shared! {
    /// A request's slot.
    pub(crate) struct Request {
        /// The object's name: `LockName::low`, then `LockName::hash`.
        pub(crate) name: [Word<u64>; 2],
        /// The name, mixed: it leads to the bucket.
        pub(crate) mixed: Word<u64>,
        /// The modes held and waited for. The locker also reads this word without the latch, as a hint: see `wait.rs`.
        pub(crate) state: Word<State>,
        /// The number of the request's locker.
        pub(crate) locker: Word<u32>,
        /// The head of the next queue of this chain; in heads only.
        pub(crate) chain_next: Word<Place>,
        /// The summary of the whole queue; in heads only.
        pub(crate) summary: Word<Summary>,
        /// The next request of the queue.
        pub(crate) queue_next: Word<Place>,
        /// The previous request of the queue.
        pub(crate) queue_prev: Word<Place>,
        /// The next slot upwards on the locker's stack, or the next slot in the list of free slots.
        pub(crate) own_next: Word<Place>,
        /// The next slot downwards on the locker's stack.
        pub(crate) own_prev: Word<Place>,
        /// Checksum of the mixed name and the locker.
        pub(crate) check: Word<u64>,
    } size 64
}

const _: () = assert!(size_of::<Request>() as u64 == REQUEST_BYTES);

impl Request {
    #[inline]
    pub(crate) fn is_for(&self, name: LockName) -> bool {
        self.name[1].get() == name.hash && self.name[0].get() == name.low()
    }

    /// Returns the object's name.
    pub(crate) fn lock_name(&self) -> LockName {
        LockName::from_words(self.name[0].get(), self.name[1].get())
    }

    /// Asserts that the name and the locker have not changed since they were stored. The caller has the latch of the
    /// request's bucket.
    ///
    /// # Panics
    /// If a wild store has damaged the request.
    #[inline]
    pub(crate) fn assert_undamaged(&self) {
        let mixed = self.mixed.get();
        let is_whole =
            mixed == self.lock_name().mixed() && self.check.get() == Request::checksum(mixed, self.locker.get());
        let is_whole = is_whole || planted("lock: the check bits of requests are ignored");
        assert!(is_whole, "a lock request has a value that the library does not store there");
    }

    /// Returns a checksum of the mixed name and the locker. The mixed name is itself a checksum of the name.
    #[inline]
    fn checksum(mixed: u64, locker: u32) -> u64 {
        !(mixed ^ u64::from(locker).wrapping_mul(0xD6E8_FEB8_6659_FD93))
    }

    /// Fills a free slot, as a request in no queue.
    #[inline]
    pub(crate) fn fill_thin(&self, name: LockName, mixed: u64, locker: u32) {
        self.name[0].init(name.low());
        self.name[1].init(name.hash);
        self.mixed.init(mixed);
        self.state.init(State::THIN);
        self.locker.init(locker);
        self.check.init(Request::checksum(mixed, locker));
    }

    /// Fills a free slot, as the only request of its queue.
    #[inline]
    pub(crate) fn fill(&self, name: LockName, mixed: u64, locker: u32, state: State) {
        self.fill_thin(name, mixed, locker);
        self.state.init(state);
        self.init_queue_words(Summary::new(state.granted_bit(), state.waits()), Place::NONE);
    }

    /// Fills the words of the queue, of which this will be the only request.
    #[inline]
    pub(crate) fn init_queue_words(&self, summary: Summary, chain_next: Place) {
        self.chain_next.init(chain_next);
        self.summary.init(summary);
        self.queue_next.init(Place::NONE);
        self.queue_prev.init(Place::NONE);
    }
}

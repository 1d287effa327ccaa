//! A segment that belongs to somebody's environment: its log decides what becomes of a transaction, and several processes
//! have the segment, one after the other.
//!
//! Paper: a departure; section 6 names distributed transactions and recoverable message queues as what free transactions are
//! good for. The undo log is the one of any segment. What is new is a header that says whose transaction it is of, and that
//! nothing here ends one by itself: [`Member::end`] and [`Member::abort`] are told, and who finds an undo log of somebody who
//! is gone asks ([`Judge`]).
//!
//! Who keeps the processes apart is not vista's business either: between [`Member::begin`] and what ends it nobody else
//! calls anything. Nor does anybody get at the [`Txn`](crate::Txn): who could, could end it.
//!
//! Invariants
//! 1. The header names the transaction before its first before-image is saved, and until its last is gone.
//! 2. What is stored stands when the undo log is empty. Before that is emptied for a decision, the header says which: so a
//!    decision that was followed and has been lost since is noticed, wherever we die.
//! 3. Before an undo log is rolled back, the header says that no decision is about to be followed: an empty undo log beside one
//!    means that it was followed.

mod mark;

use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use crate::segment::UNIT;
use crate::{Error, Options, Result, Segment};
use rio::{failpoint, planted, Held, Offset, Region, RootSlot, Survives, Undo, Word};

pub use mark::Mark;

/// The version of the header below.
const LAYOUT: u64 = rio::layout![MemberHeader];

rio::shared! {
    /// What a segment that belongs to an environment says of that.
    pub struct MemberHeader {
        /// The layout of this header.
        pub layout: Word<u64>,
        /// The environment's id.
        pub environment: [Word<u64>; 2],
        /// The environment's number for it.
        pub number: Word<u64>,
        /// Whose transaction the undo log is of; zero if of none.
        pub txn: Word<u64>,
        /// The handle that works on it, by the environment's number; zero once that leaves it to the log.
        pub holder: Word<u64>,
        /// The last decision that was followed: the log's incarnation, and the place in the log.
        pub incarnation: Word<u64>,
        /// The place in the log.
        pub lsn: Word<u64>,
        /// The transaction whose decision is about to be followed: what is below counts while it is `txn`.
        pub ending: Word<u64>,
        /// That decision: the log's incarnation.
        pub ending_incarnation: Word<u64>,
        /// The place in the log.
        pub ending_lsn: Word<u64>,
        /// The process of the handle that works on it, as the environment numbers it.
        pub process: Word<u64>,
        /// Zero, kept for later.
        pub spare: [Word<u64>; 4],
    } size 128
}

/// Which environment a segment belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Membership {
    /// The environment's id.
    pub environment: [u8; 16],
    /// The environment's number for the segment: what it gets if it is made.
    pub number: u32,
}

/// Who works on a segment, by the environment's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The handle; zero once that leaves it to the log.
    pub handle: u64,
    /// Its process.
    pub process: u64,
}

/// Where in which life of a log something was decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Decision {
    /// The log's incarnation.
    pub incarnation: u64,
    /// The place in the log.
    pub lsn: u64,
}

/// Who decides what becomes of a transaction that nobody works on any more.
pub trait Judge {
    /// What goes wrong.
    type Error: From<Error>;

    /// Where it was decided that the transaction is committed; none if it is not.
    ///
    /// # Errors
    /// It cannot be told: the segment stays as it is.
    fn committed(&self, txn: u64) -> Result<Option<Decision>, Self::Error>;
}

/// Where the header lies, if the segment belongs to an environment.
pub(crate) fn owner_of(region: &Region) -> Option<Offset<MemberHeader>> {
    region.root(RootSlot::Owner)
}

/// Says in a new segment whose it is.
pub(crate) fn found(region: &Region, member: Membership) -> Result<()> {
    let offset = region.allocate::<MemberHeader>(1)?;
    let header = region.at(offset);
    header.layout.init(LAYOUT);
    for (word, half) in header.environment.iter().zip(halves(member.environment)) {
        word.init(half);
    }
    header.number.init(u64::from(member.number));
    region.set_root(RootSlot::Owner, offset);
    Ok(())
}

/// Refuses a segment that is opened as what it is not. Nothing was stored in it.
pub(crate) fn check_owner(region: &Region, member: Option<Membership>) -> Result<()> {
    let path = || region.path().to_path_buf();
    match (owner_of(region), member) {
        (None, None) => Ok(()),
        (None, Some(_)) => Err(Error::Alone { path: path() }),
        (Some(offset), member) => {
            let damaged = |what: &str| Error::Damaged { path: path(), what: what.into() };
            let header = region.try_at(offset).ok_or_else(|| damaged("what says whose it is lies outside"))?;
            if header.layout.get() != LAYOUT {
                return Err(damaged("what says whose it is has another layout, which another version made"));
            }
            let found = header.environment.each_ref().map(Word::get);
            if member.is_some_and(|member| halves(member.environment) == found) {
                return Ok(());
            }
            Err(Error::Belongs { path: path(), environment: format!("{:016x}{:016x}", found[0], found[1]) })
        }
    }
}

fn halves(id: [u8; 16]) -> [u64; 2] {
    let (low, high) = id.split_at(8);
    [low, high].map(|half| u64::from_le_bytes(half.try_into().expect("half of sixteen bytes")))
}

/// A segment that belongs to an environment, as one of its processes has it.
pub struct Member {
    segment: Segment,
    header: Held<MemberHeader>,
    /// How long file and flat part were when this handle last looked: another may have made them longer.
    seen: (u64, u64),
    /// What this handle knows of the undo log is not what is there.
    is_stale: bool,
}

impl Options {
    /// Opens a segment as one of an environment, which makes it if it is not there. What is unfinished in it stays so until
    /// somebody asks ([`Member::settle`]). Others of the environment may have it open.
    ///
    /// # Errors
    /// As [`Options::open`]; `Belongs` if it is another environment's, `Alone` if it is nobody's.
    pub fn open_member(&self, path: &Path, member: Membership) -> Result<Member> {
        let segment = Options { member: Some(member), ..self.clone() }.open(path)?;
        let offset = owner_of(segment.region()).expect("it was looked at when it was opened");
        let header = segment.region().hold(offset);
        Ok(Member { header, seen: (0, 0), is_stale: true, segment })
    }
}

impl Member {
    /// The environment's number for it.
    pub fn number(&self) -> u64 {
        self.header.number.get()
    }

    /// The file.
    pub fn path(&self) -> &Path {
        self.segment.path()
    }

    /// What the memory survives.
    pub fn survives(&self) -> Survives {
        self.segment.survives()
    }

    /// The transaction that the undo log is of, and the handle that works on it; none of either is zero.
    pub fn unfinished(&self) -> (u64, Holder) {
        let holder = Holder { handle: self.header.holder.load(), process: self.header.process.get() };
        (self.header.txn.load(), holder)
    }

    /// The open file that holds this handle's lock on the segment, and nothing else. A child of a fork should not keep it.
    pub fn lock(&self) -> BorrowedFd<'_> {
        self.segment.kept.lock().expect("what several have is locked by an open file").as_fd()
    }

    /// The last decision that was followed.
    pub fn followed(&self) -> Decision {
        Decision { incarnation: self.header.incarnation.get(), lsn: self.header.lsn.get() }
    }

    /// Does with what somebody who is gone has left unfinished what the judge says.
    ///
    /// # Errors
    /// `Damaged`, `Memory`; those of the judge. The segment is as it was.
    pub fn settle<J: Judge>(&mut self, judge: &J) -> Result<(), J::Error> {
        self.segment.check_process()?;
        let txn = self.header.txn.load();
        if txn == 0 {
            return Ok(());
        }
        self.catch_up()?;
        let damaged = |what| Error::Damaged { path: self.path().to_path_buf(), what };
        self.segment.undo.audit().map_err(damaged)?;
        match judge.committed(txn)? {
            Some(decision) => self.follow(decision),
            None if self.segment.undo.has_saved() => self.undo_unfinished(),
            // It was followed; what became of it since is for who joins to find out.
            None if self.header.ending.load() == txn => self.ended(Some(self.about_to_follow())),
            None => self.ended(None),
        }
        Ok(())
    }

    /// Begins what the transaction does here; `holder` is the handle that does it. Nothing is unfinished.
    ///
    /// # Errors
    /// `Memory`, `Damaged`: nothing was begun.
    pub fn begin(&mut self, txn: u64, holder: Holder) -> Result<()> {
        self.segment.check_process()?;
        assert_eq!(self.header.txn.load(), 0, "what is unfinished is settled first");
        self.catch_up()?;
        self.segment.undo.settle();
        self.segment.begin().suspend();
        // Of an earlier transaction; numbers may come again.
        //
        // If the power fails here: the two words lie in lines of their own, which get to memory in any order, so `txn` may be there
        // beside an `ending` of an earlier transaction that had the same number. Then the undo log is empty, and the segment is
        // taken for one that has followed what `ending` says (`settle`). It has: a decision stays in `ending` only when it was
        // followed, and none was since, or that would be there instead. So what is noted is what was noted already, and one fence
        // for both lines is enough (`vista::members` begins with one number again and again and loses the cache).
        self.header.ending.publish(0);
        self.header.process.publish(holder.process);
        self.header.holder.publish(holder.handle);
        self.header.txn.publish(txn);
        self.make_safe();
        Ok(())
    }

    /// Declares that the transaction may change `bytes` bytes from `at` on, and returns them.
    ///
    /// # Errors
    /// As [`Txn::set_range`](crate::Txn::set_range), also in a child of the process that has the segment.
    pub fn set_range(&mut self, at: u64, bytes: usize) -> Result<&mut [u8]> {
        self.segment.save_range_suspended(at, bytes)
    }

    /// Allocates `bytes` bytes from the segment's heap.
    ///
    /// # Errors
    /// As [`Txn::malloc`](crate::Txn::malloc).
    pub fn malloc(&mut self, bytes: u64) -> Result<u64> {
        self.segment.in_suspended(|txn| txn.malloc(bytes))
    }

    /// Frees what was allocated at `at`.
    ///
    /// # Errors
    /// As [`Txn::free`](crate::Txn::free).
    pub fn free(&mut self, at: u64) -> Result<()> {
        self.segment.in_suspended(|txn| txn.free(at))
    }

    /// Sees to it that ranges can be declared ([`Stores::ensure_ranges`](crate::Stores::ensure_ranges)).
    ///
    /// # Errors
    /// As [`Txn::set_range`](crate::Txn::set_range).
    pub fn ensure_ranges(&mut self, ranges: &[(u64, usize)]) -> Result<()> {
        self.segment.in_suspended(|txn| crate::Stores::ensure_ranges(txn, ranges))
    }

    /// The segment as it is now.
    pub fn segment(&self) -> &Segment {
        &self.segment
    }

    /// Does what may fail at the end: from now on nothing is stored.
    ///
    /// # Errors
    /// `Memory` if something was freed and the undo log had to grow for it and could not.
    pub fn prepare(&mut self) -> Result<()> {
        self.segment.check_process()?;
        self.segment.release_all()?;
        // The decision is not the undo log's: once it is made, what was stored is to be in memory.
        if !planted("vista: it is decided over stores that are not in memory") {
            self.segment.undo.save_stored();
        }
        Ok(())
    }

    /// The transaction is committed: what it stored stands.
    pub fn end(&mut self, decision: Decision) {
        // A child of a fork has no transaction.
        if !self.segment.kept.is_ours() {
            return;
        }
        self.segment.release_all().expect("what may fail was done before");
        self.follow(decision);
        self.segment.close_ranges();
    }

    /// The transaction is not committed: everything is taken back.
    pub fn abort(&mut self) {
        if !self.segment.kept.is_ours() {
            return;
        }
        self.segment.take_back();
        self.ended(None);
    }

    /// Nobody here knows whether the transaction is committed: whoever comes next asks.
    pub fn leave_to_judge(&mut self) {
        // A child of a fork has no transaction.
        if !self.segment.kept.is_ours() {
            return;
        }
        self.segment.freed.clear();
        self.is_stale = true;
        // Nothing is stored here any more, whatever becomes of it.
        self.segment.close_ranges();
        self.header.holder.publish(0);
    }

    /// What the undo log covers stands, because that was decided.
    ///
    /// If we die here: while it has images, whoever settles the segment asks again. When it is empty and the judge knows of no
    /// such decision any more, the header still says which it was.
    fn follow(&self, decision: Decision) {
        let is_said = self.header.ending.get() == self.header.txn.get();
        // What has stored nothing depends on no decision.
        let is_new = decision != self.followed() && (is_said || self.segment.undo.has_saved());
        if is_new && !is_said && !planted("vista: what is followed is noted when that is over") {
            self.header.ending_incarnation.init(decision.incarnation);
            self.header.ending_lsn.init(decision.lsn);
            failpoint("member: decision known, not said");
            self.header.ending.publish(self.header.txn.get());
            self.make_safe();
        }
        failpoint("member: about to follow, undo log not empty");
        self.segment.undo.discard();
        failpoint("member: undo log empty, nothing followed");
        self.ended(is_new.then_some(decision));
    }

    /// Puts back what the undo log covers, because nothing was decided.
    ///
    /// If we die here: while it has images, it is done again; then the transaction is one that has stored nothing.
    fn undo_unfinished(&self) {
        if self.header.ending.get() != 0 && !planted("vista: what is rolled back is still about to be followed") {
            self.header.ending.publish(0);
            self.make_safe();
        }
        failpoint("member: about to be rolled back");
        self.segment.undo.roll_back();
        failpoint("member: rolled back, the transaction still named");
        self.ended(None);
    }

    fn about_to_follow(&self) -> Decision {
        Decision { incarnation: self.header.ending_incarnation.get(), lsn: self.header.ending_lsn.get() }
    }

    /// Nothing is unfinished any more.
    fn ended(&self, followed: Option<Decision>) {
        if let Some(Decision { incarnation, lsn }) = followed {
            self.header.incarnation.init(incarnation);
            failpoint("member: followed, noted in part");
            self.header.lsn.init(lsn);
            failpoint("member: followed, the transaction still named");
        }
        self.header.txn.publish(0);
        self.make_safe();
    }

    fn make_safe(&self) {
        self.segment.region().write_back_words(&*self.header);
    }

    /// Learns what other processes have made larger.
    fn catch_up(&mut self) -> Result<()> {
        let segment = &mut self.segment;
        let now = (segment.region().used(), segment.header.bytes.get());
        if self.is_stale || now != self.seen {
            let damaged = |what: &str| Error::Damaged { path: segment.path().to_path_buf(), what: what.into() };
            if now.1 > segment.bytes_max().max(segment.bytes) {
                return Err(damaged("its flat part is longer than it can be"));
            }
            let undo = segment.header.undo.load().and_then(|undo| Undo::try_open(segment.region(), undo));
            segment.undo = undo.ok_or_else(|| damaged("its undo log lies outside"))?;
            segment.undo.set_quick(segment.guarded.is_none());
            segment.bytes = now.1;
            segment.hide_metadata()?;
            segment.show_flat();
            (self.seen, self.is_stale) = (now, false);
        }
        let flat_end = (segment.from + segment.bytes).next_multiple_of(UNIT);
        segment.view.set_end(segment.heap.end().max(flat_end));
        segment.keep_room();
        Ok(())
    }
}

impl std::fmt::Debug for Member {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Member({} of its environment, {:?})", self.number(), self.segment)
    }
}

//! The page table: finds the frame of a page.
//!
//! Paper: LIBTP 3.2.2 needs a page table and does not describe it. Here it is a directory of buckets in the region that
//! grows by linear hashing, one bucket at a time (PROTOCOLS D14), with chains through the frames' slots.
//!
//! *A hit takes no latch.* [`PageTable::find`] only walks a chain with acquire loads. Slots keep their type for ever.
//! So in the worst case a concurrent change leads the walk into another chain or the free list, and a walk has a
//! bounded number of steps. The caller uses a found frame only after it has taken the slot's latch and checked the
//! page's id again. If a walk finds no page, it is repeated under the bucket's latch. So a wrong walk costs time, but
//! never returns a wrong page. For the same reason each process may remember the frame in which it last found a page
//! ([`Hints`]): a right hint saves the walk, and a wrong hint only costs time.
//!
//! Invariants
//! 1. Chains change only under the bucket's exclusive latch.
//! 2. Adding a frame to a chain is one store of a link, which is never rolled back (PROTOCOLS D2): the frame is in the
//!    chain or it is not. Removing a frame is a section, which also stores the frame's next state.
//! 3. A bucket is split in a section, under the latches of both halves. The section may be rolled back although links
//!    are read without a latch, because those readers check what they find (above).
//!
//! Latches: a bucket's latch (rank 50), after a page's latch. Only a split holds the latches of two buckets, and it
//! waits for neither.

use libtp_process::{ExclusiveGuard, Latch, PinNote, Rank, Session};
use rio::{failpoint, Extent, Held, Link, Offset, Region, Section, Slab, SlabHeader, Word};

use crate::certain_count::CertainCount;
use crate::frame::FrameSlot;
use crate::hints::Hints;
use crate::version::State;
use crate::{PageId, Result};

/// The number of bytes at the beginning of a page that are prefetched before the page is latched: the headers and the
/// first slots, which every search reads first.
const PREFETCH_BYTES: usize = 512;
/// Buckets of a new table.
const BUCKETS_FIRST: u32 = 64;
/// The largest number of steps of a walk under the latch. A longer walk follows a circle, which a wild store has made.
const CHAIN_MAX: u32 = 1 << 24;
/// The largest number of steps of a walk without latches. A longer walk has probably left its chain.
const STEPS_MAX: u32 = 16;

rio::shared! {
    /// One bucket.
    pub(crate) struct Bucket {
        /// Guards the chain, and the pages of the frames on it.
        pub(crate) latch: Latch,
        /// The first frame.
        pub(crate) head: Link<FrameSlot>,
    } size 16
}

rio::shared! {
    /// The table's shared part.
    pub(crate) struct TableHeader {
        /// The buckets.
        pub(crate) buckets: Link<SlabHeader>,
        /// The number of buckets. Changes under the latch of the bucket that is split.
        pub(crate) bucket_count: Word<u32>,
        /// The number of frames in all pool parts. The number of buckets grows with it.
        pub(crate) frame_count: Word<u32>,
        /// Held by the session that splits a bucket. No session waits for it.
        pub(crate) growth: Latch,
        /// Zero, kept for later.
        pub(crate) spare: [Word<u64>; 5],
    } size 64
}

/// One process's handle to the page table.
pub(crate) struct PageTable {
    region: Region,
    header: Held<TableHeader>,
    buckets: Slab<Bucket>,
    hints: Hints,
    /// The certain count of buckets.
    known: CertainCount,
}

impl PageTable {
    /// Makes an empty table.
    pub(crate) fn init(region: &Region) -> Result<Offset<TableHeader>> {
        let place = region.allocate::<TableHeader>(1)?;
        let slab = Slab::<Bucket>::init(region, BUCKETS_FIRST)?;
        Slab::<Bucket>::attach(region, slab).grow()?;
        let header = region.at(place);
        header.buckets.init(Some(slab));
        header.bucket_count.init(BUCKETS_FIRST);
        Ok(place)
    }

    /// Opens the table at `place`.
    pub(crate) fn attach(region: &Region, place: Offset<TableHeader>) -> PageTable {
        let header = region.hold(place);
        let slab = header.buckets.load().expect("a page table was made before it is opened");
        let buckets = Slab::attach(region, slab);
        PageTable { region: region.clone(), header, buckets, hints: Hints::new(region), known: CertainCount::default() }
    }

    /// Returns the frame that seems to hold the page. Takes no latch; the top of this file describes how the caller
    /// checks the frame. `is_far` states that the page's bytes are probably not in the processor's cache.
    #[inline(always)]
    pub(crate) fn find(&self, id: PageId, is_far: bool) -> Option<&FrameSlot> {
        let hint = self.hints.get(id);
        // The page's bytes are prefetched by the hint, before the slot with their place has been loaded. Slot and bytes
        // are in different cache lines, and each cache miss takes as long as the rest of a descent.
        if is_far {
            hint.prefetch(PREFETCH_BYTES);
        }
        // Acquire, here and in `walk`: a session that sees the page in the slot sees the earlier stores to the slot.
        match hint.value() {
            Some(slot) if slot.page.load() == id => Some(slot),
            _ => self.walk(id),
        }
    }

    /// Prefetches the frame that seems to hold the page, and the beginning of the page. This is only a hint.
    #[inline]
    pub(crate) fn bring_near(&self, id: PageId) {
        let hint = self.hints.get(id);
        hint.prefetch(PREFETCH_BYTES);
        hint.prefetch_value();
    }

    #[cold]
    #[inline(never)]
    fn walk(&self, id: PageId) -> Option<&FrameSlot> {
        let bucket = self.buckets.at(bucket_number(id, self.header.bucket_count.get()));
        let mut next = bucket.head.load();
        for _ in 0..STEPS_MAX {
            let place = next?;
            let slot = self.region.at(place);
            if slot.page.load() == id {
                self.hints.set(id, slot);
                return Some(slot);
            }
            next = slot.next.load();
        }
        None
    }

    /// Returns the frame that holds the page, pinned. Looks it up under the bucket's latch.
    pub(crate) fn find_pinned(&self, session: &Session, id: PageId) -> Option<(&FrameSlot, PinNote)> {
        loop {
            let (number, bucket) = self.bucket_of(id);
            let guard = bucket.latch.shared(session, Rank::BUCKET);
            if number != self.bucket_of(id).0 {
                continue;
            }
            let found = self.in_chain(bucket, id).map(|slot| (slot, slot.pin(session)));
            drop(guard);
            return found;
        }
    }

    /// Puts `slot` into the table. The caller has latched the slot exclusively, and the slot names page `id`. Returns
    /// false, and changes nothing, if another frame holds the page already.
    pub(crate) fn insert(&self, session: &Session, id: PageId, slot: &FrameSlot) -> bool {
        loop {
            let (number, bucket) = self.bucket_of(id);
            let guard = bucket.latch.exclusive(session, Rank::BUCKET);
            if number != self.bucket_of(id).0 {
                continue;
            }
            if self.in_chain(bucket, id).is_some() {
                return false;
            }
            slot.next.init(bucket.head.get());
            failpoint("buffer: chain about to begin with the frame");
            bucket.head.publish(Some(self.region.offset_of(slot)));
            failpoint("buffer: in the chain, bucket latched");
            drop(guard);
            return true;
        }
    }

    /// Removes `slot` from the table if the slot has at most `pins` pins. The caller has latched the slot exclusively.
    /// Returns whether the slot was removed. A removed slot is free, and the session has noted it as taken.
    pub(crate) fn remove(&self, session: &Session, slot: &FrameSlot, pins: u32) -> bool {
        let place = self.region.offset_of(slot).raw();
        self.unchain(session, slot, pins, |section| session.set_in_hand_in(section, place))
    }

    /// Removes `slot` from the table if the table has it. The caller holds the slot's latch exclusively, and a dead
    /// session has noted the slot as taken.
    pub(crate) fn remove_for_the_dead(&self, session: &Session, slot: &FrameSlot) {
        self.unchain(session, slot, u32::MAX, |_| {});
    }

    fn unchain(&self, session: &Session, slot: &FrameSlot, pins: u32, take: impl FnOnce(&mut Section<'_>)) -> bool {
        let id = slot.page.get();
        let place = self.region.offset_of(slot);
        loop {
            let (number, bucket) = self.bucket_of(id);
            let guard = bucket.latch.exclusive(session, Rank::BUCKET);
            if number != self.bucket_of(id).0 {
                continue;
            }
            if slot.pins.load() > pins {
                return false;
            }
            let link = self.link_to(bucket, place);
            let mut section = session.section();
            if let Some(link) = link {
                link.set(&mut section, slot.next.get());
            }
            failpoint("buffer: out of the chain, still names its page");
            slot.page.set(&mut section, PageId::NONE);
            slot.set_state_in(&mut section, State::Free);
            failpoint("buffer: frame free, not in hand");
            take(&mut section);
            section.close();
            failpoint("buffer: out of the table");
            drop(guard);
            return true;
        }
    }

    /// Returns the link that leads to the frame, in a chain whose latch is held; `None` if the frame is not in the
    /// chain.
    fn link_to<'t>(&'t self, bucket: &'t Bucket, place: Offset<FrameSlot>) -> Option<&'t Link<FrameSlot>> {
        let mut link = &bucket.head;
        for _ in 0..CHAIN_MAX {
            let next = link.get()?;
            if next == place {
                return Some(link);
            }
            link = &self.region.at(next).next;
        }
        goes_in_a_circle()
    }

    /// Latches the bucket of the frame's page exclusively. Returns `None` if the frame holds no page. The caller has
    /// latched the frame.
    pub(crate) fn latch_of<'t>(&'t self, session: &'t Session, slot: &FrameSlot) -> Option<ExclusiveGuard<'t>> {
        let id = slot.page.get();
        if id.is_none() {
            return None;
        }
        loop {
            let (number, bucket) = self.bucket_of(id);
            let guard = bucket.latch.exclusive(session, Rank::BUCKET);
            if number == self.bucket_of(id).0 {
                return Some(guard);
            }
        }
    }

    /// Splits a bucket if there are more frames than buckets. Never waits: if a latch is busy, a later call splits the
    /// bucket.
    pub(crate) fn grow(&self, session: &Session) {
        let count = self.header.bucket_count.load();
        if count >= self.header.frame_count.load() {
            return;
        }
        let Some(_growth) = self.header.growth.try_exclusive(session, Rank::BUCKET) else { return };
        failpoint("buffer: grows the page table");
        // Another session may have split a bucket since the check above. One more split would make more buckets than
        // frames, which [`PageTable::check`] reports as damage.
        let count = self.header.bucket_count.load();
        if count >= self.header.frame_count.load() {
            return;
        }
        if count >= self.buckets.capacity() && self.buckets.grow().is_err() {
            // The region has no room: the chains become longer, and the table still works.
            return;
        }
        // Bucket `count` (from zero) is new. Its pages come from the bucket whose number differs in the highest bit.
        let old = count - (1 << count.ilog2());
        let (from, to) = (self.buckets.at(old + 1), self.buckets.at(count + 1));
        let Some(_from) = from.latch.try_exclusive(session, Rank::BUCKET) else { return };
        let Some(_to) = to.latch.try_exclusive(session, Rank::BUCKET) else { return };
        self.split(session, from, to, count);
    }

    /// If the session dies here: the section is rolled back, the chain is whole again, and the count has its old value.
    fn split(&self, session: &Session, from: &Bucket, to: &Bucket, count: u32) {
        let mut section = session.section();
        let mut next = from.head.get();
        let (mut stays, mut moves) = (&from.head, &to.head);
        let mut passed = 0;
        while let Some(place) = next {
            passed += 1;
            if passed == CHAIN_MAX {
                goes_in_a_circle();
            }
            let slot = self.region.at(place);
            next = slot.next.get();
            failpoint("buffer: splits a chain");
            let moving = bucket_number(slot.page.get(), count + 1) == count + 1;
            let link = if moving { &mut moves } else { &mut stays };
            if link.get() != Some(place) {
                link.set(&mut section, Some(place));
            }
            *link = &slot.next;
        }
        stays.set(&mut section, None);
        moves.set(&mut section, None);
        failpoint("buffer: chain split, not counted");
        self.header.bucket_count.set(&mut section, count + 1);
        section.close();
        failpoint("buffer: bucket split");
    }

    /// Counts frames that were added to a pool part.
    pub(crate) fn add_frames(&self, count: u32) {
        self.header.frame_count.fetch_add(count);
    }

    pub(crate) fn check(&self) -> std::result::Result<(), String> {
        self.buckets.check()?;
        // The count of buckets is read first: both counts only grow, and there are never more buckets than frames.
        let count = self.known.look(|| self.header.bucket_count.load()).unwrap_or(0);
        let frames = self.header.frame_count.load();
        if count < BUCKETS_FIRST || count > self.buckets.capacity() || count > frames.max(BUCKETS_FIRST) {
            return Err(format!("the page table says that it has {count} buckets for {frames} frames"));
        }
        Ok(())
    }

    pub(crate) fn extents(&self) -> Vec<Extent> {
        let mut all = vec![Extent::of("page table header", &self.header)];
        all.extend(Extent::of_slab("page table slab", "page table buckets", &self.buckets));
        all
    }

    /// Returns the number of buckets.
    pub(crate) fn bucket_count(&self) -> u32 {
        self.header.bucket_count.load()
    }

    /// Empties every bucket and frees every latch. No other session is attached.
    pub(crate) fn clear_alone(&self) {
        self.header.growth.reset_alone();
        for number in 1..=self.bucket_count() {
            let bucket = self.buckets.at(number);
            bucket.latch.reset_alone();
            bucket.head.publish(None);
        }
    }

    /// Puts a frame into its chain again. No other session is attached.
    pub(crate) fn insert_alone(&self, slot: &FrameSlot) {
        let (_, bucket) = self.bucket_of(slot.page.get());
        slot.next.init(bucket.head.get());
        bucket.head.publish(Some(self.region.offset_of(slot)));
    }

    /// Asserts that the chains satisfy the invariants. Returns the number of frames in the chains. No session works
    /// meanwhile.
    pub(crate) fn check_at_rest(&self) -> usize {
        let mut frames = 0;
        for number in 1..=self.bucket_count() {
            let bucket = self.buckets.at(number);
            assert!(bucket.latch.owner().is_none(), "bucket {number} is latched");
            let mut next = bucket.head.load();
            while let Some(place) = next {
                let slot = self.region.at(place);
                let id = slot.page.load();
                assert!(slot.state() == State::Resident, "{id} is in the table and not in memory");
                assert!(self.bucket_of(id).0 == number, "{id} is in the chain of bucket {number}");
                frames += 1;
                next = slot.next.load();
            }
        }
        frames
    }

    #[inline]
    fn bucket_of(&self, id: PageId) -> (u32, &Bucket) {
        // If the caller has the bucket's latch, the result stays right: only a split of the bucket moves its pages to
        // another bucket, and a split takes the same latch.
        let count = self.header.bucket_count.load();
        // There is only one split at a time, and it may be rolled back. So all buckets except the last are certain.
        self.known.is_certain(count - 1);
        let number = bucket_number(id, count);
        (number, self.buckets.at(number))
    }

    /// Returns the frame of the page, in a chain whose latch is held.
    fn in_chain(&self, bucket: &Bucket, id: PageId) -> Option<&FrameSlot> {
        let mut next = bucket.head.get();
        for _ in 0..CHAIN_MAX {
            let slot = self.region.at(next?);
            if slot.page.get() == id {
                return Some(slot);
            }
            next = slot.next.get();
        }
        goes_in_a_circle()
    }
}

#[cold]
#[inline(never)]
fn goes_in_a_circle() -> ! {
    panic!("a chain of the page table has no end")
}

/// Returns the hash of a page. Neighbouring pages have distant hashes: the multiplier is 2^64 over the golden ratio.
#[inline]
#[allow(clippy::cast_possible_truncation)] // the high half is 32 bits
fn hash(id: PageId) -> u32 {
    (id.raw().wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32
}

/// Returns the bucket of a page, one-based, when there are `count` buckets.
#[inline]
fn bucket_number(id: PageId, count: u32) -> u32 {
    let hash = hash(id);
    let high_bit = 1 << count.max(1).ilog2();
    let number = hash & (2 * high_bit - 1);
    1 + if number < count { number } else { hash & (high_bit - 1) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FileId, PageNo};
    use libtp_process::ProcessManager;
    use std::sync::atomic::Ordering;

    fn id(page: u32) -> PageId {
        PageId::new(FileId::new(3), PageNo::new(page))
    }

    #[test]
    fn one_more_bucket_moves_pages_out_of_one_bucket_only() {
        for count in 64..300_u32 {
            let source = count - (1 << count.ilog2());
            for page in 0..2_000 {
                let (before, after) = (bucket_number(id(page), count), bucket_number(id(page), count + 1));
                assert!(before <= count && after <= count + 1);
                assert!(before == after || (before == source + 1 && after == count + 1), "{count}: {before}, {after}");
            }
        }
    }

    #[test]
    fn there_are_never_more_buckets_than_frames_even_if_many_threads_split() {
        let region = Region::anonymous(1 << 24).unwrap();
        ProcessManager::init(&region).unwrap();
        let place = PageTable::init(&region).unwrap();
        let table = PageTable::attach(&region, place);
        table.add_frames(BUCKETS_FIRST);
        let is_over = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let processes = ProcessManager::attach(&region, &libtp_process::Settings::default()).unwrap();
                    let session = processes.join().unwrap();
                    let table = PageTable::attach(&region, place);
                    // The thread must not stop at a number of frames, because the last buckets are made after the last
                    // frame is added. So it grows the table until a flag is set.
                    while !is_over.load(Ordering::Relaxed) {
                        table.grow(&session);
                    }
                });
            }
            for frames in BUCKETS_FIRST + 1..=30_000 {
                table.add_frames(1);
                let begun = std::time::Instant::now();
                loop {
                    let (sound, is_there) = (table.check(), table.bucket_count() >= frames);
                    let is_late = begun.elapsed() > std::time::Duration::from_secs(60);
                    if sound.is_err() || is_late {
                        // Otherwise the threads would never end, and the scope would wait for them.
                        is_over.store(true, Ordering::Relaxed);
                    }
                    sound.unwrap();
                    assert!(!is_late, "no thread makes bucket {frames}");
                    if is_there {
                        break;
                    }
                    std::hint::spin_loop();
                }
            }
            is_over.store(true, Ordering::Relaxed);
        });
    }

    #[test]
    fn neighbouring_pages_spread_over_the_buckets() {
        let mut filled = vec![0_u32; 1025];
        for page in 0..1024 {
            filled[bucket_number(id(page), 1024) as usize] += 1;
        }
        assert!(filled.iter().all(|&pages| pages <= 4), "{:?}", filled.iter().max());
    }
}

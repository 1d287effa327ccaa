//! The undo log of a session: before-images of what its open sections have changed.
//!
//! Paper: Rio Vista, section 4: save the before-image in the same memory, store, discard. Departure: the log is
//! contiguous and always begins at the start of its area, so it stays in the first-level cache.
//!
//! Layout, in words of eight bytes: records `[bytes << 40 | place][before-image, rounded up to words]`, one behind the
//! other, then a zero word. The store of a record's first word publishes it, last; one store of zero discards all from
//! there on. The log is a stack (PROTOCOLS D2): an inner section starts at the outer's end and cuts back to it.
//!
//! If we die here: whoever repairs us reads from the start to the zero word and applies the images last to first.
//! Applying them twice is the same as once.

use std::cell::Cell;
use std::sync::atomic::{compiler_fence, AtomicU64, Ordering};

use crate::{failpoint, planted, Bytes, HeldSlice, Link, Offset, Region, Result, Section, Word};

const PLACE_BITS: u32 = 40;
const PLACE_MASK: u64 = (1 << PLACE_BITS) - 1;

crate::shared! {
    /// Where a session's undo log lies.
    pub struct UndoLog {
        /// The area's length in words of eight bytes.
        pub words: Word<u64>,
        /// The area.
        pub area: Link<Word<u64>>,
        /// Zero, kept for later.
        pub spare: [Word<u64>; 6],
    } size 64
}

/// A session's handle to its undo log. One thread uses it at a time.
pub struct Undo {
    region: Region,
    log: Offset<UndoLog>,
    words: HeldSlice<Word<u64>>,
    top: Cell<usize>,
    depth: Cell<u32>,
    broken: Cell<bool>,
}

impl Undo {
    /// Makes an undo log of `bytes` in the region.
    ///
    /// # Errors
    /// The region cannot grow.
    pub fn create(region: &Region, bytes: u64) -> Result<Offset<UndoLog>> {
        let log = region.allocate::<UndoLog>(1)?;
        let words = bytes / 8;
        let area = region.allocate::<Word<u64>>(words)?;
        region.at(log).words.init(words);
        region.at(log).area.init(Some(area));
        Ok(log)
    }

    /// Opens the log at `log`. What it holds from a dead session is still there: see [`Undo::roll_back`].
    ///
    /// # Panics
    /// If nothing was created there.
    pub fn open(region: &Region, log: Offset<UndoLog>) -> Undo {
        Undo {
            region: region.clone(),
            log,
            words: Undo::area(region, log),
            top: Cell::new(0),
            depth: Cell::new(0),
            broken: Cell::new(false),
        }
    }

    fn area(region: &Region, log: Offset<UndoLog>) -> HeldSlice<Word<u64>> {
        let header = region.at(log);
        let area = header.area.load().expect("an undo log was created before it is opened");
        let count = usize::try_from(header.words.get()).expect("an undo log is far smaller than the address space");
        region.hold_slice(area, count)
    }

    /// Opens a section. If another is open it becomes a nested top action of it (PROTOCOLS D2).
    #[inline]
    pub fn section(&self) -> Section<'_> {
        self.depth.set(self.depth.get() + 1);
        Section::open(self, self.top.get(), self.depth.get())
    }

    /// Whether a section is open.
    #[inline]
    pub fn is_open(&self) -> bool {
        self.depth.get() != 0
    }

    /// Whether a section was dropped without being closed: the session is to be treated as dead (PROTOCOLS D10).
    #[inline]
    pub fn is_broken(&self) -> bool {
        self.broken.get()
    }

    /// Makes room for `bytes` of before-images and their headers. Called before the first latch (PROTOCOLS D11).
    ///
    /// # Errors
    /// The region cannot grow; the log is as it was.
    ///
    /// # Panics
    /// If a section is open.
    pub fn ensure(&mut self, bytes: u64) -> Result<()> {
        assert!(!self.is_open(), "an undo log grows only between sections");
        let words = bytes / 8 + 16;
        if words <= self.words.len() as u64 {
            return Ok(());
        }
        let words = words.next_power_of_two();
        let area = self.region.allocate::<Word<u64>>(words)?;
        let header = self.region.at(self.log);
        // If we die here: the log is empty, so an old length with a new, larger area or the reverse order never
        // loses an image; the area goes first because a survivor that reads the old, smaller length stays inside it.
        failpoint("rio: undo log made larger, not yet used");
        header.area.publish(Some(area));
        failpoint("rio: undo log moved, its length not yet");
        header.words.publish(words);
        self.words = Undo::area(&self.region, self.log);
        Ok(())
    }

    /// Whether there is anything to put back: a session died in a section, or is in one.
    pub fn has_images(&self) -> bool {
        self.words.first().is_some_and(|word| word.load() != 0)
    }

    /// Applies every before-image, last to first, and empties the log: the repair of a session that died in a section.
    /// Returns how many images there were.
    ///
    /// # Panics
    /// If the log cannot have been written by a session: nothing was put back then.
    pub fn roll_back(&self) -> usize {
        self.check();
        let count = self.roll_back_from(0);
        self.depth.set(0);
        self.broken.set(false);
        count
    }

    /// Asserts that there are only whole images of places inside the region, and a zero behind them.
    fn check(&self) {
        let mut at = 0;
        while let Some(header) = self.words.get(at).map(|word| word.load()).filter(|&header| header != 0) {
            let (place, bytes) = (header & PLACE_MASK, bytes_of(header));
            let is_whole = bytes == 4 || (bytes != 0 && bytes % 8 == 0);
            assert!(
                is_whole && place != 0 && self.region.place(place, bytes, bytes.min(8)).is_some(),
                "an undo log has an image of {bytes} bytes at {place}, which no session saved"
            );
            at += 1 + words_of(header);
        }
        assert!(at < self.words.len(), "an undo log has no end");
    }

    /// Rolls back what was saved from word `start` on.
    pub(crate) fn roll_back_from(&self, start: usize) -> usize {
        let mut records = Vec::new();
        let mut at = start;
        while at < self.words.len() {
            let header = self.words[at].load();
            if header == 0 {
                break;
            }
            records.push(at);
            at += 1 + words_of(header);
        }
        for &record in records.iter().rev() {
            failpoint("rio: between two before-images put back");
            self.apply(record);
        }
        failpoint("rio: rolled back, undo log not yet empty");
        self.cut(start);
        records.len()
    }

    fn apply(&self, record: usize) {
        let header = self.words[record].load();
        let (place, bytes) = (header & PLACE_MASK, bytes_of(header));
        let images = &self.words[record + 1..record + 1 + words_of(header)];
        if bytes == 4 {
            let word = self.region.at(Offset::<Word<u32>>::from_raw(place).expect("a before-image has a place"));
            let image = images[0].get() & u64::from(u32::MAX);
            word.init(u32::try_from(image).expect("masked to 32 bits"));
            return;
        }
        for (target, image) in self.region.undo_words(place, bytes).iter().zip(images) {
            // Relaxed: the latch that guards the bytes is given back, with release, after the roll-back.
            AtomicU64::store(target, image.get(), Ordering::Relaxed);
        }
    }

    /// Discards everything from word `start` on: the commit of a section is this one store.
    #[inline]
    pub(crate) fn cut(&self, start: usize) {
        // A kill stops between two instructions, so the compiler must not move the section's stores below this one.
        compiler_fence(Ordering::SeqCst);
        self.words[start].publish(0);
        self.top.set(start);
    }

    #[inline]
    pub(crate) fn leave(&self, depth: u32) {
        self.depth.set(depth - 1);
    }

    #[cold]
    pub(crate) fn mark_broken(&self) {
        self.broken.set(true);
    }

    /// Saves the old value of one word of `bytes` (4 or 8) at the address `address`.
    #[inline]
    pub(crate) fn save_word(&self, address: usize, bytes: usize, old: u64) {
        let place = self.region.offset_of_address(address);
        let at = self.top.get();
        let words = &self.words[at..at + 3];
        words[1].init(old);
        words[2].init(0);
        self.finish(at, header(place, bytes), 2);
    }

    /// Saves the old bytes of an area; whole words.
    #[inline]
    pub(crate) fn save_bytes(&self, place: u64, old: &[u8]) {
        if old.is_empty() || planted("rio: areas change without before-images") {
            return;
        }
        let at = self.top.get();
        let count = old.len() / 8;
        let words = &self.words[at..at + count + 2];
        let mut rest = old;
        let mut images = words[1..].iter();
        while let Some((eight, behind)) = rest.split_first_chunk::<8>() {
            let Some(image) = images.next() else { break };
            image.init(u64::from_ne_bytes(*eight));
            rest = behind;
        }
        words[count + 1].init(0);
        self.finish(at, header(place, old.len()), 1 + count);
    }

    /// Publishes a record: its image and the zero behind it are stored, now the first word.
    #[inline]
    fn finish(&self, at: usize, header: u64, words: usize) {
        compiler_fence(Ordering::SeqCst);
        self.words[at].init(header);
        // The store this image protects comes after; the compiler must not lift it above the header.
        compiler_fence(Ordering::SeqCst);
        self.top.set(at + words);
    }

    /// Bytes of before-images the log can take, headers included.
    pub fn capacity(&self) -> u64 {
        self.words.len() as u64 * 8
    }
}

#[inline]
fn header(place: u64, bytes: usize) -> u64 {
    debug_assert!(place <= PLACE_MASK, "a region is at most 2^40 bytes");
    ((bytes as u64) << PLACE_BITS) | place
}

#[inline]
fn bytes_of(header: u64) -> usize {
    usize::try_from(header >> PLACE_BITS).expect("24 bits fit usize")
}

#[inline]
fn words_of(header: u64) -> usize {
    bytes_of(header).div_ceil(8)
}

const _: () = assert!(size_of::<Offset<Bytes>>() == 8);

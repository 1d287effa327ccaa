//! The undo log of a session: before-images of the changes of its open sections.
//!
//! Paper: Rio Vista, section 4: save the before-image in the same memory, store, discard. Departure: the log is
//! contiguous and always begins at the start of its area, so the log stays in the first-level cache.
//!
//! Layout, in words of eight bytes: contiguous records `[bytes << 40 | place][before-image, rounded up to words]`, then
//! a zero word. The first word of a record is stored last, which publishes the record. A store of zero over a record's
//! first word discards the record and all later records. The log is a stack (PROTOCOLS D2): an inner section starts at
//! the end of the outer section's records, and its close truncates the log to that place.
//!
//! If the memory outlives the processor's cache, a record has its highest bit set and ends in a checksum over itself
//! and the log's sequence number. A record is written back before the stores that it covers. Those stores are written
//! back before the log's next sequence number or together with it; the write of that number is then the commit. The
//! log's `form` states whether its records have checksums. Recovery ignores partial records and records of an earlier
//! sequence.
//!
//! If we die here: the repairing session reads from the start to the zero word and applies the images, last to first.
//! Applying them twice has the same effect as once.

use std::cell::Cell;
use std::sync::atomic::{compiler_fence, AtomicU64, AtomicU8, Ordering};

use crate::bytes::{copy_image, copy_image_and_zero};
use crate::flush::WriteBack;
use crate::{failpoint, planted, HeldSlice, Link, Offset, Region, Result, Word};

mod audit;
mod chain;
mod checked;
pub(crate) mod mark;
pub(crate) mod quick;
mod room;

use audit::Form;

const PLACE_BITS: u32 = 40;
const PLACE_MASK: u64 = (1 << PLACE_BITS) - 1;
const BYTES_MASK: u64 = (1 << 23) - 1;
/// Set in a record that ends in a checksum.
const CHECKED: u64 = 1 << 63;
/// The longest before-image of one record; a longer image takes several records.
const RECORD_BYTES_MAX: usize = 4 << 20;

crate::shared! {
    /// The header of a session's undo log.
    pub struct UndoLog {
        /// The area's length in words of eight bytes.
        pub words: Word<u64>,
        /// The area.
        pub area: Link<Word<u64>>,
        /// The sequence number. Where the memory outlives the cache, a commit raises it.
        pub sequence: Word<u64>,
        /// The form of the log's records: one of `Form`'s numbers.
        pub form: Word<u64>,
        /// The place of the next log of the chain (`chain.rs`).
        pub further: Word<u64>,
        /// For a commit that a sum proves (`checked.rs`): the next sequence number with a count of records, and the
        /// sum. The third word is zero, kept for later.
        pub ended: [Word<u64>; 3],
    } size 64
}

/// A session's handle to its undo log. Only one thread at a time uses the handle.
pub struct Undo {
    /// The log's words if the quick path is on ([`Undo::set_quick`]); else empty.
    quick: HeldSlice<Word<u64>>,
    /// The beginning of the log (`quick.rs`).
    start: quick::Start,
    /// The log's end. Out of date while a Vista transaction keeps the end in its own copy.
    pub(crate) top: Cell<usize>,
    /// The number of words by which the copy of a Vista transaction is ahead of the log's end.
    ahead: Cell<usize>,
    region: Region,
    log: Offset<UndoLog>,
    words: HeldSlice<Word<u64>>,
    /// The number of words at the log's end that [`Undo::has_room`] does not offer.
    kept_back: usize,
    pub(crate) depth: Cell<u32>,
    pub(crate) broken: Cell<bool>,
    write_back: WriteBack,
    pub(crate) checked: checked::Checked,
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

    /// Opens the log at `log`. If the log's session died in a section, its images stay in the log until
    /// [`Undo::roll_back`].
    ///
    /// # Panics
    /// If no log was created there.
    pub fn open(region: &Region, log: Offset<UndoLog>) -> Undo {
        let words = Undo::area(region, log);
        let mut undo = Undo {
            quick: words.part(0..0),
            start: quick::Start::of(&words),
            top: Cell::new(0),
            ahead: Cell::new(0),
            region: region.clone(),
            log,
            words,
            kept_back: 0,
            depth: Cell::new(0),
            broken: Cell::new(false),
            write_back: region.write_back(),
            checked: checked::Checked::default(),
        };
        undo.set_quick(true);
        undo
    }

    fn area(region: &Region, log: Offset<UndoLog>) -> HeldSlice<Word<u64>> {
        let header = region.at(log);
        let area = header.area.load().expect("an undo log was created before it is opened");
        let count = usize::try_from(header.words.get()).expect("an undo log is far smaller than the address space");
        region.hold_slice(area, count)
    }

    /// Discards every image by one store: all changes since the log was last empty are kept.
    #[inline]
    pub fn discard(&self) {
        self.ahead.set(0);
        if self.write_back != WriteBack::None {
            return self.commit_checked();
        }
        self.cut(0);
    }

    /// Returns whether there are images: a session is in a section, or has died in a section.
    pub fn has_images(&self) -> bool {
        self.words.first().is_some_and(|word| word.load() != 0)
    }

    /// Applies every before-image, last to first, and empties the log. This is the repair of a session that died in a
    /// section. Returns the number of images.
    ///
    /// # Panics
    /// If no session can have written the log's content. Nothing was restored then.
    pub fn roll_back(&self) -> usize {
        self.audit().unwrap_or_else(|what| panic!("{what}"));
        let count = self.roll_back_from(0);
        self.depth.set(0);
        self.ahead.set(0);
        self.broken.set(false);
        count
    }

    /// Restores the images from word `start` on.
    pub(crate) fn roll_back_from(&self, start: usize) -> usize {
        let records = self.records(start);
        let first = self.words.get(start).map_or(0, Word::load);
        if planted("rio: before-images are discarded before they are put back") {
            self.cut(start);
        }
        for &record in records.iter().rev() {
            failpoint("rio: between two before-images put back");
            self.apply(record, if record == start { first } else { self.words[record].load() });
        }
        failpoint("rio: rolled back, undo log not empty");
        self.keep_rolled_back(start, &records);
        self.cut(start);
        records.len()
    }

    /// Restores the image that follows the word `record`. `header` is the present or earlier value of that word.
    fn apply(&self, record: usize, header: u64) {
        let (place, bytes) = (header & PLACE_MASK, bytes_of(header));
        let images = &self.words[record + 1..=record + bytes.div_ceil(8)];
        if bytes == 4 && place % 4 == 0 {
            let word = self.region.at(Offset::<Word<u32>>::from_raw(place).expect("a before-image has a place"));
            let image = images[0].get() & u64::from(u32::MAX);
            word.init(u32::try_from(image).expect("the image is masked to 32 bits"));
            return;
        }
        if (place | bytes as u64) % 8 == 0 {
            for (target, image) in self.region.undo_words(place, bytes).iter().zip(images) {
                // Relaxed: the latch that guards the bytes is released, with release order, after the rollback.
                AtomicU64::store(target, image.get(), Ordering::Relaxed);
            }
            return;
        }
        let image = images.iter().flat_map(|word| word.get().to_ne_bytes());
        for (target, old) in self.region.undo_bytes(place, bytes).iter().zip(image) {
            // Relaxed: as above.
            AtomicU8::store(target, old, Ordering::Relaxed);
        }
    }

    /// Discards everything from word `start` on: the commit of a section is this one store.
    #[inline]
    pub(crate) fn cut(&self, start: usize) {
        Undo::end_at(&self.words[start]);
        self.top.set(start);
    }

    #[inline(always)]
    fn end_at(word: &Word<u64>) {
        // A kill comes between two instructions, so the compiler must not move the section's stores below this one.
        compiler_fence(Ordering::SeqCst);
        word.publish(0);
        // The compiler must not move the stores of the next section above this store, either.
        compiler_fence(Ordering::SeqCst);
    }

    /// Saves the old value of one word of `bytes` (4 or 8) at the address `address`.
    #[inline]
    pub(crate) fn save_word(&self, address: usize, bytes: usize, old: u64) {
        let place = self.region.offset_of_address(address);
        if self.write_back != WriteBack::None {
            return self.top.set(self.save_checked(self.top.get(), place, &old.to_ne_bytes()[..bytes]));
        }
        let at = self.top.get();
        let words = &self.words[at..at + 3];
        if planted("rio: the before-image of a word is published before its bytes") {
            Undo::publish(&words[0], header(place, bytes));
        }
        words[1].init(old);
        words[2].init(0);
        Undo::publish(&words[0], header(place, bytes));
        self.top.set(at + 2);
    }

    /// Saves old bytes of any length and place.
    ///
    /// # Panics
    /// If the log has no room: see [`Undo::has_room`] and [`Undo::ensure`] (PROTOCOLS D11).
    #[inline(always)]
    pub(crate) fn save_bytes(&self, place: u64, old: &[u8]) {
        self.top.set(self.save_after(self.top.get(), place, old));
    }

    /// As `save_bytes`, for a caller that knows the log's end; returns the new end. This is the hot part of Vista: the
    /// fewer instructions and stores it has, the more transactions the processor can overlap.
    #[inline(always)]
    pub(crate) fn save_after(&self, top: usize, place: u64, old: &[u8]) -> usize {
        if planted("rio: changes of areas save no before-images") {
            return top;
        }
        match self.quick_room(top, old.len()) {
            Some(words) => top + Undo::save_in(words, place, old),
            None => self.save_parts(top, place, old),
        }
    }

    /// Saves one record without a checksum. Returns its number of words.
    #[inline(always)]
    fn save_in(words: &[Word<u64>], place: u64, old: &[u8]) -> usize {
        let [first, image @ ..] = words else { no_room() };
        if planted("undo: a record is published before its image") {
            first.init(header(place, old.len()));
        }
        // The zero is stored even if it is there already: a load would cost more.
        if planted("undo: no zero is stored after the last record") {
            copy_image(&image[..image.len() - 1], old);
        } else {
            copy_image_and_zero(image, old);
        }
        Undo::publish(first, header(place, old.len()));
        words.len() - 1
    }

    /// Returns the number of words of the records of an image of `bytes`, without checksums.
    #[inline(always)]
    fn words_to_save(bytes: usize) -> usize {
        bytes.div_ceil(8) + bytes.div_ceil(RECORD_BYTES_MAX)
    }

    /// Returns the words at which records begin, from word `start` on.
    fn records(&self, start: usize) -> Vec<usize> {
        if self.form() == Some(Form::Checked) {
            return self.checked_records(start);
        }
        let (mut records, mut at) = (Vec::new(), start);
        while let Some(header) = self.words.get(at).map(Word::load).filter(|&header| header != 0) {
            records.push(at);
            at += 1 + words_of(header);
        }
        records
    }

    /// Publishes a record by storing its first word. The record's image and the zero after it are already stored.
    #[inline(always)]
    fn publish(first: &Word<u64>, header: u64) {
        compiler_fence(Ordering::SeqCst);
        first.init(header);
        // The store that this image covers comes later; the compiler must not move it above the store of the header.
        compiler_fence(Ordering::SeqCst);
    }
}

#[cold]
#[inline(never)]
fn no_room() -> ! {
    panic!("the caller reserved room in the undo log for the before-image")
}

#[inline]
fn header(place: u64, bytes: usize) -> u64 {
    debug_assert!(place <= PLACE_MASK, "a region is at most 2^40 bytes");
    ((bytes as u64) << PLACE_BITS) + place
}

#[inline]
fn bytes_of(header: u64) -> usize {
    usize::try_from(header >> PLACE_BITS & BYTES_MASK).expect("23 bits fit usize")
}

#[inline]
fn words_of(header: u64) -> usize {
    bytes_of(header).div_ceil(8) + usize::from(header & CHECKED != 0)
}

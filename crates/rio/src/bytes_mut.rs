//! Bytes of a region that the caller may change. Each range is saved in the undo log before the caller may store to it.
//! A change with a log record can do without these before-images: if the process dies, another process makes the whole
//! change again from the record ([`BytesMut::again`]).

use std::ops::Range;
use std::sync::atomic::{compiler_fence, Ordering};

use crate::bytes::store_whole;
use crate::{failpoint, Bytes, ExclusiveHold, Offset, Region, Section, Shown, Undo};

impl Region {
    /// Returns the bytes of an area, to be changed inside a section. Every store has a before-image.
    ///
    /// # Panics
    /// If the area is out of bounds.
    #[inline]
    pub fn page_mut<'g, 'u>(
        &'g self,
        at: Offset<Bytes>,
        bytes: usize,
        hold: &'g mut impl ExclusiveHold,
        section: &'g mut Section<'u>,
    ) -> BytesMut<'g, 'u> {
        BytesMut { bytes: self.bytes_mut(at, bytes, hold), at: at.raw(), saving: Saving::All(section) }
    }

    /// As [`Region::page_mut`], for a change that a survivor makes again if the caller dies, so that
    /// [`BytesMut::again`] saves nothing. The caller has published the record of the change, and noted it in the
    /// session (PROTOCOLS D3).
    ///
    /// # Panics
    /// If the area is out of bounds.
    #[inline]
    pub fn page_mut_repeated<'g, 'u>(
        &'g self,
        at: Offset<Bytes>,
        bytes: usize,
        hold: &'g mut impl ExclusiveHold,
        section: &'g mut Section<'u>,
    ) -> BytesMut<'g, 'u> {
        let saving = Saving::NotRepeated { section, has_saved: false };
        BytesMut { bytes: self.bytes_mut(at, bytes, hold), at: at.raw(), saving }
    }
}

impl<'v> Shown<'v> {
    /// Saves the before-image of the bytes in the undo log that ends at `top`. Returns the bytes, which the caller may
    /// change, and the log's new end.
    ///
    /// # Panics
    /// If the undo log has no room for the image.
    #[inline(always)]
    pub fn range<'g>(self, hold: &'g mut impl ExclusiveHold, undo: &Undo, top: usize) -> (&'g mut [u8], usize)
    where
        'v: 'g,
    {
        self.saved(hold, |place, old| undo.save_after(top, place, old))
    }
}

/// One store of a change that a survivor makes again, from the change's log record, after a death.
#[derive(Clone, Copy, Debug)]
pub enum Store<'s> {
    /// Bytes at a place. A death can leave only a part of them stored.
    Bytes(usize, &'s [u8]),
    /// A word at a place that is a multiple of eight. A death leaves either the old word or the new word.
    Whole(usize, [u8; 8]),
}

impl Store<'_> {
    #[inline(always)]
    fn range(&self) -> Range<usize> {
        match *self {
            Store::Bytes(at, new) => at..at.saturating_add(new.len()),
            Store::Whole(at, new) => at..at.saturating_add(new.len()),
        }
    }

    #[inline(always)]
    fn is_aligned(&self) -> bool {
        !matches!(*self, Store::Whole(at, _) if at % 8 != 0)
    }
}

/// Which stores have before-images.
enum Saving<'g, 'u> {
    /// No store: the memory is private, and a death of the process removes it.
    Nothing,
    /// All stores.
    All(&'g mut Section<'u>),
    /// All stores but those that a survivor makes again.
    NotRepeated { section: &'g mut Section<'u>, has_saved: bool },
    /// No store, for a test: lists the bytes that in a region would be stored without a before-image.
    Listed(&'g mut Vec<(usize, u8)>),
}

/// Bytes that may be changed, one declared range at a time: [`BytesMut::range`] returns the permission to store.
pub struct BytesMut<'g, 'u> {
    bytes: &'g mut [u8],
    at: u64,
    saving: Saving<'g, 'u>,
}

impl<'g, 'u> BytesMut<'g, 'u> {
    /// Wraps private memory that needs no undo: at restart, and in tests.
    pub fn detached(bytes: &'g mut [u8]) -> BytesMut<'g, 'u> {
        BytesMut { bytes, at: 0, saving: Saving::Nothing }
    }

    /// Wraps private memory for a test of [`BytesMut::again`]. In a region some stores would have no before-image:
    /// `list` gets the place and the new value of each of their bytes, in the order of the stores.
    pub fn listed(bytes: &'g mut [u8], list: &'g mut Vec<(usize, u8)>) -> BytesMut<'g, 'u> {
        BytesMut { bytes, at: 0, saving: Saving::Listed(list) }
    }

    /// Returns the same bytes. Every store through the result has a before-image.
    pub fn saved(&mut self) -> BytesMut<'_, 'u> {
        let saving = match &mut self.saving {
            Saving::Nothing | Saving::Listed(_) => Saving::Nothing,
            Saving::All(section) => Saving::All(section),
            Saving::NotRepeated { section, has_saved } => {
                *has_saved = true;
                Saving::All(section)
            }
        };
        BytesMut { bytes: self.bytes, at: self.at, saving }
    }

    /// Returns the current bytes.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        self.bytes
    }

    /// Saves the before-image of `range`. Returns the bytes, which the caller may change.
    ///
    /// # Panics
    /// If the range is out of bounds.
    #[inline]
    pub fn range(&mut self, range: Range<usize>) -> &mut [u8] {
        self.save(&range);
        &mut self.bytes[range]
    }

    #[inline]
    fn save(&mut self, range: &Range<usize>) {
        let section = match &mut self.saving {
            Saving::Nothing | Saving::Listed(_) => return,
            Saving::All(section) => section,
            Saving::NotRepeated { section, has_saved } => {
                *has_saved = true;
                section
            }
        };
        // Whole words are saved: areas are aligned to eight bytes and a multiple of eight long.
        let from = range.start & !7;
        let to = (range.end + 7) & !7;
        section.save_bytes(self.at + from as u64, &self.bytes[from..to]);
    }

    /// Makes stores, in their order. If the maker of `self` has proved that a survivor makes the change again, the
    /// stores have no before-images. Otherwise the before-images are saved first.
    ///
    /// A survivor may find some of these stores made and others not. So the caller must find their places by bytes that
    /// none of them changes, and must refuse nothing after this call.
    ///
    /// # Panics
    /// If a store is out of bounds, or if the place of a whole word is no multiple of eight. Nothing was
    /// stored then.
    #[inline(always)]
    pub fn again<const N: usize>(&mut self, stores: [Store<'_>; N]) {
        let is_within = |store: &Store<'_>| self.bytes.get(store.range()).is_some() && store.is_aligned();
        // The loop has no early end, so the compiler makes only a few comparisons for the few stores.
        let are_within = stores.iter().fold(true, |are_within, store| are_within & is_within(store));
        assert!(are_within, "a change stores outside its area, or a whole word at an unaligned offset");
        if !matches!(self.saving, Saving::NotRepeated { .. }) && self.saved_or_made(&stores) {
            return;
        }
        for (nth, store) in stores.iter().enumerate() {
            // The record is published before the first store. The publishing store is a release, which does not hold
            // back later stores. Without the fence, the compiler may move the stores of this loop before the publishing
            // store (PROTOCOLS D15).
            compiler_fence(Ordering::SeqCst);
            match *store {
                Store::Bytes(at, new) => copy(&mut self.bytes[at..at + new.len()], new),
                Store::Whole(at, new) => store_whole(&mut self.bytes[at..at + 8], new),
            }
            if nth == 0 {
                failpoint("rio: first repeated store made");
            } else {
                failpoint("rio: further repeated store made");
            }
        }
    }

    /// In a region, saves the before-images of the stores, and returns false: the caller must still make the stores. In
    /// private memory, makes the stores, and returns true.
    #[cold]
    #[inline(never)]
    fn saved_or_made(&mut self, stores: &[Store<'_>]) -> bool {
        for store in stores {
            let new = match store {
                Store::Bytes(_, new) => new,
                Store::Whole(_, new) => &new[..],
            };
            match &mut self.saving {
                Saving::Nothing => {}
                Saving::Listed(list) => list.extend(store.range().zip(new.iter().copied())),
                Saving::All(_) | Saving::NotRepeated { .. } => {
                    self.save(&store.range());
                    continue;
                }
            }
            self.bytes[store.range()].copy_from_slice(new);
        }
        self.is_private()
    }

    #[inline]
    fn is_private(&self) -> bool {
        matches!(self.saving, Saving::Nothing | Saving::Listed(_))
    }

    /// Makes the last store of a change: a word at a place that is a multiple of eight, which records that the change
    /// is made. A death leaves either the old word or the new word. If the change has a before-image, the word gets one
    /// too, so that a rollback restores both the change and the word, or neither.
    ///
    /// # Panics
    /// If the word is out of bounds.
    #[inline(always)]
    pub fn conclude(&mut self, at: usize, word: [u8; 8]) {
        if !matches!(self.saving, Saving::NotRepeated { has_saved: false, .. }) {
            self.save(&(at..at + 8));
            if self.is_private() {
                return self.bytes[at..at + 8].copy_from_slice(&word);
            }
        }
        // The word records that the stores before it are made: the compiler must not move it above them.
        compiler_fence(Ordering::SeqCst);
        store_whole(&mut self.bytes[at..at + 8], word);
    }

    /// Returns all bytes for stores without a before-image. For a new page, whose old bytes have no meaning (D11).
    #[inline]
    pub fn fresh(&mut self) -> &mut [u8] {
        if let Saving::NotRepeated { has_saved, .. } = &mut self.saving {
            *has_saved = true;
        }
        // As in `again`: the compiler must not move stores to a new page above the store that publishes the record.
        compiler_fence(Ordering::SeqCst);
        self.bytes
    }
}

/// Copies bytes. Copies a few bytes without a function call.
#[inline(always)]
fn copy(to: &mut [u8], from: &[u8]) {
    if let (Some(first), Some(last)) = (from.first_chunk::<4>(), from.last_chunk::<4>()) {
        if from.len() <= 8 {
            let length = to.len();
            to[..4].copy_from_slice(first);
            to[length - 4..].copy_from_slice(last);
            return;
        }
    }
    to.copy_from_slice(from);
}

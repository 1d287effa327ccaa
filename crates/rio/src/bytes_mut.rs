//! Bytes of a region that change: each range is saved in the undo log before the caller gets it.

use std::ops::Range;

use crate::{Bytes, ExclusiveHold, Offset, Region, Section, Shown, Undo};

impl Region {
    /// Returns the bytes of an area, to be changed inside a section.
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
        BytesMut { bytes: self.bytes_mut(at, bytes, hold), at: at.raw(), section: Some(section) }
    }
}

impl<'v> Shown<'v> {
    /// Saves the before-image of the bytes in the undo log that ends at `top`. Returns the bytes, to be stored to,
    /// and the log's new end.
    ///
    /// # Panics
    /// If the undo log has no room for the image.
    #[inline(always)]
    pub fn range<'g>(self, hold: &'g mut impl ExclusiveHold, undo: &Undo, top: usize) -> (&'g mut [u8], usize)
    where
        'v: 'g,
    {
        self.saved(hold, |place, old| undo.save_behind(top, place, old))
    }
}

/// Bytes that may be changed, one declared range at a time: [`BytesMut::range`] returns the permission to store.
pub struct BytesMut<'g, 'u> {
    bytes: &'g mut [u8],
    at: u64,
    section: Option<&'g mut Section<'u>>,
}

impl<'g, 'u> BytesMut<'g, 'u> {
    /// Wraps private memory that needs no undo: at restart, and in tests.
    pub fn detached(bytes: &'g mut [u8]) -> BytesMut<'g, 'u> {
        BytesMut { bytes, at: 0, section: None }
    }

    /// Returns the current bytes.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        self.bytes
    }

    /// Saves the before-image of `range` and returns the bytes, to be stored to.
    ///
    /// # Panics
    /// If the range is out of bounds.
    #[inline]
    pub fn range(&mut self, range: Range<usize>) -> &mut [u8] {
        if let Some(section) = self.section.as_deref_mut() {
            // Whole words: areas are aligned to eight and a multiple of eight long.
            let from = range.start & !7;
            let to = (range.end + 7) & !7;
            section.save_bytes(self.at + from as u64, &self.bytes[from..to]);
        }
        &mut self.bytes[range]
    }

    /// Returns all bytes, to be stored to without a before-image: for a new page, whose old bytes mean nothing (D11).
    #[inline]
    pub fn fresh(&mut self) -> &mut [u8] {
        self.bytes
    }
}

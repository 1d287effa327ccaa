//! A view: a second mapping of a region's file, for the program that stores to it.
//!
//! Paper: Rio Vista, section 4, figure 4: the metadata have a separate range of addresses, so that a pointer that
//! leaves the user's data does not reach the metadata. Here the library works through the [`Region`]'s mapping, at an
//! address that the program does not know. The program has the view, in which the library's parts are hidden: an access
//! to them faults.

use std::marker::PhantomData;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;

use crate::error::system;
use crate::map::Protection;
use crate::{planted, Key, Mapping, Region, Result};

/// The program's mapping of a region. Its places have the same numbers as the places of the region.
pub struct View {
    /// The part that is always shown. It answers most calls of [`View::look`] quickly.
    flat: Flat,
    mapping: Arc<Mapping>,
    region: Region,
    /// The hidden parts in order, each as its first place and its end.
    hidden: Vec<(u64, u64)>,
    /// The hidden parts to which the kernel still allows accesses.
    unprotected: Vec<(u64, u64)>,
    /// A part that [`View::look`] refuses, although an access to it does not fault: its first place and its end.
    refused: (u64, u64),
    /// The end of the shown part.
    end: u64,
    /// The protection key of the shown part, if it has one.
    key: Option<Key>,
}

/// The part of a view that stays shown. It answers most calls of [`View::look`] quickly. Positions count from its
/// beginning.
#[derive(Clone)]
pub struct Flat {
    pub(crate) base: NonNull<u8>,
    /// The place of position zero.
    pub(crate) from: u64,
    pub(crate) bytes: u64,
    /// Keeps the mapping, so that the addresses stay valid.
    _mapping: Arc<Mapping>,
}

// SAFETY: an address in a mapping that this value keeps alive, as in a `Mapping`; code that accesses the bytes needs a
// hold (`bytes.rs`).
unsafe impl Send for Flat {}
// SAFETY: as above.
unsafe impl Sync for Flat {}

impl Region {
    /// Maps the region's file again: at `address`, or at an address that the kernel chooses. Hides everything before
    /// `from`, which is a multiple of 64 KiB.
    ///
    /// # Errors
    /// `System` if the address range is in use, or if the kernel refuses.
    pub fn view(&self, address: Option<usize>, from: u64) -> Result<View> {
        let mapping = Arc::new(self.map_file(address)?);
        let begin = mapping.base().as_ptr().wrapping_add(usize::try_from(from).unwrap_or(0));
        let mut view = View {
            flat: Flat {
                base: NonNull::new(begin).unwrap_or(mapping.base()),
                from,
                bytes: 0,
                _mapping: mapping.clone(),
            },
            mapping,
            region: self.clone(),
            hidden: Vec::new(),
            unprotected: Vec::new(),
            refused: (0, 0),
            end: u64::MAX,
            key: None,
        };
        view.hide(0, from)?;
        Ok(view)
    }
}

impl View {
    /// Returns the address of place zero. The place itself is hidden.
    #[inline]
    pub fn address(&self) -> usize {
        self.mapping.base().as_ptr().addr()
    }

    /// Returns the place that the program sees at `address`.
    #[inline]
    pub fn place_of(&self, address: usize) -> Option<u64> {
        let place = address.wrapping_sub(self.address());
        (place < self.mapping.bytes()).then_some(place as u64)
    }

    /// Sets the flat part: the first `bytes` after the first hidden part are shown from now on. [`View::look`] refuses
    /// the places after the flat part, up to `next`.
    ///
    /// # Panics
    /// If the flat part is not shown.
    pub fn set_shown(&mut self, bytes: u64, next: u64) {
        let end = self.flat.from + bytes;
        self.refused = (0, 0);
        assert!(self.is_shown(self.flat.from, end), "the bytes are in the region, and are not hidden");
        self.refused = (end, next);
        // With a key, the flat part answers no call of `look`: each call must also set the thread's rights.
        self.flat.bytes = if self.key.is_none() { bytes } else { 0 };
    }

    /// Sets the end of the shown part.
    pub fn set_end(&mut self, end: u64) {
        self.end = end;
    }

    /// Hides the `bytes` bytes from the place `from` on, in whole pages, for ever.
    ///
    /// # Errors
    /// `System` if the kernel refuses. [`View::look`] then refuses the part, but an access does not fault yet. Call
    /// again to try again.
    pub fn hide(&mut self, from: u64, bytes: u64) -> Result<()> {
        let part = (from, from + bytes);
        if !self.hidden.contains(&part) {
            self.hidden.push(part);
            self.hidden.sort_unstable();
            self.unprotected.push(part);
        }
        if let Some(nth) = self.unprotected.iter().position(|it| *it == part) {
            if !planted("rio: hidden memory stays writable") {
                self.protect(part.0, part.1, Protection::None)?;
            }
            self.unprotected.swap_remove(nth);
        }
        Ok(())
    }

    /// Makes all shown parts writable or read-only. If they are read-only, a store outside of a transaction faults.
    ///
    /// # Errors
    /// `System` if the kernel refuses.
    pub fn set_writable(&self, is_writable: bool) -> Result<()> {
        let protection = if is_writable { Protection::Write } else { Protection::Read };
        let mut from = 0;
        for &(start, end) in &self.hidden {
            self.protect(from, start, protection)?;
            from = end;
        }
        self.protect(from, self.mapping.bytes() as u64, protection)
    }

    /// As [`View::set_writable`], for the whole pages from `from` to `to`, which contain no hidden part.
    ///
    /// # Errors
    /// `System` if the kernel refuses.
    pub fn set_writable_part(&self, from: u64, to: u64, is_writable: bool) -> Result<()> {
        self.protect(from, to, if is_writable { Protection::Write } else { Protection::Read })
    }

    /// Sets whether stores to the whole pages from `from` to `to` are private to this process and never reach the file.
    /// A call that ends the privacy discards the private stores. The pages must contain no hidden part; after the call
    /// they may be stored to.
    ///
    /// # Errors
    /// `System` if the kernel refuses.
    pub fn set_apart(&self, from: u64, to: u64, is_apart: bool) -> Result<()> {
        self.change(from, to, "mapping a part again", |range| {
            self.mapping.set_apart(self.region.file(), range.clone(), is_apart)?;
            self.key.as_ref().map_or(Ok(()), |key| self.mapping.set_key(range, key.number()))
        })
    }

    /// Gives a protection key to all shown parts, for ever. From now on the key decides the rights of a thread, and
    /// each call of [`View::look`] gives the calling thread the right to load.
    ///
    /// # Errors
    /// `System` if the kernel refuses.
    pub fn set_key(&mut self, key: Key) -> Result<()> {
        let mut from = 0;
        for &(start, end) in self.hidden.iter().chain(std::iter::once(&(self.mapping.bytes() as u64, u64::MAX))) {
            self.change(from, start, "giving a key", |range| self.mapping.set_key(range, key.number()))?;
            from = end;
        }
        self.key = Some(key);
        // From now on the flat part answers no call of `look`: each call must set the thread's rights.
        self.flat.bytes = 0;
        Ok(())
    }

    /// Returns the protection key of the shown part, if it has one.
    pub fn key(&self) -> Option<&Key> {
        self.key.as_ref()
    }

    fn protect(&self, from: u64, to: u64, protection: Protection) -> Result<()> {
        self.change(from, to, "changing the protection", |range| self.mapping.protect(range, protection))
    }

    /// Calls `call` with the part of the mapping between two places, unless the part is empty.
    fn change(
        &self,
        from: u64,
        to: u64,
        call: &'static str,
        change: impl FnOnce(Range<usize>) -> std::io::Result<()>,
    ) -> Result<()> {
        let (from, to) = (usize::try_from(from), usize::try_from(to));
        let range = from.unwrap_or(usize::MAX)..to.unwrap_or(usize::MAX);
        let done = if range.is_empty() { Ok(()) } else { change(range) };
        done.map_err(|source| system(self.region.path(), call, source))
    }

    /// Returns the flat part ([`View::set_shown`]).
    #[inline(always)]
    pub fn flat(&self) -> &Flat {
        &self.flat
    }

    /// Returns `bytes` at the position `at`, if the program may see all of them. Positions count from the end of the
    /// first hidden part.
    #[inline(always)]
    pub fn look(&self, at: u64, bytes: usize) -> Option<Shown<'_>> {
        self.flat.look(at, bytes).or_else(|| self.look_further(at, bytes))
    }

    #[inline(never)]
    fn look_further(&self, at: u64, bytes: usize) -> Option<Shown<'_>> {
        let place = self.flat.from.checked_add(at)?;
        let is_shown = self.is_shown(place, place.saturating_add(bytes as u64));
        is_shown.then(|| self.flat.shown(at, bytes))
    }

    /// Returns whether all places from `at` to `end` are shown.
    #[inline(never)]
    pub fn is_shown(&self, at: u64, end: u64) -> bool {
        if let Some(key) = &self.key {
            key.allow_reading();
        }
        let mut hidden = self.hidden.iter().chain(std::iter::once(&self.refused));
        at <= end && end <= self.region.size().min(self.end) && hidden.all(|&(from, to)| end <= from || at >= to)
    }
}

impl Flat {
    /// Returns whether the flat part has all these bytes: then [`View::look`] is quick.
    #[inline(always)]
    pub fn has(&self, at: u64, bytes: usize) -> bool {
        at.checked_add(bytes as u64).is_some_and(|end| end <= self.bytes)
    }

    /// Returns `bytes` at the position `at`, if the flat part has all of them.
    #[inline(always)]
    pub fn look(&self, at: u64, bytes: usize) -> Option<Shown<'_>> {
        self.has(at, bytes).then(|| self.shown(at, bytes))
    }

    /// As [`View::look`] of the view to which this flat part belongs.
    ///
    /// # Panics
    /// If the flat part belongs to another view.
    pub fn look_in(&self, view: &View, at: u64, bytes: usize) -> Option<Shown<'_>> {
        assert!(self.base == view.flat.base && self.from == view.flat.from, "the flat part belongs to this view");
        view.look(at, bytes).map(|_| self.shown(at, bytes))
    }

    #[inline(always)]
    fn shown(&self, at: u64, bytes: usize) -> Shown<'_> {
        // Mapped positions are far below 2^64.
        let place = self.base.as_ptr().wrapping_add(usize::try_from(at).unwrap_or(usize::MAX));
        Shown { place, at: self.from + at, bytes, view: PhantomData }
    }
}

/// Bytes of a view that the program may see.
pub struct Shown<'v> {
    pub(crate) place: *mut u8,
    pub(crate) at: u64,
    pub(crate) bytes: usize,
    view: PhantomData<&'v View>,
}

impl std::fmt::Debug for View {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "View({:?} at {:#x})", self.region, self.address())
    }
}

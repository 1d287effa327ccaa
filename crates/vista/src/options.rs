//! Options for opening a segment.

use std::path::Path;

use rio::{Keeping, Kept, Nameless, Region, Survives};

use crate::membership::{self, Membership};
use crate::segment::LAYOUT;
use crate::{Guard, Result};

/// Options for opening a segment.
#[derive(Clone, Debug)]
pub struct Options {
    pub(crate) bytes: u64,
    pub(crate) reserve: u64,
    pub(crate) anywhere: bool,
    pub(crate) declared: Option<Survives>,
    pub(crate) write_back: Option<bool>,
    pub(crate) guard: Guard,
    pub(crate) grows_to: u64,
    /// The environment that opens the segment, if one does.
    pub(crate) member: Option<Membership>,
    /// The file, if it has no name.
    pub(crate) nameless: Option<Nameless>,
}

impl Options {
    /// Makes options for a segment whose flat part has `bytes` bytes; zero takes an existing segment as it is.
    pub fn new(bytes: u64) -> Options {
        let (declared, write_back, guard, member, nameless) = (None, None, Guard::Off, None, None);
        let reserve = bytes.saturating_mul(2).max(16 << 30);
        Options { bytes, reserve, anywhere: false, declared, write_back, guard, grows_to: 0, member, nameless }
    }

    /// Sets the address space that a new segment may grow into, in bytes. By default 16 GiB, or twice the flat part
    /// if that is more. It costs nothing, but the more it is, the likelier two segments lie at the same addresses.
    #[must_use]
    pub fn reserve(self, bytes: u64) -> Options {
        Options { reserve: bytes, ..self }
    }

    /// Sets the greatest length of a new segment's flat part ([`Segment::grow`](crate::Segment::grow)); the heap
    /// grows by itself.
    #[must_use]
    pub fn grows_to(self, bytes: u64) -> Options {
        Options { grows_to: bytes, ..self }
    }

    /// Lets the segment lie at any address: nothing in it is a pointer.
    #[must_use]
    pub fn anywhere(self) -> Options {
        Options { anywhere: true, ..self }
    }

    /// Declares the events that the memory behind the file survives, on the operator's word, where these are more than
    /// the library can detect: for example with power that does not fail, or an operating system that leaves memory as
    /// it is in a crash. The declaration covers the processor's cache, too. If more is declared than was detected, the
    /// memory survives *with* the contents of the cache, and stores are no longer written back, even where a write-back
    /// was detected as needed. Where the next start empties the cache (a reset after a crash of the system under a
    /// supply of power that does not fail), set `write_back(true)`, too.
    #[must_use]
    pub fn survives(self, what: Survives) -> Options {
        Options { declared: Some(what), ..self }
    }

    /// Sets whether stores are written back from the processor's cache. The library finds out by default.
    #[must_use]
    pub fn write_back(self, is_wanted: bool) -> Options {
        Options { write_back: Some(is_wanted), ..self }
    }

    /// Sets whether and how stores outside of declared ranges are stopped; by default they are not. Costs
    /// microseconds a range, or nanoseconds where the processor has protection keys.
    #[must_use]
    pub fn guard(self, guard: Guard) -> Options {
        Options { guard, ..self }
    }

    pub(crate) fn keeping(&self) -> Keeping {
        let (declared, write_back) = (self.declared, self.write_back);
        Keeping { layout: LAYOUT, reserve: self.reserve, declared, write_back, is_shared: self.member.is_some() }
    }

    /// Takes the file for its owner, and makes it if it is missing.
    pub(crate) fn keep(&self, path: &Path, build: impl FnOnce(&Region) -> Result<()>) -> Result<Kept> {
        let build = |region: &Region| {
            // First, so that the header lies in the part that is hidden and sealed.
            self.member.map_or(Ok(()), |member| membership::found(region, member))?;
            build(region)
        };
        let kept = match &self.nameless {
            Some(file) => self.keeping().open_nameless(file, build)?,
            None => self.keeping().open(path, build)?,
        };
        membership::check_owner(kept.region(), self.member)?;
        Ok(kept)
    }
}

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
    /// The environment that opens the segment; `None` without an environment.
    pub(crate) member: Option<Membership>,
    /// The file, if it is a file without a name.
    pub(crate) nameless: Option<Nameless>,
}

impl Options {
    /// Makes options for a segment whose flat part has `bytes` bytes. With zero, an existing segment is opened with the
    /// length that it has.
    pub fn new(bytes: u64) -> Options {
        let (declared, write_back, guard, member, nameless) = (None, None, Guard::Off, None, None);
        let reserve = bytes.saturating_mul(2).max(16 << 30);
        Options { bytes, reserve, anywhere: false, declared, write_back, guard, grows_to: 0, member, nameless }
    }

    /// Sets the address space that a new segment may grow into, in bytes. The default is 16 GiB, or twice the flat part
    /// if that is more. Address space costs nothing, but the more a segment reserves, the likelier two segments need
    /// the same addresses.
    #[must_use]
    pub fn reserve(self, bytes: u64) -> Options {
        Options { reserve: bytes, ..self }
    }

    /// Sets the greatest length of a new segment's flat part ([`Segment::grow`](crate::Segment::grow)). The heap grows
    /// by itself, without such a limit.
    #[must_use]
    pub fn grows_to(self, bytes: u64) -> Options {
        Options { grows_to: bytes, ..self }
    }

    /// Lets the segment be mapped at any address. The segment must contain no pointers to itself.
    #[must_use]
    pub fn anywhere(self) -> Options {
        Options { anywhere: true, ..self }
    }

    /// Declares the events that the memory of the file survives. The library trusts this declaration. Use it where
    /// the memory survives more than the library can detect, for example with power that does not fail, or with an
    /// operating system that leaves memory as it is in a crash. The declaration covers the processor's cache too. If
    /// the declaration exceeds the detected events, the cache's contents count as surviving too. Stores are then not
    /// written back, even if the library detected that they should be. If the next start empties the cache, as a reset
    /// after a system crash does even when the power never fails, also set `write_back(true)`.
    #[must_use]
    pub fn survives(self, what: Survives) -> Options {
        Options { declared: Some(what), ..self }
    }

    /// Sets whether stores are written back from the processor's cache. By default the library detects whether that is
    /// needed.
    #[must_use]
    pub fn write_back(self, is_wanted: bool) -> Options {
        Options { write_back: Some(is_wanted), ..self }
    }

    /// Sets whether and how stores outside of declared ranges are stopped. By default they are not stopped. The guard
    /// costs microseconds per range, or nanoseconds if the processor has protection keys.
    #[must_use]
    pub fn guard(self, guard: Guard) -> Options {
        Options { guard, ..self }
    }

    pub(crate) fn keeping(&self) -> Keeping {
        let (declared, write_back) = (self.declared, self.write_back);
        Keeping { layout: LAYOUT, reserve: self.reserve, declared, write_back, is_shared: self.member.is_some() }
    }

    /// Locks the file for the new handle, and makes the file if it is missing.
    pub(crate) fn keep(&self, path: &Path, build: impl FnOnce(&Region) -> Result<()>) -> Result<Kept> {
        let build = |region: &Region| {
            // The membership is recorded first, so that its header is in the part that is hidden and sealed.
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

//! The number that names one attach of a process.

pub(crate) const INDEX_BITS: u32 = 16;
pub(crate) const GENERATION_BITS: u32 = 20;
const INDEX: u64 = (1 << INDEX_BITS) - 1;
pub(crate) const NAME: u64 = (1 << (INDEX_BITS + GENERATION_BITS)) - 1;

/// Names one attach of the region: the slot's index (low 16 bits) and its generation (20 bits above). Zero names no
/// attach.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct AttachmentId(u64);

impl AttachmentId {
    /// No attach.
    pub(crate) const NONE: AttachmentId = AttachmentId(0);

    pub(crate) fn from_raw(raw: u64) -> AttachmentId {
        AttachmentId(raw & NAME)
    }

    pub(crate) fn raw(self) -> u64 {
        self.0
    }

    pub(crate) fn index(self) -> u32 {
        u32::try_from(self.0 & INDEX).expect("masked to 16 bits")
    }
}

//! The ways in which a power cut treats unsynced changes.

/// The fate of the unsynced changes in a power cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LossMode {
    /// Each write is kept, lost or torn by itself, in sectors of 512 bytes.
    Torn512,
    /// Each write is kept, lost or torn by itself, in blocks of 4096 bytes.
    Torn4096,
    /// All changes up to some point in the order of the calls are kept whole; all later changes are lost.
    Prefix,
    /// Any subset of all sectors of all writes reaches the disk, in any order.
    Reordered,
    /// Each file and each directory keeps all of its changes, none of them, or some of the earliest, independently of
    /// other files and directories.
    PerFile,
    /// All unsynced changes are lost.
    DropAll,
    /// All unsynced changes are kept, as when only the processes die.
    KeepAll,
}

impl LossMode {
    /// All modes.
    pub const ALL: [LossMode; 7] = [
        LossMode::Torn512,
        LossMode::Torn4096,
        LossMode::Prefix,
        LossMode::Reordered,
        LossMode::PerFile,
        LossMode::DropAll,
        LossMode::KeepAll,
    ];
}

//! The record of all changes of a simulated disk.
//!
//! From the disk's first state and this record, [`crate::CrashImages`] makes the disk that a crash at any point would
//! have left, without running the workload again.

use std::ops::Range;
use std::sync::Arc;

use crate::node::NodeId;

/// One change or sync. The trace has the entries in the order in which they took effect; an entry's place is its I/O
/// index.
#[derive(Debug, Clone)]
pub struct TraceEntry {
    /// The number of the simulated process that called; 0 for the disk's own handle.
    pub process: u32,
    /// The change.
    pub change: Change,
}

/// The effect of a call.
#[derive(Debug, Clone)]
pub enum Change {
    /// Bytes were written. For a call that failed half-way, the bytes that it wrote.
    Write {
        /// The file.
        file: NodeId,
        /// The first byte written.
        offset: u64,
        /// The bytes.
        bytes: Arc<[u8]>,
        /// Whether the disk has promised that a power cut keeps all the bytes or none.
        is_whole: bool,
    },
    /// The length was set.
    SetLen {
        /// The file.
        file: NodeId,
        /// The new length.
        bytes: u64,
    },
    /// Blocks were allocated.
    Allocate {
        /// The file.
        file: NodeId,
        /// The bytes that got blocks.
        range: Range<u64>,
    },
    /// A file was synced.
    Sync {
        /// The file.
        file: NodeId,
    },
    /// The sync of a file or a directory failed. The seed decides which of its unsynced changes are on the disk, and
    /// which are lost for ever.
    SyncFailed {
        /// The file or directory.
        node: NodeId,
        /// The seed of the random choice of the changes that are lost.
        seed: u64,
    },
    /// A file was made.
    CreateFile {
        /// The directory with the name.
        directory: NodeId,
        /// The name.
        name: Arc<str>,
        /// The new file.
        file: NodeId,
    },
    /// A directory was made.
    CreateDirectory {
        /// The directory with the name.
        directory: NodeId,
        /// The name.
        name: Arc<str>,
        /// The new directory.
        made: NodeId,
    },
    /// A name was changed.
    Rename {
        /// The directory with the names.
        directory: NodeId,
        /// The old name.
        from: Arc<str>,
        /// The new name. If another file had this name, it has no name any more.
        to: Arc<str>,
        /// The file with the name.
        node: NodeId,
    },
    /// A file got one more name.
    Link {
        /// The directory with the new name.
        directory: NodeId,
        /// The new name.
        name: Arc<str>,
        /// The file, which also has other names.
        node: NodeId,
    },
    /// A name was removed.
    Remove {
        /// The directory that had the name.
        directory: NodeId,
        /// The name.
        name: Arc<str>,
        /// The file that had the name.
        node: NodeId,
    },
    /// A directory was synced.
    SyncDirectory {
        /// The directory.
        directory: NodeId,
    },
    /// A test damaged the medium itself. The damage is durable at once.
    Damage {
        /// The file.
        file: NodeId,
        /// The first damaged byte.
        offset: u64,
        /// The bytes after the damage.
        bytes: Arc<[u8]>,
    },
}

impl Change {
    /// Returns the file or directory whose sync makes this change durable. For a sync, returns the file or directory
    /// synced.
    pub fn node(&self) -> NodeId {
        match self {
            Change::Write { file, .. }
            | Change::SetLen { file, .. }
            | Change::Allocate { file, .. }
            | Change::Sync { file }
            | Change::Damage { file, .. } => *file,
            Change::CreateFile { directory, .. }
            | Change::CreateDirectory { directory, .. }
            | Change::Rename { directory, .. }
            | Change::Link { directory, .. }
            | Change::Remove { directory, .. }
            | Change::SyncDirectory { directory } => *directory,
            Change::SyncFailed { node, .. } => *node,
        }
    }

    /// Returns the names that this change affects in its directory. Empty if the change affects no name.
    pub(crate) fn names(&self) -> impl Iterator<Item = &Arc<str>> {
        let (first, second) = match self {
            Change::CreateFile { name, .. }
            | Change::CreateDirectory { name, .. }
            | Change::Link { name, .. }
            | Change::Remove { name, .. } => (Some(name), None),
            Change::Rename { from, to, .. } => (Some(from), Some(to)),
            _ => (None, None),
        };
        first.into_iter().chain(second)
    }
}

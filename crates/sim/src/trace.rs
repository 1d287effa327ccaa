//! The record of everything that was done to a simulated disk.
//!
//! From the state the disk began with and this record, [`crate::CrashImages`] makes what a crash would
//! have left at any point, without running the workload again.

use std::ops::Range;
use std::sync::Arc;

use crate::tree::NodeId;

/// One change or sync, in the order they took effect; the place in the trace is its I/O index.
#[derive(Debug, Clone)]
pub struct TraceEntry {
    /// Which simulated process called: 0 is the disk's own handle.
    pub process: u32,
    /// What was done.
    pub change: Change,
}

/// What a call did.
#[derive(Debug, Clone)]
pub enum Change {
    /// Bytes were written.  For a call that failed half-way, those that were.
    Write {
        /// To which file.
        file: NodeId,
        /// From which byte on.
        offset: u64,
        /// What.
        bytes: Arc<[u8]>,
    },
    /// The length was set.
    SetLen {
        /// Of which file.
        file: NodeId,
        /// To what.
        bytes: u64,
    },
    /// Blocks were given.
    Allocate {
        /// To which file.
        file: NodeId,
        /// For which of its bytes.
        range: Range<u64>,
    },
    /// A file was synced.
    Sync {
        /// Which.
        file: NodeId,
    },
    /// The sync of a file or a directory failed: each of its unsynced changes is on the disk or lost
    /// for ever, as the seed says.
    SyncFailed {
        /// Which.
        node: NodeId,
        /// Decides what is lost.
        seed: u64,
    },
    /// A file was made.
    CreateFile {
        /// Where.
        directory: NodeId,
        /// By what name.
        name: Arc<str>,
        /// The new file.
        file: NodeId,
    },
    /// A directory was made.
    CreateDirectory {
        /// Where.
        directory: NodeId,
        /// By what name.
        name: Arc<str>,
        /// The new directory.
        made: NodeId,
    },
    /// A name was changed.
    Rename {
        /// Where.
        directory: NodeId,
        /// From this.
        from: Arc<str>,
        /// To this, replacing what was there.
        to: Arc<str>,
        /// What bears the name.
        node: NodeId,
    },
    /// A file got one more name.
    Link {
        /// Where.
        directory: NodeId,
        /// Which.
        name: Arc<str>,
        /// What bears it, and others.
        node: NodeId,
    },
    /// A name was removed.
    Remove {
        /// Where.
        directory: NodeId,
        /// Which.
        name: Arc<str>,
        /// What bore it.
        node: NodeId,
    },
    /// A directory was synced.
    SyncDirectory {
        /// Which.
        directory: NodeId,
    },
    /// A test damaged the medium itself: durable at once.
    Damage {
        /// Which file.
        file: NodeId,
        /// From which byte on.
        offset: u64,
        /// What is there now.
        bytes: Arc<[u8]>,
    },
}

impl Change {
    /// Returns the file or directory whose sync makes this change durable, or which is synced by it.
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

    /// Returns the names of the directory that this change touches, none if it is not about names.
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

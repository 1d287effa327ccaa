//! The failed syncs in the trace of the disk.

use std::collections::BTreeMap;

use libtp_sim::{Change, NodeId, TraceEntry};

/// Returns whether a file with this name is incomplete. No other file depends on an incomplete file.
pub(super) fn is_unfinished(name: &str) -> bool {
    name.ends_with(".preparing") || name.ends_with(".new")
}

/// Returns the files and directories whose sync failed at the I/O index `from` or later, by their names at the time of
/// the sync. The root is `/`.
pub(super) fn failed_syncs(trace: &[TraceEntry], from: usize) -> Vec<String> {
    let mut names: BTreeMap<NodeId, &str> = BTreeMap::new();
    let mut failed = Vec::new();
    for (at, entry) in trace.iter().enumerate() {
        match &entry.change {
            Change::CreateFile { name, file: node, .. }
            | Change::CreateDirectory { name, made: node, .. }
            | Change::Rename { to: name, node, .. } => drop(names.insert(*node, name)),
            Change::SyncFailed { node, .. } if at >= from => {
                failed.push(names.get(node).copied().unwrap_or("/").to_owned())
            }
            _ => {}
        }
    }
    failed
}

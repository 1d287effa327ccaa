//! Plain files of a simulated disk: any file of its tree, by path.
//!
//! The disk has no symbolic links, owners or rights, and no clock: a hash of the contents serves as the time of the
//! last change.

use std::sync::Arc;

use libtp_io::{check_name, Directory, File, OpenMode, Operation, PlainFiles, PlainKind, PlainStatus, Result};

use super::handles::SimDirectory;
use super::{index, State};
use crate::node::NodeId;
use crate::trace::Change;

const ENOENT: i32 = 2;
const EEXIST: i32 = 17;
const ENOTDIR: i32 = 20;

fn split(path: &str) -> (&str, &str) {
    match path.rsplit_once('/') {
        Some(("", name)) => ("/", name),
        Some(parts) => parts,
        None => ("", path),
    }
}

impl SimDirectory {
    /// Opens a directory for the same process.
    fn directory(&self, operation: Operation, path: &str) -> Result<SimDirectory> {
        let root = SimDirectory::root(self.shared.clone(), self.process);
        let mut at = match path.starts_with('/') {
            true => root,
            false => SimDirectory { node: self.node, path: self.path.clone(), ..root },
        };
        let names = path.strip_prefix('/').unwrap_or(path);
        for name in names.split('/').filter(|_| !names.is_empty()) {
            check_name(operation, name)?;
            let words = at.describe(name);
            let call = at.call(operation, &words);
            let state = at.shared.state();
            state.check_alive(&call)?;
            let node = *state.tree.names(at.node).get(name).ok_or_else(|| call.error(ENOENT))?;
            if !state.tree.is_directory(node) {
                return Err(call.error(ENOTDIR));
            }
            drop(state);
            at = SimDirectory { node, path: words, ..at };
        }
        Ok(at)
    }

    fn place<'p>(&self, operation: Operation, path: &'p str) -> Result<(SimDirectory, &'p str)> {
        let (directory, name) = split(path);
        check_name(operation, name)?;
        Ok((self.directory(operation, directory)?, name))
    }
}

fn status_of(state: &State, node: NodeId) -> PlainStatus {
    let (kind, bytes, modified_ns) = match state.tree.is_directory(node) {
        true => (PlainKind::Directory, 0, 0),
        false => {
            let content = state.tree.content(node);
            let mut all = vec![0; index(content.len())];
            content.read(&mut all, 0);
            let mixed = all
                .iter()
                .fold(0xcbf2_9ce4_8422_2325_u64, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
            (PlainKind::File, content.len(), mixed)
        }
    };
    PlainStatus { kind, inode: u64::from(node.0), bytes, modified_ns, mode: 0o644, owner: 0, group: 0 }
}

impl PlainFiles for SimDirectory {
    fn status(&self, path: &str) -> Result<Option<PlainStatus>> {
        let (directory, name) = self.place(Operation::Inspect, path)?;
        let state = directory.shared.state();
        state.check_alive(&directory.call(Operation::Inspect, path))?;
        Ok(state.tree.names(directory.node).get(name).map(|&node| status_of(&state, node)))
    }

    fn number_of(&self, directory: &str) -> Result<u64> {
        Ok(u64::from(self.directory(Operation::Inspect, directory)?.node.0))
    }

    fn open(&self, path: &str) -> Result<Arc<dyn File>> {
        let (directory, name) = self.place(Operation::Open, path)?;
        Directory::open(&directory, name, OpenMode::ReadOnly)
    }

    fn create(&self, path: &str, _like: Option<&PlainStatus>) -> Result<Arc<dyn File>> {
        let (directory, name) = self.place(Operation::Open, path)?;
        Directory::open(&directory, name, OpenMode::CreateNew)
    }

    fn link(&self, path: &str, other: &str) -> Result<()> {
        let (from, name) = self.place(Operation::Link, path)?;
        let (to, other) = self.place(Operation::Link, other)?;
        let words = from.describe(name);
        let call = from.call(Operation::Link, &words);
        let mut state = from.shared.state();
        state.admit_whole(&call)?;
        from.require_writable(&state, &call)?;
        let node = from.file(&state, &call, name)?;
        if state.tree.names(to.node).contains_key(other) {
            return Err(call.error(EEXIST));
        }
        state.change(&call, Change::Link { directory: to.node, name: other.into(), node })
    }

    fn rename(&self, path: &str, name: &str) -> Result<()> {
        let (directory, from) = self.place(Operation::Rename, path)?;
        Directory::rename(&directory, from, name)
    }

    fn remove(&self, path: &str) -> Result<()> {
        let (directory, name) = self.place(Operation::Remove, path)?;
        Directory::remove(&directory, name)
    }

    fn check_removable(&self, path: &str) -> Result<()> {
        let (directory, name) = self.place(Operation::Remove, path)?;
        let words = directory.describe(name);
        let state = directory.shared.state();
        directory.require_writable(&state, &directory.call(Operation::Remove, &words))
    }

    fn list(&self, directory: &str) -> Result<Vec<String>> {
        Directory::list(&self.directory(Operation::List, directory)?)
    }

    fn sync(&self, directory: &str) -> Result<()> {
        Directory::sync(&self.directory(Operation::SyncDirectory, directory)?)
    }
}

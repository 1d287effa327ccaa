//! Handles of a simulated disk: processes, directories and files.

use std::fmt;
use std::ops::{Range, RangeInclusive};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use libtp_io::{check_name, Directory, Error, File, Identity, LockMode, MayBegin, OpenMode, Operation, Result};

use super::{Call, Shared, State};
use crate::fault::Counters;
use crate::node::NodeId;
use crate::trace::Change;

const ENOENT: i32 = 2;
const EEXIST: i32 = 17;
const ENOTDIR: i32 = 20;
const EISDIR: i32 = 21;
/// The time that a waiter sleeps before it checks again.
const LOCK_SLEEP: Duration = Duration::from_millis(5);

/// A simulated process. Dropping it kills it, as [`SimProcess::kill`] does: its locks become free, and every call on
/// its remaining handles fails.
///
/// A process is also a [`Directory`], the disk's root, for callers that keep the process alive.
/// [`SimProcess::directory`] returns a directory that does not keep the process alive.
pub struct SimProcess {
    shared: Arc<Shared>,
    number: u32,
}

impl fmt::Debug for SimProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SimProcess({})", self.number)
    }
}

impl SimProcess {
    pub(super) fn new(shared: Arc<Shared>, number: u32) -> SimProcess {
        SimProcess { shared, number }
    }

    /// Returns the process's number, as in the trace.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Returns the disk's root as this process sees it.
    pub fn directory(&self) -> Arc<dyn Directory> {
        Arc::new(self.root())
    }

    /// Kills the process, as `kill -9` does. The writes that it has made stay.
    pub fn kill(&self) {
        let mut state = self.shared.state();
        if state.dead.insert(self.number) && !state.is_halted {
            Counters::add(&state.fixture.counters.process_killed);
        }
        state.locks.release_process(self.number);
        drop(state);
        self.shared.changed.notify_all();
    }

    fn root(&self) -> SimDirectory {
        SimDirectory::root(self.shared.clone(), self.number)
    }
}

impl Drop for SimProcess {
    fn drop(&mut self) {
        self.kill();
    }
}

is_its_root!(SimProcess);

/// Makes the change that creates a node, from the node's directory, its name and its number.
type Creation = fn(NodeId, Arc<str>, NodeId) -> Change;

/// An open directory of a simulated disk.
pub struct SimDirectory {
    pub(super) shared: Arc<Shared>,
    pub(super) process: u32,
    pub(super) node: NodeId,
    pub(super) path: String,
}

impl fmt::Debug for SimDirectory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SimDirectory({}, process {})", self.path, self.process)
    }
}

impl SimDirectory {
    pub(super) fn root(shared: Arc<Shared>, process: u32) -> SimDirectory {
        SimDirectory { shared, process, node: NodeId::ROOT, path: "sim:".to_owned() }
    }

    pub(super) fn call<'a>(&self, operation: Operation, path: &'a str) -> Call<'a> {
        Call { operation, process: self.process, path, offset: None }
    }

    /// Finds `name`, or makes the node if it is missing and may be made.
    fn find_or_make(
        &self,
        state: &mut State,
        call: &Call<'_>,
        name: &str,
        creation: Option<Creation>,
    ) -> Result<NodeId> {
        if let Some(&node) = state.tree.names(self.node).get(name) {
            return Ok(node);
        }
        let creation = creation.ok_or_else(|| call.error(ENOENT))?;
        self.require_writable(state, call)?;
        let made = state.tree.next_node();
        state.change(call, creation(self.node, name.into(), made))?;
        Ok(made)
    }

    pub(super) fn require_writable(&self, state: &State, call: &Call<'_>) -> Result<()> {
        if state.is_read_only {
            return Err(Error::ReadOnly { operation: call.operation, file: call.path.to_owned() });
        }
        Ok(())
    }

    /// Returns the file with that name. A directory with that name is an error.
    pub(super) fn file(&self, state: &State, call: &Call<'_>, name: &str) -> Result<NodeId> {
        match state.tree.names(self.node).get(name) {
            None => Err(call.error(ENOENT)),
            Some(&node) if state.tree.is_directory(node) => Err(call.error(EISDIR)),
            Some(&node) => Ok(node),
        }
    }
}

impl Directory for SimDirectory {
    fn open(&self, name: &str, mode: OpenMode) -> Result<Arc<dyn File>> {
        check_name(Operation::Open, name)?;
        let path = self.describe(name);
        let call = self.call(Operation::Open, &path);
        let mut state = self.shared.state();
        state.admit_whole(&call)?;
        if mode == OpenMode::CreateNew && state.tree.names(self.node).contains_key(name) {
            return Err(call.error(EEXIST));
        }
        let creation: Creation = |directory, name, file| Change::CreateFile { directory, name, file };
        let may_make = matches!(mode, OpenMode::Create | OpenMode::CreateNew);
        let node = self.find_or_make(&mut state, &call, name, may_make.then_some(creation))?;
        if state.tree.is_directory(node) {
            return Err(call.error(EISDIR));
        }
        if mode != OpenMode::ReadOnly {
            self.require_writable(&state, &call)?;
        }
        state.handles += 1;
        let handle = state.handles;
        drop(state);
        let is_writable = mode != OpenMode::ReadOnly;
        Ok(Arc::new(SimFile { shared: self.shared.clone(), process: self.process, node, handle, path, is_writable }))
    }

    fn subdirectory(&self, name: &str) -> Result<Arc<dyn Directory>> {
        check_name(Operation::Open, name)?;
        let path = self.describe(name);
        let call = self.call(Operation::Open, &path);
        let mut state = self.shared.state();
        state.admit_whole(&call)?;
        let creation: Creation = |directory, name, made| Change::CreateDirectory { directory, name, made };
        let node = self.find_or_make(&mut state, &call, name, Some(creation))?;
        if !state.tree.is_directory(node) {
            return Err(call.error(ENOTDIR));
        }
        drop(state);
        Ok(Arc::new(SimDirectory { shared: self.shared.clone(), process: self.process, node, path }))
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        check_name(Operation::Rename, from)?;
        check_name(Operation::Rename, to)?;
        let path = self.describe(from);
        let call = self.call(Operation::Rename, &path);
        let mut state = self.shared.state();
        state.admit_whole(&call)?;
        self.require_writable(&state, &call)?;
        let node = self.file(&state, &call, from)?;
        match self.file(&state, &call, to) {
            // Both names belong to one file, or are the same name: as in POSIX, nothing changes.
            Ok(there) if there == node => return Ok(()),
            Ok(_) | Err(Error::NotFound { .. }) => {}
            Err(error) => return Err(error),
        }
        state.change(&call, Change::Rename { directory: self.node, from: from.into(), to: to.into(), node })
    }

    fn remove(&self, name: &str) -> Result<()> {
        check_name(Operation::Remove, name)?;
        let path = self.describe(name);
        let call = self.call(Operation::Remove, &path);
        let mut state = self.shared.state();
        state.admit_whole(&call)?;
        self.require_writable(&state, &call)?;
        let node = self.file(&state, &call, name)?;
        state.change(&call, Change::Remove { directory: self.node, name: name.into(), node })
    }

    fn list(&self) -> Result<Vec<String>> {
        let call = self.call(Operation::List, &self.path);
        let mut state = self.shared.state();
        state.admit_whole(&call)?;
        let names = state.tree.names(self.node).iter();
        Ok(names.filter(|(_, &node)| !state.tree.is_directory(node)).map(|(name, _)| name.to_string()).collect())
    }

    fn exists(&self, name: &str) -> Result<bool> {
        check_name(Operation::Inspect, name)?;
        let path = self.describe(name);
        let state = self.shared.state();
        state.check_alive(&self.call(Operation::Inspect, &path))?;
        Ok(state.tree.names(self.node).contains_key(name))
    }

    fn identity_of(&self, name: &str) -> Result<Option<Identity>> {
        check_name(Operation::Inspect, name)?;
        let path = self.describe(name);
        let state = self.shared.state();
        state.check_alive(&self.call(Operation::Inspect, &path))?;
        let found = state.tree.names(self.node).get(name);
        Ok(found.map(|node| identity(node.0, state.fixture.device)))
    }

    fn sync(&self) -> Result<()> {
        let call = self.call(Operation::SyncDirectory, &self.path);
        self.shared.state().sync(&call, self.node, Change::SyncDirectory { directory: self.node })
    }

    fn describe(&self, name: &str) -> String {
        if name.is_empty() {
            self.path.clone()
        } else {
            format!("{}/{name}", self.path)
        }
    }

    fn is_network(&self) -> Result<bool> {
        let state = self.shared.state();
        state.check_alive(&self.call(Operation::Inspect, &self.path))?;
        Ok(state.is_network)
    }

    fn plain_files(&self) -> Option<Arc<dyn libtp_io::PlainFiles>> {
        Some(Arc::new(SimDirectory {
            shared: self.shared.clone(),
            process: self.process,
            node: self.node,
            path: self.path.clone(),
        }))
    }
}

/// An open file of a simulated disk.
pub struct SimFile {
    shared: Arc<Shared>,
    process: u32,
    node: NodeId,
    handle: u64,
    path: String,
    is_writable: bool,
}

impl fmt::Debug for SimFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SimFile({}, process {})", self.path, self.process)
    }
}

impl Drop for SimFile {
    fn drop(&mut self) {
        self.shared.state().locks.release_handle(self.handle);
        self.shared.changed.notify_all();
    }
}

impl SimFile {
    fn call(&self, operation: Operation, offset: Option<u64>) -> Call<'_> {
        Call { operation, process: self.process, path: &self.path, offset }
    }

    fn require_writable(&self, operation: Operation) -> Result<()> {
        if self.is_writable {
            return Ok(());
        }
        Err(Error::ReadOnly { operation, file: self.path.clone() })
    }
}

impl File for SimFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        let call = self.call(Operation::Read, Some(offset));
        let mut state = self.shared.state();
        if let Err(error) = state.admit_whole(&call) {
            // After an error the contents of the buffer are unknown. The buffer is filled, so that tests notice a
            // caller that uses its contents.
            buf.fill(0xee);
            return Err(error);
        }
        Ok(state.tree.content(self.node).read(buf, offset))
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        self.require_writable(Operation::Write)?;
        let call = self.call(Operation::Write, Some(offset));
        self.shared.state().write(&call, self.node, offset, bytes)
    }

    fn write_two_at(&self, first: &[u8], second: &[u8], offset: u64) -> Result<()> {
        self.write_at(&[first, second].concat(), offset)
    }

    fn whole_write_bytes(&self) -> Option<RangeInclusive<u32>> {
        self.shared.state().fixture.whole_writes.as_ref().map(|promise| promise.bytes.clone())
    }

    fn write_whole(&self, pieces: &[(u64, &[u8])], may_begin: &MayBegin<'_>) -> Result<bool> {
        self.require_writable(Operation::Write)?;
        for &(offset, bytes) in pieces {
            let call = self.call(Operation::Write, Some(offset));
            if !may_begin() || !self.shared.state().write_whole(&call, self.node, offset, bytes)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn len(&self) -> Result<u64> {
        let state = self.shared.state();
        state.check_alive(&self.call(Operation::Inspect, None))?;
        Ok(state.tree.content(self.node).len())
    }

    fn set_len(&self, bytes: u64) -> Result<()> {
        self.require_writable(Operation::SetLen)?;
        let call = self.call(Operation::SetLen, Some(bytes));
        let mut state = self.shared.state();
        state.admit_whole(&call)?;
        state.check_size(&call, bytes)?;
        state.change(&call, Change::SetLen { file: self.node, bytes })
    }

    fn allocate(&self, range: Range<u64>) -> Result<()> {
        self.require_writable(Operation::Allocate)?;
        let call = self.call(Operation::Allocate, Some(range.end));
        self.shared.state().allocate(&call, self.node, range)
    }

    fn notes_first_writes(&self) -> bool {
        self.shared.state().fixture.notes_first_writes
    }

    fn sync(&self) -> Result<()> {
        let call = self.call(Operation::Sync, None);
        self.shared.state().sync(&call, self.node, Change::Sync { file: self.node })
    }

    fn lock(&self, byte: u64, mode: LockMode, wait: bool) -> Result<bool> {
        if mode == LockMode::Exclusive {
            self.require_writable(Operation::Lock)?;
        }
        let call = self.call(Operation::Lock, Some(byte));
        let mut state = self.shared.state();
        loop {
            state.check_alive(&call)?;
            if state.locks.acquire(self.node, byte, self.handle, self.process, mode) {
                break;
            }
            if !wait {
                return Ok(false);
            }
            // The wait is bounded, because a crash during another thread's call wakes no waiter.
            let waited = self.shared.changed.wait_timeout(state, LOCK_SLEEP);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        drop(state);
        // A change from exclusive to shared may allow locks of other handles.
        self.shared.changed.notify_all();
        Ok(true)
    }

    fn unlock(&self, byte: u64) -> Result<()> {
        let mut state = self.shared.state();
        state.check_alive(&self.call(Operation::Lock, Some(byte)))?;
        state.locks.release(self.node, byte, self.handle);
        drop(state);
        self.shared.changed.notify_all();
        Ok(())
    }

    fn locked_by_other(&self, from: u64, bytes: u64) -> Result<Option<u64>> {
        let state = self.shared.state();
        state.check_alive(&self.call(Operation::Lock, Some(from)))?;
        Ok(state.locks.lowest_of_others(self.node, from, from.saturating_add(bytes), self.handle))
    }

    fn identity(&self) -> Result<Identity> {
        let state = self.shared.state();
        state.check_alive(&self.call(Operation::Inspect, None))?;
        Ok(identity(self.node.0, state.fixture.device))
    }
}

/// Returns the identity of a node. A node's number never changes, and no other node gets it later, so the number also
/// serves as the node's time of birth.
fn identity(node: u32, device: u64) -> Identity {
    let inode = u64::from(node);
    Identity { device, inode, birth_ns: inode + 1 }
}

//! A disk in memory that records its changes, fails when a test asks for it, and can be crashed at any call.
//!
//! Every process sees every change at once, as through one page cache. [`CrashImages`] computes from the trace what a
//! crash would leave, any number of times and at any place, without running the workload again. Several simulated
//! processes share a disk, each through its own [`SimProcess`]. Byte locks belong to a process and end with it.
//!
//! Numbers: the *I/O index* counts changes and syncs, from 0; it is the place in the trace. Planted faults count
//! *calls*; reads and openings are calls too.
//!
//! Invariants
//! 1. One latch guards the whole disk, so changes have one order, which is also their order in the trace.
//! 2. A call that returns `Ok` has its change in the trace exactly once. For a failed call, the trace has the part of
//!    its change that took effect, which may be nothing.
//! 3. After the crash, and in a dead process, no call has an effect, and every call fails (see [`is_crash`]).
//!
//! [`is_crash`]: crate::is_crash

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use libtp_io::{Directory, Error, File, Identity, OpenMode, Operation, Result};

use crate::byte_locks::ByteLocks;
use crate::content::{blocks_of, index, offset, BLOCK_BYTES, FILE_BYTES_MAX};
use crate::fault::{Activity, Calls, Counters, Fault, Faults, Repeat, CRASHED_ERRNO};
use crate::node::NodeId;
use crate::random::Random;
use crate::trace::{Change, TraceEntry};
use crate::tree::Tree;
use crate::whole_writes::WholeWrites;

/// Makes a type the root of its disk: a [`Directory`] with the calls of the directory that `root` returns.
macro_rules! is_its_root {
    ($type:ty) => {
        impl Directory for $type {
            fn open(&self, name: &str, mode: OpenMode) -> Result<Arc<dyn File>> {
                self.root().open(name, mode)
            }
            fn subdirectory(&self, name: &str) -> Result<Arc<dyn Directory>> {
                self.root().subdirectory(name)
            }
            fn rename(&self, from: &str, to: &str) -> Result<()> {
                self.root().rename(from, to)
            }
            fn remove(&self, name: &str) -> Result<()> {
                self.root().remove(name)
            }
            fn list(&self) -> Result<Vec<String>> {
                self.root().list()
            }
            fn exists(&self, name: &str) -> Result<bool> {
                self.root().exists(name)
            }
            fn identity_of(&self, name: &str) -> Result<Option<Identity>> {
                self.root().identity_of(name)
            }
            fn sync(&self) -> Result<()> {
                self.root().sync()
            }
            fn describe(&self, name: &str) -> String {
                self.root().describe(name)
            }
            fn is_network(&self) -> Result<bool> {
                self.root().is_network()
            }
            fn plain_files(&self) -> Option<Arc<dyn libtp_io::PlainFiles>> {
                self.root().plain_files()
            }
        }
    };
}

mod handles;
mod plain;
pub use handles::{SimDirectory, SimFile, SimProcess};

const EFBIG: i32 = 27;

/// The properties that a disk shares with its crash images.
#[derive(Debug, Clone)]
pub(crate) struct Fixture {
    pub(crate) counters: Arc<Counters>,
    capacity_blocks: Option<usize>,
    notes_first_writes: bool,
    whole_writes: Option<WholeWrites>,
    /// The device number. A crash does not change it, because the medium stays the same.
    device: u64,
}

/// A simulated disk. Clones are handles of the same disk. A disk is also a [`Directory`]: its root, as process 0 sees
/// it. Process 0 is never killed.
#[derive(Clone)]
pub struct SimDisk {
    shared: Arc<Shared>,
}

impl fmt::Debug for SimDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SimDisk")
    }
}

impl SimDisk {
    /// Makes an empty disk, whose random choices follow from `seed`.
    pub fn new(seed: u64) -> SimDisk {
        let fixture = Fixture {
            counters: Arc::default(),
            capacity_blocks: None,
            notes_first_writes: true,
            whole_writes: None,
            device: Random::new(seed).next_u64(),
        };
        SimDisk::of_tree(Tree::empty(), seed, fixture)
    }

    pub(crate) fn of_tree(tree: Tree, seed: u64, fixture: Fixture) -> SimDisk {
        let state = State {
            base: tree.clone(),
            tree,
            trace: Vec::new(),
            faults: Faults::default(),
            first_strike: None,
            crash_at: None,
            is_halted: false,
            is_read_only: false,
            is_network: false,
            dead: BTreeSet::new(),
            processes: 0,
            handles: 0,
            locks: ByteLocks::default(),
            random: Random::new(seed),
            whole_writes: 0,
            fixture,
        };
        SimDisk { shared: Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new() }) }
    }

    /// Starts another simulated process on this disk.
    pub fn process_view(&self) -> SimProcess {
        let mut state = self.shared.state();
        state.processes += 1;
        SimProcess::new(self.shared.clone(), state.processes)
    }

    /// Returns the I/O index of the next change: the number of changes so far.
    pub fn io_index(&self) -> usize {
        self.shared.state().trace.len()
    }

    /// Returns all changes so far.
    pub fn trace(&self) -> Vec<TraceEntry> {
        self.shared.state().trace.clone()
    }

    /// Returns the number of calls so far, including failed ones. For [`Calls::On`] the path is ignored.
    pub fn calls(&self, calls: &Calls) -> u64 {
        let state = self.shared.state();
        match calls {
            Calls::Any => state.faults.count_all(),
            Calls::Of(operation) | Calls::On(operation, _) => state.faults.count(*operation),
        }
    }

    /// Plants a fault: lets the next `after` matching calls pass, and fails the next matching call.
    pub fn fail_call(&self, calls: Calls, after: u64, fault: Fault, repeat: Repeat) {
        self.shared.state().faults.plant(calls, after, fault, repeat);
    }

    /// Returns the I/O index at which a planted fault first struck, or `None` if no fault has struck.
    pub fn first_strike(&self) -> Option<usize> {
        self.shared.state().first_strike
    }

    /// Removes all planted faults, as if the disk were repaired or space freed.
    pub fn clear_faults(&self) {
        self.shared.state().faults.clear();
    }

    /// Crashes the machine when a call is about to make the change with this I/O index. That call and every later call
    /// of any process have no effect and fail.
    pub fn crash_at(&self, io_index: usize) {
        self.shared.state().crash_at = Some(io_index);
    }

    /// Crashes the machine now.
    pub fn halt(&self) {
        self.shared.state().halt();
        self.shared.changed.notify_all();
    }

    /// Crashes the machine for good, and frees its files and changes. A test that simulates the death of a process
    /// forgets handles, and each forgotten handle would otherwise keep the whole disk in memory until the test ends.
    pub fn discard(&self) {
        self.halt();
        let mut state = self.shared.state();
        state.base = Tree::empty();
        state.tree = Tree::empty();
        state.trace = Vec::new();
    }

    /// Returns whether the machine has crashed.
    pub fn has_crashed(&self) -> bool {
        self.shared.state().is_halted
    }

    /// Gives the disk room for `bytes` bytes, in blocks of 4096. A call that needs more room gets [`Error::Full`].
    /// Crash images have the same limit. A file without a name takes no room.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        let blocks = bytes.map(|bytes| index(bytes) / BLOCK_BYTES);
        self.shared.state().fixture.capacity_blocks = blocks;
    }

    /// Makes [`File::notes_first_writes`] return false from now on, as a filesystem in memory does.
    pub fn notes_no_first_writes(&self) {
        self.shared.state().fixture.notes_first_writes = false;
    }

    /// Makes the disk promise from now on that it writes some pieces whole.
    pub fn promise_whole_writes(&self, whole_writes: WholeWrites) {
        self.shared.state().fixture.whole_writes = Some(whole_writes);
    }

    /// Returns the number of bytes in blocks that are taken.
    pub fn bytes_used(&self) -> u64 {
        offset(self.shared.state().tree.blocks_used() * BLOCK_BYTES)
    }

    /// Mounts the disk read-only, or for writing again. A read-only disk refuses to open a file for writing and to
    /// change a name; open handles keep working.
    pub fn set_read_only(&self, is_read_only: bool) {
        self.shared.state().is_read_only = is_read_only;
    }

    /// Sets whether the disk claims to be on a network.
    pub fn set_network(&self, is_network: bool) {
        self.shared.state().is_network = is_network;
    }

    /// Overwrites bytes of a file on the medium itself, as a failing disk would. The change is durable at once.
    ///
    /// # Panics
    /// When there is no file at `path` (`/` between directory and name).
    pub fn damage(&self, path: &str, at: u64, bytes: &[u8]) {
        let mut state = self.shared.state();
        let file = state.tree.find(path).unwrap_or_else(|| panic!("there is no file {path} to damage"));
        state.record(0, Change::Damage { file, offset: at, bytes: bytes.into() });
    }

    /// Returns the paths of all files, sorted.
    pub fn paths(&self) -> Vec<String> {
        let state = self.shared.state();
        let mut paths = Vec::new();
        let mut open = vec![(NodeId::ROOT, String::new())];
        while let Some((directory, prefix)) = open.pop() {
            for (name, &node) in state.tree.names(directory) {
                if state.tree.is_directory(node) {
                    open.push((node, format!("{prefix}{name}/")));
                } else {
                    paths.push(format!("{prefix}{name}"));
                }
            }
        }
        paths.sort_unstable();
        paths
    }

    /// Returns all current bytes of a file, unsynced ones included; `None` if there is no file at `path`.
    pub fn file_bytes(&self, path: &str) -> Option<Vec<u8>> {
        let state = self.shared.state();
        let node = state.tree.find(path).filter(|&node| !state.tree.is_directory(node))?;
        let content = state.tree.content(node);
        let mut bytes = vec![0; index(content.len())];
        content.read(&mut bytes, 0);
        Some(bytes)
    }

    /// Copies every file into `target`, so that a failure can be examined with ordinary tools.
    ///
    /// # Errors
    /// The errors of `target`.
    pub fn copy_to(&self, target: &dyn Directory) -> Result<()> {
        for path in self.paths() {
            let bytes = self.file_bytes(&path).unwrap_or_default();
            let copy = match path.split_once('/') {
                None => target.open(&path, OpenMode::Create)?,
                Some((directory, name)) => target.subdirectory(directory)?.open(name, OpenMode::Create)?,
            };
            copy.set_len(0)?;
            copy.write_at(&bytes, 0)?;
        }
        Ok(())
    }

    /// Returns the disk's first state, its trace, and its fixture.
    pub(crate) fn recorded(&self) -> (Tree, Arc<[TraceEntry]>, Fixture) {
        let state = self.shared.state();
        (state.base.clone(), state.trace.as_slice().into(), state.fixture.clone())
    }

    /// Returns how often each class of fault was active, on this disk and on all its crash images.
    pub fn activity(&self) -> Activity {
        self.shared.state().fixture.counters.snapshot()
    }

    fn root(&self) -> SimDirectory {
        SimDirectory::root(self.shared.clone(), 0)
    }
}

is_its_root!(SimDisk);

struct Shared {
    state: Mutex<State>,
    /// Notified when a lock may have become free, or when the process of a waiter has died.
    changed: Condvar,
}

impl Shared {
    /// Locks the state. A test thread that panics leaves the state consistent, so the mutex's poison is ignored.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct State {
    base: Tree,
    tree: Tree,
    trace: Vec<TraceEntry>,
    faults: Faults,
    first_strike: Option<usize>,
    crash_at: Option<usize>,
    is_halted: bool,
    is_read_only: bool,
    is_network: bool,
    dead: BTreeSet<u32>,
    processes: u32,
    handles: u64,
    locks: ByteLocks,
    random: Random,
    /// The number of writes that the disk has promised to make whole, and accepted.
    whole_writes: u64,
    fixture: Fixture,
}

/// The operation and the caller of a call, for error texts and for the trace.
struct Call<'a> {
    operation: Operation,
    process: u32,
    path: &'a str,
    offset: Option<u64>,
}

impl Call<'_> {
    fn error(&self, errno: i32) -> Error {
        Error::from_errno(self.operation, self.path.to_owned(), self.offset, errno)
    }
}

impl State {
    fn halt(&mut self) {
        if !self.is_halted {
            self.is_halted = true;
            Counters::add(&self.fixture.counters.crash);
        }
    }

    fn check_alive(&self, call: &Call<'_>) -> Result<()> {
        if self.is_halted || self.dead.contains(&call.process) {
            return Err(call.error(CRASHED_ERRNO));
        }
        Ok(())
    }

    /// Admits a call that can fail: counts the call, and returns the fault that strikes the call, if any.
    fn admit(&mut self, call: &Call<'_>) -> Result<Option<Fault>> {
        self.check_alive(call)?;
        let fault = self.faults.strike(call.operation, call.path);
        if let Some(fault) = fault {
            self.first_strike.get_or_insert(self.trace.len());
            Counters::add(self.fixture.counters.of_fault(fault));
        }
        Ok(fault)
    }

    /// Admits a call that has no effect if it fails: counts the call, and returns the error of the fault that strikes
    /// it.
    fn admit_whole(&mut self, call: &Call<'_>) -> Result<()> {
        match self.admit(call)? {
            None => Ok(()),
            Some(fault) => Err(call.error(fault.errno())),
        }
    }

    /// Crashes if the next change is the chosen one; otherwise lets the caller make the change.
    fn reach_next_change(&mut self, call: &Call<'_>) -> Result<()> {
        if self.crash_at.is_some_and(|chosen| self.trace.len() >= chosen) {
            self.halt();
            return Err(call.error(CRASHED_ERRNO));
        }
        Ok(())
    }

    fn change(&mut self, call: &Call<'_>, change: Change) -> Result<()> {
        self.reach_next_change(call)?;
        self.record(call.process, change);
        Ok(())
    }

    fn record(&mut self, process: u32, change: Change) {
        self.tree.make_node(&change);
        self.tree.apply(&change);
        self.trace.push(TraceEntry { process, change });
    }

    fn write(&mut self, call: &Call<'_>, file: NodeId, from: u64, bytes: &[u8]) -> Result<()> {
        let fault = self.admit(call)?;
        if bytes.is_empty() {
            return fault.map_or(Ok(()), |fault| Err(call.error(fault.errno())));
        }
        self.check_size(call, from.saturating_add(offset(bytes.len())))?;
        let mut failure = fault.map(|fault| call.error(fault.errno()));
        let mut landed = match fault {
            None => bytes.len(),
            Some(Fault::ShortWrite) if bytes.len() > 1 => 1 + self.random.index(bytes.len() - 1),
            Some(Fault::ShortWrite) => 0,
            Some(_) if self.random.coin() => 0,
            Some(_) => self.random.index(bytes.len() + 1),
        };
        let fitting = self.fitting(file, index(from), landed);
        if fitting < landed {
            landed = fitting;
            Counters::add(&self.fixture.counters.disk_full);
            failure = Some(call.error(Fault::Enospc.errno()));
        }
        if landed > 0 {
            let bytes = bytes[..landed].into();
            self.change(call, Change::Write { file, offset: from, bytes, is_whole: false })?;
        } else {
            self.reach_next_change(call)?;
        }
        failure.map_or(Ok(()), Err)
    }

    /// Writes a piece whole or not at all. Returns false if the disk refuses the piece.
    fn write_whole(&mut self, call: &Call<'_>, file: NodeId, from: u64, bytes: &[u8]) -> Result<bool> {
        self.check_alive(call)?;
        let (length, promised) = (bytes.len(), self.fixture.whole_writes.clone());
        let is_in_shape = length.is_power_of_two() && from % offset(length) == 0;
        let is_promised =
            |promise: &WholeWrites| promise.covers(length) && promise.accepts(call.process, self.whole_writes);
        if !is_in_shape || !promised.as_ref().is_some_and(is_promised) {
            Counters::add(&self.fixture.counters.whole_refused);
            return Ok(false);
        }
        let fault = self.admit(call)?;
        self.check_size(call, from.saturating_add(offset(length)))?;
        if promised.is_some_and(|promise| promise.tears(self.whole_writes)) {
            let bytes = bytes[..length / 2].into();
            self.change(call, Change::Write { file, offset: from, bytes, is_whole: false })?;
            Counters::add(&self.fixture.counters.whole_torn);
            return Err(call.error(Fault::Eio.errno()));
        }
        let mut failure = fault.map(|fault| call.error(fault.errno()));
        if self.fitting(file, index(from), length) < length {
            Counters::add(&self.fixture.counters.disk_full);
            failure = Some(call.error(Fault::Enospc.errno()));
        } else if fault.is_none() || self.random.coin() {
            self.change(call, Change::Write { file, offset: from, bytes: bytes.into(), is_whole: true })?;
            self.whole_writes += 1;
            Counters::add(&self.fixture.counters.whole_write);
            return failure.map_or(Ok(true), Err);
        }
        self.reach_next_change(call)?;
        failure.map_or(Ok(true), Err)
    }

    /// Returns the number of bytes for which the disk has room, out of the `bytes` bytes that begin at `from`.
    fn fitting(&self, file: NodeId, from: usize, bytes: usize) -> usize {
        let Some(mut free) = self.free_blocks() else {
            return bytes;
        };
        let content = self.tree.content(file);
        for number in from / BLOCK_BYTES..(from + bytes).div_ceil(BLOCK_BYTES) {
            let wanted = content.holes(number..number + 1);
            if wanted > free {
                return (number * BLOCK_BYTES).saturating_sub(from);
            }
            free -= wanted;
        }
        bytes
    }

    fn free_blocks(&self) -> Option<usize> {
        let capacity = self.fixture.capacity_blocks?;
        Some(capacity.saturating_sub(self.tree.blocks_used()))
    }

    fn allocate(&mut self, call: &Call<'_>, file: NodeId, range: Range<u64>) -> Result<()> {
        if range.is_empty() {
            return Ok(());
        }
        let fault = self.admit(call)?;
        self.check_size(call, range.end)?;
        let content = self.tree.content(file);
        let wanted = content.holes(blocks_of(&range));
        let mut failure = fault.map(|fault| call.error(fault.errno()));
        if failure.is_none() && self.free_blocks().is_some_and(|free| wanted > free) {
            Counters::add(&self.fixture.counters.disk_full);
            failure = Some(call.error(Fault::Enospc.errno()));
        }
        let Some(failure) = failure else {
            return self.change(call, Change::Allocate { file, range });
        };
        // The contract lets a failed call leave the file longer.
        if content.len() < range.end && self.random.coin() {
            let partly = content.len() + self.random.below(range.end - content.len() + 1);
            self.change(call, Change::SetLen { file, bytes: partly })?;
        }
        Err(failure)
    }

    fn check_size(&self, call: &Call<'_>, end: u64) -> Result<()> {
        if end > FILE_BYTES_MAX {
            return Err(call.error(EFBIG));
        }
        Ok(())
    }

    /// Syncs a file or a directory. With a planted fault, each unsynced change becomes either durable or lost for ever.
    fn sync(&mut self, call: &Call<'_>, node: NodeId, change: Change) -> Result<()> {
        let Some(fault) = self.admit(call)? else {
            return self.change(call, change);
        };
        let seed = self.random.next_u64();
        self.change(call, Change::SyncFailed { node, seed })?;
        Counters::add(&self.fixture.counters.failed_sync);
        Err(call.error(fault.errno()))
    }
}

#[cfg(test)]
mod tests;

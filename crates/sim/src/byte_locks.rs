//! Byte locks of simulated files. A lock ends with the handle or the process that has it.

use libtp_io::LockMode;

use crate::node::NodeId;

#[derive(Debug)]
struct HeldLock {
    node: NodeId,
    byte: u64,
    handle: u64,
    process: u32,
    mode: LockMode,
}

/// All locks on a disk.
#[derive(Debug, Default)]
pub(crate) struct ByteLocks {
    held: Vec<HeldLock>,
}

impl ByteLocks {
    /// Locks the byte, or changes the lock that the handle has on it. Returns false if another handle's lock conflicts.
    pub(crate) fn acquire(&mut self, node: NodeId, byte: u64, handle: u64, process: u32, mode: LockMode) -> bool {
        let in_the_way = self.held.iter().any(|lock| {
            lock.node == node
                && lock.byte == byte
                && lock.handle != handle
                && (mode == LockMode::Exclusive || lock.mode == LockMode::Exclusive)
        });
        if in_the_way {
            return false;
        }
        self.release(node, byte, handle);
        self.held.push(HeldLock { node, byte, handle, process, mode });
        true
    }

    pub(crate) fn release(&mut self, node: NodeId, byte: u64, handle: u64) {
        self.held.retain(|lock| (lock.node, lock.byte, lock.handle) != (node, byte, handle));
    }

    pub(crate) fn release_handle(&mut self, handle: u64) {
        self.held.retain(|lock| lock.handle != handle);
    }

    pub(crate) fn release_process(&mut self, process: u32) {
        self.held.retain(|lock| lock.process != process);
    }

    /// Returns the lowest byte of `from..end` that a handle other than `handle` has locked.
    pub(crate) fn lowest_of_others(&self, node: NodeId, from: u64, end: u64, handle: u64) -> Option<u64> {
        self.held
            .iter()
            .filter(|lock| lock.node == node && lock.handle != handle && (from..end).contains(&lock.byte))
            .map(|lock| lock.byte)
            .min()
    }
}

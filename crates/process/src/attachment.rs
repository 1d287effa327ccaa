//! The table of attached processes: a slot for each open environment of each process, and the check whether the process
//! of a slot is dead (PROTOCOLS D9).
//!
//! A slot's name is also the number of its *attachment lock*: a lock that the kernel drops when the process ends. The
//! environment implements the attachment locks ([`AttachmentLocks`]) by locks on bytes of the control file. A process
//! first takes the attachment lock, then marks the slot as attached, then lets sessions join. So no session ever
//! belongs to an attachment lock that is not taken yet.
//!
//! Invariants
//! 1. The slot of a dead process stays as it is while a session of that process is not repaired. So no new process gets
//!    the name and the attachment lock of a process that is not repaired yet.
//! 2. pid, start time and namespaces are stored before the word that marks the slot as attached.
//!
//! The environment lets one process attach at a time. If we die here: the slot is claimed and its attachment lock is
//! free, or will be free in a moment; the next process that attaches frees the slot.

use std::sync::Arc;

use rio::{bits, planted, shared, Extent, Region, Slab, SlabHeader, Word};

use crate::attachment_id::{AttachmentId, GENERATION_BITS, INDEX_BITS, NAME};
use crate::liveness::{Identity, Process};
use crate::slot::{ProcessHeader, SessionSlot, State};
use crate::{Error, Result};

/// Slots in the slab's first chunk.
pub(crate) const FIRST_PROCESSES: u32 = 16;
const CLAIMED: u64 = 1 << (INDEX_BITS + GENERATION_BITS);
const ATTACHED: u64 = 2 << (INDEX_BITS + GENERATION_BITS);
/// The largest number of slots that an index can name, in whole chunks of the slab.
const PROCESSES_MAX: u32 = (1 << INDEX_BITS) - FIRST_PROCESSES;
/// The number of names tried for one slot: an attachment lock may still be held by a process that was attached to
/// another region.
const NAMES_TRIED: u32 = 1000;

/// The locks by which the kernel shows which processes have ended. An attachment lock's number is below 2^36.
pub trait AttachmentLocks: Send + Sync {
    /// Takes an attachment lock. Returns false if another process has it. The kernel frees the attachment lock when
    /// this process ends.
    ///
    /// # Errors
    /// Any failure, except that another process has the lock.
    fn take(&self, lock: u64) -> std::result::Result<bool, Box<dyn std::error::Error + Send + Sync>>;

    /// Releases an attachment lock.
    fn give_back(&self, lock: u64);

    /// Returns whether it is certain that no other process has the attachment lock.
    fn is_free(&self, lock: u64) -> bool;
}

/// The state of a process slot: the name of its present or last tenant (the attach that uses the slot), and whether the
/// slot is claimed, attached or free.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tenant(u64);
bits!(Tenant: u64);

impl Tenant {
    fn id(self) -> AttachmentId {
        AttachmentId::from_raw(self.0)
    }

    fn is_free(self) -> bool {
        self.0 & !NAME == 0
    }

    fn is_attached(self) -> bool {
        self.0 & !NAME == ATTACHED
    }

    /// Returns the next name of the slot with that index, in the state `CLAIMED`. Generations wrap around and skip
    /// zero.
    fn next(self, index: u32) -> Tenant {
        let generation = ((self.0 & NAME) >> INDEX_BITS) + 1;
        let generation = (generation & ((1 << GENERATION_BITS) - 1)).max(1);
        Tenant(CLAIMED | generation << INDEX_BITS | u64::from(index))
    }

    fn attached(self) -> Tenant {
        Tenant(ATTACHED | self.0 & NAME)
    }

    fn left(self) -> Tenant {
        Tenant(self.0 & NAME)
    }
}

shared! {
    /// One attach of one process to the region.
    pub(crate) struct ProcessSlot {
        /// The tenant; stored last when a process attaches.
        pub(crate) tenant: Word<Tenant>,
        /// The pid in the process's own pid namespace.
        pub(crate) pid: Word<u64>,
        /// The start time, in clock ticks after boot; zero: not known.
        pub(crate) start_time: Word<u64>,
        /// The pid namespace's inode; zero: not known.
        pub(crate) pid_namespace: Word<u64>,
        /// The inode of the time namespace of the start time. Zero if the kernel has no time namespaces.
        pub(crate) time_namespace: Word<u64>,
        /// Checksum of the tenant's name and of the four fields above while a process is attached. With the checksum, a
        /// wild store cannot change the answer whether the process lives.
        pub(crate) check: Word<u64>,
        /// Zero, kept for later.
        pub(crate) spare: [Word<u64>; 2],
    } size 64
}

impl ProcessSlot {
    /// Returns the known facts about the process. If the checksum is wrong, returns zeros, and only the attachment lock
    /// shows whether the process lives.
    pub(crate) fn identity(&self) -> Identity {
        let name = self.tenant.load().id();
        let found = Identity {
            pid: u32::try_from(self.pid.load()).unwrap_or(0),
            start_time: self.start_time.load(),
            pid_namespace: self.pid_namespace.load(),
            time_namespace: self.time_namespace.load(),
        };
        match self.check.load() == checksum(name, found)
            || planted("process: the checksum of a process identity is ignored")
        {
            true => found,
            false => Identity { pid: 0, start_time: 0, pid_namespace: 0, time_namespace: 0 },
        }
    }

    /// Returns whether the slot's tenant can have stored the slot's content.
    fn is_sane(&self, index: u32) -> bool {
        let tenant = self.tenant.load();
        let is_so = tenant.0 >> (INDEX_BITS + GENERATION_BITS + 2) == 0
            && (tenant.is_free() || tenant.id().index() == index)
            && (!tenant.is_attached() || self.identity().pid != 0);
        // Another process may have attached meanwhile.
        is_so || self.tenant.load() != tenant
    }
}

/// Returns the checksum of a slot's description of a process.
fn checksum(name: AttachmentId, process: Identity) -> u64 {
    let words = [name.raw(), process.pid.into(), process.start_time, process.pid_namespace, process.time_namespace];
    words.into_iter().fold(1, |sum: u64, word| (sum ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29))
}

/// One process's handle to the table of attached processes.
pub(crate) struct Attachments {
    slots: Slab<ProcessSlot>,
    locks: Option<Arc<dyn AttachmentLocks>>,
    process: Process,
    own: AttachmentId,
}

impl Attachments {
    /// Attaches this process.
    pub(crate) fn attach(
        region: &Region,
        header: &ProcessHeader,
        sessions: &Slab<SessionSlot>,
        locks: Option<Arc<dyn AttachmentLocks>>,
    ) -> Result<Attachments> {
        let mut attachments = Attachments::look(region, header)?;
        attachments.locks = locks;
        attachments.forget_gone(sessions);
        attachments.own = attachments.take_slot()?;
        header.attachments.fetch_add(1);
        Ok(attachments)
    }

    /// Opens the table without attaching.
    pub(crate) fn look(region: &Region, header: &ProcessHeader) -> Result<Attachments> {
        let none = || Error::NotInitialised { path: region.path().to_path_buf() };
        let slots = Slab::attach(region, header.processes.load().ok_or_else(none)?);
        Ok(Attachments { slots, locks: None, process: Process::this(), own: AttachmentId::NONE })
    }

    /// Adds the attachment locks. From now on, the check whether a process lives also reads its attachment lock.
    pub(crate) fn asking(mut self, locks: Arc<dyn AttachmentLocks>) -> Attachments {
        self.locks = Some(locks);
        self
    }

    /// Returns whether the table was opened without attaching.
    pub(crate) fn is_observer(&self) -> bool {
        self.own == AttachmentId::NONE
    }

    /// Makes the table of a new region.
    pub(crate) fn init(region: &Region) -> Result<rio::Offset<SlabHeader>> {
        Ok(Slab::<ProcessSlot>::init(region, FIRST_PROCESSES)?)
    }

    fn take_slot(&self) -> Result<AttachmentId> {
        loop {
            let free = self.all().find_map(|(index, slot)| {
                let tenant = slot.tenant.load();
                let ours = tenant.next(index);
                let claimed = tenant.is_free() && slot.tenant.compare_exchange(tenant, ours).is_ok();
                claimed.then_some((index, slot, ours))
            });
            let Some((index, slot, claimed)) = free else {
                if self.slots.capacity() >= PROCESSES_MAX {
                    return Err(Error::TooManyProcesses { limit: self.slots.capacity() });
                }
                // No other process is here: the environment lets one process attach at a time.
                self.slots.grow()?;
                continue;
            };
            let tenant = match self.take_attachment_lock(index, claimed) {
                Ok(tenant) => tenant,
                Err(error) => {
                    slot.tenant.publish(claimed.left());
                    return Err(error);
                }
            };
            let own = self.process.identity();
            slot.pid.init(own.pid.into());
            slot.start_time.init(own.start_time);
            slot.pid_namespace.init(own.pid_namespace);
            slot.time_namespace.init(own.time_namespace);
            slot.check.init(checksum(tenant.id(), own));
            slot.tenant.publish(tenant.attached());
            return Ok(tenant.id());
        }
    }

    /// Tries the slot's names from `claimed` on, and takes the first free attachment lock of these names.
    fn take_attachment_lock(&self, index: u32, claimed: Tenant) -> Result<Tenant> {
        let Some(locks) = &self.locks else { return Ok(claimed) };
        let mut tenant = claimed;
        for _ in 0..NAMES_TRIED {
            if locks.take(tenant.id().raw()).map_err(Error::AttachmentLock)? {
                return Ok(tenant);
            }
            tenant = tenant.next(index);
        }
        Err(Error::AttachmentLock("other processes hold all file locks of this kind".into()))
    }

    /// Returns the name of this attach.
    #[inline]
    pub(crate) fn own(&self) -> AttachmentId {
        self.own
    }

    /// Returns this process.
    #[inline]
    pub(crate) fn process(&self) -> &Process {
        &self.process
    }

    /// Returns whether the process of that attach lives, or is not known to have ended.
    pub(crate) fn lives(&self, id: AttachmentId) -> bool {
        if id == self.own {
            return true;
        }
        let Some(slot) = self.slot(id) else {
            // Each attach with a session has a slot, unless a wild store has damaged the slot.
            return self.locks.as_ref().is_some_and(|locks| !locks.is_free(id.raw()));
        };
        if self.is_attachment_lock_free(id) {
            return false;
        }
        let has_ended = self.process.has_ended(slot.identity());
        // A process that left meanwhile counts as ended, like a dead process; the next process in its slot has another
        // name.
        !has_ended && slot.tenant.load().id() == id
    }

    /// Returns whether the kernel reports the attachment lock as free. This check is cheaper than
    /// [`Attachments::lives`]. It is sufficient if the kernel reports the end of the process anyway.
    pub(crate) fn is_attachment_lock_free(&self, id: AttachmentId) -> bool {
        self.locks.as_ref().is_some_and(|locks| locks.is_free(id.raw()))
    }

    /// Returns whether the process with that name is seen to have ended.
    pub(crate) fn owner_has_ended(&self, name: u64) -> bool {
        self.identity(AttachmentId::from_raw(name)).is_some_and(|owner| self.process.has_ended(owner))
    }

    /// Returns the known facts about the process of that attach, or `None` if it has left.
    pub(crate) fn identity(&self, id: AttachmentId) -> Option<Identity> {
        self.slot(id).map(ProcessSlot::identity)
    }

    /// Returns every other attach, including attaches of dead processes.
    pub(crate) fn others(&self) -> impl Iterator<Item = (AttachmentId, Identity)> + '_ {
        let attached = |(_, slot): (u32, &ProcessSlot)| {
            let tenant = slot.tenant.load();
            (tenant.is_attached() && tenant.id() != self.own).then(|| (tenant.id(), slot.identity()))
        };
        self.all().filter_map(attached)
    }

    /// Returns whether another living process is certainly stopped.
    pub(crate) fn is_one_stopped(&self) -> bool {
        self.others().any(|(id, identity)| self.process.sees_stopped(identity) && self.lives(id))
    }

    /// Frees the slots of dead processes that have no session left. Such a process cannot get another session, so any
    /// number of callers may do this at any time.
    pub(crate) fn forget_gone(&self, sessions: &Slab<SessionSlot>) {
        for (_, slot) in self.all() {
            let tenant = slot.tenant.load();
            let gone = !tenant.is_free() && !self.lives(tenant.id()) && !has_sessions(sessions, tenant.id());
            // Without attachment locks, a claim in progress cannot be distinguished from an abandoned claim.
            if gone && (tenant.is_attached() || self.locks.is_some()) {
                // A failure means that another process has freed the slot.
                let _ = slot.tenant.compare_exchange(tenant, tenant.left());
            }
        }
    }

    /// Leaves the table. If this attach still has a session, the slot stays taken, and the session is repaired like a
    /// dead session.
    pub(crate) fn detach(&self, sessions: &Slab<SessionSlot>) {
        if !self.process.is_current() {
            return;
        }
        let Some(slot) = self.slot(self.own) else { return };
        let mut tenant = slot.tenant.load();
        if tenant.id() != self.own || has_sessions(sessions, self.own) {
            return;
        }
        if planted("process: a leaving process frees the slot of the next tenant") {
            rio::planted::linger();
            tenant = slot.tenant.load();
        }
        // A failure means that another process saw our attachment lock free and has freed the slot; a new process may
        // have the slot now, under another name.
        let _ = slot.tenant.compare_exchange(tenant, tenant.left());
    }

    /// Releases the attachment lock.
    pub(crate) fn release_attachment_lock(&self) {
        if !self.process.is_current() || self.is_observer() {
            return;
        }
        if let Some(locks) = &self.locks {
            locks.give_back(self.own.raw());
        }
    }

    pub(crate) fn check(&self) -> std::result::Result<(), String> {
        self.slots.check()?;
        match self.all().find(|(index, slot)| !slot.is_sane(*index)) {
            Some((index, _)) => {
                Err(format!("the slot of process {index} has a value that the library does not store there"))
            }
            None => Ok(()),
        }
    }

    /// Returns whether that attach has a slot: each attach with a session has one.
    pub(crate) fn is_known(&self, id: AttachmentId) -> bool {
        self.slot(id).is_some()
    }

    pub(crate) fn extents(&self) -> Vec<Extent> {
        Extent::of_slab("process slab", "process slots", &self.slots)
    }

    fn all(&self) -> impl Iterator<Item = (u32, &ProcessSlot)> {
        (1..).zip(self.slots.iter())
    }

    fn slot(&self, id: AttachmentId) -> Option<&ProcessSlot> {
        let index = id.index();
        if index == 0 || index > self.slots.capacity() {
            return None;
        }
        let slot = self.slots.at(index);
        let tenant = slot.tenant.load();
        (tenant.id() == id && !tenant.is_free()).then_some(slot)
    }
}

/// Returns whether that attach has a session.
pub(crate) fn has_sessions(sessions: &Slab<SessionSlot>, id: AttachmentId) -> bool {
    sessions.iter().any(|slot| {
        let status = slot.status.load();
        status.state() != State::Free && status.attachment() == id
    })
}

#[cfg(test)]
#[path = "attachment/tests.rs"]
mod tests;

//! The process manager: the users of the environment, their mutual exclusion, their sleeping and waking.
//!
//! Paper: LIBTP sections 3.2.4 and 4.3. Departures: only a latch that is not free costs a system call. A waiter sleeps
//! on a word, not on a semaphore, and every sleep has a bound. Every session writes notes, so that a survivor knows the
//! latches and pins of a killed session.
//!
//! The process manager does not know the objects that sessions wait for.
//!
//! # Example
//! ```
//! use libtp_process::{Latch, ProcessManager, Rank, Settings};
//! let region = rio::Region::anonymous(1 << 24)?;
//! ProcessManager::init(&region)?;
//! let processes = ProcessManager::attach(&region, &Settings::default())?;
//! let session = processes.join()?;
//!
//! let latch = region.allocate::<Latch>(1)?;
//! let guard = region.at(latch).exclusive(&session, Rank::CATALOGUE);
//! assert_eq!(region.at(latch).owner(), Some(session.id()));
//! drop(guard);
//! assert_eq!(region.at(latch).owner(), None);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod attachment;
mod attachment_id;
mod cancel;
mod clock;
mod dead_session;
mod error;
mod join;
#[cfg(feature = "kernel-latches")]
mod kernel_latches;
mod latch;
mod latch_word;
mod leaving;
mod liveness;
mod log_room;
mod notes;
mod os;
mod pins;
mod process_number;
mod rank;
mod recount;
mod repair;
mod repair_times;
mod rounds;
mod session;
mod sleep;
mod slot;
#[cfg(feature = "sysv")]
pub mod sysv;
mod unwinding;
mod watch;

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use rio::{planted, Extent, Held, Offset, Region, RootSlot, Slab};

use attachment::{Attachments, ProcessSlot, FIRST_PROCESSES};
use leaving::Leaving;
use repair_times::RepairCounts;
use slot::{ProcessHeader, SessionSlot, State};

pub use attachment::AttachmentLocks;
pub use cancel::{cancel_waits, cancels};
#[doc(hidden)]
pub use clock::shift_wall_clock;
pub use clock::{boot_micros, wall_micros, wall_time};
pub use dead_session::DeadSession;
pub use error::{Error, Result};
#[cfg(feature = "kernel-latches")]
pub use kernel_latches::KernelLatches;
pub use latch::{ExclusiveGuard, LastWork, Latch, SharedGuard, WAITS_FOR_LATCH};
pub use leaving::LeaveTimedOut;
pub use log_room::LogRoom;
pub use notes::NOTES;
pub use os::ForkMark;
pub use pins::PinNote;
pub use process_number::{Patience, ProcessNumber};
pub use rank::Rank;
pub use repair::{AloneRepair, NotedAppend};
pub use repair_times::{RepairTimes, Times};
pub use rio::Broken;
pub use rounds::{Rounds, Work};
pub use session::{Freeing, LongWait, Session};
pub use sleep::{Ticket, SLEEP_MAX};
pub use slot::{SessionId, SessionInfo};
pub use unwinding::{catch_call, is_callers_panic, leaves_roles};
pub use watch::{DeathWatch, Waker};

/// Slots in the slab's first chunk.
const FIRST_SLOTS: u32 = 16;

/// Settings of sessions, all optional.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Settings {
    /// Bytes of before-images that a new session's undo log holds; [`Session::ensure_undo`] makes the log longer. The
    /// default is 64 KiB.
    pub undo_bytes: u64,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { undo_bytes: 64 << 10 }
    }
}

/// The repair of dead sessions, by the environment, which knows all managers.
pub trait Repairer: Send + Sync {
    /// Repairs `dead` physically and releases its latches, because `waiting` waits for one of them. Never waits,
    /// because the caller may hold latches.
    fn free_latches(&self, waiting: &Session, dead: SessionId);

    /// Repairs every dead session completely, with its transactions. The caller holds no latch.
    fn repair_all(&self, by: &Session);

    /// Returns whether repair is possible. Returns false if something that repair needs has failed permanently.
    fn can_repair(&self) -> bool {
        true
    }

    /// Declares the region broken, because it contains a value that no session stores. `why` is the reason, for the
    /// user.
    fn give_up(&self, why: &str);
}

/// One process's handle to the process manager. Cloning it is cheap.
#[derive(Clone)]
pub struct ProcessManager(Arc<Inner>);

struct Inner {
    region: Region,
    header: Held<ProcessHeader>,
    slots: Slab<SessionSlot>,
    settings: Settings,
    /// The attached processes, including this process.
    attachments: Attachments,
    repairer: OnceLock<Box<dyn Repairer>>,
    /// Whether the barriers of other processes reach this process.
    has_barriers: AtomicBool,
    leaving: Leaving,
}

impl Drop for Inner {
    fn drop(&mut self) {
        // A wild store may have damaged the table; the attachment lock is released anyway.
        let detached = catch_unwind(AssertUnwindSafe(|| self.attachments.detach(&self.slots)));
        if detached.is_err() {
            self.region.mark_broken();
        }
        self.attachments.release_attachment_lock();
    }
}

impl ProcessManager {
    /// The layout of all types that the process manager shares.
    pub const LAYOUT: u64 = rio::layout![ProcessHeader, SessionSlot, ProcessSlot, Latch, RepairCounts];

    /// The bytes that a new process manager and its first session take.
    pub fn size(settings: &Settings) -> u64 {
        let slots = u64::from(FIRST_SLOTS) * size_of::<SessionSlot>() as u64;
        let processes = u64::from(FIRST_PROCESSES) * size_of::<ProcessSlot>() as u64;
        let headers =
            (size_of::<ProcessHeader>() + size_of::<RepairCounts>() + 2 * size_of::<rio::SlabHeader>()) as u64;
        headers + slots + processes + settings.undo_bytes + 64
    }

    /// Makes the process manager's part of a new region.
    ///
    /// # Errors
    /// `Region` if the region cannot grow.
    pub fn init(region: &Region) -> Result<()> {
        let header = region.allocate::<ProcessHeader>(1)?;
        let slots = Slab::<SessionSlot>::init(region, FIRST_SLOTS)?;
        region.at(header).slots.init(Some(slots));
        region.at(header).processes.init(Some(Attachments::init(region)?));
        region.at(header).times.init(Some(region.allocate::<RepairCounts>(1)?));
        region.at(header).tree_epoch.init(1);
        region.set_root(RootSlot::Process, header);
        Ok(())
    }

    /// Opens the process manager of a region without attachment locks: only the kernel's table of processes
    /// shows deaths. The caller makes sure that no other process attaches at the same time.
    ///
    /// # Errors
    /// `NotInitialised` if the region has no process manager; `Region` if the region cannot grow; `TooManyProcesses`.
    pub fn attach(region: &Region, settings: &Settings) -> Result<ProcessManager> {
        ProcessManager::attach_with(region, settings, None)
    }

    /// Opens the process manager of a region and takes an attachment lock before any session joins: the attachment
    /// locks also show deaths (PROTOCOLS D9). The caller makes sure that no other process attaches at the same time.
    ///
    /// # Errors
    /// As [`ProcessManager::attach`], and `AttachmentLock`.
    pub fn attach_locked(
        region: &Region,
        settings: &Settings,
        locks: Arc<dyn AttachmentLocks>,
    ) -> Result<ProcessManager> {
        ProcessManager::attach_with(region, settings, Some(locks))
    }

    /// Opens the process manager of a region as an observer: takes no slot and no attachment lock, so no session can
    /// join, and changes nothing. An observer may open the region at any time.
    ///
    /// # Errors
    /// `NotInitialised` if the region has no process manager.
    pub fn look(region: &Region, settings: &Settings, locks: Arc<dyn AttachmentLocks>) -> Result<ProcessManager> {
        ProcessManager::open_with(region, settings, |header, _| Ok(Attachments::look(region, header)?.asking(locks)))
    }

    /// Returns whether this handle only observes the region ([`ProcessManager::look`]).
    pub fn is_observer(&self) -> bool {
        self.0.attachments.is_observer()
    }

    fn attach_with(
        region: &Region,
        settings: &Settings,
        locks: Option<Arc<dyn AttachmentLocks>>,
    ) -> Result<ProcessManager> {
        ProcessManager::open_with(region, settings, |header, slots| Attachments::attach(region, header, slots, locks))
    }

    fn open_with(
        region: &Region,
        settings: &Settings,
        attach: impl FnOnce(&ProcessHeader, &Slab<SessionSlot>) -> Result<Attachments>,
    ) -> Result<ProcessManager> {
        let none = || Error::NotInitialised { path: region.path().to_path_buf() };
        let header = region.root::<ProcessHeader>(RootSlot::Process).ok_or_else(none)?;
        let header = region.hold(header);
        let slots = Slab::attach(region, header.slots.load().ok_or_else(none)?);
        let attachments = attach(&header, &slots)?;
        Ok(ProcessManager(Arc::new(Inner {
            region: region.clone(),
            header,
            slots,
            settings: settings.clone(),
            attachments,
            repairer: OnceLock::new(),
            leaving: Leaving::new(),
            has_barriers: AtomicBool::new(false),
        })))
    }

    /// Lets the barriers of other processes reach this process's threads, if the kernel can. Takes microseconds in a
    /// process of one thread, and milliseconds in a process of several.
    pub fn join_barriers(&self) {
        if !os::join_barriers() {
            return;
        }
        // A swap, not a store: if a session that frees pages does not see the new value, it unlinked the pages before
        // this swap.
        self.0.header.has_joined.fetch_or(1);
        // Relaxed: the system call and the swap are fences.
        self.0.has_barriers.store(true, Ordering::Relaxed);
    }

    /// Returns whether the barriers of other processes reach this process's threads.
    #[inline]
    pub fn has_barriers(&self) -> bool {
        self.0.has_barriers.load(Ordering::Relaxed)
    }

    /// Returns when every running thread of every process with [`ProcessManager::has_barriers`] has passed a full
    /// fence. After its fence, such a thread sees the stores made before this call. After this call, this session sees
    /// the stores that the thread made before its fence.
    pub fn barrier(&self) {
        os::barrier_of_joined();
    }

    /// Like [`ProcessManager::barrier`]; called between [`ProcessManager::next_tree_epoch`] and
    /// [`ProcessManager::tree_epoch_passed`]. Does nothing if no process has joined the barriers: then every session
    /// latches all pages that it visits.
    pub fn barrier_of_visits(&self) {
        if self.0.header.has_joined.load() != 0 && !planted("process: page visits are checked without a barrier") {
            self.barrier();
        }
    }

    /// Returns the mark that distinguishes this process from a child made by fork or clone. A child must not use the
    /// inherited sessions: they are its parent's.
    pub fn fork_mark(&self) -> ForkMark {
        self.0.attachments.process().mark()
    }

    /// Returns the pid of the process that attached.
    pub fn pid(&self) -> u32 {
        self.0.attachments.process().pid()
    }

    /// Returns whether the process with this attachment lock is seen to have ended, even if the attachment lock is
    /// still held: a child made by a raw `clone` keeps the lock until it calls the library or ends (PROTOCOLS D9). For
    /// a caller that has not attached yet.
    pub fn has_ended(region: &Region, lock: u64) -> bool {
        let header = region.root::<ProcessHeader>(RootSlot::Process).map(|header| region.hold(header));
        let Some(attachments) = header.map(|header| Attachments::look(region, &header)) else { return false };
        attachments.is_ok_and(|attachments| attachments.owner_has_ended(lock))
    }

    /// Frees the slots of dead processes that have no session left. Called when a process attaches; also useful after a
    /// repair.
    pub fn forget_gone(&self) {
        self.0.attachments.forget_gone(&self.0.slots);
    }

    /// Sets the repairer of dead sessions. The environment, which knows all managers, sets it once. Without a
    /// repairer, a session that waits for a dead holder panics with the holder's name instead of waiting for ever.
    pub fn set_repairer(&self, repairer: Box<dyn Repairer>) {
        // A second repairer belongs to another handle of the same environment. It is ignored, because the first
        // repairer does the same work.
        let _ = self.0.repairer.set(repairer);
    }

    /// Marks the region broken: every session that waits in it, or is about to, leaves it by unwinding with
    /// [`Broken`]. On return, the stores of sessions that had not seen the mark are visible here.
    pub fn declare_broken(&self) {
        self.0.region.mark_broken();
        if !planted("process: a region is declared broken without a barrier") {
            os::barrier_everywhere();
        }
    }

    /// Discards the region after a wild store: the region contains a value that no session stores. The caller unwinds,
    /// and all other sessions unwind, too (PROTOCOLS D13).
    ///
    /// # Panics
    /// Without a repairer, with `why`.
    #[cold]
    pub fn give_up(&self, why: &str) -> ! {
        match self.0.repairer.get() {
            Some(repairer) => repairer.give_up(why),
            None => panic!("the shared memory is broken: {why}"),
        }
        session::leave_broken()
    }

    /// Returns whether the session still has its slot: it lives, or is dead and not yet repaired.
    pub fn exists(&self, session: SessionId) -> bool {
        self.slot(session).is_some()
    }

    /// Returns the number of times that the region was rebuilt while in use.
    pub fn rebuild_count(&self) -> u64 {
        self.0.header.rebuilt.load()
    }

    /// Returns how long repairs took since the region was made.
    pub fn repair_times(&self) -> RepairTimes {
        self.counts().map_or_else(RepairTimes::default, RepairCounts::times)
    }

    fn counts(&self) -> Option<&RepairCounts> {
        self.0.region.try_at(self.0.header.times.load()?)
    }

    /// Sets the number of rebuilds ([`ProcessManager::rebuild_count`]) in a new region.
    pub fn set_rebuild_count(&self, count: u64) {
        self.0.header.rebuilt.publish(count);
    }

    /// Checks the process manager's part of the region for traces of a wild store (PROTOCOLS F3).
    ///
    /// # Errors
    /// The fault, as half a sentence.
    pub fn check(&self) -> std::result::Result<(), String> {
        self.0.region.check_header()?;
        self.0.slots.check()?;
        self.0.attachments.check()?;
        let is_nobodys = |slot: &SessionSlot| {
            let status = slot.status.load();
            let is_lost = status.state() == State::Alive && !self.0.attachments.is_known(status.attachment());
            is_lost && slot.status.load() == status
        };
        match self.slots().find(|(_, slot)| is_nobodys(slot)) {
            Some((index, _)) => Err(format!("session slot {index} belongs to no process")),
            None => Ok(()),
        }
    }

    /// Returns the places of the process manager's structures: for tests that damage them.
    #[doc(hidden)]
    pub fn extents(&self) -> Vec<Extent> {
        let mut all = vec![
            Extent { name: "region header", range: 0..rio::HEADER_BYTES },
            Extent::of("process header", &self.0.header),
        ];
        all.extend(Extent::of_slab("session slab", "session slots", &self.0.slots));
        all.extend(self.0.attachments.extents());
        for (_, slot) in self.slots().filter(|(_, slot)| slot.status.load().state() != State::Free) {
            let Some(log) = slot.undo.load() else { continue };
            let bytes = |at: u64, count: u64| at..at + count;
            all.push(Extent { name: "undo log headers", range: bytes(log.raw(), size_of::<rio::UndoLog>() as u64) });
            let area = self.0.region.at(log).area.load().map_or(0, Offset::raw);
            // The extent is only the place of the first images, because the rest of the log is seldom in use.
            all.push(Extent { name: "undo logs", range: bytes(area, 256) });
        }
        all
    }

    /// Returns the region that the sessions are in.
    #[inline]
    pub fn region(&self) -> &Region {
        &self.0.region
    }

    /// Wakes the session if it sleeps; otherwise makes its next sleep return at once. Progress never depends on a wake
    /// (PROTOCOLS D8).
    #[inline]
    pub fn wake(&self, session: SessionId) {
        if let Some(slot) = self.slot(session) {
            sleep::wake(slot);
        }
    }

    /// Returns whether the session lives: it has not left, is not marked dead, and its process is not known to have
    /// ended (PROTOCOLS D9). A stopped process lives.
    pub fn is_alive(&self, session: SessionId) -> bool {
        self.slot(session).is_some_and(|slot| self.tenant_lives(slot))
    }

    /// Returns the identity of the session's process.
    fn identity(&self, session: SessionId) -> Option<liveness::Identity> {
        let attachment = self.slot(session)?.status.load().attachment();
        self.0.attachments.identity(attachment)
    }

    /// Returns whether the session's process is certainly stopped, by a signal or a debugger.
    pub fn is_stopped(&self, session: SessionId) -> bool {
        self.identity(session).is_some_and(|identity| self.0.attachments.process().sees_stopped(identity))
    }

    /// Returns the pid of the session's process if that process is certainly stopped, by a signal or a debugger.
    pub fn stopped_pid(&self, session: SessionId) -> Option<u32> {
        let identity = self.identity(session)?;
        self.0.attachments.process().sees_stopped(identity).then_some(identity.pid)
    }

    /// Returns whether the session's process can be seen to run. If not, it may be stopped, or paused with its
    /// container, and may resume its work at any later time.
    pub fn is_seen_running(&self, session: SessionId) -> bool {
        self.identity(session).is_some_and(|identity| self.0.attachments.process().sees_running(identity))
    }

    /// Returns a description of a session and its process, for messages.
    pub fn describe(&self, session: SessionId) -> String {
        let pid = self.identity(session).map_or(0, |identity| identity.pid);
        let stopped = if self.is_stopped(session) { ", which is stopped," } else { "" };
        match pid {
            0 => session.to_string(),
            pid => format!("{session} of process {pid}{stopped}"),
        }
    }

    /// Returns the present exclusive holder of the latch at `place`, for the tools.
    pub fn latch_owner(&self, place: u64) -> Option<SessionId> {
        self.0.region.try_at(Offset::<Latch>::from_raw(place)?)?.owner()
    }

    /// Returns every session, including dead sessions, for the tools.
    pub fn sessions(&self) -> Vec<SessionInfo> {
        let taken = |slot: &&SessionSlot| slot.status.load().state() != State::Free;
        let info = |(index, slot): (u32, &SessionSlot)| {
            let status = slot.status.load();
            let process = self.0.attachments.identity(status.attachment());
            slot.info(index, status, self.tenant_lives(slot), process.map_or(0, |process| process.pid))
        };
        self.slots().filter(|(_, slot)| taken(slot)).map(info).collect()
    }

    /// Returns every present task of a repair with its session, for the tools.
    pub fn roles(&self) -> Vec<(&'static str, SessionId)> {
        let taken = |(_, slot): &(u32, &SessionSlot)| slot.status.load().state() != State::Free;
        let reapers = self.slots().filter(taken).map(|(_, slot)| {
            let generation = slot.status.load().generation();
            ("repairs a dead session", slot.reaper.load().of_tenant(generation))
        });
        let freezer = ("counts the holders of a latch again", self.0.header.freezer.load());
        reapers.chain([freezer]).filter(|(_, session)| *session != SessionId::NONE).collect()
    }

    /// Returns the appends that sessions have noted and not yet cleared (PROTOCOLS D3): the LSN and the transaction.
    /// The transaction is zero if the append belongs to no transaction.
    pub fn noted_appends(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.0.slots.iter().filter_map(|slot| {
            // Acquire: a cleared note means that the record is in its transaction's slot.
            let lsn = slot.append_lsn.load();
            let txn = slot.append_txn.load();
            // If the LSN has changed, the session has written a later note, and `txn` may belong to that note.
            (lsn != 0 && slot.append_lsn.load() == lsn).then_some((lsn, txn))
        })
    }

    /// Raises the tree epoch. A page that was unlinked before may be used again once the returned number [has
    /// passed](ProcessManager::tree_epoch_passed) (PROTOCOLS T2).
    ///
    /// A session that reads inner pages without their latches passes no fence between the note of its visit and its
    /// first read. So the caller calls [`ProcessManager::barrier_of_visits`] before it asks whether the number has
    /// passed. After the barrier, the caller sees the note, or the session sees the unlinking.
    pub fn next_tree_epoch(&self) -> u64 {
        self.0.header.tree_epoch.fetch_add(1) + 1
    }

    /// Returns whether every session that was inside a tree operation when `epoch` began has left it.
    pub fn tree_epoch_passed(&self, epoch: u64) -> bool {
        self.slots().all(|(_, slot)| {
            let entered = slot.tree_epoch.load();
            entered == 0 || entered >= epoch
        })
    }

    fn slots(&self) -> impl Iterator<Item = (u32, &SessionSlot)> {
        (1..).zip(self.0.slots.iter())
    }

    /// Returns the slot of a session that has not left it.
    #[inline]
    fn slot(&self, session: SessionId) -> Option<&SessionSlot> {
        let index = session.index();
        if index == 0 || index > self.0.slots.capacity() {
            return None;
        }
        let slot = self.0.slots.at(index);
        let status = slot.status.load();
        (status.generation() == session.generation() && status.state() != State::Free).then_some(slot)
    }

    fn tenant_lives(&self, slot: &SessionSlot) -> bool {
        let status = slot.status.load();
        status.state() == State::Alive && self.0.attachments.lives(status.attachment())
    }

    #[cold]
    pub(crate) fn help_the_dead(&self, by: &Session) {
        if let Some(repairer) = self.0.repairer.get() {
            if !self.dead_sessions().is_empty() {
                repairer.repair_all(by);
            }
        }
    }

    /// Returns whether there is a dead session that cannot be repaired. Such a session holds its latches and locks
    /// until the environment is opened again.
    pub fn are_dead_for_good(&self) -> bool {
        let cannot = self.0.repairer.get().is_some_and(|repairer| !repairer.can_repair());
        cannot && !self.dead_sessions().is_empty()
    }

    /// Handles the death of `dead`, which holds a latch that `waiting` waits for.
    #[cold]
    fn meet_dead(&self, waiting: &Session, dead: SessionId) {
        match self.0.repairer.get() {
            Some(repairer) => repairer.free_latches(waiting, dead),
            None => panic!(
                "{dead} died holding a latch that {} waits for, and no session here can repair it: end every process that uses the environment and open it again",
                waiting.id()
            ),
        }
    }
}

#[cfg(test)]
mod tests;

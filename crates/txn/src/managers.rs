//! The managers of one environment, as one process sees them: the bundle everything above is handed.

use std::sync::{Arc, Mutex, TryLockError};
use std::time::{Duration, Instant};

use libtp_buffer::BufferManager;
use libtp_lock::LockManager;
use libtp_log::{Control, ControlFile, LogManager, Lsn};
use libtp_process::{ProcessManager, Session, SessionId};
use rio::{failpoint, planted, Extent, Region, RootSlot};

use crate::application::Applications;
use crate::checkpoint::{Checkpointed, Role};
use crate::record_table::{RecordTable, RecordType};
use crate::shortcuts::{LongShortcutSet, LongestShortcutSet, Shortcut, ShortcutEntries, ShortcutSet, Shortcuts};
use crate::slot::{Ended, TxnHeader, TxnInfo, TxnSlot, TxnTable};
use crate::spares::Spares;
use crate::unresolved::Unresolved;
use crate::{log_records, Result};

/// So long whoever changes the control file is waited for: far longer than two syncs take.
const CONTROL_PATIENCE: Duration = Duration::from_secs(5);
/// So often it is looked whether another thread of this process still does.
const MOMENT: Duration = Duration::from_millis(1);

/// Settings of the transaction manager.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// A checkpoint is due when this much log was written since the last.
    pub checkpoint_log_bytes: u64,
    /// Whether the lock manager is told how much each transaction has logged, for victims chosen by it.
    pub count_log_bytes: bool,
    /// Threads that repeat history at a restart; unset, by the length of the log and the processors there are.
    pub recovery_threads: Option<u32>,
    /// So much log is kept for snapshots, and ghosts and replaced values that were let go of within it.
    pub snapshot_log_bytes: u64,
    /// So long they are kept for one snapshot.
    pub snapshot_age: Duration,
    /// So much log is kept behind the tail, whoever needs it or not: for a backup of what was logged since the last.
    pub keep_log_bytes: u64,
    /// Nothing is logged and nothing is locked: the paper's NOTP (LIBTP 5.1.1), for measurements.
    #[cfg(feature = "unprotected")]
    pub is_unprotected: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            checkpoint_log_bytes: 256 << 20,
            count_log_bytes: false,
            recovery_threads: None,
            snapshot_log_bytes: 4 << 30,
            snapshot_age: Duration::from_secs(3600),
            keep_log_bytes: 0,
            #[cfg(feature = "unprotected")]
            is_unprotected: false,
        }
    }
}

/// One process's handles to all managers of an environment.
pub struct Managers {
    /// The shared memory.
    pub region: Region,
    /// Sessions and latches.
    pub processes: ProcessManager,
    /// The log.
    pub log: Arc<LogManager>,
    /// Locks.
    pub locks: LockManager,
    /// Pages.
    pub buffers: BufferManager,
    /// Every log-record type this process knows.
    pub types: RecordTable,
    /// Settings.
    pub settings: Settings,
    pub(crate) txns: TxnTable,
    control: Mutex<ControlFile>,
    pub(crate) spares: Spares,
}

/// The managers below, to be bundled.
pub struct Parts {
    /// The shared memory.
    pub region: Region,
    /// Sessions and latches.
    pub processes: ProcessManager,
    /// The log.
    pub log: Arc<LogManager>,
    /// Locks.
    pub locks: LockManager,
    /// Pages.
    pub buffers: BufferManager,
    /// The control file.
    pub control: ControlFile,
}

impl Managers {
    /// Whether nothing is logged and nothing is locked: for measurements only, where feature `unprotected` was asked for.
    #[inline(always)]
    pub fn is_unprotected(&self) -> bool {
        #[cfg(feature = "unprotected")]
        return self.settings.is_unprotected;
        #[cfg(not(feature = "unprotected"))]
        false
    }

    /// The layout of all that it shares.
    pub const LAYOUT: u64 = rio::layout![
        TxnHeader,
        TxnSlot,
        Ended,
        Unresolved,
        Shortcuts,
        ShortcutSet,
        LongShortcutSet,
        LongestShortcutSet,
        ShortcutEntries,
        Shortcut
    ];

    /// Bytes of the region the transaction manager needs at first.
    pub fn size(_settings: &Settings) -> u64 {
        (24 << 10) + size_of::<Shortcuts>() as u64
    }

    /// Makes the transaction table in a new region, for a log whose last checkpoint is at `checkpoint`: the next is due by
    /// its distance from there, so that however often we crash, a restart never reads much more log than that.
    ///
    /// # Errors
    /// The region cannot grow.
    pub fn init(region: &Region, checkpoint: Lsn) -> Result<()> {
        let header = TxnTable::init(region)?;
        region.at(header).restart_lsn.init(checkpoint);
        Ok(())
    }

    /// The highest commit record that a region's transactions published, whoever they were; none if the region has no
    /// transaction table.
    pub fn last_commit(region: &Region) -> Option<Lsn> {
        let header = region.root::<TxnHeader>(RootSlot::Txn)?;
        Some(region.try_at(header)?.last_commit.load())
    }

    /// Bundles the managers with the transaction table; `types` are the access methods' record types.
    pub fn attach(parts: Parts, types: impl IntoIterator<Item = RecordType>, settings: Settings) -> Arc<Managers> {
        Managers::attach_with(parts, types, Applications::default(), settings)
    }

    /// As [`Managers::attach`], with log-record types of the application.
    pub fn attach_with(
        parts: Parts,
        types: impl IntoIterator<Item = RecordType>,
        applications: Applications,
        settings: Settings,
    ) -> Arc<Managers> {
        let Parts { region, processes, log, locks, buffers, control } = parts;
        let types = RecordTable::new(log_records::record_types().into_iter().chain(types)).with(applications);
        let txns = TxnTable::attach(&region);
        let managers = Arc::new(Managers {
            region,
            processes,
            log,
            locks,
            buffers,
            types,
            settings,
            txns,
            control: Mutex::new(control),
            spares: Spares::default(),
        });
        managers.become_repairer();
        managers
    }

    /// Tells the control file where a restart would begin.
    ///
    /// # Errors
    /// It cannot be written or synced: what it said before stays in force.
    pub(crate) fn write_control(&self, by: &Session, taken: &Checkpointed, kept: Lsn, clean: bool) -> Result<()> {
        let unresolved = self.unresolved_txns(by);
        self.change_control(by, |words| {
            words.checkpoint = taken.lsn;
            words.redo_point = taken.redo_point;
            words.oldest = taken.keep_from;
            words.durable_end = self.log.durable();
            words.clean = clean;
            words.rio &= !clean;
            words.relaxed &= !clean;
            words.unresolved = unresolved;
            let kept = if planted("txn: lives of a log that is kept are forgotten") { taken.keep_from } else { kept };
            words.incarnations.forget_below(taken.keep_from.min(kept));
        })
    }

    /// Changes what the control file says. Nobody else does so between its read and its write, in this process or another:
    /// a checkpoint and a new database's number would otherwise take each other back. Whoever is at it may be stopped, and is
    /// then waited for no longer than that.
    pub(crate) fn change_control<T>(&self, by: &Session, change: impl FnOnce(&mut Control) -> T) -> Result<T> {
        let changer = &self.txns.header.changer;
        let held = || {
            let holder = Some(changer.load()).filter(|&holder| self.processes.is_alive(holder));
            let what = holder.map_or_else(|| "another process".into(), |holder| self.processes.describe(holder));
            crate::Error::ControlHeld { holder: what, seconds: CONTROL_PATIENCE.as_secs() }
        };
        // One time for both: else of several threads each would wait for all before it to give up.
        let begun = Instant::now();
        let control = loop {
            match self.control.try_lock() {
                Ok(control) => break control,
                Err(TryLockError::Poisoned(poisoned)) => break poisoned.into_inner(),
                Err(TryLockError::WouldBlock) if begun.elapsed() >= CONTROL_PATIENCE => return Err(held()),
                Err(TryLockError::WouldBlock) => std::thread::sleep(MOMENT),
            }
        };
        let Some(_changing) = control.changing_within(CONTROL_PATIENCE.saturating_sub(begun.elapsed()))? else {
            return Err(held());
        };
        // For people, and for who makes the region anew and waits for writers: what keeps others out is the kernel's lock. It may
        // name one who has died.
        changer.publish(by.id());
        let _changer = Role { region: &self.region, word: changer, me: by.id() };
        by.leave_if_broken();
        failpoint("control: file held");
        let mut words = control.read()?;
        let changed = change(&mut words);
        failpoint("control: about to be written");
        // Looked at last: we may have been stopped for so long that the memory was made anew meanwhile.
        if control.read()?.incarnation() != self.log.incarnation() {
            let what = "the log has begun another incarnation in other memory".to_string();
            return Err(crate::Error::Broken { what });
        }
        let written = control.write(&words);
        if let Err(libtp_log::Error::Failed { .. }) = &written {
            // Nobody knows which of its slots is on the disk, and so what a restart would find.
            self.log.poison();
        }
        failpoint("control: written, held");
        written?;
        Ok(changed)
    }

    /// Hands out the next database file's number, once and for all.
    ///
    /// # Errors
    /// The control file cannot be written; `ControlHeld`.
    pub fn next_file_id(&self, by: &Session) -> Result<u32> {
        self.change_control(by, |words| {
            let id = words.next_file_id;
            words.next_file_id = id + 1;
            id
        })
    }

    /// The living sessions that are about to write to files: none while the region is made anew (PROTOCOLS D13).
    pub fn writers(&self) -> Vec<SessionId> {
        let header = &self.txns.header;
        let changer = if planted("txn: who changes the control file is not waited for") {
            SessionId::NONE
        } else {
            header.changer.load()
        };
        let roles = [header.checkpointer.load(), changer, self.buffers.writer()];
        let all = roles.into_iter().chain(self.log.writers());
        all.filter(|&session| session != SessionId::NONE && self.processes.is_alive(session)).collect()
    }

    /// Checks what can be seen of a wild store without stopping anybody (PROTOCOLS F3): before a repair goes by it.
    ///
    /// # Errors
    /// What is wrong, half a sentence.
    pub fn check_structures(&self) -> std::result::Result<(), String> {
        self.processes.check()?;
        self.log.check_words()?;
        self.locks.check_slabs()?;
        self.buffers.check_slabs()?;
        self.txns.unresolved.check()?;
        self.txns.slots.check()
    }

    /// What a latch guards, by where it lies, for people. Takes no latch.
    pub fn latch_name(&self, place: u64) -> String {
        if let Some(page) = self.buffers.page_at(place) {
            let name = self.buffers.file_by_id(page.file()).map_or_else(|| page.file().to_string(), |info| info.name);
            return format!("page {} of {name}", page.page());
        }
        let extents = self.extents();
        let extent = extents.iter().find(|extent| extent.range.contains(&place));
        match extent.map(|extent| (extent.name, place - extent.range.start)) {
            Some(("log header", 0)) => "the log's tail".into(),
            Some(("log header", _)) => "the log's ring".into(),
            Some(("lock buckets", _)) => "a bucket of the lock table".into(),
            Some(("lock header", _)) => "the lock table's free slots".into(),
            Some(("page table buckets", _)) => "a bucket of the page table".into(),
            Some(("page table header", _)) => "the growth of the page table".into(),
            Some(("shelves", _)) => "a list of free frames".into(),
            Some(("pool table", _)) => "the table of buffer pools".into(),
            Some(("transaction header", _)) => "the table of transactions".into(),
            Some((name, _)) => format!("the latch at {place} in the {name}"),
            None => format!("the latch at {place}"),
        }
    }

    /// Where the structures of all managers lie: for tests that damage them.
    #[doc(hidden)]
    pub fn extents(&self) -> Vec<Extent> {
        let mut all = self.processes.extents();
        all.extend(self.log.extents());
        all.extend(self.locks.extents());
        all.extend(self.buffers.extents());
        all.push(Extent::of("transaction header", &self.txns.header));
        all.extend(Extent::of_slab("transaction slab", "transactions", &self.txns.slots));
        all.extend(Extent::of_slab("unresolved slab", "unresolved", &self.txns.unresolved));
        all
    }

    /// Every running transaction.
    pub fn transactions(&self) -> Vec<TxnInfo> {
        self.txns
            .running()
            .map(|(_, slot)| TxnInfo {
                id: slot.id.get(),
                state: crate::State::from_word(slot.state.load()),
                session: slot.owner.get(),
                first_lsn: slot.first_lsn.get(),
                last_lsn: slot.last_lsn.load(),
                locker: slot.locker.get(),
                is_offered: slot.is_offered(),
            })
            .collect()
    }

    /// The session that has that locker, whether it runs a transaction or not.
    pub fn session_of_locker(&self, locker: u32) -> Option<libtp_process::SessionId> {
        self.txns.used().find(|slot| slot.locker.get() == locker).map(|slot| slot.owner.get())
    }

    /// The last checkpoint's record since the region was made; none if there was none.
    pub fn last_checkpoint(&self) -> Lsn {
        self.txns.header.checkpoint_lsn.load()
    }

    /// Checkpoints taken since the region was made.
    pub fn checkpoint_count(&self) -> u64 {
        self.txns.header.checkpoints.load()
    }
}

//! The managers of one environment, as one process sees them: the bundle that the layers above get.

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

/// The longest wait for a session that changes the control file: far longer than two syncs take.
const CONTROL_PATIENCE: Duration = Duration::from_secs(5);
/// The pause between two looks whether another thread of this process still changes it.
const MOMENT: Duration = Duration::from_millis(1);

/// Settings of the transaction manager.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// A checkpoint is due when this much log was written since the last.
    pub checkpoint_log_bytes: u64,
    /// Whether the lock manager gets the number of log bytes of each transaction, to choose victims by it.
    pub count_log_bytes: bool,
    /// Threads that repeat history at a restart. If unset, the length of the log and the number of processors decide.
    pub recovery_threads: Option<u32>,
    /// Log bytes that are kept for snapshots, with the ghosts and replaced values that were given up within them.
    pub snapshot_log_bytes: u64,
    /// How long these are kept for one snapshot.
    pub snapshot_age: Duration,
    /// The two values before, if the program or libtp.toml names them: then every process keeps as much.
    pub asked_for_snapshots: (Option<u64>, Option<Duration>),
    /// Log bytes that are kept behind the tail, needed or not: for a backup of the log since the last backup.
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
            asked_for_snapshots: (None, None),
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
    /// Returns whether nothing is logged and nothing is locked: for measurements only, with feature `unprotected`.
    #[inline(always)]
    pub fn is_unprotected(&self) -> bool {
        #[cfg(feature = "unprotected")]
        return self.settings.is_unprotected;
        #[cfg(not(feature = "unprotected"))]
        false
    }

    /// The layout of the structures that the transaction manager shares between processes.
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

    /// Returns the bytes of the region that the transaction manager needs at first.
    pub fn size(_settings: &Settings) -> u64 {
        (24 << 10) + size_of::<Shortcuts>() as u64
    }

    /// Makes the transaction table in a new region, for a log whose last checkpoint is at `checkpoint`. The next
    /// checkpoint is due by its distance from there, so that a restart never reads much more log than that, however
    /// often the system crashes.
    ///
    /// # Errors
    /// The region cannot grow.
    pub fn init(region: &Region, checkpoint: Lsn) -> Result<()> {
        let header = TxnTable::init(region)?;
        region.at(header).restart_lsn.init(checkpoint);
        Ok(())
    }

    /// Returns the highest commit record that the transactions of a region published; `None` if the region has no
    /// transaction table.
    pub fn last_commit(region: &Region) -> Option<Lsn> {
        let header = region.root::<TxnHeader>(RootSlot::Txn)?;
        Some(region.try_at(header)?.last_commit.load())
    }

    /// Bundles the managers with the transaction table; `types` are the access methods' record types.
    pub fn attach(parts: Parts, types: impl IntoIterator<Item = RecordType>, settings: Settings) -> Arc<Managers> {
        Managers::attach_with(parts, types, Applications::default(), settings)
    }

    /// Does as [`Managers::attach`], with log-record types of the application.
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
        managers.share_settings();
        managers.become_repairer();
        managers
    }

    /// Makes every process keep the log that this process asks for: any process may take the next checkpoint.
    fn share_settings(&self) {
        let (header, settings) = (&self.txns.header, &self.settings);
        if self.processes.only_looks() || planted("txn: each process keeps the log that it asks for itself") {
            return;
        }
        header.keep_log.fetch_max(settings.keep_log_bytes);
        let (log, age) = settings.asked_for_snapshots;
        header.snapshot_log.fetch_max(log.unwrap_or(0));
        let micros = age.map_or(0, |age| u64::try_from(age.as_micros()).unwrap_or(u64::MAX));
        header.snapshot_age.fetch_max(micros);
    }

    /// Writes to the control file where a restart would begin.
    ///
    /// # Errors
    /// The control file cannot be written or synced: its earlier contents stay in force.
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

    /// Changes the contents of the control file. No other session, in this process or another, changes them between the
    /// read and the write: a checkpoint and a new database's number would otherwise take each other back. The session
    /// that changes the file may be stopped: it is waited for no longer than `CONTROL_PATIENCE`.
    pub(crate) fn change_control<T>(&self, by: &Session, change: impl FnOnce(&mut Control) -> T) -> Result<T> {
        let changer = &self.txns.header.changer;
        let held = || {
            let holder = Some(changer.load()).filter(|&holder| self.processes.is_alive(holder));
            let what = holder.map_or_else(|| "another process".into(), |holder| self.processes.describe(holder));
            crate::Error::ControlHeld { holder: what, seconds: CONTROL_PATIENCE.as_secs() }
        };
        // One time for both waits: else each of several threads would wait for all threads before it.
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
        // For people, and for the session that makes the region anew and waits for writers. The kernel's lock keeps
        // other sessions out. This word may name a dead session.
        changer.publish(by.id());
        let _changer = Role { region: &self.region, word: changer, me: by.id() };
        by.leave_if_broken();
        failpoint("control: file held");
        let mut words = control.read()?;
        let changed = change(&mut words);
        failpoint("control: about to be written");
        // Checked last: this process may have been stopped for so long that the region was made anew meanwhile.
        if control.read()?.incarnation() != self.log.incarnation() {
            let what = "the log has begun another incarnation in other memory".to_string();
            return Err(crate::Error::Broken { what });
        }
        let written = control.write(&words);
        if let Err(libtp_log::Error::Failed { .. }) = &written {
            // It is not known which of its slots is on the disk, and so what a restart would find.
            self.log.poison();
        }
        failpoint("control: written, held");
        written?;
        Ok(changed)
    }

    /// Hands out the number of the next database file, once and for all.
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

    /// Returns the living sessions that are about to write to files. A session that makes the region anew waits until
    /// there are none (PROTOCOLS D13).
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

    /// Checks the structures for traces of a wild store, without stopping any session (PROTOCOLS F3). Called before a
    /// repair relies on them.
    ///
    /// # Errors
    /// The damage, as half a sentence.
    pub fn check_structures(&self) -> std::result::Result<(), String> {
        self.processes.check()?;
        self.log.check_words()?;
        self.locks.check_slabs()?;
        self.buffers.check_slabs()?;
        self.txns.unresolved.check()?;
        self.txns.slots.check()
    }

    /// Returns the name of the thing that the latch at `place` guards, for people. Takes no latch.
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

    /// Returns where the structures of all managers lie, for tests that damage them.
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

    /// Returns every running transaction.
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

    /// Returns how many transactions ended with a commit record, and how many by an abort, since the region was made.
    pub fn ended_counts(&self) -> (u64, u64) {
        let counts = self.txns.used().map(|slot| (slot.ended_count.load(), slot.aborted_count.load()));
        counts.fold((0, 0), |(commits, aborts), (more, other)| (commits + more, aborts + other))
    }

    /// Returns the session that has that locker, whether it runs a transaction or not.
    pub fn session_of_locker(&self, locker: u32) -> Option<libtp_process::SessionId> {
        self.txns.used().find(|slot| slot.locker.get() == locker).map(|slot| slot.owner.get())
    }

    /// Returns the last checkpoint's record since the region was made; `Lsn::NONE` if there was no checkpoint.
    pub fn last_checkpoint(&self) -> Lsn {
        self.txns.header.checkpoint_lsn.load()
    }

    /// Returns the number of checkpoints taken since the region was made.
    pub fn checkpoint_count(&self) -> u64 {
        self.txns.header.checkpoints.load()
    }
}

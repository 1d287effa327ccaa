//! Snapshots, as a program holds them: read-only transactions that take no locks, wait only for the disk and are never
//! victims.
//!
//! Paper: none (PROTOCOLS S1 to S4). A snapshot has a session of its own. The session's slot records which part of the
//! log is kept for the snapshot. When the process dies, the repair of the session releases the snapshot.

use std::marker::PhantomData;
use std::sync::Arc;
use std::time::SystemTime;

use libtp_txn::TxnSession;
use rio::planted;

use crate::region::generation::{Generation, Seated};
use crate::region::inner::Inner;
use crate::{Durability, Env, Error, Result, SessionId};

/// The state that was committed at one moment. Reads in a snapshot take no locks: no transaction waits for a snapshot,
/// and a snapshot waits for no transaction.
///
/// A snapshot shows every commit, of this process and of other processes, that could have been read when the snapshot
/// began. They include all commits that the calling thread has seen, and all that another thread saw and told this
/// thread about. If a read finds a commit that is not on disk, and whose answer waits for the disk
/// ([`Durability`](crate::Durability)), the read waits for the disk, too. So a crash of the machine takes back nothing
/// that a read returned. If the environment's commits are `Relaxed`, reads do not wait. A read undoes later changes in
/// copies of the records, with the log. The log is kept for a snapshot within limits (`snapshot_log`,
/// `snapshot_age_millis` in `libtp.toml`); beyond these limits a read may end with [`Error::SnapshotTooOld`]. If the
/// shared memory is rebuilt ([`Error::Rebuilt`]), the snapshot ends; another snapshot can begin immediately.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// let env = libtp::Env::create(dir.path())?;
/// let stock = env.btree("stock")?;
/// env.run(|txn| stock.put(txn, b"apples", b"3"))?;
/// let before = env.snapshot()?;
/// env.run(|txn| stock.put(txn, b"apples", b"2"))?;
/// assert_eq!(stock.get(&before, b"apples")?.as_deref(), Some(&b"3"[..]));
/// assert_eq!(stock.get(&env.snapshot()?, b"apples")?.as_deref(), Some(&b"2"[..]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Snapshot<'e> {
    env: &'e Arc<Inner>,
    seat: Option<Box<Seated>>,
    shown: libtp_record::Snapshot,
    not_sync: PhantomData<std::cell::Cell<()>>,
}

/// A snapshot held by some process, for people and tools.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldSnapshot {
    /// The session that holds it.
    pub session: SessionId,
    /// The pid of the session's process, in that process's own pid namespace; zero if unknown.
    pub pid: u32,
    /// The time when the snapshot began.
    pub since: SystemTime,
    /// The snapshot shows the commits below this LSN; `None` while it is being taken.
    pub lsn: Option<u64>,
    /// The snapshot needs the log from this LSN on.
    pub needs_from: u64,
    /// The number of log bytes from that LSN to the log's present end.
    pub log_bytes: u64,
    /// Whether the log is kept for the snapshot. If not, the snapshot is too old or needs too much log, and that log
    /// may be freed when its room is needed.
    pub is_kept: bool,
}

impl std::fmt::Debug for Snapshot<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Snapshot").field("lsn", &self.lsn()).finish()
    }
}

impl<'e> Snapshot<'e> {
    pub(crate) fn begin(env: &'e Arc<Inner>) -> Result<Snapshot<'e>> {
        loop {
            let seat = match env.take_session() {
                Err(Error::Rebuilt | Error::Panicked { .. }) => continue,
                seat => seat?,
            };
            match seat
                .generation
                .guarded_by(&seat.session, || Ok(seat.generation.managers.begin_snapshot(&seat.session)?))
            {
                Ok(view) => {
                    let shown = libtp_record::Snapshot::new(view);
                    return Ok(Snapshot { env, seat: Some(seat), shown, not_sync: PhantomData });
                }
                Err(Error::Rebuilt | Error::Panicked { .. }) => {}
                Err(refused) => {
                    env.give_session(seat);
                    return Err(refused);
                }
            }
        }
    }

    /// Returns the LSN below which commits are shown.
    pub fn lsn(&self) -> u64 {
        self.shown.view().lsn().raw()
    }

    /// Returns the number of log records that were read for this snapshot so far.
    pub fn log_reads(&self) -> u64 {
        self.shown.log_reads()
    }

    /// Waits until everything that the snapshot shows is on disk: for a program that gives the results of its reads to
    /// others. If all commits wait for the disk, the reads have already waited for the commits that they returned.
    ///
    /// # Errors
    /// `Failed` when writing to disk failed.
    pub fn durable(&self) -> Result<()> {
        let Seated { generation, session } = self.seated();
        self.guarded(|| Ok(generation.managers.wait_view_durable(session, self.shown.view())?))
    }

    #[inline]
    pub(crate) fn seated(&self) -> &Seated {
        self.seat.as_ref().expect("a snapshot holds its session until it ends")
    }

    /// Runs `work` in the snapshot. Returns only when the data that `work` read are on disk, if a crash of the machine
    /// could take them back. Replaces the results from a given-up region by `Rebuilt`, because its data are not
    /// reliable.
    #[inline]
    pub(crate) fn guarded<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        let Seated { generation, session } = self.seated();
        match generation.guarded_by(session, work) {
            Ok(done) if !self.shown.is_unsure() && !generation.managers.region.is_broken() => Ok(done),
            done => {
                self.settle(generation, session)?;
                done
            }
        }
    }

    /// Waits until the records that were read are on disk, if they must be. Refuses results from a given-up region.
    #[cold]
    #[inline(never)]
    fn settle(&self, generation: &Generation, session: &TxnSession) -> Result<()> {
        if self.shown.is_unsure() {
            if self.env.durability != Durability::Relaxed {
                generation
                    .guarded_by(session, || Ok(generation.managers.wait_view_durable(session, self.shown.view())?))?;
            }
            self.shown.note_on_disk();
        }
        match generation.managers.region.is_broken() && !planted("libtp: a snapshot of abandoned memory is read") {
            true => Err(Error::Rebuilt),
            false => Ok(()),
        }
    }

    /// Returns access to a database of the snapshot's environment handle.
    #[inline]
    pub(crate) fn access<'a>(
        &'a self,
        env: &'a Arc<Inner>,
        open: &'a libtp_record::Database,
    ) -> libtp_record::SnapshotAccess<'a> {
        assert!(Arc::ptr_eq(env, self.env), "a database is read with snapshots of its own environment handle");
        let Seated { generation, session } = self.seated();
        libtp_record::SnapshotAccess::new(&generation.managers, session, open, &self.shown)
    }
}

impl Drop for Snapshot<'_> {
    fn drop(&mut self) {
        let Some(seat) = self.seat.take() else { return };
        let Seated { generation, session } = &*seat;
        if generation.check_process().is_err() {
            // The session belongs to the parent.
            std::mem::forget(seat);
            return;
        }
        if session.session().is_dead() || generation.managers.region.is_broken() {
            return;
        }
        // If this fails, the repair of dead sessions releases the snapshot.
        let _ = generation.guarded_by(session, || {
            generation.managers.end_snapshot(session);
            Ok(())
        });
        self.env.give_session(seat);
    }
}

impl Env {
    /// Begins a snapshot of the committed state, for many reads or long reads that do not block writers.
    ///
    /// # Errors
    /// `Full` when shared memory cannot grow for one more session.
    pub fn snapshot(&self) -> Result<Snapshot<'_>> {
        Snapshot::begin(&self.0)
    }

    /// Returns every snapshot of every process, with the amount of log that is kept for it.
    pub fn snapshots(&self) -> Vec<HeldSnapshot> {
        if self.0.check_process().is_err() {
            return Vec::new();
        }
        let generation = self.0.newest();
        let held = generation.guarded(|| {
            let managers = &generation.managers;
            let (sessions, held) = (managers.processes.sessions(), managers.snapshots());
            // The tail is read after the list of snapshots, so no listed snapshot needs log beyond this tail.
            let tail = managers.log.tail();
            let some = |lsn: libtp_log::Lsn| Some(lsn.raw()).filter(|&lsn| lsn != 0);
            let show = |held: libtp_txn::SnapshotInfo| HeldSnapshot {
                session: held.session.into(),
                pid: sessions.iter().find(|session| session.id == held.session).map_or(0, |session| session.pid),
                since: held.since,
                lsn: some(held.lsn),
                needs_from: held.horizon.raw(),
                log_bytes: tail.since(held.horizon),
                is_kept: held.is_kept,
            };
            Ok(held.into_iter().map(show).collect())
        });
        held.unwrap_or_default()
    }
}

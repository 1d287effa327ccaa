//! Flushing: one session, the leader, writes the ring's new bytes to the segment files and syncs them.
//!
//! Paper: LIBTP section 4.2. A session that finds no leader becomes the leader. The leader always writes from
//! `durable`, even bytes that an earlier leader wrote: a page of the kernel's cache that is written again is dirty, so
//! the sync writes it to the disk. The leader raises `durable` only after the sync (PROTOCOLS L3). Appends continue
//! meanwhile: no latch is held.
//!
//! Invariants
//! 1. `durable` rises only after every byte below its new value was written and synced without an error.
//! 2. After an error that may lose bytes, `poison` is set before any caller gets an answer, and `durable` never rises
//!    again. After an error from a limit of the leader's process `poison` stays zero: the next leader writes the same
//!    bytes (L3).
//! 3. Each flush ends with a mark that has the durable end before the flush (L2).
//! 4. After its sync the leader checks that each written file still has the segment's name, and only then raises
//!    `durable` (F3).
//! 5. The first flush into a segment notes durably in the previous segment that the segment has begun, and only then
//!    raises `durable` (L2).
//!
//! If the leader dies: a waiter finds that the leader is dead, becomes the leader and writes again from `durable`.
//!
//! The `unsafe` is a promise to rio: no thread changes the bytes that the leader writes.
#![allow(unsafe_code)]

use std::sync::atomic::Ordering;

use libtp_io::{File, Operation};
use libtp_process::{leaves_roles, Session, SessionId};
use rio::{failpoint, planted, SharedHold};

use crate::segment_files::Opened;
use crate::tail::POISONED;
use crate::{Error, LogManager, Lsn, Result};

/// Proof that the log is durable up to a position. Only the log makes this proof. A write that must follow the log
/// (a page's write, by the write-ahead rule) takes the proof as an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FlushedTo(Lsn);

impl FlushedTo {
    /// Returns the position: everything before it is on the disk.
    #[inline]
    pub fn lsn(self) -> Lsn {
        self.0
    }

    /// Returns whether the record at `lsn` is on the disk.
    #[inline]
    pub fn covers(self, lsn: Lsn) -> bool {
        lsn < self.0
    }
}

/// The leadership of a flush. While this value lives, no other session raises `durable`, so the bytes from `durable` to
/// the tail neither move nor change.
pub(crate) struct Leader<'l> {
    log: &'l LogManager,
    me: SessionId,
}

// SAFETY: the published part of the tail is immutable, and its chunks move only below `durable`, which only the leader
// raises. The hold is used only for bytes between those two positions.
unsafe impl SharedHold for Leader<'_> {}

impl Drop for Leader<'_> {
    fn drop(&mut self) {
        if leaves_roles(self.log.processes.region()) {
            return;
        }
        // The swap fails if another session considered this session dead and has become the leader.
        let _ = self.log.header.leader.swap_if(self.me, SessionId::NONE);
    }
}

impl LogManager {
    /// Returns the log's durable end.
    #[inline]
    pub fn flushed(&self) -> FlushedTo {
        FlushedTo(self.durable())
    }

    /// Becomes the leader if there is no leader. With `is_suspect`, also becomes the leader if the leader has died.
    pub(crate) fn try_lead(&self, session: &Session, is_suspect: bool) -> Option<Leader<'_>> {
        let word = &self.header.leader;
        let holder = word.load();
        let is_suspect = is_suspect && !planted("log: sessions wait for a dead leader");
        if holder != SessionId::NONE && (!is_suspect || self.processes.is_alive(holder)) {
            return None;
        }
        let me = session.id();
        failpoint("log: about to lead");
        let leader = word.compare_exchange(holder, me).ok().map(|_| Leader { log: self, me });
        // Checked after this session has become the leader: a process that rebuilds the region waits until no
        // session leads.
        leave_given_up(session);
        leader
    }

    /// Makes everything published so far durable, and wakes the waiters.
    pub(crate) fn flush(&self, session: &Session, leader: Leader<'_>) -> Result<FlushedTo> {
        let (from, to) = self.append_mark(session);
        failpoint("log: flush begun");
        let written = if from == to { Ok(0) } else { self.write_and_sync(session, &leader, from, to) };
        match written {
            Err(error) if !is_final(&error) => {
                drop(leader);
                match self.no_other_writer.load(Ordering::Relaxed) {
                    false => {
                        tracing::warn!(%error, %from, %to, "this process could not write the log; another process may write it")
                    }
                    // The error was already reported: a warning for each commit would flood the program's log.
                    true => tracing::debug!(%error, %from, %to, "the log still cannot be written"),
                }
                self.wake_waiters(Lsn::new(u64::MAX));
                self.files.forget_foreign();
                if !matches!(&error, Error::Io(error) if error.is_limit_of_process()) {
                    // Other processes probably get the same error. So a commit of this process must not wait long for
                    // another process's flush.
                    self.no_other_writer.store(true, Ordering::Relaxed);
                }
                Err(Error::SteppedBack { cause: error.to_string() })
            }
            Err(error) => {
                // Published before any caller gets an answer. The next restart writes the ring's tail into new files.
                self.header.poison.publish(POISONED);
                drop(leader);
                tracing::error!(%error, %from, %to, "the log could not be made durable");
                self.wake_waiters(Lsn::new(u64::MAX));
                Err(Error::Failed { cause: error.to_string() })
            }
            Ok(syncs) => {
                let header = &*self.header;
                self.no_other_writer.store(false, Ordering::Relaxed);
                if self.is_poisoned() {
                    drop(leader);
                    self.wake_waiters(Lsn::new(u64::MAX));
                    return self.check_poison().map(|()| self.flushed());
                }
                // The ring's cache lines are written back first: after a crash of the system, restart compares the
                // ring with the files.
                self.keep(to.minus(8));
                // Release, within `raise`: if a thread loads the new value with acquire, the syncs come before the
                // load.
                failpoint("log: synced, durable end not published");
                header.durable.raise(to);
                failpoint("log: durable, flush not counted");
                header.sync_count.fetch_add(syncs);
                header.flush_count.fetch_add(u64::from(from != to));
                header.bytes_written.fetch_add(to.since(from));
                failpoint("log: durable, leader role held");
                drop(leader);
                failpoint("log: leader role free, no waiter woken");
                self.wake_waiters(to);
                failpoint("log: waiters woken");
                Ok(FlushedTo(to))
            }
        }
    }

    /// Writes `from .. to` out of the ring and syncs each segment it touches, in order.
    fn write_and_sync(&self, session: &Session, leader: &Leader<'_>, from: Lsn, to: Lsn) -> Result<u64> {
        let mut syncs = 0;
        let mut at = from;
        while at < to {
            let place = self.files.geometry().locate(at);
            let end = to.min(at.plus(place.left));
            let Opened::Good(file) = self.files.segment_to_write(place.segment)? else {
                return Err(self.files.damage(at, "the segment that was prepared is not there"));
            };
            let mut offset = place.offset;
            while at < end {
                let first = self.ring.piece(at, end, leader);
                let middle = at.plus(first.len() as u64);
                let second = if middle < end { self.ring.piece(middle, end, leader) } else { &[] };
                let skipped = already_written(file.as_ref(), offset, first, second);
                // The sync of the previous segment may have lasted longer than a process waits before it rebuilds the
                // region.
                leave_given_up(session);
                if skipped != 0 {
                    file.write_at(&[first, second].concat()[skipped..], offset + skipped as u64)?;
                } else if second.is_empty() {
                    file.write_at(first, offset)?;
                } else {
                    file.write_two_at(first, second, offset)?;
                }
                let written = first.len() + second.len();
                at = at.plus(written as u64);
                offset += written as u64;
            }
            failpoint("log: written, not synced");
            if planted("log: a failed sync is repeated") {
                file.sync().or_else(|_| file.sync())?;
            } else if !planted("log: a flush is not synced") {
                file.sync()?;
            }
            failpoint("log: segment synced");
            // A process that rebuilds the region replaces the old segments by new segments.
            self.files.check_in_place(place.segment, file.as_ref()).inspect_err(|_| leave_given_up(session))?;
            syncs += 1;
        }
        Ok(syncs + self.files.note_begun(from, to)?)
    }
}

/// Returns whether this error of a flush may lose bytes. No bytes are lost by an error from a limit of the process, by
/// an error before the first write, or by a write that finds the disk full: the bytes stay in memory, and a later
/// leader writes them.
fn is_final(error: &Error) -> bool {
    if planted("log: a flush that meets a limit of its process poisons the log") {
        return true;
    }
    match error {
        Error::Io(error) => match error.operation() {
            Operation::Write => !matches!(error, libtp_io::Error::Full { .. }) && !error.is_limit_of_process(),
            Operation::Sync => !error.is_limit_of_process(),
            _ => false,
        },
        // All other errors mean that the log's files were changed or removed.
        _ => true,
    }
}

/// Unwinds if the region was given up. Called before each write, because the files may then belong to another
/// incarnation.
fn leave_given_up(session: &Session) {
    if !planted("log: a session flushes in a broken region") {
        session.leave_if_broken();
    }
}

/// Returns the number of bytes that need not be written: zero. With a planted bug, returns the bytes that another
/// leader has written, even if that leader died of a failed sync (PROTOCOLS L3).
fn already_written(file: &dyn File, offset: u64, first: &[u8], second: &[u8]) -> usize {
    if !planted("log: bytes that another leader wrote are not written again") {
        return 0;
    }
    let mut found = vec![0; first.len() + second.len()];
    let read = file.read_at(&mut found, offset).unwrap_or(0);
    let wanted = first.iter().chain(second);
    found[..read].iter().zip(wanted).take_while(|(found, wanted)| found == wanted).count()
}

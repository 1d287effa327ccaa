//! Flushing: one session, the leader, writes what is in the ring to the segment files and syncs them.
//!
//! Paper: LIBTP section 4.2. The leader is whoever finds nobody leading; it writes from `durable`, always, also what
//! another wrote before (bytes dirtied again are bytes synced again), and only then moves `durable` (PROTOCOLS L3).
//! Appends go on meanwhile: no latch is held.
//!
//! Invariants
//! 1. `durable` moves only after every byte below its new value was written and synced without an error.
//! 2. After an error by which bytes may be lost `poison` is set before anyone is answered, and `durable` never moves again.
//!    After a limit of the leader's own process nothing is set: the next leader writes the same bytes (L3).
//! 3. Each flush ends with a mark that states the durable end before it (L2).
//! 4. The first flush into a segment notes that durably in the segment before, and only then moves `durable` (L2).
//!
//! If the leader dies: it is not alive, so whoever waits takes its word over and writes again from `durable`.
//!
//! The `unsafe` is a promise to rio: nobody changes what the leader writes.
#![allow(unsafe_code)]

use std::sync::atomic::Ordering;

use libtp_io::{File, Operation};
use libtp_process::{leaves_roles, Session, SessionId};
use rio::{failpoint, planted, SharedHold};

use crate::segment_files::Opened;
use crate::tail::POISONED;
use crate::{Error, LogManager, Lsn, Result};

/// Proof that the log is durable up to a position. Only the log makes it: what must not be written before the log is
/// (a page, PROTOCOLS' write-ahead rule) takes it as an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FlushedTo(Lsn);

impl FlushedTo {
    /// The position: everything before it is on the disk.
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

/// The leadership of a flush. While it lives, nobody else moves `durable`, so the bytes from there to the tail stay
/// where they are and as they are.
pub(crate) struct Leader<'l> {
    log: &'l LogManager,
    me: SessionId,
}

// SAFETY: the published part of the tail is immutable, and its chunks move only below `durable`, which the leader alone moves; it is
// shown for what lies between those two alone.
unsafe impl SharedHold for Leader<'_> {}

impl Drop for Leader<'_> {
    fn drop(&mut self) {
        if leaves_roles(self.log.processes.region()) {
            return;
        }
        // If it fails, we were taken for dead: the word is another's.
        let _ = self.log.header.leader.swap_if(self.me, SessionId::NONE);
    }
}

impl LogManager {
    /// How far the log is durable now.
    #[inline]
    pub fn flushed(&self) -> FlushedTo {
        FlushedTo(self.durable())
    }

    /// Becomes the leader if nobody is, or if `is_suspect` and whoever is has died.
    pub(crate) fn try_lead(&self, session: &Session, is_suspect: bool) -> Option<Leader<'_>> {
        let word = &self.header.leader;
        let holder = word.load();
        let is_suspect = is_suspect && !planted("log: a dead leader is waited for");
        if holder != SessionId::NONE && (!is_suspect || self.processes.is_alive(holder)) {
            return None;
        }
        let me = session.id();
        failpoint("log: about to lead");
        let leader = word.compare_exchange(holder, me).ok().map(|_| Leader { log: self, me });
        // Looked at in the role: whoever builds the region anew waits until nobody has it.
        leave_given_up(session);
        leader
    }

    /// Makes everything published so far durable, and wakes whoever waited for it.
    pub(crate) fn flush(&self, session: &Session, leader: Leader<'_>) -> Result<FlushedTo> {
        let (from, to) = self.append_mark(session);
        failpoint("log: leads a flush");
        let written = if from == to { Ok(0) } else { self.write_and_sync(session, &leader, from, to) };
        match written {
            Err(error) if !is_final(&error) => {
                drop(leader);
                tracing::warn!(%error, %from, %to, "this process could not write the log; another process may");
                self.wake_waiters(Lsn::new(u64::MAX));
                self.files.forget_foreign();
                if !matches!(&error, Error::Io(error) if error.is_limit_of_process()) {
                    // Another process probably meets the same error: a commit of this process does not wait for it long.
                    self.is_unaided.store(true, Ordering::Relaxed);
                }
                Err(Error::SteppedBack { cause: error.to_string() })
            }
            Err(error) => {
                // Published before anyone is answered. The next restart writes the ring's tail into new files.
                self.header.poison.publish(POISONED);
                drop(leader);
                tracing::error!(%error, %from, %to, "the log could not be made durable");
                self.wake_waiters(Lsn::new(u64::MAX));
                Err(Error::Failed { cause: error.to_string() })
            }
            Ok(syncs) => {
                let header = &*self.header;
                if self.is_poisoned() {
                    drop(leader);
                    self.wake_waiters(Lsn::new(u64::MAX));
                    return self.check_poison().map(|()| self.flushed());
                }
                // What is durable was kept: who looks at the ring after a crash of the system compares the two.
                self.keep(to.minus(8));
                // Release, within the maximum: what we saw synced comes before it for whoever acquires it.
                failpoint("log: synced, not said to be durable");
                header.durable.raise(to);
                failpoint("log: durable, flush not counted");
                header.sync_count.fetch_add(syncs);
                header.flush_count.fetch_add(u64::from(from != to));
                header.bytes_written.fetch_add(to.since(from));
                failpoint("log: durable, still the leader");
                drop(leader);
                failpoint("log: leader no more, nobody woken");
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
                // The sync of the segment before may have taken longer than anybody waits who builds the region anew.
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
            if planted("log: failed sync tried again") {
                file.sync().or_else(|_| file.sync())?;
            } else if !planted("log: flush not synced") {
                file.sync()?;
            }
            failpoint("log: segment synced");
            syncs += 1;
        }
        Ok(syncs + self.files.note_begun(from, to)?)
    }
}

/// Whether bytes may be lost by this error of a flush. A limit of the process loses nothing, nor does a call before the first
/// write.
fn is_final(error: &Error) -> bool {
    if planted("log: a limit of one process stops all") {
        return true;
    }
    match error {
        Error::Io(error) => {
            matches!(error.operation(), Operation::Write | Operation::Sync) && !error.is_limit_of_process()
        }
        // The log's files are not as they were made.
        _ => true,
    }
}

/// Before each write: the region may be given up, and the files another life's.
fn leave_given_up(session: &Session) {
    if !planted("log: flushes in a broken region") {
        session.leave_if_broken();
    }
}

/// So many bytes need not be written: none. With a planted bug, what another leader has written, who may have died of a failed
/// sync (PROTOCOLS L3).
fn already_written(file: &dyn File, offset: u64, first: &[u8], second: &[u8]) -> usize {
    if !planted("log: what another leader wrote is not written again") {
        return 0;
    }
    let mut found = vec![0; first.len() + second.len()];
    let read = file.read_at(&mut found, offset).unwrap_or(0);
    let wanted = first.iter().chain(second);
    found[..read].iter().zip(wanted).take_while(|(found, wanted)| found == wanted).count()
}

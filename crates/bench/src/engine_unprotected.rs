//! libtp's trees without protection: LIBTP's NOTP, FLOCK and FSYNC (5.1.1).
//!
//! NOTP is libtp with neither locks nor log, used by one thread. Its pages are written twice and synced, as protected
//! pages are, or written once and not synced. FLOCK holds a flock(2) on a file during each transaction, and nothing is
//! durable. FSYNC has no locks and syncs four files at each commit. In the paper, the four files are the bank's. Here
//! the page cache would write each page of the bank's files twice. So FSYNC writes a page into each of four other
//! files, and syncs them. No engine can write the changed pages at a lower cost.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{flock, FlockOperation};

use crate::engine::{Durability, Engine, Outcome, Session};
use crate::engine_libtp::Libtp;
use crate::error::{Error, Result};
use crate::tpcb::{Scale, Table, Transfer};

/// Bytes of a page.
const PAGE: usize = 8192;
/// Number of pages of a synced file. After the last page, the writes continue with the first page.
const PAGES: u64 = 1024;
const FILES: [&str; 4] = ["sync-account", "sync-teller", "sync-branch", "sync-history"];

/// The protection that a bank has instead of locks and log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Substitute {
    /// NOTP: no protection.
    Nothing,
    /// NOTP whose pages are written once and not synced.
    NothingAtAll,
    /// FLOCK: a flock(2) during each transaction.
    Flock,
    /// FSYNC: each commit writes into four files and syncs them.
    Fsync,
}

/// A bank in an environment without locks and log.
pub struct Unprotected {
    bank: Libtp,
    instead: Substitute,
    lock: Option<(File, PathBuf)>,
    synced: Vec<(File, PathBuf)>,
    commits: AtomicU64,
}

impl Substitute {
    /// All values.
    pub const ALL: [Substitute; 4] =
        [Substitute::Nothing, Substitute::NothingAtAll, Substitute::Flock, Substitute::Fsync];

    /// Returns the name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Substitute::Nothing => "notp",
            Substitute::NothingAtAll => "notp, pages once",
            Substitute::Flock => "flock",
            Substitute::Fsync => "fsync",
        }
    }
}

impl Unprotected {
    /// Makes the bank in an empty `directory`.
    ///
    /// # Errors
    /// The reason why the environment cannot be made; `File` if a file of FLOCK or FSYNC cannot be made.
    pub fn open(directory: &Path, instead: Substitute) -> Result<Unprotected> {
        let bank = Libtp::unprotected(directory, instead == Substitute::NothingAtAll)?;
        let make = |name: &str| -> Result<(File, PathBuf)> {
            let path = directory.join(name);
            let file = OpenOptions::new().create(true).truncate(false).write(true).open(&path);
            Ok((file.map_err(Error::file("make", &path))?, path))
        };
        let lock = if instead == Substitute::Flock { Some(make("flock")?) } else { None };
        let names = if instead == Substitute::Fsync { &FILES[..] } else { &[] };
        let synced = names.iter().map(|name| make(name)).collect::<Result<Vec<_>>>()?;
        for (file, path) in &synced {
            // The file is preallocated, because the sync of a growing file costs more.
            let zeros = vec![0; PAGE * 64];
            for at in 0..PAGES / 64 {
                file.write_all_at(&zeros, at * zeros.len() as u64).map_err(Error::file("write", path))?;
            }
            file.sync_all().map_err(Error::file("sync", path))?;
        }
        Ok(Unprotected { bank, instead, lock, synced, commits: AtomicU64::new(0) })
    }

    fn locked(&self, operation: FlockOperation) -> Result<()> {
        let Some((file, path)) = &self.lock else { return Ok(()) };
        flock(file, operation).map_err(|why| Error::file("lock", path)(why.into()))
    }

    fn sync(&self) -> Result<()> {
        // Relaxed is enough: the numbers only have to differ.
        let page = self.commits.fetch_add(1, Ordering::Relaxed) % PAGES;
        let bytes = [b'.'; PAGE];
        for (file, path) in &self.synced {
            file.write_all_at(&bytes, page * PAGE as u64).map_err(Error::file("write", path))?;
            file.sync_data().map_err(Error::file("sync", path))?;
        }
        Ok(())
    }
}

impl Engine for Unprotected {
    fn name(&self) -> &'static str {
        self.instead.name()
    }

    fn lock_granularity(&self) -> &'static str {
        match self.instead {
            Substitute::Flock => "environment",
            Substitute::Nothing | Substitute::NothingAtAll | Substitute::Fsync => "none",
        }
    }

    fn load(&self, scale: &Scale, progress: &mut dyn FnMut(u64)) -> Result<()> {
        self.bank.load(scale, progress)
    }

    fn session(&self) -> Result<Box<dyn Session + '_>> {
        let session = Box::new(self.bank.session_at(Durability::Relaxed));
        Ok(match self.instead {
            Substitute::Nothing | Substitute::NothingAtAll => session,
            Substitute::Flock | Substitute::Fsync => Box::new(UnprotectedSession { bank: self, session }),
        })
    }

    fn walk(&self, table: Table, each: &mut dyn FnMut(u64, &[u8])) -> Result<()> {
        self.bank.walk(table, each)
    }

    fn log_bytes(&self) -> Result<u64> {
        self.bank.log_bytes()
    }

    fn close(self: Box<Self>) -> Result<()> {
        Box::new(self.bank).close()
    }
}

struct UnprotectedSession<'b> {
    bank: &'b Unprotected,
    session: Box<dyn Session + 'b>,
}

impl Session for UnprotectedSession<'_> {
    fn transact(&mut self, transfer: &Transfer) -> Result<Outcome> {
        self.bank.locked(FlockOperation::LockExclusive)?;
        let done = self.session.transact(transfer);
        let synced = if done.is_ok() { self.bank.sync() } else { Ok(()) };
        self.bank.locked(FlockOperation::Unlock)?;
        synced?;
        done
    }

    fn read_only(&mut self, transfer: &Transfer) -> Result<Outcome> {
        self.bank.locked(FlockOperation::LockShared)?;
        let done = self.session.read_only(transfer);
        self.bank.locked(FlockOperation::Unlock)?;
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::RunSettings;
    use crate::run::run_threads;
    use std::time::Duration;

    #[test]
    fn a_bank_without_a_log_can_be_larger_than_the_cache() {
        let dir = tempfile::tempdir().unwrap();
        for instead in [Substitute::Nothing, Substitute::NothingAtAll] {
            let place = dir.path().join(instead.name());
            std::fs::create_dir(&place).unwrap();
            std::fs::write(place.join(libtp::SETTINGS_NAME), "memory = \"2MiB\"\n").unwrap();
            let bank = Unprotected::open(&place, instead).unwrap();
            let scale = Scale { accounts: 40_000, ..Scale::SMALL };
            bank.load(&scale, &mut |_| {}).unwrap();
            assert_eq!(bank.audit(&scale).unwrap().verdict(0), "ok", "{instead:?}");
            Box::new(bank).close().unwrap();
        }
    }

    #[test]
    fn the_audit_accepts_banks_without_protection_and_they_write_no_log() {
        for instead in Substitute::ALL {
            let dir = tempfile::tempdir().unwrap();
            let bank = Unprotected::open(dir.path(), instead).unwrap();
            let scale = Scale { accounts: 5_000, ..Scale::SMALL };
            bank.load(&scale, &mut |_| {}).unwrap();
            let settings = RunSettings {
                scale,
                warmup: Duration::ZERO,
                measured: Duration::from_millis(100),
                durability: Durability::Relaxed,
                ..RunSettings::default()
            };
            let report = run_threads(&bank, &settings, &mut |_| {}).unwrap();
            assert_eq!(report.audit, "ok", "{instead:?}");
            assert!(report.committed > 0, "{report:?}");
            assert!(report.log_bytes < 100_000, "{instead:?} logged {} bytes", report.log_bytes);
            Box::new(bank).close().unwrap();
        }
    }
}

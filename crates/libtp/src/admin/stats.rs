//! The activity and the contents of an environment, for people and tools.

use libtp_txn::Managers;
use serde::Serialize;

use rio::Survives;

use crate::region::inner::Inner;
use crate::{Durability, Error, Result};

/// Counts and positions of an environment. Amounts are in bytes, unless the name of a field says otherwise.
#[derive(Clone, Debug, Serialize)]
pub struct Stats {
    /// The environment's directory.
    pub directory: String,
    /// The file of its shared memory.
    pub region: String,
    /// Bytes of the region that are in use.
    pub region_used: u64,
    /// Bytes of the region that have memory behind them.
    pub region_allocated: u64,
    /// The worst failure that the region's memory survives: `process`, `system` or `power`.
    pub survives: &'static str,
    /// This handle's default durability.
    pub durability: &'static str,
    /// The LSN of the log's end.
    pub log_tail: u64,
    /// The log is on disk up to this LSN.
    pub log_durable: u64,
    /// The LSN of the oldest kept log.
    pub log_oldest: u64,
    /// Log bytes written since the region was made.
    pub log_bytes_written: u64,
    /// Syncs of the log since the region was made.
    pub log_syncs: u64,
    /// The log's incarnation.
    pub log_incarnation: u64,
    /// Whether a sync failed; the environment then takes no more changes.
    pub failed: bool,
    /// The last checkpoint's log sequence number, zero if there was none since the region was made.
    pub checkpoint: u64,
    /// The amount of log after which the next checkpoint is due.
    pub checkpoint_log: u64,
    /// Checkpoints since the region was made.
    pub checkpoints: u64,
    /// Transactions that committed changes, since the region was made.
    pub commits: u64,
    /// Transactions that were aborted since the region was made.
    pub aborts: u64,
    /// Running transactions.
    pub transactions: usize,
    /// Sessions.
    pub sessions: usize,
    /// Dead sessions that were repaired while other sessions worked, since the region was made.
    pub repairs: u64,
    /// How often the region was rebuilt while processes used it.
    pub rebuilds: u64,
    /// The median duration of repairs, from the moment when a living process learned of a death until the dead session
    /// was fully repaired, in milliseconds.
    pub repair_p50_ms: f64,
    /// The 99th percentile of the duration of repairs, in milliseconds.
    pub repair_p99_ms: f64,
    /// The longest duration of a repair, in milliseconds.
    pub repair_max_ms: f64,
    /// The 99th percentile of the part of a repair during which other sessions may have waited for latches, in
    /// milliseconds.
    pub latches_p99_ms: f64,
    /// The longest part of a repair during which other sessions may have waited for latches, in milliseconds.
    pub latches_max_ms: f64,
    /// Dirty pages in memory.
    pub pages_dirty: usize,
    /// Pages that were written once, because the disk writes them whole or not at all. All other written pages were
    /// written twice.
    pub pages_written_whole: u64,
    /// The buffer pools.
    pub pools: Vec<Pool>,
    /// The databases.
    pub databases: Vec<DatabaseInfo>,
}

/// One buffer pool.
#[derive(Clone, Debug, Serialize)]
pub struct Pool {
    /// The memory that the pool may use.
    pub budget: u64,
    /// The number of the pool's frames.
    pub frames: u64,
    /// Pages not found in memory.
    pub misses: u64,
    /// Pages read.
    pub reads: u64,
    /// Pages written.
    pub writes: u64,
    /// Pages that were replaced by others.
    pub evictions: u64,
}

/// One database.
#[derive(Clone, Debug, Serialize)]
pub struct DatabaseInfo {
    /// The database's name.
    pub name: String,
    /// The number of the database's file.
    pub file: u32,
    /// Bytes of a page.
    pub page_bytes: u32,
}

impl crate::Env {
    /// Returns the activity and the contents of the environment.
    ///
    /// # Errors
    /// `Io` if the region's file or the register of databases cannot be read; `Corrupt` if the register is damaged;
    /// `Forked`, `Rebuilt`, `Panicked`.
    pub fn stats(&self) -> Result<Stats> {
        self.0.check_process()?;
        let generation = self.0.newest();
        generation.guarded(|| collect(&self.0, &generation.managers))
    }
}

fn collect(env: &Inner, managers: &Managers) -> Result<Stats> {
    let (region, log, buffers) = (&managers.region, &managers.log, &managers.buffers);
    let times = managers.processes.repair_times();
    let (commits, aborts) = managers.ended_counts();
    let millis = |time: std::time::Duration| time.as_secs_f64() * 1000.0;
    Ok(Stats {
        repairs: managers.processes.repaired_count(),
        rebuilds: managers.processes.rebuild_count(),
        repair_p50_ms: millis(times.total.percentile(50)),
        repair_p99_ms: millis(times.total.percentile(99)),
        repair_max_ms: millis(times.total.max()),
        latches_p99_ms: millis(times.physical.percentile(99)),
        latches_max_ms: millis(times.physical.max()),
        directory: env.platform.path.display().to_string(),
        region: region.path().display().to_string(),
        region_used: region.used(),
        region_allocated: region.allocated_bytes().map_err(Error::from)?,
        survives: match log.lasting().survives {
            Survives::Process => "process",
            Survives::System => "system",
            Survives::Power => "power",
        },
        durability: match env.durability {
            Durability::Sync => "sync",
            Durability::Relaxed => "relaxed",
            Durability::Rio => "rio",
        },
        log_tail: log.tail().raw(),
        log_durable: log.durable().raw(),
        log_oldest: log.oldest().raw(),
        log_bytes_written: log.bytes_written(),
        log_syncs: log.fsyncs(),
        log_incarnation: log.incarnation(),
        failed: log.is_poisoned(),
        checkpoint: managers.last_checkpoint().raw(),
        checkpoint_log: managers.settings.checkpoint_log_bytes,
        checkpoints: managers.checkpoint_count(),
        commits,
        aborts,
        transactions: managers.transactions().len(),
        sessions: managers.processes.sessions().len(),
        pages_dirty: buffers.dirty_count(),
        pages_written_whole: buffers.whole_count(),
        pools: buffers
            .stats()
            .into_iter()
            .map(|pool| Pool {
                budget: pool.settings.budget_bytes,
                frames: pool.frames,
                misses: pool.misses,
                reads: pool.reads,
                writes: pool.writes,
                evictions: pool.evictions,
            })
            .collect(),
        databases: buffers
            .registry()
            .all()
            .map_err(libtp_record::Error::from)?
            .into_iter()
            .map(|entry| DatabaseInfo { name: entry.name, file: entry.id.raw(), page_bytes: entry.page_bytes })
            .collect(),
    })
}

#[cfg(test)]
mod tests {
    use crate::Env;

    #[test]
    fn commits_and_aborts_of_all_sessions_are_counted() {
        let dir = tempfile::tempdir().unwrap();
        let env = Env::open_or_create(dir.path()).unwrap();
        let stock = env.btree("stock").unwrap();
        let counts = |env: &Env| env.stats().map(|stats| (stats.commits, stats.aborts)).unwrap();
        let before = counts(&env);
        let work = || {
            for round in 0..7_u32 {
                let txn = env.begin().unwrap();
                // Each put changes the value: a put of the same value is not logged, and its commit is not counted.
                stock.put(&txn, b"key", &round.to_le_bytes()).unwrap();
                if round < 3 { txn.abort() } else { txn.commit() }.unwrap();
            }
        };
        work();
        // The session of a thread ends with the thread. Its counts stay, also when another session has its slot.
        for _ in 0..2 {
            std::thread::scope(|scope| scope.spawn(work).join()).unwrap();
        }
        let after = counts(&env);
        assert_eq!((after.0 - before.0, after.1 - before.1), (12, 9));
        let seen_by_observer = Env::builder().look(dir.path()).unwrap();
        assert_eq!(seen_by_observer.map(|seen| counts(&seen)), Some(after));
    }
}

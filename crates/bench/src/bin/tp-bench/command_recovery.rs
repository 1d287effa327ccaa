//! The time of opening after a crash, and the size of a small and of a large environment: `tp bench recovery`.
//!
//! Child processes ([`crate::recovery_child`]) run TPC-B, and this process kills them while they run it. For some rows
//! it also removes the file of the shared memory. A row shows its goal, if it has one. After the last crash this
//! process audits the bank.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use clap::Args;
use libtp_bank::BankDirectory;
use libtp_bench::engine_libtp::Libtp;
use libtp_bench::{Durability, Engine, Error, Granularity, Scale};
use libtp_console::failure::{Ending, Result};
use libtp_console::output::{note, Output};
use serde_json::json;

use crate::recovery_child::{Child, ChildReport, Tells};

/// Number of openings of an environment in each state; the figure is their median.
const ROUNDS: usize = 5;
/// The part of the checkpoint interval, in percent, after which the processes are killed at default settings: close to
/// the worst case.
const WORST_PERCENT: u64 = 95;
const MIB: u64 = 1 << 20;

/// The command line.
#[derive(Args)]
pub struct Arguments {
    /// Accounts of the bank; 0: leave out the bank's rows.
    #[arg(long, default_value_t = 1_000_000)]
    accounts: u32,
    /// Length of the long log, in MiB; 0: leave out the rows of the long log.
    #[arg(long, default_value_t = 1024)]
    log_mib: u64,
    /// Records of the large environment; 0: load no records.
    #[arg(long, default_value_t = 10_000_000)]
    records: u64,
    /// Locks that one transaction takes in the large environment; 0: take no locks.
    #[arg(long, default_value_t = 1_000_000)]
    locks: u64,
    /// Directory on a disk for the environments.
    #[arg(short = 'e', long, value_name = "DIR", default_value = "/var/tmp")]
    env: PathBuf,
}

impl Arguments {
    /// Measures. Returns `Disagrees` (exit code 1) if the audit of the bank finds a fault.
    pub fn run(&self, output: &mut Output) -> Result<Ending> {
        let directory = BankDirectory::inside(&self.env, "libtp-recovery")?;
        let (directory, mut good) = (directory.path(), true);
        new_environment(directory, output)?;
        if self.accounts > 0 {
            good &= self.crashed_bank(directory, output)?;
        }
        if self.records > 0 || self.locks > 0 {
            self.large_environment(directory, output)?;
        }
        Ok(Ending::of(good))
    }

    /// Measures a bank whose processes are killed, at default settings and with a long log, and audits the bank.
    fn crashed_bank(&self, directory: &Path, output: &mut Output) -> Result<bool> {
        let path = directory.join("bank");
        let scale = Scale::with_accounts(self.accounts);
        note(format_args!("loading {} records into {}", scale.total(), path.display()));
        let bank = open_bank(&path)?;
        bank.load(&scale, &mut |_| {})?;
        drop(bank);

        work_and_die(&path, scale, 0, KillMoment::CheckpointIsNear)?;
        let kept = reopen(&path, Lost::Nothing)?;
        show(output, "all processes killed: time to open", kept.open_ms, "ms", "under 100")?;
        show(output, "time to close cleanly", close(&path)?, "ms", "")?;
        work_and_die(&path, scale, 2, KillMoment::CheckpointIsNear)?;
        let lost = reopen(&path, Lost::Memory)?;
        show(output, "processes and region lost: time to open", lost.open_ms, "ms", "under 2000")?;
        show(output, "size of the log", mib(lost.log_bytes), "MiB", "")?;
        show(output, "time to close cleanly", close(&path)?, "ms", "")?;

        if self.log_mib > 0 {
            let settings = path.join("libtp.toml");
            let written = std::fs::write(&settings, "checkpoint_log = \"1024GiB\"\n");
            written.map_err(Error::file("write", &settings))?;
            work_and_die(&path, scale, 4, KillMoment::LogBytes(self.log_mib * MIB))?;
            let lost = reopen(&path, Lost::Memory)?;
            show(output, "a long log: time to open", lost.open_ms, "ms", "")?;
            show(output, "size of the log", mib(lost.log_bytes), "MiB", "")?;
            #[allow(clippy::cast_precision_loss)] // sizes are far below 2^53
            show(output, "rate of replay", lost.log_bytes as f64 / 1000.0 / lost.open_ms, "MB/s", "300 or more")?;
            show(output, "time to close cleanly", close(&path)?, "ms", "")?;
        }
        let verdict = audit(&path, scale)?;
        note(format_args!("audit of the bank: {verdict}"));
        Ok(verdict == "ok")
    }

    /// Measures many records, and many locks of one transaction, at default settings.
    fn large_environment(&self, directory: &Path, output: &mut Output) -> Result<()> {
        let path = directory.join("large");
        note(format_args!("{} records, and {} locks of one transaction", self.records, self.locks));
        let mut child = Child::fill(&path, self.records, self.locks)?;
        let loaded = child.hear()?;
        #[allow(clippy::cast_precision_loss)] // counts of records are far below 2^53
        let rate = self.records as f64 / loaded.open_ms * 1000.0;
        show(output, "records loaded, default settings", rate, "per second", "")?;
        show(output, "memory of the region after the load", mib(loaded.region_bytes), "MiB", "")?;
        let locked = child.hear()?;
        show(output, "time to take the locks, default settings", locked.open_ms, "ms", "")?;
        show(output, "memory of the region for the locks", mib(locked.region_used - loaded.region_used), "MiB", "")?;
        show(output, "time to close cleanly", child.close()?, "ms", "")?;
        remove_directory(&path);
        Ok(())
    }
}

/// Measures a new environment: the time of opening, and its size.
fn new_environment(directory: &Path, output: &mut Output) -> Result<()> {
    let mut opened = Vec::new();
    for round in 0..ROUNDS {
        let path = directory.join(format!("new-{round}"));
        let mut child = Child::open(&path)?;
        let said = child.hear()?;
        opened.push((said, allocated_bytes(&path)?));
        child.close()?;
        remove_directory(&path);
    }
    opened.sort_by(|(one, _), (other, _)| one.open_ms.total_cmp(&other.open_ms));
    let (median, directory_bytes) = &opened[ROUNDS / 2];
    show(output, "new environment: time to open", median.open_ms, "ms", "under 20")?;
    show(output, "new environment: memory of its region", mib(median.region_bytes), "MiB", "under 2")?;
    show(output, "new environment: disk blocks of its directory", mib(*directory_bytes), "MiB", "under 4")?;
    Ok(())
}

/// The moment at which the working processes are killed.
#[derive(Clone, Copy)]
enum KillMoment {
    /// Just before a checkpoint is due: close to the worst moment.
    CheckpointIsNear,
    /// When the log since the last checkpoint has this number of bytes.
    LogBytes(u64),
}

/// Runs two processes on the bank and kills them while they work.
fn work_and_die(path: &Path, scale: Scale, first_client: u32, until: KillMoment) -> Result<()> {
    let mut first = Child::work(path, scale, first_client, Tells::Log)?;
    let opened = first.hear()?;
    let mut second = Child::work(path, scale, first_client + 1, Tells::Nothing)?;
    second.hear()?;
    let log_bytes = match until {
        KillMoment::CheckpointIsNear => opened.checkpoint_log / 100 * WORST_PERCENT,
        KillMoment::LogBytes(bytes) => bytes,
    };
    note(format_args!(
        "two processes at work until there are {} MiB of log since the last checkpoint",
        log_bytes / MIB
    ));
    while first.hear()?.log_bytes < log_bytes {}
    // Kills both processes as nearly at the same time as possible.
    first.kill()?;
    Ok(second.kill()?)
}

/// The loss in a crash, apart from the processes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lost {
    Nothing,
    Memory,
}

/// Opens the environment several times, each time after a crash. Returns the opening of median length. Each process is
/// killed as soon as it has opened the environment, so the next process finds the same log.
fn reopen(path: &Path, lost: Lost) -> Result<ChildReport> {
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        if lost == Lost::Memory {
            lose_memory(path)?;
        }
        let mut child = Child::open(path)?;
        rounds.push(child.hear()?);
        child.kill()?;
    }
    note(format_args!("opened in {:.1?} ms", rounds.iter().map(|round| round.open_ms).collect::<Vec<_>>()));
    rounds.sort_by(|one, other| one.open_ms.total_cmp(&other.open_ms));
    Ok(rounds.swap_remove(ROUNDS / 2))
}

/// Removes the file of the environment's shared memory. To learn the file's path, starts a process that opens the
/// environment, and kills it.
fn lose_memory(path: &Path) -> Result<()> {
    let mut child = Child::open(path)?;
    let region = child.hear()?.region;
    child.kill()?;
    Ok(std::fs::remove_file(&region).map_err(Error::file("remove", Path::new(&region)))?)
}

/// Opens and closes the environment. Returns how long closing took.
fn close(path: &Path) -> Result<f64> {
    let mut child = Child::open(path)?;
    child.hear()?;
    Ok(child.close()?)
}

fn open_bank(path: &Path) -> Result<Libtp> {
    Ok(Libtp::open(path, Durability::Relaxed, Granularity::Record, &mut |_| {})?)
}

/// Audits the bank. Returns the verdict: `ok`, or the faults.
fn audit(path: &Path, scale: Scale) -> Result<String> {
    let audit = open_bank(path)?.audit(&scale)?;
    Ok(audit.verdict(audit.history_count))
}

/// Returns the allocated bytes of a directory's files.
fn allocated_bytes(path: &Path) -> Result<u64> {
    let files = std::fs::read_dir(path).map_err(Error::file("list", path))?;
    let blocks = files.map(|file| Ok(file?.metadata()?.blocks())).sum::<std::io::Result<u64>>();
    Ok(blocks.map_err(Error::file("look at", path))? * 512)
}

fn remove_directory(path: &Path) {
    if let Err(error) = std::fs::remove_dir_all(path) {
        note(format_args!("cannot remove {}: {error}", path.display()));
    }
}

#[allow(clippy::cast_precision_loss)] // sizes are far below 2^53
fn mib(bytes: u64) -> f64 {
    bytes as f64 / MIB as f64
}

/// Writes a row: a figure and its goal, if it has one.
fn show(output: &mut Output, what: &str, figure: f64, unit: &str, goal: &str) -> Result<()> {
    let wanted = (!goal.is_empty()).then_some(goal);
    output.object(&json!({ "row": what, "figure": figure, "unit": unit, "goal": wanted }))?;
    output.line(format_args!("{what:<46} {figure:>12.1} {unit:<10} {goal}"))?;
    output.flush()
}

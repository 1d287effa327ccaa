//! The cost of snapshots for readers and writers: `tp bench snapshots`.
//!
//! Four figures:
//! * the first read of a record with a long history;
//! * the reads of a snapshot that is held while 8 writers make transactions of TPC-B at a fixed pace;
//! * how much slower writers at full speed become while a snapshot is held and read, in pairs of turns;
//! * a scan of all accounts while writers change them, in a snapshot and with shared locks.
//!
//! Compare only figures of one run: the machine's speed differs from run to run.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clap::Args;
use libtp::{Db, Env, Snapshot};
use libtp_bank::BankDirectory;
use libtp_bench::engine_libtp::Libtp;
use libtp_bench::tpcb::balance_of;
use libtp_bench::{median, Durability, Engine, Error, Granularity, Outcome, Scale, Session, Table, Transfers};
use libtp_console::failure::{Ending, Result};
use libtp_console::numbers::seconds;
use libtp_console::output::Output;
use serde_json::json;

/// Number of writers: the smallest number of clients in the paper's multi-user runs at which clients wait for each
/// other.
const WRITERS: u32 = 8;
/// The seed of the transfers.
const SEED: u64 = 1;

/// The command line.
#[derive(Args)]
pub struct Arguments {
    /// Accounts of the bank.
    #[arg(long, default_value_t = 1_000_000)]
    accounts: u32,
    /// Changes of the record with a long history.
    #[arg(long, default_value_t = 200_000)]
    updates: u32,
    /// Time for which a snapshot is held while writers work at a fixed pace, in seconds.
    #[arg(long, default_value = "60", value_parser = seconds)]
    seconds: Duration,
    /// Transactions per second of all writers together, while a snapshot is held for --seconds.
    #[arg(long, default_value_t = 20_000)]
    paced: u32,
    /// Pairs of turns of writers at full speed, one turn with a snapshot and one without.
    #[arg(long, default_value_t = 10)]
    pairs: u32,
    /// Length of a turn (--pairs), in seconds.
    #[arg(long, default_value = "5", value_parser = seconds)]
    turn: Duration,
    /// Directory for the environment. Default: the directory of temporary files.
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

impl Arguments {
    /// Measures, and audits the bank.
    pub fn run(&self, output: &mut Output) -> Result<Ending> {
        let parent = self.dir.clone().unwrap_or_else(std::env::temp_dir);
        let directory = BankDirectory::inside(&parent, "libtp-snapshots")?;
        measure(self, directory.path(), output)
    }
}

fn measure(wanted: &Arguments, directory: &Path, output: &mut Output) -> Result<Ending> {
    let settings = format!("[database.{LONG_HISTORY:?}]\npage_bytes = \"64 KiB\"\n");
    let place = directory.join(libtp::SETTINGS_NAME);
    std::fs::write(&place, settings).map_err(Error::file("write", &place))?;
    let bank = Libtp::open(directory, Durability::Relaxed, Granularity::Record, &mut |_| {})?;
    let scale = Scale::with_accounts(wanted.accounts);
    bank.load(&scale, &mut |_| {})?;
    long_history(bank.env(), wanted.updates, output)?;
    measure_held_snapshot(&bank, scale, wanted, output)?;
    measure_slowdown_of_writers(&bank, scale, wanted, output)?;
    scan(&bank, scale, output)?;
    let audit = bank.audit(&scale)?;
    let verdict = audit.verdict(audit.history_count);
    say(output, format!("audit: {verdict}, {} transfers", audit.history_count))?;
    Ok(Ending::of(verdict == "ok"))
}

/// Writes a finding.
fn say(output: &mut Output, finding: String) -> Result<()> {
    output.object(&json!({ "finding": finding }))?;
    output.line(finding)?;
    output.flush()
}

/// The table of the record with a long history.
const LONG_HISTORY: &str = "history of one";

fn failed(doing: &'static str) -> impl FnOnce(libtp::Error) -> Error {
    Error::engine("libtp", doing)
}

/// Measures the first read of a record that changed `updates` times since the snapshot was taken, for records of four
/// lengths, up to the longest record that a page of 64 KiB allows.
fn long_history(env: &Env, updates: u32, output: &mut Output) -> Result<()> {
    let table = env.btree(LONG_HISTORY).map_err(failed("opening"))?;
    for bytes in [100_usize, 1000, 4000, 16_000] {
        let put = |value: &[u8]| env.run_with(libtp::Durability::Relaxed, |txn| table.put(txn, b"hot", value));
        put(&vec![1; bytes]).map_err(failed("putting"))?;
        let snapshot = env.snapshot().map_err(failed("beginning a snapshot"))?;
        let mut value = vec![0; bytes];
        for update in 0..updates {
            value[..4].copy_from_slice(&update.to_le_bytes());
            put(&value).map_err(failed("putting"))?;
        }
        let read = || -> Result<Duration> {
            let begun = Instant::now();
            let found = table.get(&snapshot, b"hot").map_err(failed("reading"))?;
            let took = begun.elapsed();
            assert_eq!(found, Some(vec![1; bytes]), "the snapshot does not show the old version");
            Ok(took)
        };
        let (first, second) = (read()?, read()?);
        say(
            output,
            format!(
                "{bytes} bytes, {updates} changes since the snapshot: the first read takes {:.1} us and reads {} log records; the second takes {:.1} us",
                micros(first),
                snapshot.log_reads(),
                micros(second)
            ),
        )?;
    }
    Ok(())
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

/// Runs `beside` while writers work, at `paced` transactions per second in all, or at full speed. Returns the writers'
/// transactions per second, and the result of `beside`.
fn with_writers<T>(
    bank: &Libtp,
    scale: Scale,
    paced: Option<u32>,
    beside: impl FnOnce() -> Result<T>,
) -> Result<(f64, T)> {
    let (is_over, made) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let (is_over, made) = (&is_over, &made);
        let write = move || -> Result<()> {
            let mut session = bank.session_at(Durability::Relaxed);
            let mut transfers = Transfers::new(scale, SEED, NEXT_CLIENT.fetch_add(1, Ordering::Relaxed) & 0xff_ffff);
            let begun = Instant::now();
            let mut own = 0_u64;
            // Relaxed is enough: the flag publishes no other data.
            while !is_over.load(Ordering::Relaxed) {
                let due = paced.map(|all| Duration::from_secs_f64(own as f64 * f64::from(WRITERS) / f64::from(all)));
                if let Some(early) = due.and_then(|due| due.checked_sub(begun.elapsed())) {
                    std::thread::sleep(early.max(Duration::from_millis(1)));
                    continue;
                }
                let transfer = transfers.next_transfer();
                while matches!(session.transact(&transfer)?, Outcome::Aborted) {}
                own += 1;
                made.fetch_add(1, Ordering::Relaxed);
            }
            Ok(())
        };
        let writers: Vec<_> = (0..WRITERS).map(|_| scope.spawn(write)).collect();
        let begun = Instant::now();
        let done = beside();
        let (all, took) = (made.load(Ordering::Relaxed), begun.elapsed());
        is_over.store(true, Ordering::Relaxed);
        for writer in writers {
            writer.join().expect("a writer does not panic")?;
        }
        Ok((all as f64 / took.as_secs_f64(), done?))
    })
}

/// The next client's number. A number is used once, so no two clients make the same transfers.
static NEXT_CLIENT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(1);

/// Reads a whole table in a snapshot. Returns the number of records and the sum of their balances.
fn sum_in(snapshot: &Snapshot<'_>, table: &Db) -> Result<(u64, i64)> {
    let mut cursor = table.cursor(snapshot);
    let (mut count, mut sum) = (0, 0);
    while let Some((_, record)) = cursor.next().map_err(failed("reading"))? {
        count += 1;
        sum += balance_of(&record);
    }
    Ok((count, sum))
}

fn table(bank: &Libtp, table: Table) -> Result<Db> {
    Ok(bank.env().btree(table.name()).map_err(failed("opening"))?)
}

/// Measures a snapshot that is held, and read every second, while writers work at a fixed pace.
fn measure_held_snapshot(bank: &Libtp, scale: Scale, wanted: &Arguments, output: &mut Output) -> Result<()> {
    let branches = table(bank, Table::Branch)?;
    let before = Sizes::look(bank)?;
    let (made, (times, log_bytes)) = with_writers(bank, scale, Some(wanted.paced), || {
        let snapshot = bank.env().snapshot().map_err(failed("beginning a snapshot"))?;
        let begun = Instant::now();
        let first = sum_in(&snapshot, &branches)?;
        let mut times = Vec::new();
        while begun.elapsed() < wanted.seconds {
            std::thread::sleep(Duration::from_secs(1));
            let read = Instant::now();
            assert_eq!(sum_in(&snapshot, &branches)?, first, "a snapshot has changed");
            times.push(read.elapsed());
        }
        Ok((times, bank.env().snapshots()[0].log_bytes))
    })?;
    let longest = times.iter().max().copied().unwrap_or_default();
    let finding = format!(
        "{WRITERS} writers: wanted {} transactions per second, reached {made:.0}; a snapshot held for {:.0} s reads all {} branches every second: \
         longest read {:.0} us, median {:.0} us; the library keeps {:.0} MB of log for the snapshot",
        wanted.paced,
        wanted.seconds.as_secs_f64(),
        scale.branches,
        micros(longest),
        median(times.iter().map(|time| micros(*time))).unwrap_or_default(),
        log_bytes as f64 / 1e6
    );
    say(output, finding)?;
    let mut grown = |what: &str, before: u64, after: u64| -> Result<()> {
        say(output, format!("{what} before and after: {:.1} and {:.1} MB", before as f64 / 1e6, after as f64 / 1e6))
    };
    let after = Sizes::look(bank)?;
    grown("files of accounts, tellers and branches", before.files, after.files)?;
    grown("private memory of this process", before.own, after.own)?;
    grown("shared memory", before.shared, after.shared)?;
    Ok(())
}

/// Sizes that must not grow while a snapshot is held.
struct Sizes {
    files: u64,
    own: u64,
    shared: u64,
}

impl Sizes {
    fn look(bank: &Libtp) -> Result<Sizes> {
        let stats = bank.env().stats().map_err(failed("reading its statistics"))?;
        let (mut files, status) = (0, Path::new("/proc/self/status"));
        for table in Table::BALANCES {
            let path = Path::new(&stats.directory).join(format!("{}.tp", table.name()));
            files += std::fs::metadata(&path).map_err(Error::file("look at", &path))?.len();
        }
        let text = std::fs::read_to_string(status).map_err(Error::file("read", status))?;
        let line = text.lines().find_map(|line| line.strip_prefix("RssAnon:"));
        let own = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0) * 1024;
        Ok(Sizes { files, own, shared: stats.region_allocated })
    }
}

/// Measures how much slower writers at full speed become while a snapshot is held, and read every second.
fn measure_slowdown_of_writers(bank: &Libtp, scale: Scale, wanted: &Arguments, output: &mut Output) -> Result<()> {
    let branches = table(bank, Table::Branch)?;
    let turn = |with: bool| {
        let beside = || {
            let snapshot = with.then(|| bank.env().snapshot()).transpose().map_err(failed("beginning a snapshot"))?;
            let begun = Instant::now();
            while let Some(left) = wanted.turn.checked_sub(begun.elapsed()) {
                if let Some(snapshot) = &snapshot {
                    sum_in(snapshot, &branches)?;
                }
                std::thread::sleep(left.min(Duration::from_secs(1)));
            }
            Ok(())
        };
        with_writers(bank, scale, None, beside).map(|(made, ())| made)
    };
    let mut ratios = Vec::new();
    for pair in 0..wanted.pairs {
        // The turn with the snapshot is first in even pairs, and second in odd pairs.
        let (with, without) = match pair % 2 {
            0 => (turn(true)?, turn(false)?),
            _ => {
                let without = turn(false)?;
                (turn(true)?, without)
            }
        };
        say(
            output,
            format!(
                "pair {pair}: {with:.0} transactions per second with a snapshot, {without:.0} without; ratio {:.3}",
                with / without
            ),
        )?;
        ratios.push(with / without);
    }
    say(
        output,
        format!(
            "writers at full speed while a snapshot is held: median ratio over {} pairs: {:.3}",
            wanted.pairs,
            median(ratios).unwrap_or_default()
        ),
    )?;
    Ok(())
}

/// Measures a scan of all accounts while writers change them, in a snapshot and with locks.
fn scan(bank: &Libtp, scale: Scale, output: &mut Output) -> Result<()> {
    let accounts = table(bank, Table::Account)?;
    let in_snapshot = || {
        let begun = Instant::now();
        let snapshot = bank.env().snapshot().map_err(failed("beginning a snapshot"))?;
        let (count, _) = sum_in(&snapshot, &accounts)?;
        assert_eq!(count, u64::from(scale.accounts), "an account is missing");
        Ok(begun.elapsed())
    };
    let with_locks = || {
        let begun = Instant::now();
        let scanned = bank.env().run_with(libtp::Durability::Relaxed, |txn| {
            let (mut cursor, mut count, mut sum) = (accounts.cursor(txn), 0_u64, 0);
            while let Some((_, record)) = cursor.next()? {
                count += 1;
                sum += balance_of(&record);
            }
            Ok((count, sum))
        });
        let (count, _) = scanned.map_err(failed("scanning"))?;
        assert_eq!(count, u64::from(scale.accounts), "an account is missing");
        Ok(begun.elapsed())
    };
    let (snapshot_rate, snapshot_time) = with_writers(bank, scale, None, in_snapshot)?;
    let (lock_rate, lock_time) = with_writers(bank, scale, None, with_locks)?;
    say(output, format!("scan of {} accounts while writers change them: in a snapshot {:.2} s ({snapshot_rate:.0} transactions per second meanwhile), with locks \
         {:.2} s ({lock_rate:.0} transactions per second meanwhile)",
        scale.accounts,
        snapshot_time.as_secs_f64(),
        lock_time.as_secs_f64()))?;
    Ok(())
}

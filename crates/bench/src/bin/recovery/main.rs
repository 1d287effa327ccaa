//! The time of opening after a crash, and the size of a small and of a large environment: `cargo xtask bench recovery`.
//!
//! Every crashing part is a process of its own ([`child`]), killed by SIGKILL in the middle of TPC-B. Some rows also
//! lose the file of the shared memory. Each row stands beside its goal. After the last crash the bank is audited.
//! `--accounts N`, `--log-mib N`, `--records N` and `--locks N` change the sizes (zero leaves a row out); `--json`
//! prints one object for each row.
#![forbid(unsafe_code)]

mod child;

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use child::{Child, Said, Tells};
use libtp_bench::engine_libtp::Libtp;
use libtp_bench::{Durability, Engine, Error, Granularity, Result, Scale, Table, Tally};
use serde_json::{json, Value};

/// Openings of a crashed environment; the figure is their median.
const ROUNDS: usize = 5;
/// The percentage of the checkpoint interval at which the bank at default settings is killed: close to the worst case.
const WORST_PERCENT: u64 = 95;
const MIB: u64 = 1 << 20;

/// The options of the command line.
struct Arguments {
    accounts: u32,
    log_bytes: u64,
    records: u64,
    locks: u64,
    json: bool,
    directory: PathBuf,
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let Some((role, rest)) = words.split_first().filter(|(role, _)| role.starts_with("child-")) {
        return child::main(role, rest);
    }
    let Some(arguments) = parse(&words) else {
        eprintln!(
            "usage: recovery [--accounts N] [--log-mib N] [--records N] [--locks N] [--env DIR] [--json]; zero leaves a \
             row out"
        );
        return ExitCode::from(2);
    };
    match run(&arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn parse(words: &[String]) -> Option<Arguments> {
    let directory = PathBuf::from("/var/tmp").join(format!("libtp-recovery-{}", std::process::id()));
    let mut arguments = Arguments {
        accounts: 1_000_000,
        log_bytes: 1024 * MIB,
        records: 10_000_000,
        locks: 1_000_000,
        json: false,
        directory,
    };
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--accounts" => arguments.accounts = words.next()?.parse().ok()?,
            "--log-mib" => arguments.log_bytes = words.next()?.parse::<u64>().ok()? * MIB,
            "--records" => arguments.records = words.next()?.parse().ok()?,
            "--locks" => arguments.locks = words.next()?.parse().ok()?,
            "--env" => arguments.directory = words.next()?.into(),
            "--json" => arguments.json = true,
            _ => return None,
        }
    }
    Some(arguments)
}

fn run(arguments: &Arguments) -> Result<bool> {
    make_directory(&arguments.directory)?;
    let mut table = Rows { json: arguments.json };
    new_environment(arguments, &mut table)?;
    let mut good = true;
    if arguments.accounts > 0 {
        good &= crashed_bank(arguments, &mut table)?;
    }
    if arguments.records > 0 || arguments.locks > 0 {
        large_environment(arguments, &mut table)?;
    }
    remove_directory(&arguments.directory);
    Ok(good)
}

/// Measures a new environment: the time of opening, and its size.
fn new_environment(arguments: &Arguments, table: &mut Rows) -> Result<()> {
    let mut opened = Vec::new();
    for round in 0..ROUNDS {
        let path = arguments.directory.join(format!("new-{round}"));
        let mut child = Child::open(&path)?;
        let said = child.hear()?;
        opened.push((said, allocated_bytes(&path)?));
        child.close()?;
        remove_directory(&path);
    }
    opened.sort_by(|(one, _), (other, _)| one.open_ms.total_cmp(&other.open_ms));
    let (median, directory_bytes) = &opened[ROUNDS / 2];
    table.show("new environment: opened", median.open_ms, "ms", "under 20");
    table.show("new environment: memory of its region", mib(median.region_bytes), "MiB", "under 2");
    table.show("new environment: blocks of its directory", mib(*directory_bytes), "MiB", "under 4");
    Ok(())
}

/// Measures a bank whose processes are killed, at default settings and with a long log, and audits it.
fn crashed_bank(arguments: &Arguments, table: &mut Rows) -> Result<bool> {
    let path = arguments.directory.join("bank");
    let scale = Scale::with_accounts(arguments.accounts);
    eprintln!("loading {} records into {}", scale.total(), path.display());
    let bank = open_bank(&path)?;
    bank.load(&scale, &mut |_| {})?;
    drop(bank);

    work_and_die(&path, scale, 0, RestorePoint::CheckpointIsNear)?;
    let kept = reopen(&path, Lost::Nothing)?;
    table.show("all processes killed: opened", kept.open_ms, "ms", "under 100");
    table.show("and closed in good order", close(&path)?, "ms", "");
    work_and_die(&path, scale, 2, RestorePoint::CheckpointIsNear)?;
    let lost = reopen(&path, Lost::Memory)?;
    table.show("region lost too, default settings: opened", lost.open_ms, "ms", "under 2000");
    table.show("its log", mib(lost.log_bytes), "MiB", "");
    table.show("and closed in good order", close(&path)?, "ms", "");

    if arguments.log_bytes > 0 {
        let settings = path.join("libtp.toml");
        let written = std::fs::write(&settings, "checkpoint_log = \"1024GiB\"\n");
        written.map_err(Error::file("write", &settings))?;
        work_and_die(&path, scale, 4, RestorePoint::LogBytes(arguments.log_bytes))?;
        let lost = reopen(&path, Lost::Memory)?;
        table.show("a long log: opened", lost.open_ms, "ms", "");
        table.show("its log", mib(lost.log_bytes), "MiB", "");
        #[allow(clippy::cast_precision_loss)] // sizes are far below 2^53
        table.show("replayed", lost.log_bytes as f64 / 1000.0 / lost.open_ms, "MB/s", "300 or more");
        table.show("and closed in good order", close(&path)?, "ms", "");
    }
    let verdict = audit(&path, scale)?;
    eprintln!("audit of the bank: {verdict}");
    Ok(verdict == "ok")
}

/// The moment when the working processes are killed.
#[derive(Clone, Copy)]
enum RestorePoint {
    /// Just before a checkpoint is due: close to the worst moment.
    CheckpointIsNear,
    /// When the log since the last checkpoint has this number of bytes.
    LogBytes(u64),
}

/// Runs two processes on the bank and kills them in the middle of their work.
fn work_and_die(path: &Path, scale: Scale, first_client: u32, until: RestorePoint) -> Result<()> {
    let mut first = Child::work(path, scale, first_client, Tells::Log)?;
    let opened = first.hear()?;
    let mut second = Child::work(path, scale, first_client + 1, Tells::Nothing)?;
    second.hear()?;
    let log_bytes = match until {
        RestorePoint::CheckpointIsNear => opened.checkpoint_log / 100 * WORST_PERCENT,
        RestorePoint::LogBytes(bytes) => bytes,
    };
    eprintln!("two processes at work until there are {} MiB of log since the last checkpoint", log_bytes / MIB);
    while first.hear()?.log_bytes < log_bytes {}
    // Both as nearly at the same time as possible.
    first.kill()?;
    second.kill()
}

/// The loss besides the processes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lost {
    Nothing,
    Memory,
}

/// Opens the environment several times, each time after a crash. Returns the opening of median length. Each process is
/// killed as soon as it has opened, so the next one finds the same log.
fn reopen(path: &Path, lost: Lost) -> Result<Said> {
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        if lost == Lost::Memory {
            lose_memory(path)?;
        }
        let mut child = Child::open(path)?;
        rounds.push(child.hear()?);
        child.kill()?;
    }
    eprintln!("opened in {:.1?} ms", rounds.iter().map(|round| round.open_ms).collect::<Vec<_>>());
    rounds.sort_by(|one, other| one.open_ms.total_cmp(&other.open_ms));
    Ok(rounds.swap_remove(ROUNDS / 2))
}

/// Removes the file of the environment's shared memory. One more process opens the environment to learn the path, and
/// is killed.
fn lose_memory(path: &Path) -> Result<()> {
    let mut child = Child::open(path)?;
    let region = child.hear()?.region;
    child.kill()?;
    std::fs::remove_file(&region).map_err(Error::file("remove", Path::new(&region)))
}

/// Opens and closes the environment. Returns how long closing took.
fn close(path: &Path) -> Result<f64> {
    let mut child = Child::open(path)?;
    child.hear()?;
    child.close()
}

fn open_bank(path: &Path) -> Result<Libtp> {
    Libtp::open(path, Durability::Relaxed, Granularity::Record, &mut |_| {})
}

/// Returns the audit's verdict: whether balances and history agree.
fn audit(path: &Path, scale: Scale) -> Result<String> {
    let bank = open_bank(path)?;
    let mut tally = Tally::new(scale);
    for table in Table::BALANCES {
        bank.walk(table, &mut |id, record| tally.see_balance(table, id, record))?;
    }
    bank.walk(Table::History, &mut |_, record| tally.see_history(record))?;
    let audit = tally.finish();
    Ok(audit.verdict(audit.history_count))
}

/// Measures many records, and many locks of one transaction, at default settings.
fn large_environment(arguments: &Arguments, table: &mut Rows) -> Result<()> {
    let path = arguments.directory.join("large");
    eprintln!("{} records, and {} locks of one transaction", arguments.records, arguments.locks);
    let mut child = Child::fill(&path, arguments.records, arguments.locks)?;
    let loaded = child.hear()?;
    #[allow(clippy::cast_precision_loss)] // counts of records are far below 2^53
    let rate = arguments.records as f64 / loaded.open_ms * 1000.0;
    table.show("records loaded with no setting", rate, "a second", "");
    table.show("and memory of the region then", mib(loaded.region_bytes), "MiB", "");
    let locked = child.hear()?;
    table.show("locks of one transaction, with no setting", locked.open_ms, "ms", "");
    table.show("memory they took", mib(locked.region_used - loaded.region_used), "MiB", "");
    table.show("closed in good order", child.close()?, "ms", "");
    remove_directory(&path);
    Ok(())
}

/// Returns the allocated bytes of a directory's files.
fn allocated_bytes(path: &Path) -> Result<u64> {
    let files = std::fs::read_dir(path).map_err(Error::file("list", path))?;
    let blocks = files.map(|file| Ok(file?.metadata()?.blocks())).sum::<std::io::Result<u64>>();
    Ok(blocks.map_err(Error::file("look at", path))? * 512)
}

fn make_directory(path: &Path) -> Result<()> {
    std::fs::create_dir_all(path).map_err(Error::file("make", path))
}

fn remove_directory(path: &Path) {
    if let Err(error) = std::fs::remove_dir_all(path) {
        eprintln!("{} stays: {error}", path.display());
    }
}

#[allow(clippy::cast_precision_loss)] // sizes are far below 2^53
fn mib(bytes: u64) -> f64 {
    bytes as f64 / MIB as f64
}

/// The output of figures.
struct Rows {
    json: bool,
}

impl Rows {
    fn show(&mut self, what: &str, figure: f64, unit: &str, goal: &str) {
        if self.json {
            let goal = if goal.is_empty() { Value::Null } else { goal.into() };
            println!("{}", json!({ "row": what, "figure": figure, "unit": unit, "goal": goal }));
        } else {
            println!("{what:<46} {figure:>12.1} {unit:<10} {goal}");
        }
    }
}

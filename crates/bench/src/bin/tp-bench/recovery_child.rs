//! The child processes that the benchmark of recovery kills. A child is this program with the verb `recovery-child`. It
//! reports in lines of JSON.
//!
//! There are three kinds of children, by their role: `open`, `work` and `fill`. The first two print a line when they
//! have opened the environment. A working child then prints a line after every `TRANSFERS_A_LINE` transfers. A filling
//! child prints a line when it has loaded the records, and a line when it has taken the locks. When the standard input
//! of an opening or filling child is closed, the child closes the environment and prints the duration of closing.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{ChildStdout, Command, Stdio};
use std::time::Instant;

use clap::Args;
use libtp::Env;
use libtp_bench::engine_libtp::Libtp;
use libtp_bench::{Durability, Engine, Error, Granularity, Outcome, Result, Scale, Transfers};
use libtp_console::failure::{self, Ending, Failure};
use serde::{Deserialize, Serialize};

/// The verb with which this program is a child process.
pub const VERB: &str = "recovery-child";
const ROLE_OPEN: &str = "open";
const ROLE_WORK: &str = "work";
const ROLE_FILL: &str = "fill";
/// Transfers between two lines of a working child.
const TRANSFERS_A_LINE: u32 = 2_000;
const SEED: u64 = 0x7ec0;
/// Number of records in one transaction of the load.
const BATCH: u64 = 10_000;
const NAME: &str = "libtp";

/// One line of a child.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct ChildReport {
    /// Duration of the step that the line reports, in milliseconds.
    pub open_ms: f64,
    /// How the environment was opened.
    pub how: String,
    /// Log bytes that the opening replayed; in later lines of a working child, log bytes since the last checkpoint.
    pub log_bytes: u64,
    /// Page changes that the opening redid.
    pub redone: u64,
    /// Path of the shared memory's file.
    pub region: String,
    /// Bytes of memory that the shared memory's file has.
    pub region_bytes: u64,
    /// Bytes of the shared memory that are in use.
    pub region_used: u64,
    /// Log bytes after which a checkpoint is due.
    pub checkpoint_log: u64,
}

/// The lines of a working child after its first line.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Tells {
    /// The size of the log.
    Log,
    /// No further line, because the benchmark does not read this child's pipe any more, and a full pipe would stop the
    /// child.
    Nothing,
}

/// A child process. Dropping the value kills it.
pub struct Child {
    process: std::process::Child,
    lines: BufReader<ChildStdout>,
}

impl Child {
    /// Starts a child that opens the environment and waits.
    pub fn open(path: &Path) -> Result<Child> {
        Child::start(ROLE_OPEN, path, &[])
    }

    /// Starts a child that opens the bank and makes transfers until it is killed.
    pub fn work(path: &Path, scale: Scale, client: u32, tells: Tells) -> Result<Child> {
        let tells = u64::from(tells == Tells::Log);
        Child::start(ROLE_WORK, path, &[u64::from(scale.accounts), u64::from(client), tells])
    }

    /// Starts a child that loads records, then takes locks, and prints a line after each step.
    pub fn fill(path: &Path, records: u64, locks: u64) -> Result<Child> {
        Child::start(ROLE_FILL, path, &[records, locks])
    }

    fn start(role: &str, path: &Path, numbers: &[u64]) -> Result<Child> {
        let program = std::env::current_exe().map_err(Error::file("find the program of", Path::new(role)))?;
        let mut command = Command::new(&program);
        command.arg(VERB).arg(role).arg(path).args(numbers.iter().map(u64::to_string));
        let started = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut process = started.map_err(Error::file("start", &program))?;
        let lines = BufReader::new(process.stdout.take().expect("the child has a pipe"));
        Ok(Child { process, lines })
    }

    /// Returns the child's next line.
    pub fn hear(&mut self) -> Result<ChildReport> {
        let mut line = String::new();
        let read = self.lines.read_line(&mut line);
        let heard = read.ok().filter(|&bytes| bytes > 0).and_then(|_| serde_json::from_str(&line).ok());
        heard.ok_or_else(|| Error::Client {
            client: 0,
            what: format!("ended, or wrote a line that cannot be parsed: {line:?}"),
        })
    }

    /// Kills the child.
    pub fn kill(mut self) -> Result<()> {
        let killed = self.process.kill().and_then(|()| self.process.wait());
        killed.map(|_| ()).map_err(Error::file("kill", Path::new("a child process")))
    }

    /// Makes the child close the environment. Returns the duration of closing, in milliseconds.
    pub fn close(mut self) -> Result<f64> {
        drop(self.process.stdin.take());
        let left = self.hear()?;
        self.process.wait().map_err(Error::file("wait for", Path::new("a child process")))?;
        Ok(left.open_ms)
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // The child still runs if an error ended the measurement. If the child has ended, both calls do nothing.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The command line of a child.
#[derive(Args)]
pub struct Arguments {
    role: String,
    path: PathBuf,
    numbers: Vec<u64>,
}

/// Does the work of a child process.
pub fn run(arguments: &Arguments) -> failure::Result<Ending> {
    let path = &arguments.path;
    match (arguments.role.as_str(), arguments.numbers.as_slice()) {
        (ROLE_OPEN, []) => open(path)?,
        (ROLE_WORK, &[accounts, client, tells]) => work(path, accounts, client, tells != 0)?,
        (ROLE_FILL, &[records, locks]) => fill(path, records, locks)?,
        (role, numbers) => return Err(Failure::Usage(format!("no role `{role}` takes the numbers {numbers:?}"))),
    }
    Ok(Ending::Done)
}

fn open(path: &Path) -> Result<()> {
    let begin = Instant::now();
    let env = Env::open_or_create(path).map_err(Error::engine(NAME, "opening"))?;
    let opened = ChildReport { open_ms: millis(begin), ..look(&env)? };
    say(&opened)?;
    close_when_input_ends(env)
}

/// Waits until the input is closed, then closes the environment, and prints the duration.
fn close_when_input_ends(env: Env) -> Result<()> {
    let mut rest = Vec::new();
    std::io::stdin().read_to_end(&mut rest).map_err(Error::file("read", Path::new("standard input")))?;
    let begin = Instant::now();
    drop(env);
    say(&ChildReport { open_ms: millis(begin), ..ChildReport::default() })
}

fn work(path: &Path, accounts: u64, client: u64, tells: bool) -> Result<()> {
    let number = |value: u64| u32::try_from(value).map_err(|_| Error::Settings(format!("{value} is too many")));
    let scale = Scale::with_accounts(number(accounts)?);
    let begin = Instant::now();
    let bank = Libtp::open(path, Durability::Relaxed, Granularity::Record, &mut |_| {})?;
    say(&ChildReport { open_ms: millis(begin), ..look(bank.env())? })?;
    let since = bank.env().stats().map_err(Error::engine(NAME, "reading its statistics"))?.log_tail;
    let mut session = bank.session()?;
    let mut transfers = Transfers::new(scale, SEED, number(client)?);
    loop {
        for _ in 0..TRANSFERS_A_LINE {
            let transfer = transfers.next_transfer();
            while session.transact(&transfer)? == Outcome::Aborted {}
        }
        if !tells {
            continue;
        }
        let stats = bank.env().stats().map_err(Error::engine(NAME, "reading its statistics"))?;
        say(&ChildReport { log_bytes: stats.log_tail - since.max(stats.checkpoint), ..ChildReport::default() })?;
    }
}

fn fill(path: &Path, records: u64, locks: u64) -> Result<()> {
    let failed = || Error::engine::<libtp::Error>(NAME, "filling an environment");
    let env = Env::open_or_create(path).map_err(failed())?;
    let many = env.btree("many").map_err(failed())?;
    let begin = Instant::now();
    for batch in (0..records).step_by(usize::try_from(BATCH).expect("a batch is small")) {
        let keys = batch..records.min(batch + BATCH);
        let put = env.run_with(libtp::Durability::Relaxed, |txn| {
            keys.clone().try_for_each(|key| many.put(txn, &key.to_be_bytes(), &[7; 100]))
        });
        put.map_err(failed())?;
    }
    say(&ChildReport { open_ms: millis(begin), ..look(&env)? })?;
    let few = env.btree("few").map_err(failed())?;
    // The transaction `other` has a lock in `few`. This lock keeps the many locks of `txn` from becoming one lock on
    // the whole database.
    env.run(|txn| few.put(txn, &u64::MAX.to_be_bytes(), &[])).map_err(failed())?;
    let other = env.begin().map_err(failed())?;
    few.get(&other, &u64::MAX.to_be_bytes()).map_err(failed())?;
    let txn = env.begin_with(libtp::Durability::Relaxed).map_err(failed())?;
    let begin = Instant::now();
    for key in 0..locks {
        few.put(&txn, &key.to_be_bytes(), &[]).map_err(failed())?;
    }
    let took = millis(begin);
    let held = env.locks().map_err(failed())?.len() as u64;
    if held < locks {
        return Err(Error::Settings(format!("{held} locks are held after {locks} records were put")));
    }
    say(&ChildReport { open_ms: took, ..look(&env)? })?;
    other.abort().map_err(failed())?;
    txn.commit().map_err(failed())?;
    drop((many, few));
    close_when_input_ends(env)
}

fn look(env: &Env) -> Result<ChildReport> {
    let stats = env.stats().map_err(Error::engine(NAME, "reading its statistics"))?;
    let opened = env.opened();
    Ok(ChildReport {
        open_ms: 0.0,
        how: format!("{:?}", opened.how).to_lowercase(),
        log_bytes: opened.log_bytes,
        redone: opened.redone,
        region: stats.region,
        region_bytes: stats.region_allocated,
        region_used: stats.region_used,
        checkpoint_log: stats.checkpoint_log,
    })
}

fn say(said: &ChildReport) -> Result<()> {
    let failed = || Error::file("tell the parent over", Path::new("standard output"));
    let line = serde_json::to_string(said).expect("a line of plain fields is JSON");
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}").map_err(failed())?;
    out.flush().map_err(failed())
}

fn millis(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1000.0
}

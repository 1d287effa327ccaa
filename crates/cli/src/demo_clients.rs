//! The process of a demonstration that works in the bank and then dies, with its clients in the middle of transfers.
//!
//! It is this program again, started by [`crate::command_demo`], which reads what it tells on standard output.

use std::fs::File;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::mpsc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use libtp_bench::engine_libtp::Libtp;
use libtp_bench::report::nanos;
use libtp_bench::{Durability, Granularity, Outcome, Scale, Session, Transfers};
use rustix::process::{setrlimit, Resource, Rlimit};

use crate::acknowledgements::{Acknowledgement, Sender};
use crate::failure::{Ending, Failure, Result};

/// The command line.
#[derive(Args)]
pub struct Arguments {
    #[arg(long)]
    env: PathBuf,
    #[arg(long)]
    accounts: u32,
    #[arg(long)]
    clients: u32,
    #[arg(long)]
    first_client: u32,
    #[arg(long)]
    seed: u64,
    #[arg(long)]
    millis: u64,
}

impl Arguments {
    /// These arguments as words of a command line.
    pub fn words(&self) -> Vec<std::ffi::OsString> {
        let numbers = [
            ("--accounts", u64::from(self.accounts)),
            ("--clients", u64::from(self.clients)),
            ("--first-client", u64::from(self.first_client)),
            ("--seed", self.seed),
            ("--millis", self.millis),
        ];
        let mut words = vec!["demo-clients".into(), "--env".into(), self.env.clone().into_os_string()];
        words.extend(numbers.into_iter().flat_map(|(name, number)| [name.into(), number.to_string().into()]));
        words
    }

    /// What to run where; the rest is the bank's.
    pub fn new(env: PathBuf, scale: &Scale, clients: u32, first_client: u32, time: Duration) -> Arguments {
        let millis = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        Arguments { env, accounts: scale.accounts, clients, first_client, seed: 1, millis }
    }
}

/// Every other client waits for the disk at each commit, beginning with the first.
pub fn durability_of(place: u32) -> Durability {
    if place % 2 == 0 {
        Durability::Sync
    } else {
        Durability::Relaxed
    }
}

/// Works until the time is up, then dies. Returns only if a client failed.
pub fn run(arguments: &Arguments) -> Result<Ending> {
    keep_no_core();
    let opened = Libtp::open(&arguments.env, Durability::Sync, Granularity::Record, &mut |_, _, _| {})?;
    // Nothing is ever put away here: the process dies in the middle of its work.
    let bank: &'static Libtp = Box::leak(Box::new(opened));
    let pipe = std::io::stdout().as_fd().try_clone_to_owned().map_err(Failure::doing("use standard output"))?;
    let pipe = Arc::new(File::from(pipe));
    let (failed, failures) = mpsc::channel();
    let mut threads = Vec::new();
    for place in 0..arguments.clients {
        let transfers =
            Transfers::new(Scale::with_accounts(arguments.accounts), arguments.seed, arguments.first_client + place);
        let (pipe, failed) = (Arc::clone(&pipe), failed.clone());
        threads.push(std::thread::spawn(move || {
            let ended = work(bank, durability_of(place), transfers, &pipe);
            // Nobody listens only when the process is ending anyway.
            failed.send(ended).ok();
        }));
    }
    match failures.recv_timeout(Duration::from_millis(arguments.millis)) {
        Ok(Err(failure)) => Err(failure),
        Ok(Ok(never)) => match never {},
        Err(_) if threads.iter().any(|thread| thread.is_finished()) => {
            Err(Failure::Failed("a client ended before its time".to_string()))
        }
        Err(_) => std::process::abort(),
    }
}

/// What a client returns that only ever fails.
enum Never {}

/// Sends transfers for ever, and tells of each after its commit returned.
fn work(bank: &Libtp, durability: Durability, mut transfers: Transfers, pipe: &File) -> Result<Never> {
    let mut session = bank.session_at(durability);
    let mut sender = Sender::new(pipe);
    let mut sent = Instant::now();
    loop {
        let transfer = transfers.next_transfer();
        while session.transact(&transfer)? == Outcome::Aborted {
            std::thread::yield_now();
        }
        let now = Instant::now();
        let latency_nanos = u32::try_from(nanos(now - sent)).unwrap_or(u32::MAX);
        let told = sender.tell(Acknowledgement { transfer, durability, latency_nanos }, now);
        told.map_err(Failure::doing("tell of a commit"))?;
        sent = Instant::now();
    }
}

/// A crash on purpose need not leave a file with all of the bank's shared memory behind.
fn keep_no_core() {
    let none = Rlimit { current: Some(0), maximum: Some(0) };
    // If it is refused, the system keeps what it keeps.
    setrlimit(Resource::Core, none).ok();
}

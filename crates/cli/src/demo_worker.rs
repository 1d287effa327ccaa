//! A process of a demonstration, which makes transfers and acknowledges each of them, until it is killed in the middle
//! of a transfer.
//!
//! [`crate::demo_crew`] starts this program as such a process, and reads the acknowledgements from its standard output.

use std::path::PathBuf;

use clap::Args;
use libtp_bank::{Durability, Granularity, Libtp, Outcome, Scale, Session, Transfers};

use crate::acknowledgements::{Acknowledgement, Sender};
use crate::failure::{Ending, Failure, Result};
use libtp_bank::clock;

/// The command line.
#[derive(Args, Clone)]
pub struct Arguments {
    /// The bank's directory.
    #[arg(long)]
    pub env: PathBuf,
    /// The bank's accounts.
    #[arg(long)]
    pub accounts: u32,
    /// The bank's tellers.
    #[arg(long)]
    pub tellers: u32,
    /// The bank's branches.
    #[arg(long)]
    pub branches: u32,
    /// The seed of all transfers.
    #[arg(long)]
    pub seed: u64,
    /// The client's number, which no client had before.
    #[arg(long)]
    pub client: u32,
    /// Durability of the process's commits.
    #[arg(long)]
    pub durability: Durability,
}

impl Arguments {
    /// Returns these arguments as words of a command line.
    pub fn words(&self) -> Vec<std::ffi::OsString> {
        let numbers = [
            ("--accounts", u64::from(self.accounts)),
            ("--tellers", u64::from(self.tellers)),
            ("--branches", u64::from(self.branches)),
            ("--seed", self.seed),
            ("--client", u64::from(self.client)),
        ];
        let mut words = vec!["demo-worker".into(), "--env".into(), self.env.clone().into_os_string()];
        words.extend(numbers.into_iter().flat_map(|(name, number)| [name.into(), number.to_string().into()]));
        words.extend(["--durability".into(), self.durability.name().into()]);
        words
    }
}

/// Returns the durability of a process's commits. Every second process, beginning with the first, waits for the disk at
/// each commit.
pub fn durability_of(place: usize) -> Durability {
    if place % 2 == 0 {
        Durability::Sync
    } else {
        Durability::Relaxed
    }
}

/// Makes transfers until the process is killed. Acknowledges each transfer after its commit has returned. Returns only
/// on failure.
pub fn run(arguments: &Arguments) -> Result<Ending> {
    let durability = arguments.durability;
    let bank = Libtp::open(&arguments.env, durability, Granularity::Record, &mut |_| {})?;
    let scale = Scale { accounts: arguments.accounts, tellers: arguments.tellers, branches: arguments.branches };
    let mut transfers = Transfers::new(scale, arguments.seed, arguments.client);
    let mut session = bank.session_at(durability);
    // The output has no buffer, because `Sender` decides when to write.
    let pipe = std::os::fd::AsFd::as_fd(&std::io::stdout()).try_clone_to_owned();
    let mut sender = Sender::new(std::fs::File::from(pipe.map_err(Failure::doing("use standard output"))?));
    let mut sent = clock::now_nanos();
    loop {
        let transfer = transfers.next_transfer();
        while session.transact(&transfer)? == Outcome::Aborted {
            std::thread::yield_now();
        }
        let at_nanos = clock::now_nanos();
        let latency_nanos = u32::try_from(at_nanos - sent).unwrap_or(u32::MAX);
        let written = sender.send(Acknowledgement { transfer, durability, latency_nanos, at_nanos });
        written.map_err(Failure::doing("report a commit"))?;
        sent = clock::now_nanos();
    }
}

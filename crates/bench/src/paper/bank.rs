//! A contender's bank, which threads or processes use in slices of time, and which is audited at the end.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::rounds::Sample;
use crate::catalogue::open_engine;
use crate::engine::{Durability, Engine, Granularity, Outcome};
use crate::engine_libtp::Libtp;
use crate::engine_unprotected::{Substitute, Unprotected};
use crate::error::{Error, Result};
use crate::kinds::{EngineKind, OpenSettings, Sharing};
use crate::processes::all_processes;
use crate::report::{sent, ClientsAs, RunSettings, Together};
use crate::run::{all_threads, Before};
use crate::tpcb::{Scale, Transfers};

/// An engine and its settings. Sent to client processes as a line of JSON.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Contender {
    /// `libtp`, or the name of an [`EngineKind`].
    pub engine: String,
    /// The events that a commit must survive.
    pub durability: Durability,
    /// What a lock of libtp covers.
    pub granularity: Granularity,
    /// Whether a transfer first reads each balance under a shared lock, and then locks it for the change (libtp only).
    pub reads_first: bool,
    /// One transfer in this number of transfers takes its locks in reverse order, which causes deadlocks; zero: no
    /// transfer (libtp only).
    pub reversing_one_in: u32,
    /// Whether read-only transactions read from a snapshot (libtp only).
    pub reads_snapshots: bool,
    /// Whether several processes use the bank.
    pub is_shared: bool,
    /// Whether only one process uses the bank, and will be killed.
    pub is_doomed: bool,
    /// The contents of `libtp.toml` when the bank is made (libtp only).
    pub settings: Option<String>,
    /// Whether each latch of the client processes costs two calls of the kernel (libtp only).
    pub calls_kernel: bool,
}

impl Contender {
    /// Returns libtp with locks on records.
    pub fn libtp(durability: Durability) -> Contender {
        Contender::of("libtp", durability)
    }

    /// Returns an engine by its name.
    pub fn of(engine: &str, durability: Durability) -> Contender {
        let (granularity, engine) = (Granularity::Record, engine.to_owned());
        Contender {
            engine,
            durability,
            granularity,
            reads_first: false,
            reversing_one_in: 0,
            reads_snapshots: false,
            is_shared: false,
            is_doomed: false,
            settings: None,
            calls_kernel: false,
        }
    }

    /// Returns this contender with a bank that several processes use.
    #[must_use]
    pub fn shared(self) -> Contender {
        Contender { is_shared: true, ..self }
    }

    /// Returns this contender with read-only transactions that read from a snapshot, as the peers' do.
    #[must_use]
    pub fn reading_snapshots(self) -> Contender {
        Contender { reads_snapshots: true, ..self }
    }

    /// Returns this contender with a bank that only one process uses, which will be killed.
    #[must_use]
    pub fn doomed(self) -> Contender {
        Contender { is_doomed: true, ..self }
    }

    /// Returns this contender with the locks of the paper's programs: on pages, and each balance is read before it is
    /// locked for the change.
    #[must_use]
    pub fn as_in_the_paper(self) -> Contender {
        Contender { granularity: Granularity::Page, reads_first: true, ..self }
    }

    /// Opens the bank in `directory`. With `join`, another process has the bank open already.
    ///
    /// # Errors
    /// The engine's error; `Settings` if the engine is not available.
    pub fn open(&self, directory: &Path, join: bool) -> Result<Box<dyn Engine>> {
        self.open_watched(directory, join, &mut |_| {})
    }

    /// Opens the bank as [`Contender::open`] does, and calls `watch` with the progress of libtp's recovery.
    ///
    /// # Errors
    /// The engine's error; `Settings` if the engine is not available.
    pub fn open_watched(&self, directory: &Path, join: bool, watch: &mut libtp::Watch<'_>) -> Result<Box<dyn Engine>> {
        if self.engine == "libtp" {
            let bank = Libtp::open(directory, self.durability, self.granularity, watch)?;
            let bank = bank.reading_first(self.reads_first).reversing_one_in(self.reversing_one_in);
            return Ok(Box::new(bank.reading_snapshots(self.reads_snapshots)));
        }
        if let Some(instead) = Substitute::ALL.into_iter().find(|one| one.name() == self.engine) {
            return Ok(Box::new(Unprotected::open(directory, instead)?));
        }
        let kind: EngineKind = self.engine.parse()?;
        let sharing = match (join, self.is_shared) {
            _ if self.is_doomed => Sharing::Doomed,
            (true, _) => Sharing::Joined,
            (false, true) => Sharing::First,
            (false, false) => Sharing::Alone,
        };
        open_engine(kind, &OpenSettings { directory, durability: self.durability, sharing })
    }
}

/// An open and loaded bank.
pub struct Bank {
    engine: Box<dyn Engine>,
    contender: Contender,
    directory: PathBuf,
    scale: Scale,
    /// The number of history records that an audit expects: those at the opening, and the transfers committed since.
    history: Cell<u64>,
    next_client: Cell<u32>,
}

/// A function that returns the command that starts a client process of a contender on a bank.
pub type StartClient<'s> = &'s (dyn Fn(&Contender, &Path) -> Command + 's);

/// Number of transfers that an audit sends, and whose balances it reads as a client.
const READ_AGAIN: u32 = 50;
/// Largest number of attempts to commit a transaction of the audit.
const ATTEMPTS: u32 = 100;
/// Longest measurement of a slice that is repeated because no transaction committed.
const LONGEST: Duration = Duration::from_secs(10);

/// A slice of time in which clients use a bank.
#[derive(Clone, Copy)]
pub struct Slice<'s> {
    /// Number of clients that work at the same time.
    pub clients: u32,
    /// Returns the command that starts a client process; `None`: the clients are threads.
    pub process: Option<StartClient<'s>>,
    /// Duration of the measurement.
    pub time: Duration,
    /// Duration of the warm-up.
    pub warmup: Duration,
    /// Whether the clients only read balances.
    pub is_read_only: bool,
}

/// The result of a slice.
#[derive(Clone, Debug)]
pub struct Done {
    /// Transactions per second.
    pub tps: f64,
    /// Number of deadlock victims per thousand commits.
    pub aborts_per_1000: f64,
    /// Syncs of the log per commit, including the warm-up; `None` if the engine does not count its syncs, or the
    /// clients only read.
    pub syncs_per_commit: Option<f64>,
    /// The details, for the file of samples.
    pub raw: serde_json::Value,
}

impl Bank {
    /// Opens the bank in `directory`, and loads it if the directory is new.
    ///
    /// # Errors
    /// The engine's error.
    pub fn open(contender: &Contender, directory: &Path, scale: Scale, loaded: &mut dyn FnMut(u64)) -> Result<Bank> {
        let is_new = !directory.exists();
        std::fs::create_dir_all(directory).map_err(Error::file("make", directory))?;
        if let (Some(settings), true) = (&contender.settings, is_new) {
            let path = directory.join(libtp::SETTINGS_NAME);
            std::fs::write(&path, settings).map_err(Error::file("write", &path))?;
        }
        let engine = contender.open(directory, false)?;
        if is_new {
            let done = engine.load(&scale, loaded);
            if done.is_err() {
                // Otherwise a later opening would regard the incomplete bank as loaded.
                let _ = std::fs::remove_dir_all(directory);
            }
            done?;
        }
        let before = Before::look(engine.as_ref())?;
        let (history, next_client) = (Cell::new(before.history.count), Cell::new(before.history.first_client));
        let (contender, directory) = (contender.clone(), directory.to_path_buf());
        Ok(Bank { engine, contender, directory, scale, history, next_client })
    }

    /// Runs the clients for a slice.
    ///
    /// # Errors
    /// The first client's error.
    pub fn work(&self, slice: &Slice<'_>) -> Result<Done> {
        let settings = RunSettings {
            scale: self.scale,
            seed: 1,
            clients: slice.clients,
            warmup: slice.warmup,
            measured: slice.time,
            read_only: slice.is_read_only,
            durability: self.contender.durability,
            most: None,
        };
        let first = self.next_client.get();
        self.next_client.set(first + slice.clients);
        let (engine, quiet) = (self.engine.as_ref(), &mut |_: &crate::run::Progress| {});
        let syncs_before = engine.log_syncs()?;
        let sent_all = match slice.process {
            None => all_threads(engine, &settings, first, quiet),
            Some(process) => {
                let mut start = |_| process(&self.contender, &self.directory);
                all_processes(&settings, first, &mut start, quiet)
            }
        };
        if sent_all.is_err() && !slice.is_read_only {
            // The number of transfers that the other clients committed is unknown. So the audit will expect the current
            // number of history records; it still checks the sums.
            self.history.set(Before::look(engine)?.history.count);
        }
        let clients = sent_all?;
        // The engine's count may have begun again, if the shared memory was rebuilt during the slice.
        let syncs = engine.log_syncs()?.zip(syncs_before).and_then(|(after, before)| after.checked_sub(before));
        if !slice.is_read_only {
            self.history.set(self.history.get() + sent(&clients));
        }
        let together = Together::of(&clients);
        let Together { committed, aborts, elapsed_ns, latency } = &together;
        if *committed == 0 {
            // On a busy machine, a slice may end before a transaction has had time to commit. Such a slice has no rate,
            // so it is repeated with more time.
            let longer = slice.time * 10;
            if longer <= LONGEST {
                return self.work(&Slice { time: longer, ..*slice });
            }
            return Err(Error::Settings(
                "no transaction was committed in the time of the slice, so there is no rate: give a longer time"
                    .to_owned(),
            ));
        }
        let clients_as = if slice.process.is_some() { ClientsAs::Processes } else { ClientsAs::Threads };
        let commits = sent(&clients);
        let syncs_per_commit = syncs.filter(|_| !slice.is_read_only).map(|syncs| number(syncs) / number(commits));
        let raw = json!({
            "contender": self.contender, "accounts": self.scale.accounts, "clients": slice.clients, "as": clients_as,
            "read_only": slice.is_read_only, "committed": committed, "aborts": aborts, "elapsed_ns": elapsed_ns,
            "log_syncs": syncs, "committed_with_warmup": commits,
            "p50_ns": latency.permille(500), "p99_ns": latency.permille(990), "max_ns": latency.max(),
        });
        Ok(Done { tps: number(together.tps()), aborts_per_1000: together.aborts_per_1000(), syncs_per_commit, raw })
    }

    /// Runs the clients for a slice. Returns the transactions per second as a sample.
    ///
    /// # Errors
    /// The first client's error.
    pub fn sample(&self, slice: &Slice<'_>) -> Result<Sample> {
        let done = self.work(slice)?;
        Ok(Sample { value: done.tps, audit: "ok".to_owned(), raw: done.raw })
    }

    /// Sends a few more transfers, audits the bank, and reads the balances of these transfers as a read-only client
    /// does. Returns `ok`, or a description of the faults.
    ///
    /// # Errors
    /// The engine's error if the bank cannot be read or changed.
    pub fn audit(&self) -> Result<String> {
        let client = self.next_client.get();
        self.next_client.set(client + 1);
        let transfers = || {
            let mut drawn = Transfers::new(self.scale, 1, client);
            (0..READ_AGAIN).map(move |_| drawn.next_transfer())
        };
        // In a bank that was only read, all balances are zero, and a client that reads zeros by mistake would not be
        // noticed. So the audit first changes some balances.
        let mut session = self.engine.session()?;
        for transfer in transfers() {
            until_committed(|| session.transact(&transfer))?;
            self.history.set(self.history.get() + 1);
        }
        drop(session);
        let audit = self.engine.audit(&self.scale)?;
        let verdict = audit.verdict(self.history.get());
        let mut session = self.engine.session()?;
        for transfer in transfers() {
            let (read, there) = (until_committed(|| session.read_only(&transfer))?, audit.sum_of(&transfer));
            if Some(read) != there {
                let id = transfer.id;
                return Ok(format!(
                    "a read-only transaction finds the sum {read} for the balances of transfer {id}, and the audit finds {there:?}; verdict on the bank: {verdict}"
                ));
            }
        }
        Ok(verdict)
    }

    /// Closes the bank cleanly.
    ///
    /// # Errors
    /// The engine's error.
    pub fn close(self) -> Result<()> {
        self.engine.close()
    }

    /// Closes the bank cleanly, and removes its directory.
    ///
    /// # Errors
    /// The engine's error, or an error of the files.
    pub fn remove(self) -> Result<()> {
        let directory = self.directory.clone();
        let closed = self.close();
        std::fs::remove_dir_all(&directory).map_err(Error::file("remove", &directory))?;
        closed
    }

    /// Returns the bank's contender.
    pub fn contender(&self) -> &Contender {
        &self.contender
    }
}

#[cfg(test)]
impl Bank {
    /// Makes the audit expect one more transfer than was sent.
    pub(super) fn miss_one(&self) {
        self.history.set(self.history.get() + 1);
    }
}

/// Repeats a transaction until it commits. The locks of a dead client could abort it each time, so the number of
/// attempts is limited.
fn until_committed(mut work: impl FnMut() -> Result<Outcome>) -> Result<i64> {
    for _ in 0..ATTEMPTS {
        if let Outcome::Committed { balance } = work()? {
            return Ok(balance);
        }
    }
    Err(Error::Settings(format!("a transaction was aborted {ATTEMPTS} times, although no other client uses the bank")))
}

/// Converts a count to a floating-point number.
pub fn number(count: u64) -> f64 {
    // Beyond 2^53 the last digits do not matter.
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Session;
    use crate::engine_in_memory::{InMemory, MapKind};
    use crate::tpcb::{Table, Transfer};

    /// A bank whose read-only clients always read zero.
    struct Blind(InMemory);

    struct Sees<'b>(Box<dyn Session + 'b>);

    impl Session for Sees<'_> {
        fn transact(&mut self, transfer: &Transfer) -> Result<Outcome> {
            self.0.transact(transfer)
        }

        fn read_only(&mut self, _: &Transfer) -> Result<Outcome> {
            Ok(Outcome::Committed { balance: 0 })
        }
    }

    impl Engine for Blind {
        fn name(&self) -> &'static str {
            "blind"
        }

        fn lock_granularity(&self) -> &'static str {
            self.0.lock_granularity()
        }

        fn load(&self, scale: &Scale, progress: &mut dyn FnMut(u64)) -> Result<()> {
            self.0.load(scale, progress)
        }

        fn session(&self) -> Result<Box<dyn Session + '_>> {
            Ok(Box::new(Sees(self.0.session()?)))
        }

        fn walk(&self, table: Table, each: &mut dyn FnMut(u64, &[u8])) -> Result<()> {
            self.0.walk(table, each)
        }

        fn log_bytes(&self) -> Result<u64> {
            Ok(0)
        }

        fn close(self: Box<Self>) -> Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_client_that_reads_wrong_balances_is_noticed_in_a_bank_that_was_only_read() {
        let in_memory = || {
            let engine = InMemory::new(MapKind::Hash);
            engine.load(&Scale::SMALL, &mut |_| {}).unwrap();
            engine
        };
        let bank = |engine: Box<dyn Engine>| {
            let (contender, directory) = (Contender::of("in memory", Durability::Relaxed), PathBuf::new());
            let (history, next_client) = (Cell::new(0), Cell::new(0));
            Bank { engine, contender, directory, scale: Scale::SMALL, history, next_client }
        };
        assert_eq!(bank(Box::new(in_memory())).audit().unwrap(), "ok");
        let verdict = bank(Box::new(Blind(in_memory()))).audit().unwrap();
        assert!(verdict.starts_with("a read-only transaction finds the sum 0 for the balances of"), "{verdict}");
    }
}

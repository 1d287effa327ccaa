//! A bank of one contender, worked on in slices by threads or processes, and audited in the end.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::rounds::Sample;
use crate::catalogue::{open_engine, EngineKind, OpenSettings, Sharing};
use crate::engine::{Durability, Engine, Granularity, Outcome};
use crate::engine_libtp::Libtp;
use crate::engine_unprotected::{Instead, Unprotected};
use crate::error::{Error, Result};
use crate::processes::all_processes;
use crate::report::{sent, ClientsAs, RunSettings, Together};
use crate::run::{all_threads, Before};
use crate::tpcb::{Scale, Transfers};

/// Who does the transactions, and how. Goes to client processes as a line of JSON.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Contender {
    /// `libtp`, or the name of an [`EngineKind`].
    pub engine: String,
    /// What a commit has to survive.
    pub durability: Durability,
    /// What libtp's locks cover.
    pub granularity: Granularity,
    /// Balances are read under shared locks first (libtp only).
    pub reads_first: bool,
    /// Of so many transfers one locks in reverse order, so that two deadlock; none if it is zero (libtp only).
    pub reversing_one_in: u32,
    /// What only reads does so in a snapshot (libtp only).
    pub reads_snapshots: bool,
    /// Several processes are to use it.
    pub is_shared: bool,
    /// A process is to use it alone, and to be killed.
    pub is_doomed: bool,
    /// What `libtp.toml` says, where the bank is made (libtp only).
    pub settings: Option<String>,
    /// Each latch of its clients, which are processes, costs two calls of the kernel (libtp only).
    pub calls_kernel: bool,
}

impl Contender {
    /// libtp with locks on records.
    pub fn libtp(durability: Durability) -> Contender {
        Contender::of("libtp", durability)
    }

    /// An engine by its name.
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

    /// Several processes are to use it.
    #[must_use]
    pub fn shared(self) -> Contender {
        Contender { is_shared: true, ..self }
    }

    /// What only reads does so in a snapshot, as the peers' transactions that only read do.
    #[must_use]
    pub fn reading_snapshots(self) -> Contender {
        Contender { reads_snapshots: true, ..self }
    }

    /// A process is to use it alone, and to be killed.
    #[must_use]
    pub fn doomed(self) -> Contender {
        Contender { is_doomed: true, ..self }
    }

    /// As the paper's programs: locks on pages, and each balance is read before it is locked for the change.
    #[must_use]
    pub fn as_in_the_paper(self) -> Contender {
        Contender { granularity: Granularity::Page, reads_first: true, ..self }
    }

    /// Opens the bank in `directory`; `join` if another process has it open.
    ///
    /// # Errors
    /// The engine's, or that it is not to be had here.
    pub fn open(&self, directory: &Path, join: bool) -> Result<Box<dyn Engine>> {
        if self.engine == "libtp" {
            let bank = Libtp::open(directory, self.durability, self.granularity, &mut |_, _, _| {})?;
            let bank = bank.reading_first(self.reads_first).reversing_one_in(self.reversing_one_in);
            return Ok(Box::new(bank.reading_snapshots(self.reads_snapshots)));
        }
        if let Some(instead) = Instead::ALL.into_iter().find(|one| one.name() == self.engine) {
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

/// A bank, opened and loaded.
pub struct Bank {
    engine: Box<dyn Engine>,
    contender: Contender,
    directory: PathBuf,
    scale: Scale,
    /// History records when it was opened, and those that were sent since.
    history: Cell<u64>,
    next_client: Cell<u32>,
}

/// Starts a client process of a contender on a bank.
pub type StartClient<'s> = &'s (dyn Fn(&Contender, &Path) -> Command + 's);

/// Transfers whose balances are read in an audit.
const READ_AGAIN: u32 = 50;
/// How often one of them is tried.
const ATTEMPTS: u32 = 100;
/// So long a slice may become in which nothing was done at first.
const LONGEST: Duration = Duration::from_secs(10);

/// A slice of work.
#[derive(Clone, Copy)]
pub struct Slice<'s> {
    /// How many clients at once.
    pub clients: u32,
    /// How a client that is a process is started; none for threads.
    pub process: Option<StartClient<'s>>,
    /// How long it is measured.
    pub time: Duration,
    /// How long it runs before.
    pub warmup: Duration,
    /// Balances are read and not changed.
    pub is_read_only: bool,
}

/// What a slice gave.
#[derive(Clone, Debug)]
pub struct Done {
    /// Transactions a second.
    pub tps: f64,
    /// Of a thousand, those that were chosen as a deadlock's victims.
    pub aborts_per_1000: f64,
    /// Syncs of the log for a commit, before the measured time, too; none where the engine does not count them, or nothing is committed.
    pub syncs_per_commit: Option<f64>,
    /// For the file of samples.
    pub raw: serde_json::Value,
}

impl Bank {
    /// Opens the bank in `directory`, and loads it if nothing is there.
    ///
    /// # Errors
    /// The engine's.
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
                // Half a bank would be taken for a whole one by whoever opens it next.
                let _ = std::fs::remove_dir_all(directory);
            }
            done?;
        }
        let before = Before::look(engine.as_ref())?;
        let (history, next_client) = (Cell::new(before.history_count), Cell::new(before.first_client));
        let (contender, directory) = (contender.clone(), directory.to_path_buf());
        Ok(Bank { engine, contender, directory, scale, history, next_client })
    }

    /// Works for a slice.
    ///
    /// # Errors
    /// The first client's.
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
            // What the others have sent nobody has told: from here on it counts as what is there. The sums are judged all the same.
            self.history.set(Before::look(engine)?.history_count);
        }
        let clients = sent_all?;
        // They are counted since the shared memory was made, which may have been made anew meanwhile.
        let syncs = engine.log_syncs()?.zip(syncs_before).and_then(|(after, before)| after.checked_sub(before));
        if !slice.is_read_only {
            self.history.set(self.history.get() + sent(&clients));
        }
        let together = Together::of(&clients);
        let Together { committed, aborts, elapsed_ns, latency } = &together;
        if *committed == 0 {
            // A slice that is over before anything waited long enough, as on a busy machine, says nothing of a rate: it is tried longer.
            let longer = slice.time * 10;
            if longer <= LONGEST {
                return self.work(&Slice { time: longer, ..*slice });
            }
            return Err(Error::Settings("nothing was committed in the time: there is no rate".to_owned()));
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

    /// A sample of [`Bank::work`].
    ///
    /// # Errors
    /// As there.
    pub fn sample(&self, slice: &Slice<'_>) -> Result<Sample> {
        let done = self.work(slice)?;
        Ok(Sample { value: done.tps, audit: "ok".to_owned(), raw: done.raw })
    }

    /// Adds the bank up, after a few more transfers, and reads the balances of these as a client that only reads does: `ok`, or what does not agree.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn audit(&self) -> Result<String> {
        let client = self.next_client.get();
        self.next_client.set(client + 1);
        let transfers = || {
            let mut drawn = Transfers::new(self.scale, 1, client);
            (0..READ_AGAIN).map(move |_| drawn.next_transfer())
        };
        // In a bank that was only read all balances are zero, and whoever read nothing would be right.
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
                    "who only reads finds {read} in transfer {id}'s balances, which have {there:?}; the bank: {verdict}"
                ));
            }
        }
        Ok(verdict)
    }

    /// Closes it in good order.
    ///
    /// # Errors
    /// The engine's.
    pub fn close(self) -> Result<()> {
        self.engine.close()
    }

    /// Closes it in good order, and removes its directory.
    ///
    /// # Errors
    /// The engine's, and those of the files.
    pub fn remove(self) -> Result<()> {
        let directory = self.directory.clone();
        let closed = self.close();
        std::fs::remove_dir_all(&directory).map_err(Error::file("remove", &directory))?;
        closed
    }

    /// Whose it is.
    pub fn contender(&self) -> &Contender {
        &self.contender
    }
}

#[cfg(test)]
impl Bank {
    /// From now on a transfer is missing that was never sent.
    pub(super) fn miss_one(&self) {
        self.history.set(self.history.get() + 1);
    }
}

/// Does it until it is nobody's victim, which may be one that died with its locks: not for ever.
fn until_committed(mut work: impl FnMut() -> Result<Outcome>) -> Result<i64> {
    for _ in 0..ATTEMPTS {
        if let Outcome::Committed { balance } = work()? {
            return Ok(balance);
        }
    }
    Err(Error::Settings(format!("nobody is at work, and a transaction was aborted {ATTEMPTS} times")))
}

/// A count as a figure.
pub fn number(count: u64) -> f64 {
    // Beyond 2^53 the last digits are nobody's concern.
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Session;
    use crate::engine_in_memory::{InMemory, MapKind};
    use crate::tpcb::{Table, Transfer};

    /// A bank whose readers find nothing in its accounts.
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
    fn who_reads_what_is_not_there_is_noticed_in_a_bank_that_was_only_read() {
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
        assert!(verdict.starts_with("who only reads finds 0 in transfer"), "{verdict}");
    }
}

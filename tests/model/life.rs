//! An environment's life on a simulated disk: transactions, closes, deaths and power cuts, and the states that are
//! allowed after each.
//!
//! A commit that was answered as durable must be there. A power cut may lose a relaxed commit, but then it must lose
//! all later commits, too. No change of an unfinished or aborted transaction may be there. The death of all processes
//! must lose no commit.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::ops::AddAssign;
use std::sync::Mutex;

use libtp::{Bytes, CommitLsn, DatabaseSettings, Durability, Env, OpenedBy, Settings, SharedMemory, Txn};
use libtp_sim::{LossMode, SimDisk, SimProcess};
use libtp_tests::sizes;
use libtp_tests::versions::platform;
use libtp_tests::watchdog::caught;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};

/// The database of all cases.
pub const NAME: &str = "subject";

/// How a transaction ends.
#[derive(Clone, Copy, Debug)]
pub enum End {
    /// It commits, and the commit is answered when it is on disk.
    Commit,
    /// It commits, and the commit is answered at once.
    Relaxed,
    /// It commits without a wait, and then waits until the commit is on disk.
    Waited,
    /// It aborts.
    Abort,
    /// Its handle is dropped, which aborts it.
    Drop,
    /// It still runs when the following event happens.
    Unfinished,
}

/// The event after a transaction.
#[derive(Clone, Copy, Debug)]
pub enum After {
    /// Nothing.
    Nothing,
    /// A round of background work.
    Background,
    /// A checkpoint.
    Checkpoint,
    /// All commits are written to disk.
    Flush,
    /// The environment is closed cleanly and opened again.
    Reopen,
    /// All processes die. Their shared memory stays.
    Death,
    /// The power fails. The mode determines which unsynced bytes stay.
    PowerCut(LossMode, u64),
}

/// A transaction and the event after it.
#[derive(Clone, Debug)]
pub struct Act<S> {
    steps: Vec<S>,
    end: End,
    after: After,
}

/// The tested database, and its model.
pub trait Subject: Sized {
    /// One step of a transaction.
    type Step: Clone + Debug + 'static;
    /// The database's contents.
    type Model: Clone + PartialEq + Default;

    /// Opens the database, or creates it if it is missing.
    fn open(env: &Env, shape: Shape) -> libtp::Result<Self>;
    /// Applies the steps to the database and to the model.
    fn work(&self, txn: &Txn<'_>, steps: &[Self::Step], model: &mut Self::Model) -> Outcome<()>;
    /// Fills a new database, and returns its contents; by default leaves it empty.
    fn begin(&self) -> Outcome<Self::Model> {
        Ok(Self::Model::default())
    }
    /// Compacts the database, outside of a transaction. Its contents must not change.
    fn compact(&self) -> Outcome<()> {
        Ok(())
    }
    /// Reads all contents, upwards and downwards.
    fn state(&self, txn: &Txn<'_>) -> Outcome<Self::Model>;
    /// Describes the differences between two models.
    fn difference(wanted: &Self::Model, found: &Self::Model) -> String;
}

/// The sizes of the tested database.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Bytes of a page.
    pub page_bytes: usize,
    /// Bytes of a record, if all records have the same size.
    pub record_bytes: usize,
}

/// The result of a function of a case; the error is a failure of the case.
pub type Outcome<T> = Result<T, TestCaseError>;

/// Returns a function that turns an error into the failure of a case.
pub fn failed(what: &str) -> impl Fn(libtp::Error) -> TestCaseError + '_ {
    move |error| TestCaseError::fail(format!("{what}: {error}"))
}

/// The counts of all cases.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    dense: u64,
    transactions: u64,
    reopened: u64,
    deaths: u64,
    power_cuts: u64,
    evictions: u64,
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Tally) {
        self.dense += other.dense;
        self.transactions += other.transactions;
        self.reopened += other.reopened;
        self.deaths += other.deaths;
        self.power_cuts += other.power_cuts;
        self.evictions += other.evictions;
    }
}

/// Generates transactions of up to `steps` steps, with their ends and the events after them.
pub fn acts<S: Clone + Debug + 'static>(
    step: impl Strategy<Value = S> + 'static,
    steps: usize,
) -> impl Strategy<Value = Vec<Act<S>>> {
    let end = prop_oneof![
        5 => Just(End::Commit),
        3 => Just(End::Relaxed),
        1 => Just(End::Waited),
        2 => Just(End::Abort),
        1 => Just(End::Drop),
        2 => Just(End::Unfinished),
    ];
    let power_cut = (proptest::sample::select(&LossMode::ALL[..]), any::<u64>());
    let after = prop_oneof![
        12 => Just(After::Nothing),
        3 => Just(After::Background),
        2 => Just(After::Checkpoint),
        1 => Just(After::Flush),
        2 => Just(After::Reopen),
        1 => Just(After::Death),
        3 => power_cut.prop_map(|(mode, seed)| After::PowerCut(mode, seed)),
    ];
    let act = (proptest::collection::vec(step, 0..steps), end, after);
    proptest::collection::vec(act.prop_map(|(steps, end, after)| Act { steps, end, after }), 1..24)
}

/// Runs cases of one shape, and prints the counts.
pub fn run<T: Subject>(name: &str, shape: Shape, cases: u64, acts: impl Strategy<Value = Vec<Act<T::Step>>>) {
    let seed = sizes::first_seed();
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let cases = u32::try_from(cases.max(1)).expect("the number of cases has 32 bits");
    let config = Config { cases, failure_persistence: None, max_shrink_iters: 3_000, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes));
    let sum = Mutex::new(Tally::default());
    let ended = runner.run(&(any::<bool>(), acts), |(is_dense, acts)| {
        let tally = quietly(|| Life::<T>::begin(shape, seed, is_dense)?.live(&acts))?;
        *sum.lock().expect("no case panics while it adds") += tally;
        Ok(())
    });
    let sum = sum.into_inner().expect("no case panics while it adds");
    println!(
        "figures: {name}: {cases} cases, {} of them dense, {} transactions, {} reopened, {} deaths, {} power cuts, {} evictions",
        sum.dense, sum.transactions, sum.reopened, sum.deaths, sum.power_cuts, sum.evictions
    );
    match ended {
        Ok(()) => {}
        Err(TestError::Fail(why, (is_dense, acts))) => {
            panic!("LIBTP_TEST_SEED={seed} {name}: {why}\nthe smallest failing case (dense: {is_dense}): {acts:?}")
        }
        Err(error) => panic!("LIBTP_TEST_SEED={seed} {name}: {error}"),
    }
}

/// Runs `work`, and turns a panic into a failure. So the panic is not printed again for every smaller case that
/// proptest tries.
fn quietly<R>(work: impl FnOnce() -> Outcome<R>) -> Outcome<R> {
    let caught = caught(|| work().map_err(|error| error.to_string()));
    caught.map_err(TestCaseError::fail)
}

/// A machine, the environment that is open on it, and the database's possible states.
struct Life<T: Subject> {
    subject: Option<T>,
    env: Option<Env>,
    process: SimProcess,
    disk: SimDisk,
    memory: SharedMemory,
    shape: Shape,
    /// Whether full leaves give records to their neighbours before they split.
    is_dense: bool,
    /// The states that a power cut may leave, the oldest first. The last state has all commits.
    states: Vec<T::Model>,
    tally: Tally,
}

impl<T: Subject> Drop for Life<T> {
    fn drop(&mut self) {
        self.close();
        self.disk.discard();
    }
}

impl<T: Subject> Life<T> {
    fn begin(shape: Shape, seed: u64, is_dense: bool) -> Outcome<Life<T>> {
        let disk = SimDisk::new(seed);
        let process = disk.process_view();
        let mut life: Life<T> = Life {
            subject: None,
            env: None,
            process,
            disk,
            memory: SharedMemory::new(),
            shape,
            is_dense,
            states: vec![T::Model::default()],
            tally: Tally { dense: is_dense.into(), ..Tally::default() },
        };
        life.open(OpenedBy::Created)?;
        life.states = vec![life.subject.as_ref().expect("the subject was just opened").begin()?];
        Ok(life)
    }

    fn settings(&self) -> Settings {
        let page_bytes = self.shape.page_bytes as u64;
        let subject = DatabaseSettings {
            page_bytes: Some(Bytes(page_bytes)),
            dense: Some(self.is_dense),
            ..DatabaseSettings::default()
        };
        Settings {
            no_background: true,
            durability: Some(Durability::Sync),
            // There are few frames, so nearly every page is evicted.
            memory: Some(Bytes(page_bytes * 24)),
            log_segment_first: Some(Bytes::kib(64)),
            log_segment_max: Some(Bytes::kib(256)),
            checkpoint_log: Some(Bytes::kib(512)),
            database: [(NAME.to_owned(), subject)].into(),
            ..Settings::default()
        }
    }

    fn open(&mut self, wanted: OpenedBy) -> Outcome<()> {
        let directory = self.process.directory();
        let platform = platform(directory, &self.memory);
        let env = Env::builder().settings(self.settings()).open_on(platform, &mut |_| {}).map_err(failed("opening"))?;
        if env.opened().how != wanted {
            return Err(TestCaseError::fail(format!(
                "the environment was opened as {:?}, wanted {wanted:?}",
                env.opened()
            )));
        }
        self.subject = Some(T::open(&env, self.shape).map_err(failed("opening the database"))?);
        self.env = Some(env);
        Ok(())
    }

    fn live(mut self, acts: &[Act<T::Step>]) -> Outcome<Tally> {
        for act in acts {
            self.act(act)?;
        }
        self.check_state()?;
        let env = self.env.as_ref().expect("an environment is open between acts");
        let verified = env.verify(NAME).map_err(failed("verifying"))?;
        if let Some(finding) = verified.findings.first() {
            return Err(TestCaseError::fail(format!("{} findings, the first {finding:?}", verified.findings.len())));
        }
        self.count_evictions();
        Ok(self.tally)
    }

    fn count_evictions(&mut self) {
        let stats = self.env.as_ref().and_then(|env| env.stats().ok());
        self.tally.evictions += stats.map_or(0, |stats| stats.pools.iter().map(|pool| pool.evictions).sum());
    }

    fn act(&mut self, act: &Act<T::Step>) -> Outcome<()> {
        let (env, subject) = (self.env.take(), self.subject.take());
        let (Some(env), Some(subject)) = (env, subject) else {
            return Err(TestCaseError::fail("no environment is open"));
        };
        self.tally.transactions += 1;
        let mut model = self.states.last().expect("there is always a state").clone();
        let mut txn = env.begin().map_err(failed("beginning"))?;
        subject.work(&txn, &act.steps, &mut model)?;
        let mut unfinished = None;
        match act.end {
            End::Commit => {
                txn.commit().map_err(failed("committing"))?;
                // The commit of an empty transaction waits for no sync, so earlier relaxed commits may still be lost.
                if act.steps.is_empty() {
                    self.states.push(model);
                } else {
                    self.states = vec![model];
                }
            }
            End::Relaxed => {
                txn.set_durability(Durability::Relaxed);
                txn.commit().map_err(failed("committing"))?;
                self.states.push(model);
            }
            End::Waited => {
                let commit: CommitLsn = txn.commit_async().map_err(failed("committing"))?;
                env.wait_durable(commit).map_err(failed("waiting"))?;
                if act.steps.is_empty() {
                    self.states.push(model);
                } else {
                    self.states = vec![model];
                }
            }
            End::Abort => txn.abort().map_err(failed("aborting"))?,
            End::Drop => drop(txn),
            End::Unfinished => unfinished = Some(txn),
        }
        let next = self.after(act.after, &env, &subject, unfinished)?;
        (self.env, self.subject) = (Some(env), Some(subject));
        match next {
            Next::Stay => Ok(()),
            Next::Reopen => {
                self.tally.reopened += 1;
                self.close();
                self.states.drain(..self.states.len() - 1);
                self.open(OpenedBy::Clean)?;
                self.check_state()
            }
            Next::Death => {
                self.tally.deaths += 1;
                self.process.kill();
                // A killed process runs no destructors. Only its spare memory is freed here: the machine has no room
                // for the spare memory of thousands of processes.
                if let Some(env) = &self.env {
                    env.managers().buffers.forget_spares();
                }
                std::mem::forget((self.subject.take(), self.env.take()));
                self.process = self.disk.process_view();
                self.open(OpenedBy::Repaired)?;
                self.check_state()
            }
            Next::PowerCut(image) => {
                self.tally.power_cuts += 1;
                // The machine is off, so the disk to which the destructors write is discarded.
                self.disk.discard();
                self.close();
                self.disk = image;
                self.process = self.disk.process_view();
                self.memory = SharedMemory::new();
                self.open(OpenedBy::Restarted)?;
                self.check_state_after_loss()
            }
        }
    }

    fn after(&self, after: After, env: &Env, subject: &T, unfinished: Option<Txn<'_>>) -> Outcome<Next> {
        Ok(match after {
            After::Nothing => Next::Stay,
            After::Background => {
                env.background_step().map_err(failed("background work"))?;
                subject.compact()?;
                Next::Stay
            }
            After::Checkpoint => {
                env.checkpoint().map_err(failed("a checkpoint"))?;
                Next::Stay
            }
            After::Flush => {
                env.flush().map_err(failed("a flush"))?;
                Next::Stay
            }
            After::Reopen => Next::Reopen,
            After::Death => {
                std::mem::forget(unfinished);
                return Ok(Next::Death);
            }
            After::PowerCut(mode, seed) => {
                let image = self.disk.crash_image(mode, seed);
                self.disk.halt();
                return Ok(Next::PowerCut(image));
            }
        })
    }

    fn close(&mut self) {
        self.count_evictions();
        (self.subject, self.env) = (None, None);
    }

    fn state(&self) -> Outcome<T::Model> {
        let (env, subject) = (self.env.as_ref(), self.subject.as_ref());
        let (env, subject) = env.zip(subject).expect("an environment is open between acts");
        let txn = env.begin_with(Durability::Relaxed).map_err(failed("beginning"))?;
        let state = subject.state(&txn)?;
        txn.commit().map_err(failed("committing a read"))?;
        Ok(state)
    }

    /// Checks that every commit is there.
    fn check_state(&self) -> Outcome<()> {
        let (found, wanted) = (self.state()?, self.states.last().expect("there is always a state"));
        if found != *wanted {
            return Err(TestCaseError::fail(format!(
                "the state is not the committed state: {}",
                T::difference(wanted, &found)
            )));
        }
        Ok(())
    }

    /// Checks that the state is one of those that a power cut may leave.
    fn check_state_after_loss(&mut self) -> Outcome<()> {
        let found = self.state()?;
        if !self.states.contains(&found) {
            let differences: Vec<String> = self.states.iter().map(|state| T::difference(state, &found)).collect();
            return Err(TestCaseError::fail(format!(
                "a power cut may not leave this state; the differences to the allowed states are: {differences:?}"
            )));
        }
        self.states = vec![found];
        Ok(())
    }
}

/// The work after an act.
enum Next {
    Stay,
    Reopen,
    Death,
    PowerCut(SimDisk),
}

/// Returns the number of cases of a test. A slow test runs only a part of this number.
pub fn cases() -> u64 {
    sizes::number("LIBTP_TEST_CASES", 120)
}

/// Fails unless the database and its model agree on the result of a step.
pub fn agree<T: PartialEq + Debug>(step: impl Debug, found: T, wanted: T) -> Outcome<()> {
    match found == wanted {
        true => Ok(()),
        false => Err(TestCaseError::fail(format!("{step:?} returned {found:?}, wanted {wanted:?}"))),
    }
}

/// Describes the difference of two maps.
pub fn differing<K: Ord + Debug, V: PartialEq>(wanted: &BTreeMap<K, V>, found: &BTreeMap<K, V>) -> String {
    let lost: Vec<_> = wanted.keys().filter(|key| !found.contains_key(*key)).collect();
    let added: Vec<_> = found.keys().filter(|key| !wanted.contains_key(*key)).collect();
    let is_other = |(key, value): &(&K, &V)| found.get(*key).is_some_and(|found| found != *value);
    let other: Vec<_> = wanted.iter().filter(is_other).map(|(key, _)| key).collect();
    let first = lost.first().or(added.first()).or(other.first());
    format!("{} lost, {} added, {} with other values; the first is {first:?}", lost.len(), added.len(), other.len())
}

//! The child's other work, concurrent with its transfers: long values, splits, deletions, aborts, upgrades of locks,
//! checkpoints, new databases, opening and leaving. Together with the transfers it reaches every failpoint.

mod deeds;

use std::any::Any;
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::time::Duration;

use libtp::{
    Bytes, Db, Durability, Env, Error, IndexKeys, List, Load, LogType, Multi, PageFile, PageLock, Recno, Result,
    Snapshot, TextFile, TextForm,
};
use libtp_lock::{LockName, Mode, Wait};
use libtp_process::Broken;
use libtp_sim::Random;
use libtp_txn::{Managers, TxnSession};

use crate::role::Role;
use crate::several;

/// A kind of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Deed {
    Fill,
    Sweep,
    Long,
    Abort,
    Recno,
    List,
    Text,
    Hash,
    Pages,
    Upgrade,
    Touch,
    Locks,
    ManyLocks,
    Checkpoint,
    Create,
    Reopen,
    Crowd,
    Snapshot,
    Pass,
    Queue,
    Load,
    Thin,
    Index,
    Own,
    Several,
    Nested,
}

/// The deeds of survivors.
const QUIET: [Deed; 14] = [
    Deed::Fill,
    Deed::Sweep,
    Deed::Abort,
    Deed::Recno,
    Deed::List,
    Deed::Hash,
    Deed::Pages,
    Deed::Upgrade,
    Deed::Locks,
    Deed::Snapshot,
    Deed::Index,
    Deed::Own,
    Deed::Several,
    Deed::Nested,
];
/// The deeds of a victim, in addition to the deeds that lead to its failpoint.
const ALL: [Deed; 21] = [
    Deed::Fill,
    Deed::Sweep,
    Deed::Long,
    Deed::Abort,
    Deed::Recno,
    Deed::List,
    Deed::Hash,
    Deed::Pages,
    Deed::Upgrade,
    Deed::Touch,
    Deed::Locks,
    Deed::ManyLocks,
    Deed::Checkpoint,
    Deed::Reopen,
    Deed::Snapshot,
    Deed::Pass,
    Deed::Text,
    Deed::Index,
    Deed::Own,
    Deed::Several,
    Deed::Nested,
];

/// The deeds that lead to the failpoints whose names begin with a prefix. The first matching prefix is used.
const LEADS_TO: &[(&str, &[Deed])] = &[
    ("create", &[Deed::Create]),
    ("control", &[Deed::Create, Deed::Checkpoint]),
    ("buffer: file", &[Deed::Create, Deed::Long]),
    ("buffer: registers", &[Deed::Create]),
    ("checkpoint", &[Deed::Checkpoint]),
    ("lock", &[Deed::Locks, Deed::ManyLocks, Deed::Upgrade]),
    ("attach", &[Deed::Reopen]),
    ("leave", &[Deed::Reopen]),
    ("session", &[Deed::Reopen, Deed::Crowd]),
    // Only a transaction with many changes needs log space for its undo.
    ("txn: room promised", &[Deed::Thin]),
    ("txn: promise", &[Deed::Thin]),
    ("txn", &[Deed::Reopen, Deed::Locks, Deed::Crowd]),
    ("long value", &[Deed::Long]),
    ("recno", &[Deed::Recno]),
    ("paged", &[Deed::Own]),
    ("list", &[Deed::List]),
    ("text file", &[Deed::Text]),
    ("hash", &[Deed::Hash]),
    ("absorb", &[Deed::Queue]),
    ("dense", &[Deed::Fill]),
    ("merge", &[Deed::Thin]),
    ("load", &[Deed::Load]),
    ("change: concl", &[Deed::Load]),
    ("sort", &[Deed::Load]),
    ("unlink", &[Deed::Sweep, Deed::Queue]),
    ("ghosts", &[Deed::Sweep]),
    ("split", &[Deed::Fill, Deed::Pages]),
    ("post", &[Deed::Fill]),
    ("snapshot", &[Deed::Snapshot]),
    ("shortcut", &[Deed::Snapshot]),
    ("update", &[Deed::Touch, Deed::Upgrade]),
    ("part", &[Deed::Touch]),
    ("undo: list", &[Deed::Index]),
    ("index", &[Deed::Index]),
    ("undo", &[Deed::Abort, Deed::Several, Deed::Nested]),
    ("abort", &[Deed::Abort]),
    ("savepoint", &[Deed::Abort, Deed::Nested]),
    ("pass", &[Deed::Pass]),
    ("change: comp", &[Deed::Abort, Deed::Nested]),
    ("buffer", &[Deed::Long, Deed::Checkpoint]),
    ("ring", &[Deed::Long]),
    ("log: about to be", &[Deed::Checkpoint]),
    ("log", &[Deed::Long, Deed::Checkpoint]),
];

/// If a process has more keys than this, it deletes its oldest keys.
const WINDOW: u64 = 400;
/// The number of hash files.
const HASH_FILES: u64 = 16;
/// The number of keys of each hash file.
const HASH_KEYS: u64 = 2000;
/// The number of databases that victims load, each once.
const LOADED: u64 = 1000;
/// The number of names for databases that victims make in one environment.
const MADE: u64 = 12;
/// The number of sessions that one thread has at a time. The first tables of sessions and of transactions have room for
/// fewer.
const CROWD: usize = 150;

/// Prefix of the keys of two records that always have the same value. After the prefix, a key has a number, `/`, and 1
/// or 2.
pub const WHOLE: &str = "long/whole/";
/// A tree that is filled and emptied. Its leaves give records to their neighbours before they split.
pub const FILL: &str = "fill";
/// A database with indices.
pub const INDEXED: &str = "indexed";
/// The first index of [`INDEXED`].
pub const FIRST_INDEX: &str = "indexed by first letter";
/// The second index of [`INDEXED`].
pub const SECOND_INDEX: &str = "indexed by last letter";

/// A file of the program's own pages, whose first page has counters.
pub const OWN: &str = "own";
/// The log-record type that adds one to a counter.
const ADD: u16 = 3;

/// Returns the log-record type that adds one to a counter.
pub fn adding() -> LogType {
    let counter = |page: &mut [u8], argument: &[u8], by: u64| {
        let at = 8 * usize::try_from(u64::from_le_bytes(argument.try_into().unwrap())).unwrap();
        let counter = &mut page[at..at + 8];
        let now = u64::from_le_bytes(counter.try_into().unwrap()).wrapping_add(by);
        counter.copy_from_slice(&now.to_le_bytes());
        Ok(())
    };
    LogType::new(ADD, "counter add", move |page, argument| counter(page, argument, 1))
        .undo(move |page, argument| counter(page, argument, u64::MAX))
}

/// The name of an index whose build fails.
pub const NO_INDEX: &str = "indexed by too much";

/// Gives the index key of a record: the first letter of the value.
pub fn by_first_letter(_key: &[u8], value: &[u8], keys: &mut IndexKeys) {
    value.first().into_iter().for_each(|letter| keys.add([*letter]));
}

/// Gives the index key of a record: the last letter of the value.
pub fn by_last_letter(_key: &[u8], value: &[u8], keys: &mut IndexKeys) {
    value.last().into_iter().for_each(|letter| keys.add([*letter]));
}

fn may_be_missing(error: Error) -> Result<()> {
    match error {
        Error::NoDatabase { .. } => Ok(()),
        error => Err(error),
    }
}

/// Returns whether a panic comes from the chosen failpoint.
fn is_planned(payload: &(dyn Any + Send)) -> bool {
    payload.downcast_ref::<String>().is_some_and(|text| text.starts_with("at the failpoint"))
}

/// Makes a session by a direct call of the managers. In memory that was given up the call fails, because such memory
/// has no room; this error becomes `Rebuilt`, as `libtp` would return it.
fn join(managers: &Managers) -> Result<TxnSession> {
    managers.join().map_err(|error| if managers.region.is_broken() { Error::Rebuilt } else { error.into() })
}

/// A thread that does the deeds.
pub struct MixedWork<'e> {
    env: &'e Env,
    directory: PathBuf,
    number: u64,
    fill: Db,
    long: Db,
    pages: Db,
    records: Recno,
    own: PageFile,
    list: List,
    hash: Db,
    indexed: Db,
    several: [Multi; 2],
    random: Random,
    /// The range of numbers whose keys exist in `fill`.
    window: (u64, u64),
    /// The next key of the queue.
    queued: u64,
    /// Whether the present deed calls the managers directly, so that it may end with a panic.
    calls_managers: bool,
    often: &'static [Deed],
    seldom: &'static [Deed],
}

impl<'e> MixedWork<'e> {
    /// Opens the databases that the deeds need.
    pub fn new(env: &'e Env, directory: &Path, number: u64, role: &Role) -> Result<MixedWork<'e>> {
        let leads =
            |point: &str| LEADS_TO.iter().find(|(prefix, _)| point.starts_with(prefix)).map(|(_, deeds)| *deeds);
        let (often, seldom) = match role {
            Role::Victim(point) => (leads(point).unwrap_or(&ALL), &ALL[..]),
            _ => (&QUIET[..], &QUIET[..]),
        };
        Ok(MixedWork {
            env,
            directory: directory.to_path_buf(),
            number,
            fill: env.btree(FILL)?,
            long: env.btree("long")?,
            pages: env.btree("pages")?,
            records: env.recno("records", 100)?,
            own: env.pages(OWN)?,
            list: env.list("list")?,
            // There are several files, because a full-grown file has no more bucket splits.
            hash: env.hash(&format!("hash{}", number % HASH_FILES))?,
            indexed: env.btree(INDEXED)?,
            several: several::open(env)?,
            random: Random::new(number),
            window: (0, 0),
            queued: 0,
            calls_managers: false,
            often,
            seldom,
        })
    }

    /// Does one deed. If a rebuild or a panic ends the deed, it is not repeated.
    pub fn step(&mut self) -> Result<()> {
        match catch_unwind(AssertUnwindSafe(|| self.any_deed())) {
            Ok(Err(Error::Rebuilt | Error::Panicked { .. })) => Ok(()),
            // Some deeds call the managers directly, so `libtp` does not catch their panics.
            Err(payload) if self.calls_managers && (payload.is::<Broken>() || is_planned(payload.as_ref())) => Ok(()),
            Err(payload) => resume_unwind(payload),
            Ok(done) => done,
        }
    }

    fn any_deed(&mut self) -> Result<()> {
        let from = if self.random.chance(2, 3) { self.often } else { self.seldom };
        let deed = from[self.random.index(from.len())];
        self.calls_managers = matches!(deed, Deed::Locks | Deed::ManyLocks | Deed::Crowd | Deed::Reopen);
        match deed {
            Deed::Fill => self.fill(),
            Deed::Sweep => self.sweep(),
            Deed::Long => self.long(),
            Deed::Abort => self.abort(),
            Deed::Nested => self.nested(),
            Deed::Recno => self.recno(),
            Deed::Own => self.own(),
            Deed::Several => self.several(),
            Deed::List => self.list(),
            Deed::Text => self.text(),
            Deed::Hash => self.hash(),
            Deed::Pages => self.pages(),
            Deed::Upgrade => self.upgrade(),
            Deed::Touch => self.touch(),
            Deed::Locks => self.locks(20),
            Deed::ManyLocks => self.locks(1500),
            Deed::Checkpoint => self.env.checkpoint().map(|_| ()),
            Deed::Create => self.create(),
            Deed::Reopen => self.reopen(),
            Deed::Crowd => self.crowd(),
            Deed::Snapshot => self.snapshot(),
            Deed::Pass => self.pass(),
            Deed::Queue => self.queue(),
            Deed::Load => self.load(),
            Deed::Thin => self.thin(),
            Deed::Index => self.index(),
        }
    }

    fn key(&self, at: u64) -> Vec<u8> {
        format!("{:04}/{at:08}", self.number % 8).into_bytes()
    }

    fn durability(&mut self) -> Durability {
        if self.random.chance(1, 8) {
            Durability::Sync
        } else {
            Durability::Relaxed
        }
    }
}

//! The child's work beside transfers: long values, splits, deletions, aborts, upgrades of locks, checkpoints, new
//! databases, opening and leaving, so that every failpoint of the library is reached.

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

use crate::child::Role;
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

/// The deeds of survivors, with sessions that come and go: a repairer meets newcomers.
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
/// The deeds of a victim, beside those that its failpoint asks for.
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

/// The deeds that reach the failpoints with a prefix.
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

/// Keys of one process that exist at a time.
const WINDOW: u64 = 400;
/// Number of hash files.
const HASH_FILES: u64 = 16;
/// Number of keys of each hash file.
const HASH_KEYS: u64 = 2000;
/// Databases that victims load, each once.
const LOADED: u64 = 1000;
/// Databases of other names that victims make in one environment.
const MADE: u64 = 12;
/// Sessions that one thread has at once: more than the first tables of sessions and of transactions hold.
const CROWD: usize = 150;

/// Prefix of the keys of two records that have one value; a number, `/`, and 1 or 2 follow.
pub const WHOLE: &str = "long/whole/";
/// A tree that is filled and emptied, whose leaves share before they split.
pub const FILL: &str = "fill";
/// A database with indices.
pub const INDEXED: &str = "indexed";
/// Its first index.
pub const FIRST_INDEX: &str = "indexed by first letter";
/// Its second index.
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

/// An index that cannot be made.
pub const NO_INDEX: &str = "indexed by too much";

/// Indexes a value by its first letter.
pub fn by_first_letter(_key: &[u8], value: &[u8], keys: &mut IndexKeys) {
    value.first().into_iter().for_each(|letter| keys.add([*letter]));
}

/// Indexes a value by its last letter.
pub fn by_last_letter(_key: &[u8], value: &[u8], keys: &mut IndexKeys) {
    value.last().into_iter().for_each(|letter| keys.add([*letter]));
}

fn may_be_missing(error: Error) -> Result<()> {
    match error {
        Error::NoDatabase { .. } => Ok(()),
        error => Err(error),
    }
}

/// Returns whether a panic is that of the chosen failpoint.
fn is_planned(payload: &(dyn Any + Send)) -> bool {
    payload.downcast_ref::<String>().is_some_and(|text| text.starts_with("at the failpoint"))
}

/// Joins without the library's door, and returns the error that the door would return: memory that was given up has no
/// room.
fn join(managers: &Managers) -> Result<TxnSession> {
    managers.join().map_err(|error| if managers.region.is_broken() { Error::Rebuilt } else { error.into() })
}

/// One thread that does all these deeds.
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
    /// The keys from the first number up to the second exist.
    window: (u64, u64),
    /// The next key of the queue.
    queued: u64,
    /// Whether the present deed calls the managers directly, so that it may end with a panic.
    is_doorless: bool,
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
            // Several files, because a file that has grown is not split any more.
            hash: env.hash(&format!("hash{}", number % HASH_FILES))?,
            indexed: env.btree(INDEXED)?,
            several: several::open(env)?,
            random: Random::new(number),
            window: (0, 0),
            queued: 0,
            is_doorless: false,
            often,
            seldom,
        })
    }

    /// Does one deed. A deed that met a rebuild or a panic is not repeated.
    pub fn step(&mut self) -> Result<()> {
        match catch_unwind(AssertUnwindSafe(|| self.any_deed())) {
            Ok(Err(Error::Rebuilt | Error::Panicked { .. })) => Ok(()),
            // Some deeds do not go through the door that catches the panic.
            Err(payload) if self.is_doorless && (payload.is::<Broken>() || is_planned(payload.as_ref())) => Ok(()),
            Err(payload) => resume_unwind(payload),
            Ok(done) => done,
        }
    }

    fn any_deed(&mut self) -> Result<()> {
        let from = if self.random.chance(2, 3) { self.often } else { self.seldom };
        let deed = from[self.random.index(from.len())];
        self.is_doorless = matches!(deed, Deed::Locks | Deed::ManyLocks | Deed::Crowd | Deed::Reopen);
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

    /// Puts new keys behind the last, and one in a random place.
    fn fill(&mut self) -> Result<()> {
        let (from, to) = (self.window.1, self.window.1 + 20);
        let value = vec![b'v'; 50 + self.random.index(300)];
        let (durability, at_random) = (self.durability(), self.random.next_u64() % 3000);
        let keys: Vec<Vec<u8>> = (from..to).map(|at| self.key(at)).collect();
        self.env.run_with(durability, |txn| {
            keys.iter().try_for_each(|key| self.fill.put(txn, key, &value))?;
            self.fill.put(txn, format!("any/{at_random:06}").as_bytes(), &value)
        })?;
        self.window.1 = to;
        Ok(())
    }

    /// Deletes the oldest keys; sessions that pass their pages remove the ghosts.
    fn sweep(&mut self) -> Result<()> {
        if self.window.1 - self.window.0 < WINDOW {
            return self.fill();
        }
        let (from, to) = (self.window.0, self.window.0 + WINDOW / 2);
        let keys: Vec<Vec<u8>> = (from..to).map(|at| self.key(at)).collect();
        self.env.run_with(Durability::Relaxed, |txn| {
            keys.iter().try_for_each(|key| self.fill.delete(txn, key).map(|_| ()))
        })?;
        self.window.0 = to;
        let first = self.key(0);
        self.env.run(|txn| {
            let mut cursor = self.fill.cursor(txn);
            let mut seen = cursor.seek(&first)?;
            for _ in 0..50 {
                if seen.is_none() {
                    break;
                }
                seen = cursor.next()?;
            }
            Ok(())
        })
    }

    /// Puts long keys with a common prefix at one end and deletes them at the other, so that pages above the leaves
    /// lose their children.
    fn queue(&mut self) -> Result<()> {
        let name = |at: u64| {
            [format!("{:04}/", self.number % 8).into_bytes(), vec![b'q'; 1500], at.to_be_bytes().to_vec()].concat()
        };
        let db = self.env.btree("queue")?;
        let (from, to) = (self.queued, self.queued + 60);
        self.env.run_with(Durability::Relaxed, |txn| (from..to).try_for_each(|at| db.put(txn, &name(at), b"")))?;
        self.queued = to;
        self.env.run_with(Durability::Relaxed, |txn| db.delete_range(txn, name(0)..name(to.saturating_sub(20))))?;
        Ok(())
    }

    /// Loads many records at once, into a database that may have been loaded before. A record out of order breaks some
    /// loads off.
    fn load(&mut self) -> Result<()> {
        let db = self.env.btree(&format!("loaded{}", self.random.below(LOADED)))?;
        let is_sorted = self.random.chance(1, 3);
        let mut numbers: Vec<u64> = (0..400 + self.random.below(400)).collect();
        if self.random.chance(2, 3) {
            numbers.reverse();
        }
        let how = if is_sorted { Load::sorted() } else { Load::unsorted().memory(Bytes::kib(16)) };
        match db.load(&how, numbers.iter().map(|at| (at.to_be_bytes(), [b'l'; 60]))) {
            Err(Error::NotEmpty { .. } | Error::OutOfOrder { .. } | Error::LockTimeout(_)) => Ok(()),
            done => done.map(|_| ()),
        }
    }

    /// Deletes four of five keys, and merges the leaves.
    fn thin(&mut self) -> Result<()> {
        let db = self.env.btree("thin")?;
        let (number, at) = (self.number % 8, self.queued);
        let key = |at: u64| format!("{number:04}/{at:08}").into_bytes();
        self.env.run_with(Durability::Relaxed, |txn| {
            (at..at + 200).try_for_each(|at| db.put(txn, &key(at), &[b't'; 150]))
        })?;
        self.queued += 200;
        self.env.run_with(Durability::Sync, |txn| {
            (at.saturating_sub(400)..at + 200)
                .filter(|at| at % 5 != 0)
                .try_for_each(|at| db.delete(txn, &key(at)).map(|_| ()))
        })?;
        db.compact(90).map(|_| ())
    }

    /// Replaces values of many pages.
    fn long(&mut self) -> Result<()> {
        let key = format!("long/{}/{}", self.number % 4, self.random.below(8)).into_bytes();
        let value = vec![b'l'; 5_000 + self.random.index(40_000)];
        let is_kept = self.random.chance(3, 4);
        self.in_txn(is_kept, |churn, txn| churn.long.put(txn, &key, &value))
    }

    /// Makes changes of all kinds, and aborts them.
    fn abort(&mut self) -> Result<()> {
        let at = self.random.below(3000);
        self.in_txn(false, |churn, txn| {
            for one in at..at + 5 {
                let key = format!("any/{one:06}").into_bytes();
                churn.fill.put(txn, &key, &[b'a'; 200])?;
                churn.fill.delete(txn, &key)?;
            }
            let part = txn.savepoint();
            churn.long.put(txn, format!("long/abort/{}", at % 4).as_bytes(), &[b'a'; 20_000])?;
            part.roll_back()?;
            churn.records.append(txn, &[1; 100]).map(|_| ())
        })
    }

    /// Rolls a part of a transaction back and keeps the rest: two records of one value, both of which the part had
    /// changed.
    fn nested(&mut self) -> Result<()> {
        let at = self.random.below(8);
        let key = |which: u64| format!("{WHOLE}{at}/{which}").into_bytes();
        let (value, is_kept) = (self.random.next_u64().to_le_bytes(), self.random.chance(3, 4));
        self.in_txn(is_kept, |churn, txn| {
            churn.long.put(txn, &key(1), &value)?;
            let part = txn.savepoint();
            churn.long.put(txn, format!("long/abort/part/{at}").as_bytes(), &[b'a'; 20_000])?;
            churn.long.put(txn, &key(1), b"of the part")?;
            churn.long.delete(txn, &key(2))?;
            part.roll_back()?;
            churn.long.put(txn, &key(2), &value)
        })
    }

    /// Passes a transaction on and continues it, with its locks and its changes; sometimes no process takes it over
    /// before this process ends.
    fn pass(&mut self) -> Result<()> {
        let (at, is_kept) = (self.random.below(3000), self.random.coin());
        let key = format!("any/{at:06}").into_bytes();
        let other = format!("any/{:06}", at + 1).into_bytes();
        let rebuilds = self.env.managers().processes.rebuild_count();
        let txn = self.env.begin_with(self.durability())?;
        let begun = self.fill.put(&txn, &key, &[b'p'; 100]);
        let txn = match begun {
            Ok(()) => match self.env.attach(&txn.detach()?) {
                // The memory was made anew before the transaction was taken over: it was undone, and cannot be
                // continued.
                Err(Error::NotPassed { .. }) if self.env.managers().processes.rebuild_count() != rebuilds => {
                    return Ok(())
                }
                taken => taken?,
            },
            Err(Error::Deadlock | Error::LockTimeout(_)) => return txn.abort(),
            Err(error) => return Err(error),
        };
        match self.fill.put(&txn, &other, &[b'p'; 100]) {
            Ok(()) if is_kept => txn.commit(),
            Ok(()) | Err(Error::Deadlock | Error::LockTimeout(_)) => txn.abort(),
            Err(error) => Err(error),
        }
    }

    fn recno(&mut self) -> Result<()> {
        let (number, is_kept, is_put) = (self.random.below(500) + 1, self.random.chance(3, 4), self.random.coin());
        self.in_txn(is_kept, |churn, txn| {
            if is_put {
                churn.records.put(txn, number, &[2; 100])?;
                return churn.records.delete(txn, number).map(|_| ());
            }
            for _ in 0..10 {
                churn.records.append(txn, &[3; 100])?;
            }
            Ok(())
        })
    }

    /// Changes keys with several values.
    fn several(&mut self) -> Result<()> {
        let (which, is_kept) = (self.random.index(2), self.random.chance(3, 4));
        let seed = self.random.next_u64();
        self.in_txn(is_kept, |churn, txn| several::change(&churn.several[which], txn, &mut Random::new(seed)))
    }

    /// Changes the program's own pages: counters that several transactions change at once, and single bytes.
    fn own(&mut self) -> Result<()> {
        let (counter, is_kept, is_shared) = (self.random.below(8), self.random.chance(1, 2), self.random.coin());
        let (page, at) = (1 + u32::try_from(self.random.below(4)).unwrap(), self.random.index(1000));
        self.in_txn(is_kept, |churn, txn| {
            if is_shared {
                return churn.own.apply(txn, 0, ADD, &counter.to_le_bytes()).map(|_| ());
            }
            let next = churn.own.count(txn)?;
            let page = if next < 1000 { next.max(1) } else { page };
            churn.own.lock(txn, page, PageLock::Write)?;
            for byte in [b'a', b'b'] {
                let mut copy = churn.own.get(txn, page)?;
                copy.bytes[at..at + 100].fill(byte);
                match churn.own.put(txn, &copy) {
                    // The page before it does not exist yet.
                    Ok(_) | Err(Error::Database { .. }) => {}
                    Err(error) => return Err(error),
                }
            }
            Ok(())
        })
    }

    /// Inserts or deletes records at one place of a list, so that its nodes are split there, and removed.
    fn list(&mut self) -> Result<()> {
        let (at, many, is_kept) = (self.random.below(1 << 20), 1 + self.random.below(150), self.random.chance(3, 4));
        let record = vec![b'r'; 10 + self.random.index(100)];
        let durability = self.durability();
        let is_shrunk = self.random.coin();
        let txn = self.env.begin_with(durability)?;
        let done = (|| {
            // The append locks the list exclusively first, so that the transaction does not wait for sessions that
            // wait for it.
            let number = self.list.append(&txn, b"last")?;
            let first = 1 + at % number;
            if is_shrunk || number > 2000 {
                return (0..2 * many).try_for_each(|_| self.list.delete(&txn, first).map(|_| ()));
            }
            (0..many).try_for_each(|_| self.list.insert_before(&txn, first, &record).map(|_| ()))
        })();
        match done {
            Ok(()) if is_kept => txn.commit(),
            Ok(()) | Err(Error::Deadlock | Error::LockTimeout(_)) => txn.abort(),
            Err(error) => Err(error),
        }
    }

    /// Edits a list and its file of text, which other processes write back, too. The next process finds what a dead
    /// one has written and not recorded.
    fn text(&mut self) -> Result<()> {
        let list = self.env.list("text")?;
        let text = TextFile::open(self.env, &list, self.directory.join("text"), TextForm::default())?;
        let (line, at) = (format!("by {}", self.number), self.random.below(40));
        let edited = self.in_txn(true, |_, txn| {
            list.insert_after(txn, at.min(list.count(txn)?), line.as_bytes())?;
            list.delete(txn, 40).map(|_| ())
        });
        edited.and_then(|()| text.close())
    }

    /// Changes records that have indices, one of which is dropped and made anew now and then.
    fn index(&mut self) -> Result<()> {
        match self.random.below(12) {
            0 => return self.indexed.drop_index(SECOND_INDEX).map(|_| ()).or_else(may_be_missing),
            1 => return self.indexed.index(SECOND_INDEX, by_last_letter).map(|_| ()),
            _ => {}
        }
        // A process may not write without all the functions.
        let first = self.indexed.index(FIRST_INDEX, by_first_letter)?;
        let second = self.indexed.index(SECOND_INDEX, by_last_letter)?;
        if self.random.chance(1, 8) {
            self.in_txn(true, |churn, txn| churn.indexed.put(txn, b"always", b"there"))?;
            // The index is registered before the first record turns out to have too long an index key.
            return match self.indexed.index(NO_INDEX, |_, _, keys| keys.add([0; 9000])) {
                Err(Error::Length { .. } | Error::Deadlock | Error::LockTimeout(_)) => Ok(()),
                made => made.map(|_| ()),
            };
        }
        let (at, is_kept) = (self.random.below(200), self.random.chance(3, 4));
        let values: Vec<Vec<u8>> = (0..6).map(|_| format!("{:x}", self.random.next_u64() >> 40).into_bytes()).collect();
        self.in_txn(is_kept, |churn, txn| {
            for (one, value) in (at..).zip(&values) {
                let key = format!("{one:06}").into_bytes();
                match value.len() % 3 {
                    0 => churn.indexed.delete(txn, &key).map(|_| ())?,
                    _ => churn.indexed.put(txn, &key, value)?,
                }
            }
            for entry in first.get(txn, b"7")?.iter().take(3) {
                assert_eq!(entry.1.first(), Some(&b'7'), "an index leads to another record");
            }
            match second.count(txn, b"7") {
                // Another process has dropped the index since it was made.
                Err(Error::Database { what, .. }) if what.starts_with("it was dropped") => Ok(()),
                counted => counted.map(|_| ()),
            }
        })
    }

    /// Puts and deletes records in all places of a hash file, long records among them; some transactions are aborted.
    fn hash(&mut self) -> Result<()> {
        let (is_kept, with_long) = (self.random.chance(3, 4), self.random.chance(1, 4));
        let first = self.random.below(HASH_KEYS);
        let (put, long) = (vec![b'h'; 20 + self.random.index(1900)], vec![b'l'; 5_000 + self.random.index(20_000)]);
        let key = |at: u64| format!("hash/{:06}", at * 7919 % HASH_KEYS).into_bytes();
        self.in_txn(is_kept, |churn, txn| {
            (first..first + 12).try_for_each(|at| churn.hash.put(txn, &key(at), &put))?;
            (first + 12..first + 18).try_for_each(|at| churn.hash.delete(txn, &key(at)).map(|_| ()))?;
            match with_long {
                true => churn.hash.put(txn, &key(first % 8), &long),
                false => Ok(()),
            }
        })
    }

    /// Reads and puts records under page locks.
    fn pages(&mut self) -> Result<()> {
        let at = self.random.below(20_000);
        let value = vec![b'p'; 20 + self.random.index(400)];
        let is_kept = self.random.chance(7, 8);
        self.in_txn(is_kept, |churn, txn| {
            churn.pages.get(txn, format!("{:06}", at / 2).as_bytes())?;
            churn.pages.put(txn, format!("{at:06}").as_bytes(), &value)
        })
    }

    /// Reads records, then writes them: two sessions that do so wait for each other.
    fn upgrade(&mut self) -> Result<()> {
        let (one, two) = (self.random.below(3), self.random.below(3));
        self.in_txn(true, |churn, txn| {
            for key in [one, two] {
                let key = format!("hot/{key}").into_bytes();
                churn.fill.get(txn, &key)?;
                churn.fill.put(txn, &key, b"upgraded")?;
            }
            Ok(())
        })
    }

    /// Changes a record in place.
    fn touch(&mut self) -> Result<()> {
        let key = format!("touched/{}", self.random.below(10)).into_bytes();
        self.in_txn(true, |churn, txn| match churn.fill.update_with(txn, &key, |value| value[0] ^= 1)? {
            Some(()) => Ok(()),
            None => churn.fill.put(txn, &key, b"not yet"),
        })
    }

    fn in_txn(&mut self, is_kept: bool, work: impl Fn(&MixedWork<'_>, &libtp::Txn<'_>) -> Result<()>) -> Result<()> {
        let txn = self.env.begin_with(self.durability())?;
        match work(self, &txn) {
            Ok(()) if is_kept => txn.commit(),
            Ok(()) | Err(Error::Deadlock | Error::LockTimeout(_)) => txn.abort(),
            Err(error) => Err(error),
        }
    }

    /// Joins with a session, takes locks of all kinds, and leaves.
    fn locks(&mut self, most: u64) -> Result<()> {
        let managers = self.env.managers();
        let txn = join(&managers)?;
        let (session, locker, locks) = (txn.session(), txn.locker(), &managers.locks);
        let brief = Wait::For(Duration::from_millis(2));
        // A refusal is allowed: other sessions request the same locks.
        let wants = |name: LockName, mode: Mode| drop(locks.lock(session, locker, name, mode, brief));
        let hot = |hash: u64| LockName { space: 4_000_000, kind: 3, hash };
        let whole = LockName { space: 4_000_001, kind: LockName::DATABASE, hash: 0 };
        let first = self.random.below(1 << 40);
        wants(whole, if self.random.chance(1, 4) { Mode::S } else { Mode::IX });
        for _ in 0..2 {
            let name = hot(self.random.below(3));
            wants(name, Mode::S);
            wants(name, if self.random.coin() { Mode::X } else { Mode::U });
        }
        for hash in first..first + self.random.below(most) {
            wants(LockName { space: 4_000_002, kind: 3, hash }, Mode::X);
        }
        for hash in 0..3 {
            // Refused if the lock is not held.
            drop(locks.downgrade(session, locker, hot(hash), Mode::S));
        }
        drop(locks.unlock(session, locker, hot(0)));
        locks.unlock_all(session, locker);
        managers.leave(txn);
        Ok(())
    }

    /// Opens `CROWD` sessions at once, which makes their tables grow, always in a new environment.
    fn crowd(&mut self) -> Result<()> {
        let managers = self.env.managers();
        let mut all = Vec::with_capacity(CROWD);
        for _ in 0..CROWD {
            all.push(join(&managers)?);
        }
        all.into_iter().for_each(|txn| managers.leave(txn));
        Ok(())
    }

    /// Makes a database, or opens it if it was made before.
    fn create(&mut self) -> Result<()> {
        let name = format!("made{}", self.random.below(MADE));
        if self.random.coin() {
            return self.env.recno(&format!("{name}r"), 40).map(|_| ());
        }
        if self.random.coin() {
            return self.env.hash(&format!("{name}h")).map(|_| ());
        }
        let made = self.env.btree(&name)?;
        self.env.run(|txn| made.put(txn, b"made", b"by a victim"))
    }

    /// Reads committed records twice through a snapshot: both reads agree, whichever sessions change the records
    /// meanwhile.
    fn snapshot(&mut self) -> Result<()> {
        let env = self.env.clone();
        let snapshot = env.snapshot()?;
        let first = self.shown(&snapshot)?;
        // One in eight changes of a record that changed after the snapshot leaves a shortcut.
        let key = format!("touched/{}", self.random.below(10)).into_bytes();
        self.in_txn(true, |churn, txn| {
            (0..24).try_for_each(|_| churn.fill.update_with(txn, &key, |value| value[0] ^= 1).map(drop))
        })?;
        for _ in 0..3 {
            self.touch()?;
        }
        assert!(first == self.shown(&snapshot)?, "a snapshot has changed");
        Ok(())
    }

    fn shown(&self, snapshot: &Snapshot<'_>) -> Result<Vec<libtp::Pair>> {
        let mut cursor = self.fill.cursor(snapshot);
        let mut shown = Vec::new();
        while let Some(pair) = cursor.next()?.filter(|_| shown.len() < 200) {
            shown.push(pair);
        }
        self.records.get(snapshot, 1)?;
        self.hash.get(snapshot, b"hash/000000")?;
        Ok(shown)
    }

    /// Opens one more handle, for a moment.
    fn reopen(&mut self) -> Result<()> {
        let again = Env::builder().log_type(adding()).open(&self.directory)?;
        // This database has pages so large that the new session's undo log must grow.
        let wide = again.btree("wide")?;
        let key = self.random.below(500).to_be_bytes();
        again.run_with(Durability::Relaxed, |txn| wide.put(txn, &key, &[b'w'; 700]))
    }
}

//! Transactions that a script drives step by step.
//!
//! Each [`Session`] is a thread with one transaction at a time. For each step, the script requires that the step ends
//! ([`Session::does`]), or that the step waits ([`Session::waits`]) and ends later ([`Session::goes_on`]).

use std::collections::BTreeMap;
use std::sync::mpsc::{channel, Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

use libtp::{Db, Durability, Env, Error, Granularity, Reader, Snapshot, Txn};

/// If a step has not ended after this time, the test assumes that the step waits.
const WAIT: Duration = Duration::from_millis(80);
/// If a step has not ended after this time, the test fails: the step hangs.
const HANG: Duration = Duration::from_secs(30);

/// One step of a script. Keys and values are words.
#[derive(Clone, Debug)]
pub enum Do {
    Begin,
    /// Takes a snapshot, from which the session reads without locks.
    BeginSnapshot,
    Get(&'static str),
    GetForUpdate(&'static str),
    Put(&'static str, &'static str),
    PutNew(&'static str, &'static str),
    Delete(&'static str),
    /// Reads the keys `from..to` upwards.
    Scan(&'static str, &'static str),
    /// Reads the keys `from..to` downwards.
    ScanBack(&'static str, &'static str),
    Commit,
    Abort,
}

/// How a step ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Done.
    Done,
    /// The value read.
    Value(Option<String>),
    /// Whether there was a record to delete.
    WasThere(bool),
    /// The pairs read, as `key=value`, in order.
    Pairs(Vec<String>),
    /// The transaction was chosen as the victim of a deadlock, and aborted.
    Deadlock,
    /// The key is there already.
    Exists,
    /// Another error.
    Failed(String),
}

/// Makes the result of a read of a key that is there.
pub fn value(text: &str) -> Ended {
    Ended::Value(Some(text.to_owned()))
}

/// Makes the result of a scan.
pub fn pairs(found: &[&str]) -> Ended {
    Ended::Pairs(found.iter().map(|&pair| pair.to_owned()).collect())
}

/// An environment with the keys of a script.
pub struct Scene {
    env: Env,
    table: Db,
    other: Option<Db>,
    _directory: tempfile::TempDir,
}

impl Scene {
    /// Makes a scene with these pairs. With locks on pages, the key `y` is in a database of its own, so that the keys
    /// `x` and `y` have different locks.
    pub fn new(granularity: Granularity, pairs: &[(&'static str, &'static str)]) -> Scene {
        let directory = tempfile::tempdir().expect("a directory for the test");
        let builder = Env::builder().durability(Durability::Relaxed);
        let builder = builder.granularity("table", granularity).granularity("other", granularity);
        let env = builder.open(directory.path()).expect("a new environment opens");
        let table = env.btree("table").expect("a database is made");
        let other = (granularity == Granularity::Page).then(|| env.btree("other").expect("a database is made"));
        let scene = Scene { env, table, other, _directory: directory };
        let fill = |txn: &Txn<'_>| {
            for (key, value) in pairs {
                scene.database(key).put(txn, key.as_bytes(), value.as_bytes())?;
            }
            Ok(())
        };
        scene.env.run(fill).expect("the pairs can be put");
        scene
    }

    fn database(&self, key: &str) -> &Db {
        self.other.as_ref().filter(|_| key == "y").unwrap_or(&self.table)
    }

    /// Returns the environment.
    pub fn env(&self) -> &Env {
        &self.env
    }

    /// Starts a session and its transaction.
    pub fn session(&self, name: &'static str) -> Session {
        let session = self.idle(name);
        session.does(Do::Begin, Ended::Done);
        session
    }

    /// Starts a session without a transaction.
    pub fn idle(&self, name: &'static str) -> Session {
        let (to, steps) = channel();
        let (answers, from) = channel();
        let scene = Actors { env: self.env.clone(), table: self.table.clone(), other: self.other.clone() };
        std::thread::spawn(move || scene.play(&steps, &answers));
        Session { name, to, from }
    }

    /// Returns all pairs, as a new transaction reads them.
    pub fn everything(&self) -> BTreeMap<String, String> {
        let read = |txn: &Txn<'_>| {
            let mut all = BTreeMap::new();
            for table in std::iter::once(&self.table).chain(&self.other) {
                let mut cursor = table.cursor(txn);
                while let Some((key, value)) = cursor.next()? {
                    all.insert(word(&key), word(&value));
                }
            }
            Ok(all)
        };
        self.env.run(read).expect("reading works")
    }

    /// Returns the value that a new transaction reads.
    pub fn now(&self, key: &'static str) -> Option<String> {
        let read = |txn: &Txn<'_>| self.database(key).get(txn, key.as_bytes());
        self.env.run(read).expect("reading works").map(|value| String::from_utf8_lossy(&value).into_owned())
    }
}

/// A thread that does the steps of one session.
struct Actors {
    env: Env,
    table: Db,
    other: Option<Db>,
}

impl Actors {
    fn play(&self, steps: &Receiver<Do>, answers: &Sender<Ended>) {
        let (mut running, mut looking) = (None, None);
        while let Ok(step) = steps.recv() {
            let ended = match self.step(&step, &mut running, &mut looking) {
                Ok(ended) => ended,
                Err(Error::Exists) => Ended::Exists,
                Err(Error::Deadlock) => {
                    running = None;
                    Ended::Deadlock
                }
                Err(error) => Ended::Failed(error.to_string()),
            };
            if answers.send(ended).is_err() {
                return;
            }
        }
    }

    fn step<'e>(
        &'e self,
        step: &Do,
        running: &mut Option<Txn<'e>>,
        looking: &mut Option<Snapshot<'e>>,
    ) -> libtp::Result<Ended> {
        match step {
            Do::BeginSnapshot => {
                *looking = Some(self.env.snapshot()?);
                return Ok(Ended::Done);
            }
            Do::Commit | Do::Abort if looking.take().is_some() => return Ok(Ended::Done),
            Do::Begin => {
                *running = Some(self.env.begin()?);
                return Ok(Ended::Done);
            }
            Do::Commit => {
                return running.take().expect("the script began the transaction").commit().map(|()| Ended::Done);
            }
            Do::Abort => {
                return running.take().expect("the script began the transaction").abort().map(|()| Ended::Done);
            }
            _ => {}
        }
        if let Some(snapshot) = looking {
            return self.read(step, snapshot);
        }
        let txn = running.as_ref().expect("the script began the transaction");
        let database = |key: &str| self.database(key);
        Ok(match step {
            Do::GetForUpdate(key) => found(database(key).get_for_update(txn, key.as_bytes())?),
            Do::Put(key, value) => {
                database(key).put(txn, key.as_bytes(), value.as_bytes())?;
                Ended::Done
            }
            Do::PutNew(key, value) => {
                database(key).put_new(txn, key.as_bytes(), value.as_bytes())?;
                Ended::Done
            }
            Do::Delete(key) => Ended::WasThere(database(key).delete(txn, key.as_bytes())?),
            _ => self.read(step, txn)?,
        })
    }

    fn database(&self, key: &str) -> &Db {
        self.other.as_ref().filter(|_| key == "y").unwrap_or(&self.table)
    }

    /// Does a step that changes nothing.
    fn read(&self, step: &Do, reader: &impl Reader) -> libtp::Result<Ended> {
        Ok(match step {
            Do::Get(key) => found(self.database(key).get(reader, key.as_bytes())?),
            Do::Scan(from, to) => Ended::Pairs(self.scan(reader, from, to, true)?),
            Do::ScanBack(from, to) => Ended::Pairs(self.scan(reader, from, to, false)?),
            other => panic!("{other:?} changes records"),
        })
    }

    /// Scans both databases, if there are two, in the order of keys.
    fn scan(&self, reader: &impl Reader, from: &str, to: &str, is_upwards: bool) -> libtp::Result<Vec<String>> {
        let mut found = scan(&self.table, reader, from, to, is_upwards)?;
        if let Some(other) = self.other.as_ref().filter(|_| (from..to).contains(&"y")) {
            found.extend(scan(other, reader, from, to, is_upwards)?);
            found.sort();
            if !is_upwards {
                found.reverse();
            }
        }
        Ok(found)
    }
}

fn scan(table: &Db, reader: &impl Reader, from: &str, to: &str, is_upwards: bool) -> libtp::Result<Vec<String>> {
    let (from, to) = (from.as_bytes(), to.as_bytes());
    let mut cursor = table.cursor(reader);
    let mut at = match is_upwards {
        true => cursor.seek(from)?,
        false => {
            cursor.seek(to)?;
            cursor.prev()?
        }
    };
    let mut found = Vec::new();
    while let Some((key, value)) = at.filter(|(key, _)| (from..to).contains(&&key[..])) {
        found.push(format!("{}={}", word(&key), word(&value)));
        at = if is_upwards { cursor.next()? } else { cursor.prev()? };
    }
    Ok(found)
}

fn found(value: Option<Vec<u8>>) -> Ended {
    Ended::Value(value.map(|value| word(&value)))
}

fn word(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// One session of a script.
pub struct Session {
    name: &'static str,
    to: Sender<Do>,
    from: Receiver<Ended>,
}

impl Session {
    /// Does a step that must end, and returns its result.
    pub fn ends(&self, step: Do) -> Ended {
        let text = format!("{step:?}");
        self.to.send(step).expect("the session's thread is there");
        self.from.recv_timeout(HANG).unwrap_or_else(|_| panic!("{}: {text} has not ended after {HANG:?}", self.name))
    }

    /// Does a step that must end with the wanted result.
    #[track_caller]
    pub fn does(&self, step: Do, wanted: Ended) {
        let text = format!("{step:?}");
        assert_eq!(self.ends(step), wanted, "{}: {text}", self.name);
    }

    /// Begins a step that must wait for another transaction.
    #[track_caller]
    pub fn waits(&self, step: Do) {
        let text = format!("{step:?}");
        self.to.send(step).expect("the session's thread is there");
        match self.from.recv_timeout(WAIT) {
            Err(RecvTimeoutError::Timeout) => {}
            ended => panic!("{}: {text} should have waited: {ended:?}", self.name),
        }
    }

    /// Waits until the waiting step ends with the wanted result.
    #[track_caller]
    pub fn goes_on(&self, wanted: Ended) {
        assert_eq!(self.ended(), wanted, "{}: the step that waited", self.name);
    }

    /// Returns the result of the last step, or `None` while the step waits.
    pub fn ended_by_now(&self) -> Option<Ended> {
        self.from.recv_timeout(WAIT).ok()
    }

    /// Returns the session's name in the script.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Waits for the result of the last step.
    pub fn ended(&self) -> Ended {
        self.from.recv_timeout(HANG).unwrap_or_else(|_| panic!("{}: a step waits for ever", self.name))
    }

    /// Begins a step without waiting for its result.
    pub fn begins(&self, step: Do) {
        self.to.send(step).expect("the session's thread is there");
    }
}

/// Runs a script with locks on records, and with locks on pages.
pub fn with_both(script: impl Fn(Granularity)) {
    script(Granularity::Record);
    script(Granularity::Page);
}

//! `tp load`: a dump's records into a database.
//!
//! Into a B-tree that is empty, or new, they are loaded all at once: all of them are there in the end, or none
//! (`load_at_once.rs`), and so it is with files of pages (`dumped_pages.rs`). Into others, records go in by transactions of some thousand, relaxed, and the log is written out
//! once at the end: a load that is broken off leaves the records of the transactions before, and can be run again.

use std::cell::Cell;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use clap::Args;
use libtp::order::{self, Order};
use libtp::{Bytes, Database, Db, Duplicates, Durability, Env, List, Multi, Recno};
use serde_json::json;

use crate::dump_format::{DumpError, DumpType, Pair, Reader};
use crate::dumped_pages;
use crate::environment::DatabaseArguments;
use crate::failure::{Ending, Failure, Result};
use crate::load_at_once::load_at_once;
use crate::output::Output;
use crate::progress::Progress;
use crate::spelling::grouped;

/// A transaction ends with so many records ..
const BATCH_RECORDS: usize = 5_000;
/// .. or so many bytes.
const BATCH_BYTES: usize = 4 << 20;

/// The command line.
#[derive(Args)]
pub struct Arguments {
    #[command(flatten)]
    at: DatabaseArguments,
    /// The dump; standard input if it is not named, or is `-`.
    file: Option<PathBuf>,
    /// The length of the records of a record-number database, if the dump's header does not say it (re_len) and its
    /// first record has another.
    #[arg(long, value_name = "BYTES")]
    record_bytes: Option<u32>,
    /// The dump's keys are in no order: sort them before a new B-tree is made of them. It is found out by itself where
    /// the dump is a file; from standard input nothing else is expected.
    #[arg(long)]
    pub unsorted: bool,
    /// How full the pages of a new B-tree are made, in percent, 10 to 100.
    #[arg(long, value_name = "PERCENT", default_value_t = 100)]
    pub fill: u8,
}

/// Where the records go.
pub enum Target {
    /// Into a B-tree or a hash file.
    Pairs(Db),
    /// Into a B-tree whose keys have several values.
    Several(Multi),
    /// To their numbers.
    Recno(Recno),
    List(List),
}

/// A dump that is being read.
pub struct Source {
    /// Reads it.
    pub reader: Reader<Counted>,
    /// Bytes read so far.
    pub read: Rc<Cell<u64>>,
    /// Bytes in all, if anybody knows.
    total: Option<u64>,
    name: String,
}

/// Loads the dump; environment and database are made if they are missing.
pub fn run(arguments: &Arguments, output: &mut Output) -> Result<Ending> {
    let mut source = Source::open(arguments)?;
    let (database, kind) = (&arguments.at.database, source.reader.header().kind);
    let made_with = match source.reader.header().page_bytes {
        None => Env::builder(),
        Some(bytes) => Env::builder().page_size(database, Bytes(bytes.into())),
    };
    let env = arguments.at.environment.open_or_create_with(made_with, output)?;
    let begin = Instant::now();
    let loaded = match kind {
        DumpType::Pages => dumped_pages::load(&env, database, &mut source, output.may_draw())?,
        _ => load_records(&env, arguments, &mut source, output)?,
    };
    let seconds = begin.elapsed().as_secs_f64();
    output.object(&json!({
        "database": database, "type": kind.name(), "records": loaded, "seconds": seconds,
    }))?;
    let what = if kind == DumpType::Pages { "pages" } else { "records" };
    output.line(format!("{} {what} into {database} ({}) in {seconds:.1} s", grouped(loaded), kind.name()))?;
    Ok(Ending::Done)
}

/// All at once, if that can be; how many were loaded.
fn load_records(env: &Env, arguments: &Arguments, source: &mut Source, output: &Output) -> Result<u64> {
    let first = if source.reader.header().kind == DumpType::Recno { source.next_batch()? } else { Vec::new() };
    let target = Target::open(env, arguments, source, &first)?;
    match load_at_once(&target, arguments, source, output.may_draw())? {
        Some(loaded) => Ok(loaded),
        None => load_in_batches(env, &target, source, first, output),
    }
}

/// Some thousand records after the other; `first` were read already.
fn load_in_batches(env: &Env, target: &Target, source: &mut Source, first: Vec<Pair>, output: &Output) -> Result<u64> {
    let mut batch = if first.is_empty() { source.next_batch()? } else { first };
    let bar = source.progress(output.may_draw());
    let mut loaded = 0;
    while !batch.is_empty() {
        let stored = target.store(env, loaded, &batch);
        stored.map_err(|failure| source.broken_off(&failure, loaded))?;
        loaded += batch.len() as u64;
        bar.set(source.read.get());
        batch = source.next_batch().map_err(|failure| source.broken_off(&failure, loaded))?;
    }
    source.check_end().map_err(|failure| source.broken_off(&failure, loaded))?;
    env.flush()?;
    Ok(loaded)
}

impl Source {
    /// Whether it can be read a second time.
    pub fn is_file(arguments: &Arguments) -> bool {
        arguments.file.as_ref().is_some_and(|path| path.as_os_str() != "-" && path.is_file())
    }

    /// Opens it and reads its header.
    pub fn open(arguments: &Arguments) -> Result<Source> {
        let read = Rc::new(Cell::new(0));
        let file = arguments.file.as_ref().filter(|path| path.as_os_str() != "-");
        let (input, total, name): (Box<dyn Read>, _, _) = match file {
            None => (Box::new(std::io::stdin()), None, "standard input".to_string()),
            Some(path) => {
                let name = path.display().to_string();
                let file = File::open(path).map_err(Failure::doing(format!("open {name}")))?;
                let bytes = file.metadata().map_err(Failure::doing(format!("look at {name}")))?.len();
                (Box::new(file), Some(bytes), name)
            }
        };
        let counted = Counted { input: BufReader::with_capacity(256 << 10, input), read: Rc::clone(&read) };
        let reader = Reader::open(counted).map_err(|error| Failure::Failed(format!("{name}: {error}")))?;
        Ok(Source { reader, read, total, name })
    }

    /// How far it is read.
    pub fn progress(&self, shown: bool) -> Progress {
        match self.total {
            Some(bytes) => Progress::bytes(shown, "loading", bytes),
            None => Progress::endless(shown, "bytes loaded:"),
        }
    }

    fn next_batch(&mut self) -> Result<Vec<Pair>> {
        let (mut batch, mut bytes) = (Vec::with_capacity(BATCH_RECORDS), 0);
        while batch.len() < BATCH_RECORDS && bytes < BATCH_BYTES {
            let Some((key, value)) = self.reader.next_pair().map_err(|error| self.wrong(&error))? else { break };
            bytes += key.as_ref().map_or(0, Vec::len) + value.len();
            batch.push((key, value));
        }
        Ok(batch)
    }

    /// The order of keys that the header names.
    fn order(&self) -> Result<Option<Arc<dyn Order>>> {
        let Some(name) = &self.reader.header().order else { return Ok(None) };
        let unknown = || {
            Failure::Failed(format!(
                "{}: its keys are in the order `{name}`, which only its program has, and they are not as they are stored \
                 (libtp_keys=stored); nothing was loaded. Dump it with `tp dump`, or load it with the program",
                self.name
            ))
        };
        order::by_name(name).map(Some).ok_or_else(unknown)
    }

    /// A dump of several databases in one file has another header here.
    pub fn check_end(&mut self) -> Result<()> {
        if self.reader.has_more().map_err(|error| self.wrong(&error))? {
            return Err(Failure::Failed(format!(
                "{}: there is more after DATA=END; dump the databases of one file one by one (db_dump -s NAME)",
                self.name
            )));
        }
        Ok(())
    }

    pub fn wrong(&self, error: &DumpError) -> Failure {
        Failure::Failed(format!("{}: {error}", self.name))
    }

    fn broken_off(&self, failure: &Failure, loaded: u64) -> Failure {
        Failure::Failed(format!("{failure} (the {loaded} records before were loaded and are kept)"))
    }
}

impl Target {
    fn open(env: &Env, arguments: &Arguments, source: &Source, first: &[Pair]) -> Result<Target> {
        let name = &arguments.at.database;
        let header = source.reader.header();
        if let (true, Some(order)) = (header.keys_as_stored, &header.order) {
            return Target::as_stored(env, name, header.duplicates, order);
        }
        match (header.kind, env.database(name)) {
            (DumpType::Btree, _) if header.duplicates != Duplicates::None => {
                return Target::several(env, arguments, source, header.duplicates);
            }
            // What is there takes pairs of either kind.
            (DumpType::Btree | DumpType::Hash, Ok(Database::Btree(db) | Database::Hash(db))) => {
                return Ok(Target::Pairs(db));
            }
            (DumpType::Recno | DumpType::List, Ok(Database::Recno(recno))) => return Ok(Target::Recno(recno)),
            (DumpType::Recno | DumpType::List, Ok(Database::List(list))) => return Ok(Target::List(list)),
            (DumpType::Btree | DumpType::Hash, Ok(Database::Multi(db))) => return Ok(Target::Several(db)),
            (DumpType::Btree, _) => {
                return Ok(Target::Pairs(match source.order()? {
                    None => env.btree(name)?,
                    Some(order) => env.btree_ordered(name, order)?,
                }))
            }
            (DumpType::Hash, _) => return Ok(Target::Pairs(env.hash(name)?)),
            (DumpType::List, _) => return Ok(Target::List(env.list(name)?)),
            (DumpType::Pages, _) => unreachable!("pages are loaded by `dumped_pages.rs`"),
            (DumpType::Recno, _) => {}
        }
        let said = arguments.record_bytes.map(|bytes| bytes as usize).or(header.record_bytes);
        let bytes = said.or(first.first().map(|(_, value)| value.len())).ok_or_else(|| {
            Failure::Usage(format!(
                "{}: an empty dump does not say how long records are; give --record-bytes",
                source.name
            ))
        })?;
        let bytes = u32::try_from(bytes)
            .map_err(|_| Failure::Failed(format!("{}: records of {bytes} bytes are too long", source.name)))?;
        Ok(Target::Recno(env.recno(name, bytes)?))
    }

    /// A tree in an order that its program knows, and of which we have the name.
    fn as_stored(env: &Env, name: &str, duplicates: Duplicates, order: &str) -> Result<Target> {
        let order = order::AsStored::named(order);
        Ok(match duplicates {
            Duplicates::None => Target::Pairs(env.btree_ordered(name, order)?),
            kind => Target::Several(env.multi_ordered(name, kind, order)?),
        })
    }

    /// A tree for a dump whose keys have several values.
    fn several(env: &Env, arguments: &Arguments, source: &Source, duplicates: Duplicates) -> Result<Target> {
        let name = &arguments.at.database;
        match env.database(name) {
            Ok(Database::Multi(db)) => return Ok(Target::Several(db)),
            Ok(_) => {
                let what = "it has one value a key, and the dump has several; nothing was loaded. Load into a new one";
                return Err(Failure::Failed(format!("database `{name}`: {what}")));
            }
            Err(_) => {}
        }
        Ok(Target::Several(match source.order()? {
            None => env.multi(name, duplicates)?,
            Some(order) => env.multi_ordered(name, duplicates, order)?,
        }))
    }

    /// Stores a batch in one transaction; `before` records of the dump came before it.
    fn store(&self, env: &Env, before: u64, batch: &[Pair]) -> Result<()> {
        match self {
            Target::Pairs(db) => env.run_with(Durability::Relaxed, |txn| {
                batch.iter().try_for_each(|(key, value)| db.put(txn, key.as_deref().unwrap_or_default(), value))
            })?,
            Target::Several(multi) => env.run_with(Durability::Relaxed, |txn| {
                batch
                    .iter()
                    .try_for_each(|(key, value)| multi.put(txn, key.as_deref().unwrap_or_default(), value).map(|_| ()))
            })?,
            Target::Recno(recno) => {
                let length = usize::try_from(recno.record_bytes()).unwrap_or(usize::MAX);
                let numbered = numbered(batch, before, Some(length))?;
                env.run_with(Durability::Relaxed, |txn| {
                    numbered.iter().try_for_each(|(number, value)| recno.put(txn, *number, value))
                })?;
            }
            Target::List(list) => {
                let numbered = numbered(batch, before, None)?;
                env.run_with(Durability::Relaxed, |txn| {
                    numbered.iter().try_for_each(|(number, value)| list.put(txn, *number, value))
                })?;
            }
        }
        Ok(())
    }
}

/// The records' numbers: what their keys say, or their places in the dump. All have that length, if there is one.
fn numbered(batch: &[Pair], before: u64, length: Option<usize>) -> Result<Vec<(u64, &[u8])>> {
    let places = before + 1..;
    let records = places.zip(batch).map(|(place, (key, value))| {
        if let Some(length) = length.filter(|&length| value.len() != length) {
            return Err(Failure::Failed(format!(
                "record {place} of the dump has {} bytes, the database's records have {length}: all must be of one length",
                value.len()
            )));
        }
        match key {
            None => Ok((place, value.as_slice())),
            Some(key) => {
                let number = std::str::from_utf8(key).ok().and_then(|text| text.trim().parse().ok());
                let number = number.filter(|&number: &u64| number > 0);
                let number = number
                    .ok_or_else(|| Failure::Failed(format!("record {place} of the dump has a key that is no number")))?;
                Ok((number, value.as_slice()))
            }
        }
    });
    records.collect()
}

/// An input that counts what was taken from it.
pub struct Counted {
    input: BufReader<Box<dyn Read>>,
    read: Rc<Cell<u64>>,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = self.input.read(buffer)?;
        self.read.set(self.read.get() + count as u64);
        Ok(count)
    }
}

impl BufRead for Counted {
    fn fill_buf(&mut self) -> std::io::Result<&[u8]> {
        self.input.fill_buf()
    }

    fn consume(&mut self, count: usize) {
        self.read.set(self.read.get() + count as u64);
        self.input.consume(count);
    }
}

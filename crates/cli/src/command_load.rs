//! `tp load`: loads a dump's records into a database.
//!
//! The dump is read to its end first (`dump_source.rs`): a dump that cannot be loaded changes nothing. A new
//! environment cannot be used before all is loaded, and is removed if the load fails ([`libtp::Filling`]).
//!
//! A new or empty B-tree is loaded completely or not at all (`load_at_once.rs`), and so is a file of pages
//! (`dumped_pages.rs`). Other databases take some thousand records in each transaction. These commits are relaxed, and
//! the log is flushed once at the end. If such a load into an existing environment is broken off, the records of its
//! earlier transactions stay, and the load can be run again.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use clap::Args;
use libtp::order::{self, Order};
use libtp::{Bytes, Database, Db, Duplicates, Durability, Env, Filling, List, Multi, Recno};
use serde_json::json;

use crate::dump_format::Pair;
use crate::dump_header::DumpType;
use crate::dump_source::{number_of, Checked, Source};
use crate::dumped_pages;
use crate::environment::DatabaseArguments;
use crate::failure::{Ending, Failure, Result};
use crate::load_at_once::load_at_once;
use crate::output::Output;
use crate::spelling::grouped;

/// The command line.
#[derive(Args)]
pub struct Arguments {
    #[command(flatten)]
    pub at: DatabaseArguments,
    /// Dump to load; without it, or with `-`, standard input.
    pub file: Option<PathBuf>,
    /// Length of records by number, instead of the one in the dump's header (re_len). If neither is given, the records
    /// are loaded into a list.
    #[arg(long, value_name = "BYTES")]
    pub record_bytes: Option<u32>,
    /// Sort the keys before a new B-tree is made of them. Without it, the load sorts after it has met a key out of
    /// order.
    #[arg(long)]
    pub unsorted: bool,
    /// Fill of the pages of a new B-tree, in percent, 10 to 100.
    #[arg(long, value_name = "PERCENT", default_value_t = 100)]
    pub fill: u8,
}

/// The database that the records go into.
pub enum Target {
    /// A B-tree or a hash file.
    Pairs(Db),
    /// A B-tree whose keys have several values.
    Several(Multi),
    /// A record-number database.
    Recno(Recno),
    List(List),
}

/// Loads the dump; environment and database are made if they are missing.
pub fn run(arguments: &Arguments, output: &mut Output) -> Result<Ending> {
    // Fails before the dump is read if no environment is named.
    arguments.at.environment.directory()?;
    let mut source = Source::open(arguments)?;
    let checked = source.check()?;
    let (database, kind) = (&arguments.at.database, source.reader.header().kind);
    let made_with = match source.reader.header().page_bytes {
        None => Env::builder(),
        Some(bytes) => Env::builder().page_size(database, Bytes(bytes.into())),
    };
    let filling = arguments.at.environment.open_to_fill(&made_with, output)?;
    let begin = Instant::now();
    let loaded = match kind {
        DumpType::Pages => dumped_pages::load(filling.env(), database, &mut source, output.may_draw()),
        _ => load_records(filling.env(), arguments, &mut source, checked, output),
    };
    let loaded = match loaded {
        Ok(loaded) => loaded,
        Err(failure) => return Err(given_up(filling, &failure)),
    };
    filling.finish()?;
    let seconds = begin.elapsed().as_secs_f64();
    output.object(&json!({
        "database": database, "type": kind.name(), "records": loaded, "seconds": seconds,
    }))?;
    let what = if kind == DumpType::Pages { "pages" } else { "records" };
    output.line(format!("{} {what} into {database} ({}) in {seconds:.1} s", grouped(loaded), kind.name()))?;
    Ok(Ending::Done)
}

/// Removes the environment if the failed load has made it. Returns the failure to report.
fn given_up(filling: Filling, failure: &Failure) -> Failure {
    let what = match filling.abandon() {
        Ok(true) => "; the environment that was made for it is removed".to_string(),
        Ok(false) => String::new(),
        Err(error) => format!("; the environment that was made for it cannot be removed: {error}"),
    };
    Failure::Failed(format!("{failure}{what}"))
}

/// Loads the records, all at once if possible. Returns the number of loaded records.
fn load_records(
    env: &Env,
    arguments: &Arguments,
    source: &mut Source,
    checked: Checked,
    output: &Output,
) -> Result<u64> {
    let name = &arguments.at.database;
    let is_new = matches!(env.database(name), Err(libtp::Error::NoDatabase { .. }));
    let target = Target::open(env, arguments, source, checked)?;
    let at_once =
        check_keys(&target, source, checked).and_then(|()| load_at_once(&target, arguments, source, output.may_draw()));
    let loaded = match at_once {
        Ok(None) => load_in_batches(env, &target, source, output),
        Ok(Some(loaded)) => Ok(loaded),
        Err(failure) => Err(failure),
    };
    if loaded.is_err() && is_new {
        drop(target);
        // Another process may have put records into it. The error of the load is the one to report.
        let _ = env.drop_if_empty(name);
    }
    loaded
}

/// Loads the records in batches, each in a transaction. Returns the number of loaded records.
fn load_in_batches(env: &Env, target: &Target, source: &mut Source, output: &Output) -> Result<u64> {
    let bar = source.progress(output.may_draw());
    let mut loaded = 0;
    let broken_off = |failure: &Failure, loaded| {
        Failure::Failed(format!("{failure} (the {loaded} records before were loaded into `{}`)", target.name()))
    };
    loop {
        let batch = source.next_batch().map_err(|failure| broken_off(&failure, loaded))?;
        if batch.is_empty() {
            break;
        }
        target.store(env, loaded, &batch).map_err(|failure| broken_off(&failure, loaded))?;
        loaded += batch.len() as u64;
        bar.set(source.read.get());
    }
    env.flush()?;
    Ok(loaded)
}

impl Target {
    fn open(env: &Env, arguments: &Arguments, source: &Source, checked: Checked) -> Result<Target> {
        let name = &arguments.at.database;
        let header = source.reader.header();
        if let (true, Some(order)) = (header.keys_as_stored, &header.order) {
            return Target::as_stored(env, name, header.duplicates, order);
        }
        match (header.kind, env.database(name)) {
            (DumpType::Btree | DumpType::Hash, _) if header.duplicates != Duplicates::None => {
                Target::several(env, arguments, source, header.duplicates)
            }
            // An existing database takes pairs of either kind.
            (DumpType::Btree | DumpType::Hash, Ok(Database::Btree(db) | Database::Hash(db))) => {
                check_order(name, db.order_name(), source)?;
                Ok(Target::Pairs(db))
            }
            (DumpType::Btree | DumpType::Hash, Ok(Database::Multi(db))) => {
                check_order(name, db.order_name(), source)?;
                Ok(Target::Several(db))
            }
            (DumpType::Recno | DumpType::List, Ok(Database::Recno(recno))) => {
                check_lengths(&recno, source, checked)?;
                Ok(Target::Recno(recno))
            }
            (DumpType::Recno | DumpType::List, Ok(Database::List(list))) => Ok(Target::List(list)),
            (DumpType::Btree, _) => Ok(Target::Pairs(match order_of(source)? {
                None => env.btree(name)?,
                Some(order) => env.btree_ordered(name, order)?,
            })),
            (DumpType::Hash, _) => Ok(Target::Pairs(env.hash(name)?)),
            (DumpType::List, there) => {
                if let (Some(first @ 2..), Err(_)) = (checked.first, there) {
                    return Err(source.failed(format!("{} (nothing was loaded)", source.gap(0, first))));
                }
                Ok(Target::List(env.list(name)?))
            }
            (DumpType::Recno, _) => {
                let bytes = u32::try_from(header.record_bytes.unwrap_or_default()).unwrap_or(u32::MAX);
                Ok(Target::Recno(env.recno(name, bytes)?))
            }
            (DumpType::Pages, _) => unreachable!("pages are loaded by `dumped_pages.rs`"),
        }
    }

    fn name(&self) -> &str {
        match self {
            Target::Pairs(db) => db.name(),
            Target::Several(db) => db.name(),
            Target::Recno(db) => db.name(),
            Target::List(db) => db.name(),
        }
    }

    /// Opens or makes a B-tree in an order that only its program has. This program knows the order's name.
    fn as_stored(env: &Env, name: &str, duplicates: Duplicates, order: &str) -> Result<Target> {
        let order = order::AsStored::named(order);
        Ok(match duplicates {
            Duplicates::None => Target::Pairs(env.btree_ordered(name, order)?),
            kind => Target::Several(env.multi_ordered(name, kind, order)?),
        })
    }

    /// Opens or makes a B-tree for a dump whose keys have several values.
    fn several(env: &Env, arguments: &Arguments, source: &Source, duplicates: Duplicates) -> Result<Target> {
        let name = &arguments.at.database;
        match env.database(name) {
            Ok(Database::Multi(db)) => {
                check_order(name, db.order_name(), source)?;
                if db.duplicates() != duplicates {
                    let [has, wants] = [db.duplicates(), duplicates].map(|kind| match kind {
                        Duplicates::Sorted => "in their own order, each once",
                        _ => "in the order in which they came",
                    });
                    return Err(source.failed(format!(
                        "it has the values of a key {wants}, and `{name}` has them {has} (nothing was loaded). Load it into a new database"
                    )));
                }
                return Ok(Target::Several(db));
            }
            Ok(_) => {
                let what = "it has one value a key, and the dump has several; nothing was loaded. Load into a new one";
                return Err(Failure::Failed(format!("database `{name}`: {what}")));
            }
            Err(_) => {}
        }
        Ok(Target::Several(match order_of(source)? {
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
                let numbered = numbered(batch, before)?;
                env.run_with(Durability::Relaxed, |txn| {
                    numbered.iter().try_for_each(|(number, value)| recno.put(txn, *number, value))
                })?;
            }
            Target::List(list) => {
                let numbered = numbered(batch, before)?;
                env.run_with(Durability::Relaxed, |txn| {
                    numbered.iter().try_for_each(|(number, value)| list.put(txn, *number, value))
                })?;
            }
        }
        Ok(())
    }
}

/// Returns the order of keys that the header names, if any.
fn order_of(source: &Source) -> Result<Option<Arc<dyn Order>>> {
    let Some(name) = &source.reader.header().order else { return Ok(None) };
    let unknown = || {
        source.failed(format!(
            "its keys are in the order `{name}`, which only its program has, and they are not as they are stored \
             (libtp_keys=stored); nothing was loaded. Dump it with `tp dump`, or load it with the program",
        ))
    };
    order::by_name(name).map(Some).ok_or_else(unknown)
}

/// Checks that the database's keys have the order that the dump's header names, if any.
fn check_order(name: &str, there: Option<&str>, source: &Source) -> Result<()> {
    let wanted = source.reader.header().order.as_deref();
    let Some(wanted) = wanted.filter(|_| wanted != there) else { return Ok(()) };
    let there = there.map_or_else(|| "no such order".into(), |order| format!("the order `{order}`"));
    Err(source.failed(format!(
        "its keys are in the order `{wanted}`, and those of `{name}` in {there} (nothing was loaded). Load it into a new database"
    )))
}

/// Checks that the dump's records have the length of the existing database's records.
fn check_lengths(recno: &Recno, source: &Source, checked: Checked) -> Result<()> {
    let length = usize::try_from(recno.record_bytes()).unwrap_or(usize::MAX);
    match checked.lengths {
        Some((shortest, longest)) if (shortest, longest) != (length, length) => Err(source.failed(format!(
            "its records have {shortest} to {longest} bytes, and those of `{}` have {length} (nothing was loaded). Load it into a new \
             database",
            recno.name()
        ))),
        _ => Ok(()),
    }
}

/// Checks that the database takes keys as long as the dump's: a load in batches would keep the records before the first
/// key that is too long.
fn check_keys(target: &Target, source: &Source, checked: Checked) -> Result<()> {
    let (bytes, limit, what) = match target {
        Target::Pairs(db) => (checked.longest_key, db.key_bytes_max(), "a key"),
        Target::Several(db) if db.duplicates() == Duplicates::Sorted => {
            (checked.longest_pair, db.pair_bytes_max(), "a key with its value")
        }
        Target::Several(db) => (checked.longest_key, db.pair_bytes_max(), "a key"),
        Target::Recno(_) | Target::List(_) => return Ok(()),
    };
    if bytes <= limit {
        return Ok(());
    }
    Err(source.failed(format!(
        "it has {what} of {bytes} bytes, and `{}` takes {limit} (nothing was loaded). Make the database with larger pages, and load \
         it again",
        target.name()
    )))
}

/// Returns the records with their numbers: those of their keys, or else their places in the dump.
fn numbered(batch: &[Pair], before: u64) -> Result<Vec<(u64, &[u8])>> {
    let records = (before + 1..).zip(batch).map(|(place, (key, value))| {
        let number = match key {
            None => place,
            Some(key) => number_of(key)
                .ok_or_else(|| Failure::Failed(format!("record {place} of the dump has a key that is no number")))?,
        };
        Ok((number, value.as_slice()))
    });
    records.collect()
}

//! The database into which a dump's records are loaded: an existing database that fits the dump, or a new database.

use std::sync::Arc;

use libtp::order::{self, Order};
use libtp::{Database, Db, Duplicates, Durability, Env, List, Multi, Recno};

use crate::dump_format::Pair;
use crate::dump_header::DumpType;
use crate::dump_source::{number_of, Checked, Source};
use crate::failure::{Failure, Result};
use crate::load_arguments::Arguments;

/// The database into which a dump is loaded.
pub enum Target {
    /// A B-tree or a hash file.
    Pairs(Db),
    /// A B-tree whose keys have several values.
    Several(Multi),
    /// A record-number database.
    Recno(Recno),
    List(List),
}

impl Target {
    /// Opens the database, or makes it.
    pub fn open(env: &Env, arguments: &Arguments, source: &Source, checked: Checked) -> Result<Target> {
        let name = &arguments.at.database;
        let header = source.reader.header();
        if let (true, Some(order)) = (header.keys_as_stored, &header.order) {
            return Target::as_stored(env, name, header.duplicates, order);
        }
        match (header.kind, env.database(name)) {
            (DumpType::Btree | DumpType::Hash, _) if header.duplicates != Duplicates::None => {
                Target::several(env, arguments, source, header.duplicates)
            }
            // An existing database takes pairs of either kind of dump.
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

    /// Returns the database's name.
    pub fn name(&self) -> &str {
        match self {
            Target::Pairs(db) => db.name(),
            Target::Several(db) => db.name(),
            Target::Recno(db) => db.name(),
            Target::List(db) => db.name(),
        }
    }

    /// Opens or makes a B-tree in an order that only another program has. `tp` knows only the order's name.
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
                        Duplicates::Sorted => "sorted values without repetition",
                        _ => "values in the order of their insertion",
                    });
                    return Err(source.failed(format!(
                        "a key of the dump has {wants}, and a key of `{name}` has {has} (nothing was loaded). Load the dump into a new database"
                    )));
                }
                return Ok(Target::Several(db));
            }
            Ok(_) => {
                let what = "a key of the database has one value, and a key of the dump has several; nothing was loaded. Load the dump into a new database";
                return Err(Failure::Failed(format!("database `{name}`: {what}")));
            }
            Err(_) => {}
        }
        Ok(Target::Several(match order_of(source)? {
            None => env.multi(name, duplicates)?,
            Some(order) => env.multi_ordered(name, duplicates, order)?,
        }))
    }

    /// Stores a batch in one transaction. `before` is the number of records of the dump before this batch.
    pub fn store(&self, env: &Env, before: u64, batch: &[Pair]) -> Result<()> {
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

/// Returns the order of keys that the header names, or `None` if the header names no order.
fn order_of(source: &Source) -> Result<Option<Arc<dyn Order>>> {
    let Some(name) = &source.reader.header().order else { return Ok(None) };
    let unknown = || {
        source.failed(format!(
            "the keys of the dump are in the order `{name}`, which only its program knows. The dump does not have the keys in their stored form (libtp_keys=stored), so nothing was loaded. Dump the database with `tp dump`, or load it with the program",
        ))
    };
    order::by_name(name).map(Some).ok_or_else(unknown)
}

/// Checks that the database's keys have the order that the dump's header names. Checks nothing if the header names no
/// order.
fn check_order(name: &str, there: Option<&str>, source: &Source) -> Result<()> {
    let wanted = source.reader.header().order.as_deref();
    let Some(wanted) = wanted.filter(|_| wanted != there) else { return Ok(()) };
    let there = there.map_or_else(|| "another order".into(), |order| format!("the order `{order}`"));
    Err(source.failed(format!(
        "the keys of the dump are in the order `{wanted}`, and the keys of `{name}` are in {there} (nothing was loaded). Load the dump into a new database"
    )))
}

/// Checks that the dump's records have the length of the existing database's records.
fn check_lengths(recno: &Recno, source: &Source, checked: Checked) -> Result<()> {
    let length = usize::try_from(recno.record_bytes()).unwrap_or(usize::MAX);
    match checked.lengths {
        Some((shortest, longest)) if (shortest, longest) != (length, length) => Err(source.failed(format!(
            "the records of the dump have {shortest} to {longest} bytes, and the records of `{}` have {length} (nothing was loaded). Load the dump into a new database",
            recno.name()
        ))),
        _ => Ok(()),
    }
}

/// Checks that the database takes keys as long as the dump's longest key. Without the check, a load in batches would
/// keep the records before the first key that is too long.
pub fn check_keys(target: &Target, source: &Source, checked: Checked) -> Result<()> {
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
    let name = target.name();
    let remedy = match source.reader.header().page_bytes {
        Some(_) => "write a larger db_pagesize, up to 65536, into the dump's header".to_string(),
        None => format!("write page_bytes = \"64KiB\" under [database.{name}] into the environment's libtp.toml"),
    };
    Err(source.failed(format!(
        "the dump has {what} of {bytes} bytes, and `{name}` takes at most {limit} (nothing was loaded). For longer keys, {remedy}, and load the dump into a new database"
    )))
}

/// Returns the records with their numbers. A number is the record's key or, without keys, the record's place in the
/// dump.
fn numbered(batch: &[Pair], before: u64) -> Result<Vec<(u64, &[u8])>> {
    let records = (before + 1..).zip(batch).map(|(place, (key, value))| {
        let number = match key {
            None => place,
            Some(key) => number_of(key)
                .ok_or_else(|| Failure::Failed(format!("record {place} of the dump has a key that is not a number")))?,
        };
        Ok((number, value.as_slice()))
    });
    records.collect()
}

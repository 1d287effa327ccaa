//! Bulk load of an empty database: [`Load`], [`Db::load`], [`Multi::load`].
//!
//! Not in the paper. From sorted records, a load builds the tree from the leaves up, and logs each page with one record
//! (`record/btree/load.rs`). Unsorted records are sorted first (`sort.rs`). See docs/design/0014-bulk-load.md.

use libtp_lock::Mode;
use libtp_record::copies::copy_of;
use libtp_record::duplicates;

use crate::db::handle::Db;
use crate::db::multi::Multi;
use crate::db::sort::{Merge, Sorter};
use crate::ground::progress::{Progress, Watch};
use crate::ground::settings::Bytes;
use crate::txn::failure::keep_first;
use crate::{Duplicates, Durability, Error, Pair, Result, Txn};

/// The number of records between two progress reports.
const REPORT_EVERY: u64 = 1024;
/// The number of attempts to lock the whole database when other transactions hold locks.
const TRIES: u32 = 100;

/// The options of a load.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// let env = libtp::Env::create(dir.path())?;
/// let squares = env.btree("squares")?;
/// let pairs = (0..1000_u32).map(|number| (number.to_be_bytes(), (number * number).to_le_bytes()));
/// assert_eq!(squares.load(&libtp::Load::sorted(), pairs)?, 1000);
/// let words = env.btree("words")?;
/// assert_eq!(words.load(&libtp::Load::unsorted(), [("pear", "7"), ("apple", "3"), ("pear", "8")])?, 2);
/// assert_eq!(env.run(|txn| words.get(txn, b"pear"))?.as_deref(), Some(&b"8"[..]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Load {
    is_sorted: bool,
    fill_percent: u8,
    memory: Bytes,
}

impl Load {
    /// Returns the options for records in the order of the database's keys. A record out of order makes the load fail.
    pub fn sorted() -> Load {
        Load { is_sorted: true, fill_percent: 100, memory: Bytes(64 << 20) }
    }

    /// Returns the options for records in any order. The records are sorted first, in a file of the environment's
    /// directory if they exceed the memory limit ([`Load::memory`]).
    pub fn unsorted() -> Load {
        Load { is_sorted: false, ..Load::sorted() }
    }

    /// Sets how full the pages become, in percent, 10 to 100; 100 by default. The next key inserted into a full page
    /// splits it: leave room if keys will be inserted between the loaded keys.
    #[must_use]
    pub fn fill_percent(mut self, percent: u8) -> Load {
        self.fill_percent = percent;
        self
    }

    /// Sets the approximate memory that sorting uses; 64 MiB by default.
    #[must_use]
    pub fn memory(mut self, bytes: Bytes) -> Load {
        self.memory = bytes;
        self
    }
}

impl Db {
    /// Loads records into this empty database; returns the number of its keys afterwards. Of records with equal keys
    /// the last is kept. Loads are for very many records: loading them costs about as much as writing their bytes to
    /// the disk.
    ///
    /// The load is a transaction of its own, which locks the whole database: when the call returns, either all records
    /// are on disk, or no record is. Until then no other transaction uses the database; snapshots see it empty. The log
    /// keeps all loaded records until the load ends. After an interrupted load, the file keeps the length that it had
    /// reached, and the new pages are free.
    ///
    /// # Errors
    /// `NotEmpty`; `OutOfOrder`; `Database` for a hash database, which is loaded by [`Db::put`], and for an invalid
    /// fill; `LockTimeout`; `Length`, `Full`, `Failed`, `Corrupt`, `Io`. After an error nothing was loaded, with one
    /// exception: if only the commit record found no room in the log, the records stay, and loading again returns
    /// `NotEmpty`. `OutcomeUnknown` as [`Txn::commit`](crate::Txn::commit).
    pub fn load<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        how: &Load,
        pairs: impl IntoIterator<Item = (K, V)>,
    ) -> Result<u64> {
        let pairs = pairs.into_iter().map(|(key, value)| Ok((copy_of(key.as_ref())?, copy_of(value.as_ref())?)));
        self.try_load(how, pairs, &mut |_| {})
    }

    /// As [`Db::load`], for an iterator whose items may be errors: the first error ends the load, with nothing loaded.
    /// Reports progress to `watch`.
    ///
    /// # Errors
    /// As [`Db::load`], and the first error among the records.
    pub fn try_load<E: From<Error>>(
        &self,
        how: &Load,
        pairs: impl IntoIterator<Item = std::result::Result<Pair, E>>,
        watch: &mut Watch<'_>,
    ) -> std::result::Result<u64, E> {
        load(self, how, pairs, |_, pair| Ok((self.stored_key(pair.0), pair.1)), watch)
    }
}

impl Multi {
    /// Loads pairs into this empty database; returns the number of its pairs afterwards. Otherwise the call works as
    /// [`Db::load`]. If the database keeps the values of a key in the order of insertion, their order is the order of
    /// the loaded pairs. For [`Load::sorted`], the pairs must be in the order of their keys; if values are sorted, the
    /// values of each key must be in order, too.
    ///
    /// # Errors
    /// As [`Db::load`].
    pub fn load<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        how: &Load,
        pairs: impl IntoIterator<Item = (K, V)>,
    ) -> Result<u64> {
        let pairs = pairs.into_iter().map(|(key, value)| Ok((copy_of(key.as_ref())?, copy_of(value.as_ref())?)));
        self.try_load(how, pairs, &mut |_| {})
    }

    /// As [`Db::try_load`].
    ///
    /// # Errors
    /// As [`Db::try_load`].
    pub fn try_load<E: From<Error>>(
        &self,
        how: &Load,
        pairs: impl IntoIterator<Item = std::result::Result<Pair, E>>,
        watch: &mut Watch<'_>,
    ) -> std::result::Result<u64, E> {
        self.check_writable()?;
        load(self.tree(), how, pairs, |number, pair| self.entry_to_load(number, pair), watch)
    }

    /// Returns the entry of a pair. The first number of a load is the LSN of the log's tail at the load's beginning,
    /// and each further pair gets the next number. Each pair takes more than one byte of log. So pairs that are put
    /// after the load have higher numbers, because their numbers are LSNs, too.
    fn entry_to_load(&self, number: u64, (key, value): Pair) -> Result<Pair> {
        let key = self.ordered(&key);
        let entry = match self.duplicates() {
            Duplicates::Sorted => (duplicates::sorted_entry(&key, &value), Vec::new()),
            Duplicates::AsTheyCame | Duplicates::None => (duplicates::numbered_entry(&key, number), value),
        };
        self.check(&entry.0)?;
        Ok(entry)
    }
}

/// Begins a transaction, and locks the whole database.
fn begin(tree: &Db) -> Result<Txn<'_>> {
    let mut tries = 0;
    loop {
        tree.environment().check_writable("loading records")?;
        let txn = Txn::begin(tree.environment(), Durability::Sync)?;
        let locked = txn.guarded(|| Ok(tree.access(&txn).lock_database(Mode::X)?));
        tries += 1;
        match locked {
            Ok(()) => return Ok(txn),
            Err(error) if error.is_retryable() && tries < TRIES => txn.abort()?,
            Err(error) => return Err(keep_first(error, txn.abort())),
        }
    }
}

fn load<E: From<Error>>(
    tree: &Db,
    how: &Load,
    pairs: impl IntoIterator<Item = std::result::Result<Pair, E>>,
    entry: impl FnMut(u64, Pair) -> Result<Pair>,
    watch: &mut Watch<'_>,
) -> std::result::Result<u64, E> {
    if tree.is_hash() {
        let what = "it is a hash database, and records are loaded only into a B-tree; nothing was loaded. Store them one by one (`Db::put`)".into();
        return Err(Error::Database { name: tree.name().into(), what }.into());
    }
    let txn = begin(tree)?;
    match load_in(&txn, tree, how, pairs.into_iter(), entry, watch) {
        Ok(records) => {
            txn.commit()?;
            Ok(records)
        }
        Err(error) => {
            if let Err(second) = txn.abort() {
                tracing::warn!(error = %second, "a load failed and could not be undone; it is undone when the environment is opened again");
            }
            Err(error)
        }
    }
}

fn load_in<E: From<Error>>(
    txn: &Txn<'_>,
    tree: &Db,
    how: &Load,
    pairs: impl Iterator<Item = std::result::Result<Pair, E>>,
    mut entry: impl FnMut(u64, Pair) -> Result<Pair>,
    watch: &mut Watch<'_>,
) -> std::result::Result<u64, E> {
    let access = tree.access(txn);
    if txn.guarded(|| Ok(access.has_indices()?))? {
        let what = "it has indices, and a load does not keep them up to date; nothing was loaded. Drop the indices (`Db::drop_index`), load, and make them again";
        return Err(Error::Database { name: tree.name().into(), what: what.into() }.into());
    }
    let mut loader = txn.guarded(|| Ok(access.begin_load(how.fill_percent)?))?;
    let first = txn.generation().managers.log.tail().raw();
    let mut entries = (first..).zip(pairs).map(|(number, pair)| Ok(entry(number, pair?)?));
    let mut source: Box<dyn FnMut() -> std::result::Result<Option<Pair>, E> + '_>;
    let mut total = 0;
    if how.is_sorted {
        source = Box::new(|| entries.next().transpose());
    } else {
        let directory = tree.environment().platform.directory.as_ref();
        let mut sorter = Sorter::new(directory, tree.name(), how.memory.0);
        for pair in entries {
            let (key, value): Pair = pair?;
            txn.guarded(|| sorter.push(&key, &value))?;
            total += 1;
            if total % REPORT_EVERY == 0 {
                watch(Progress::new("sorting", total, 0));
            }
        }
        let mut merge: Merge = txn.guarded(|| sorter.finish())?;
        source = Box::new(move || Ok(txn.guarded(|| merge.next())?));
    }
    let mut done = 0;
    while let Some((key, value)) = source()? {
        txn.guarded(|| Ok(loader.push(&key, &value)?))?;
        done += 1;
        if done % REPORT_EVERY == 0 {
            watch(Progress::new("loading", done, total));
        }
    }
    Ok(txn.guarded(|| Ok(loader.finish()?))?)
}

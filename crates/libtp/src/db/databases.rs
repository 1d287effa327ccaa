//! Databases as a whole: dropping, renaming, emptying and listing.
//!
//! Not in the paper. A transaction notes its decisions in the memory of its process, and locks the databases and the
//! names. Its commit writes all decisions in one log record, and carries them out when that record is on disk
//! (`libtp_txn::databases`). An abort, or a death before the commit, has nothing to undo. Emptying differs: it deletes
//! records one by one, and undo restores them one by one.

use std::sync::Arc;

use libtp_buffer::{Fate, FileId};
use libtp_lock::Mode;
use libtp_record::{lock_names, KeyFormat, KeyRange, Method};
use serde::Serialize;

use crate::db::opening;
use crate::region::inner::Inner;
use crate::region::open_database::OpenDatabase;
use crate::txn::decisions::Decision;
use crate::{Database, Db, Env, Error, Recno, Result, Txn};

/// An entry of the list of databases.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ListedDatabase {
    /// Its name.
    pub name: String,
    /// `btree`, `multi` (a B-tree whose keys have several values), `list`, `index`, `hash`, `recno` or `pages`; `None`
    /// if the file is not in its place, or cannot be used.
    pub kind: Option<&'static str>,
    /// The reason why the file cannot be used; `None` if the file is missing or good.
    pub fault: Option<String>,
    /// The size of its file in bytes; some of them may be free for later records.
    pub bytes: u64,
}

impl Txn<'_> {
    /// Drops a database, with its indices, when the transaction commits: its file is removed, and its name can be used
    /// again. Also drops a single index. No other transaction uses the database until this transaction ends. After the
    /// commit, each use of an older handle, of any process or snapshot, is refused (`Dropped`).
    ///
    /// The commit record is on disk when the commit returns, whatever the transaction's durability is. The commit waits
    /// for a backup that copies the files.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// let env = libtp::Env::create(dir.path())?;
    /// let old = env.btree("stock")?;
    /// let new = env.btree("stock.new")?;
    /// env.run(|txn| new.put(txn, b"pears", b"7"))?;
    /// // One database takes the place of the other, at one moment.
    /// env.run(|txn| {
    ///     txn.drop_database("stock")?;
    ///     txn.rename_database("stock.new", "stock")
    /// })?;
    /// assert_eq!(env.databases()?, ["stock"]);
    /// assert!(env.run(|txn| old.get(txn, b"pears")).is_err());
    /// assert!(env.run(|txn| new.get(txn, b"pears"))?.is_some());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// `NoDatabase`; `FileMissing` when the file is not in its place ([`Env::drop_missing`] drops such a database); `Database`
    /// when the database is one of the library's own, or the transaction has joined memory; `Deadlock`, `LockTimeout`,
    /// `Full`, `Io`.
    pub fn drop_database(&self, name: &str) -> Result<()> {
        self.check_may_decide(name)?;
        let open = self.lock_whole(name)?;
        let indices = self.lock_whole_indices(&open)?;
        if let Some(of) = open.key_format().index_of {
            self.remove_from_list(&open, of)?;
        }
        // Nothing fails from here on: this call notes all drops or none, even for a program that continues after an
        // error.
        for one in indices.iter().chain([&open]) {
            self.decide(one, None);
        }
        Ok(())
    }

    /// Renames a database when the transaction commits. Older handles stay valid, under the new name.
    ///
    /// # Errors
    /// As [`Txn::drop_database`]; `Database` when the new name belongs to a database that the transaction does not drop
    /// or rename, or when databases would trade their names in a circle.
    pub fn rename_database(&self, name: &str, new: &str) -> Result<()> {
        self.check_may_decide(name)?;
        self.check_may_decide(new)?;
        libtp_record::check_name(new)?;
        let refuse = |what: &str| Error::Database { name: new.into(), what: format!("{what}; nothing was changed") };
        let open = self.lock_whole(name)?;
        if name == new {
            return Ok(());
        }
        self.lock_name(new)?;
        let is_free = self.decided().of_name(new).is_none()
            && (self.decided().frees(new) || self.guarded(|| self.is_missing(new))?);
        if !is_free {
            return Err(refuse("a database or a file has that name already; choose another name"));
        }
        let before = self.decided().clone();
        self.decide(&open, Some(new));
        // A database may get its own name back.
        self.decided().0.borrow_mut().retain(|one| one.fate.new_name.as_ref() != Some(&one.fate.name));
        if self.decided().is_circle() {
            self.decided().go_back(&before);
            return Err(refuse(
                "databases cannot exchange their names in one transaction; rename one of them in another transaction",
            ));
        }
        Ok(())
    }

    /// Removes all records of a database, and the entries of its indices; returns the number of records. No other
    /// transaction uses the database until this transaction ends. The transaction itself can use it at once, by any
    /// handle. Earlier snapshots still find the records. In a recno database, later records get numbers after those of
    /// the removed records.
    ///
    /// Each removal is logged with its value. To free the disk space at once, drop the database and create it again.
    ///
    /// # Errors
    /// `NoDatabase`; `Database` for an index and for a file of pages; else as [`Db::put`]. After an error nothing was
    /// removed.
    pub fn empty_database(&self, name: &str) -> Result<u64> {
        self.check_may_decide(name)?;
        let open = self.lock_whole(name)?;
        let refuse =
            |what: &str| Err(Error::Database { name: name.into(), what: format!("{what}; nothing was changed") });
        match open.method() {
            Method::Pages => {
                refuse("it is a file of pages, which cannot be emptied; drop it, or empty it with its program")
            }
            Method::Btree if open.key_format().index_of.is_some() => {
                refuse("it is an index; empty its database instead")
            }
            Method::Btree | Method::Hash => {
                let indices = self.lock_whole_indices(&open)?;
                let list = || crate::List::of_tree(Db::as_stored(self.environment(), &open));
                let count = open.key_format().is_list.then(|| list().count(self)).transpose()?;
                // A program that continues after an error must not commit records that an index does not find.
                self.savepoint_of_records().around(|| {
                    indices.iter().try_for_each(|index| self.remove_all(index).map(|_| ()))?;
                    let removed = self.remove_all(&open)?;
                    Ok(count.unwrap_or(removed))
                })
            }
            Method::Recno { .. } => self.savepoint_of_records().around(|| self.remove_numbers(&open)),
        }
    }

    /// Removes all records of a tree or a hash file, and leaves the entries of its indices. The whole database is
    /// locked.
    fn remove_all(&self, open: &Arc<OpenDatabase>) -> Result<u64> {
        let env = self.environment();
        let db = Db::as_stored(env, open);
        if open.method() == Method::Btree {
            self.note_emptied(open, &KeyRange::default());
            return self.guarded(|| Ok(opening::access(env, open, self).delete_range(KeyRange::default())?));
        }
        let mut removed = 0;
        // The cursor of a hash file does not allow removals while it moves.
        loop {
            let mut keys = Vec::new();
            let mut cursor = db.raw_cursor(self, KeyRange::default());
            while keys.len() < KEYS_AT_ONCE {
                let Some((key, _)) = cursor.next()? else { break };
                keys.push(key);
            }
            drop(cursor);
            if keys.is_empty() {
                return Ok(removed);
            }
            for key in keys {
                removed += u64::from(self.guarded(|| Ok(opening::access(env, open, self).delete(&key)?))?);
            }
        }
    }

    fn remove_numbers(&self, open: &Arc<OpenDatabase>) -> Result<u64> {
        let recno = Recno::as_stored(self.environment(), open);
        let (mut cursor, mut removed) = (recno.cursor(self), 0);
        while let Some((number, _)) = cursor.next()? {
            removed += u64::from(recno.delete(self, number)?);
        }
        Ok(removed)
    }

    fn check_may_decide(&self, name: &str) -> Result<()> {
        self.environment().check_process()?;
        let refuse =
            |what: &str| Err(Error::Database { name: name.into(), what: format!("{what}; nothing was changed") });
        if name == opening::PLAIN_FILES {
            return refuse("the library keeps its notes about plain files in this database; use another name");
        }
        match self.parts().is_empty() {
            true => Ok(()),
            false => refuse("the transaction has joined a segment of memory, and cannot also drop, rename or empty databases; do that in another transaction"),
        }
    }

    /// Returns the indices of a database, each opened and locked exclusively. The transaction has locked the database
    /// exclusively.
    fn lock_whole_indices(&self, open: &OpenDatabase) -> Result<Vec<Arc<OpenDatabase>>> {
        if !matches!(open.method(), Method::Btree | Method::Hash) {
            return Ok(Vec::new());
        }
        let files = self.guarded(|| Ok(opening::access(self.environment(), open, self).indices()?))?;
        files.into_iter().filter_map(|file| self.by_number(file, |name| self.lock_whole(name)).transpose()).collect()
    }

    /// Returns a database by its number; `None` if the database was dropped. If the transaction has decided about the
    /// database, returns the database that the decision names. Otherwise calls `open` with the name of the database.
    fn by_number(
        &self,
        file: FileId,
        open: impl Fn(&str) -> Result<Arc<OpenDatabase>>,
    ) -> Result<Option<Arc<OpenDatabase>>> {
        loop {
            if let Some(open) = self.decided().of_number(file) {
                return Ok(Some(open));
            }
            let Some(name) = self.entry(file)? else { return Ok(None) };
            let opened = open(&name);
            // Another transaction may have renamed the database before the lock was granted: the name may now belong to
            // another database or to no database.
            if self.entry(file)?.as_ref() == Some(&name) {
                return opened.map(Some);
            }
        }
    }

    /// Opens a database, and locks the database and its name exclusively. A database that the transaction has renamed
    /// is locked already.
    fn lock_whole(&self, name: &str) -> Result<Arc<OpenDatabase>> {
        if let Some(open) = self.decided().of_name(name) {
            return Ok(open);
        }
        let env = self.environment();
        let missing = || Error::NoDatabase { name: name.into(), environment: env.platform.path.clone() };
        loop {
            if self.decided().frees(name) {
                return Err(missing());
            }
            let open = match opening::known(env, name) {
                Some(open) => open,
                None => {
                    // The opening takes the lock of the name for a moment, so this transaction must not hold that lock.
                    // The transaction has decided nothing about the name.
                    self.unlock_name(name)?;
                    opening::open(env, name, None)?
                }
            };
            self.lock_name(name)?;
            self.guarded(|| Ok(opening::access(env, &open, self).lock_database(Mode::X)?))?;
            // Another transaction may have dropped or renamed the database before the lock was granted.
            if self.entry(open.id())?.as_deref() == Some(name) {
                return Ok(open);
            }
        }
    }

    fn unlock_name(&self, name: &str) -> Result<()> {
        self.guarded(|| {
            let (locks, txn) = (&self.generation().managers.locks, self.session());
            match locks.unlock(txn.session(), txn.locker(), lock_names::name(name)) {
                Ok(()) | Err(libtp_lock::Error::NotHeld { .. }) => Ok(()),
                Err(error) => Err(error.into()),
            }
        })
    }

    fn lock_name(&self, name: &str) -> Result<()> {
        self.guarded(|| {
            let (locks, txn) = (&self.generation().managers.locks, self.session());
            Ok(locks.lock(txn.session(), txn.locker(), lock_names::name(name), Mode::X, txn.wait())?)
        })
    }

    /// Returns the name of a database by its number, unless it was dropped.
    fn entry(&self, file: FileId) -> Result<Option<String>> {
        self.guarded(|| {
            let entry = self.generation().managers.buffers.registry().entry(file)?;
            Ok(entry.filter(|entry| !entry.is_dropped).map(|entry| entry.name))
        })
    }

    /// Returns whether both the database of that name and its file are missing.
    fn is_missing(&self, name: &str) -> Result<bool> {
        let directory = &self.environment().platform.directory;
        let is_known = self.generation().managers.buffers.registry().find(name)?.is_some();
        Ok(!is_known && !directory.exists(&libtp_buffer::file_name(name))?)
    }

    /// Removes an index from the list of its database, if it is listed.
    fn remove_from_list(&self, index: &OpenDatabase, of: FileId) -> Result<()> {
        let Some(of) = self.by_number(of, |name| opening::open(self.environment(), name, None))? else {
            return Ok(());
        };
        self.guarded(|| Ok(opening::access(self.environment(), &of, self).set_index(index.id(), false)?))
    }

    fn decide(&self, open: &Arc<OpenDatabase>, new_name: Option<&str>) {
        let page_bytes = u32::try_from(open.page_bytes()).expect("pages have at most 64 KiB");
        let name = self.entry(open.id()).ok().flatten().unwrap_or_else(|| open.name().into());
        let fate = Fate { id: open.id(), page_bytes, name, new_name: new_name.map(str::to_owned) };
        let mut decided = self.decided().0.borrow_mut();
        decided.retain(|known| known.fate.id != fate.id);
        decided.push(Decision { open: Arc::clone(open), fate });
    }
}

/// The number of keys of a hash file that are removed between two walks through it.
const KEYS_AT_ONCE: usize = 10_000;

fn kind_name(method: Method, key_format: &KeyFormat) -> &'static str {
    match method {
        Method::Btree if key_format.is_list => "list",
        Method::Btree if key_format.index_of.is_some() => "index",
        Method::Btree if key_format.duplicates != libtp_record::Duplicates::None => "multi",
        other => other.name(),
    }
}

impl Env {
    /// Returns the environment's databases, sorted by name, with kind and file size. Reads no records and waits for no
    /// lock.
    ///
    /// # Errors
    /// The register of databases, or a file, cannot be read.
    pub fn list_databases(&self) -> Result<Vec<ListedDatabase>> {
        opening::names(&self.0)?.into_iter().filter_map(|name| listed(&self.0, name).transpose()).collect()
    }

    /// Returns one of the environment's databases.
    ///
    /// # Errors
    /// `NoDatabase`; else as [`Env::list_databases`].
    pub fn list_database(&self, name: &str) -> Result<ListedDatabase> {
        self.0.check_process()?;
        let missing = || Error::NoDatabase { name: name.into(), environment: self.path().into() };
        let generation = self.0.newest();
        let is_known = generation.guarded(|| Ok(generation.managers.buffers.registry().find(name)?.is_some()))?;
        is_known.then(|| listed(&self.0, name.into())).transpose()?.flatten().ok_or_else(missing)
    }

    /// Drops a database that has no record, in a transaction of its own, which locks the database before it counts the
    /// records. Returns false, and drops nothing, if the database has records or is a file of pages.
    ///
    /// # Errors
    /// As [`Txn::drop_database`] and [`Env::count_records`].
    pub fn drop_if_empty(&self, name: &str) -> Result<bool> {
        self.run(|txn| {
            // A transaction that adds a record has the database locked: this call waits for that transaction's end.
            txn.lock_whole(name)?;
            let is_empty = self.count_records(name)? == Some(0);
            if is_empty {
                txn.drop_database(name)?;
            }
            Ok(is_empty)
        })
    }

    /// Returns the number of records of a database, as a snapshot taken at the call shows it. A tree or a hash file has
    /// a record for each key, or for each value if keys have several values; an index has a record for each entry. The
    /// call takes as long as reading all records. Returns `None` for a file of pages.
    ///
    /// # Errors
    /// `NoDatabase`; else as [`Db::get`] of a snapshot.
    pub fn count_records(&self, name: &str) -> Result<Option<u64>> {
        let open = opening::open(&self.0, name, None)?;
        let snapshot = self.snapshot()?;
        match open.method() {
            Method::Pages => Ok(None),
            Method::Btree if open.key_format().is_list => Ok(Some(crate::List::open(&self.0, name)?.count(&snapshot)?)),
            Method::Btree => {
                Ok(Some(crate::Reader::count(&snapshot, &Db::as_stored(&self.0, &open), KeyRange::default())?))
            }
            Method::Hash => {
                let db = Db::as_stored(&self.0, &open);
                let (mut cursor, mut count) = (db.raw_cursor(&snapshot, KeyRange::default()), 0);
                while cursor.next()?.is_some() {
                    count += 1;
                }
                Ok(Some(count))
            }
            Method::Recno { .. } => match Database::open(&self.0, name)? {
                Database::Recno(recno) => {
                    let (mut cursor, mut count) = (recno.cursor(&snapshot), 0);
                    while cursor.next()?.is_some() {
                        count += 1;
                    }
                    Ok(Some(count))
                }
                _ => Ok(None),
            },
        }
    }
}

/// Returns `None` if the database was dropped meanwhile.
fn listed(env: &Arc<Inner>, name: String) -> Result<Option<ListedDatabase>> {
    let directory = env.platform.directory.as_ref();
    let generation = env.newest();
    let (file, environment) =
        (libtp_buffer::file_name(&name), libtp_buffer::environment_of(&generation.managers.region));
    let found = libtp_record::find_file(directory, &name, &environment).and_then(|found| {
        let bytes = directory.open(&file, libtp_io::OpenMode::ReadOnly)?.len()?;
        Ok((Some(kind_name(found.method, &found.key_format)), None, bytes))
    });
    let (kind, fault, bytes) = match found {
        Ok(found) => found,
        // Dropped since the names were read, or not in its place.
        Err(
            error @ (libtp_record::Error::Io(libtp_io::Error::NotFound { .. } | libtp_io::Error::Unsuitable { .. })
            | libtp_record::Error::Corrupt { .. }
            | libtp_record::Error::Unsuitable { .. }),
        ) => {
            if !opening::names(env)?.contains(&name) {
                return Ok(None);
            }
            let is_missing = matches!(error, libtp_record::Error::Io(libtp_io::Error::NotFound { .. }));
            (None, (!is_missing).then(|| error.to_string()), 0)
        }
        Err(error) => return Err(error.into()),
    };
    Ok(Some(ListedDatabase { name, kind, fault, bytes }))
}

#[cfg(test)]
mod tests;

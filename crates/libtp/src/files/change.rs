//! Plain files in a transaction: created, replaced, renamed and removed together with records.
//!
//! Paper: LIBTP 1, whose first examples are the password file and source control. The method is the library's own
//! (docs/design/0020-plain-files.md): new contents are written immediately, to temporary files next to the files. For
//! each path, the transaction puts a row with its intention into a database of the environment. So one commit record
//! decides for records and files, and abort, savepoints and restart undo these rows like any others. After the commit
//! the files are put in their places (`files/finish.rs`).
//!
//! If we die here: before the commit is on disk, only temporary files are left, which a later sweep removes. After the
//! commit is on disk, the next process finishes the work from the rows.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use libtp_io::PlainStatus;
use rio::{failpoint, planted};

use crate::ground::mutex::lock;
use crate::region::inner::Inner;
use crate::region::plain_files::Door;
use crate::txn::run::run;
use crate::txn::transaction::{FileWork, PreparedFiles};
use crate::{Db, Durability, Error, Result, Txn};

use super::finish::{self, Intention, TOO_EARLY, UNSEEN};
use super::paths;
use super::paths::{beside, refused, split, Owner};
use super::row;
use super::row::{Identity, New, Row};
use super::rows::rows;

/// A transaction's work on plain files.
struct Work {
    door: Door,
    rows: Db,
    /// The state of each path when the transaction first touched it.
    seen: BTreeMap<String, Option<Identity>>,
    /// Mode, owner and group of each file when the transaction first touched it.
    rights: BTreeMap<String, [u32; 3]>,
    /// Files that the transaction made, removed if it does not commit.
    temporaries: Vec<String>,
    made: u64,
}

/// The state of a path, as the transaction sees it.
enum There {
    /// The transaction's own intention.
    Own(Row),
    /// The file on disk, if any.
    Disk(Option<PlainStatus>),
}

impl Txn<'_> {
    /// Creates a plain file, outside of the environment, when the transaction commits. Every program sees the file
    /// after the commit; no program sees it before.
    ///
    /// The contents are immediately written to a temporary file in the same directory, and synced. The commit of a
    /// transaction with files always returns only when it is on disk and the files are in their places. Each file is
    /// whole at every moment; another program that reads several files meanwhile may see some old files and some new
    /// files. [`Txn::read_file`] waits, and sees all new files or none.
    ///
    /// A relative path starts at the process's working directory. A path must contain no `..` and no symbolic link.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let place = dir.path().canonicalize()?;
    /// let env = libtp::Env::open_or_create(place.join("env"))?;
    /// let users = env.btree("users")?;
    /// let passwd = place.join("passwd");
    /// env.run(|txn| {
    ///     users.put(txn, b"margo", b"1001")?;
    ///     txn.create_file(&passwd, b"margo:x:1001:\n")
    /// })?;
    /// assert_eq!(std::fs::read(&passwd)?, b"margo:x:1001:\n");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// `File` when the path exists already, or cannot exist; `Deadlock`, `LockTimeout` when another transaction works
    /// on the path; `Full`, `Io`; `Length` when the path is too long for a key. After an error nothing is changed.
    pub fn create_file(&self, path: impl AsRef<Path>, contents: &[u8]) -> Result<()> {
        self.with_files(path.as_ref(), |work, path| match work.touch(self, path)? {
            There::Own(Row { new: None, .. }) | There::Disk(None) => work.write(self, path, contents, None),
            _ => Err(refused(
                path,
                "it exists already; nothing was changed. Use another path, or replace the file (`Txn::replace_file`)",
            )),
        })
    }

    /// Replaces the contents of a plain file when the transaction commits. The new contents are written as
    /// [`Txn::create_file`] writes them. The new file keeps the old file's mode, owner and group, but not its access
    /// lists, extended attributes and other hard links.
    ///
    /// # Errors
    /// `File` when the file is missing; else as [`Txn::create_file`].
    pub fn replace_file(&self, path: impl AsRef<Path>, contents: &[u8]) -> Result<()> {
        self.with_files(path.as_ref(), |work, path| {
            let old = match work.touch(self, path)? {
                There::Own(row) => match row.new {
                    Some(new) => work.door.file_at(&beside(path, &new.temporary))?,
                    None => None,
                },
                There::Disk(status) => status,
            };
            let old = old.ok_or_else(|| missing(path))?;
            work.write(self, path, contents, Some(&old))
        })
    }

    /// Renames a plain file when the transaction commits, and replaces a file that has the new name. Both names must be
    /// on one filesystem.
    ///
    /// # Errors
    /// `File` when the file is missing; `Io` when the other name is on another filesystem; else as
    /// [`Txn::create_file`].
    pub fn rename_file(&self, from: impl AsRef<Path>, to: impl AsRef<Path>) -> Result<()> {
        let to = paths::written(self.environment(), to.as_ref())?;
        self.with_files(from.as_ref(), |work, from| {
            let source = match work.touch(self, from)? {
                There::Own(row) => row.new.map(|new| beside(from, &new.temporary)),
                There::Disk(status) => status.map(|_| from.to_owned()),
            };
            let source = source.ok_or_else(|| missing(from))?;
            if from == to {
                return Ok(());
            }
            work.touch(self, &to)?;
            let temporary = work.make(self, &to, |door, path| Ok(door.plain.link(&source, path)?))?;
            work.put(self, &to, Some(temporary))?;
            work.put_removal(self, from)
        })
    }

    /// Removes a plain file when the transaction commits.
    ///
    /// # Errors
    /// `File` when the file is missing; else as [`Txn::create_file`].
    pub fn remove_file(&self, path: impl AsRef<Path>) -> Result<()> {
        self.with_files(path.as_ref(), |work, path| match work.touch(self, path)? {
            There::Own(Row { new: None, .. }) | There::Disk(None) => Err(missing(path)),
            _ => work.put_removal(self, path),
        })
    }

    /// Returns the contents of a plain file as this transaction sees it, with its own changes, or `None` if the file is
    /// missing. The transaction sees all changes of files that another transaction makes, or none of them. Locks the
    /// path for reading until the transaction ends.
    ///
    /// If the transaction then changes the file, and another program has changed the file since this read, the commit
    /// reports the other change and aborts.
    ///
    /// # Errors
    /// As [`Txn::create_file`].
    pub fn read_file(&self, path: impl AsRef<Path>) -> Result<Option<Vec<u8>>> {
        self.with_files(path.as_ref(), |work, path| work.read(self, path))
    }

    /// Works on a path. A failure leaves the transaction's files unchanged.
    fn with_files<T>(&self, path: &Path, work: impl FnOnce(&mut Work, &str) -> Result<T>) -> Result<T> {
        let env = self.environment();
        env.check_process()?;
        let path = paths::written(env, path)?;
        let begin = || {
            Ok(Work {
                door: Door::of(env)?,
                rows: rows(env)?,
                seen: BTreeMap::new(),
                rights: BTreeMap::new(),
                temporaries: Vec::new(),
                made: 0,
            })
        };
        self.files().with(begin, |own| work(own, &path))
    }
}

fn missing(path: &str) -> Error {
    refused(path, "there is no such file; nothing was changed. Check the path, or create the file (`Txn::create_file`)")
}

impl Work {
    fn is_own(&self, txn: &Txn<'_>, row: &Row) -> bool {
        row.tag == self.door.tag && row.txn == txn.id()
    }

    /// Locks a path for changing; returns its state.
    fn touch(&mut self, txn: &Txn<'_>, path: &str) -> Result<There> {
        let key = row::key(path);
        if let Some(value) = self.rows.get_for_update(txn, &key)? {
            let found = Row::decode(&key, &value)?;
            if self.is_own(txn, &found) {
                return Ok(There::Own(found));
            }
            // The row is committed, but its transaction may not have put the file in its place yet.
            finish::finish(txn.environment(), &[(path.to_owned(), found)], true)?;
        }
        let there = self.door.file_at(path)?;
        self.see(path, there.as_ref().map(Identity::from));
        if let (Some(there), false) = (&there, self.rights.contains_key(path)) {
            self.rights.insert(path.to_owned(), rights(there));
        }
        Ok(There::Disk(there))
    }

    fn see(&mut self, path: &str, there: Option<Identity>) {
        if !self.seen.contains_key(path) {
            self.seen.insert(path.to_owned(), there);
        }
    }

    fn read(&mut self, txn: &Txn<'_>, path: &str) -> Result<Option<Vec<u8>>> {
        let key = row::key(path);
        let found = self.rows.get(txn, &key)?.map(|value| Row::decode(&key, &value)).transpose()?;
        match found {
            Some(own) if self.is_own(txn, &own) => match own.new {
                Some(new) => self.contents(&beside(path, &new.temporary)),
                None => Ok(None),
            },
            // The row is committed, but the file may not be in its place yet: the session that puts the file in its
            // place does not wait for this transaction.
            Some(row) if row.tag == self.door.tag => {
                self.door.check_directory(path, &row)?;
                self.read_committed(path, row)
            }
            _ => self.read_disk(path),
        }
    }

    /// Returns the contents that a committed transaction gave a path, whether the file is in its place or not.
    fn read_committed(&mut self, path: &str, row: Row) -> Result<Option<Vec<u8>>> {
        match row.new {
            Some(new) => {
                let temporary = beside(path, &new.temporary);
                let is_waiting = self.door.plain.status(&temporary)?.is_some_and(|it| it.inode == new.identity.inode);
                if let (true, Some(contents)) = (is_waiting, self.contents(&temporary)?) {
                    self.see(path, Some(new.identity));
                    return Ok(Some(contents));
                }
                self.read_disk(path)
            }
            None => {
                let there = self.door.file_at(path)?.as_ref().map(Identity::from);
                // If the witness is missing, the removal was completed, and another program put the file back.
                if there == row.old && self.door.has_witness(path, &row)? {
                    self.see(path, None);
                    return Ok(None);
                }
                self.read_disk(path)
            }
        }
    }

    fn read_disk(&mut self, path: &str) -> Result<Option<Vec<u8>>> {
        // The identity is taken before the read, so that a change during the read counts as a later change.
        let there = self.door.file_at(path)?.as_ref().map(Identity::from);
        self.see(path, there);
        self.contents(path)
    }

    /// Returns the contents of a file, or `None` if it is missing.
    fn contents(&self, path: &str) -> Result<Option<Vec<u8>>> {
        let file = match self.door.plain.open(path) {
            Ok(file) => file,
            Err(libtp_io::Error::NotFound { .. }) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let bytes = usize::try_from(file.len()?).unwrap_or(usize::MAX);
        let mut contents = Vec::new();
        let refuse = |_| {
            refused(path, &format!("the file has {bytes} bytes, and memory has no room for them; nothing was changed. Read it without a transaction"))
        };
        contents.try_reserve_exact(bytes).map_err(refuse)?;
        contents.resize(bytes, 0);
        let mut read = 0;
        while read < bytes {
            match file.read_at(&mut contents[read..], read as u64)? {
                0 => break,
                more => read += more,
            }
        }
        contents.truncate(read);
        Ok(Some(contents))
    }

    fn write(&mut self, txn: &Txn<'_>, path: &str, contents: &[u8], like: Option<&PlainStatus>) -> Result<()> {
        let new = self.make(txn, path, |door, temporary| {
            let file = door.plain.create(temporary, like)?;
            let written = file.write_at(contents, 0).and_then(|()| {
                failpoint("files: written, not synced");
                match planted("libtp: a new plain file is not synced") {
                    true => Ok(()),
                    false => file.sync(),
                }
            });
            if written.is_err() {
                // Remove the file now, not at the transaction's end: the disk may be full.
                finish::remove_temporary(door, temporary);
            }
            Ok(written?)
        })?;
        self.put(txn, path, Some(new))
    }

    /// Makes the temporary file that is to replace the file at a path.
    fn make(&mut self, txn: &Txn<'_>, path: &str, make: impl Fn(&Door, &str) -> Result<()>) -> Result<New> {
        self.note_directory(txn, split(path).0)?;
        let owner = Owner { incarnation: txn.generation().managers.log.incarnation(), txn: txn.id() };
        loop {
            self.made += 1;
            let temporary = self.door.temporary(owner, self.made);
            let whole = beside(path, &temporary);
            match make(&self.door, &whole) {
                Ok(()) => {}
                Err(Error::Io(error)) if is_there_already(&*error) => continue,
                Err(error) => return Err(error),
            }
            self.temporaries.push(whole.clone());
            failpoint("files: made, without a row");
            let made = self.door.file_at(&whole)?.ok_or_else(|| refused(path, GONE))?;
            return Ok(New { identity: Identity::from(&made), temporary });
        }
    }

    /// Notes a directory, so that temporary files in it are found after a death.
    fn note_directory(&self, txn: &Txn<'_>, directory: &str) -> Result<()> {
        let env = txn.environment();
        if lock(&env.files.noted).contains(directory) {
            return Ok(());
        }
        let (key, value) = (row::directory_key(directory), row::encode_directory(self.door.tag));
        run(env, Durability::Sync, |noting| match self.rows.get(noting, &key)? {
            Some(found) if found == value => Ok(()),
            _ => self.rows.put(noting, &key, &value),
        })?;
        failpoint("files: directory noted");
        lock(&env.files.noted).insert(directory.to_owned());
        Ok(())
    }

    /// Notes that a path is to be removed. The file gets another name, its witness, which is removed once the removal
    /// is on disk: so no session removes the file twice. Without a witness (missing rights, a full disk, a filesystem
    /// without links) the file is removed all the same.
    fn put_removal(&mut self, txn: &Txn<'_>, path: &str) -> Result<()> {
        if self.seen.get(path).copied().flatten().is_none() {
            // The path had no file when the transaction began. So there is nothing to remove but the row: the row of a
            // file that this transaction created, or a row left by an earlier transaction.
            return self.rows.delete(txn, &row::key(path)).map(|_| ());
        }
        let witness = self.make(txn, path, |door, name| Ok(door.plain.link(path, name)?));
        self.put_row(txn, path, None, witness.ok().map(|made| made.temporary))
    }

    /// Notes the file that is to be at a path.
    fn put(&self, txn: &Txn<'_>, path: &str, new: Option<New>) -> Result<()> {
        self.put_row(txn, path, new, None)
    }

    fn put_row(&self, txn: &Txn<'_>, path: &str, new: Option<New>, witness: Option<String>) -> Result<()> {
        let old = self.seen.get(path).copied().flatten();
        let directory = Some(self.door.plain.number_of(split(path).0)?);
        let row = Row { tag: self.door.tag, txn: txn.id(), directory, old, new, witness };
        self.rows.put(txn, &row::key(path), &row.encode())
    }

    /// Returns the intentions to commit, after checking that the files on disk are unchanged.
    fn check(&self, txn: &Txn<'_>) -> Result<Vec<Intention>> {
        let (mut found, mut directories) = (Vec::new(), BTreeSet::new());
        for (path, seen) in &self.seen {
            let key = row::key(path);
            let Some(value) = self.rows.get(txn, &key)? else { continue };
            let row = Row::decode(&key, &value)?;
            if !self.is_own(txn, &row) {
                continue;
            }
            let there = self.door.file_at(path)?;
            if there.as_ref().map(Identity::from) != *seen && !planted(UNSEEN) {
                return Err(refused(
                    path,
                    "another program has changed it since this transaction first looked at it; nothing was changed, and the transaction was aborted. Run it again, with the file as it is now",
                ));
            }
            self.door.plain.check_removable(path)?;
            if let Some(new) = &row.new {
                // The new file has the old file's rights.
                if self.rights.get(path).is_some_and(|seen| there.as_ref().map(rights) != Some(*seen)) {
                    return Err(refused(
                        path,
                        "another program has changed its mode, owner or group since this transaction first looked at it; nothing \
                         was changed, and the transaction was aborted. Run it again",
                    ));
                }
                let temporary = self.door.plain.status(&beside(path, &new.temporary))?;
                if temporary.is_none_or(|it| it.inode != new.identity.inode) {
                    return Err(refused(path, GONE));
                }
            }
            if !self.door.has_witness(path, &row)? {
                return Err(refused(path, GONE));
            }
            // A directory is synced even if the transaction only renames files in it: so an error of the sync is
            // reported before the commit.
            directories.insert(split(path).0.to_owned());
            found.push((path.clone(), row));
        }
        failpoint("files: checked, directories not synced");
        if !planted("libtp: directories of new plain files are not synced") {
            directories.iter().try_for_each(|directory| self.door.plain.sync(directory))?;
        }
        Ok(found)
    }
}

fn rights(file: &PlainStatus) -> [u32; 3] {
    [file.mode, file.owner, file.group]
}

/// The error text for a temporary file that is gone.
const GONE: &str = "another program removed the new file (its temporary name begins with `.libtp-`); nothing was changed, and the transaction was aborted. Run it again";

fn is_there_already(error: &(dyn std::error::Error + 'static)) -> bool {
    matches!(error.downcast_ref::<libtp_io::Error>(), Some(libtp_io::Error::Exists { .. }))
}

impl FileWork for Work {
    fn prepare(&self, txn: &Txn<'_>) -> Result<Box<dyn PreparedFiles>> {
        let rows = self.check(txn)?;
        let kept: BTreeSet<String> = rows.iter().filter_map(|(path, row)| Some(beside(path, row.beside()?))).collect();
        let needless = self.temporaries.iter().filter(|path| !kept.contains(*path)).cloned().collect();
        failpoint("files: prepared, not committed");
        Ok(Box::new(Group { door: self.door.clone(), rows, needless }))
    }

    fn discard(&self) {
        for path in &self.temporaries {
            finish::remove_temporary(&self.door, path);
        }
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}

/// The files of a transaction that is about to commit.
struct Group {
    door: Door,
    rows: Vec<Intention>,
    needless: Vec<String>,
}

impl PreparedFiles for Group {
    fn durability(&self, asked: Durability) -> Durability {
        match self.rows.is_empty() || planted(TOO_EARLY) {
            true => asked,
            false => Durability::Sync,
        }
    }

    fn finish(self: Box<Self>, env: &Arc<Inner>) -> Result<()> {
        failpoint("files: committed, no file in its place");
        self.needless.iter().for_each(|path| finish::remove_temporary(&self.door, path));
        if self.rows.is_empty() {
            return Ok(());
        }
        finish::finish(env, &self.rows, false).map_err(|error| Error::FilesWaiting { cause: error.to_string() })
    }
}

#[cfg(test)]
mod tests;

//! Puts the files of committed transactions in their places, and removes what dead processes left.
//!
//! This work is done under one lock of the environment: by the committing session, by a session that finds the row of
//! another transaction, by a session that has repaired dead sessions, or by a process that opens the environment. The
//! holder of the lock waits for no other lock, so it cannot deadlock.
//!
//! If we die here: each step can be repeated. If a temporary file is missing, it has its final name already. A removal
//! removes only the file that the transaction saw, and only while the file's second name, its witness, exists; the
//! witness is removed when the removal is on disk. So a row that stays too long does no harm.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::atomic::Ordering;
use std::sync::Arc;

use libtp_io::PlainKind;
use libtp_lock::{LockName, Mode, Wait};
use libtp_record::lock_names::KIND_PLAIN_FILES;
use libtp_record::Access;
use rio::{failpoint, planted};

use super::paths::{beside, refused, split, Owner};
use super::row::{self, Identity, Named, New, Row};
use super::rows;
use crate::region::inner::Inner;
use crate::region::plain_files::Door;
use crate::txn::run::run;
use crate::txn::snapshot::Snapshot;
use crate::{Db, Durability, Error, Result, Txn};

/// The lock held while files are put in their places, or swept.
const FINISHING: LockName = LockName { space: 0, kind: KIND_PLAIN_FILES, hash: 0 };

/// A planted bug: files are put in their places before the commit is on disk.
pub(super) const TOO_EARLY: &str = "libtp: plain files are put in place before the commit is durable";
/// A planted bug: the check whether another program changed a file is missing.
pub(super) const UNSEEN: &str = "libtp: a plain file that another program changed is overwritten";

/// A path, and a committed transaction's change of it.
pub(super) type Intention = (String, Row);

/// Puts the committed files of `rows` in their places; if `all` is true, also all other committed files that are found.
///
/// # Errors
/// The error that kept the file of one of `rows` from its place; if `rows` is empty, the error that kept any file from
/// its place. All other files are in their places; a later call tries the failed files again.
pub(super) fn finish(env: &Arc<Inner>, rows: &[Intention], all: bool) -> Result<()> {
    let (door, db) = (Door::of(env)?, rows::rows(env)?);
    let failed = run(env, Durability::Relaxed, |txn| {
        lock(txn)?;
        failpoint("files: about to be put in place");
        // A transaction releases its locks before its commit is on disk, so a row may belong to a commit that could be
        // lost. Other programs must not see such a commit, nor a commit before it can be acknowledged. So force the log
        // first.
        let force = || txn.guarded(|| Ok(txn.generation().managers.log.force_all(txn.session().session())?));
        if all || !planted(TOO_EARLY) {
            force()?;
        }
        let snapshot = Snapshot::begin(env)?;
        if !planted(TOO_EARLY) {
            // The snapshot also shows commits that were made after the log was forced.
            snapshot.durable()?;
        }
        let mut found = if all { committed(&snapshot, &db)? } else { Vec::new() };
        for intention in rows {
            // The commit may be old: another session may have put the file in its place since, and a later transaction
            // may have changed the path again.
            if !is_still(&snapshot, &db, intention)? && !planted(TOO_EARLY) {
                continue;
            }
            // Keep the order of the paths.
            match found.binary_search_by(|one| one.0.cmp(&intention.0)) {
                Ok(at) => found[at] = intention.clone(),
                Err(at) => found.insert(at, intention.clone()),
            }
        }
        drop(snapshot);
        Finisher { txn, door: &door, db: &db }.put_in_place(&found)
    })?;
    // A transaction that touches a waiting file gets that file's error. A removal waits until all other files of its
    // transaction are in their places, so it gets their errors, too.
    let concerns =
        |failed: &Failed, (path, row): &Intention| failed.path == *path || row.new.is_none() && failed.txn == row.txn;
    let is_asked = |failed: &Failed| rows.is_empty() || rows.iter().any(|row| concerns(failed, row));
    match failed.into_iter().find(is_asked) {
        Some(failed) => Err(failed.error),
        None => Ok(()),
    }
}

/// The error that kept a transaction's file from its place.
struct Failed {
    path: String,
    txn: u64,
    error: Error,
}

/// Returns the committed changes that are not known to be in place.
pub(super) fn waiting(env: &Arc<Inner>) -> Result<Vec<Intention>> {
    let (door, db) = (Door::of(env)?, rows::rows(env)?);
    let mut found = committed(&Snapshot::begin(env)?, &db)?;
    found.retain(|(_, row)| row.tag == door.tag);
    Ok(found)
}

/// Gives up the change of a path, if the file cannot be put in its place; returns whether it did.
///
/// If the change was to rename a file to this path, the file keeps its old name: the removal of the old name is given
/// up, too, because the file's link in the directory of the new name may be gone with that directory.
///
/// # Errors
/// `LockTimeout` while a transaction works on the file; else as [`finish`].
pub(super) fn give_up(env: &Arc<Inner>, path: &str) -> Result<bool> {
    let (door, db) = (Door::of(env)?, rows::rows(env)?);
    run(env, Durability::Sync, |txn| {
        lock(txn)?;
        txn.guarded(|| Ok(txn.generation().managers.log.force_all(txn.session().session())?))?;
        let found = committed(&Snapshot::begin(env)?, &db)?;
        let Some(given_up) = found.iter().find(|(at, row)| at == path && row.tag == door.tag) else { return Ok(false) };
        let finisher = Finisher { txn, door: &door, db: &db };
        if !finisher.is_kept_from_its_place(given_up)? {
            return Ok(false);
        }
        let moved_from = |(_, row): &&Intention| {
            let is_of_it = row.tag == door.tag && row.txn == given_up.1.txn && row.new.is_none();
            let moved = given_up.1.new.as_ref().map(|new| new.identity.inode);
            is_of_it && moved.is_some() && row.old.map(|old| old.inode) == moved
        };
        for (path, row) in found.iter().filter(|one| one.0 == path).chain(found.iter().filter(moved_from)) {
            finisher.delete(path, row)?;
        }
        Ok(true)
    })
}

fn lock(txn: &Txn<'_>) -> Result<()> {
    txn.guarded(|| {
        let (locks, session) = (&txn.generation().managers.locks, txn.session());
        Ok(locks.lock(session.session(), session.locker(), FINISHING, Mode::X, session.wait())?)
    })
}

/// Returns whether the intention is still the committed change of the path, and is not known to be in place.
fn is_still(snapshot: &Snapshot<'_>, db: &Db, (path, row): &Intention) -> Result<bool> {
    Ok(db.get(snapshot, &row::key(path))?.is_some_and(|value| value == row.encode()))
}

/// Returns the committed changes that are not known to be in place, in the order of the paths.
fn committed(snapshot: &Snapshot<'_>, db: &Db) -> Result<Vec<Intention>> {
    let mut cursor = db.prefix(snapshot, &row::key(""))?;
    let mut found = Vec::new();
    while let Some((key, value)) = cursor.next()? {
        match (row::named(&key), Row::decode(&key, &value)) {
            (Ok(Named::File(path)), Ok(row)) => found.push((path, row)),
            (Err(error), _) | (_, Err(error)) => tracing::warn!(%error, "a row of plain files is left alone"),
            (Ok(Named::Directory(_)), Ok(_)) => {}
        }
    }
    Ok(found)
}

struct Finisher<'a, 'e> {
    txn: &'a Txn<'e>,
    door: &'a Door,
    db: &'a Db,
}

impl Finisher<'_, '_> {
    /// Puts the files in place; returns the failures.
    fn put_in_place(&self, found: &[Intention]) -> Result<Vec<Failed>> {
        // A renamed file must be at its new place, on disk, before its old name is removed.
        let (put, removed): (Vec<_>, Vec<_>) = found.iter().partition(|(_, row)| row.new.is_some());
        let mut failed = self.put_all(&put)?;
        let is_whole = |(_, row): &&&Intention| failed.iter().all(|one| one.txn != row.txn);
        let removed: Vec<_> = removed.iter().filter(is_whole).copied().collect();
        if !removed.is_empty() {
            failed.extend(self.put_all(&removed)?);
        }
        Ok(failed)
    }

    fn put_all(&self, found: &[&Intention]) -> Result<Vec<Failed>> {
        let (mut failed, mut done, mut directories) = (Vec::new(), Vec::new(), BTreeSet::new());
        for &intention in found {
            let (path, row) = intention;
            if row.tag != self.door.tag
                && !planted("libtp: a copied environment puts plain files of the original in place")
            {
                tracing::warn!(path, "a transaction over this plain file was committed in the environment of which this is a copy; the file is left as it is");
                done.push(intention);
                continue;
            }
            match self.txn.guarded(|| self.put_one(path, row)) {
                Ok(()) => {
                    directories.insert(split(path).0);
                    done.push(intention);
                    failpoint("files: a file in its place");
                }
                Err(ended @ (Error::Rebuilt | Error::Panicked { .. })) => return Err(ended),
                Err(error) => failed.push(Failed { path: path.clone(), txn: row.txn, error }),
            }
        }
        failpoint("files: in place, directories not synced");
        let is_synced_late = planted("libtp: rows of plain files are deleted before the directory sync");
        let mut unsynced = BTreeMap::new();
        for directory in directories {
            if is_synced_late {
                break;
            }
            let Err(error) = self.door.plain.sync(directory) else { continue };
            if error.is_failed_sync() {
                // After a failed sync the state of the disk is unknown, and a second sync may succeed without writing
                // anything.
                self.txn.generation().managers.log.poison();
            }
            unsynced.insert(directory, error.to_string());
        }
        failpoint("files: in place, witnesses present");
        // For the rows of a copied environment nothing was removed: the witness belongs to the original.
        for (path, row) in done.iter().filter(|(_, row)| row.tag == self.door.tag) {
            if let (Some(witness), None) = (&row.witness, unsynced.get(split(path).0)) {
                self.leave_if_broken();
                remove_temporary(self.door, &beside(path, witness));
            }
        }
        failpoint("files: in place, rows not deleted");
        for (path, row) in done {
            match unsynced.get(split(path).0) {
                Some(error) => failed.push(Failed { path: path.clone(), txn: row.txn, error: refused(path, error) }),
                None => self.forget(path, row)?,
            }
        }
        failpoint("files: rows deleted, not committed");
        Ok(failed)
    }

    /// Tries a change once more; returns whether it fails. For a removal, only checks the directory, because the
    /// removal may wait for other files of its transaction.
    fn is_kept_from_its_place(&self, (path, row): &Intention) -> Result<bool> {
        let tried = self.txn.guarded(|| match &row.new {
            Some(_) => self.put_one(path, row),
            None => self.door.check_directory(path, row),
        });
        match tried {
            Err(ended @ (Error::Rebuilt | Error::Panicked { .. })) => Err(ended),
            tried => Ok(tried.is_err()),
        }
    }

    fn put_one(&self, path: &str, row: &Row) -> Result<()> {
        // If the directory is missing, the checks below would wrongly find that the change is done.
        self.door.check_directory(path, row)?;
        match &row.new {
            Some(new) => self.put_new(path, row, new),
            None => self.remove(path, row),
        }
    }

    /// Unwinds if the region was given up, because another session may then do this work. Called before each change of
    /// a name.
    fn leave_if_broken(&self) {
        self.txn.session().session().leave_if_broken();
    }

    fn put_new(&self, path: &str, row: &Row, new: &New) -> Result<()> {
        let plain = &self.door.plain;
        let temporary = beside(path, &new.temporary);
        if plain.status(&temporary)?.is_none_or(|found| found.inode != new.identity.inode) {
            // The file has its final name already, unless its disk was unmounted.
            return self.door.check_directory(path, row);
        }
        match plain.status(path)? {
            Some(there) if there.inode == new.identity.inode => {
                // Both names belong to one file: a rename(2) would leave both names.
                self.leave_if_broken();
                return Ok(plain.remove(&temporary)?);
            }
            Some(there) if there.kind == PlainKind::Directory => {
                return Err(refused(path, "another program has made a directory in its place. The change is kept; move the directory away, and the library puts the file in its place"));
            }
            Some(there) if row.old != Some(Identity::from(&there)) && !planted(UNSEEN) => self.keep(path, row.txn)?,
            _ => {}
        }
        self.leave_if_broken();
        match plain.rename(&temporary, split(path).1) {
            // A session of an earlier generation has renamed the file.
            Err(libtp_io::Error::NotFound { .. }) => Ok(()),
            renamed => Ok(renamed?),
        }
    }

    /// Renames a file that another program put at the path after the commit's check.
    fn keep(&self, path: &str, txn: u64) -> Result<()> {
        let name = split(path).1;
        for number in 1_u64.. {
            let kept = beside(path, &format!("{name}.kept-{txn}-{number}"));
            self.leave_if_broken();
            match self.door.plain.link(path, &kept) {
                Err(libtp_io::Error::Exists { .. }) => {}
                Err(libtp_io::Error::NotFound { .. }) => break,
                linked => {
                    linked?;
                    tracing::warn!(path, kept, "another program has changed a plain file while a transaction that replaces it committed; the program's file is kept under another name");
                    break;
                }
            }
        }
        Ok(())
    }

    fn remove(&self, path: &str, row: &Row) -> Result<()> {
        if !self.door.has_witness(path, row)?
            && !planted("libtp: a plain file that another program put back is removed")
        {
            // The file is removed already. Another program made the file that is there now, unless a disk was
            // unmounted.
            return self.door.check_directory(path, row);
        }
        match self.door.plain.status(path)? {
            Some(there) if row.old == Some(Identity::from(&there)) => {
                self.leave_if_broken();
                match self.door.plain.remove(path) {
                    Err(libtp_io::Error::NotFound { .. }) => Ok(()),
                    removed => Ok(removed?),
                }
            }
            Some(_) => {
                tracing::warn!(
                    path,
                    "another program has replaced a plain file that a transaction removes; the program's file stays"
                );
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Deletes a finished row. If another transaction has it locked, background work tries again.
    fn forget(&self, path: &str, row: &Row) -> Result<()> {
        match self.delete(path, row) {
            Err(Error::LockTimeout(_)) => {
                self.txn.environment().files.is_left.store(true, Ordering::Relaxed);
                Ok(())
            }
            forgotten => forgotten,
        }
    }

    /// Deletes the row of `path` if it is equal to `row`. Waits for no lock.
    fn delete(&self, path: &str, row: &Row) -> Result<()> {
        let key = row::key(path);
        let managers = &self.txn.generation().managers;
        let access = Access::new(managers, self.txn.session(), self.db.opened(), Wait::No);
        self.txn.guarded(|| {
            if access.get_for_update(&key, |value| value == row.encode())? == Some(true) {
                access.delete(&key)?;
            }
            Ok(())
        })
    }
}

/// Removes the temporary files of transactions that have ended.
pub(super) fn sweep(env: &Arc<Inner>) -> Result<()> {
    let (door, db) = (Door::of(env)?, rows::rows(env)?);
    run(env, Durability::Relaxed, |txn| {
        lock(txn)?;
        // The files are listed first, and then the running transactions and the committed rows. So no needed file is
        // removed: a transaction that begins after the listing of the files has no file on the list. A transaction that
        // ran during that listing is still running, or has aborted, or has committed, and then its rows name its files.
        let mut left = Vec::new();
        for directory in directories(env, &db, door.tag)? {
            match door.plain.list(&directory) {
                Ok(names) => left.extend(names.into_iter().filter_map(|name| {
                    let owner = door.owner(&name)?;
                    Some((beside(&format!("{}/x", directory.trim_end_matches('/')), &name), owner))
                })),
                Err(error) => tracing::debug!(%error, "a directory cannot be searched for temporary files"),
            }
        }
        failpoint("files: listed, nothing swept");
        let managers = &txn.generation().managers;
        let incarnation = managers.log.incarnation();
        let running: HashSet<Owner> = txn.guarded(|| {
            let others = managers.transactions().into_iter().filter(|other| other.id.raw() != txn.id());
            let running = others.map(|other| Owner { incarnation, txn: other.id.raw() }).collect();
            managers.log.force_all(txn.session().session())?;
            Ok(running)
        })?;
        let needed: HashSet<String> = committed(&Snapshot::begin(env)?, &db)?
            .into_iter()
            .filter_map(|(path, row)| row.beside().map(|name| beside(&path, name)))
            .collect();
        for (path, owner) in left {
            let is_running =
                running.contains(&owner) && !planted("libtp: temporary files of running transactions are swept");
            if !is_running && !needed.contains(&path) {
                remove_temporary(&door, &path);
                failpoint("files: a file swept");
            }
        }
        Ok(())
    })
}

fn directories(env: &Arc<Inner>, db: &Db, tag: u64) -> Result<Vec<String>> {
    let snapshot = Snapshot::begin(env)?;
    let mut cursor = db.prefix(&snapshot, &row::directory_key(""))?;
    let mut found = Vec::new();
    while let Some((key, value)) = cursor.next()? {
        match (row::named(&key), row::decode_directory(&key, &value)) {
            (Ok(Named::Directory(path)), Ok(of)) if of == tag => found.push(path),
            (Err(error), _) | (_, Err(error)) => tracing::warn!(%error, "a row of plain files is left alone"),
            _ => {}
        }
    }
    Ok(found)
}

/// Removes an unneeded temporary file.
pub(super) fn remove_temporary(door: &Door, path: &str) {
    match door.plain.remove(path) {
        Ok(()) | Err(libtp_io::Error::NotFound { .. }) => {}
        Err(error) => tracing::warn!(%error, "a temporary file stays until the environment is opened again"),
    }
}

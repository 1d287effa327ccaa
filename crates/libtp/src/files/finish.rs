//! Putting the files of committed transactions in their places, and removing what the dead have left.
//!
//! Whoever does it has one lock of the environment: the committer; who finds a row that is another's; who repaired the dead; who
//! opens. It waits for no other lock while it has that one, so nobody waits in a circle for it.
//!
//! If we die here: each step can be done again. A temporary file that is gone has its name already; of what is removed only the
//! very file goes that the transaction saw, and only while the other name that it was given, its witness, is there: that goes when the
//! removal is on the disk. A row that stays longer than it must does no harm, for the same reason.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::atomic::Ordering;
use std::sync::Arc;

use libtp_io::PlainKind;
use libtp_lock::{LockName, Mode, Wait};
use libtp_record::lock_names::KIND_PLAIN_FILES;
use libtp_record::Access;
use rio::{failpoint, planted};

use super::paths::{beside, refused, split, Door, Owner};
use super::row::{self, Identity, Named, New, Row};
use crate::environment::Inner;
use crate::run::run;
use crate::snapshot::Snapshot;
use crate::{Db, Durability, Error, Result, Txn};

/// Held by who puts files in their places, or sweeps.
const FINISHING: LockName = LockName { space: 0, kind: KIND_PLAIN_FILES, hash: 0 };

/// A planted bug: files go to their places while the commit is not yet on the disk.
pub(super) const TOO_EARLY: &str = "libtp: plain files are in their places before the commit is on disk";
/// A planted bug: nobody looks whether another program has changed a file.
pub(super) const UNSEEN: &str = "libtp: a plain file that another program changed is replaced";

/// A path, and what a committed transaction makes of it.
pub(super) type Intention = (String, Row);

/// Puts committed files in their places: these, and all others that are found, if `all`.
///
/// # Errors
/// What kept one of these from its place, or any file if these are none; the others are in theirs, and it is tried again by the
/// next to come by.
pub(super) fn finish(env: &Arc<Inner>, rows: &[Intention], all: bool) -> Result<()> {
    let (door, db) = (Door::of(env)?, super::rows(env)?);
    let failed = run(env, Durability::Relaxed, |txn| {
        lock(txn)?;
        failpoint("files: about to be put in place");
        // Locks fall before a commit is on the disk, and other programs are to see nothing that may be lost. Nor is a commit shown
        // before, which nobody was told of.
        let force = || txn.guarded(|| Ok(txn.life().managers.log.force_all(txn.session().session())?));
        if all || !planted(TOO_EARLY) {
            force()?;
        }
        let snapshot = Snapshot::begin(env)?;
        if !planted(TOO_EARLY) {
            // It shows what was committed since, too.
            snapshot.durable()?;
        }
        let mut found = if all { committed(&snapshot, &db)? } else { Vec::new() };
        for intention in rows {
            // Long after its commit, perhaps: others may have put it in its place, and a later transaction have undone that.
            if !is_still(&snapshot, &db, intention)? && !planted(TOO_EARLY) {
                continue;
            }
            // In the order of the paths.
            match found.binary_search_by(|one| one.0.cmp(&intention.0)) {
                Ok(at) => found[at] = intention.clone(),
                Err(at) => found.insert(at, intention.clone()),
            }
        }
        drop(snapshot);
        Finisher { txn, door: &door, db: &db }.put_in_place(&found)
    })?;
    // What of others waits is told to who touches it; a removal waits for all of its transaction.
    let concerns =
        |failed: &Failed, (path, row): &Intention| failed.path == *path || row.new.is_none() && failed.txn == row.txn;
    let is_asked = |failed: &Failed| rows.is_empty() || rows.iter().any(|row| concerns(failed, row));
    match failed.into_iter().find(is_asked) {
        Some(failed) => Err(failed.error),
        None => Ok(()),
    }
}

/// What kept a transaction's file from its place.
struct Failed {
    path: String,
    txn: u64,
    error: Error,
}

/// What is committed and not known to be in its place.
pub(super) fn waiting(env: &Arc<Inner>) -> Result<Vec<Intention>> {
    let (door, db) = (Door::of(env)?, super::rows(env)?);
    let mut found = committed(&Snapshot::begin(env)?, &db)?;
    found.retain(|(_, row)| row.tag == door.tag);
    Ok(found)
}

/// Gives up what is to become of a path, if something keeps it from its place; whether it did.
///
/// A file that was to be renamed there keeps its old name: what was linked beside the new one may be gone with its directory.
///
/// # Errors
/// `LockTimeout` while a transaction is at the file; as [`finish`].
pub(super) fn give_up(env: &Arc<Inner>, path: &str) -> Result<bool> {
    let (door, db) = (Door::of(env)?, super::rows(env)?);
    run(env, Durability::Sync, |txn| {
        lock(txn)?;
        txn.guarded(|| Ok(txn.life().managers.log.force_all(txn.session().session())?))?;
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
        let (locks, session) = (&txn.life().managers.locks, txn.session());
        Ok(locks.lock(session.session(), session.locker(), FINISHING, Mode::X, session.wait())?)
    })
}

/// Whether that is what is committed for the path, and not known to be in its place.
fn is_still(snapshot: &Snapshot<'_>, db: &Db, (path, row): &Intention) -> Result<bool> {
    Ok(db.get(snapshot, &row::key(path))?.is_some_and(|value| value == row.encode()))
}

/// What is committed and not known to be in its place, in the order of the paths.
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
    /// What failed; the rest is done.
    fn put_in_place(&self, found: &[Intention]) -> Result<Vec<Failed>> {
        // What is moved is at its new place, on the disk, before it is gone from the old one.
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
            if row.tag != self.door.tag && !planted("libtp: a copy puts files of its original in place") {
                tracing::warn!(path, "a transaction over this plain file was committed in the environment of which this is a copy; the file is left as it is");
                done.push(intention);
                continue;
            }
            match self.txn.guarded(|| self.put_one(path, row)) {
                Ok(()) => {
                    directories.insert(split(path).0);
                    done.push(intention);
                    failpoint("files: one in its place");
                }
                Err(ended @ (Error::Rebuilt | Error::Panicked { .. })) => return Err(ended),
                Err(error) => failed.push(Failed { path: path.clone(), txn: row.txn, error }),
            }
        }
        failpoint("files: in place, directories not synced");
        let is_synced_late = planted("libtp: rows of plain files go before their directories are synced");
        let mut unsynced = BTreeMap::new();
        for directory in directories {
            if is_synced_late {
                break;
            }
            let Err(error) = self.door.plain.sync(directory) else { continue };
            if matches!(error, libtp_io::Error::Io { .. } | libtp_io::Error::Full { .. }) {
                // Nobody can tell any more what of it is on the disk, and a second sync may say yes to nothing.
                self.txn.life().managers.log.poison();
            }
            unsynced.insert(directory, error.to_string());
        }
        failpoint("files: in place, witnesses there");
        // Of a copy's rows nothing was removed: the witness is the original's.
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

    /// Tries it once more. A removal is only looked at: it may wait for the rest of its transaction.
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
        // What is not there would count as done.
        self.door.check_directory(path, row)?;
        match &row.new {
            Some(new) => self.put_new(path, row, new),
            None => self.remove(path, row),
        }
    }

    /// Before each change of a name: the memory may have been given up, and somebody else be at it.
    fn leave_if_broken(&self) {
        self.txn.session().session().leave_if_broken();
    }

    fn put_new(&self, path: &str, row: &Row, new: &New) -> Result<()> {
        let plain = &self.door.plain;
        let temporary = beside(path, &new.temporary);
        if plain.status(&temporary)?.is_none_or(|found| found.inode != new.identity.inode) {
            // It has its name, unless a disk has gone since.
            return self.door.check_directory(path, row);
        }
        match plain.status(path)? {
            Some(there) if there.inode == new.identity.inode => {
                // Two names of one file, which a rename would leave both.
                self.leave_if_broken();
                return Ok(plain.remove(&temporary)?);
            }
            Some(there) if there.kind == PlainKind::Directory => {
                return Err(refused(path, "another program has made a directory there"));
            }
            Some(there) if row.old != Some(Identity::from(&there)) && !planted(UNSEEN) => self.keep(path, row.txn)?,
            _ => {}
        }
        self.leave_if_broken();
        match plain.rename(&temporary, split(path).1) {
            // Somebody of a life that is over was at it.
            Err(libtp_io::Error::NotFound { .. }) => Ok(()),
            renamed => Ok(renamed?),
        }
    }

    /// Gives what another program put there, after the commit looked, another name.
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
                    tracing::warn!(path, kept, "another program has changed a plain file just when a transaction was committed that replaces it; what it wrote is kept under another name");
                    break;
                }
            }
        }
        Ok(())
    }

    fn remove(&self, path: &str, row: &Row) -> Result<()> {
        if !self.door.has_witness(path, row)?
            && !planted("libtp: a plain file is removed again that another program put back")
        {
            // Removed already: what is there another program has put back, unless a disk has gone since.
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
                    "a plain file that a transaction removes is another by now: what another program put there stays"
                );
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Deletes a row that is done, unless somebody is at it: then whoever keeps house tries again.
    fn forget(&self, path: &str, row: &Row) -> Result<()> {
        match self.delete(path, row) {
            Err(Error::LockTimeout(_)) => {
                self.txn.environment().files.is_left.store(true, Ordering::Relaxed);
                Ok(())
            }
            forgotten => forgotten,
        }
    }

    /// Deletes a row, if it is this one, and waits for nobody who is at it.
    fn delete(&self, path: &str, row: &Row) -> Result<()> {
        let key = row::key(path);
        let managers = &self.txn.life().managers;
        let access = Access::new(managers, self.txn.session(), self.db.opened(), Wait::No);
        self.txn.guarded(|| {
            if access.get_for_update(&key, |value| value == row.encode())? == Some(true) {
                access.delete(&key)?;
            }
            Ok(())
        })
    }
}

/// Removes the temporary files of transactions that are no more.
pub(super) fn sweep(env: &Arc<Inner>) -> Result<()> {
    let (door, db) = (Door::of(env)?, super::rows(env)?);
    run(env, Durability::Relaxed, |txn| {
        lock(txn)?;
        // In this order: who began after the list was made is not on it, who ran then and is committed now has rows.
        let mut left = Vec::new();
        for directory in directories(env, &db, door.tag)? {
            match door.plain.list(&directory) {
                Ok(names) => left.extend(names.into_iter().filter_map(|name| {
                    let owner = door.owner(&name)?;
                    Some((beside(&format!("{}/x", directory.trim_end_matches('/')), &name), owner))
                })),
                Err(error) => tracing::debug!(%error, "temporary files are not looked for there"),
            }
        }
        failpoint("files: listed, nothing swept");
        let managers = &txn.life().managers;
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
            let is_running = running.contains(&owner) && !planted("libtp: temporary files of the living are swept");
            if !is_running && !needed.contains(&path) {
                remove_temporary(&door, &path);
                failpoint("files: one swept");
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

/// Removes a temporary file that nobody needs.
pub(super) fn remove_temporary(door: &Door, path: &str) {
    match door.plain.remove(path) {
        Ok(()) | Err(libtp_io::Error::NotFound { .. }) => {}
        Err(error) => tracing::warn!(%error, "a temporary file stays until the environment is opened next"),
    }
}

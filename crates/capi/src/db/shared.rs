//! Shared mode: files of an environment. Each call is a transaction, or a part of the thread's transaction.

use std::ffi::c_int;
use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;
use std::sync::Arc;

use libtp::{Cursor, Db, Durability, Multi, MultiCursor, Result, Txn};

use crate::db::current;
use crate::db::environments::OpenEnvironment;
use crate::db::keyed::{Found, Pairs, Place, SeekTo};
use crate::db::refusal::{Answer, Refusal};

/// A file of an environment.
pub(crate) struct Shared {
    pub(crate) home: Arc<OpenEnvironment>,
    pub(crate) name: String,
    /// Whether the file was opened with DB_TXN. Each call then belongs to the thread's transaction, or is durable when
    /// it returns.
    pub(crate) is_protected: bool,
    pub(crate) is_read_only: bool,
    pub(crate) descriptor: Option<File>,
}

impl Shared {
    /// Does some work in the thread's transaction, or, if there is none, in a separate transaction, which is run again
    /// if necessary.
    pub(crate) fn work<T>(&self, mut work: impl FnMut(&Txn<'_>) -> Result<T>) -> Answer<T> {
        if !self.is_protected {
            self.refuse_own_locks()?;
            return Ok(self.home.env.run_with(Durability::Relaxed, work)?);
        }
        match current::within(&self.home, &self.name, &mut work)? {
            Some(done) => Ok(done),
            None => Ok(self.home.env.run(work)?),
        }
    }

    /// Refuses a call outside of the thread's transaction that might wait for a lock of that transaction. Deadlock
    /// detection would not see that the transaction waits for the call, so the wait would last for ever.
    fn refuse_own_locks(&self) -> Answer<()> {
        if !current::has_used(&self.home, &self.name)? {
            return Ok(());
        }
        let what = format!(
            "{}: the thread's transaction has used this database, and calls on a file that was opened without DB_TXN do not belong to that transaction: this call would wait for it for ever. Commit or abort the transaction first, or open the file with DB_TXN. Nothing was changed",
            self.home.directory.join(&self.name).display()
        );
        Err(Refusal::new(libc::EDEADLK, what))
    }

    pub(crate) fn sync(&self) -> Answer<()> {
        Ok(self.home.env.flush()?)
    }

    pub(crate) fn descriptor(&mut self) -> Answer<c_int> {
        if let Some(file) = &self.descriptor {
            return Ok(file.as_raw_fd());
        }
        let path = self.home.directory.join(format!("{}.tp", self.name));
        let opened =
            OpenOptions::new().read(true).write(!self.is_read_only).open(&path).and_then(vista::above_standard);
        let file = opened.map_err(|error| Refusal::io(&path.display().to_string(), &error))?;
        Ok(self.descriptor.insert(file).as_raw_fd())
    }
}

/// A B-tree with one value for each key, or a hash file. A pair's `Place` is its key.
pub(crate) struct SharedPairs {
    pub(crate) at: Shared,
    pub(crate) db: Db,
}

impl SharedPairs {
    /// Removes all pairs.
    pub(crate) fn clear(&self) -> Answer<()> {
        self.at.work(|txn| {
            if !self.db.is_hash() {
                return self.db.delete_range(txn, ..).map(|_| ());
            }
            while let Some((key, _)) = self.db.cursor(txn).first()? {
                self.db.delete(txn, &key)?;
            }
            Ok(())
        })
    }
}

fn found((key, value): (Vec<u8>, Vec<u8>)) -> Found {
    Found { place: key.clone(), key, value }
}

fn step(cursor: &mut Cursor<'_>, sought: SeekTo<'_>) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
    match sought {
        SeekTo::First => cursor.first(),
        SeekTo::Last => cursor.last(),
        SeekTo::From(key) => cursor.seek(key),
        SeekTo::Behind(place) => cursor.next_after(place),
        SeekTo::Before(place) => match cursor.seek(place)? {
            Some(_) => cursor.prev(),
            None => cursor.last(),
        },
    }
}

impl Pairs for SharedPairs {
    fn get(&mut self, key: &[u8]) -> Answer<Option<Vec<u8>>> {
        self.at.work(|txn| self.db.get(txn, key))
    }

    fn put(&mut self, key: &[u8], value: &[u8], is_new: bool) -> Answer<Option<Place>> {
        let stored = self.at.work(|txn| match is_new {
            false => self.db.put(txn, key, value).map(|()| true),
            true => match self.db.put_new(txn, key, value) {
                Err(libtp::Error::Exists) => Ok(false),
                done => done.map(|()| true),
            },
        })?;
        Ok(stored.then(|| key.to_vec()))
    }

    fn put_at(&mut self, place: &Place, key: &[u8], value: &[u8]) -> Answer<Option<Place>> {
        let is_there = self.at.work(|txn| {
            if self.db.get_for_update(txn, place)?.is_none() {
                return Ok(false);
            }
            if place != key {
                self.db.delete(txn, place)?;
            }
            self.db.put(txn, key, value).map(|()| true)
        })?;
        Ok(is_there.then(|| key.to_vec()))
    }

    fn delete(&mut self, key: &[u8]) -> Answer<bool> {
        self.at.work(|txn| self.db.delete(txn, key))
    }

    fn delete_at(&mut self, place: &Place) -> Answer<bool> {
        self.delete(place)
    }

    fn seek(&mut self, sought: SeekTo<'_>) -> Answer<Option<Found>> {
        Ok(self.at.work(|txn| step(&mut self.db.cursor(txn), sought))?.map(found))
    }

    fn sync(&mut self) -> Answer<()> {
        self.at.sync()
    }

    fn descriptor(&mut self) -> Answer<c_int> {
        self.at.descriptor()
    }
}

/// A B-tree with several values for a key, in the order in which they were stored.
pub(crate) struct SharedDuplicates {
    pub(crate) at: Shared,
    pub(crate) multi: Multi,
}

/// Returns the pair at a cursor with its place.
fn found_at_cursor(cursor: &MultiCursor<'_>, pair: Option<(Vec<u8>, Vec<u8>)>) -> Option<Found> {
    let ((key, value), place) = (pair?, cursor.place()?.to_vec());
    Some(Found { place, key, value })
}

fn step_duplicates(cursor: &mut MultiCursor<'_>, sought: SeekTo<'_>) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
    match sought {
        SeekTo::First => cursor.first(),
        SeekTo::Last => cursor.last(),
        SeekTo::From(key) => cursor.seek(key),
        SeekTo::Behind(place) => {
            let found = cursor.go_to(place)?;
            match cursor.place() == Some(place) {
                true => cursor.next(),
                false => Ok(found),
            }
        }
        SeekTo::Before(place) => match cursor.go_to(place)? {
            Some(_) => cursor.prev(),
            None => cursor.last(),
        },
    }
}

/// Moves a cursor to a place. Returns whether there is a pair at this place.
fn stands_on(cursor: &mut MultiCursor<'_>, place: &Place) -> Result<bool> {
    cursor.go_to(place)?;
    Ok(cursor.place() == Some(place))
}

impl SharedDuplicates {
    /// Removes all pairs.
    pub(crate) fn clear(&self) -> Answer<()> {
        self.at.work(|txn| {
            while let Some((key, _)) = self.multi.cursor(txn).first()? {
                self.multi.delete(txn, &key)?;
            }
            Ok(())
        })
    }
}

impl Pairs for SharedDuplicates {
    fn get(&mut self, key: &[u8]) -> Answer<Option<Vec<u8>>> {
        self.at.work(|txn| self.multi.get(txn, key))
    }

    fn put(&mut self, key: &[u8], value: &[u8], is_new: bool) -> Answer<Option<Place>> {
        self.at.work(|txn| match is_new && self.multi.get(txn, key)?.is_some() {
            true => Ok(None),
            false => self.multi.put_placed(txn, key, value),
        })
    }

    fn put_at(&mut self, place: &Place, key: &[u8], value: &[u8]) -> Answer<Option<Place>> {
        self.at.work(|txn| {
            let mut cursor = self.multi.cursor(txn);
            let pair = cursor.go_to(place)?;
            match pair.filter(|_| cursor.place() == Some(place)) {
                None => Ok(None),
                Some((old, _)) if old == key => {
                    self.multi.put_at(txn, &cursor, value)?;
                    Ok(Some(place.clone()))
                }
                Some(_) => {
                    self.multi.delete_at(txn, &cursor)?;
                    self.multi.put_placed(txn, key, value)
                }
            }
        })
    }

    fn delete(&mut self, key: &[u8]) -> Answer<bool> {
        Ok(self.at.work(|txn| self.multi.delete(txn, key))? > 0)
    }

    fn delete_at(&mut self, place: &Place) -> Answer<bool> {
        self.at.work(|txn| {
            let mut cursor = self.multi.cursor(txn);
            Ok(stands_on(&mut cursor, place)? && self.multi.delete_at(txn, &cursor)?)
        })
    }

    fn seek(&mut self, sought: SeekTo<'_>) -> Answer<Option<Found>> {
        self.at.work(|txn| {
            let mut cursor = self.multi.cursor(txn);
            let pair = step_duplicates(&mut cursor, sought)?;
            Ok(found_at_cursor(&cursor, pair))
        })
    }

    fn sync(&mut self) -> Answer<()> {
        self.at.sync()
    }

    fn descriptor(&mut self) -> Answer<c_int> {
        self.at.descriptor()
    }
}

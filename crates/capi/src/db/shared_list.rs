//! DB_RECNO in shared mode: a list of an environment, and the text file from which the list is read and to which it is
//! written back.
//!
//! The cursor outlives transactions, and other processes renumber records between the calls. So the cursor stores which
//! record it is on, and not the record's number, and each call finds the record again. A call is one transaction, or a
//! part of the thread's transaction, so no other session changes the list between a step and its result.

use std::ffi::c_int;
use std::sync::Arc;

use libtp::{List, ListCursor, ListPlace, Result, TextFile, Txn};

use crate::db::current;
use crate::db::numbered::{Length, Records, SeekTo, When};
use crate::db::refusal::{Answer, Refusal};
use crate::db::shared::Shared;

/// A list of an environment, with its text file.
pub(crate) struct SharedList {
    at: Shared,
    list: List,
    text: Arc<TextFile>,
    length: Length,
    place: Option<ListPlace>,
}

/// Removes all records.
pub(crate) fn clear(at: &Shared, list: &List) -> Answer<()> {
    at.work(|txn| {
        list.lock(txn)?;
        for number in (1..=list.count(txn)?).rev() {
            list.delete(txn, number)?;
        }
        Ok(())
    })
}

fn step(cursor: &mut ListCursor<'_, Txn<'_>>, sought: SeekTo) -> Result<Option<(u64, Vec<u8>)>> {
    match sought {
        SeekTo::First => cursor.first(),
        SeekTo::Last => cursor.last(),
        SeekTo::Number(number) => cursor.seek(number.into()),
        SeekTo::Next => cursor.next(),
        SeekTo::Previous => cursor.prev(),
    }
}

impl SharedList {
    pub(crate) fn new(at: Shared, list: List, text: TextFile, length: Length) -> SharedList {
        SharedList { at, list, text: Arc::new(text), length, place: None }
    }

    /// Stores a record under a number. If the number is after the last record, stores empty records under the numbers
    /// in between.
    fn store(&self, txn: &Txn<'_>, number: u64, record: &[u8], count: u64) -> Result<()> {
        self.list.put(txn, number, record)?;
        if let Length::Fixed(..) = self.length {
            for between in count + 1..number {
                self.list.put(txn, between, &self.length.filler())?;
            }
        }
        Ok(())
    }
}

impl Records for SharedList {
    fn get(&mut self, number: u32) -> Answer<Option<Vec<u8>>> {
        self.at.work(|txn| self.list.get(txn, number.into()))
    }

    fn put(&mut self, number: u32, record: &[u8], when: When) -> Answer<bool> {
        let number = number.into();
        let stored = self.at.work(|txn| {
            self.text.check(txn, record)?;
            let count = self.list.count(txn)?;
            if number > count {
                // Only a put after the last record needs a lock on the whole list.
                self.list.lock(txn)?;
            }
            let count = self.list.count(txn)?;
            if when == When::New && number <= count {
                return Ok(None);
            }
            self.store(txn, number, record, count)?;
            if when != When::WithCursor {
                return Ok(Some(None));
            }
            let mut cursor = self.list.cursor(txn);
            cursor.seek(number)?;
            cursor.place().map(Some)
        })?;
        let Some(place) = stored else { return Ok(false) };
        self.place = place.or(self.place.take());
        Ok(true)
    }

    fn insert(&mut self, number: u32, record: &[u8]) -> Answer<()> {
        let number = number.into();
        self.at.work(|txn| {
            self.text.check(txn, record)?;
            self.list.lock(txn)?;
            match self.list.count(txn)? {
                count if number > count => self.store(txn, number, record, count),
                _ => self.list.insert_before(txn, number, record).map(|_| ()),
            }
        })
    }

    fn delete(&mut self, number: u32) -> Answer<bool> {
        self.at.work(|txn| self.list.delete(txn, number.into()))
    }

    fn seek(&mut self, sought: SeekTo) -> Answer<Option<(u32, Vec<u8>)>> {
        let (found, place) = self.at.work(|txn| {
            let mut cursor = self.list.cursor(txn);
            if let (SeekTo::Next | SeekTo::Previous, Some(place)) = (sought, &self.place) {
                cursor.go_to(place)?;
            }
            let found = step(&mut cursor, sought)?;
            Ok((found, cursor.place()?))
        })?;
        let Some((number, record)) = found else { return Ok(None) };
        let number = u32::try_from(number);
        let number = number.map_err(|_| Refusal::invalid("the file has more records than a recno_t can number"))?;
        self.place = place;
        Ok(Some((number, record)))
    }

    fn has_cursor(&self) -> bool {
        self.place.is_some()
    }

    fn put_here(&mut self, record: &[u8]) -> Answer<bool> {
        let Some(place) = &self.place else { return Ok(false) };
        self.at.work(|txn| {
            self.text.check(txn, record)?;
            let mut cursor = self.list.cursor(txn);
            Ok(cursor.go_to(place)? && cursor.put(record)?)
        })
    }

    fn delete_here(&mut self) -> Answer<bool> {
        let Some(place) = &self.place else { return Ok(false) };
        self.at.work(|txn| {
            self.list.lock(txn)?;
            let mut cursor = self.list.cursor(txn);
            Ok(cursor.go_to(place)? && cursor.delete()?)
        })
    }

    fn sync(&mut self, is_text: bool) -> Answer<()> {
        if is_text && !current::afterwards(&self.at.home, &self.text)? {
            self.text.sync()?;
        }
        self.at.sync()
    }

    fn descriptor(&mut self) -> Answer<c_int> {
        self.at.descriptor()
    }
}

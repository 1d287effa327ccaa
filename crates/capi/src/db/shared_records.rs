//! DB_RECNO in shared mode over a database whose records keep their numbers: `tp_recno_open` or a Rust program has made
//! it.
//!
//! Other programs may have stored the record numbers in other records, as references. So calls that would change a
//! record's number are refused.

use std::ffi::c_int;

use libtp::{Recno, Result, Txn};

use crate::db::numbered::{CursorPlace, Length, Records, SeekTo, When};
use crate::db::refusal::{Answer, Refusal};
use crate::db::shared::Shared;

/// Records of one length with fixed numbers.
pub(crate) struct SharedRecords {
    at: Shared,
    recno: Recno,
    length: Length,
    cursor: CursorPlace,
}

fn last_of(recno: &Recno, txn: &Txn<'_>) -> Result<u64> {
    Ok(recno.cursor(txn).last()?.map_or(0, |(number, _)| number))
}

impl SharedRecords {
    pub(crate) fn new(at: Shared, recno: Recno, length: Length) -> SharedRecords {
        SharedRecords { at, recno, length, cursor: CursorPlace::Nowhere }
    }

    /// Removes all records.
    pub(crate) fn clear(&self) -> Answer<()> {
        self.at.work(|txn| {
            while let Some((number, _)) = self.recno.cursor(txn).last()? {
                self.recno.delete(txn, number)?;
            }
            Ok(())
        })
    }

    /// Returns a record whose number is at most the last number. Returns an empty record if another program has deleted
    /// the record.
    fn record(&self, txn: &Txn<'_>, number: u64) -> Result<Vec<u8>> {
        Ok(self.recno.get(txn, number)?.unwrap_or_else(|| self.length.filler()))
    }

    fn no_renumbering(&self) -> Refusal {
        let what = format!(
            "{}: the database was made by tp_recno_open, and its records keep their numbers, so only the last record can be deleted, and no record can be inserted between others (R_IAFTER, R_IBEFORE). Nothing was changed",
            self.at.name
        );
        Refusal::new(libc::EOPNOTSUPP, what)
    }
}

impl Records for SharedRecords {
    fn get(&mut self, number: u32) -> Answer<Option<Vec<u8>>> {
        let number = number.into();
        self.at.work(|txn| match last_of(&self.recno, txn)? {
            last if number > last => Ok(None),
            _ => self.record(txn, number).map(Some),
        })
    }

    fn put(&mut self, number: u32, record: &[u8], when: When) -> Answer<bool> {
        let at = u64::from(number);
        let is_stored = self.at.work(|txn| {
            let last = last_of(&self.recno, txn)?;
            if when == When::New && at <= last {
                return Ok(false);
            }
            for between in last + 1..at {
                self.recno.put(txn, between, &self.length.filler())?;
            }
            self.recno.put(txn, at, record).map(|()| true)
        })?;
        if when == When::WithCursor {
            self.cursor = CursorPlace::On(number);
        }
        Ok(is_stored)
    }

    fn insert(&mut self, number: u32, record: &[u8]) -> Answer<()> {
        // An insertion after the last record changes no number.
        match self.put(number, record, When::New)? {
            true => Ok(()),
            false => Err(self.no_renumbering()),
        }
    }

    fn delete(&mut self, number: u32) -> Answer<bool> {
        let at = u64::from(number);
        let done = self.at.work(|txn| match last_of(&self.recno, txn)? {
            last if at > last => Ok(Some(false)),
            last if at == last => self.recno.delete(txn, at).map(Some),
            _ => Ok(None),
        })?;
        let is_done = done.ok_or_else(|| self.no_renumbering())?;
        if is_done {
            self.cursor.deleted(number);
        }
        Ok(is_done)
    }

    fn seek(&mut self, sought: SeekTo) -> Answer<Option<(u32, Vec<u8>)>> {
        let found = self.at.work(|txn| {
            let last = last_of(&self.recno, txn)?;
            let number = self.cursor.target(sought, u32::try_from(last).unwrap_or(u32::MAX));
            match number == 0 || u64::from(number) > last {
                true => Ok(None),
                false => self.record(txn, number.into()).map(|record| Some((number, record))),
            }
        })?;
        if let Some((number, _)) = found {
            self.cursor = CursorPlace::On(number);
        }
        Ok(found)
    }

    fn has_cursor(&self) -> bool {
        self.cursor != CursorPlace::Nowhere
    }

    fn put_here(&mut self, record: &[u8]) -> Answer<bool> {
        match self.cursor {
            CursorPlace::On(number) => self.put(number, record, When::Always),
            _ => Ok(false),
        }
    }

    fn delete_here(&mut self) -> Answer<bool> {
        match self.cursor {
            CursorPlace::On(number) => self.delete(number),
            _ => Ok(false),
        }
    }

    fn sync(&mut self, _is_text: bool) -> Answer<()> {
        self.at.sync()
    }

    fn descriptor(&mut self) -> Answer<c_int> {
        self.at.descriptor()
    }
}

//! DB_RECNO: what the flags of db(3) mean, over whatever keeps the records.
//!
//! The manual pages are dbopen(3) and recno(3). Records are numbered from 1, without holes: one that is put in between or
//! deleted changes the numbers of those behind it, and the cursor stays with its record.

use std::ffi::c_int;

use crate::db::flags::{
    check_none, unknown, R_CURSOR, R_FIRST, R_IAFTER, R_IBEFORE, R_LAST, R_NEXT, R_NOOVERWRITE, R_PREV, R_RECNOSYNC,
    R_SETCURSOR,
};
use crate::db::refusal::{Answer, Refusal};

/// Keeps records by their numbers, from 1. Each call is whole, or nothing is changed.
pub(crate) trait Records: Send {
    fn count(&mut self) -> Answer<u32>;
    /// The record with that number, which is not beyond the last; none where one was taken out by other means than these.
    fn get(&mut self, number: u32) -> Answer<Option<Vec<u8>>>;
    /// Stores a record under a number; those between the last and that are made of `filler`.
    fn put(&mut self, number: u32, record: &[u8], filler: &[u8]) -> Answer<()>;
    /// Puts one in front of that number, which is there or the one behind the last.
    fn insert(&mut self, number: u32, record: &[u8]) -> Answer<()>;
    /// Removes the record with that number, which is there.
    fn delete(&mut self, number: u32) -> Answer<()>;
    fn sync(&mut self) -> Answer<()>;
    /// A descriptor of the file, which stays open for as long as this.
    fn descriptor(&mut self) -> Answer<c_int>;
}

/// How long records are.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Length {
    Variable,
    /// So many bytes, made up with this one.
    Fixed(usize, u8),
}

impl Length {
    fn fitted(self, mut record: Vec<u8>) -> Answer<Vec<u8>> {
        if let Length::Fixed(bytes, pad) = self {
            if record.len() > bytes {
                let what = format!(
                    "a record of {} bytes: this file has records of {bytes}; nothing was changed",
                    record.len()
                );
                return Err(Refusal::invalid(what));
            }
            record.resize(bytes, pad);
        }
        Ok(record)
    }

    fn filler(self) -> Vec<u8> {
        match self {
            Length::Variable => Vec::new(),
            Length::Fixed(bytes, pad) => vec![pad; bytes],
        }
    }
}

/// An open DB_RECNO.
pub(crate) struct Numbered {
    records: Box<dyn Records>,
    length: Length,
    is_read_only: bool,
    /// The number of the record at the cursor; zero is in front of the first. None while it was not set.
    cursor: Option<u32>,
}

fn number_of(key: &[u8]) -> Answer<u32> {
    let bytes = key.try_into().map_err(|_| {
        Refusal::invalid(format!("the key of a DB_RECNO is a recno_t, 4 bytes, and {} were given", key.len()))
    })?;
    Ok(u32::from_ne_bytes(bytes))
}

fn from_one(key: &[u8]) -> Answer<u32> {
    match number_of(key)? {
        0 => Err(Refusal::invalid("records are numbered from 1, and 0 was given")),
        number => Ok(number),
    }
}

impl Numbered {
    pub(crate) fn new(records: Box<dyn Records>, length: Length, is_read_only: bool) -> Numbered {
        Numbered { records, length, is_read_only, cursor: None }
    }

    fn check_writable(&self) -> Answer<()> {
        match self.is_read_only {
            true => Err(Refusal::read_only()),
            false => Ok(()),
        }
    }

    fn standing(&self) -> Answer<u32> {
        self.cursor.ok_or_else(|| Refusal::invalid("R_CURSOR was given, and no seq has set the cursor"))
    }

    fn record(&mut self, number: u32) -> Answer<Vec<u8>> {
        Ok(self.records.get(number)?.unwrap_or_else(|| self.length.filler()))
    }

    pub(crate) fn get(&mut self, key: &[u8], flags: u32) -> Answer<Option<Vec<u8>>> {
        check_none("get", flags)?;
        match from_one(key)? {
            number if number > self.records.count()? => Ok(None),
            number => Ok(Some(self.record(number)?)),
        }
    }

    /// The number under which it was stored; none if R_NOOVERWRITE was given and there is one.
    pub(crate) fn put(&mut self, key: &[u8], record: Vec<u8>, flags: u32) -> Answer<Option<u32>> {
        if !matches!(flags, 0 | R_CURSOR | R_SETCURSOR | R_IAFTER | R_IBEFORE | R_NOOVERWRITE) {
            return Err(unknown("put", flags));
        }
        self.check_writable()?;
        let record = self.length.fitted(record)?;
        let count = self.records.count()?;
        let number = match flags {
            R_CURSOR => match self.standing()? {
                0 => return Err(Refusal::invalid("the record at the cursor was deleted; nothing was changed")),
                number => number,
            },
            R_IAFTER => {
                number_of(key)?.checked_add(1).ok_or_else(|| Refusal::invalid("there is no number behind that"))?
            }
            _ => from_one(key)?,
        };
        let is_inserted = matches!(flags, R_IAFTER | R_IBEFORE) && number <= count;
        match flags {
            R_NOOVERWRITE if number <= count => return Ok(None),
            _ if is_inserted => self.records.insert(number, &record)?,
            _ => self.records.put(number, &record, &self.length.filler())?,
        }
        if let Some(at) = self.cursor.as_mut().filter(|at| is_inserted && **at >= number) {
            *at += 1;
        }
        if flags == R_SETCURSOR {
            self.cursor = Some(number);
        }
        Ok(Some(number))
    }

    /// Whether there was something to delete.
    pub(crate) fn delete(&mut self, key: &[u8], flags: u32) -> Answer<bool> {
        let number = match flags {
            0 => from_one(key)?,
            R_CURSOR => self.standing()?,
            other => return Err(unknown("del", other)),
        };
        self.check_writable()?;
        if number == 0 || number > self.records.count()? {
            return Ok(false);
        }
        self.records.delete(number)?;
        // At the record before, from which the next step leads to the one behind.
        if let Some(at) = self.cursor.as_mut().filter(|at| **at >= number) {
            *at -= 1;
        }
        Ok(true)
    }

    pub(crate) fn seek(&mut self, key: &[u8], flags: u32) -> Answer<Option<(u32, Vec<u8>)>> {
        let count = self.records.count()?;
        let number = match (flags, self.cursor) {
            (R_CURSOR, _) => from_one(key)?,
            (R_FIRST, _) | (R_NEXT, None) => 1,
            (R_NEXT, Some(at)) => at.saturating_add(1),
            (R_LAST, _) | (R_PREV, None) => count,
            (R_PREV, Some(at)) => at.saturating_sub(1),
            (other, _) => return Err(unknown("seq", other)),
        };
        if number == 0 || number > count {
            return Ok(None);
        }
        let record = self.record(number)?;
        self.cursor = Some(number);
        Ok(Some((number, record)))
    }

    pub(crate) fn sync(&mut self, flags: u32) -> Answer<()> {
        match flags {
            // There is no other file than the one that holds the records.
            0 | R_RECNOSYNC if self.is_read_only => Ok(()),
            0 | R_RECNOSYNC => self.records.sync(),
            other => Err(unknown("sync", other)),
        }
    }

    pub(crate) fn descriptor(&mut self) -> Answer<c_int> {
        self.records.descriptor()
    }
}

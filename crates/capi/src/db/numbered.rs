//! DB_RECNO: the flags of db(3), over any store of records.
//!
//! The manual pages are dbopen(3) and recno(3). Records are numbered from 1, without gaps. So an insertion or a
//! deletion changes the numbers of all later records. The cursor stays on its record.

use std::ffi::c_int;

use crate::db::flags::{
    check_none, unknown, R_CURSOR, R_FIRST, R_IAFTER, R_IBEFORE, R_LAST, R_NEXT, R_NOOVERWRITE, R_PREV, R_RECNOSYNC,
    R_SETCURSOR,
};
use crate::db::refusal::{make_room, Answer, Refusal};

/// The goal of a cursor step.
#[derive(Clone, Copy)]
pub(crate) enum SeekTo {
    First,
    Last,
    Number(u32),
    /// The record after the cursor, or the first record if the cursor is not set.
    Next,
    /// The record before the cursor, or the last record if the cursor is not set.
    Previous,
}

/// The condition for storing a record under a number.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum When {
    Always,
    /// The record is stored only if no record has the number.
    New,
    /// The record is always stored, and the cursor moves to it.
    WithCursor,
}

/// A store of records numbered from 1, with one cursor. Each call is either completed or changes nothing.
pub(crate) trait Records: Send {
    /// Returns the record with this number, or `None` if the number is after the last record.
    fn get(&mut self, number: u32) -> Answer<Option<Vec<u8>>>;
    /// Stores a record under a number. If the number is after the last record, stores empty records under the numbers
    /// in between. Returns whether the record was stored.
    fn put(&mut self, number: u32, record: &[u8], when: When) -> Answer<bool>;
    /// Inserts a record before the record with this number. For a number after the last record, does the same as `put`.
    fn insert(&mut self, number: u32, record: &[u8]) -> Answer<()>;
    /// Removes the record with this number. Returns whether the record existed.
    fn delete(&mut self, number: u32) -> Answer<bool>;
    /// Moves the cursor. The cursor stays where it is if the step finds no record.
    fn seek(&mut self, sought: SeekTo) -> Answer<Option<(u32, Vec<u8>)>>;
    /// Returns whether the cursor was ever set.
    fn has_cursor(&self) -> bool;
    /// Replaces the record at the cursor. Returns false if that record was removed.
    fn put_here(&mut self, record: &[u8]) -> Answer<bool>;
    /// Removes the record at the cursor. The cursor is then between the record's neighbours. Returns false if the
    /// record was removed before.
    fn delete_here(&mut self) -> Answer<bool>;
    /// Syncs the file or list that stores the records. With `is_text`, also syncs the text file.
    fn sync(&mut self, is_text: bool) -> Answer<()>;
    /// Returns a descriptor of the file. The descriptor stays open until the store is dropped.
    fn descriptor(&mut self) -> Answer<c_int>;
}

/// The length of the records.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Length {
    Variable,
    /// A fixed number of bytes, and the byte with which shorter records are padded.
    Fixed(usize, u8),
}

impl Length {
    fn fitted(self, mut record: Vec<u8>) -> Answer<Vec<u8>> {
        if let Length::Fixed(bytes, pad) = self {
            if record.len() > bytes {
                let what = format!(
                    "a record of {} bytes was given, and this file has records of {bytes}; nothing was changed",
                    record.len()
                );
                return Err(Refusal::invalid(what));
            }
            let missing = bytes - record.len();
            make_room(&mut record, missing)?;
            record.resize(bytes, pad);
        }
        Ok(record)
    }

    /// Returns an empty record.
    pub(crate) fn filler(self) -> Vec<u8> {
        match self {
            Length::Variable => Vec::new(),
            Length::Fixed(bytes, pad) => vec![pad; bytes],
        }
    }
}

/// The place of a cursor in a file whose records no other program renumbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CursorPlace {
    Nowhere,
    On(u32),
    /// The cursor's record was removed: the cursor is between this number and the number before it.
    Before(u32),
}

impl CursorPlace {
    /// Returns the number to which a step leads. There may be no record with this number.
    pub(crate) fn target(self, sought: SeekTo, count: u32) -> u32 {
        match (sought, self) {
            (SeekTo::Number(number), _) => number,
            (SeekTo::First, _) | (SeekTo::Next, CursorPlace::Nowhere) => 1,
            (SeekTo::Last, _) | (SeekTo::Previous, CursorPlace::Nowhere) => count,
            (SeekTo::Next, CursorPlace::On(at)) => at.saturating_add(1),
            (SeekTo::Next, CursorPlace::Before(at)) => at,
            (SeekTo::Previous, CursorPlace::On(at) | CursorPlace::Before(at)) => at.saturating_sub(1),
        }
    }

    /// Adjusts the cursor after an insertion before the record `number`.
    pub(crate) fn inserted(&mut self, number: u32) {
        match self {
            CursorPlace::On(at) if *at >= number => *at += 1,
            CursorPlace::Before(at) if *at > number => *at += 1,
            _ => {}
        }
    }

    /// Adjusts the cursor after the removal of record `number`.
    pub(crate) fn deleted(&mut self, number: u32) {
        match self {
            CursorPlace::On(at) if *at == number => *self = CursorPlace::Before(number),
            CursorPlace::On(at) | CursorPlace::Before(at) if *at > number => *at -= 1,
            _ => {}
        }
    }
}

/// An open DB_RECNO.
pub(crate) struct Numbered {
    records: Box<dyn Records>,
    length: Length,
    is_read_only: bool,
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
        Numbered { records, length, is_read_only }
    }

    fn check_writable(&self) -> Answer<()> {
        match self.is_read_only {
            true => Err(Refusal::read_only()),
            false => Ok(()),
        }
    }

    fn check_cursor(&self) -> Answer<()> {
        match self.records.has_cursor() {
            true => Ok(()),
            false => Err(Refusal::invalid("R_CURSOR was given, and no seq has set the cursor: call seq first")),
        }
    }

    pub(crate) fn get(&mut self, key: &[u8], flags: u32) -> Answer<Option<Vec<u8>>> {
        check_none("get", flags)?;
        self.records.get(from_one(key)?)
    }

    /// Stores a record. With R_NOOVERWRITE an existing record stays. With R_IAFTER and R_IBEFORE the call returns the
    /// number of the inserted record.
    pub(crate) fn put(&mut self, key: &[u8], record: Vec<u8>, flags: u32) -> Answer<Stored> {
        if !matches!(flags, 0 | R_CURSOR | R_SETCURSOR | R_IAFTER | R_IBEFORE | R_NOOVERWRITE) {
            return Err(unknown("put", flags));
        }
        self.check_writable()?;
        let record = self.length.fitted(record)?;
        let when = match flags {
            R_CURSOR => {
                self.check_cursor()?;
                return match self.records.put_here(&record)? {
                    true => Ok(Stored::There),
                    false => Err(Refusal::invalid("the record at the cursor was deleted; nothing was changed")),
                };
            }
            R_IAFTER | R_IBEFORE => {
                let number = if flags == R_IBEFORE { from_one(key)?.checked_sub(1) } else { Some(number_of(key)?) };
                let number = number.and_then(|before| before.checked_add(1));
                let number =
                    number.ok_or_else(|| Refusal::invalid("there is no number after the highest record number"))?;
                self.records.insert(number, &record)?;
                return Ok(Stored::As(number));
            }
            R_NOOVERWRITE => When::New,
            R_SETCURSOR => When::WithCursor,
            _ => When::Always,
        };
        Ok(if self.records.put(from_one(key)?, &record, when)? { Stored::There } else { Stored::No })
    }

    /// Deletes a record by its number or at the cursor. Returns whether the record existed.
    pub(crate) fn delete(&mut self, key: &[u8], flags: u32) -> Answer<bool> {
        match flags {
            0 => {
                let number = from_one(key)?;
                self.check_writable()?;
                self.records.delete(number)
            }
            R_CURSOR => {
                self.check_cursor()?;
                self.check_writable()?;
                self.records.delete_here()
            }
            other => Err(unknown("del", other)),
        }
    }

    pub(crate) fn seek(&mut self, key: &[u8], flags: u32) -> Answer<Option<(u32, Vec<u8>)>> {
        let sought = match flags {
            R_CURSOR => SeekTo::Number(from_one(key)?),
            R_FIRST => SeekTo::First,
            R_LAST => SeekTo::Last,
            R_NEXT => SeekTo::Next,
            R_PREV => SeekTo::Previous,
            other => return Err(unknown("seq", other)),
        };
        self.records.seek(sought)
    }

    pub(crate) fn sync(&mut self, flags: u32) -> Answer<()> {
        match flags {
            0 | R_RECNOSYNC if self.is_read_only => Ok(()),
            0 | R_RECNOSYNC => self.records.sync(flags == 0),
            other => Err(unknown("sync", other)),
        }
    }

    pub(crate) fn descriptor(&mut self) -> Answer<c_int> {
        self.records.descriptor()
    }
}

/// The outcome of storing a record.
pub(crate) enum Stored {
    /// Not stored: there is a record with this number.
    No,
    /// Stored under the caller's number, or at the cursor.
    There,
    /// Inserted under this number.
    As(u32),
}

#[cfg(test)]
mod tests;

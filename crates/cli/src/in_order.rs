//! Reading a database in order, forwards or backwards, in one transaction; a hash file in the order it has.

use libtp::{Database, Env};

use crate::failure::Result;
use crate::records::Key;

/// What part of a database is read, and in which direction.
#[derive(Clone, Debug, Default)]
pub struct Range {
    /// Begin at this key, or at the nearest after it in the direction of reading.
    pub from: Option<Key>,
    /// End before this key.
    pub to: Option<Key>,
    /// From the greatest key to the smallest.
    pub reverse: bool,
}

/// A record as a cursor returns it.
type Record = Option<(Key, Vec<u8>)>;

/// The cursor of either kind of database.
trait Cursor {
    fn first(&mut self) -> libtp::Result<Record>;
    fn last(&mut self) -> libtp::Result<Record>;
    /// At `key`, or at the smallest after it.
    fn seek(&mut self, key: &Key) -> libtp::Result<Record>;
    fn next(&mut self) -> libtp::Result<Record>;
    fn prev(&mut self) -> libtp::Result<Record>;
}

impl Cursor for libtp::Cursor<'_> {
    fn first(&mut self) -> libtp::Result<Record> {
        Ok(libtp::Cursor::first(self)?.map(by_key))
    }
    fn last(&mut self) -> libtp::Result<Record> {
        Ok(libtp::Cursor::last(self)?.map(by_key))
    }
    fn seek(&mut self, key: &Key) -> libtp::Result<Record> {
        let Key::Bytes(key) = key else { unreachable!("a key is read for its own database") };
        Ok(libtp::Cursor::seek(self, key)?.map(by_key))
    }
    fn next(&mut self) -> libtp::Result<Record> {
        Ok(libtp::Cursor::next(self)?.map(by_key))
    }
    fn prev(&mut self) -> libtp::Result<Record> {
        Ok(libtp::Cursor::prev(self)?.map(by_key))
    }
}

impl Cursor for libtp::MultiCursor<'_> {
    fn first(&mut self) -> libtp::Result<Record> {
        Ok(libtp::MultiCursor::first(self)?.map(by_key))
    }
    fn last(&mut self) -> libtp::Result<Record> {
        Ok(libtp::MultiCursor::last(self)?.map(by_key))
    }
    fn seek(&mut self, key: &Key) -> libtp::Result<Record> {
        let Key::Bytes(key) = key else { unreachable!("a key is read for its own database") };
        Ok(libtp::MultiCursor::seek(self, key)?.map(by_key))
    }
    fn next(&mut self) -> libtp::Result<Record> {
        Ok(libtp::MultiCursor::next(self)?.map(by_key))
    }
    fn prev(&mut self) -> libtp::Result<Record> {
        Ok(libtp::MultiCursor::prev(self)?.map(by_key))
    }
}

impl Cursor for libtp::RecnoCursor<'_> {
    fn first(&mut self) -> libtp::Result<Record> {
        Ok(libtp::RecnoCursor::first(self)?.map(by_number))
    }
    fn last(&mut self) -> libtp::Result<Record> {
        Ok(libtp::RecnoCursor::last(self)?.map(by_number))
    }
    fn seek(&mut self, key: &Key) -> libtp::Result<Record> {
        let Key::Number(number) = key else { unreachable!("a key is read for its own database") };
        Ok(libtp::RecnoCursor::seek(self, *number)?.map(by_number))
    }
    fn next(&mut self) -> libtp::Result<Record> {
        Ok(libtp::RecnoCursor::next(self)?.map(by_number))
    }
    fn prev(&mut self) -> libtp::Result<Record> {
        Ok(libtp::RecnoCursor::prev(self)?.map(by_number))
    }
}

impl Cursor for libtp::ListCursor<'_, libtp::Txn<'_>> {
    fn first(&mut self) -> libtp::Result<Record> {
        Ok(libtp::ListCursor::first(self)?.map(by_number))
    }
    fn last(&mut self) -> libtp::Result<Record> {
        Ok(libtp::ListCursor::last(self)?.map(by_number))
    }
    fn seek(&mut self, key: &Key) -> libtp::Result<Record> {
        let Key::Number(number) = key else { unreachable!("a key is read for its own database") };
        Ok(libtp::ListCursor::seek(self, *number)?.map(by_number))
    }
    fn next(&mut self) -> libtp::Result<Record> {
        Ok(libtp::ListCursor::next(self)?.map(by_number))
    }
    fn prev(&mut self) -> libtp::Result<Record> {
        Ok(libtp::ListCursor::prev(self)?.map(by_number))
    }
}

fn by_key((key, value): (Vec<u8>, Vec<u8>)) -> (Key, Vec<u8>) {
    (Key::Bytes(key), value)
}

fn by_number((number, value): (u64, Vec<u8>)) -> (Key, Vec<u8>) {
    (Key::Number(number), value)
}

/// Calls `each` with every record of the range, in order, until it returns false. All are read in one transaction: what
/// others change meanwhile is seen whole or not at all.
pub fn each_record(
    env: &Env,
    database: &Database,
    range: &Range,
    each: &mut dyn FnMut(&Key, &[u8]) -> Result<bool>,
) -> Result<()> {
    let txn = env.begin()?;
    match database {
        Database::Btree(db) | Database::Hash(db) => walk(&mut db.cursor(&txn), range, each)?,
        Database::Multi(db) | Database::Index(db) => walk(&mut db.cursor(&txn), range, each)?,
        Database::Recno(db) => walk(&mut db.cursor(&txn), range, each)?,
        Database::List(db) => walk(&mut db.cursor(&txn), range, each)?,
    }
    txn.commit()?;
    Ok(())
}

fn walk(cursor: &mut dyn Cursor, range: &Range, each: &mut dyn FnMut(&Key, &[u8]) -> Result<bool>) -> Result<()> {
    let mut record = begin(cursor, range)?;
    while let Some((key, value)) = record {
        if range.to.as_ref().is_some_and(|to| range.is_at_end(&key, to)) || !each(&key, &value)? {
            break;
        }
        record = if range.reverse { cursor.prev()? } else { cursor.next()? };
    }
    Ok(())
}

fn begin(cursor: &mut dyn Cursor, range: &Range) -> Result<Record> {
    let record = match (&range.from, range.reverse) {
        (None, false) => cursor.first()?,
        (None, true) => cursor.last()?,
        (Some(from), false) => cursor.seek(from)?,
        (Some(from), true) => match cursor.seek(from)? {
            Some((key, value)) if key == *from => Some((key, value)),
            Some(_) => cursor.prev()?,
            None => cursor.last()?,
        },
    };
    Ok(record)
}

impl Range {
    fn is_at_end(&self, key: &Key, to: &Key) -> bool {
        if self.reverse {
            key <= to
        } else {
            key >= to
        }
    }
}

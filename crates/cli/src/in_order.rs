//! Reads a database in the order of its keys, forwards or backwards, in its state of one moment. A hash file is read in
//! the order in which it stores its records.

use std::cmp::Ordering;
use std::sync::Arc;

use libtp::{order, Database, Env, Order, Reader};

use crate::failure::{Failure, Result};
use crate::records::Key;

/// Whether records are read in a transaction or in a snapshot.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct Reading {
    /// Read in a transaction, which locks the records against changes until the end. Default: read in a snapshot. A
    /// snapshot blocks no writer, but reading fails if it takes so long that libtp has removed log which the snapshot
    /// needs (`snapshot_log` in libtp.toml).
    #[arg(long)]
    lock: bool,
}

/// The part of a database that is read, and the direction.
#[derive(Clone, Debug, Default)]
pub struct Range {
    /// The key at which reading begins, in the database's order. If the database does not have this key, reading begins
    /// at the next key in the direction of reading.
    pub from: Option<Key>,
    /// The key before which the reading ends.
    pub to: Option<Key>,
    /// Whether to read from the last key to the first.
    pub reverse: bool,
}

/// A record as a cursor returns it.
type Record = Option<(Key, Vec<u8>)>;

/// A cursor of any kind of database.
trait Cursor {
    fn first(&mut self) -> libtp::Result<Record>;
    fn last(&mut self) -> libtp::Result<Record>;
    /// Moves to `key`, or to the first key after it.
    fn seek(&mut self, key: &Key) -> libtp::Result<Record>;
    /// Moves to the first record of the next key.
    fn next_key(&mut self) -> libtp::Result<Record> {
        self.next()
    }
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
        let Key::Bytes(key) = key else { unreachable!("`Key::read` returns only a key of the database's kind") };
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
        let Key::Bytes(key) = key else { unreachable!("`Key::read` returns only a key of the database's kind") };
        Ok(libtp::MultiCursor::seek(self, key)?.map(by_key))
    }
    fn next_key(&mut self) -> libtp::Result<Record> {
        Ok(libtp::MultiCursor::next_key(self)?.map(by_key))
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
        let Key::Number(number) = key else { unreachable!("`Key::read` returns only a key of the database's kind") };
        Ok(libtp::RecnoCursor::seek(self, *number)?.map(by_number))
    }
    fn next(&mut self) -> libtp::Result<Record> {
        Ok(libtp::RecnoCursor::next(self)?.map(by_number))
    }
    fn prev(&mut self) -> libtp::Result<Record> {
        Ok(libtp::RecnoCursor::prev(self)?.map(by_number))
    }
}

impl<R: Reader> Cursor for libtp::ListCursor<'_, R> {
    fn first(&mut self) -> libtp::Result<Record> {
        Ok(libtp::ListCursor::first(self)?.map(by_number))
    }
    fn last(&mut self) -> libtp::Result<Record> {
        Ok(libtp::ListCursor::last(self)?.map(by_number))
    }
    fn seek(&mut self, key: &Key) -> libtp::Result<Record> {
        let Key::Number(number) = key else { unreachable!("`Key::read` returns only a key of the database's kind") };
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

/// Calls `each` with every record of the range, in order, until `each` returns false. The records show one moment:
/// `each` sees either all changes of another transaction, or none of its changes.
pub fn each_record(
    env: &Env,
    database: &Database,
    (range, reading): (&Range, Reading),
    each: &mut dyn FnMut(&Key, &[u8]) -> Result<bool>,
) -> Result<()> {
    if !reading.lock {
        return read(&env.snapshot()?, database, range, each);
    }
    let txn = env.begin()?;
    read(&txn, database, range, each)?;
    Ok(txn.commit()?)
}

fn read(
    reader: &impl Reader,
    database: &Database,
    range: &Range,
    each: &mut dyn FnMut(&Key, &[u8]) -> Result<bool>,
) -> Result<()> {
    let mut work = |cursor: &mut dyn Cursor, order| Walk { range, order }.walk(cursor, each);
    match database {
        Database::Hash(db) => {
            range.refuse_order(db.name())?;
            work(&mut db.cursor(reader), None)
        }
        Database::Btree(db) => work(&mut db.cursor(reader), db.order_name().and_then(order::by_name)),
        Database::Multi(db) | Database::Index(db) => {
            work(&mut db.cursor(reader), db.order_name().and_then(order::by_name))
        }
        Database::Recno(db) => work(&mut db.cursor(reader), None),
        Database::List(db) => work(&mut db.cursor(reader), None),
    }
}

/// A walk through a part of a database.
struct Walk<'r> {
    range: &'r Range,
    /// The order of the keys, if it is not the order of their bytes.
    order: Option<Arc<dyn Order>>,
}

impl Walk<'_> {
    fn walk(&self, cursor: &mut dyn Cursor, each: &mut dyn FnMut(&Key, &[u8]) -> Result<bool>) -> Result<()> {
        let mut record = self.begin(cursor)?;
        while let Some((key, value)) = record {
            if self.is_past_the_end(&key) || !each(&key, &value)? {
                break;
            }
            record = if self.range.reverse { cursor.prev()? } else { cursor.next()? };
        }
        Ok(())
    }

    fn begin(&self, cursor: &mut dyn Cursor) -> Result<Record> {
        let record = match (&self.range.from, self.range.reverse) {
            (None, false) => cursor.first()?,
            (None, true) => cursor.last()?,
            (Some(from), false) => cursor.seek(from)?,
            (Some(from), true) => {
                let mut after = cursor.seek(from)?;
                if after.as_ref().is_some_and(|(key, _)| self.compare(key, from).is_eq()) {
                    after = cursor.next_key()?;
                }
                match after {
                    Some(_) => cursor.prev()?,
                    None => cursor.last()?,
                }
            }
        };
        Ok(record)
    }

    fn is_past_the_end(&self, key: &Key) -> bool {
        let Some(to) = &self.range.to else { return false };
        match self.range.reverse {
            true => self.compare(key, to).is_le(),
            false => self.compare(key, to).is_ge(),
        }
    }

    /// Compares two keys in the database's order.
    fn compare(&self, one: &Key, other: &Key) -> Ordering {
        let (Some(order), Key::Bytes(one), Key::Bytes(other)) = (&self.order, one, other) else {
            return one.cmp(other);
        };
        let (mut encoded, mut other_encoded) = (Vec::new(), Vec::new());
        order.encode(one, &mut encoded);
        order.encode(other, &mut other_encoded);
        encoded.cmp(&other_encoded)
    }
}

impl Range {
    /// Refuses a range of a hash file, whose keys have no order.
    fn refuse_order(&self, name: &str) -> Result<()> {
        match self.from.is_some() || self.to.is_some() || self.reverse {
            false => Ok(()),
            true => Err(Failure::Usage(format!(
                "{name} is a hash file, whose keys have no order, so it is always read from its first record on; leave out the key, --to and --reverse"
            ))),
        }
    }
}

//! DB_BTREE and DB_HASH: the flags of db(3), over any store of pairs.
//!
//! The manual pages are dbopen(3), btree(3) and hash(3). A `Place` names a pair by its bytes, not by its position in
//! the file. So in all modes, if the pair at a cursor is deleted, the cursor is between the pair's neighbours.

use std::ffi::c_int;

use crate::db::flags::{check_none, unknown, R_CURSOR, R_FIRST, R_LAST, R_NEXT, R_NOOVERWRITE, R_PREV, R_SETCURSOR};
use crate::db::refusal::{Answer, Refusal};

/// Bytes that distinguish one pair from all others. Only the store knows their meaning.
pub(crate) type Place = Vec<u8>;

/// A pair that was found.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) place: Place,
    pub(crate) key: Vec<u8>,
    pub(crate) value: Vec<u8>,
}

/// The pair to seek.
#[derive(Clone, Copy, Debug)]
pub(crate) enum SeekTo<'a> {
    First,
    Last,
    /// The first value of the first key that is equal to this key or greater.
    From(&'a [u8]),
    Behind(&'a Place),
    Before(&'a Place),
}

/// A store of pairs. Each call is either completed or changes nothing.
pub(crate) trait Pairs: Send {
    /// Returns the first value of a key.
    fn get(&mut self, key: &[u8]) -> Answer<Option<Vec<u8>>>;
    /// Stores a pair. If the store has duplicates, keeps the key's other values; otherwise replaces the key's value.
    /// Returns `None`, and changes nothing, if `is_new` and the key exists.
    fn put(&mut self, key: &[u8], value: &[u8], is_new: bool) -> Answer<Option<Place>>;
    /// Replaces the pair at a place. Returns the place of the new pair, or `None` if the old pair was removed.
    fn put_at(&mut self, place: &Place, key: &[u8], value: &[u8]) -> Answer<Option<Place>>;
    /// Removes a key with all its values. Returns whether the key existed.
    fn delete(&mut self, key: &[u8]) -> Answer<bool>;
    /// Removes one pair. Returns whether the pair existed.
    fn delete_at(&mut self, place: &Place) -> Answer<bool>;
    fn seek(&mut self, sought: SeekTo<'_>) -> Answer<Option<Found>>;
    fn sync(&mut self) -> Answer<()>;
    /// Returns a descriptor of the file. The descriptor stays open until the store is dropped.
    fn descriptor(&mut self) -> Answer<c_int>;
}

/// An open DB_BTREE or DB_HASH.
pub(crate) struct Keyed {
    pub(crate) pairs: Box<dyn Pairs>,
    pub(crate) is_hash: bool,
    pub(crate) is_read_only: bool,
    /// The place of the cursor.
    cursor: Option<Place>,
}

impl Keyed {
    pub(crate) fn new(pairs: Box<dyn Pairs>, is_hash: bool, is_read_only: bool) -> Keyed {
        Keyed { pairs, is_hash, is_read_only, cursor: None }
    }

    fn check_writable(&self) -> Answer<()> {
        match self.is_read_only {
            true => Err(Refusal::read_only()),
            false => Ok(()),
        }
    }

    fn standing(&self) -> Answer<&Place> {
        self.cursor
            .as_ref()
            .ok_or_else(|| Refusal::invalid("R_CURSOR was given, and no seq has set the cursor: call seq first"))
    }

    pub(crate) fn get(&mut self, key: &[u8], flags: u32) -> Answer<Option<Vec<u8>>> {
        check_none("get", flags)?;
        self.pairs.get(key)
    }

    /// Stores a pair and returns whether it was stored.
    pub(crate) fn put(&mut self, key: &[u8], value: &[u8], flags: u32) -> Answer<bool> {
        match flags {
            0 | R_NOOVERWRITE => {}
            R_CURSOR | R_SETCURSOR if !self.is_hash => {}
            other => return Err(unknown("put", other)),
        }
        self.check_writable()?;
        let place = match flags {
            R_CURSOR => {
                let gone = || Refusal::invalid("the pair at the cursor was deleted; nothing was changed");
                let place = self.standing()?.clone();
                Some(self.pairs.put_at(&place, key, value)?.ok_or_else(gone)?)
            }
            _ => self.pairs.put(key, value, flags == R_NOOVERWRITE)?,
        };
        if place.is_some() && matches!(flags, R_CURSOR | R_SETCURSOR) {
            self.cursor.clone_from(&place);
        }
        Ok(place.is_some())
    }

    /// Deletes a key, or the pair at the cursor. Returns whether the key or the pair existed.
    pub(crate) fn delete(&mut self, key: &[u8], flags: u32) -> Answer<bool> {
        match flags {
            0 => {
                self.check_writable()?;
                self.pairs.delete(key)
            }
            R_CURSOR => {
                self.check_writable()?;
                let place = self.standing()?.clone();
                self.pairs.delete_at(&place)
            }
            other => Err(unknown("del", other)),
        }
    }

    pub(crate) fn seek(&mut self, key: &[u8], flags: u32) -> Answer<Option<(Vec<u8>, Vec<u8>)>> {
        let sought = match (flags, &self.cursor) {
            (R_LAST | R_PREV | R_CURSOR, _) if self.is_hash => return Err(unknown("seq", flags)),
            (R_FIRST, _) | (R_NEXT, None) => SeekTo::First,
            (R_NEXT, Some(place)) => SeekTo::Behind(place),
            (R_LAST, _) | (R_PREV, None) => SeekTo::Last,
            (R_PREV, Some(place)) => SeekTo::Before(place),
            (R_CURSOR, _) => SeekTo::From(key),
            (other, _) => return Err(unknown("seq", other)),
        };
        let found = self.pairs.seek(sought)?;
        Ok(found.map(|found| {
            self.cursor = Some(found.place);
            (found.key, found.value)
        }))
    }

    pub(crate) fn sync(&mut self, flags: u32) -> Answer<()> {
        check_none("sync", flags)?;
        match self.is_read_only {
            true => Ok(()),
            false => self.pairs.sync(),
        }
    }
}

#[cfg(test)]
mod tests;

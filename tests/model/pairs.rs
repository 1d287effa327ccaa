//! Changes of key-value pairs in a database and in its model.

use std::collections::BTreeMap;

use libtp::{Db, Error, Txn};

use crate::life::{agree, failed, Outcome};

/// The model of a database of pairs.
pub type Map = BTreeMap<Vec<u8>, Vec<u8>>;

/// Returns the result of a change of a part of a value: `None` if there is no such record, `Some(None)` if the part is
/// not inside the value.
pub fn parted<T>(done: libtp::Result<Option<T>>) -> Outcome<Option<Option<T>>> {
    match done {
        Err(Error::Length { .. }) => Ok(Some(None)),
        done => Ok(done.map_err(failed("a change of a part"))?.map(Some)),
    }
}

/// A database of pairs that is compared with a model.
pub struct Pairs {
    pub db: Db,
    pub page_bytes: usize,
}

impl Pairs {
    pub fn put(&self, txn: &Txn<'_>, key: Vec<u8>, value: Vec<u8>, model: &mut Map) -> Outcome<()> {
        self.db.put(txn, &key, &value).map_err(failed("put"))?;
        model.insert(key, value);
        Ok(())
    }

    pub fn put_new(&self, txn: &Txn<'_>, key: Vec<u8>, value: Vec<u8>, model: &mut Map) -> Outcome<()> {
        let is_refused = match self.db.put_new(txn, &key, &value) {
            Err(Error::Exists) => true,
            done => done.map(|()| false).map_err(failed("put_new"))?,
        };
        agree("put_new refused", is_refused, model.contains_key(&key))?;
        model.entry(key).or_insert(value);
        Ok(())
    }

    /// Changes the first byte of the value.
    pub fn update(&self, txn: &Txn<'_>, key: &[u8], byte: u8, model: &mut Map) -> Outcome<()> {
        let change = |value: &mut [u8]| {
            if let Some(first) = value.first_mut() {
                *first ^= byte;
            }
            value.len()
        };
        let found = self.db.update_with(txn, key, change).map_err(failed("update"))?;
        agree("update", found, model.get_mut(key).map(|value| change(value)))
    }

    /// Stores two bytes into the value at `offset`.
    pub fn update_part(&self, txn: &Txn<'_>, key: &[u8], (offset, byte): (u16, u8), model: &mut Map) -> Outcome<()> {
        let (offset, bytes) = (usize::from(offset), [byte, !byte]);
        let done = parted(self.db.update_part(txn, key, offset, &bytes).map(|is_there| is_there.then_some(())))?;
        let wanted = model.get_mut(key).map(|value| {
            value.get_mut(offset..)?.get_mut(..2)?.copy_from_slice(&bytes);
            Some(())
        });
        agree("update_part", done, wanted)
    }

    /// Adds to the number in the value at `offset`.
    pub fn add(&self, txn: &Txn<'_>, key: &[u8], (offset, byte): (u16, u8), model: &mut Map) -> Outcome<()> {
        let (offset, amount) = (usize::from(offset), i64::from(byte) - 100);
        let done = parted(self.db.add(txn, key, offset, amount))?;
        let wanted = model.get_mut(key).map(|value| {
            let number = value.get_mut(offset..)?.first_chunk_mut()?;
            *number = i64::from_le_bytes(*number).wrapping_add(amount).to_le_bytes();
            Some(i64::from_le_bytes(*number))
        });
        agree("add", done, wanted)
    }

    pub fn delete(&self, txn: &Txn<'_>, key: &[u8], model: &mut Map) -> Outcome<()> {
        let was_there = self.db.delete(txn, key).map_err(failed("delete"))?;
        agree("delete", was_there, model.remove(key).is_some())
    }

    pub fn get_many(&self, txn: &Txn<'_>, keys: &[Vec<u8>], model: &Map) -> Outcome<()> {
        keys.iter().take(1).try_for_each(|key| self.db.prefetch(txn, key)).map_err(failed("prefetch"))?;
        let found = self.db.get_many(txn, keys).map_err(failed("get_many"))?;
        agree("get_many: same values", found.iter().map(Option::as_ref).eq(keys.iter().map(|key| model.get(key))), true)
    }

    pub fn get(&self, txn: &Txn<'_>, key: &[u8], is_for_update: bool, model: &Map) -> Outcome<()> {
        let found = if is_for_update { self.db.get_for_update(txn, key) } else { self.db.get(txn, key) };
        let (found, wanted) = (found.map_err(failed("get"))?, model.get(key));
        agree("get: length", found.as_ref().map(Vec::len), wanted.map(Vec::len))?;
        agree("get: same bytes", found.as_ref() == wanted, true)
    }
}

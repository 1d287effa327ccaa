//! Reads and changes of records.

use super::{Answer, Edit, Process, Running, Trouble, Way, LINES, LISTS, SETS};
use crate::oracle::{cell_number, Place, Table, Value};
use libtp::{Db, Error, Txn};

impl Process {
    /// Reads a record.
    ///
    /// # Errors
    /// The errors of reading.
    pub fn get(&self, txn: &Running<'_>, place: &Place) -> Answer<Option<Value>> {
        let found = match place {
            (Table::Tree(SETS), place) => {
                let (key, value) = of_set(place);
                let values = self.multi(SETS)?.values(&txn.0, key)?;
                values.iter().any(|one| one == value).then(Vec::new)
            }
            (Table::Tree(LISTS), key) => {
                let values = self.multi(LISTS)?.values(&txn.0, key)?;
                let listed = values.iter().flat_map(|value| [&value[..], b"\n"]).collect::<Vec<_>>().concat();
                (!values.is_empty()).then_some(listed)
            }
            (Table::Tree(LINES), _) => self.lines(txn, Way::Up)?,
            (Table::Tree(tree), key) => self.tree(tree)?.get(&txn.0, key)?,
            (Table::Cells, number) => self.cells()?.get(&txn.0, cell_number(number))?,
        };
        Ok(found.map(Value::from))
    }

    /// Writes a record; a cell must exist already.
    ///
    /// # Errors
    /// The errors of writing.
    pub fn put(&self, txn: &Running<'_>, place: &Place, value: &[u8]) -> Answer<()> {
        match place {
            (Table::Tree(SETS), place) => {
                let (key, value) = of_set(place);
                self.multi(SETS)?.put(&txn.0, key, value)?;
            }
            // The value is added as the last value of the key.
            (Table::Tree(LISTS), key) => drop(self.multi(LISTS)?.put(&txn.0, key, value)?),
            (Table::Tree(tree), key) => self.tree(tree)?.put(&txn.0, key, value)?,
            (Table::Cells, number) => self.cells()?.put(&txn.0, cell_number(number), value)?,
        }
        Ok(())
    }

    /// Returns all records of the list as one value; `None` if there are no records.
    pub(super) fn lines(&self, txn: &Running<'_>, way: Way) -> Answer<Option<Vec<u8>>> {
        let list = self.env.list(LINES)?;
        let (mut cursor, mut lines) = (list.cursor(&txn.0), Vec::new());
        while let Some((_, line)) = if way == Way::Up { cursor.next()? } else { cursor.prev()? } {
            lines.push([&line[..], b"\n"].concat());
        }
        if way == Way::Down {
            lines.reverse();
        }
        Ok((!lines.is_empty()).then(|| lines.concat()))
    }

    /// Changes the list.
    ///
    /// # Errors
    /// The errors of writing.
    pub fn edit(&self, txn: &Running<'_>, edit: &Edit) -> Answer<()> {
        let list = self.env.list(LINES)?;
        match edit {
            Edit::Append(line) => drop(list.append(&txn.0, line)?),
            Edit::Insert(number, line) => drop(list.insert_before(&txn.0, *number, line)?),
            Edit::Replace(number, line) => list.put(&txn.0, *number, line)?,
            Edit::Delete(first, end) => {
                for _ in *first..*end {
                    list.delete(&txn.0, *first)?;
                }
            }
        }
        Ok(())
    }

    /// Writes a record of a tree unless its key exists; returns false if the key exists.
    ///
    /// # Errors
    /// The errors of writing.
    pub fn put_new(&self, txn: &Running<'_>, tree: &'static str, key: &[u8], value: &[u8]) -> Answer<bool> {
        match self.tree(tree)?.put_new(&txn.0, key, value) {
            Ok(()) => Ok(true),
            Err(Error::Exists) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Removes a record; returns false if the record did not exist.
    ///
    /// # Errors
    /// The errors of removing.
    pub fn delete(&self, txn: &Running<'_>, place: &Place) -> Answer<bool> {
        Ok(match place {
            (Table::Tree(SETS), place) => {
                let (key, value) = of_set(place);
                self.multi(SETS)?.delete_value(&txn.0, key, value)?
            }
            (Table::Tree(LISTS), key) => self.multi(LISTS)?.delete(&txn.0, key)? > 0,
            (Table::Tree(tree), key) => self.tree(tree)?.delete(&txn.0, key)?,
            (Table::Cells, number) => self.cells()?.delete(&txn.0, cell_number(number))?,
        })
    }

    /// Counts the records of a tree from one key up to another.
    ///
    /// # Errors
    /// The errors of reading.
    pub fn count(&self, txn: &Running<'_>, tree: &'static str, keys: std::ops::Range<&[u8]>) -> Answer<u64> {
        Ok(self.tree(tree)?.count(&txn.0, keys)?)
    }

    /// Removes the records of a tree from one key up to another; returns their number.
    ///
    /// # Errors
    /// The errors of removing.
    pub fn delete_range(&self, txn: &Running<'_>, tree: &'static str, keys: std::ops::Range<&[u8]>) -> Answer<u64> {
        Ok(self.tree(tree)?.delete_range(&txn.0, keys)?)
    }

    /// Adds a cell and returns its number.
    ///
    /// # Errors
    /// The errors of writing.
    pub fn append(&self, txn: &Running<'_>, value: &[u8]) -> Answer<u64> {
        Ok(self.cells()?.append(&txn.0, value)?)
    }

    /// Reads up to `limit` records of a tree. Begins at `from` or, if there is no such key, at the next key in the
    /// given direction; without `from`, at the first or last key.
    ///
    /// # Errors
    /// The errors of reading.
    pub fn scan(
        &self,
        txn: &Running<'_>,
        tree: &'static str,
        from: Option<&[u8]>,
        way: Way,
        limit: usize,
    ) -> Answer<Vec<(Vec<u8>, Value)>> {
        let tree = self.tree(tree)?;
        if tree.is_hash() {
            return Ok(part_of(everything(&tree, &txn.0)?, from, way, limit));
        }
        let mut cursor = tree.cursor(&txn.0);
        let mut found: Vec<(Vec<u8>, Value)> = Vec::new();
        let mut at = match (from, way) {
            (Some(key), Way::Up) => cursor.seek(key)?,
            (Some(key), Way::Down) => match cursor.seek(key)? {
                Some(pair) if pair.0 == key => Some(pair),
                Some(_) => cursor.prev()?,
                None => cursor.last()?,
            },
            (None, Way::Up) => cursor.first()?,
            (None, Way::Down) => cursor.last()?,
        };
        while let Some((key, value)) = at {
            if let Some((last, _)) = found.last().filter(|(last, _)| *last == key || (*last < key) != (way == Way::Up))
            {
                let (last, key) = (String::from_utf8_lossy(last), String::from_utf8_lossy(&key));
                return Err(Trouble::Disorder(format!("a scan {way:?} went from {last} to {key}")));
            }
            found.push((key, Value::from(value)));
            if found.len() == limit {
                break;
            }
            at = match way {
                Way::Up => cursor.next()?,
                Way::Down => cursor.prev()?,
            };
        }
        Ok(found)
    }

    /// Returns every place of the database of sets or of lists, with its value.
    pub(super) fn state_of_multi(
        &self,
        txn: &Running<'_>,
        name: &'static str,
        way: Way,
    ) -> Answer<Vec<(Place, Value)>> {
        let multi = self.multi(name)?;
        let mut cursor = multi.cursor(&txn.0);
        let mut pairs = Vec::new();
        while let Some(pair) = if way == Way::Up { cursor.next()? } else { cursor.prev()? } {
            pairs.push(pair);
        }
        if way == Way::Down {
            pairs.reverse();
        }
        let mut places: Vec<(Place, Vec<u8>)> = Vec::new();
        for (key, value) in pairs {
            let place = if name == SETS { [&key[..], b"|", &value].concat() } else { key };
            let listed = if name == SETS { Vec::new() } else { [&value[..], b"\n"].concat() };
            match places.last_mut() {
                Some(last) if last.0 .1 == place => last.1.extend(listed),
                _ => places.push(((Table::Tree(name), place), listed)),
            }
        }
        Ok(places.into_iter().map(|(place, value)| (place, Value::from(value))).collect())
    }
}

/// Splits a place of the sets into key and value.
fn of_set(place: &[u8]) -> (&[u8], &[u8]) {
    let bar = place.iter().position(|&byte| byte == b'|').unwrap_or(place.len());
    (&place[..bar], place.get(bar + 1..).unwrap_or_default())
}

/// Returns every record of a hash file, in the order of the file.
fn everything(hash: &Db, txn: &Txn<'_>) -> Answer<Vec<(Vec<u8>, Value)>> {
    let (mut cursor, mut all) = (hash.cursor(txn), Vec::new());
    let mut at = cursor.first()?;
    while let Some((key, value)) = at {
        all.push((key, Value::from(value)));
        at = cursor.next()?;
    }
    Ok(all)
}

/// Returns the records that a scan in key order would have found.
fn part_of(mut all: Vec<(Vec<u8>, Value)>, from: Option<&[u8]>, way: Way, limit: usize) -> Vec<(Vec<u8>, Value)> {
    all.sort();
    match (from, way) {
        (Some(from), Way::Up) => all.retain(|(key, _)| &key[..] >= from),
        (Some(from), Way::Down) => all.retain(|(key, _)| &key[..] <= from),
        (None, _) => {}
    }
    if way == Way::Down {
        all.reverse();
    }
    all.truncate(limit);
    all
}

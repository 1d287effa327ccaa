//! Compares a copy with its original: the schema, and for each table the number of rows and a sum over all rows.
//!
//! The sum adds the hashes of the rows, so the order in which rows are read does not matter. The hash of a row covers
//! the type and the bytes of each value.

use std::hash::{DefaultHasher, Hasher};

use libtp_console::failure::{Failure, Result};

use crate::rusqlite::types::ValueRef;
use crate::rusqlite::{Connection, Row};
use crate::sentence;
use crate::tables::Table;

/// The number of rows of a table, and the sum of their hashes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    /// The number of rows.
    pub rows: u64,
    hashes: u64,
}

impl Sum {
    /// Adds a row. Returns the total length of its values in bytes.
    pub fn add(&mut self, row: &Row<'_>, width: usize) -> std::result::Result<u64, crate::rusqlite::Error> {
        let (mut hasher, mut length) = (DefaultHasher::new(), 0);
        for column in 0..width {
            let value = row.get_ref(column)?;
            let (kind, bytes): (u8, &[u8]) = match &value {
                ValueRef::Null => (0, &[]),
                ValueRef::Integer(number) => (1, &number.to_le_bytes()),
                ValueRef::Real(number) => (2, &number.to_bits().to_le_bytes()),
                ValueRef::Text(bytes) => (3, bytes),
                ValueRef::Blob(bytes) => (4, bytes),
            };
            hasher.write_u8(kind);
            hasher.write_usize(bytes.len());
            hasher.write(bytes);
            length += bytes.len() as u64;
        }
        self.rows += 1;
        self.hashes = self.hashes.wrapping_add(hasher.finish());
        Ok(length)
    }
}

/// Reads all rows of a table and returns their sum.
pub fn sum(connection: &Connection, table: &Table) -> Result<Sum> {
    let mut sum = Sum::default();
    let mut statement = connection.prepare(&table.select()).map_err(sentence)?;
    let mut rows = statement.query([]).map_err(sentence)?;
    while let Some(row) = rows.next().map_err(sentence)? {
        sum.add(row, table.columns.len()).map_err(sentence)?;
    }
    Ok(sum)
}

/// Compares a copy with its original. `read` has the tables of the original, with the sums computed during the copy.
///
/// # Errors
/// `Failed` if the copy differs. The text names the first table that differs, or the schema.
pub fn check(original: &Connection, copy: &Connection, read: &[(Table, Sum)]) -> Result<()> {
    for (table, expected) in read {
        let found = sum(copy, table)?;
        if found != *expected {
            return Err(Failure::Failed(format!(
                "the copy of table {} differs from the original: the copy has {} rows, and the original has {}. The copy was removed; the original is unchanged",
                table.name, found.rows, expected.rows
            )));
        }
    }
    match facts(original)? == facts(copy)? {
        true => Ok(()),
        false => Err(Failure::Failed(
            "the schema of the copy differs from the original. The copy was removed; the original is unchanged"
                .to_owned(),
        )),
    }
}

/// Returns the schema, and the header fields that programs set.
fn facts(connection: &Connection) -> Result<Vec<String>> {
    let sql = "SELECT format('%s %Q %Q %Q', type, name, tbl_name, sql) FROM main.sqlite_schema
        UNION ALL SELECT 'user_version ' || user_version FROM pragma_user_version
        UNION ALL SELECT 'application_id ' || application_id FROM pragma_application_id
        UNION ALL SELECT 'encoding ' || encoding FROM pragma_encoding ORDER BY 1";
    let mut statement = connection.prepare(sql).map_err(sentence)?;
    let rows = statement.query_map([], |row| row.get(0));
    rows.and_then(Iterator::collect::<std::result::Result<Vec<String>, _>>).map_err(sentence)
}

//! `.import`: adds the records of a CSV file to a table.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use libtp_console::failure::{Failure, Result};

use crate::rusqlite::{params_from_iter, Connection};
use crate::sentence;
use crate::tables::quoted;

/// The format of the file, and the records to skip.
pub struct Shape {
    /// The byte that separates two values.
    pub between: u8,
    /// The number of records to skip at the beginning.
    pub skips: u64,
}

/// Adds all records of a file to a table, or no record. Creates a missing table, whose columns the first record names.
/// Returns the number of added rows.
pub fn run(connection: &Connection, path: &Path, table: &str, shape: &Shape) -> Result<u64> {
    let name = path.display().to_string();
    let file = File::open(path).map_err(Failure::doing(format!("open {name}")))?;
    let mut records = csv::ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .delimiter(shape.between)
        .from_reader(BufReader::with_capacity(64 << 10, file));
    connection.execute_batch("SAVEPOINT tp_import").map_err(sentence)?;
    let done = add(connection, &mut records, table, shape)
        .map_err(|failure| Failure::Failed(format!("{name}: {failure}. No row was added")));
    let end = if done.is_ok() { "RELEASE tp_import" } else { "ROLLBACK TO tp_import; RELEASE tp_import" };
    let ended = connection.execute_batch(end).map_err(sentence);
    done.and_then(|rows| ended.map(|()| rows))
}

fn add(connection: &Connection, records: &mut csv::Reader<BufReader<File>>, table: &str, shape: &Shape) -> Result<u64> {
    let mut record = csv::StringRecord::new();
    let mut next = |record: &mut csv::StringRecord| -> Result<bool> {
        records.read_record(record).map_err(|error| Failure::Failed(error.to_string()))
    };
    for _ in 0..shape.skips {
        next(&mut record)?;
    }
    let mut width = width(connection, table)?;
    if width == 0 {
        if !next(&mut record)? {
            return Err(Failure::Failed(format!(
                "table {table} is missing, and the file has no record that names its columns"
            )));
        }
        let columns = record.iter().map(|name| format!("{} ANY", quoted(name))).collect::<Vec<String>>().join(", ");
        connection.execute_batch(&format!("CREATE TABLE {}({columns})", quoted(table))).map_err(sentence)?;
        width = record.len();
    }
    let values = vec!["?"; width].join(", ");
    let insert = format!("INSERT INTO {} VALUES ({values})", quoted(table));
    let mut statement = connection.prepare(&insert).map_err(sentence)?;
    let mut rows = 0;
    while next(&mut record)? {
        let line = record.position().map_or(0, csv::Position::line);
        if record.len() != width {
            let found = record.len();
            return Err(Failure::Failed(format!(
                "line {line} has {found} values, and table {table} has {width} columns"
            )));
        }
        let added = statement.execute(params_from_iter(record.iter())).map_err(sentence);
        added.map_err(|failure| Failure::Failed(format!("line {line}: {failure}")))?;
        rows += 1;
    }
    Ok(rows)
}

/// Returns the number of columns for which an INSERT needs values, or 0 for a missing table.
fn width(connection: &Connection, table: &str) -> Result<usize> {
    let sql = "SELECT count(*) FROM pragma_table_xinfo(?1) WHERE hidden = 0";
    let width: u16 = connection.query_row(sql, [table], |row| row.get(0)).map_err(sentence)?;
    Ok(usize::from(width))
}

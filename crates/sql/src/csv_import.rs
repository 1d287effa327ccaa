//! `.import`: the records of a file of comma-separated values become rows.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use libtp_console::failure::{Failure, Result};

use crate::rusqlite::{params_from_iter, Connection};
use crate::sentence;
use crate::tables::quoted;

/// How the file is read.
pub struct Shape {
    /// The byte between two values.
    pub between: u8,
    /// The number of records that are left out at the beginning.
    pub skips: u64,
}

/// Adds all records to a table, or none. A missing table is made, with the first record as the names of its columns.
/// Returns the number of rows.
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
            return Err(Failure::Failed(format!("there is no table {table}, and no record to name its columns")));
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

/// Returns the number of columns that an INSERT fills, 0 for a missing table.
fn width(connection: &Connection, table: &str) -> Result<usize> {
    let sql = "SELECT count(*) FROM pragma_table_xinfo(?1) WHERE hidden = 0";
    let width: u16 = connection.query_row(sql, [table], |row| row.get(0)).map_err(sentence)?;
    Ok(usize::from(width))
}

//! Copies a database, statement by statement and row by row, with its rowids.
//!
//! The order is that of VACUUM INTO: the tables, their rows, the indices, and then virtual tables, triggers and views.
//! The last three are copied as rows of the schema, so no function that a program defined is called. The shadow tables
//! of virtual tables are copied like all other tables.

use libtp_console::failure::{Failure, Result};
use libtp_console::progress::Progress;

use crate::comparison::Sum;
use crate::rusqlite::types::ToSqlOutput;
use crate::rusqlite::{Connection, Error, Row, Statement, ToSql};
use crate::sentence;
use crate::tables::{self, Table};

/// A transaction of the copy is committed after this number of rows, because the transaction locks each row.
const ROWS_MAX: u64 = 20_000;
/// A transaction of the copy is also committed after this number of bytes.
const BYTES_MAX: u64 = 4 << 20;

/// Copies the database `from` into the empty database `to`. Returns the tables with the sums of their rows.
/// `shows`: whether to draw progress bars.
pub fn copy(from: &Connection, to: &Connection, shows: bool) -> Result<Vec<(Table, Sum)>> {
    let tables = tables::all(from)?;
    let encoding: String = from.query_row("PRAGMA main.encoding", [], |row| row.get(0)).map_err(sentence)?;
    // The constraints were checked when the rows were written to `from`. Only the last commit waits for the disk.
    run(
        to,
        &format!(
            "PRAGMA main.encoding = '{encoding}'; PRAGMA foreign_keys = OFF; PRAGMA ignore_check_constraints = ON;
            PRAGMA main.synchronous = OFF; PRAGMA writable_schema = ON"
        ),
    )?;
    run(to, "BEGIN")?;
    for table in &tables {
        if !(table.is_made_by_sqlite() && has(to, &table.name)?) {
            run(to, &table.sql).map_err(of(&table.name))?;
        }
    }
    run(to, "COMMIT")?;
    let bar = Progress::bytes(shows, "copying", bytes(from)?);
    let (mut copied, mut done) = (Vec::new(), 0);
    for table in tables {
        let sum = rows(from, to, &table, &bar, &mut done).map_err(of(&table.name))?;
        copied.push((table, sum));
    }
    drop(bar);
    schema(from, to, shows)?;
    Ok(copied)
}

fn run(connection: &Connection, sql: &str) -> Result<()> {
    connection.execute_batch(sql).map_err(sentence)
}

/// Returns a function that prefixes a failure with the name of a table or of another object.
fn of(table: &str) -> impl FnOnce(Failure) -> Failure + '_ {
    move |failure| Failure::Failed(format!("{table}: {failure}"))
}

fn has(connection: &Connection, table: &str) -> Result<bool> {
    let sql = "SELECT count(*) > 0 FROM main.sqlite_schema WHERE name = ?1";
    connection.query_row(sql, [table], |row| row.get(0)).map_err(sentence)
}

/// Returns the size of a database.
fn bytes(connection: &Connection) -> Result<u64> {
    let sql = "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size";
    let bytes: i64 = connection.query_row(sql, [], |row| row.get(0)).map_err(sentence)?;
    Ok(bytes.unsigned_abs())
}

/// A value of a row that is bound to another statement. The bytes of a text are copied even if they are not UTF-8.
struct Column<'r>(&'r Row<'r>, usize);

impl ToSql for Column<'_> {
    fn to_sql(&self) -> std::result::Result<ToSqlOutput<'_>, Error> {
        self.0.get_ref(self.1).map(ToSqlOutput::Borrowed)
    }
}

/// Copies the rows of a table. `done` counts the copied bytes, for the progress bar.
fn rows(from: &Connection, to: &Connection, table: &Table, bar: &Progress, done: &mut u64) -> Result<Sum> {
    if table.is_made_by_sqlite() {
        // SQLite has put rows into this table during the copy of other tables.
        run(to, &format!("DELETE FROM main.{}", tables::quoted(&table.name)))?;
    }
    let mut select = from.prepare(&table.select()).map_err(sentence)?;
    let mut insert = to.prepare(&table.insert()).map_err(sentence)?;
    let (mut sum, mut pending) = (Sum::default(), 0);
    run(to, "BEGIN")?;
    let mut rows = select.query([]).map_err(sentence)?;
    while let Some(row) = rows.next().map_err(sentence)? {
        pending += sum.add(row, table.columns.len()).map_err(sentence)?;
        put(&mut insert, row, table.columns.len()).map_err(sentence)?;
        if sum.rows % ROWS_MAX == 0 || pending > BYTES_MAX {
            run(to, "COMMIT; BEGIN")?;
            *done += std::mem::take(&mut pending);
            bar.set(*done);
        }
    }
    *done += pending;
    bar.set(*done);
    run(to, "COMMIT")?;
    Ok(sum)
}

fn put(insert: &mut Statement<'_>, row: &Row<'_>, width: usize) -> std::result::Result<(), Error> {
    for column in 0..width {
        insert.raw_bind_parameter(column + 1, Column(row, column))?;
    }
    insert.raw_execute().map(drop)
}

/// Creates the indices, and copies the schema rows of virtual tables, triggers and views. The last commit waits for the
/// disk, which makes all earlier commits durable, too.
fn schema(from: &Connection, to: &Connection, shows: bool) -> Result<()> {
    let list = |condition: &str| -> Result<Vec<(String, String, String, String)>> {
        let sql = format!("SELECT type, name, tbl_name, sql FROM main.sqlite_schema WHERE {condition} ORDER BY rowid");
        let mut statement = from.prepare(&sql).map_err(sentence)?;
        let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)));
        rows.and_then(Iterator::collect).map_err(sentence)
    };
    let indices = list("type = 'index' AND sql IS NOT NULL")?;
    let bar = Progress::count(shows, "making indices", indices.len() as u64);
    for (number, (_, name, _, sql)) in indices.iter().enumerate() {
        run(to, sql).map_err(of(name))?;
        bar.set(number as u64 + 1);
    }
    drop(bar);
    run(to, "PRAGMA main.synchronous = FULL; BEGIN")?;
    let insert = "INSERT INTO main.sqlite_schema(type, name, tbl_name, rootpage, sql) VALUES (?1, ?2, ?3, 0, ?4)";
    for (kind, name, table, sql) in
        list("type IN ('view', 'trigger') OR (type = 'table' AND coalesce(rootpage, 0) = 0)")?
    {
        to.execute(insert, [&kind, &name, &table, &sql]).map_err(sentence).map_err(of(&name))?;
    }
    for number in ["user_version", "application_id"] {
        let value: i64 = from.query_row(&format!("PRAGMA main.{number}"), [], |row| row.get(0)).map_err(sentence)?;
        run(to, &format!("PRAGMA main.{number} = {value}"))?;
    }
    run(to, "COMMIT; PRAGMA writable_schema = RESET")
}

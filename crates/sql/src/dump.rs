//! `.dump`: prints statements that recreate a database.

use std::io::Write;

use libtp_console::failure::Result;

use crate::rusqlite::Connection;
use crate::sentence;
use crate::sink::Sink;
use crate::tables::{self, quoted, Table};

/// Prints the statements for the tables in `names`, with their indices and triggers. If `names` is empty, prints the
/// statements for the whole database.
pub fn run(connection: &Connection, names: &[String], sink: &mut Sink<'_>) -> Result<()> {
    // All reads must be of one snapshot. An open transaction already has a snapshot.
    let begins = connection.is_autocommit();
    if begins {
        connection.execute_batch("BEGIN").map_err(sentence)?;
    }
    let done = print(connection, names, sink);
    if begins {
        connection.execute_batch("ROLLBACK").map_err(sentence)?;
    }
    done
}

fn print(connection: &Connection, names: &[String], sink: &mut Sink<'_>) -> Result<()> {
    let is_wanted = |name: &str| names.is_empty() || names.iter().any(|wanted| wanted.eq_ignore_ascii_case(name));
    let mut print_line = |text: &str| writeln!(sink, "{text}").map_err(|error| sink.failed(error));
    print_line("PRAGMA foreign_keys=OFF;\nBEGIN TRANSACTION;")?;
    let tables = tables::all(connection)?;
    let (own, of_sqlite): (Vec<Table>, Vec<Table>) =
        tables.into_iter().partition(|table| !table.name.starts_with("sqlite_"));
    let virtuals = rows_of_schema(connection, "type = 'table' AND coalesce(rootpage, 0) = 0")?;
    for table in own.iter().filter(|table| is_wanted(&table.name)) {
        print_line(&format!("{};", table.sql))?;
        print_rows(connection, table, &mut print_line)?;
    }
    // The rows of virtual tables are in shadow tables, which are printed above.
    if virtuals.iter().any(|row| is_wanted(&row.table)) {
        print_line("PRAGMA writable_schema=ON;")?;
        for row in virtuals.iter().filter(|row| is_wanted(&row.table)) {
            let name = row.table.replace('\'', "''");
            let sql = row.sql.replace('\'', "''");
            print_line(&format!("INSERT INTO sqlite_schema(type,name,tbl_name,rootpage,sql) VALUES('table','{name}','{name}',0,'{sql}');"))?;
        }
        print_line("PRAGMA writable_schema=RESET;")?;
    }
    for table in of_sqlite.iter().filter(|_| names.is_empty()) {
        // ANALYZE creates the tables for the planner's statistics.
        if !table.is_made_by_sqlite() {
            print_line("ANALYZE sqlite_schema;")?;
        }
        print_line(&format!("DELETE FROM {};", table.name))?;
        print_rows(connection, table, &mut print_line)?;
    }
    for row in rows_of_schema(connection, "type IN ('index', 'trigger', 'view')")? {
        if is_wanted(&row.table) {
            print_line(&format!("{};", row.sql))?;
        }
    }
    print_line("COMMIT;")
}

/// A row of `sqlite_schema`.
struct SchemaRow {
    table: String,
    sql: String,
}

fn rows_of_schema(connection: &Connection, condition: &str) -> Result<Vec<SchemaRow>> {
    let sql =
        format!("SELECT tbl_name, sql FROM main.sqlite_schema WHERE sql IS NOT NULL AND ({condition}) ORDER BY rowid");
    let mut statement = connection.prepare(&sql).map_err(sentence)?;
    let rows = statement.query_map([], |row| Ok(SchemaRow { table: row.get(0)?, sql: row.get(1)? }));
    rows.and_then(Iterator::collect).map_err(sentence)
}

fn print_rows(connection: &Connection, table: &Table, print_line: &mut impl FnMut(&str) -> Result<()>) -> Result<()> {
    let literals =
        table.columns.iter().map(|column| format!("quote({column})")).collect::<Vec<String>>().join("||','||");
    let sql = format!("SELECT {literals} FROM main.{} NOT INDEXED", quoted(&table.name));
    let head = format!("INSERT INTO {}({}) VALUES(", quoted(&table.name), table.columns.join(","));
    let mut statement = connection.prepare(&sql).map_err(sentence)?;
    let mut rows = statement.query([]).map_err(sentence)?;
    while let Some(row) = rows.next().map_err(sentence)? {
        let values: String = row.get(0).map_err(sentence)?;
        print_line(&format!("{head}{values});"))?;
    }
    Ok(())
}

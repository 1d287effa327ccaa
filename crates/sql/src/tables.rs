//! The tables of a database, and the statements that copy their rows together with the rowids.

use libtp_console::failure::Result;

use crate::rusqlite::Connection;
use crate::sentence;

/// SQLite's three names for the rowid. If a column has one of the names, this name means the column.
const ROWIDS: [&str; 3] = ["rowid", "_rowid_", "oid"];

/// A table that stores rows: a table of the program, a shadow table of a virtual table, or one of SQLite's own tables.
pub struct Table {
    /// The name.
    pub name: String,
    /// The statement that creates the table.
    pub sql: String,
    /// The names of the columns to copy, quoted. If the table has a rowid and no column is an alias of the rowid, the
    /// first name is the rowid's. Then follow the columns that are not generated.
    pub columns: Vec<String>,
}

/// Returns the tables in the order in which they were created.
pub fn all(connection: &Connection) -> Result<Vec<Table>> {
    let listed = "SELECT s.name, s.sql, l.wr FROM main.sqlite_schema s LEFT JOIN pragma_table_list l
        ON l.schema = 'main' AND l.name = s.name WHERE s.type = 'table' AND s.rootpage > 0 ORDER BY s.rowid";
    let mut statement = connection.prepare(listed).map_err(sentence)?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get::<_, Option<bool>>(2)?)));
    let rows = rows.and_then(Iterator::collect::<std::result::Result<Vec<(String, String, Option<bool>)>, _>>);
    let mut tables = Vec::new();
    for (name, sql, is_without_rowid) in rows.map_err(sentence)? {
        let columns = columns(connection, &name, is_without_rowid.unwrap_or(false))?;
        tables.push(Table { name, sql, columns });
    }
    Ok(tables)
}

fn columns(connection: &Connection, table: &str, is_without_rowid: bool) -> Result<Vec<String>> {
    let named = "SELECT name, hidden, pk FROM pragma_table_xinfo(?1, 'main')";
    let mut statement = connection.prepare(named).map_err(sentence)?;
    let rows = statement.query_map([table], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)));
    let all = rows.and_then(Iterator::collect::<std::result::Result<Vec<(String, i64, i64)>, _>>).map_err(sentence)?;
    // A primary key without an index is an alias of the rowid.
    let has_index = "SELECT count(*) > 0 FROM pragma_index_list(?1, 'main') WHERE origin = 'pk'";
    let has_index: bool = connection.query_row(has_index, [table], |row| row.get(0)).map_err(sentence)?;
    let has_name = !has_index && all.iter().any(|(_, _, key)| *key > 0);
    let is_free = |rowid: &&&str| !all.iter().any(|(name, ..)| name.eq_ignore_ascii_case(rowid));
    let rowid = ROWIDS.iter().find(is_free).filter(|_| !is_without_rowid && !has_name);
    let rowid = rowid.map(|rowid| (*rowid).to_owned());
    // A generated column is not copied: the copy's table computes the values.
    let stored = all.iter().filter(|(_, hidden, _)| *hidden == 0).map(|(name, ..)| quoted(name));
    Ok(rowid.into_iter().chain(stored).collect())
}

impl Table {
    /// Returns the statement that reads all rows.
    pub fn select(&self) -> String {
        format!("SELECT {} FROM main.{} NOT INDEXED", self.columns.join(", "), quoted(&self.name))
    }

    /// Returns the statement that inserts a row.
    pub fn insert(&self) -> String {
        let values = vec!["?"; self.columns.len()].join(", ");
        format!("INSERT INTO main.{}({}) VALUES ({values})", quoted(&self.name), self.columns.join(", "))
    }

    /// Returns whether SQLite itself creates the table, together with the first AUTOINCREMENT table.
    pub fn is_made_by_sqlite(&self) -> bool {
        self.name == "sqlite_sequence"
    }
}

/// Returns a name, quoted for SQL.
pub fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

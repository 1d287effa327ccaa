//! Runs the real `tp-sql` and checks its output and its exit code.
#![allow(dead_code)] // Each test file is a separate program, and uses only a part of this module.

#[path = "../../../cli/tests/tp/finished.rs"]
mod finished;

use std::path::Path;
use std::process::Command;

use libtp_sqlite::rusqlite::types::Value;
use libtp_sqlite::rusqlite::Connection;

pub use finished::{run, Finished};

/// Returns a command that runs `tp-sql` with arguments in a directory.
pub fn command(directory: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tp-sql"));
    command.args(words).current_dir(directory).env_remove("LIBTP_SQLITE");
    command
}

/// Runs `tp-sql` with arguments in a directory.
pub fn sql(directory: &Path, words: &[&str]) -> Finished {
    run(command(directory, words), b"")
}

/// Runs `tp-sql` with arguments in a directory, with statements on standard input.
pub fn sql_reading(directory: &Path, words: &[&str], input: &str) -> Finished {
    run(command(directory, words), input.as_bytes())
}

/// Opens a database in this process.
pub fn open(directory: &Path, name: &str) -> Connection {
    Connection::open(directory.join(name)).unwrap()
}

/// Returns the rows of a statement.
pub fn rows(connection: &Connection, sql: &str) -> Vec<Vec<Value>> {
    let mut statement = connection.prepare(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    let width = statement.column_count();
    let rows = statement.query_map([], |row| (0..width).map(|column| row.get(column)).collect()).unwrap();
    rows.map(Result::unwrap).collect()
}

/// Statements that create most kinds of objects that a database can contain.
pub const EVERYTHING: &str = r#"
    PRAGMA user_version = 7; PRAGMA application_id = 99;
    CREATE TABLE plain(a, b); INSERT INTO plain(rowid, a, b) VALUES (5, 1, 'x'), (90, 2.5, x'00ff'), (91, NULL, ''), (92, 9e999, 1);
    CREATE TABLE auto(id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT UNIQUE);
    INSERT INTO auto(name) VALUES ('a'), ('b'), ('c'); DELETE FROM auto WHERE id = 3;
    CREATE TABLE backwards(id INTEGER PRIMARY KEY DESC, v); INSERT INTO backwards(rowid, id, v) VALUES (8, 1, 'v');
    CREATE TABLE keyed(k TEXT PRIMARY KEY, v, x INT) WITHOUT ROWID; INSERT INTO keyed VALUES ('k1', 1, 2), ('k2', NULL, 3);
    CREATE TABLE made(a INT, b INT AS (a * 2) STORED, c INT AS (a + 1)); INSERT INTO made(a) VALUES (1), (2);
    CREATE TABLE strict(a INT, b TEXT) STRICT; INSERT INTO strict VALUES (1, 'z');
    CREATE TABLE checked(a CHECK (a > 0), b REFERENCES auto(id)); INSERT INTO checked VALUES (1, 77);
    CREATE TABLE "odd ""name"(rowid, "select" TEXT); INSERT INTO "odd ""name" VALUES ('r', 's');
    CREATE INDEX plain_b ON plain(b DESC); CREATE UNIQUE INDEX made_c ON made(c); CREATE INDEX plain_a ON plain(a + 1) WHERE a > 0;
    CREATE VIEW seen AS SELECT a FROM plain; CREATE VIEW broken AS SELECT * FROM missing;
    CREATE TRIGGER noted AFTER INSERT ON plain BEGIN INSERT INTO strict VALUES (2, 't'); END;
    CREATE VIRTUAL TABLE words USING fts5(body); INSERT INTO words VALUES ('hello world'), ('other words');
    CREATE VIRTUAL TABLE boxes USING rtree(id, x0, x1); INSERT INTO boxes VALUES (1, 2, 3);
    ANALYZE;
"#;

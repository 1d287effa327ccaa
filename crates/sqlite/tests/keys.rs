//! Are keys of indices found, and are they in SQLite's order?
#![allow(clippy::unwrap_used)] // The whole file is tests.

mod sql;

use sql::Connection;

/// An environment and a file.
fn both() -> (tempfile::TempDir, [Connection; 2]) {
    let directory = tempfile::tempdir().unwrap();
    let connections = ["one.tp", "two.db"].map(|name| Connection::open(&directory.path().join(name)));
    (directory, connections)
}

#[track_caller]
fn assert_alike(connections: &[Connection; 2], statements: &[&str]) {
    for statement in statements {
        let [ours, stock] = [0, 1].map(|place| connections[place].run(statement).map_err(|failure| failure.code));
        assert_eq!(ours, stock, "{statement}");
    }
}

#[test]
fn a_text_with_a_zero_byte_is_compared_as_sqlite_compares_it() {
    let (_directory, connections) = both();
    assert_alike(
        &connections,
        &[
            "CREATE TABLE t(k TEXT COLLATE NOCASE UNIQUE)",
            "INSERT INTO t VALUES ('ab'), ('a' || char(0) || 'b'), ('abc'), ('a'), ('a' || char(0) || 'bcd'), ('a' || char(0))",
            "INSERT INTO t VALUES ('A' || char(0) || 'z')",
            "SELECT hex(k) FROM t INDEXED BY sqlite_autoindex_t_1 ORDER BY k",
            "SELECT hex(k) FROM t INDEXED BY sqlite_autoindex_t_1 WHERE k > 'a' || char(0) || 'x' ORDER BY k",
            "SELECT count(*) FROM t WHERE k = 'A' || char(0) || 'Y'",
            "PRAGMA integrity_check",
        ],
    );
}

#[test]
fn a_search_for_a_long_key_finds_its_neighbours() {
    let (_directory, connections) = both();
    assert_alike(
        &connections,
        &[
            "CREATE TABLE t(k TEXT); CREATE INDEX i ON t(k); CREATE TABLE w(k TEXT PRIMARY KEY, v) WITHOUT ROWID",
            "INSERT INTO t VALUES ('a'), ('b'), ('bb'), ('c'); INSERT INTO w VALUES ('a', 1), ('b', 2), ('c', 3)",
            "SELECT k FROM t WHERE k = 'b' || hex(zeroblob(4000))",
            "SELECT k FROM t WHERE k > 'b' || hex(zeroblob(4000)) ORDER BY k",
            "SELECT k FROM t WHERE k >= 'b' || hex(zeroblob(4000)) ORDER BY k",
            "SELECT k FROM t WHERE k < 'b' || hex(zeroblob(4000)) ORDER BY k DESC",
            "SELECT k FROM t WHERE k <= 'b' || hex(zeroblob(4000)) ORDER BY k DESC",
            "SELECT v FROM w WHERE k = 'b' || hex(zeroblob(4000))",
            "SELECT v FROM w WHERE k > 'b' || hex(zeroblob(4000)) ORDER BY k",
            "DELETE FROM w WHERE k = 'b' || hex(zeroblob(4000)); SELECT changes()",
        ],
    );
}

/// If a search gives more columns than an entry of a UNIQUE index has in its key, the record is compared.
#[test]
fn a_unique_entry_is_found_by_all_of_its_columns() {
    let (_directory, connections) = both();
    assert_alike(
        &connections,
        &[
            "CREATE TABLE t(id INTEGER PRIMARY KEY, a NUMERIC, b, c REAL); CREATE UNIQUE INDEX u1 ON t(a, b DESC)",
            "INSERT INTO t VALUES (12, 3.0, 'ab', 9007199254740994.0)",
            "PRAGMA integrity_check",
            "UPDATE t SET b = 'ac', c = 1 WHERE id = 12",
            "DELETE FROM t WHERE a = 3 AND b = 'ac'; SELECT changes()",
            "PRAGMA integrity_check",
        ],
    );
}

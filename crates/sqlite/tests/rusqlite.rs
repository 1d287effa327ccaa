//! Does `rusqlite` call this library's SQLite?
#![cfg(feature = "rusqlite")]
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used)] // The whole file is tests.

use libtp_sqlite::rusqlite::{Connection, TransactionBehavior};

#[test]
fn threads_of_a_program_in_rust_write_one_environment_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("one.tp");
    let first = Connection::open(&path).unwrap();
    first.execute_batch("CREATE TABLE t(writer INT, number INT)").unwrap();
    let version: String = first.query_row("SELECT tp_version()", [], |row| row.get(0)).unwrap();
    assert_eq!(version, format!("libtp-sqlite {}", env!("CARGO_PKG_VERSION")));
    std::thread::scope(|scope| {
        for writer in 0..4 {
            let path = &path;
            scope.spawn(move || {
                let mut connection = Connection::open(path).unwrap();
                for number in 0..50 {
                    let txn = connection.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
                    txn.execute("INSERT INTO t VALUES (?1, ?2)", [writer, number]).unwrap();
                    txn.commit().unwrap();
                }
            });
        }
    });
    assert!(path.is_dir());
    let count: i64 = first.query_row("SELECT count(*) FROM t", [], |row| row.get(0)).unwrap();
    assert_eq!(count, 200);
    // A database that is a file is an SQLite file.
    let file = directory.path().join("one.db");
    Connection::open(&file).unwrap().execute_batch("CREATE TABLE t(v)").unwrap();
    assert!(std::fs::read(file).unwrap().starts_with(b"SQLite format 3\0"));
}

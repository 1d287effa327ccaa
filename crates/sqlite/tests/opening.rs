//! Which database is opened if files under its name are made and removed? docs/sql.md lists the pitfalls by number.
#![allow(clippy::unwrap_used)] // The whole file is tests.

mod sql;

use std::path::Path;
use std::process::Command;

use sql::Connection;

const CREATE: i32 = 2 | 4 | 0x40;
const READ_WRITE: i32 = 2 | 0x40;
const READONLY_DBMOVED: i32 = 8 | 4 << 8;
const LIST: &str = "LIBTP_SQLITE";
const WORK: &str = "LIBTP_TEST_SQL_WORK";

fn open(name: impl AsRef<Path>) -> Connection {
    Connection::open(name.as_ref())
}

/// Pitfall 29. The test starts children, because each of them needs its own environment variable.
#[test]
fn a_list_names_files_that_are_environments() {
    let directory = tempfile::tempdir().unwrap();
    let home = directory.path().canonicalize().unwrap();
    std::fs::create_dir(home.join("caches")).unwrap();
    let run = |list: &str, work: &str| {
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "child", "--ignored", "--nocapture", "--quiet"])
            .env(LIST, list)
            .env(WORK, work)
            .current_dir(&home)
            .output()
            .unwrap();
        assert!(child.status.success(), "{}", String::from_utf8_lossy(&child.stderr));
    };
    run(&format!("{0}/shop.db:{0}/*.sqlite3", home.display()), "list");
    assert!(home.join("shop.db").is_dir() && home.join("app.sqlite3").is_dir());
    assert!(home.join("caches/other.sqlite3").is_file() && home.join("copy.db").is_file());
    for list in ["all", "*", "/*"] {
        run(list, "refused");
    }
}

#[test]
#[ignore = "a child of the other tests"]
fn child() {
    let Ok(work) = std::env::var(WORK) else { return };
    if work == "refused" {
        let failure = Connection::try_open("new.db", CREATE).err().unwrap();
        assert!(failure.code == 14 && failure.sentence.contains("nothing was opened"), "{failure:?}");
        // The refused list has no effect on a database in memory.
        open(":memory:").ok("CREATE TABLE t(v)");
        return;
    }
    for name in ["shop.db", "app.sqlite3", "caches/other.sqlite3"] {
        open(name).ok("CREATE TABLE t(v); INSERT INTO t VALUES (1)");
    }
    assert_eq!(open("shop.db").one("PRAGMA journal_mode"), "'wal'");
    open("shop.db").ok("VACUUM INTO 'copy.db'");
    let stock = Connection::try_open("file:second.sqlite3?tp=0", CREATE).unwrap();
    stock.ok("CREATE TABLE t(v)");
    drop(stock);
    let failure = Connection::try_open("second.sqlite3", CREATE).err().unwrap();
    assert!(failure.sentence.contains("tp sql --import"), "{failure:?}");
}

/// Pitfall 30: `mkstemp` makes an empty file, and the program opens a database under its name.
#[test]
fn an_empty_file_is_taken_for_a_new_database() {
    let directory = tempfile::tempdir().unwrap();
    for flags in [CREATE, READ_WRITE] {
        let file = tempfile::Builder::new().suffix(".tp").tempfile_in(directory.path()).unwrap();
        let (held, name) = file.keep().unwrap();
        let name = name.to_str().unwrap();
        let connection = Connection::try_open(name, flags).unwrap();
        connection.ok("CREATE TABLE t(v); INSERT INTO t VALUES (1)");
        assert!(Path::new(name).is_dir());
        assert_eq!(held.metadata().unwrap().len(), 0);
        assert_eq!(open(name).one("SELECT count(*) FROM t"), "1");
    }
    let empty = directory.path().join("read-only.tp");
    std::fs::write(&empty, "").unwrap();
    assert_eq!(Connection::try_open(empty.to_str().unwrap(), 1 | 0x40).err().unwrap().code, 14);
    assert!(empty.is_file());
}

/// Pitfall 31: tests of programs make and remove a database again and again in one process, and do not close all
/// connections.
#[test]
fn a_connection_to_a_removed_environment_still_reads_and_refuses_writes() {
    let rounds: u32 = std::env::var("LIBTP_TEST_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(30);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("one.tp");
    let mut forgotten: Option<Connection> = None;
    for round in 0..rounds {
        let connection = open(&path);
        connection.ok(&format!("CREATE TABLE t(v); INSERT INTO t VALUES ({round})"));
        assert_eq!(open(&path).one("SELECT group_concat(v) FROM t"), format!("'{round}'"));
        if let Some(old) = &forgotten {
            let failure = old.run("INSERT INTO t VALUES (-1)").unwrap_err();
            assert!(failure.code == READONLY_DBMOVED && failure.sentence.contains("was removed"), "{failure:?}");
            assert_eq!(old.code("BEGIN IMMEDIATE"), READONLY_DBMOVED);
            assert_eq!(old.one("SELECT v FROM t"), (round - 1).to_string());
        }
        std::fs::remove_dir_all(&path).unwrap();
        forgotten = Some(connection);
    }
    // A connection to a renamed environment can still write.
    let connection = open(&path);
    connection.ok("CREATE TABLE t(v)");
    std::fs::rename(&path, directory.path().join("two.tp")).unwrap();
    connection.ok("INSERT INTO t VALUES (1)");
    assert_eq!(open(directory.path().join("two.tp")).one("SELECT count(*) FROM t"), "1");
}

/// Pitfall 34: Django's tests use one database in memory in all threads.
#[test]
fn databases_in_memory_are_shared_by_name() {
    let name = "file:memorydb_default?mode=memory&cache=shared";
    let first = Connection::try_open(name, CREATE).unwrap();
    first.ok("CREATE TABLE t(v); INSERT INTO t VALUES (1)");
    let second = std::thread::spawn(move || Connection::try_open(name, CREATE).unwrap().one("SELECT v FROM t"));
    assert_eq!(second.join().unwrap(), "1");
    // The same parameter is accepted for an environment. It has no effect there: connections do not share transactions.
    let directory = tempfile::tempdir().unwrap();
    let name = format!("file:{}?cache=shared", directory.path().join("one.tp").display());
    let (first, second) = (Connection::try_open(&name, CREATE).unwrap(), Connection::try_open(&name, CREATE).unwrap());
    first.ok("CREATE TABLE t(v); BEGIN; INSERT INTO t VALUES (1)");
    assert_eq!(second.one("SELECT count(*) FROM t"), "0");
    first.ok("COMMIT");
    assert_eq!(second.one("SELECT count(*) FROM t"), "1");
}

/// Pitfall 33: a program can ask which SQLite it has.
#[test]
fn a_statement_names_the_library() {
    let expected = format!("'libtp-sqlite {}'", env!("CARGO_PKG_VERSION"));
    assert_eq!(open(":memory:").one("SELECT tp_version()"), expected);
}

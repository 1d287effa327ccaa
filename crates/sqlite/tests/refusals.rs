//! Tests that operations that an environment does not support fail with a text, and that SQLite's own code handles
//! ordinary files.
#![allow(clippy::unwrap_used)] // The whole file is tests.

mod sql;

use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use sql::{Connection, ABORT_ROLLBACK};

const MISSING_ALLOWED: i32 = 2 | 4 | 0x40;
const READ_WRITE: i32 = 2 | 0x40;

#[test]
fn an_ordinary_file_is_an_sqlite_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("plain.db");
    Connection::open(&path).ok("CREATE TABLE t(v); INSERT INTO t VALUES (1)");
    assert!(std::fs::read(&path).unwrap().starts_with(b"SQLite format 3\0"));
    assert_eq!(Connection::open(&path).one("PRAGMA journal_mode"), "'delete'");
}

#[test]
fn an_environment_is_recognised_by_its_name_its_directory_or_a_parameter() {
    let directory = tempfile::tempdir().unwrap();
    let made = Connection::open(&directory.path().join("one.tp"));
    made.ok("CREATE TABLE t(v); INSERT INTO t VALUES (1)");
    assert!(made.file_name().ends_with("/one.tp"));
    assert_eq!(made.one("PRAGMA journal_mode"), "'wal'");
    drop(made);
    std::fs::rename(directory.path().join("one.tp"), directory.path().join("other")).unwrap();
    let renamed = Connection::open(&directory.path().join("other"));
    assert_eq!(renamed.one("SELECT v FROM t"), "1");
    let name = format!("file:{}?tp=1", directory.path().join("third").display());
    Connection::try_open(&name, MISSING_ALLOWED).unwrap().ok("CREATE TABLE t(v)");
    assert!(directory.path().join("third").is_dir());
}

#[test]
fn a_place_that_is_no_environment_is_refused_with_a_sentence() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file.tp");
    std::fs::write(&file, "text").unwrap();
    let failure = Connection::try_open(file.to_str().unwrap(), MISSING_ALLOWED).err().unwrap();
    assert!(failure.code == 14 && failure.sentence.contains("is a file"), "{failure:?}");
    assert_eq!(std::fs::read(&file).unwrap(), b"text");
    let failure = Connection::try_open(directory.path().to_str().unwrap(), MISSING_ALLOWED).err().unwrap();
    assert!(failure.sentence.contains("no environment"), "{failure:?}");
    let missing = directory.path().join("missing.tp");
    assert_eq!(Connection::try_open(missing.to_str().unwrap(), READ_WRITE).err().unwrap().code, 14);
    assert!(!missing.exists());
}

#[test]
fn copies_of_pages_show_one_snapshot() {
    let directory = tempfile::tempdir().unwrap();
    let environment = Connection::open(&directory.path().join("one.tp"));
    environment.ok("CREATE TABLE t(v); CREATE INDEX i ON t(v); PRAGMA user_version = 7");
    environment.ok(
        "WITH RECURSIVE n(v) AS (SELECT 1 UNION ALL SELECT v + 1 FROM n WHERE v < 3000) INSERT INTO t SELECT v FROM n",
    );
    let copies: Vec<_> = ["serialized.db", "backup.db", "vacuum.db"].map(|name| directory.path().join(name)).into();
    std::fs::write(&copies[0], environment.serialize().unwrap()).unwrap();
    let file = Connection::open(&copies[1]);
    // A backup copies the committed state at its beginning, also in a transaction of the source.
    environment.ok("BEGIN IMMEDIATE; DELETE FROM t WHERE v = 1");
    environment.back_up(&file, 5, || drop(environment.ok("DELETE FROM t WHERE v = (SELECT max(v) FROM t)"))).unwrap();
    environment.ok("ROLLBACK");
    environment.ok(&format!("VACUUM INTO '{}'", copies[2].display()));
    for copy in &copies {
        let copy = Connection::open(copy);
        assert_eq!(copy.ok("SELECT count(*), sum(v), max(v) FROM t"), [["3000", "4501500", "3000"]]);
        assert_eq!(copy.ok("PRAGMA user_version"), [["7"]]);
        assert_eq!(copy.one("PRAGMA integrity_check"), "'ok'");
    }
}

#[test]
fn no_backup_goes_into_an_environment() {
    let directory = tempfile::tempdir().unwrap();
    let environment = Connection::open(&directory.path().join("one.tp"));
    environment.ok("CREATE TABLE t(v); INSERT INTO t VALUES (1)");
    let file = Connection::open(&directory.path().join("two.db"));
    let failure = file.back_up(&environment, 5, || {}).unwrap_err();
    assert!(failure.sentence.contains("nothing was copied"), "{failure:?}");
    assert_eq!(environment.one("SELECT v FROM t"), "1");
}

#[test]
fn a_refusal_names_its_own_file() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    std::fs::write(at("bad.tp"), "a file").unwrap();
    std::fs::create_dir(at("full.tp")).unwrap();
    std::fs::write(at("full.tp/mine.txt"), "mine").unwrap();
    const READ_WRITE_CREATE: i32 = 2 | 4;
    let refused = |name: &str| Connection::try_open(name, READ_WRITE_CREATE).err().unwrap().sentence;
    assert!(refused(&at("full.tp")).contains("is a directory and no environment; nothing was changed"));
    assert_eq!(std::fs::read_dir(at("full.tp")).unwrap().count(), 1);
    assert!(refused(&at("bad.tp")).contains("bad.tp is a file"));
    assert_eq!(refused(&at("missing/plain.db")), "unable to open database file");
    let file = Connection::open(&directory.path().join("one.db"));
    assert!(file.sentence(&format!("ATTACH '{}' AS a", at("bad.tp"))).contains("bad.tp is a file"));
}

#[test]
fn a_blob_handle_for_reading_changes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let environment = Connection::open(&directory.path().join("one.tp"));
    environment.ok("CREATE TABLE t(id INTEGER PRIMARY KEY, v); INSERT INTO t VALUES (1, 'abc'); BEGIN IMMEDIATE; UPDATE t SET id = 1");
    let blob = environment.blob_for_reading(c"v", 1);
    assert_eq!(blob.write(b"x", 0), 8);
    drop(blob);
    environment.ok("COMMIT");
    assert_eq!(environment.one("SELECT v FROM t"), "'abc'");
}

#[test]
fn vacuum_compacts() {
    let directory = tempfile::tempdir().unwrap();
    let environment = Connection::open(&directory.path().join("one.tp"));
    environment.ok("CREATE TABLE t(v); CREATE INDEX i ON t(v)");
    environment.ok("WITH RECURSIVE n(v) AS (SELECT 1 UNION ALL SELECT v + 1 FROM n WHERE v < 5000) INSERT INTO t SELECT hex(v) || hex(zeroblob(50)) FROM n");
    environment.ok("DELETE FROM t WHERE rowid % 8");
    environment.ok("VACUUM");
    assert_eq!(environment.one("SELECT count(*) FROM t"), "625");
    assert_eq!(environment.one("PRAGMA integrity_check"), "'ok'");
    assert!(environment.sentence("BEGIN; VACUUM").contains("within a transaction"));
}

#[test]
fn a_vacuum_waits_for_a_writer_no_longer_than_its_timeout() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("one.tp");
    let one = Connection::open(&path);
    one.ok("CREATE TABLE t(v); INSERT INTO t VALUES (1), (2)");
    one.busy_timeout(100);
    let (holds, held) = mpsc::channel();
    let (ends, ended) = mpsc::channel();
    let path = &path;
    thread::scope(|scope| {
        // A wait for a transaction of the same thread ends after a second, so the writer has its own thread.
        scope.spawn(move || {
            let writer = Connection::open(path);
            // DELETE without WHERE locks the whole table.
            writer.ok("BEGIN; DELETE FROM t");
            holds.send(()).unwrap();
            // If VACUUM ignored its timeout, it would succeed after this time, and the test would fail.
            let _ = ended.recv_timeout(Duration::from_secs(20));
            writer.ok("ROLLBACK");
        });
        held.recv().unwrap();
        assert_eq!(one.code("VACUUM"), 5);
        ends.send(()).unwrap();
    });
    one.ok("VACUUM");
    assert_eq!(one.one("SELECT count(*) FROM t"), "2");
}

#[test]
fn vacuum_into_copies_an_environment_to_a_file_and_back() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    let made = Connection::open(&at("one.tp"));
    made.ok("CREATE TABLE t(a INT, b INT AS (a * 2) STORED, c INT AS (a + 1), \"d\"\"e\" DEFAULT 5); INSERT INTO t(a) VALUES (1), (7);
        CREATE UNIQUE INDEX t_c ON t(c); CREATE TABLE w(k PRIMARY KEY, v) WITHOUT ROWID; INSERT INTO w VALUES ('k', 1);
        CREATE TABLE n(id INTEGER PRIMARY KEY AUTOINCREMENT); INSERT INTO n VALUES (40); DELETE FROM n;
        CREATE VIRTUAL TABLE words USING fts5(body); INSERT INTO words VALUES ('hello world')");
    made.ok(&format!("VACUUM INTO '{}'", at("two.db").display()));
    Connection::open(&at("two.db")).ok(&format!("VACUUM INTO '{}'", at("three.tp").display()));
    for name in ["two.db", "three.tp"] {
        let copy = Connection::open(&at(name));
        assert_eq!(copy.one("PRAGMA integrity_check"), "'ok'", "{name}");
        assert_eq!(copy.ok("SELECT * FROM t ORDER BY a"), [["1", "2", "2", "5"], ["7", "14", "8", "5"]], "{name}");
        assert_eq!(copy.one("SELECT v FROM w WHERE k = 'k'"), "1");
        assert_eq!(copy.one("SELECT body FROM words WHERE words MATCH 'hello'"), "'hello world'");
        assert_eq!(copy.one("INSERT INTO n DEFAULT VALUES RETURNING id"), "41");
    }
}

#[test]
fn a_file_and_an_environment_are_attached_to_each_other() {
    let directory = tempfile::tempdir().unwrap();
    let environment = Connection::open(&directory.path().join("one.tp"));
    environment.ok("CREATE TABLE t(v); INSERT INTO t VALUES (1), (2)");
    environment.ok(&format!("ATTACH '{}' AS f", directory.path().join("two.db").display()));
    environment.ok("CREATE TABLE f.copy AS SELECT v FROM t; INSERT INTO f.copy SELECT * FROM t; INSERT INTO t SELECT v + 10 FROM f.copy");
    assert_eq!(environment.one("SELECT count(*) FROM t JOIN f.copy USING (v)"), "4");
    let file = Connection::open(&directory.path().join("two.db"));
    file.ok(&format!("ATTACH '{}' AS e", directory.path().join("one.tp").display()));
    assert_eq!(file.one("SELECT count(*) FROM e.t"), "6");
}

#[test]
fn a_long_key_and_an_unknown_order_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let environment = Connection::open(&directory.path().join("one.tp"));
    environment.ok("CREATE TABLE t(v); CREATE INDEX i ON t(v); INSERT INTO t VALUES (hex(zeroblob(400)))");
    let sentence = environment.sentence("INSERT INTO t VALUES (hex(zeroblob(100000)))");
    assert!(sentence.contains("has a key of 200012 bytes, and 2045 are the most"), "{sentence}");
    assert_eq!(environment.one("SELECT count(*) FROM t"), "1");
    assert_eq!(environment.one("PRAGMA integrity_check"), "'ok'");
    let wide = Connection::open(&directory.path().join("wide.tp"));
    wide.ok(
        "PRAGMA encoding = 'UTF-16le'; CREATE TABLE t(v); INSERT INTO t VALUES ('b'), ('a'); CREATE INDEX i ON t(v)",
    );
    assert_eq!(wide.ok("SELECT v FROM t ORDER BY v"), [["'a'"], ["'b'"]]);
    let sentence = wide.sentence("CREATE INDEX j ON t(v COLLATE NOCASE)");
    assert!(sentence.contains("BINARY, NOCASE and RTRIM"), "{sentence}");
    drop(wide);
    let wide = Connection::open(&directory.path().join("wide.tp"));
    assert_eq!(wide.one("PRAGMA encoding"), "'UTF-16le'");
}

#[test]
fn a_connection_for_reading_writes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("one.tp");
    let writer = Connection::open(&path);
    writer.ok("CREATE TABLE t(v); INSERT INTO t VALUES (1)");
    let reader = Connection::open_read_only(&path);
    assert_eq!(reader.one("SELECT v FROM t"), "1");
    assert_eq!(reader.code("INSERT INTO t VALUES (2)") & 0xff, 8);
    assert_eq!(writer.one("SELECT count(*) FROM t"), "1");
}

/// Returns the code of statements that run while a transaction of another thread has taken the names of trees, and how
/// long the statements took. The names stay taken for up to 3 seconds.
fn while_names_are_taken(path: &Path, names: &[&str], work: impl FnOnce() -> i32) -> (i32, Duration) {
    let (holds, held) = mpsc::channel();
    let (ends, ended) = mpsc::channel::<()>();
    thread::scope(|scope| {
        scope.spawn(move || {
            let env = libtp::Env::builder().create(false).open(path).unwrap();
            for name in names {
                env.btree(&format!("for {name}")).unwrap();
            }
            let txn = env.begin().unwrap();
            for name in names {
                txn.rename_database(&format!("for {name}"), name).unwrap();
            }
            holds.send(()).unwrap();
            let _ = ended.recv_timeout(Duration::from_secs(3));
            txn.abort().unwrap();
        });
        held.recv().unwrap();
        let begun = Instant::now();
        let code = work();
        let took = begun.elapsed();
        ends.send(()).unwrap();
        (code, took)
    })
}

#[test]
fn the_opening_of_a_tree_waits_no_longer_than_the_busy_timeout() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("one.tp");
    let one = Connection::open(&path);
    // The first SELECT opens the tree of the schema, and CREATE TABLE opens a tree that is new.
    for (name, sql) in [("sql.1", "SELECT * FROM sqlite_schema"), ("sql.2", "CREATE TABLE t(v)")] {
        for (timeout, least) in [(0, 0), (300, 300)] {
            one.busy_timeout(timeout);
            let (code, took) = while_names_are_taken(&path, &[name], || one.code(sql));
            let least = Duration::from_millis(least);
            assert!(took >= least && took < least + Duration::from_secs(2), "{sql} took {took:?}");
            assert_eq!(code, 5, "{sql}: {}", one.last_sentence());
            assert!(one.last_sentence().contains(&format!("the name of database `{name}`")), "{}", one.last_sentence());
        }
        one.ok(sql);
    }
    // While an environment opens, the time limit is one second, as for a connection without a busy timeout.
    let other = directory.path().join("two.tp");
    drop(libtp::Env::create(&other).unwrap());
    let (code, took) = while_names_are_taken(&other, &["sql.meta"], || {
        Connection::try_open(other.to_str().unwrap(), READ_WRITE).err().unwrap().code
    });
    assert!(code == 5 && took < Duration::from_secs(2), "{code} after {took:?}");
}

#[test]
fn a_select_ended_by_a_rollback_says_so() {
    let directory = tempfile::tempdir().unwrap();
    for name in ["one.tp", "one.db"] {
        let one = Connection::open(&directory.path().join(name));
        one.ok(
            "CREATE TABLE t(v); INSERT INTO t VALUES (1), (2); BEGIN; CREATE TABLE other(v); INSERT INTO t VALUES (3)",
        );
        let select = one.prepare("SELECT v FROM t").unwrap();
        assert_eq!(select.step().unwrap().unwrap(), ["1"]);
        one.ok("ROLLBACK");
        let failure = select.step().unwrap_err();
        assert!(failure.code == ABORT_ROLLBACK && failure.sentence == "abort due to ROLLBACK", "{name}: {failure:?}");
    }
}

/// Tests of programs make and remove a database again and again in one process.
#[test]
fn an_environment_made_again_after_its_removal_is_a_new_environment() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("one.tp");
    let mut kept = Vec::new();
    for round in 0..5 {
        let connection = Connection::open(&path);
        connection.ok(&format!("CREATE TABLE t(v); INSERT INTO t VALUES ({round})"));
        assert_eq!(connection.one("SELECT group_concat(v) FROM t"), format!("'{round}'"));
        // The connection to the removed environment stays open.
        kept.push(connection);
        std::fs::remove_dir_all(&path).unwrap();
    }
}

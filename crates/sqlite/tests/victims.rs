//! What does a program notice of deadlocks, and what can it do with a transaction that has ended?
//!
//! A victim's statements run again while no other writer runs (c/replay.c). If the results differ, the transaction has
//! ended, and none of its changes are kept.
#![allow(clippy::unwrap_used)] // The whole file is tests.

mod sql;

use std::ffi::CStr;
use std::time::Duration;

use sql::{Connection, Failure, Rows, ABORT_ROLLBACK, BUSY, BUSY_SNAPSHOT};

struct Bank {
    directory: tempfile::TempDir,
}

impl Bank {
    fn new() -> Bank {
        let bank = Bank { directory: tempfile::tempdir().unwrap() };
        bank.connect().ok("CREATE TABLE acc(id INTEGER PRIMARY KEY, cents INT); CREATE INDEX acc_cents ON acc(cents);
            CREATE TABLE log(id INTEGER PRIMARY KEY, what);
            INSERT INTO acc VALUES (1, 100), (2, 100), (3, 100)");
        bank
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.directory.path().join(name)
    }

    fn connect(&self) -> Connection {
        let connection = Connection::open(&self.path("bank.tp"));
        connection.ok("PRAGMA synchronous = OFF");
        connection.busy_timeout(10_000);
        connection
    }
}

/// Makes a deadlock of two transactions. Returns the victim's error, the victim, and the other connection, which has
/// got its lock.
fn cross<'c>(one: &'c Connection, two: &'c Connection, sql: [&str; 2]) -> (Failure, &'c Connection, &'c Connection) {
    let (first, second) = std::thread::scope(|scope| {
        let first = scope.spawn(|| one.run(sql[0]));
        std::thread::sleep(Duration::from_millis(50));
        let second = two.run(sql[1]);
        (first.join().unwrap(), second)
    });
    match (first, second) {
        (Err(failure), Ok(_)) => (failure, one, two),
        (Ok(_), Err(failure)) => (failure, two, one),
        both => panic!("exactly one connection must be the victim: {both:?}"),
    }
}

const ONE: &str = "UPDATE acc SET cents = cents + 1 WHERE id = 1";
const TWO: &str = "UPDATE acc SET cents = cents + 1 WHERE id = 2";

/// The statement that the function `nested()` runs.
const RAISE: &CStr = c"UPDATE acc SET cents = cents + 1";

/// Runs transactions that change two rows in opposite orders. Returns the number of transactions.
fn crosswise(bank: &Bank, prepare: fn(&Connection)) -> i64 {
    const ROUNDS: i64 = 60;
    std::thread::scope(|scope| {
        for worker in 0..4 {
            let connection = bank.connect();
            prepare(&connection);
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    connection.ok("BEGIN IMMEDIATE");
                    let id = connection.one("INSERT INTO log(what) VALUES ('begun') RETURNING id");
                    connection.ok(if worker % 2 == 0 { ONE } else { TWO });
                    connection.ok(if worker % 2 == 0 { TWO } else { ONE });
                    connection.ok(&format!("UPDATE log SET what = '{worker} {round}' WHERE id = {id}; COMMIT"));
                }
            });
        }
    });
    4 * ROUNDS
}

#[test]
fn transactions_on_two_rows_in_two_orders_see_no_error() {
    for prepare in [|_: &Connection| {}, Connection::keep_trying] {
        let bank = Bank::new();
        // With exact rowids the inserts would wait for each other, and there would be no deadlocks.
        bank.connect().ok("PRAGMA tp_rowid = free");
        let count = crosswise(&bank, prepare);
        let reader = bank.connect();
        assert_eq!(reader.ok("SELECT sum(cents) FROM acc"), [[(300 + 2 * count).to_string()]]);
        assert_eq!(reader.ok("SELECT count(DISTINCT what) FROM log"), [[count.to_string()]]);
        assert_eq!(reader.one("PRAGMA integrity_check"), "'ok'");
    }
}

#[test]
fn a_victim_whose_statements_would_read_other_rows_has_ended() {
    let bank = Bank::new();
    for _ in 0..5 {
        let (one, two) = (bank.connect(), bank.connect());
        let before: i64 = one.one("SELECT sum(cents) FROM acc").parse().unwrap();
        one.ok("BEGIN IMMEDIATE; SELECT cents FROM acc WHERE id = 1");
        two.ok("BEGIN IMMEDIATE; SELECT cents FROM acc WHERE id = 2");
        let commit = [format!("{TWO}; COMMIT"), format!("{ONE}; COMMIT")];
        let (failure, victim, _) = cross(&one, &two, [&commit[0], &commit[1]]);
        assert_eq!(failure.code, BUSY_SNAPSHOT, "{failure:?}");
        assert!(failure.sentence.contains("could not run again with the same results"), "{failure:?}");
        assert_eq!(victim.code(ONE), ABORT_ROLLBACK);
        victim.ok("ROLLBACK");
        assert_eq!(bank.connect().one("SELECT sum(cents) FROM acc"), (before + 1).to_string());
    }
}

#[test]
fn an_ended_transaction_keeps_nothing_of_its_later_statements() {
    let bank = Bank::new();
    let (one, two) = (bank.connect(), bank.connect());
    for connection in [&one, &two] {
        connection.busy_timeout(1000);
        connection.ok("SAVEPOINT s; INSERT INTO log(what) VALUES (1); DELETE FROM log");
        connection.ok("ROLLBACK");
    }
    bank.connect().ok("PRAGMA tp_rowid = free");
    one.ok(&format!("SAVEPOINT s; {ONE}"));
    two.ok(&format!("SAVEPOINT s; {TWO}"));
    let (failure, victim, other) = cross(&one, &two, [TWO, ONE]);
    assert_eq!(failure.code, BUSY_SNAPSHOT, "{failure:?}");
    for statement in ["RELEASE s", "UPDATE acc SET cents = 0", "RELEASE s", "INSERT INTO log(what) VALUES (2)"] {
        assert_eq!(victim.code(statement), ABORT_ROLLBACK, "{statement}");
        assert!(victim.is_in_transaction(), "{statement}");
    }
    victim.ok("ROLLBACK");
    other.ok("RELEASE s");
    assert_eq!(bank.connect().ok("SELECT sum(cents), (SELECT count(*) FROM log) FROM acc"), [["302", "0"]]);
}

/// If an environment ends a transaction, attached files keep none of its changes.
#[test]
fn a_victim_keeps_nothing_in_attached_files() {
    let bank = Bank::new();
    let files = ["one.db", "two.db"].map(|name| bank.path(name));
    files.iter().for_each(|file| drop(Connection::open(file).ok("CREATE TABLE t(v)")));
    for is_main in [true, false] {
        // Either connection may be the victim, whichever of them waits first. In at least one of the two runs the
        // connection with attached files must be the victim.
        let victims: Vec<bool> =
            [true, false].map(|waits_first| attached_victim(&bank, &files, is_main, waits_first)).into();
        assert!(victims.contains(&true), "{victims:?}");
        for file in &files {
            assert_eq!(Connection::open(file).one("SELECT count(*) FROM t"), "0");
        }
    }
}

/// Makes a deadlock of a connection with attached files and another connection. Returns whether the connection with the
/// files was the victim.
fn attached_victim(bank: &Bank, files: &[std::path::PathBuf; 2], is_main: bool, waits_first: bool) -> bool {
    let (one, two) = (if is_main { bank.connect() } else { Connection::open(&files[0]) }, bank.connect());
    let first = if is_main { files[0].clone() } else { bank.path("bank.tp") };
    one.ok(&format!("ATTACH '{}' AS a; ATTACH '{}' AS b", first.display(), files[1].display()));
    let insert = if is_main { "INSERT INTO a.t VALUES (1)" } else { "INSERT INTO main.t VALUES (1)" };
    for connection in [&one, &two] {
        connection.busy_timeout(1000);
        // A statement that calls a nondeterministic function of the program is not run again.
        connection.add_nested(RAISE);
    }
    let ours = format!("BEGIN IMMEDIATE; {insert}; INSERT INTO b.t VALUES (1); {ONE}; SELECT 1 WHERE 0 AND nested()");
    let others = format!("BEGIN IMMEDIATE; {TWO}; SELECT 1 WHERE 0 AND nested()");
    let (failure, victim, other) = if waits_first {
        one.ok(&ours);
        two.ok(&others);
        cross(&one, &two, [TWO, ONE])
    } else {
        two.ok(&others);
        one.ok(&ours);
        cross(&two, &one, [ONE, TWO])
    };
    assert_eq!(failure.code, BUSY_SNAPSHOT, "{failure:?}");
    let is_one = std::ptr::eq(victim, &one);
    assert_eq!(victim.code("COMMIT"), ABORT_ROLLBACK);
    other.ok(if is_one { "COMMIT" } else { "ROLLBACK" });
    is_one
}

/// A statement within another statement has no savepoint, so its error ends the transaction.
#[test]
fn a_refused_lock_of_a_nested_statement_ends_the_transaction() {
    let bank = Bank::new();
    let (holder, one) = (bank.connect(), bank.connect());
    holder.ok("BEGIN IMMEDIATE; UPDATE acc SET cents = 0 WHERE id = 3");
    one.add_nested(RAISE);
    one.busy_timeout(20);
    one.ok("BEGIN IMMEDIATE; INSERT INTO log(what) VALUES ('before')");
    assert_ne!(one.run("SELECT nested()").map(|rows: Rows| rows[0][0].clone()), Ok("0".into()));
    assert_eq!(one.code("INSERT INTO log(what) VALUES ('after')"), ABORT_ROLLBACK);
    assert_eq!(one.code("COMMIT"), ABORT_ROLLBACK);
    // Outside of a transaction, the whole statement is undone.
    assert_ne!(one.run("SELECT nested()").map(|rows: Rows| rows[0][0].clone()), Ok("0".into()));
    holder.ok("ROLLBACK");
    assert_eq!(bank.connect().ok("SELECT sum(cents), (SELECT count(*) FROM log) FROM acc"), [["300", "0"]]);
}

/// After any error, a row of a table and its index entries are either all there or all missing.
#[test]
fn an_error_of_a_nested_statement_leaves_no_part_of_its_changes() {
    let bank = Bank::new();
    let one = bank.connect();
    one.ok("CREATE TABLE t(a, b); CREATE INDEX tb ON t(b); CREATE INDEX ta ON t(a)");
    one.add_nested(c"INSERT INTO t(a, b) VALUES (5, hex(zeroblob(3000)))");
    for begin in ["BEGIN", "BEGIN IMMEDIATE; INSERT INTO log(what) VALUES (1)"] {
        one.ok(begin);
        let _ = one.run("SELECT nested()");
        let _ = one.run("COMMIT");
        if one.is_in_transaction() {
            one.ok("ROLLBACK");
        }
        assert_eq!(one.one("PRAGMA integrity_check"), "'ok'");
        assert_eq!(one.one("SELECT count(*) FROM t"), "0");
    }
}

#[test]
fn a_statement_that_fails_leaves_a_full_text_index_as_it_was() {
    let bank = Bank::new();
    let one = bank.connect();
    one.ok("CREATE VIRTUAL TABLE ft USING fts5(t); CREATE TABLE u(a UNIQUE); INSERT INTO u VALUES (1)");
    one.ok("BEGIN IMMEDIATE; INSERT INTO ft VALUES ('cat')");
    assert_eq!(one.code("INSERT INTO u VALUES (1)"), 2067);
    one.ok("COMMIT");
    assert_eq!(one.one("SELECT count(*) FROM ft WHERE ft MATCH 'cat'"), "1");
    one.ok("INSERT INTO ft(ft) VALUES ('integrity-check')");
}

/// The victim's statement would fail with another error if it ran again.
#[test]
fn a_victim_whose_statements_fail_in_another_way_has_ended() {
    let bank = Bank::new();
    let setup = bank.connect();
    setup.ok("CREATE TABLE l(id INTEGER PRIMARY KEY, m UNIQUE, n UNIQUE ON CONFLICT ROLLBACK, o UNIQUE)");
    for changed in ["m = 'other', n = 'y'", "m = 'other', o = 'z'", "m = 'other'"] {
        setup.ok("DELETE FROM l; INSERT INTO l VALUES (1, 'mail', 'x', 'x'); UPDATE acc SET cents = 100");
        let (one, two) = (bank.connect(), bank.connect());
        two.busy_timeout(1000);
        one.ok("BEGIN IMMEDIATE; UPDATE acc SET cents = cents - 50 WHERE id = 1");
        assert_eq!(one.code("INSERT INTO l VALUES (2, 'mail', 'y', 'z')"), 2067);
        two.ok("BEGIN IMMEDIATE; UPDATE acc SET cents = cents + 1 WHERE id = 2");
        let others = format!("UPDATE l SET {changed} WHERE id = 1; COMMIT");
        let (first, second) = std::thread::scope(|scope| {
            let first = scope.spawn(|| one.run("UPDATE acc SET cents = cents + 50 WHERE id = 2"));
            std::thread::sleep(Duration::from_millis(50));
            let second = two.run(&others);
            (first.join().unwrap(), second)
        });
        let is_second_kept = second.is_ok();
        if !is_second_kept {
            two.ok("ROLLBACK");
        }
        match first {
            // The second connection was the victim, or had committed before the first connection got the row.
            Ok(_) => drop(one.ok("COMMIT")),
            Err(failure) => {
                assert_eq!(failure.code, BUSY_SNAPSHOT, "{failure:?}");
                assert!(one.is_in_transaction());
                assert_eq!(one.code(ONE), ABORT_ROLLBACK);
                one.ok("ROLLBACK");
            }
        }
        let sum = if is_second_kept { "301" } else { "300" };
        assert_eq!(setup.one("SELECT sum(cents) FROM acc"), sum, "{changed}");
    }
}

/// An INSERT locks the count of its table, and then the table. A DELETE of all rows locks them in the same order.
#[test]
fn concurrent_inserts_and_deletes_of_all_rows_succeed() {
    let bank = Bank::new();
    std::thread::scope(|scope| {
        for worker in 0..3 {
            let connection = bank.connect();
            scope.spawn(move || {
                for _ in 0..60 {
                    match worker {
                        0 => connection.ok("BEGIN IMMEDIATE; DELETE FROM log; COMMIT"),
                        _ => connection.ok("BEGIN IMMEDIATE; INSERT INTO log(what) VALUES (1); COMMIT"),
                    };
                }
            });
        }
    });
    assert_eq!(bank.connect().one("PRAGMA integrity_check"), "'ok'");
}

/// SQLite writes a full-text index with statements within the program's statement.
#[test]
fn a_full_text_index_keeps_its_rows_when_locks_are_not_granted() {
    let bank = Bank::new();
    let (one, two) = (bank.connect(), bank.connect());
    one.ok("CREATE VIRTUAL TABLE ft USING fts5(t); INSERT INTO ft VALUES ('old word')");
    let found = |connection: &Connection| connection.one("SELECT count(*) FROM ft WHERE ft MATCH 'word'");
    one.ok("BEGIN IMMEDIATE");
    assert_eq!(found(&one), "1");
    one.ok("COMMIT");
    two.ok("INSERT INTO ft VALUES ('new word')");
    one.ok("BEGIN IMMEDIATE");
    assert_eq!(found(&one), "2", "the row of another connection");
    one.ok("COMMIT; BEGIN IMMEDIATE; INSERT INTO ft VALUES ('third word')");
    one.busy_timeout(50);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            two.ok("BEGIN IMMEDIATE");
            two.busy_timeout(50);
            let _ = two.run("SELECT count(*) FROM ft WHERE ft MATCH 'word'");
        });
    });
    let changed = one.run("UPDATE acc SET cents = 1 WHERE id = 1; SAVEPOINT s; RELEASE s; COMMIT");
    two.ok("ROLLBACK");
    if changed.is_err() && one.is_in_transaction() {
        let _ = one.run("ROLLBACK");
    }
    let count = found(&bank.connect());
    assert_eq!(count, bank.connect().one("SELECT count(*) FROM ft"), "{changed:?}");
    bank.connect().ok("INSERT INTO ft(ft) VALUES ('integrity-check')");
}

#[test]
fn with_a_busy_handler_a_statement_waits_until_the_row_is_unlocked() {
    let bank = Bank::new();
    let (holder, one) = (bank.connect(), bank.connect());
    one.keep_trying();
    one.ok("BEGIN IMMEDIATE; INSERT INTO log(what) VALUES ('x')");
    holder.ok("BEGIN IMMEDIATE; UPDATE acc SET cents = 5 WHERE id = 2");
    std::thread::scope(|scope| {
        let backwards = scope.spawn(|| one.ok("SELECT id, cents FROM acc WHERE id <= 3 ORDER BY id DESC"));
        std::thread::sleep(Duration::from_millis(150));
        holder.ok("COMMIT");
        assert_eq!(backwards.join().unwrap(), [["3", "100"], ["2", "5"], ["1", "100"]]);
    });
    one.ok("COMMIT");
}

#[test]
fn a_timeout_of_zero_waits_for_no_lock() {
    let bank = Bank::new();
    let (holder, one) = (bank.connect(), bank.connect());
    holder.ok("BEGIN IMMEDIATE; UPDATE acc SET cents = 5 WHERE id = 2");
    one.busy_timeout(0);
    let failure = one.run(TWO).unwrap_err();
    assert_eq!(failure.code, BUSY);
    assert!(failure.sentence.contains("was not granted at once"), "{failure:?}");
    holder.ok("ROLLBACK");
}

/// If a transaction's first write fails because its reads are outdated, the error says so.
#[test]
fn a_refused_first_write_returns_the_reason() {
    let bank = Bank::new();
    let (one, two) = (bank.connect(), bank.connect());
    one.ok("BEGIN; SELECT * FROM acc");
    two.ok(ONE);
    let failure = one.run(TWO).unwrap_err();
    assert_eq!(failure.code, BUSY_SNAPSHOT);
    assert!(failure.sentence.contains("has changed rows that this transaction has read"), "{failure:?}");
}

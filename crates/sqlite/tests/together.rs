//! What do concurrent connections see of each other?
//!
//! Each test opens several connections to one environment. docs/sql.md has the rules, in its tables.
#![allow(clippy::unwrap_used)] // The whole file is tests.

mod sql;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use sql::{Connection, Failure, Rows, ABORT_ROLLBACK, BUSY, BUSY_SNAPSHOT};

/// An environment with a table of three accounts. The accounts have the ids 1 to 3, and 100 cents each.
struct Bank {
    directory: tempfile::TempDir,
}

impl Bank {
    fn new() -> Bank {
        let bank = Bank { directory: tempfile::tempdir().unwrap() };
        bank.connect().ok("CREATE TABLE acc(id INTEGER PRIMARY KEY, cents INT, note TEXT);
            CREATE INDEX acc_cents ON acc(cents);
            CREATE TABLE other(id INTEGER PRIMARY KEY, v UNIQUE);
            INSERT INTO acc(id, cents) VALUES (1, 100), (2, 100), (3, 100)");
        bank
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("bank.tp")
    }

    fn connect(&self) -> Connection {
        let connection = Connection::open(&self.path());
        connection.ok("PRAGMA synchronous = OFF");
        connection.busy_timeout(10_000);
        connection
    }

    #[track_caller]
    fn check(&self) {
        assert_eq!(self.connect().one("PRAGMA integrity_check"), "'ok'");
    }
}

/// Runs a statement in another thread, where it may wait for a lock.
fn meanwhile(
    connection: Connection,
    sql: &'static str,
) -> std::thread::JoinHandle<(Connection, Result<Rows, Failure>)> {
    let thread = std::thread::spawn(move || {
        let answer = connection.run(sql);
        (connection, answer)
    });
    std::thread::sleep(Duration::from_millis(100));
    thread
}

#[test]
fn two_connections_write_one_table_at_once_and_a_reader_waits_for_neither() {
    let bank = Bank::new();
    let (one, two, reader) = (bank.connect(), bank.connect(), bank.connect());
    one.ok("BEGIN IMMEDIATE; UPDATE acc SET cents = 90 WHERE id = 1");
    std::thread::scope(|scope| {
        let written = scope.spawn(move || two.ok("BEGIN IMMEDIATE; UPDATE acc SET cents = 110 WHERE id = 2; COMMIT"));
        written.join().unwrap();
        assert_eq!(reader.ok("SELECT cents FROM acc ORDER BY id"), [["100"], ["110"], ["100"]]);
    });
    one.ok("COMMIT");
    assert_eq!(reader.one("SELECT sum(cents) FROM acc"), "300");
    bank.check();
}

#[test]
fn a_writer_waits_for_a_row_and_then_reads_its_new_value() {
    let bank = Bank::new();
    let one = bank.connect();
    one.ok("BEGIN IMMEDIATE; UPDATE acc SET cents = cents - 10 WHERE id = 1");
    let waiting = meanwhile(bank.connect(), "UPDATE acc SET cents = cents - 1 WHERE id = 1 RETURNING cents");
    assert!(!waiting.is_finished());
    one.ok("COMMIT");
    assert_eq!(waiting.join().unwrap().1.unwrap(), [["89"]]);
}

#[test]
fn two_immediate_transactions_that_read_and_then_write_one_row_queue_up() {
    let bank = Bank::new();
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let connection = bank.connect();
            std::thread::spawn(move || {
                for _ in 0..50 {
                    connection.ok("BEGIN IMMEDIATE");
                    let cents: i64 = connection.one("SELECT cents FROM acc WHERE id = 1").parse().unwrap();
                    connection.ok(&format!("UPDATE acc SET cents = {} WHERE id = 1; COMMIT", cents + 1));
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(bank.connect().one("SELECT cents FROM acc WHERE id = 1"), "300");
}

#[test]
fn a_victim_is_refused_until_its_rollback_or_commit() {
    let bank = Bank::new();
    for last in ["ROLLBACK", "COMMIT"] {
        let (one, two) = (bank.connect(), bank.connect());
        // The victim's statements run again, and wait for the other transaction's lock until this timeout.
        [&one, &two].iter().for_each(|connection| connection.busy_timeout(1000));
        one.ok("BEGIN IMMEDIATE; UPDATE acc SET cents = cents + 1 WHERE id = 1");
        two.ok("BEGIN IMMEDIATE; SAVEPOINT s; UPDATE acc SET cents = cents + 1 WHERE id = 2");
        let (victim, other) = std::thread::scope(|scope| {
            let first = scope.spawn(|| one.run("UPDATE acc SET cents = cents + 1 WHERE id = 2"));
            std::thread::sleep(Duration::from_millis(50));
            let second = two.run("UPDATE acc SET cents = cents + 1 WHERE id = 1");
            match (first.join().unwrap(), second) {
                (Err(failure), Ok(_)) => {
                    assert_eq!(failure.code, BUSY_SNAPSHOT, "{failure:?}");
                    (&one, &two)
                }
                (Ok(_), Err(failure)) => {
                    assert_eq!(failure.code, BUSY_SNAPSHOT, "{failure:?}");
                    (&two, &one)
                }
                both => panic!("exactly one connection must be the victim: {both:?}"),
            }
        });
        for statement in ["SELECT * FROM acc", "UPDATE acc SET cents = 0", "SAVEPOINT t; SELECT 1 FROM acc"] {
            assert_eq!(victim.code(statement), ABORT_ROLLBACK, "{statement}");
            assert!(victim.is_in_transaction(), "{statement} must not end the transaction");
        }
        assert!(victim.sentence("SELECT * FROM acc").contains("deadlock"));
        match last {
            "COMMIT" => assert_eq!(victim.code("COMMIT"), ABORT_ROLLBACK),
            _ => drop(victim.ok("ROLLBACK")),
        }
        assert!(!victim.is_in_transaction());
        other.ok("COMMIT");
    }
    assert_eq!(bank.connect().one("SELECT sum(cents) FROM acc"), "304");
    bank.check();
}

/// If a statement does not get a lock after it has changed some rows, all its changes are undone: no row is without its
/// index entry.
#[test]
fn a_lock_that_is_not_granted_in_time_fails_only_the_statement() {
    let bank = Bank::new();
    let (holder, one) = (bank.connect(), bank.connect());
    // With exact rowids each insert would wait for the holder before its first change.
    one.ok("PRAGMA tp_rowid = free");
    one.ok("CREATE TRIGGER tr AFTER UPDATE ON acc BEGIN INSERT INTO other(v) VALUES (old.id || 'x' || new.cents); END");
    holder.ok(
        "BEGIN IMMEDIATE; UPDATE acc SET note = 'held' WHERE id = 3; INSERT INTO other(id, v) VALUES (50, 'taken')",
    );
    std::thread::scope(|scope| {
        let work = scope.spawn(move || {
            one.busy_timeout(30);
            one.ok("BEGIN IMMEDIATE; UPDATE acc SET cents = 99 WHERE id = 1");
            for statement in [
                "UPDATE acc SET cents = cents + 1",
                "DELETE FROM acc",
                "INSERT OR REPLACE INTO acc(id, cents) VALUES (9, 9), (3, 9)",
                "INSERT INTO other(id, v) VALUES (60, 'six'), (61, 'taken')",
            ] {
                let failure = one.run(statement).unwrap_err();
                assert_eq!(failure.code, BUSY, "{statement}: {failure:?}");
                assert!(failure.sentence.contains("was not granted within"), "{failure:?}");
                assert!(one.is_in_transaction());
            }
            one.ok("COMMIT");
        });
        work.join().unwrap();
    });
    holder.ok("ROLLBACK");
    assert_eq!(holder.ok("SELECT id, cents FROM acc"), [["1", "99"], ["2", "100"], ["3", "100"]]);
    assert_eq!(holder.ok("SELECT v FROM other"), [["'1x99'"]]);
    bank.check();
}

#[test]
fn a_reader_in_a_transaction_blocks_no_writer_and_sees_one_moment() {
    let bank = Bank::new();
    let (reader, writer) = (bank.connect(), bank.connect());
    reader.ok("BEGIN");
    assert_eq!(reader.one("SELECT sum(cents) FROM acc"), "300");
    writer.busy_timeout(0);
    writer.ok("UPDATE acc SET cents = cents + 1; INSERT INTO acc VALUES (4, 0, ''); DELETE FROM acc WHERE id = 2");
    assert_eq!(reader.one("SELECT sum(cents) FROM acc"), "300");
    // The reader may write if the tables that it has read are unchanged.
    reader.ok("COMMIT; BEGIN");
    assert_eq!(reader.one("SELECT count(*) FROM other"), "0");
    writer.ok("UPDATE acc SET cents = 0");
    reader.ok("INSERT INTO other VALUES (1, 'one'); COMMIT");
    assert_eq!(writer.one("SELECT v FROM other"), "'one'");
}

#[test]
fn a_deferred_transaction_writes_only_if_its_reads_are_unchanged() {
    let bank = Bank::new();
    let (one, two) = (bank.connect(), bank.connect());
    let reads = [
        ("SELECT cents FROM acc WHERE id = 1", "UPDATE acc SET cents = 5 WHERE id = 1"),
        ("SELECT cents FROM acc WHERE id = 7", "INSERT INTO acc VALUES (7, 1, '')"),
        ("SELECT max(id) FROM acc", "INSERT INTO acc VALUES (8, 1, '')"),
        ("SELECT count(*) FROM acc", "DELETE FROM acc WHERE id = 8"),
        ("SELECT id FROM acc WHERE cents = 77", "UPDATE acc SET cents = 77 WHERE id = 2"),
        ("SELECT id FROM acc WHERE cents > 200 ORDER BY cents DESC", "UPDATE acc SET cents = 201 WHERE id = 2"),
        ("SELECT v FROM other WHERE v IN ('a', 'b')", "INSERT INTO other(v) VALUES ('b')"),
    ];
    for (read, change) in reads {
        one.ok("BEGIN");
        let before = one.ok(read);
        two.ok(change);
        assert_eq!(one.ok(read), before, "{read}");
        let refused = one.run("INSERT INTO other(v) VALUES ('never')").unwrap_err();
        assert_eq!(refused.code, BUSY_SNAPSHOT, "{read}");
        // The connection can still read.
        assert_eq!(one.ok(read), before, "{read}");
        one.ok("ROLLBACK; BEGIN");
        one.ok(read);
        one.ok("UPDATE acc SET note = 'fine' WHERE id = 3; ROLLBACK");
    }
    // Write skew: both transactions read all rows, and each inserts another row.
    one.ok("BEGIN; SELECT sum(cents) FROM acc");
    two.ok("BEGIN; SELECT sum(cents) FROM acc");
    one.ok("INSERT INTO acc VALUES (20, 1, '')");
    let second = meanwhile(two, "INSERT INTO acc VALUES (21, 1, '')");
    one.ok("COMMIT");
    assert_eq!(second.join().unwrap().1.unwrap_err().code, BUSY_SNAPSHOT);
    assert_eq!(one.one("SELECT count(*) FROM other WHERE v = 'never'"), "0");
}

/// A SELECT that stays open while its connection commits never shows two states.
#[test]
fn a_select_that_is_open_over_commits_shows_one_state_or_fails() {
    let bank = Bank::new();
    let (one, two) = (bank.connect(), bank.connect());
    one.ok("WITH RECURSIVE n(i) AS (SELECT 4 UNION ALL SELECT i + 1 FROM n WHERE i < 50) INSERT INTO acc SELECT i, 100, '' FROM n");
    // If no other connection writes, the SELECT continues.
    let select = one.prepare("SELECT id, cents FROM acc ORDER BY id").unwrap();
    let mut rows = 0;
    while let Some(row) = select.step().unwrap() {
        one.ok(&format!("UPDATE acc SET note = 'seen' WHERE id = {}", row[0]));
        rows += 1;
    }
    assert_eq!(rows, 50);
    drop(select);
    // Money moves from a row that the SELECT has not read to a row that it has read. Either the sum is right, or the
    // SELECT fails.
    let (mut sums, mut failures) = (0, 0);
    for round in 0..20 {
        let select = one.prepare("SELECT id, cents FROM acc ORDER BY id").unwrap();
        let mut sum = 0;
        let ended = loop {
            match select.step() {
                Ok(Some(row)) => {
                    sum += row[1].parse::<i64>().unwrap();
                    let moves = row[0] == "25" && round % 2 == 0;
                    if moves {
                        two.ok("BEGIN IMMEDIATE; UPDATE acc SET cents = cents - 1 WHERE id = 40; UPDATE acc SET cents = cents + 1 WHERE id = 10; COMMIT");
                    }
                    if row[0].parse::<u32>().unwrap() % 10 == 6 {
                        // The insert fails if another connection has changed rows that this connection has read.
                        if let Err(failure) = one.run("INSERT INTO other(v) VALUES (NULL)") {
                            assert_eq!(failure.code, BUSY_SNAPSHOT, "{failure:?}");
                        }
                    }
                }
                Ok(None) => break true,
                Err(failure) => {
                    let is_told = failure.code == BUSY_SNAPSHOT || failure.sentence.contains("have changed");
                    assert!([ABORT_ROLLBACK, BUSY_SNAPSHOT].contains(&failure.code) && is_told, "{failure:?}");
                    break false;
                }
            }
        };
        match ended {
            true => {
                assert_eq!(sum, 5000, "round {round}");
                sums += 1;
            }
            false => failures += 1,
        }
    }
    assert!(sums >= 10, "{sums} sums, {failures} failures");
}

/// While a commit is on its way to the disk, another connection moves money from a row that the SELECT has not read to
/// a row that the SELECT has read.
#[test]
fn a_select_that_is_open_over_a_slow_commit_shows_one_state_or_fails() {
    let bank = Bank::new();
    let one = bank.connect();
    one.ok("PRAGMA synchronous = FULL");
    let (mut sums, mut failures) = (0, 0);
    // The second SELECT opens a cursor for each row.
    let selects = [
        "SELECT cents FROM acc ORDER BY id",
        "WITH v(x) AS (VALUES (1), (2), (3)) SELECT (SELECT cents FROM acc WHERE id = x) FROM v",
    ];
    for round in 0..30 {
        one.ok("BEGIN IMMEDIATE; UPDATE acc SET note = 'x' WHERE id = 2");
        let select = one.prepare(selects[round % 2]).unwrap();
        let first: i64 = select.step().unwrap().unwrap()[0].parse().unwrap();
        let mover = meanwhile(
            bank.connect(),
            "BEGIN IMMEDIATE; UPDATE acc SET cents = cents + 1 WHERE id = 1; UPDATE acc SET cents = cents - 1 WHERE id = 3; COMMIT",
        );
        assert!(!mover.is_finished(), "the mover waits for the row that the SELECT has read");
        one.ok("COMMIT");
        let rest = [select.step(), select.step()].map(|row| row.map(|row| row.unwrap()[0].parse::<i64>().unwrap()));
        match rest {
            [Ok(second), Ok(third)] => {
                assert_eq!(first + second + third, 300);
                sums += 1;
            }
            [Err(failure), _] | [_, Err(failure)] => {
                assert_eq!(failure.code, ABORT_ROLLBACK, "{failure:?}");
                failures += 1;
            }
        }
        drop(select);
        mover.join().unwrap().1.unwrap();
    }
    println!("figures: {sums} sums, {failures} refusals");
}

#[test]
fn a_row_that_a_unique_insert_collided_with_is_found() {
    let bank = Bank::new();
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let connection = bank.connect();
            connection.ok("PRAGMA synchronous = FULL");
            std::thread::spawn(move || {
                for name in 0..60 {
                    let insert = format!("INSERT INTO other(v) VALUES ('name {name}')");
                    match connection.run(&insert) {
                        Ok(_) => {}
                        Err(failure) => assert_eq!(failure.code & 0xff, 19, "{failure:?}"),
                    }
                    assert_eq!(connection.one(&format!("SELECT count(*) FROM other WHERE v = 'name {name}'")), "1");
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(bank.connect().one("SELECT count(*) FROM other"), "60");
    bank.check();
}

/// Some calls of SQLite cannot return an error. If such a call needs a lock that is not granted, the statement fails:
/// it never returns only a part of its rows.
#[test]
fn a_lock_that_is_not_granted_never_shortens_an_answer() {
    let bank = Bank::new();
    let (holder, one) = (bank.connect(), bank.connect());
    holder.ok("WITH RECURSIVE n(i) AS (SELECT 4 UNION ALL SELECT i + 1 FROM n WHERE i < 9) INSERT INTO acc SELECT i, i * 10, '' FROM n");
    let selects = [
        "SELECT id FROM acc",
        "SELECT id FROM acc ORDER BY id DESC",
        "SELECT max(id) FROM acc WHERE id < 7",
        "SELECT id FROM acc WHERE id <= 6 ORDER BY id DESC",
        "SELECT id FROM acc WHERE id BETWEEN 2 AND 6 ORDER BY id DESC",
        "SELECT cents FROM acc WHERE cents < 75 ORDER BY cents DESC LIMIT 1",
        "SELECT max(cents) FROM acc WHERE cents <= 60",
        "SELECT min(cents) FROM acc WHERE cents > 55",
        "SELECT count(*) FROM acc WHERE cents = 60",
        "SELECT count(*) FROM acc",
        "SELECT id FROM acc WHERE id IN (5, 6, 7)",
        "SELECT a.id, b.id FROM acc a JOIN acc b ON b.cents = a.cents WHERE a.id > 4",
        "SELECT id FROM acc WHERE cents NOT IN (SELECT cents FROM acc WHERE id > 6)",
    ];
    let answers = selects.map(|select| one.ok(select));
    one.busy_timeout(5);
    let mut refused = 0;
    for hold in [
        "UPDATE acc SET note = 'held' WHERE id = 6",
        "UPDATE acc SET cents = 61 WHERE id = 6",
        "DELETE FROM acc WHERE id = 6",
    ] {
        holder.ok("BEGIN IMMEDIATE");
        holder.ok(hold);
        for (select, answer) in selects.iter().zip(&answers) {
            one.ok("BEGIN IMMEDIATE");
            match one.run(select) {
                Ok(rows) => assert_eq!(&rows, answer, "{select} while another connection holds: {hold}"),
                Err(failure) => {
                    assert_eq!(failure.code, BUSY, "{select}: {failure:?}");
                    assert!(failure.sentence.contains("lock"), "{select}: {failure:?}");
                    refused += 1;
                }
            }
            one.ok("ROLLBACK");
        }
        holder.ok("ROLLBACK");
    }
    assert!(refused >= 20, "{refused}");
    bank.check();
}

#[test]
fn an_interrupt_ends_the_wait_of_its_own_connection_only() {
    let bank = Bank::new();
    let (holder, one) = (bank.connect(), bank.connect());
    holder.ok("BEGIN IMMEDIATE; UPDATE acc SET cents = 1 WHERE id = 1");
    let other = meanwhile(bank.connect(), "UPDATE acc SET cents = cents + 10 WHERE id = 1 RETURNING cents");
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| one.run("UPDATE acc SET cents = 3 WHERE id = 1"));
        std::thread::sleep(Duration::from_millis(100));
        one.interrupt();
        let failure = waiting.join().unwrap().unwrap_err();
        assert_eq!((failure.code, &*failure.sentence), (9, "interrupted"));
    });
    assert!(!other.is_finished());
    holder.ok("COMMIT");
    assert_eq!(other.join().unwrap().1.unwrap(), [["11"]]);
    one.ok("UPDATE acc SET cents = 4 WHERE id = 1");
    bank.check();
}

#[test]
fn begin_exclusive_keeps_writers_out_and_lets_readers_continue() {
    let bank = Bank::new();
    let (one, two) = (bank.connect(), bank.connect());
    two.busy_timeout(30);
    one.ok("BEGIN EXCLUSIVE");
    std::thread::scope(|scope| {
        let refused = scope.spawn(|| two.code("UPDATE acc SET cents = 1 WHERE id = 1"));
        assert_eq!(refused.join().unwrap(), BUSY);
        let refused = scope.spawn(|| two.code("BEGIN EXCLUSIVE"));
        assert_eq!(refused.join().unwrap(), BUSY);
        assert_eq!(scope.spawn(|| two.one("SELECT count(*) FROM acc")).join().unwrap(), "3");
    });
    one.ok("COMMIT");
    two.ok("UPDATE acc SET cents = 1 WHERE id = 1");
}

#[test]
fn a_wait_for_another_connection_of_the_same_thread_ends_soon() {
    let bank = Bank::new();
    let (one, two) = (bank.connect(), bank.connect());
    one.ok("BEGIN IMMEDIATE; UPDATE acc SET cents = 1 WHERE id = 1");
    let begin = Instant::now();
    assert_eq!(two.code("UPDATE acc SET cents = 2 WHERE id = 1"), BUSY);
    assert!(begin.elapsed() < Duration::from_secs(5), "it must not wait for the timeout of 10 s");
    one.ok("ROLLBACK");
    two.ok("UPDATE acc SET cents = 2 WHERE id = 1");
}

/// The triggers of two statements lock rows in opposite orders. The program does not notice the statements' deadlocks.
#[test]
fn a_statement_that_a_deadlock_ended_runs_again() {
    let bank = Bank::new();
    bank.connect().ok("CREATE TABLE a(id INTEGER PRIMARY KEY, n INT); CREATE TABLE b(id INTEGER PRIMARY KEY, n INT);
        INSERT INTO a VALUES (1, 0); INSERT INTO b VALUES (1, 0);
        CREATE VIEW ab AS SELECT 1 AS x; CREATE VIEW ba AS SELECT 1 AS x;
        CREATE TRIGGER t_ab INSTEAD OF INSERT ON ab BEGIN UPDATE a SET n = n + 1; UPDATE b SET n = n + 1; END;
        CREATE TRIGGER t_ba INSTEAD OF INSERT ON ba BEGIN UPDATE b SET n = n + 1; UPDATE a SET n = n + 1; END");
    let threads: Vec<_> = ["INSERT INTO ab VALUES (1)", "INSERT INTO ba VALUES (1)"]
        .map(|insert| {
            let connection = bank.connect();
            std::thread::spawn(move || (0..200).for_each(|_| drop(connection.ok(insert))))
        })
        .into_iter()
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(bank.connect().ok("SELECT a.n, b.n FROM a, b"), [["400", "400"]]);
}

/// Lets four workers take the 200 jobs of a queue. Returns the number of jobs that they have taken.
fn jobs_taken(bank: &Bank, take: fn(&Connection, u32) -> Rows) -> u32 {
    bank.connect().ok("CREATE TABLE job(id INTEGER PRIMARY KEY, worker INT); CREATE INDEX job_worker ON job(worker);
        WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 200) INSERT INTO job(id) SELECT i FROM n");
    let workers = (1..=4).map(|worker| {
        let connection = bank.connect();
        std::thread::spawn(move || {
            let mut done = 0;
            while !take(&connection, worker).is_empty() {
                done += 1;
            }
            done
        })
    });
    let workers: Vec<_> = workers.collect();
    workers.into_iter().map(|thread| thread.join().unwrap()).sum()
}

#[test]
fn a_job_queue_of_one_statement_gives_each_job_once() {
    let bank = Bank::new();
    let taken = jobs_taken(&bank, |connection, worker| {
        connection.ok(&format!(
            "UPDATE job SET worker = {worker} WHERE id = (SELECT min(id) FROM job WHERE worker IS NULL) RETURNING id"
        ))
    });
    assert_eq!(taken, 200);
    bank.check();
}

/// No worker gets an error, because the workers wait for each other at the search for the first job.
#[test]
fn a_job_queue_in_immediate_transactions_gives_each_job_once() {
    let bank = Bank::new();
    let taken = jobs_taken(&bank, |connection, worker| {
        connection.ok("BEGIN IMMEDIATE");
        let taken = connection.ok("SELECT id FROM job WHERE worker IS NULL ORDER BY id LIMIT 1");
        if let Some(row) = taken.first() {
            connection.ok(&format!("UPDATE job SET worker = {worker} WHERE id = {}", row[0]));
        }
        connection.ok("COMMIT");
        taken
    });
    assert_eq!(taken, 200);
    bank.check();
}

#[test]
fn one_connection_makes_the_table_if_several_connections_make_it_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("new.tp");
    let threads: Vec<_> = (0..4)
        .map(|number| {
            let path = path.clone();
            std::thread::spawn(move || {
                let connection = Connection::open(&path);
                connection.busy_timeout(10_000);
                connection.ok("CREATE TABLE IF NOT EXISTS t(id INTEGER PRIMARY KEY, v)");
                connection.ok(&format!("INSERT INTO t(v) VALUES ({number})"));
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    let connection = Connection::open(&path);
    assert_eq!(connection.ok("SELECT id FROM t"), [["1"], ["2"], ["3"], ["4"]]);
}

/// All inserts change the same row of `sqlite_sequence`.
#[test]
fn autoincrement_gives_each_number_once() {
    let bank = Bank::new();
    bank.connect().ok("CREATE TABLE auto(id INTEGER PRIMARY KEY AUTOINCREMENT, v)");
    let threads: Vec<_> = (0..4)
        .map(|worker| {
            let connection = bank.connect();
            std::thread::spawn(move || {
                for number in 0..25 {
                    let insert = format!("INSERT INTO auto(v) VALUES ('{worker}-{number}')");
                    match number % 2 {
                        0 => drop(connection.ok(&insert)),
                        _ => drop(connection.ok(&format!("BEGIN IMMEDIATE; {insert}; COMMIT"))),
                    }
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    let one = bank.connect();
    assert_eq!(one.ok("SELECT count(*), count(DISTINCT v), min(id), max(id) FROM auto"), [["100", "100", "1", "100"]]);
    assert_eq!(one.one("SELECT seq FROM sqlite_sequence WHERE name = 'auto'"), "100");
}

#[test]
fn a_change_of_the_schema_waits_for_writers_and_is_seen_by_all() {
    let bank = Bank::new();
    let one = bank.connect();
    one.ok("BEGIN IMMEDIATE; UPDATE acc SET cents = 7 WHERE id = 1");
    let waiting = meanwhile(bank.connect(), "ALTER TABLE acc ADD COLUMN colour DEFAULT 'red'");
    assert!(!waiting.is_finished());
    one.ok("COMMIT");
    waiting.join().unwrap().1.unwrap();
    assert_eq!(one.one("SELECT colour FROM acc WHERE id = 1"), "'red'");
}

#[test]
fn the_data_version_changes_with_commits_of_other_connections() {
    let bank = Bank::new();
    let (one, two) = (bank.connect(), bank.connect());
    let before = one.one("PRAGMA data_version");
    assert_eq!(one.one("PRAGMA data_version"), before);
    two.ok("INSERT INTO other VALUES (1, 1)");
    assert_ne!(one.one("PRAGMA data_version"), before);
}

#[test]
fn an_insert_waits_for_a_lower_number_of_its_table() {
    let bank = Bank::new();
    let (one, reader) = (bank.connect(), bank.connect());
    one.ok("BEGIN IMMEDIATE; INSERT INTO other(v) VALUES ('a')");
    let waiting = meanwhile(bank.connect(), "INSERT INTO other(v) VALUES ('b') RETURNING id");
    assert!(!waiting.is_finished());
    reader.ok("INSERT INTO acc(cents) VALUES (5)");
    assert_eq!(reader.one("SELECT count(*) FROM other"), "0");
    one.ok("COMMIT");
    assert_eq!(waiting.join().unwrap().1.unwrap(), [["2"]]);
}

#[test]
fn a_poller_by_number_misses_no_row() {
    const WRITERS: usize = 4;
    const ROWS: usize = 150;
    let bank = Bank::new();
    let mut seen = 0;
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let connection = bank.connect();
                scope.spawn(move || {
                    for row in 0..ROWS {
                        let insert = format!("INSERT INTO other(v) VALUES ('{writer} {row}')");
                        match row % 3 {
                            0 => connection.ok(&insert),
                            1 => connection.ok(&format!("BEGIN IMMEDIATE; {insert}; SELECT count(*) FROM acc; COMMIT")),
                            _ => connection.ok(&format!("BEGIN IMMEDIATE; {insert}; ROLLBACK; {insert}")),
                        };
                    }
                })
            })
            .collect();
        let (reader, mut last) = (bank.connect(), 0);
        loop {
            // The last SELECT must begin after the last commit.
            let is_last = writers.iter().all(|writer| writer.is_finished());
            for row in reader.ok(&format!("SELECT id FROM other WHERE id > {last} ORDER BY id")) {
                last = row[0].parse().unwrap();
                seen += 1;
            }
            if is_last {
                break;
            }
        }
    });
    assert_eq!(seen, WRITERS * ROWS);
    assert_eq!(
        bank.connect().one("SELECT max(id) FROM other"),
        (WRITERS * ROWS).to_string(),
        "there must be no gap in the numbers"
    );
}

#[test]
fn rowids_are_the_same_as_in_sqlite() {
    let bank = Bank::new();
    let file = Connection::open(&bank.directory.path().join("file.db"));
    let statements = [
        "CREATE TABLE t(id INTEGER PRIMARY KEY, v UNIQUE); CREATE TABLE a(id INTEGER PRIMARY KEY AUTOINCREMENT, v)",
        "INSERT INTO t(v) VALUES ('a'), ('b') RETURNING id",
        "BEGIN; INSERT INTO t(v) VALUES ('c'), ('d'); INSERT INTO a(v) VALUES (1); ROLLBACK",
        "INSERT INTO t(v) VALUES ('c') RETURNING id",
        "INSERT OR IGNORE INTO t(v) VALUES ('a'), ('d') RETURNING id",
        "BEGIN IMMEDIATE; INSERT INTO t(v) VALUES ('e'); SAVEPOINT s; INSERT INTO t(v) VALUES ('f'), ('g'); ROLLBACK TO s",
        "INSERT INTO t(v) VALUES ('f') RETURNING id",
        "COMMIT; INSERT INTO t(id, v) VALUES (50, 'h'); INSERT INTO t(v) VALUES ('i') RETURNING id",
        "BEGIN; INSERT INTO t(id, v) VALUES (-3, 'j'), (60, 'k'); INSERT INTO t(v) VALUES ('l') RETURNING id",
        "COMMIT; UPDATE t SET id = 70 WHERE id = 60; INSERT INTO t(v) VALUES ('m') RETURNING id",
        "REPLACE INTO t(id, v) VALUES (80, 'm'); INSERT INTO t(v) VALUES ('n') RETURNING id",
        "DELETE FROM t; INSERT INTO t(v) VALUES ('a') RETURNING id",
        "INSERT INTO a(v) VALUES (1) RETURNING id; DELETE FROM a",
        "INSERT INTO a(v) VALUES (2) RETURNING id",
        "INSERT INTO t(id, v) VALUES (9223372036854775806, 'o'); INSERT INTO t(v) VALUES ('p') RETURNING id",
    ];
    let ours = bank.connect();
    for statement in statements {
        assert_eq!(ours.run(statement).unwrap(), file.run(statement).unwrap(), "{statement}");
    }
    bank.check();
}

#[test]
fn a_rule_of_the_environment_holds_for_all_its_connections() {
    let bank = Bank::new();
    let (one, two) = (bank.connect(), bank.connect());
    assert_eq!(one.one("PRAGMA tp_rowid"), "'exact'");
    assert_eq!(one.one("PRAGMA tp_immediate"), "'together'");
    for (wrong, sentence) in [
        ("PRAGMA tp_rowid = ordered", "tp_rowid is exact or free, not ordered; nothing was changed"),
        ("PRAGMA tp_immediate = 2", "tp_immediate is together or alone, not 2; nothing was changed"),
    ] {
        let failure = one.run(wrong).unwrap_err();
        assert_eq!(failure.sentence, sentence);
    }
    for begin in ["BEGIN; SELECT * FROM acc", "BEGIN IMMEDIATE"] {
        two.ok(begin);
        let failure = two.run("PRAGMA tp_rowid = free").unwrap_err();
        assert!(failure.sentence.contains("cannot be changed in a transaction"), "{failure:?}");
        two.ok("ROLLBACK");
    }
    assert_eq!(one.one("PRAGMA tp_immediate"), "'together'");
    assert_eq!(one.one("PRAGMA tp_rowid = free"), "'free'");
    assert_eq!(bank.connect().one("PRAGMA tp_rowid"), "'free'");
}

#[test]
fn begin_immediate_excludes_writers_if_the_setting_asks_for_it() {
    let bank = Bank::new();
    let (one, two) = (bank.connect(), bank.connect());
    one.ok("PRAGMA tp_immediate = alone; BEGIN IMMEDIATE");
    two.busy_timeout(0);
    assert_eq!(two.run("BEGIN IMMEDIATE").unwrap_err().code, BUSY);
    assert_eq!(two.run("UPDATE acc SET cents = 1 WHERE id = 1").unwrap_err().code, BUSY);
    assert_eq!(two.one("SELECT sum(cents) FROM acc"), "300");
    one.ok("COMMIT");
    two.ok("BEGIN IMMEDIATE; UPDATE acc SET cents = 1 WHERE id = 1; COMMIT; PRAGMA tp_immediate = together");
    one.ok("BEGIN IMMEDIATE");
    std::thread::scope(|scope| scope.spawn(move || two.ok("BEGIN IMMEDIATE; COMMIT")).join().unwrap());
}

#[test]
fn free_numbers_of_an_undone_transaction_come_again_if_no_later_number_was_taken() {
    let bank = Bank::new();
    let (one, two) = (bank.connect(), bank.connect());
    one.ok("PRAGMA tp_rowid = free");
    one.ok("BEGIN; INSERT INTO other(v) VALUES ('a'), ('b'); ROLLBACK");
    assert_eq!(one.one("INSERT INTO other(v) VALUES ('c') RETURNING id"), "1");
    one.ok("BEGIN; INSERT INTO other(v) VALUES ('d')");
    std::thread::scope(|scope| {
        // The other connection does not wait until the first connection's transaction ends.
        assert_eq!(scope.spawn(|| two.one("INSERT INTO other(v) VALUES ('e') RETURNING id")).join().unwrap(), "3");
    });
    one.ok("ROLLBACK");
    assert_eq!(one.one("INSERT INTO other(v) VALUES ('f') RETURNING id"), "4");
}

//! Are the tables correct after many processes have written, and some of them were killed?
//!
//! Children of this test move money between accounts, and report each commit through a pipe. The test kills children
//! with SIGKILL at any moment, and starts other children. At the end it checks that no reported commit is missing, that
//! the sums are right, and that each index agrees with its table. `LIBTP_TEST_KILLS` is the number of kills.
#![allow(clippy::unwrap_used)] // The whole file is tests.

mod sql;

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{channel, Receiver, Sender};
use std::time::{Duration, Instant};

use sql::{Connection, BUSY_SNAPSHOT};

const PATH: &str = "LIBTP_TEST_SQL_PATH";
const WORKER: &str = "LIBTP_TEST_SQL_WORKER";
const ACCOUNTS: u64 = 40;

fn environment() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let connection = Connection::open(&directory.path().join("bank.tp"));
    connection.ok("PRAGMA synchronous = OFF;
        CREATE TABLE acc(id INTEGER PRIMARY KEY, cents INT, version INT DEFAULT 0);
        CREATE INDEX acc_cents ON acc(cents);
        CREATE TABLE moved(id INTEGER PRIMARY KEY, a INT, b INT, cents INT, teller TEXT UNIQUE);
        CREATE INDEX moved_a ON moved(a);
        WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 40) INSERT INTO acc(id, cents) SELECT i, 1000 FROM n");
    directory
}

/// Starts a child: this test program, which runs the test `child` with these words. A thread passes on the commits that
/// the child reports.
fn start(directory: &Path, words: &str, reported: &Sender<String>) -> Child {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child", "--ignored", "--nocapture", "--quiet"])
        .env(PATH, directory.join("bank.tp"))
        .env(WORKER, words)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let (lines, reported) = (BufReader::new(child.stdout.take().unwrap()).lines(), reported.clone());
    std::thread::spawn(move || {
        for line in lines.map_while(Result::ok).filter(|line| line.starts_with("done ")) {
            let _ = reported.send(line);
        }
    });
    child
}

/// The work of a child: `NUMBER SYNCHRONOUS COMMITS`.
#[test]
#[ignore = "a child of the other tests"]
fn child() {
    let (Some(path), Ok(words)) = (std::env::var_os(PATH), std::env::var(WORKER)) else { return };
    let words: Vec<&str> = words.split(' ').collect();
    let (worker, commits): (u64, u64) = (words[0].parse().unwrap(), words[2].parse().unwrap());
    let connection = Connection::open(Path::new(&path));
    connection.busy_timeout(20_000);
    connection.ok(&format!("PRAGMA synchronous = {}", words[1]));
    let mut out = std::io::stdout();
    let mut random = worker.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    for number in 0..commits {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let (a, b) = (random % ACCOUNTS + 1, (random >> 20) % ACCOUNTS + 1);
        let (cents, teller) = ((random >> 40) % 50, format!("{worker}-{number}"));
        let begin = if random >> 60 < 8 { "BEGIN IMMEDIATE" } else { "BEGIN" };
        loop {
            let moved = connection.run(&format!(
                "{begin}; UPDATE acc SET cents = cents - {cents}, version = version + 1 WHERE id = {a};
                INSERT INTO moved(a, b, cents, teller) VALUES ({a}, {b}, {cents}, '{teller}');
                UPDATE acc SET cents = cents + {cents}, version = version + 1 WHERE id = {b}; COMMIT"
            ));
            match moved {
                Ok(_) => break,
                // A deadlock with a transaction that has changed the two accounts in the opposite order.
                Err(failure) if failure.code == BUSY_SNAPSHOT => drop(connection.ok("ROLLBACK")),
                Err(failure) => panic!("{failure:?}"),
            }
        }
        writeln!(out, "done {teller}").unwrap();
    }
}

/// Checks the sums and the indices, and that no reported commit is missing. Returns the number of reported commits and
/// the number of commits.
fn audit(directory: &Path, reported: &Receiver<String>) -> (usize, usize) {
    let connection = Connection::open(&directory.join("bank.tp"));
    let reported: Vec<String> = reported.try_iter().map(|line| line["done ".len()..].to_owned()).collect();
    for teller in &reported {
        let found = connection.one(&format!("SELECT count(*) FROM moved WHERE teller = '{teller}'"));
        assert_eq!(found, "1", "the reported commit {teller} must be there once");
    }
    assert_eq!(connection.one("SELECT sum(cents) FROM acc"), "40000");
    assert_eq!(
        connection.ok("SELECT id FROM acc WHERE cents <> 1000
        - (SELECT total(cents) FROM moved WHERE a = acc.id) + (SELECT total(cents) FROM moved WHERE b = acc.id)"),
        sql::Rows::new()
    );
    let kept: usize = connection.one("SELECT count(*) FROM moved").parse().unwrap();
    assert_eq!(connection.one("SELECT sum(version) FROM acc"), (2 * kept).to_string());
    assert_eq!(connection.one("PRAGMA integrity_check"), "'ok'");
    (reported.len(), kept)
}

/// Waits until the threads have read the last lines of dead children from the pipes.
fn settle() {
    std::thread::sleep(Duration::from_millis(300));
}

#[test]
fn two_and_four_processes_write_at_once() {
    for processes in [2, 4] {
        let directory = environment();
        let (sender, receiver) = channel();
        let children: Vec<Child> =
            (1..=processes).map(|worker| start(directory.path(), &format!("{worker} OFF 300"), &sender)).collect();
        for mut child in children {
            assert!(child.wait().unwrap().success());
        }
        settle();
        let (reported, kept) = audit(directory.path(), &receiver);
        assert_eq!((reported, kept), (processes * 300, processes * 300));
    }
}

#[test]
fn no_answered_commit_is_lost_when_writers_are_killed() {
    let kills: u32 = std::env::var("LIBTP_TEST_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(12);
    for synchronous in ["OFF", "FULL"] {
        let directory = environment();
        let (sender, receiver) = channel();
        let mut worker = 0;
        let mut another = || {
            worker += 1;
            start(directory.path(), &format!("{worker} {synchronous} 1000000"), &sender)
        };
        let mut children: Vec<Child> = (0..3).map(|_| another()).collect();
        for kill in 0..kills {
            std::thread::sleep(Duration::from_millis(100 + u64::from(kill * 37 % 100)));
            let mut victim = children.remove(0);
            victim.kill().unwrap();
            victim.wait().unwrap();
            children.push(another());
        }
        // After the last kill, the other children continue.
        let begin = Instant::now();
        let reader = Connection::open(&directory.path().join("bank.tp"));
        let count = || reader.one("SELECT count(*) FROM moved").parse::<u64>().unwrap();
        let before = count();
        while count() < before + 50 {
            assert!(begin.elapsed() < Duration::from_secs(60), "the survivors must commit");
            std::thread::sleep(Duration::from_millis(20));
        }
        for mut child in children {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        settle();
        let (reported, kept) = audit(directory.path(), &receiver);
        assert!(reported > 0 && reported <= kept);
        println!("figures: {kills} kills, {synchronous}: {kept} commits, {reported} answered, none of these lost");
    }
}

/// Runs Python's module `sqlite3` with this library instead of SQLite's library. Skipped if there is no Python that
/// links `libsqlite3.so.0`.
#[test]
fn pythons_sqlite_module_works_with_the_library() {
    let directory = tempfile::tempdir().unwrap();
    // Cargo builds the library in the test program's directory. It makes a link in the directory above only if the
    // build was for the library.
    let library = std::env::current_exe().unwrap().with_file_name("liblibtp_sqlite.so");
    assert!(library.exists(), "cargo builds {}", library.display());
    std::os::unix::fs::symlink(&library, directory.path().join("libsqlite3.so.0")).unwrap();
    let script = "import sqlite3, sys
c = sqlite3.connect('one.tp')
if c.execute('pragma journal_mode').fetchone() != ('wal',) or not __import__('os').path.isdir('one.tp'):
    print('another SQLite'); sys.exit()
c.execute('create table t(id integer primary key, v)')
c.executemany('insert into t(v) values (?)', [(i,) for i in range(100)]); c.commit()
f = sqlite3.connect('one.db'); f.execute('create table t(v)'); f.execute('insert into t values (1)'); f.commit()
print('sum', c.execute('select sum(v) from t').fetchone()[0], open('one.db', 'rb').read(15).decode())
";
    let ran = Command::new("/usr/bin/python3")
        .args(["-c", script])
        .current_dir(directory.path())
        .env("LD_LIBRARY_PATH", directory.path())
        .output();
    let Ok(ran) = ran else {
        return sql::skipped("there is no /usr/bin/python3 (Debian: python3)");
    };
    let (out, err) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    if out.contains("another SQLite") || err.contains("No module named") {
        return sql::skipped("this Python does not link libsqlite3.so.0");
    }
    assert_eq!(out.trim(), "sum 4950 SQLite format 3", "{err}");
}

//! Does SQL on an environment give the same results as SQL on a file?
//!
//! The same library runs the same statements on both: a script with all kinds of statements, and random statements from
//! a seed. `LIBTP_TEST_SEED` is the first seed, `LIBTP_TEST_ROUNDS` the number of seeds.
#![allow(clippy::unwrap_used)] // The whole file is tests.

mod sql;

use std::fmt::Write as _;

use sql::{Connection, Rows};

/// An SQLite file and an environment with the same contents.
struct Both {
    file: Connection,
    environment: Connection,
    _directory: tempfile::TempDir,
}

impl Both {
    fn new() -> Both {
        let directory = tempfile::tempdir().unwrap();
        let file = Connection::open(&directory.path().join("one.db"));
        let environment = Connection::open(&directory.path().join("one.tp"));
        for connection in [&file, &environment] {
            connection.ok("PRAGMA synchronous = OFF");
        }
        Both { file, environment, _directory: directory }
    }

    /// Runs a statement on both, compares the results, and returns the rows; no rows if the statement fails on both.
    #[track_caller]
    fn run(&self, sql: &str, context: &str) -> Rows {
        let (file, environment) = (self.file.run(sql), self.environment.run(sql));
        assert_eq!(environment, file, "an environment (left) and a file (right) differ, {context}: {sql}");
        file.unwrap_or_default()
    }
}

/// Statements whose rows or errors must be the same on both.
const SCRIPT: &str = include_str!("likeness.sql");

#[test]
fn a_script_of_all_kinds_of_statements_gives_the_same_results() {
    let both = Both::new();
    let mut results = 0;
    let mut statement = String::new();
    for line in SCRIPT.lines().filter(|line| !line.trim().is_empty() && !line.starts_with("--")) {
        statement.push_str(line);
        statement.push('\n');
        // The semicolons in a trigger's body are on indented lines.
        if line.ends_with(';') && !line.starts_with(' ') {
            both.run(&statement, "in the script");
            results += 1;
            statement.clear();
        }
    }
    assert!(results >= 69, "{results}");
    println!("figures: {results} statements with the same results");
}

/// SQL changes rows while a SELECT of the same connection runs.
#[test]
fn a_select_continues_while_its_connection_changes_rows() {
    let both = Both::new();
    both.run("CREATE TABLE t(id INTEGER PRIMARY KEY, v)", "");
    both.run("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100) INSERT INTO t SELECT i, i FROM n", "");
    let seen = [&both.file, &both.environment].map(|connection| {
        let select = connection.prepare("SELECT id FROM t ORDER BY id").unwrap();
        let mut seen = Vec::new();
        while let Some(row) = select.step().unwrap() {
            let id: u32 = row[0].parse().unwrap();
            seen.push(id);
            match id {
                50 => drop(connection.ok("DELETE FROM t WHERE id IN (50, 51, 52)")),
                id if id % 20 == 0 => drop(connection.ok(&format!("UPDATE t SET v = -1 WHERE id = {id}"))),
                _ => {}
            }
        }
        seen
    });
    assert_eq!(seen[0], seen[1]);
    both.run("SELECT count(*), sum(v) FROM t", "after the loop");
}

/// A blob handle ends when its row is changed, and only then.
#[test]
fn a_blob_is_read_and_written_in_parts() {
    let both = Both::new();
    both.run(
        "CREATE TABLE t(id INTEGER PRIMARY KEY, a, b); INSERT INTO t VALUES (1, 'x', zeroblob(10)), (2, 'y', x'0102')",
        "",
    );
    let seen = [&both.file, &both.environment].map(|connection| {
        let (one, again, other) = (connection.blob(c"b", 1), connection.blob(c"b", 1), connection.blob(c"b", 2));
        let mut seen = vec![one.write(b"hey", 3), one.write(b"beyond", 9)];
        seen.extend([one.read::<3>(3), again.read(4), other.read(0)].map(|read| i32::from(read.is_ok())));
        assert_eq!(again.read(3), Ok(*b"hey"));
        connection.ok("UPDATE t SET a = 'longer than before' WHERE id = 1");
        seen.extend([one.read::<1>(0), again.read(0), other.read(1)].map(|read| read.err().unwrap_or(0)));
        seen.extend([one.write(b"no", 0), other.write(b"yes", 0), other.write(b"y", 1)]);
        connection.ok("DELETE FROM t WHERE id = 2");
        seen.push(other.read::<1>(0).err().unwrap_or(0));
        seen
    });
    assert_eq!(seen[1], seen[0]);
    both.run("SELECT * FROM t", "after the blobs");
}

/// Random numbers from a seed (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % bound
    }

    fn one_of<'t>(&mut self, choices: &[&'t str]) -> &'t str {
        choices[usize::try_from(self.below(choices.len() as u64)).unwrap()]
    }
}

fn value(random: &mut Random) -> String {
    match random.below(9) {
        0 => "NULL".into(),
        1 | 2 => format!("{}", i64::try_from(random.below(35)).unwrap() - 5),
        3 => format!("{}.{}", random.below(30), random.below(100)),
        4 => format!("'{}'", random.one_of(&["a", "b", "A", "B", "ab", "", "a ", "bé"])),
        5 => random.one_of(&["x''", "x'61'", "x'00'", "x'0001'"]).into(),
        6 => format!("{}", 9_007_199_254_740_989 + random.below(6)),
        7 => "9007199254740992.0".into(),
        _ => format!("{}", random.below(12)),
    }
}

fn statement(random: &mut Random) -> String {
    let (row, other) = (random.below(60), random.below(60));
    let column = random.one_of(&["a", "b", "c"]);
    let compares = random.one_of(&["=", "<", ">", ">=", "<="]);
    let (one, two, three) = (value(random), value(random), value(random));
    let some = |text: &str| if text == "NULL" { "0".to_owned() } else { text.to_owned() };
    match random.below(26) {
        0..=4 => format!("INSERT OR REPLACE INTO t VALUES ({row}, {one}, {two}, {three})"),
        5 => format!("INSERT INTO t VALUES ({row}, {one}, {two}, {three}) RETURNING id, a"),
        6 => format!("INSERT OR IGNORE INTO w VALUES ({}, {}, {three})", some(&one), some(&two)),
        7 => format!(
            "INSERT INTO x VALUES ({}, {one}, {row})",
            random.one_of(&["'a'", "'A'", "'b'", "'c'", "'Zed'", "3", "NULL"])
        ),
        8 => format!("UPDATE t SET {column} = {one} WHERE {} {compares} {two}", random.one_of(&["a", "b", "c", "id"])),
        9 => format!("UPDATE OR IGNORE t SET id = id + {} WHERE id BETWEEN {row} AND {other}", 1 + random.below(8)),
        10 => format!("DELETE FROM t WHERE {column} {compares} {one} AND id % 3 = 0"),
        11 => format!("DELETE FROM w WHERE a = {one}; UPDATE OR REPLACE w SET b = {} WHERE c = {two}", some(&three)),
        12 => {
            let table = random.one_of(&["t", "t", "w", "x"]);
            let columns = match table {
                "t" => random.one_of(&[
                    "a",
                    "b, c",
                    "c DESC, a",
                    "b DESC",
                    "c COLLATE RTRIM",
                    "a COLLATE NOCASE, b",
                    "a + 1",
                ]),
                "w" => random.one_of(&["c", "b, c", "c DESC"]),
                _ => random.one_of(&["k", "v", "k COLLATE BINARY", "tid DESC, k"]),
            };
            let part = random.one_of(&["", " WHERE 1", " WHERE v IS NOT NULL"]);
            let part = if table == "x" { part } else { "" };
            format!("CREATE INDEX IF NOT EXISTS i{} ON {table}({columns}){part}", random.below(6))
        }
        13 => format!("DROP INDEX IF EXISTS i{}", random.below(6)),
        14 => format!("BEGIN {}", random.one_of(&["", "IMMEDIATE", "EXCLUSIVE"])),
        15 => random.one_of(&["COMMIT", "COMMIT", "ROLLBACK"]).into(),
        16 => "SAVEPOINT s".into(),
        17 => random.one_of(&["ROLLBACK TO s", "RELEASE s"]).into(),
        18 => format!("SELECT id, {column} FROM t ORDER BY {column} {}, id LIMIT 20", random.one_of(&["", "DESC"])),
        19 => format!(
            "SELECT id FROM t WHERE {column} {compares} {one} ORDER BY {column} {}, id",
            random.one_of(&["", "DESC"])
        ),
        20 => format!("SELECT * FROM w WHERE a {compares} {one} ORDER BY a {}, b", random.one_of(&["", "DESC"])),
        21 => {
            format!("SELECT k, v FROM x WHERE k {compares} '{}' ORDER BY k, rowid", random.one_of(&["a", "ZED", "B"]))
        }
        22 => "SELECT count(*), min(a), max(b), count(DISTINCT c) FROM t".into(),
        23 => format!("SELECT id FROM t WHERE a IN ({one}, {two}) OR b = {three} ORDER BY id"),
        24 => "UPDATE t SET a = (SELECT max(v) FROM x WHERE x.tid = t.id) WHERE id % 4 = 1".into(),
        _ => "SELECT t.id, x.k FROM t JOIN x ON x.tid = t.id ORDER BY 1, 2, x.rowid".into(),
    }
}

#[test]
fn random_statements_give_the_same_results() {
    let number = |name: &str, other: u64| std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(other);
    let (first, rounds) = (number("LIBTP_TEST_SEED", 1), number("LIBTP_TEST_ROUNDS", 3));
    let mut statements = 0;
    for seed in first..first + rounds {
        let both = Both::new();
        both.run(
            "CREATE TABLE t(id INTEGER PRIMARY KEY, a, b, c);
            CREATE TABLE w(a, b, c, PRIMARY KEY (a DESC, b)) WITHOUT ROWID;
            CREATE TABLE log(what);
            CREATE TABLE x(k COLLATE NOCASE, v, tid REFERENCES t(id));
            CREATE TRIGGER tr AFTER DELETE ON t BEGIN INSERT INTO log VALUES (old.id); END",
            "at the beginning",
        );
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let mut story = String::new();
        for step in 0..400 {
            let statement = statement(&mut random);
            let _ = writeln!(story, "{statement};");
            both.run(&statement, &format!("seed {seed}, step {step}"));
            statements += 1;
        }
        if both.file.is_in_transaction() {
            both.run("COMMIT", "at the end");
        }
        let context = format!("seed {seed}, at the end");
        for check in [
            "PRAGMA integrity_check",
            "SELECT * FROM t ORDER BY id",
            "SELECT * FROM w",
            "SELECT * FROM x ORDER BY rowid",
            "SELECT * FROM log",
        ] {
            both.run(check, &context);
        }
    }
    println!("figures: {statements} random statements of {rounds} seeds with the same results");
}

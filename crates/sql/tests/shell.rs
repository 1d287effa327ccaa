//! Does the shell do what its help says, and does an error name its file and line?
#![allow(clippy::unwrap_used)] // The whole file is tests.

mod tp_sql;

use std::io::Read;
use std::process::Stdio;

use tempfile::tempdir;
use tp_sql::{command, open, rows, sql, sql_reading, EVERYTHING};

#[test]
fn options_determine_how_rows_are_printed() {
    let home = tempdir().unwrap();
    let made = "CREATE TABLE t(id INTEGER PRIMARY KEY, v TEXT); INSERT INTO t(v) VALUES ('a'), ('b')";
    assert_eq!(sql(home.path(), &["one.tp", made]).text(), "");
    assert!(home.path().join("one.tp").is_dir(), "a name that ends in .tp means an environment");
    let shown = |options: &[&str]| sql(home.path(), &[options, &["one.tp", "SELECT * FROM t"]].concat()).text();
    assert_eq!(shown(&[]), "1|a\n2|b\n");
    assert_eq!(shown(&["--mode", "csv", "--headers"]), "id,v\n1,a\n2,b\n");
    assert_eq!(shown(&["--json"]), "{\"id\":1,\"v\":\"a\"}\n{\"id\":2,\"v\":\"b\"}\n");
    assert!(sql(home.path(), &["--mode", "cards", "one.tp"]).refused(2).contains("column, table, csv"));
    assert!(sql(home.path(), &["--read-only", "one.tp", "DELETE FROM t"]).refused(1).contains("readonly"));
    assert!(sql(home.path(), &["--read-only", "two.tp", "SELECT 1"]).refused(1).contains("two.tp"));
    assert!(!home.path().join("two.tp").exists());
}

#[test]
fn statements_of_several_lines_come_from_standard_input_and_from_files() {
    let home = tempdir().unwrap();
    let script =
        "CREATE TABLE t(v);\nCREATE TRIGGER r AFTER INSERT ON t BEGIN\n  SELECT 1;\nEND;\nINSERT INTO t\nVALUES (';');";
    std::fs::write(home.path().join("script.sql"), script).unwrap();
    let outcome = sql_reading(home.path(), &["one.tp"], ".read script.sql\nSELECT count(*),\n v FROM t").text();
    assert_eq!(outcome, "1|;\n");
    std::fs::write(home.path().join("circle.sql"), ".read circle.sql\n").unwrap();
    assert!(sql(home.path(), &["one.tp", ".read circle.sql"]).refused(1).contains("nested"));
}

#[test]
fn the_shell_stops_at_the_first_statement_that_fails() {
    let home = tempdir().unwrap();
    let script = "CREATE TABLE t(v);\n\nBEGIN;\nINSERT INTO t VALUES (1);\nINSERT INTO\n u VALUES (2);\nCOMMIT;\n";
    let outcome = sql_reading(home.path(), &["one.tp"], script);
    let error = outcome.refused(1);
    assert!(error.contains("standard input, line 5: no such table: u"), "{error}");
    assert_eq!(sql(home.path(), &["one.tp", "SELECT count(*) FROM t"]).text(), "0\n");
    let outcome = sql(home.path(), &["one.tp", "SELECT v FRM t"]);
    assert!(outcome.refused(1).contains("near \"t\": syntax error, before \"t\""), "{}", outcome.err);
    assert!(sql(home.path(), &["one.tp", ".tabels"]).refused(2).contains("`.help` lists"));
    assert!(sql(home.path(), &["one.tp", ".import t"]).refused(2).contains(".import [--tabs] [--skip N] FILE TABLE"));
}

#[test]
fn the_shell_ends_without_a_message_when_its_reader_closes_the_pipe() {
    let home = tempdir().unwrap();
    let endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n";
    let mut child =
        command(home.path(), &[":memory:", endless]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut first = [0; 4];
    child.stdout.take().unwrap().read_exact(&mut first).unwrap();
    let ended = child.wait_with_output().unwrap();
    assert_eq!((&first, ended.status.code(), ended.stderr), (b"1\n2\n", Some(141), Vec::new()));
}

#[test]
fn commands_show_the_database() {
    let home = tempdir().unwrap();
    sql(home.path(), &["one.tp", EVERYTHING]).text();
    let shown = |command: &str| sql(home.path(), &["one.tp", command]).text();
    assert_eq!(
        shown(".tables"),
        "auto\nbackwards\nboxes\nbroken\nchecked\nkeyed\nmade\nodd \"name\nplain\nseen\nstrict\nwords\n"
    );
    assert_eq!(shown(".tables s%"), "seen\nstrict\n");
    assert_eq!(shown(".indexes plain"), "plain_a\nplain_b\n");
    assert_eq!(shown(".schema strict"), "CREATE TABLE strict(a INT, b TEXT) STRICT;\n");
    assert_eq!(shown(".explain SELECT * FROM auto WHERE id = 1"), "SEARCH auto USING INTEGER PRIMARY KEY (rowid=?)\n");
    for (name, _) in [(".help", ""), (".quit", "")] {
        assert!(shown(".help").contains(name));
    }
    let outcome = sql(home.path(), &["one.tp", ".timer on", "SELECT 1", ".quit", "SELECT 2"]).text();
    assert!(outcome.starts_with("1\ntime ") && outcome.ends_with(" s, 1 rows\n"), "{outcome}");
}

#[test]
fn all_records_of_a_file_become_rows_or_no_record_does() {
    let home = tempdir().unwrap();
    std::fs::write(home.path().join("in.csv"), "id,note\n1,\"a, \"\"b\"\"\"\n2,\n").unwrap();
    let words = ["one.tp", ".import in.csv t", ".mode csv", ".headers on", ".output out.csv", "SELECT * FROM t"];
    assert_eq!(sql(home.path(), &words).text(), "2 rows were added to t\n");
    let written = std::fs::read_to_string(home.path().join("out.csv")).unwrap();
    assert_eq!(written, "id,note\n1,\"a, \"\"b\"\"\"\n2,\n");
    let again = sql(home.path(), &["one.tp", ".import --skip 1 in.csv t", "SELECT count(*) FROM t"]).text();
    assert!(again.ends_with("\n4\n"), "{again}");
    std::fs::write(home.path().join("bad.csv"), "5\t6\n7\n").unwrap();
    let outcome = sql(home.path(), &["one.tp", ".import --tabs bad.csv t"]);
    assert!(
        outcome.refused(1).contains("bad.csv: line 2 has 1 values, and table t has 2 columns. No row"),
        "{}",
        outcome.err
    );
    assert_eq!(sql(home.path(), &["one.tp", "SELECT count(*) FROM t"]).text(), "4\n");
}

#[test]
fn a_dump_recreates_the_database() {
    let home = tempdir().unwrap();
    sql(home.path(), &["one.tp", EVERYTHING]).text();
    let dump = sql(home.path(), &["one.tp", ".dump"]).text();
    for copy in ["two.tp", "two.db"] {
        assert_eq!(sql_reading(home.path(), &[copy], &dump).text(), "");
        assert_eq!(sql(home.path(), &[copy, ".dump"]).text(), dump, "{copy}");
        let copy = open(home.path(), copy);
        assert_eq!(rows(&copy, "SELECT rowid FROM words WHERE words MATCH 'other'").len(), 1);
    }
    let part = sql(home.path(), &["one.tp", ".dump strict"]).text();
    assert!(part.contains("CREATE TABLE strict") && !part.contains("plain"), "{part}");
}

//! `get`, `put`, `del`, `scan`: their output, as text and as JSON, and their exit codes.
#![allow(clippy::unwrap_used)] // The whole file is tests.

mod tp;

use std::io::Read;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::json;
use tempfile::tempdir;
use tp::{tp, tp_reading, tp_words};

#[test]
fn a_value_is_put_got_changed_and_deleted() {
    let env = tempdir().unwrap();
    let put = |value| assert_eq!(tp("put", env.path(), &["stock", "apples", value]).text(), "");
    put("3");
    assert_eq!(tp("get", env.path(), &["stock", "apples"]).text(), "3\n");
    put("2");
    assert_eq!(tp("get", env.path(), &["stock", "apples"]).text(), "2\n");
    assert_eq!(tp("del", env.path(), &["stock", "apples"]).text(), "");
    let gone = tp("get", env.path(), &["stock", "apples"]);
    assert!(gone.refused(1).contains("apples") && gone.out.is_empty());
    assert!(tp("del", env.path(), &["stock", "apples"]).refused(1).contains("no record apples in stock"));
}

#[test]
fn json_has_one_object_with_the_record_and_the_result() {
    let env = tempdir().unwrap();
    let put = tp("put", env.path(), &["stock", "pears", "7", "--json"]);
    assert_eq!(put.result(), json!({ "database": "stock", "key": "pears", "put": true }));
    let get = tp("get", env.path(), &["stock", "pears", "--json"]);
    assert_eq!(get.result(), json!({ "database": "stock", "key": "pears", "value": "7", "found": true }));
    let del = tp("del", env.path(), &["stock", "pears", "--json"]);
    assert_eq!(del.result(), json!({ "database": "stock", "key": "pears", "deleted": true }));
    let again = tp("del", env.path(), &["--json", "stock", "pears"]);
    assert_eq!(
        (again.code, again.json()),
        (Some(1), vec![json!({ "database": "stock", "key": "pears", "deleted": false })])
    );
    let get = tp("get", env.path(), &["stock", "pears", "--json"]);
    assert_eq!((get.code, get.json()), (Some(1), vec![json!({ "database": "stock", "key": "pears", "found": false })]));
}

#[test]
fn any_bytes_go_in_and_out_in_hexadecimal() {
    let env = tempdir().unwrap();
    tp("put", env.path(), &["--hex", "bytes", "00ff", "0a0d00"]).text();
    assert_eq!(tp("get", env.path(), &["--hex", "bytes", "00FF"]).text(), "0a0d00\n");
    let json = tp("scan", env.path(), &["bytes", "--json"]).json();
    assert_eq!(json[0], json!({ "key_hex": "00ff", "value": "\n\r\u{0}" }));
    assert_eq!(json[1], json!({ "database": "bytes", "records": 1 }));
    assert!(tp("get", env.path(), &["--hex", "bytes", "0x"]).refused(2).contains("not a hexadecimal digit"));
}

#[test]
fn a_value_of_any_size_comes_from_standard_input() {
    let env = tempdir().unwrap();
    let long: Vec<u8> = (0..300_000_u32).map(|at| u8::try_from(at % 251).unwrap()).collect();
    tp_reading("put", env.path(), &["files", "long"], &long).text();
    let mut got = tp("get", env.path(), &["files", "long"]);
    assert_eq!((got.code, got.out.pop()), (Some(0), Some(b'\n')));
    assert!(got.out == long);
    tp_reading("put", env.path(), &["files", "empty"], b"").text();
    assert_eq!(tp("get", env.path(), &["files", "empty"]).text(), "\n");
}

#[test]
fn a_scan_goes_from_a_key_to_a_key_in_both_directions() {
    let env = tempdir().unwrap();
    for key in ["a", "b", "c", "d"] {
        tp("put", env.path(), &["letters", key, &key.repeat(2)]).text();
    }
    let scan = |words: &[&str]| {
        let mut all = vec!["letters"];
        all.extend(words);
        tp("scan", env.path(), &all).text()
    };
    assert_eq!(scan(&[]), "a\taa\nb\tbb\nc\tcc\nd\tdd\n");
    assert_eq!(scan(&["b", "--to", "d"]), "b\tbb\nc\tcc\n");
    assert_eq!(scan(&["--limit", "1"]), "a\taa\n");
    assert_eq!(scan(&["--limit", "0"]), "");
    assert_eq!(scan(&["--reverse"]), "d\tdd\nc\tcc\nb\tbb\na\taa\n");
    assert_eq!(scan(&["--reverse", "b!", "--to", "a"]), "b\tbb\n");
    assert_eq!(scan(&["--reverse", "c", "--limit", "2"]), "c\tcc\nb\tbb\n");
    assert_eq!(scan(&["--reverse", "zzz", "--limit", "1"]), "d\tdd\n");
    assert_eq!(scan(&["e"]), "");
}

/// The test has databases that do not sort keys by their bytes, or that have several values per key. A scan from the
/// end begins at the last value of a key, and `--to` is compared in the database's order.
#[test]
fn a_scan_goes_by_the_order_of_the_database_and_over_all_values_of_a_key() {
    use libtp::{order, Duplicates, Env};
    let directory = tempdir().unwrap();
    {
        let env = Env::open_or_create(directory.path()).unwrap();
        let down = env.btree_ordered("down", order::Descending).unwrap();
        let caseless = env.btree_ordered("caseless", order::AsciiCaseless).unwrap();
        let little = env.btree_ordered("little", order::LittleEndian).unwrap();
        let tags = env.multi("tags", Duplicates::Sorted).unwrap();
        let down_tags = env.multi_ordered("down tags", Duplicates::AsTheyCame, order::Descending).unwrap();
        let (hash, lines) = (env.hash("hash").unwrap(), env.list("lines").unwrap());
        env.run(|txn| {
            for key in ["a", "b", "c", "d"] {
                down.put(txn, key.as_bytes(), b"")?;
                caseless.put(txn, key.as_bytes(), b"")?;
                for value in [b"1", b"2"] {
                    tags.put(txn, key.as_bytes(), value)?;
                    down_tags.put(txn, key.as_bytes(), value)?;
                }
                hash.put(txn, key.as_bytes(), b"")?;
                lines.append(txn, key.as_bytes())?;
            }
            for number in [255_u16, 256, 257, 512] {
                little.put(txn, &number.to_le_bytes(), b"")?;
            }
            Ok(())
        })
        .unwrap();
    }
    let scan = |words: &[&str]| {
        let message = [&[][..], &["--lock"]].map(|lock| tp("scan", directory.path(), &[words, lock].concat()).text());
        assert_eq!(message[0], message[1], "{words:?}");
        message[0].lines().map(|line| line.replace('\t', "")).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(scan(&["down", "c", "--to", "a"]), "c b");
    assert_eq!(scan(&["down", "--to", "b"]), "d c");
    assert_eq!(scan(&["down", "b", "--to", "d"]), "");
    assert_eq!(scan(&["down", "b", "--to", "d", "--reverse"]), "b c");
    assert_eq!(scan(&["down", "bb", "--reverse"]), "c d");
    assert_eq!(scan(&["caseless", "B", "--to", "D"]), "b c");
    assert_eq!(scan(&["caseless", "C", "--reverse", "--to", "A"]), "c b");
    assert_eq!(scan(&["little", "ff00", "--to", "0101", "--hex"]), "ff00 0001");
    assert_eq!(scan(&["little", "0101", "--to", "ff00", "--reverse", "--hex"]), "0101 0001");
    assert_eq!(scan(&["tags", "b", "--to", "d"]), "b1 b2 c1 c2");
    assert_eq!(scan(&["tags", "c", "--to", "a", "--reverse"]), "c2 c1 b2 b1");
    assert_eq!(scan(&["tags", "cc", "--reverse", "--limit", "1"]), "c2");
    assert_eq!(scan(&["tags", "d", "--reverse", "--limit", "3"]), "d2 d1 c2");
    assert_eq!(scan(&["down tags", "c", "--to", "a"]), "c1 c2 b1 b2");
    assert_eq!(scan(&["down tags", "b", "--to", "d", "--reverse"]), "b2 b1 c2 c1");
    assert_eq!(scan(&["lines", "2", "--to", "4"]), "2b 3c");
    assert_eq!(scan(&["lines", "9", "--to", "2", "--reverse"]), "4d 3c");
    assert_eq!(scan(&["hash"]).len(), "a b c d".len());
    for words in [&["hash", "--to", "c"][..], &["hash", "c"], &["hash", "--reverse"]] {
        assert!(tp("scan", directory.path(), words).refused(2).contains("hash is a hash file"), "{words:?}");
    }
}

/// Records that are being printed are not locked: `tp dump NAME | less` must not keep other sessions from writing.
#[test]
fn an_unread_dump_blocks_no_writer_and_has_the_records_from_before_the_writes() {
    const RECORDS: u32 = 4000;
    let directory = tempdir().unwrap();
    let env = libtp::Env::open_or_create(directory.path()).unwrap();
    let db = env.btree("db").unwrap();
    let put_all = |value: &str| {
        let value = value.repeat(100);
        env.run(|txn| (0..RECORDS).try_for_each(|key| db.put(txn, &key.to_be_bytes(), value.as_bytes())))
    };
    for (verb, old) in [("dump", "old"), ("scan", "new")] {
        put_all(old).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_tp"));
        command.args([verb, "db", "--env"]).arg(directory.path()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut out = child.stdout.take().unwrap();
        // The first bytes have arrived. The rest does not fit into the pipe and the program's buffer, so the dump is
        // not at its end.
        let mut message = vec![0];
        out.read_exact(&mut message).unwrap();
        std::thread::scope(|scope| {
            let (done, is_done) = std::sync::mpsc::channel();
            scope.spawn(move || done.send(put_all("changed")));
            let written = is_done.recv_timeout(Duration::from_secs(60));
            out.read_to_end(&mut message).unwrap();
            written
                .unwrap_or_else(|_| panic!("no process can write while the output of `tp {verb}` is not read"))
                .unwrap();
        });
        assert!(child.wait().unwrap().success());
        let text = String::from_utf8_lossy(&message).into_owned();
        let value = old.repeat(100);
        let value = match verb {
            "dump" => value.bytes().map(|byte| format!("{byte:02x}")).collect(),
            _ => value,
        };
        assert_eq!(text.matches(&value).count(), RECORDS as usize, "{verb}");
    }
}

#[test]
fn a_verb_that_reads_or_deletes_makes_no_environment_and_no_database() {
    let parent = tempdir().unwrap();
    let env = parent.path().join("env");
    for (verb, words) in
        [("get", ["db", "key"].as_slice()), ("scan", &["db"]), ("dump", &["db"]), ("del", &["db", "k"])]
    {
        let refused = tp(verb, &env, words);
        assert!(refused.refused(1).contains("env"), "{verb}: {}", refused.err);
        assert!(!env.exists(), "{verb} made the environment");
    }
    tp("put", &env, &["db", "key", "value"]).text();
    let refused = tp("get", &env, &["other", "key", "--json"]);
    assert!(refused.refused(1).contains("other"));
    assert!(refused.json()[0]["error"].as_str().unwrap().contains("other"));
    assert_eq!(tp("dump", &env, &["other"]).refused(1), tp("scan", &env, &["other"]).err);
}

#[test]
fn wrong_usage_ends_with_two() {
    let env = tempdir().unwrap();
    for words in [
        vec!["fly"],
        vec![],
        vec!["get", "db", "key"],
        vec!["get", "--env", "somewhere"],
        vec!["demo", "--clients", "0"],
        vec!["demo", "--seconds", "soon"],
        vec!["scan", "--env", "somewhere", "db", "--limit", "many"],
    ] {
        let refused = tp_words(&words, b"");
        assert!(!refused.refused(2).is_empty(), "{words:?}");
        assert!(refused.out.is_empty(), "{words:?}");
    }
    assert!(tp_words(&["--help"], b"").text().contains("printlog"));
    assert!(tp_words(&["--version"], b"").text().starts_with("tp "));
    drop(env);
}

#[test]
fn records_by_number_have_decimal_keys_from_one() {
    let env = tempdir().unwrap();
    let dump = "VERSION=3\nformat=print\ntype=recno\nre_len=3\nHEADER=END\n one\n two\n six\nDATA=END\n";
    tp_reading("load", env.path(), &["numbers"], dump.as_bytes()).text();
    assert_eq!(tp("get", env.path(), &["numbers", "2"]).text(), "two\n");
    tp("put", env.path(), &["numbers", "2", "ten"]).text();
    assert_eq!(tp("scan", env.path(), &["numbers", "2"]).text(), "2\tten\n3\tsix\n");
    let json = tp("get", env.path(), &["numbers", "3", "--json"]).result();
    assert_eq!(json, json!({ "database": "numbers", "key": 3, "value": "six", "found": true }));
    assert_eq!(tp("scan", env.path(), &["numbers", "--reverse", "--limit", "1"]).text(), "3\tsix\n");
    tp("del", env.path(), &["numbers", "1"]).text();
    assert!(tp("get", env.path(), &["numbers", "1"]).refused(1).contains("no record 1"));
    assert!(tp("get", env.path(), &["numbers", "0"]).refused(2).contains("from 1"));
    assert!(tp("get", env.path(), &["numbers", "one"]).refused(2).contains("`one` is not a record number"));
    assert!(!tp("put", env.path(), &["numbers", "2", "too long"]).refused(1).is_empty());
}

#[test]
fn compaction_includes_lists_and_skips_databases_that_only_their_program_can_open() {
    let directory = tempdir().unwrap();
    {
        let env = libtp::Env::open_or_create(directory.path()).unwrap();
        env.pages("drawings").unwrap();
        let lines = env.list("lines").unwrap();
        env.run(|txn| {
            (0..3000_u32).try_for_each(|number| lines.append(txn, &number.to_le_bytes().repeat(9)).map(|_| ()))
        })
        .unwrap();
        env.run(|txn| {
            (1..3000_u64)
                .rev()
                .filter(|number| number % 8 != 0)
                .try_for_each(|number| lines.delete(txn, number).map(|_| ()))
        })
        .unwrap();
        env.recno("numbers", 8).unwrap();
    }
    let message = tp("compact", directory.path(), &["--json"]);
    assert!(message.err.contains("drawings") && message.err.contains("skipped"), "{}", message.err);
    let done = message.json();
    assert_eq!(done.len(), 1);
    assert_eq!(done[0]["database"], "lines");
    assert!(done[0]["merged"].as_u64() > Some(3), "{}", done[0]);
    assert_eq!(tp("get", directory.path(), &["lines", "2", "--hex"]).text().trim_end(), "0f000000".repeat(9));
    assert!(tp("verify", directory.path(), &["lines"]).code == Some(0));
    assert!(tp("compact", directory.path(), &["numbers"]).refused(1).contains("only B-trees"));
    assert!(tp("compact", directory.path(), &["drawings"]).refused(1).contains("drawings"));
}

#[test]
fn databases_are_listed_renamed_emptied_and_dropped() {
    let env = tempdir().unwrap();
    tp("put", env.path(), &["stock", "pears", "7"]).text();
    tp("put", env.path(), &["stock", "plums", "9"]).text();
    tp("put", env.path(), &["--hash", "parts", "screw", "steel"]).text();
    let listed = tp("list", env.path(), &[]).text();
    let fields = |line: &str| line.split('\t').map(str::to_owned).collect::<Vec<_>>();
    let rows: Vec<Vec<String>> = listed.lines().map(fields).collect();
    assert_eq!(rows.len(), 2, "{listed}");
    assert_eq!((rows[0][0].as_str(), rows[0][1].as_str(), rows[0][3].as_str()), ("parts", "hash", "1"));
    assert_eq!((rows[1][0].as_str(), rows[1][1].as_str(), rows[1][3].as_str()), ("stock", "btree", "2"));
    assert_eq!(tp("list", env.path(), &["--no-count", "stock"]).text().trim_end().split('\t').nth(3), Some("-"));
    assert_eq!(tp("rename", env.path(), &["stock", "store"]).text(), "stock is renamed to store\n");
    assert!(tp("rename", env.path(), &["store", "parts"]).refused(1).contains("parts"));
    assert_eq!(tp("get", env.path(), &["store", "pears"]).text(), "7\n");
    assert_eq!(tp("empty", env.path(), &["store"]).text(), "2 records of store were removed\n");
    assert_eq!(tp("drop", env.path(), &["store"]).text(), "store is dropped\n");
    assert!(tp("drop", env.path(), &["store"]).refused(1).contains("store"));
    assert!(!env.path().join("store.tp").exists());
    assert_eq!(tp("list", env.path(), &["--no-count"]).text().lines().count(), 1);
}

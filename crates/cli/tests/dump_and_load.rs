//! `tp dump` and `tp load`, by themselves and together with Berkeley DB's own `db5.3_dump` and `db5.3_load`.
#![allow(clippy::unwrap_used)] // The whole file is tests.

mod tp;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use libtp::{Bytes, Duplicates, Durability, Env, Order, PageFile, PageLock};
use serde_json::json;
use tempfile::tempdir;
use tp::{run, tp, tp_reading};

const HEADER: &str = "VERSION=3\nformat=bytevalue\ntype=btree\nHEADER=END\n";

#[test]
fn a_dump_is_exactly_the_header_the_pairs_and_the_end() {
    let env = tempdir().unwrap();
    tp("put", env.path(), &["db", "b", ""]).text();
    tp("put", env.path(), &["db", "a", "x\\y\n"]).text();
    tp("put", env.path(), &["db", "--hex", "ff00", "00"]).text();
    let expected = format!("{HEADER} 61\n 785c790a\n 62\n \n ff00\n 00\nDATA=END\n");
    assert_eq!(tp("dump", env.path(), &["db"]).text(), expected);
    let json = tp("dump", env.path(), &["db", "--json"]).json();
    assert_eq!(json[0], json!({ "key_hex": "61", "value_hex": "785c790a" }));
    assert_eq!(json[3], json!({ "database": "db", "type": "btree", "records": 3 }));
    assert_eq!(json.len(), 4);
}

#[test]
fn a_dump_is_loaded_into_another_environment_and_dumped_unchanged() {
    let (one, two) = (tempdir().unwrap(), tempdir().unwrap());
    let mut dump = HEADER.to_string();
    (0..12_000).for_each(|n| dump.push_str(&format!(" {n:08x}\n {}\n", "ab".repeat(n % 90))));
    dump.push_str("DATA=END\n");
    let message = tp_reading("load", &one.path().join("env"), &["db", "--json"], dump.as_bytes());
    let result = message.result();
    assert_eq!((&result["records"], &result["type"]), (&json!(12_000), &json!("btree")));
    assert!(result["seconds"].is_number());
    let first = tp("dump", &one.path().join("env"), &["db"]).text();
    assert!(first == dump);
    let file = two.path().join("dump");
    std::fs::write(&file, &first).unwrap();
    tp("load", &two.path().join("env"), &["other", file.to_str().unwrap()]).text();
    assert!(tp("dump", &two.path().join("env"), &["other"]).text() == dump);
}

#[test]
fn a_dump_in_print_format_replaces_existing_records() {
    let env = tempdir().unwrap();
    tp("put", env.path(), &["db", "old", "1"]).text();
    tp("put", env.path(), &["db", "k\\", "1"]).text();
    let dump = "VERSION=3\nformat=print\ntype=hash\nh_nelem=1\nHEADER=END\n k\\\\\n \\00v\\ff\n new\n 2\nDATA=END\n";
    tp_reading("load", env.path(), &["db"], dump.as_bytes()).text();
    assert_eq!(tp("scan", env.path(), &["db", "--hex"]).text(), "6b5c\t0076ff\n6e6577\t32\n6f6c64\t31\n");
}

#[test]
fn a_hash_file_is_still_a_hash_file_after_a_dump_and_a_load() {
    let (one, two) = (tempdir().unwrap(), tempdir().unwrap());
    for number in 0..20 {
        tp("put", one.path(), &["parts", &format!("part{number}"), "kept", "--hash"]).text();
    }
    let dump = tp("dump", one.path(), &["parts"]).text();
    assert!(dump.contains("type=hash\n"), "{dump}");
    tp_reading("load", two.path(), &["parts"], dump.as_bytes()).text();
    // The same records in the same file have the same order.
    assert_eq!(tp("dump", two.path(), &["parts"]).text(), dump);
    assert_eq!(tp("get", two.path(), &["parts", "part7"]).text().trim_end(), "kept");
    tp("verify", two.path(), &[]).text();
}

#[test]
fn a_list_is_still_a_list_after_a_dump_and_a_load() {
    let (one, two) = (tempdir().unwrap(), tempdir().unwrap());
    for (number, line) in ["first", "", "third, which is longer"].into_iter().enumerate() {
        tp("put", one.path(), &["lines", &(number + 1).to_string(), line, "--list"]).text();
    }
    let dump = tp("dump", one.path(), &["lines"]).text();
    assert!(dump.contains("\ntype=recno\nrenumber=1\n"), "{dump}");
    tp_reading("load", two.path(), &["lines"], dump.as_bytes()).text();
    assert_eq!(tp("dump", two.path(), &["lines"]).text(), dump);
    // The records after the deleted record get lower numbers.
    tp("del", two.path(), &["lines", "1"]).text();
    assert_eq!(tp("scan", two.path(), &["lines"]).text(), "1\t\n2\tthird, which is longer\n");
    assert_eq!(tp("get", two.path(), &["lines", "2"]).text().trim_end(), "third, which is longer");
    tp("verify", two.path(), &[]).text();
}

#[test]
fn records_by_number_are_dumped_without_keys() {
    let env = tempdir().unwrap();
    let dump = "VERSION=3\nformat=bytevalue\ntype=recno\nre_len=2\nHEADER=END\n 0001\n 0203\nDATA=END\n";
    tp_reading("load", env.path(), &["r"], dump.as_bytes()).text();
    assert_eq!(tp("dump", env.path(), &["r"]).text(), dump);
    // A second load gives the same numbers to the records.
    tp_reading("load", env.path(), &["r"], dump.as_bytes()).text();
    assert_eq!(tp("dump", env.path(), &["r"]).text(), dump);
    let keyed = "VERSION=3\nformat=bytevalue\ntype=recno\nkeys=1\nre_len=2\nHEADER=END\n 31\n 0405\nDATA=END\n";
    tp_reading("load", env.path(), &["r"], keyed.as_bytes()).text();
    assert_eq!(tp("scan", env.path(), &["r", "--hex"]).text(), "1\t0405\n2\t0203\n");
    let longer = dump.replace("0203", "020304");
    assert!(tp_reading("load", env.path(), &["r"], longer.as_bytes()).refused(1).contains("standard input: line 7"));
    let unsaid = longer.replace("re_len=2\n", "");
    let sentence = tp_reading("load", env.path(), &["r"], unsaid.as_bytes()).refused(1).to_owned();
    assert!(sentence.contains("2 to 3 bytes") && sentence.contains("nothing was loaded"), "{sentence}");
    assert_eq!(tp("scan", env.path(), &["r", "--hex"]).text(), "1\t0405\n2\t0203\n");
    let empty = "VERSION=3\nformat=print\ntype=recno\nHEADER=END\nDATA=END\n";
    tp_reading("load", env.path(), &["t", "--record-bytes", "9"], empty.as_bytes()).text();
    assert!(tp("dump", env.path(), &["t"]).text().contains("\ntype=recno\nre_len=9\n"));
}

#[test]
fn a_dump_with_keys_keeps_numbers_without_a_record() {
    let (one, two) = (tempdir().unwrap(), tempdir().unwrap());
    let dump =
        "VERSION=3\nformat=bytevalue\ntype=recno\nkeys=1\nre_len=2\nHEADER=END\n 32\n 0203\n 3130\n 0405\nDATA=END\n";
    tp_reading("load", one.path(), &["r"], dump.as_bytes()).text();
    assert_eq!(tp("dump", one.path(), &["r", "-k"]).text(), dump);
    tp_reading("load", two.path(), &["r"], tp("dump", one.path(), &["r", "--keys"]).text().as_bytes()).text();
    assert_eq!(tp("scan", two.path(), &["r", "--hex"]).text(), "2\t0203\n10\t0405\n");
    let without = tp("dump", one.path(), &["r"]).text();
    tp_reading("load", two.path(), &["closer"], without.as_bytes()).text();
    assert_eq!(tp("scan", two.path(), &["closer", "--hex"]).text(), "1\t0203\n2\t0405\n");
    tp("put", one.path(), &["lines", "1", "first", "--list"]).text();
    let lines = tp("dump", one.path(), &["lines", "-k"]).text();
    assert!(lines.contains("renumber=1\nkeys=1\n"), "{lines}");
    tp_reading("load", two.path(), &["lines"], lines.as_bytes()).text();
    assert_eq!(tp("get", two.path(), &["lines", "1"]).text().trim_end(), "first");
}

#[test]
fn a_broken_dump_names_its_line_and_changes_nothing() {
    let env = tempdir().unwrap();
    // The database must exist already, because a new database would be loaded all at once.
    tp("put", env.path(), &["db", "is there", ""]).text();
    let mut dump = HEADER.to_string();
    (0..6_000).for_each(|n| dump.push_str(&format!(" {n:08x}\n 00\n")));
    let broken = tp_reading("load", env.path(), &["db", "--json"], format!("{dump} 6\n").as_bytes());
    let sentence = broken.refused(1);
    assert!(sentence.contains("standard input: line 12005: the number of hexadecimal digits is odd"), "{sentence}");
    assert!(sentence.contains("nothing was loaded"), "{sentence}");
    assert!(broken.json()[0]["error"].as_str().unwrap().contains("line 12005"));
    let cut = tp_reading("load", env.path(), &["db"], dump.as_bytes());
    assert!(cut.refused(1).contains("before DATA=END"));
    let two = format!("{HEADER} 61\n 62\nDATA=END\n{HEADER}DATA=END\n");
    assert!(tp_reading("load", env.path(), &["db"], two.as_bytes()).refused(1).contains("continues after DATA=END"));
    assert_eq!(tp("scan", env.path(), &["db", "--json"]).result()["records"], 1);
    let parent = env.path().join("fresh");
    assert!(tp_reading("load", &parent, &["db"], b"no dump\n").refused(1).contains("line 1"));
    assert!(!parent.exists(), "a file that is no dump makes no environment");
    assert!(tp("load", env.path(), &["db", "/nowhere/dump"]).refused(1).contains("/nowhere/dump"));
}

/// A new database is loaded all at once, from a dump in any order, in a file or on standard input.
#[test]
fn an_unsorted_dump_is_loaded_sorted_and_a_broken_dump_is_not_loaded() {
    let place = tempdir().unwrap();
    let env = place.path().join("env");
    let mut pairs: Vec<String> = (0..3000).map(|n| format!(" {n:08x}\n {}\n", "cd".repeat(n % 50))).collect();
    let sorted = format!("{HEADER}{}DATA=END\n", pairs.concat());
    pairs.reverse();
    let unsorted = format!("{HEADER}{}DATA=END\n", pairs.concat());
    let file = place.path().join("dump");
    std::fs::write(&file, &unsorted).unwrap();
    tp("load", &env, &["file", file.to_str().unwrap()]).text();
    tp("load", &env, &["said", "--unsorted", "--fill", "70", file.to_str().unwrap()]).text();
    tp_reading("load", &env, &["read"], unsorted.as_bytes()).text();
    for name in ["file", "said", "read"] {
        assert!(tp("dump", &env, &[name]).text() == sorted, "{name}");
    }
    tp("verify", &env, &[]).text();
    let broken = unsorted.replace("DATA=END\n", " 61\n");
    let message = tp_reading("load", &env, &["broken"], broken.as_bytes());
    assert!(message.refused(1).contains("nothing was loaded"));
    assert!(tp("dump", &env, &["broken"]).refused(1).contains("broken"), "a refused dump has made a database");
    // If the database exists, the records are put one by one, and replace records with the same keys.
    tp_reading("load", &env, &["file"], sorted.as_bytes()).text();
    assert!(tp("dump", &env, &["file"]).text() == sorted);
}

/// A dump keeps the order of keys, and several values of a key.
#[test]
fn a_dump_keeps_the_order_of_keys_and_several_values_of_a_key() {
    let place = tempdir().unwrap();
    let (one, two) = (place.path().join("one"), place.path().join("two"));
    {
        let env = Env::open_or_create(&one).unwrap();
        let down = env.btree_ordered("down", libtp::order::Descending).unwrap();
        let sets = env.multi("sets", libtp::Duplicates::Sorted).unwrap();
        let lists = env.multi_ordered("lists", libtp::Duplicates::AsTheyCame, libtp::order::AsciiCaseless).unwrap();
        env.run(|txn| {
            for (key, value) in [("a", "1"), ("b", "3"), ("b", "2"), ("c", "0")] {
                down.put(txn, key.as_bytes(), value.as_bytes())?;
                sets.put(txn, key.as_bytes(), value.as_bytes())?;
                lists.put(txn, key.as_bytes(), value.as_bytes())?;
            }
            Ok(())
        })
        .unwrap();
    }
    let dumps = [
        ("down", "libtp_order=descending\n", " 63\n 30\n 62\n 32\n 61\n 31\n"),
        ("sets", "duplicates=1\ndupsort=1\n", " 61\n 31\n 62\n 32\n 62\n 33\n 63\n 30\n"),
        ("lists", "duplicates=1\nlibtp_order=ascii-caseless\n", " 61\n 31\n 62\n 33\n 62\n 32\n 63\n 30\n"),
    ];
    for (name, lines, pairs) in dumps {
        let wanted = format!("VERSION=3\nformat=bytevalue\ntype=btree\n{lines}HEADER=END\n{pairs}DATA=END\n");
        let dump = tp("dump", &one, &[name]).text();
        assert_eq!(dump, wanted, "{name}");
        tp_reading("load", &two, &[name], dump.as_bytes()).text();
        assert_eq!(tp("dump", &two, &[name]).text(), wanted, "{name}");
    }
    let env = Env::open_or_create(&two).unwrap();
    let down = env.btree_ordered("down", libtp::order::Descending).unwrap();
    assert_eq!(env.run(|txn| down.get(txn, b"b")).unwrap().as_deref(), Some(&b"2"[..]));
    let lists = env.multi_ordered("lists", libtp::Duplicates::AsTheyCame, libtp::order::AsciiCaseless).unwrap();
    assert_eq!(env.run(|txn| lists.values(txn, b"B")).unwrap(), [b"3", b"2"]);
    drop(lists);
    drop(env);
    let foreign = "VERSION=3\nformat=bytevalue\ntype=btree\nlibtp_order=martian\nHEADER=END\nDATA=END\n";
    let message = tp_reading("load", &two, &["foreign"], foreign.as_bytes());
    assert!(message.refused(1).contains("martian"));
}

/// An order that `tp` does not have: short keys come before long keys. The name of the order has a newline, which would
/// end a header line.
struct ByLength;

impl Order for ByLength {
    fn name(&self) -> &str {
        "by length\n\\"
    }

    fn encode(&self, key: &[u8], encoded: &mut Vec<u8>) {
        encoded.extend_from_slice(&u16::try_from(key.len()).unwrap().to_be_bytes());
        encoded.extend_from_slice(key);
    }

    fn decode(&self, encoded: &[u8], key: &mut Vec<u8>) {
        key.extend_from_slice(&encoded[2..]);
    }
}

const BY_LENGTH: &str =
    "VERSION=3\nformat=bytevalue\ntype=btree\nlibtp_order=by length\\0a\\\\\nlibtp_keys=stored\nHEADER=END\n";

fn word_of(n: usize) -> Vec<u8> {
    format!("{}{n:04}", "w".repeat((n * 7) % 30)).into_bytes()
}

/// `tp` does not have the order, but copies the tree. The program that has the order finds all records in the copy.
#[test]
fn a_dump_keeps_a_tree_in_an_order_that_only_its_program_has() {
    const WORDS: usize = 2_000;
    let value_of = |n: usize| vec![b'v'; if n % 100 == 0 { 9_000 } else { n % 50 }];
    let place = tempdir().unwrap();
    let (one, two, file) = (place.path().join("one"), place.path().join("two"), place.path().join("dump"));
    {
        let env = Env::open_or_create(&one).unwrap();
        let words = env.btree_ordered("words", ByLength).unwrap();
        env.run(|txn| (0..WORDS).try_for_each(|n| words.put(txn, &word_of(n), &value_of(n)))).unwrap();
    }
    let dump = tp("dump", &one, &["words"]).text();
    assert!(dump.starts_with(&format!("{BY_LENGTH} 000430303030\n ")), "{}", &dump[..200]);
    let json = tp("dump", &one, &["words", "--json", "--lock"]).json();
    assert_eq!(json[0]["key_hex"], "000430303030");
    assert_eq!(json[WORDS], json!({ "database": "words", "type": "btree", "records": WORDS, "keys": "stored" }));
    std::fs::write(&file, &dump).unwrap();
    tp("load", &two, &["file", file.to_str().unwrap()]).text();
    tp_reading("load", &two, &["read"], dump.as_bytes()).text();
    // A second load puts the records one by one over the records of the first load.
    tp_reading("load", &two, &["read"], dump.as_bytes()).text();
    let lines: Vec<&str> = data_of(&dump).lines().collect();
    let backwards: String = lines[..2 * WORDS].chunks(2).rev().map(|pair| pair.join("\n") + "\n").collect();
    std::fs::write(&file, format!("{BY_LENGTH}{backwards}DATA=END\n")).unwrap();
    tp("load", &two, &["backwards", file.to_str().unwrap()]).text();
    assert_eq!(tp("verify", &two, &["--json"]).result()["findings"], 0);

    let env = Env::open_or_create(&two).unwrap();
    for name in ["file", "read", "backwards"] {
        assert!(tp("dump", &two, &[name]).text() == dump, "{name}");
        let refused = env.btree(name).err().map(|error| error.to_string()).unwrap_or_default();
        assert!(refused.contains("by length"), "{name}: {refused}");
        let words = env.btree_ordered(name, ByLength).unwrap();
        assert_eq!(env.verify(name).unwrap().findings, [], "{name}");
        let mut wanted: Vec<Vec<u8>> = (0..WORDS).map(word_of).collect();
        wanted.sort_by_key(|word| (word.len(), word.clone()));
        let found = env.run(|txn| {
            for n in 0..WORDS {
                assert_eq!(words.get(txn, &word_of(n))?, Some(value_of(n)), "{name}: {n}");
            }
            let (mut cursor, mut found) = (words.cursor(txn), Vec::new());
            while let Some((word, _)) = cursor.next()? {
                found.push(word);
            }
            Ok(found)
        });
        assert!(found.unwrap() == wanted, "{name}: other keys, or another order");
        // The program can also change the copy.
        env.run(|txn| words.delete(txn, &word_of(7)).and(words.put(txn, b"new", b"1"))).unwrap();
        assert_eq!(env.verify(name).unwrap().findings, [], "{name}");
    }
}

#[test]
fn a_dump_keeps_several_values_of_a_key_in_an_order_that_only_its_program_has() {
    let place = tempdir().unwrap();
    let (one, two) = (place.path().join("one"), place.path().join("two"));
    let pairs = [("bb", "3"), ("bb", "2"), ("c", "0"), ("a\0a", "1")];
    let wanted = [
        ("sets", Duplicates::Sorted, "duplicates=1\ndupsort=1\n", ["c0", "bb2", "bb3", "a\0a1"]),
        ("lists", Duplicates::AsTheyCame, "duplicates=1\n", ["c0", "bb3", "bb2", "a\0a1"]),
    ];
    let env = Env::open_or_create(&one).unwrap();
    for (name, duplicates, ..) in wanted {
        let db = env.multi_ordered(name, duplicates, ByLength).unwrap();
        env.run(|txn| {
            pairs.iter().try_for_each(|(key, value)| db.put(txn, key.as_bytes(), value.as_bytes()).map(drop))
        })
        .unwrap();
    }
    for (name, duplicates, line, found) in wanted {
        let dump = tp("dump", &one, &[name]).text();
        assert!(dump.starts_with(&BY_LENGTH.replace("libtp_order", &format!("{line}libtp_order"))), "{dump}");
        tp_reading("load", &two, &[name], dump.as_bytes()).text();
        assert_eq!(tp("dump", &two, &[name]).text(), dump, "{name}");
        let env = Env::open_or_create(&two).unwrap();
        let db = env.multi_ordered(name, duplicates, ByLength).unwrap();
        let all = env.run(|txn| {
            let (mut cursor, mut all) = (db.cursor(txn), Vec::new());
            while let Some((key, value)) = cursor.next()? {
                all.push(String::from_utf8([key, value].concat()).unwrap());
            }
            Ok(all)
        });
        assert_eq!(all.unwrap(), found, "{name}");
        assert_eq!(env.run(|txn| db.values(txn, b"c")).unwrap(), [b"0"], "{name}");
        assert_eq!(env.verify(name).unwrap().findings, [], "{name}");
    }
}

#[test]
fn stored_keys_are_loaded_only_into_a_tree_of_the_same_order() {
    let env = tempdir().unwrap();
    tp("put", env.path(), &["plain", "a", "b"]).text();
    Env::open_or_create(env.path()).unwrap().btree_ordered("own", ByLength).unwrap();
    let dump = format!("{BY_LENGTH} 000161\n 31\nDATA=END\n");
    let load = |name: &str, dump: &str| tp_reading("load", env.path(), &[name], dump.as_bytes());
    let sentence = load("plain", &dump).refused(1).to_owned();
    assert!(sentence.contains("`plain`") && sentence.contains("by length"), "{sentence}");
    assert_eq!(tp("scan", env.path(), &["plain"]).text(), "a\tb\n");
    let other = dump.replace("by length", "by weight");
    let sentence = load("own", &other).refused(1).to_owned();
    assert!(sentence.contains("by length") && sentence.contains("by weight"), "{sentence}");
    // Keys that are not encoded cannot be loaded, because `tp` does not have the order.
    let sentence = load("own", &dump.replace("libtp_keys=stored\n", "")).refused(1).to_owned();
    assert!(sentence.contains("standard input") && sentence.contains("libtp_keys=stored"), "{sentence}");
    assert!(load("own", &format!("{HEADER} 61\n 31\nDATA=END\n")).refused(1).contains("by length"));
    let several = dump.replace("type=btree\n", "type=btree\nduplicates=1\n");
    assert!(load("own", &several).refused(1).contains("several values"));
    assert!(load("own", &dump.replace("DATA", "DAT")).refused(1).contains("standard input: line 9"));
    load("own", &dump).text();
    assert_eq!(tp("dump", env.path(), &["own"]).text(), dump);
}

/// Returns the contents of all pages, as a program gets them.
fn pages_of(env: &Env, file: &PageFile) -> Vec<Vec<u8>> {
    let all = env.run(|txn| (0..file.count(txn)?).map(|number| Ok(file.get(txn, number)?.bytes)).collect());
    all.unwrap()
}

/// Puts a page whose contents begin with `bytes` and end with the first byte of `bytes`.
fn put_page(txn: &libtp::Txn<'_>, file: &PageFile, number: u32, bytes: &[u8]) -> libtp::Result<()> {
    file.lock(txn, number, PageLock::Write)?;
    let mut page = file.get(txn, number)?;
    page.bytes[..bytes.len()].copy_from_slice(bytes);
    *page.bytes.last_mut().unwrap() = bytes[0];
    file.put(txn, &page).map(drop)
}

/// If an aborted transaction has added a page, the page remains as zeros, in the middle of the file and at its end.
#[test]
fn a_dump_keeps_a_file_of_pages() {
    const ROOM: usize = (16 << 10) - 32;
    let place = tempdir().unwrap();
    let (one, two, text) = (place.path().join("one"), place.path().join("two"), place.path().join("dump"));
    let env = Env::builder().page_size("notes", Bytes(16 << 10)).open(&one).unwrap();
    let notes = env.pages("notes").unwrap();
    for (number, bytes) in [(0, b"one\n"), (2, b"two\xff")] {
        env.run(|txn| put_page(txn, &notes, number, bytes)).unwrap();
        let undone = env.begin().unwrap();
        put_page(&undone, &notes, number + 1, b"never").unwrap();
        undone.abort().unwrap();
    }
    let page = |begin: &str, end: &str| format!("{begin}{}{end}", "00".repeat(ROOM - 5));
    let (first, third) = (page("6f6e650a", "6f"), page("74776fff", "74"));
    let dump = format!(
        "VERSION=3\nformat=bytevalue\ntype=libtp_pages\ndb_pagesize=16384\nHEADER=END\n \
         30\n {first}\n 31\n \n 32\n {third}\n 33\n \nDATA=END\n"
    );
    assert!(tp("dump", &one, &["notes"]).text() == dump);
    let json = tp("dump", &one, &["notes", "--json"]).json();
    assert_eq!(json[2], json!({ "page": 2, "value_hex": third }));
    assert_eq!(json[4], json!({ "database": "notes", "type": "pages", "records": 4 }));
    std::fs::write(&text, &dump).unwrap();
    assert_eq!(tp("load", &two, &["file", text.to_str().unwrap(), "--json"]).result()["records"], 4);
    let message = tp_reading("load", &two, &["read"], dump.as_bytes()).text();
    assert!(message.starts_with("4 pages into read (pages) in "), "{message}");
    assert_eq!(tp("verify", &two, &["--json"]).result()["findings"], 0);
    let copies = Env::open_or_create(&two).unwrap();
    for name in ["file", "read"] {
        let copy = copies.pages(name).unwrap();
        assert!(pages_of(&copies, &copy) == pages_of(&env, &notes), "{name}");
        assert!(tp("dump", &two, &[name]).text() == dump, "{name}");
        copies.run(|txn| put_page(txn, &copy, 4, b"next")).unwrap();
    }
    env.pages("none").unwrap();
    let empty = tp("dump", &one, &["none"]).text();
    assert!(empty.ends_with("db_pagesize=8192\nHEADER=END\nDATA=END\n"), "{empty}");
    tp_reading("load", &two, &["none"], empty.as_bytes()).text();
    assert_eq!(tp("dump", &two, &["none"]).text(), empty);
}

/// Pages refer to each other, so a part of a file is useless. A refused load adds no pages, so another load can follow.
/// After a successful load, another load is refused.
#[test]
fn a_file_of_pages_is_loaded_whole_into_an_empty_file_or_not_at_all() {
    let env = tempdir().unwrap();
    let header = "VERSION=3\nformat=print\ntype=libtp_pages\ndb_pagesize=4096\nHEADER=END\n";
    let page = |letter: &str| letter.repeat(4064);
    let dump = format!("{header} 0\n {}\n 1\n {}\n 2\n {}\nDATA=END\n", page("a"), page("b"), page("c"));
    let load = |name: &str, dump: &str| tp_reading("load", env.path(), &[name], dump.as_bytes());
    let refused = |name: &str, dump: &str, part: &str| {
        let sentence = load(name, dump).refused(1).to_owned();
        assert!(sentence.contains(part) && sentence.contains("nothing was loaded"), "{sentence}");
    };
    refused("p", &dump.replace("DATA=END\n", ""), "standard input: line 12: the dump ends before DATA=END");
    refused("p", &dump.replace(" 2\n", " 3\n"), "standard input: line 10: page 2 is missing");
    refused("p", &dump.replace("bb\n", "b\n"), "standard input: line 9: a page has 4064 bytes");
    refused("p", &format!("{dump}{dump}"), "continues after DATA=END");
    assert!(!env.path().join("control").exists(), "a refused dump has made an environment");
    load("p", &dump).text();
    let loaded = tp("dump", env.path(), &["p"]).text();
    assert!(data_of(&loaded).starts_with(&format!(" 30\n {}\n 31\n", "61".repeat(4064))));
    refused("p", &dump.replace("aaaa", "zzzz"), "the database has pages already");
    assert!(tp("dump", env.path(), &["p"]).text() == loaded);

    Env::open_or_create(env.path()).unwrap().pages("small").unwrap();
    refused(
        "small",
        &format!("{header}DATA=END\n"),
        "each page of the database has 8160 bytes for its program, and each page of the dump has 4064",
    );
    tp("put", env.path(), &["db", "a", "b"]).text();
    assert!(load("db", &dump).refused(1).contains("it is a btree database, not a pages database"));
    assert!(load("p", &format!("{HEADER} 61\n 62\nDATA=END\n")).refused(1).contains("pages"));
    let fresh = env.path().join("fresh");
    let unsaid = dump.replace("db_pagesize=4096\n", "");
    assert!(tp_reading("load", &fresh, &["p"], unsaid.as_bytes()).refused(1).contains("standard input: line 4"));
    assert!(!fresh.exists(), "a file that is no dump makes no environment");
}

/// Snapshots have no pages, so a dump waits for transactions that change pages.
#[test]
fn pages_are_dumped_as_they_were_at_one_moment() {
    let directory = tempdir().unwrap();
    let env = Env::open_or_create(directory.path()).unwrap();
    let file = env.pages("both").unwrap();
    let put = |txn: &libtp::Txn<'_>, number, bytes: &[u8]| put_page(txn, &file, number, bytes).unwrap();
    let txn = env.begin().unwrap();
    put(&txn, 0, b"old");
    put(&txn, 1, b"old");
    txn.commit().unwrap();
    let txn = env.begin().unwrap();
    put(&txn, 1, b"new");
    let path = directory.path().to_owned();
    let dumping = std::thread::spawn(move || tp("dump", &path, &["both"]).text());
    // Without a lock, the dump would read the first page in this time.
    std::thread::sleep(std::time::Duration::from_millis(500));
    put(&txn, 0, b"new");
    put(&txn, 2, b"new");
    txn.commit().unwrap();
    let dump = dumping.join().unwrap();
    assert_eq!((dump.matches(" 6e6577").count(), dump.matches(" 6f6c64").count()), (3, 0));
}

#[test]
fn a_dump_of_another_kind_of_database_is_refused() {
    let env = tempdir().unwrap();
    tp("put", env.path(), &["db", "a", "b"]).text();
    let dump = "VERSION=3\nformat=print\ntype=recno\nHEADER=END\n one\nDATA=END\n";
    assert!(tp_reading("load", env.path(), &["db"], dump.as_bytes()).refused(1).contains("db"));
    assert_eq!(tp("scan", env.path(), &["db"]).text(), "a\tb\n");
}

/// Returns whether Berkeley DB's programs are installed. With `CI=true`, their absence is a failure.
fn berkeley_db_is_here() -> bool {
    let here = ["db5.3_dump", "db5.3_load"].iter().all(|name| Command::new(name).arg("-V").output().is_ok());
    if !here {
        assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "install db5.3-util: this test must run here");
        eprintln!("\n!!! SKIPPED: db5.3_dump and db5.3_load are not installed (Debian: db5.3-util) !!!\n");
    }
    here
}

/// Lets Berkeley DB's own programs make a Berkeley DB file from a dump, and returns the dump of that file.
fn through_berkeley_db(directory: &Path, name: &str, dump: &str, dump_options: &[&str]) -> String {
    let file = directory.join(name);
    let mut load = Command::new("db5.3_load");
    load.arg(&file);
    let loaded = run(load, dump.as_bytes());
    assert_eq!(loaded.code, Some(0), "db5.3_load: {}", loaded.err);
    let mut back = Command::new("db5.3_dump");
    back.args(dump_options).arg(&file);
    run(back, b"").text()
}

/// Returns the lines after the header.
fn data_of(dump: &str) -> &str {
    let (_, data) = dump.split_once("HEADER=END\n").expect("a dump has a header");
    data
}

/// Berkeley DB's records are loaded, read, and changed in transactions, and survive a crash in the middle of a
/// transaction. Then they are dumped to a file that Berkeley DB accepts and that has exactly the committed records.
#[test]
fn records_of_berkeley_db_are_loaded_changed_recovered_and_dumped_back() {
    if !berkeley_db_is_here() {
        return;
    }
    let directory = tempdir().unwrap();
    let env = directory.path().join("env");
    let mut model: BTreeMap<Vec<u8>, Vec<u8>> = (0..4_000_u32).map(|n| (key_of(n), value_of(n, 0))).collect();
    model.insert(b"\x00\x01\xff\\".to_vec(), b"\n\x80\\n".to_vec());
    let original = through_berkeley_db(directory.path(), "in.db", &dump_of(&model), &["-p"]);
    assert!(original.contains("format=print"));

    assert_eq!(tp_reading("load", &env, &["story", "--json"], original.as_bytes()).result()["records"], 4_001);
    let value = String::from_utf8(value_of(17, 0)).unwrap();
    assert_eq!(tp("get", &env, &["story", "key000017"]).text(), format!("{value}\n"));
    assert_eq!(tp("get", &env, &["story", "--hex", "0001ff5c"]).text(), "0a805c6e\n");
    tp("put", &env, &["story", "by hand", "1"]).text();
    tp("del", &env, &["story", "key000000"]).text();
    model.insert(b"by hand".to_vec(), b"1".to_vec());
    model.remove(&key_of(0));

    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "the_process_that_crashes", "--ignored", "--nocapture"]).env(CRASH_HERE, &env);
    let crashed = run(child, b"");
    assert!(crashed.code.is_none(), "the child was to abort: {}", crashed.err);
    change(&mut Model(&mut model));

    let opened = tp("recover", &env, &["--json"]).result();
    assert!(["repaired", "restarted"].contains(&opened["how"].as_str().unwrap()), "{opened}");
    assert_eq!(tp("verify", &env, &["--json"]).result()["findings"], 0);
    let dump = tp("dump", &env, &["story"]).text();
    assert!(data_of(&dump) == data_of(&dump_of(&model)), "the dump differs from the committed records");
    let back = through_berkeley_db(directory.path(), "out.db", &dump, &[]);
    assert!(data_of(&back) == data_of(&dump), "the records of Berkeley DB differ from the dump that it loaded");
}

#[test]
fn berkeley_db_and_tp_exchange_records_by_number() {
    if !berkeley_db_is_here() {
        return;
    }
    let directory = tempdir().unwrap();
    let env = directory.path().join("env");
    let header = "VERSION=3\nformat=bytevalue\ntype=recno\nre_len=4\nHEADER=END\n";
    let records: String = (0..500_u32).map(|n| format!(" {n:08x}\n")).collect();
    let original = through_berkeley_db(directory.path(), "in.db", &format!("{header}{records}DATA=END\n"), &[]);
    tp_reading("load", &env, &["numbers"], original.as_bytes()).text();
    assert_eq!(tp("get", &env, &["numbers", "500", "--json", "--hex"]).result()["value_hex"], "000001f3");
    let dump = tp("dump", &env, &["numbers"]).text();
    assert!(data_of(&dump) == data_of(&original));
    assert!(data_of(&through_berkeley_db(directory.path(), "out.db", &dump, &[])) == data_of(&original));
}

const CRASH_HERE: &str = "LIBTP_TEST_CRASH_HERE";

/// Not a test, but the process that crashes. Another test starts it.
#[test]
#[ignore = "it aborts; another test starts it"]
fn the_process_that_crashes() {
    let Some(directory) = std::env::var_os(CRASH_HERE) else { return };
    let env = Env::builder().create(false).open(directory).unwrap();
    let story = env.btree("story").unwrap();
    change(&mut Real(&env, &story));
    let txn = env.begin().unwrap();
    for n in 0..500 {
        story.put(&txn, &key_of(n), b"never committed").unwrap();
        story.put(&txn, format!("never {n}").as_bytes(), b"never committed").unwrap();
    }
    story.delete(&txn, &key_of(3_999)).unwrap();
    std::process::abort();
}

/// Makes the changes of the committed transactions in the target, which is the database or the model.
fn change(target: &mut dyn Target) {
    for n in 0..200_u32 {
        let changes = vec![
            (key_of(n * 13), Some(value_of(n, 1))),
            (format!("new {n:04}").into_bytes(), Some(vec![b'x'; usize::try_from(n * 40).unwrap()])),
            (key_of(n * 17 + 1), None),
        ];
        target.commit(n % 2 == 0, &changes);
    }
}

type Change = (Vec<u8>, Option<Vec<u8>>);

trait Target {
    fn commit(&mut self, sync: bool, changes: &[Change]);
}

struct Model<'m>(&'m mut BTreeMap<Vec<u8>, Vec<u8>>);

impl Target for Model<'_> {
    fn commit(&mut self, _sync: bool, changes: &[Change]) {
        for (key, value) in changes {
            match value {
                Some(value) => self.0.insert(key.clone(), value.clone()),
                None => self.0.remove(key),
            };
        }
    }
}

struct Real<'e>(&'e Env, &'e libtp::Db);

impl Target for Real<'_> {
    fn commit(&mut self, sync: bool, changes: &[Change]) {
        let Real(env, db) = self;
        let durability = if sync { Durability::Sync } else { Durability::Relaxed };
        let done = env.run_with(durability, |txn| {
            changes.iter().try_for_each(|(key, value)| match value {
                Some(value) => db.put(txn, key, value),
                None => db.delete(txn, key).map(drop),
            })
        });
        done.unwrap();
    }
}

fn key_of(n: u32) -> Vec<u8> {
    format!("key{n:06}").into_bytes()
}

fn value_of(n: u32, version: u32) -> Vec<u8> {
    format!("value {version} of {n} {}", "-".repeat(usize::try_from(n % 50).unwrap())).into_bytes()
}

fn dump_of(model: &BTreeMap<Vec<u8>, Vec<u8>>) -> String {
    let hex = |bytes: &[u8]| -> String { bytes.iter().map(|byte| format!("{byte:02x}")).collect() };
    let pairs: String = model.iter().map(|(key, value)| format!(" {}\n {}\n", hex(key), hex(value))).collect();
    format!("{HEADER}{pairs}DATA=END\n")
}

/// `tp load` reads each input that the fuzzers start from, and each input that they have found (`cargo xtask soak
/// fuzz`).
#[test]
fn every_dump_of_the_corpus_is_loaded_or_refused_in_a_sentence() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fuzz/corpus/dump_text");
    let mut loaded = 0;
    for entry in std::fs::read_dir(corpus).unwrap() {
        let (path, env) = (entry.unwrap().path(), tempdir().unwrap());
        let message = tp_reading("load", &env.path().join("one"), &["db"], &std::fs::read(&path).unwrap());
        if message.code != Some(0) {
            assert!(matches!(message.code, Some(1 | 2)), "{}: {:?} {}", path.display(), message.code, message.err);
            assert!(
                message.err.starts_with("tp: ") && !message.err.contains("panicked"),
                "{}: {}",
                path.display(),
                message.err
            );
            continue;
        }
        loaded += 1;
        let dump = tp("dump", &env.path().join("one"), &["db"]).text();
        tp_reading("load", &env.path().join("two"), &["db", "--unsorted"], dump.as_bytes()).text();
        assert_eq!(tp("dump", &env.path().join("two"), &["db"]).text(), dump, "{}", path.display());
        tp("verify", &env.path().join("two"), &[]).text();
    }
    assert!(loaded > 3, "only {loaded} were loaded");
}

//! `tp dump` and `tp load`, alone and together with Berkeley DB's own `db5.3_dump` and `db5.3_load`.
#![allow(clippy::unwrap_used)] // The whole file is tests.

mod tp;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use libtp::{Durability, Env};
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
fn a_dump_loads_into_another_environment_and_dumps_the_same() {
    let (one, two) = (tempdir().unwrap(), tempdir().unwrap());
    let mut dump = HEADER.to_string();
    (0..12_000).for_each(|n| dump.push_str(&format!(" {n:08x}\n {}\n", "ab".repeat(n % 90))));
    dump.push_str("DATA=END\n");
    let said = tp_reading("load", &one.path().join("env"), &["db", "--json"], dump.as_bytes());
    let result = said.result();
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
fn a_dump_in_print_loads_over_what_is_there() {
    let env = tempdir().unwrap();
    tp("put", env.path(), &["db", "old", "1"]).text();
    tp("put", env.path(), &["db", "k\\", "1"]).text();
    let dump = "VERSION=3\nformat=print\ntype=hash\nh_nelem=1\nHEADER=END\n k\\\\\n \\00v\\ff\n new\n 2\nDATA=END\n";
    tp_reading("load", env.path(), &["db"], dump.as_bytes()).text();
    assert_eq!(tp("scan", env.path(), &["db", "--hex"]).text(), "6b5c\t0076ff\n6e6577\t32\n6f6c64\t31\n");
}

#[test]
fn a_hash_database_stays_one_through_a_dump() {
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
fn a_list_stays_one_through_a_dump() {
    let (one, two) = (tempdir().unwrap(), tempdir().unwrap());
    for (number, line) in ["first", "", "third, which is longer"].into_iter().enumerate() {
        tp("put", one.path(), &["lines", &(number + 1).to_string(), line, "--list"]).text();
    }
    let dump = tp("dump", one.path(), &["lines"]).text();
    assert!(dump.contains("\ntype=recno\nrenumber=1\n"), "{dump}");
    tp_reading("load", two.path(), &["lines"], dump.as_bytes()).text();
    assert_eq!(tp("dump", two.path(), &["lines"]).text(), dump);
    // Those behind move up.
    tp("del", two.path(), &["lines", "1"]).text();
    assert_eq!(tp("scan", two.path(), &["lines"]).text(), "1\t\n2\tthird, which is longer\n");
    assert_eq!(tp("get", two.path(), &["lines", "2"]).text().trim_end(), "third, which is longer");
    tp("verify", two.path(), &[]).text();
}

#[test]
fn records_by_number_are_dumped_without_keys() {
    let env = tempdir().unwrap();
    let dump = "VERSION=3\nformat=bytevalue\ntype=recno\nHEADER=END\n 0001\n 0203\nDATA=END\n";
    tp_reading("load", env.path(), &["r"], dump.as_bytes()).text();
    assert_eq!(tp("dump", env.path(), &["r"]).text(), dump);
    // A second time the records have the same numbers.
    tp_reading("load", env.path(), &["r"], dump.as_bytes()).text();
    assert_eq!(tp("dump", env.path(), &["r"]).text(), dump);
    let keyed = "VERSION=3\nformat=bytevalue\ntype=recno\nkeys=1\nre_len=2\nHEADER=END\n 31\n 0405\nDATA=END\n";
    tp_reading("load", env.path(), &["r"], keyed.as_bytes()).text();
    assert_eq!(tp("scan", env.path(), &["r", "--hex"]).text(), "1\t0405\n2\t0203\n");
    let ragged = "VERSION=3\nformat=print\ntype=recno\nHEADER=END\n one\n three\nDATA=END\n";
    assert!(tp_reading("load", env.path(), &["s"], ragged.as_bytes()).refused(1).contains("record 2 of the dump"));
    let empty = "VERSION=3\nformat=print\ntype=recno\nHEADER=END\nDATA=END\n";
    assert!(tp_reading("load", env.path(), &["t"], empty.as_bytes()).refused(2).contains("--record-bytes"));
    tp_reading("load", env.path(), &["t", "--record-bytes", "9"], empty.as_bytes()).text();
    assert_eq!(tp("scan", env.path(), &["t"]).text(), "");
}

#[test]
fn numbers_without_a_record_go_through_a_dump_that_has_keys() {
    let (one, two) = (tempdir().unwrap(), tempdir().unwrap());
    let dump = "VERSION=3\nformat=bytevalue\ntype=recno\nkeys=1\nHEADER=END\n 32\n 0203\n 3130\n 0405\nDATA=END\n";
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
fn a_broken_dump_names_its_line_and_what_was_loaded_before_it_stays() {
    let env = tempdir().unwrap();
    // A new database would be loaded all at once.
    tp("put", env.path(), &["db", "is there", ""]).text();
    let mut dump = HEADER.to_string();
    (0..6_000).for_each(|n| dump.push_str(&format!(" {n:08x}\n 00\n")));
    let broken = tp_reading("load", env.path(), &["db", "--json"], format!("{dump} 6\n").as_bytes());
    let sentence = broken.refused(1);
    assert!(sentence.contains("standard input: line 12005: an odd number"), "{sentence}");
    assert!(sentence.contains("5000 records before"), "{sentence}");
    assert!(broken.json()[0]["error"].as_str().unwrap().contains("line 12005"));
    assert_eq!(tp("scan", env.path(), &["db", "--json"]).result()["records"], 5_001);
    let cut = tp_reading("load", env.path(), &["db"], dump.as_bytes());
    assert!(cut.refused(1).contains("before DATA=END"));
    let two = format!("{HEADER} 61\n 62\nDATA=END\n{HEADER}DATA=END\n");
    assert!(tp_reading("load", env.path(), &["db"], two.as_bytes()).refused(1).contains("more after DATA=END"));
    let parent = env.path().join("fresh");
    assert!(tp_reading("load", &parent, &["db"], b"no dump\n").refused(1).contains("line 1"));
    assert!(!parent.exists(), "a file that is no dump makes no environment");
    assert!(tp("load", env.path(), &["db", "/nowhere/dump"]).refused(1).contains("/nowhere/dump"));
}

/// A new database is loaded all at once, whatever order the dump is in and wherever it comes from.
#[test]
fn a_dump_in_any_order_is_loaded_sorted_and_a_broken_one_not_at_all() {
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
    let said = tp_reading("load", &env, &["broken"], broken.as_bytes());
    assert!(said.refused(1).contains("nothing was loaded"));
    assert_eq!(tp("dump", &env, &["broken"]).text(), format!("{HEADER}DATA=END\n"));
    // Into what is there, records go one by one, over what they meet.
    tp_reading("load", &env, &["file"], sorted.as_bytes()).text();
    assert!(tp("dump", &env, &["file"]).text() == sorted);
}

/// The order of keys, and several values of a key, go through a dump.
#[test]
fn an_order_and_several_values_a_key_go_through_a_dump() {
    let place = tempdir().unwrap();
    let (one, two) = (place.path().join("one"), place.path().join("two"));
    {
        let env = Env::open(&one).unwrap();
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
    let env = Env::open(&two).unwrap();
    let down = env.btree_ordered("down", libtp::order::Descending).unwrap();
    assert_eq!(env.run(|txn| down.get(txn, b"b")).unwrap().as_deref(), Some(&b"2"[..]));
    let lists = env.multi_ordered("lists", libtp::Duplicates::AsTheyCame, libtp::order::AsciiCaseless).unwrap();
    assert_eq!(env.run(|txn| lists.values(txn, b"B")).unwrap(), [b"3", b"2"]);
    drop(lists);
    drop(env);
    let foreign = "VERSION=3\nformat=bytevalue\ntype=btree\nlibtp_order=martian\nHEADER=END\nDATA=END\n";
    let said = tp_reading("load", &two, &["foreign"], foreign.as_bytes());
    assert!(said.refused(1).contains("martian"));
}

#[test]
fn a_dump_of_the_other_kind_is_refused() {
    let env = tempdir().unwrap();
    tp("put", env.path(), &["db", "a", "b"]).text();
    let dump = "VERSION=3\nformat=print\ntype=recno\nHEADER=END\n one\nDATA=END\n";
    assert!(tp_reading("load", env.path(), &["db"], dump.as_bytes()).refused(1).contains("db"));
    assert_eq!(tp("scan", env.path(), &["db"]).text(), "a\tb\n");
}

/// Whether Berkeley DB's programs are here. Where they must be (`CI=true`), their absence is a failure.
fn berkeley_db_is_here() -> bool {
    let here = ["db5.3_dump", "db5.3_load"].iter().all(|name| Command::new(name).arg("-V").output().is_ok());
    if !here {
        assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "install db5.3-util: this test must run here");
        eprintln!("\n!!! SKIPPED: db5.3_dump and db5.3_load are not installed (Debian: db5.3-util) !!!\n");
    }
    here
}

/// Makes a Berkeley DB file from a dump, and dumps it again: what Berkeley DB itself makes of the text.
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

/// The lines between the header and the end.
fn data_of(dump: &str) -> &str {
    let (_, data) = dump.split_once("HEADER=END\n").expect("a dump has a header");
    data
}

/// The story of a file: Berkeley DB's records come in, are read, changed in transactions, survive a crash in the middle
/// of one, and go back as a file that Berkeley DB accepts and that has exactly what was committed.
#[test]
fn a_file_of_berkeley_db_comes_in_is_changed_crashes_and_goes_back() {
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
    child.args(["--exact", "the_one_that_crashes", "--ignored", "--nocapture"]).env(CRASH_HERE, &env);
    let crashed = run(child, b"");
    assert!(crashed.code.is_none(), "the child was to abort: {}", crashed.err);
    change(&mut Model(&mut model));

    let opened = tp("recover", &env, &["--json"]).result();
    assert!(["repaired", "restarted"].contains(&opened["how"].as_str().unwrap()), "{opened}");
    assert_eq!(tp("verify", &env, &["--json"]).result()["findings"], 0);
    let dump = tp("dump", &env, &["story"]).text();
    assert!(data_of(&dump) == data_of(&dump_of(&model)), "what was dumped is not what was committed");
    let back = through_berkeley_db(directory.path(), "out.db", &dump, &[]);
    assert!(data_of(&back) == data_of(&dump), "Berkeley DB has other records than we wrote");
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

/// Not a test: the process that crashes, started by the one above.
#[test]
#[ignore = "it aborts; another test starts it"]
fn the_one_that_crashes() {
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

/// The changes of the committed transactions, once for the database and once for the model.
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

/// What fuzzers start from, and what they have found (`cargo xtask soak fuzz`), goes through the command itself.
#[test]
fn every_dump_of_the_corpus_is_loaded_or_refused_in_a_sentence() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fuzz/corpus/dump_text");
    let mut loaded = 0;
    for entry in std::fs::read_dir(corpus).unwrap() {
        let (path, env) = (entry.unwrap().path(), tempdir().unwrap());
        let said = tp_reading("load", &env.path().join("one"), &["db"], &std::fs::read(&path).unwrap());
        if said.code != Some(0) {
            assert!(matches!(said.code, Some(1 | 2)), "{}: {:?} {}", path.display(), said.code, said.err);
            assert!(said.err.starts_with("tp: ") && !said.err.contains("panicked"), "{}: {}", path.display(), said.err);
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

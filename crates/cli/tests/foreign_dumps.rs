//! Dumps of Berkeley DB and LMDB, as `db_dump` and `mdb_dump` print them. Each dump is loaded correctly, or refused
//! before anything is made.
#![allow(clippy::unwrap_used)] // The whole file is tests.

mod tp;

use std::path::Path;
use std::process::{Command, Stdio};

use libtp::{order, Env};
use tempfile::tempdir;
use tp::{tp, tp_reading};

/// Output of `db5.3_dump` for a recno file without options.
const VARIABLE: &str =
    "VERSION=3\nformat=print\ntype=recno\ndb_pagesize=4096\nHEADER=END\n one\n \n three, longer\nDATA=END\n";
const PADDED: &str =
    "VERSION=3\nformat=print\ntype=recno\nre_len=6\nre_pad=0x2a\ndb_pagesize=4096\nHEADER=END\n one\n sixsix\nDATA=END\n";
const HASH: &str =
    "VERSION=3\nformat=print\ntype=hash\nh_nelem=2\nduplicates=1\ndb_pagesize=4096\nHEADER=END\n b\n 7\n a\n 2\n a\n 1\nDATA=END\n";
/// Output of `mdb_dump` for keys that are native integers: 1 (twice), 2 and 256.
const INTEGERS: &str = "VERSION=3\nformat=bytevalue\ndatabase=n\ntype=btree\nmapsize=1048576\nmaxreaders=126\n\
    duplicates=1\ndupsort=1\nintegerkey=1\ndupfixed=1\ndb_pagesize=4096\nHEADER=END\n \
    0100000000000000\n 61\n 0100000000000000\n 62\n 0200000000000000\n 63\n 0001000000000000\n 64\nDATA=END\n";
const REVERSED: &str = "VERSION=3\nformat=print\ntype=btree\nmapsize=1048576\nmaxreaders=126\nreversekey=1\n\
    db_pagesize=4096\nHEADER=END\n za\n 1\n ab\n 2\nDATA=END\n";

#[test]
fn foreign_dumps_are_loaded_as_they_are_meant() {
    let env = tempdir().unwrap();
    let crlf = |text: &str| text.replace('\n', "\r\n");
    let sorted = HASH.replace("duplicates=1\n", "duplicates=1\ndupsort=1\n");
    let plain = "VERSION=3\nformat=print\ntype=btree\nHEADER=END\n key\n ends \\0d\nDATA=END\n";
    let list = "type=recno\nrenumber=1\nHEADER=END\n";
    let numbered = VARIABLE.replace("db_pagesize", "keys=1\ndb_pagesize").replace(" one\n \n", " 1\n one\n 2\n \n 3\n");
    let trees = "type=btree\nduplicates=1\n";
    let dumps = [
        ("variable", VARIABLE.to_string(), format!("{list} 6f6e65\n \n 74687265652c206c6f6e676572\n")),
        ("numbered", numbered, format!("{list} 6f6e65\n \n 74687265652c206c6f6e676572\n")),
        ("empty", "VERSION=3\nformat=print\ntype=recno\nHEADER=END\nDATA=END\n".into(), list.into()),
        ("padded", PADDED.into(), "type=recno\nre_len=6\nHEADER=END\n 6f6e652a2a2a\n 736978736978\n".into()),
        (
            "spaces",
            PADDED.replace("re_pad=0x2a\n", ""),
            "type=recno\nre_len=6\nHEADER=END\n 6f6e65202020\n 736978736978\n".into(),
        ),
        (
            "queue",
            PADDED.replace("recno", "queue").replace("0x2a", "7"),
            "type=recno\nre_len=6\nHEADER=END\n 6f6e65373737\n 736978736978\n".into(),
        ),
        ("hash", HASH.into(), format!("{trees}HEADER=END\n 61\n 32\n 61\n 31\n 62\n 37\n")),
        ("hash-sorted", sorted, format!("{trees}dupsort=1\nHEADER=END\n 61\n 31\n 61\n 32\n 62\n 37\n")),
        (
            "reversed",
            REVERSED.into(),
            "type=btree\nlibtp_order=little-endian\nHEADER=END\n 7a61\n 31\n 6162\n 32\n".into(),
        ),
        (
            "integers",
            INTEGERS.into(),
            format!(
                "{trees}dupsort=1\nlibtp_order=little-endian\nHEADER=END\n {}\n",
                ["0100000000000000\n 61", "0100000000000000\n 62", "0200000000000000\n 63", "0001000000000000\n 64"]
                    .join("\n ")
            ),
        ),
        ("lines", crlf(plain), "type=btree\nHEADER=END\n 6b6579\n 656e6473200d\n".into()),
        (
            "hexadecimal",
            crlf(INTEGERS).replace("integerkey", "reversekey"),
            format!(
                "{trees}dupsort=1\nlibtp_order=little-endian\nHEADER=END\n {}\n",
                ["0100000000000000\n 61", "0100000000000000\n 62", "0200000000000000\n 63", "0001000000000000\n 64"]
                    .join("\n ")
            ),
        ),
    ];
    for (name, dump, wanted) in &dumps {
        tp_reading("load", env.path(), &[name], dump.as_bytes()).text();
        let found = tp("dump", env.path(), &[name]).text();
        assert_eq!(found, format!("VERSION=3\nformat=bytevalue\n{wanted}DATA=END\n"), "{name}");
    }
    tp("verify", env.path(), &[]).text();
    // A record that is stored later is inserted in the order of the numbers.
    let env = Env::open_or_create(env.path()).unwrap();
    let numbers = env.multi_ordered("integers", libtp::Duplicates::Sorted, order::LittleEndian).unwrap();
    let found = env.run(|txn| {
        numbers.put(txn, &3_u64.to_le_bytes(), b"3")?;
        let (mut cursor, mut found) = (numbers.cursor(txn), Vec::new());
        while let Some((key, _)) = cursor.next()? {
            found.push(u64::from_le_bytes(key.try_into().unwrap()));
        }
        Ok(found)
    });
    assert_eq!(found.unwrap(), [1, 1, 2, 3, 256]);
}

/// Returns every name in a directory.
fn names_in(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).unwrap();
    let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_dump_that_cannot_be_loaded_is_refused_before_anything_is_made() {
    let place = tempdir().unwrap();
    let (there, fresh) = (place.path().join("there"), place.path().join("new/deeper"));
    tp("put", &there, &["db", "a", "b"]).text();
    let gap = "VERSION=3\nformat=print\ntype=recno\nkeys=1\nHEADER=END\n 1\n one\n 3\n three\nDATA=END\n";
    let tree = "VERSION=3\nformat=print\ntype=btree\nHEADER=END\n a\n b\nDATA=END\n";
    // These are more pairs than one batch has.
    let pairs: String = (0..6_000).map(|n| format!(" {n}\n v\n")).collect();
    let long = format!("VERSION=3\nformat=print\ntype=hash\nHEADER=END\n{pairs} {}\n v\nDATA=END\n", "k".repeat(3_000));
    let refused = [
        (long, "a key of 3000 bytes", "nothing was loaded"),
        (INTEGERS.replace("integerkey", "integerdup"), "line 9: with `integerdup` LMDB", "Remove the line"),
        (INTEGERS.replace("integerkey", "reversedup"), "line 9: with `reversedup` LMDB", "Remove the line"),
        (tree.replace("HEADER", "nodes=7\nHEADER"), "line 4: the header line `nodes` is unknown", "Remove the line"),
        (tree.replace("btree", "heap"), "line 3: databases of type `heap`", "cannot be loaded"),
        (PADDED.replace("0x2a", "42"), "line 5: `42` is not a byte", "one character, or 0x"),
        (PADDED.replace("=6", "=5"), "line 9: the record has 6 bytes", "must have 5"),
        (PADDED.replace("=6", "=99999999999"), "line 4: `99999999999` is not a length", "at most"),
        (PADDED.replace("re_len=6\n", "").replace("recno", "queue"), "line 6: ", "--record-bytes"),
        (gap.to_string(), "line 9: record 3 follows record 1", "without -k"),
        (gap.replace(" 1\n", " 2\n"), "record 2 follows record 0", "without -k"),
        (gap.replace(" 3\n", " x\n"), "line 9: the key of the record is not a number", "nothing was loaded"),
        (tree.replace(" b\n", " b\r\n"), "line 6: the line ends with a carriage return", "end all lines alike"),
        (VARIABLE.replace("DATA=END\n", ""), "line 9: the dump ends before DATA=END", "nothing was loaded"),
        (format!("{VARIABLE}{VARIABLE}"), "continues after DATA=END", "nothing was loaded"),
        (tree.replace(" a\n", &format!(" {}\n", "k".repeat(70_000))), "70000", "nothing was loaded"),
    ];
    let before = names_in(&there);
    for (dump, what, advice) in refused {
        for env in [&fresh, &there] {
            let message = tp_reading("load", env, &["x"], dump.as_bytes());
            let sentence = message.refused(1);
            assert!(sentence.contains(what) && sentence.contains(advice), "{what}: {sentence}");
            assert!(!place.path().join("new").exists(), "{what}: something is left of {}", env.display());
            assert_eq!(names_in(&there), before, "{what}: something was made");
        }
    }
    assert_eq!(names_in(place.path()), ["there"]);
    // The databases exist already, and the order of their keys or values differs from the order in these dumps.
    let (lists, sets) = (HASH.replace("type=hash\nh_nelem=2", "type=btree"), "duplicates=1\ndupsort=1\n");
    tp_reading("load", &there, &["lists"], lists.as_bytes()).text();
    tp_reading("load", &there, &["sets"], lists.replace("duplicates=1\n", sets).as_bytes()).text();
    let caseless = tree.replace("HEADER", "libtp_order=ascii-caseless\nHEADER");
    let before = ["lists", "sets", "db"].map(|name| tp("dump", &there, &[name]).text());
    for (database, dump, what) in [
        ("sets", lists.clone(), "in the order of their insertion, and a key of `sets` has sorted values"),
        (
            "lists",
            lists.replace("duplicates=1\n", sets),
            "sorted values without repetition, and a key of `lists` has values in the order",
        ),
        ("db", caseless, "in the order `ascii-caseless`, and the keys of `db` are in another order"),
    ] {
        let message = tp_reading("load", &there, &[database], dump.as_bytes());
        let sentence = message.refused(1);
        assert!(sentence.contains(what) && sentence.contains("nothing was loaded"), "{what}: {sentence}");
    }
    assert_eq!(["lists", "sets", "db"].map(|name| tp("dump", &there, &[name]).text()), before);
    // The messages advise a load without the numbers, or with a length. Both kinds of load succeed.
    tp_reading("load", &there, &["x"], gap.replace("keys=1\n", "").replace(" 1\n", "").replace(" 3\n", "").as_bytes())
        .text();
    let even = gap.replace("three", "two");
    tp_reading("load", &there, &["y", "--record-bytes", "3"], even.as_bytes()).text();
    assert_eq!(tp("scan", &there, &["y"]).text(), "1\tone\n3\ttwo\n");
}

/// The line is a hole in the file, which takes no room on the disk.
#[test]
fn a_line_for_which_memory_is_missing_is_refused_before_anything_is_made() {
    let place = tempdir().unwrap();
    let (env, path) = (place.path().join("env"), place.path().join("dump"));
    std::fs::write(&path, "VERSION=3\nformat=print\ntype=btree\nHEADER=END\n key\n ").unwrap();
    std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(600 << 20).unwrap();
    let mut load = Command::new("sh");
    load.args(["-c", "ulimit -v 400000; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_tp"), "load", "--env"]);
    load.arg(&env).arg("lines").arg(&path).env_remove("TP_ENV");
    let message = tp::run(load, b"");
    let refused = message.refused(1);
    for word in ["line 6", "no memory", "ulimit -v", "nothing was loaded"] {
        assert!(refused.contains(word), "{refused}");
    }
    assert!(!env.exists());
}

/// A load into a new environment is killed. Then every command refuses the incomplete environment until it is removed,
/// and names that remedy.
#[test]
fn an_interrupted_load_leaves_no_usable_environment() {
    let place = tempdir().unwrap();
    let (env, file, mark) = (place.path().join("env"), place.path().join("dump"), "load.unfinished");
    let mut dump = "VERSION=3\nformat=print\ntype=recno\nHEADER=END\n".to_string();
    (0..100_000).for_each(|n| dump.push_str(&format!(" line {n}\n")));
    std::fs::write(&file, format!("{dump}DATA=END\n")).unwrap();
    let mut load = Command::new(env!("CARGO_BIN_EXE_tp"));
    load.args(["load", "--env"]).arg(&env).arg("lines").arg(&file).stdout(Stdio::null());
    let mut child = load.spawn().unwrap();
    while !env.join("lines.tp").exists() {
        assert!(child.try_wait().unwrap().is_none(), "the load ended before the test saw its database");
        std::thread::yield_now();
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(env.join(mark).exists(), "the load was over before it was killed");
    for verb in ["stat", "verify", "recover"] {
        let message = tp(verb, &env, &[]);
        assert!(message.refused(1).contains(mark), "{verb}: {}", message.err);
    }
    let small = "VERSION=3\nformat=print\ntype=recno\nHEADER=END\n one\nDATA=END\n";
    let again = tp_reading("load", &env, &["lines"], small.as_bytes());
    assert!(again.refused(1).contains("remove the directory"), "{}", again.err);
    assert!(Env::open_or_create(&env).unwrap_err().to_string().contains(mark));
    std::fs::remove_dir_all(&env).unwrap();
    tp_reading("load", &env, &["lines"], small.as_bytes()).text();
    assert_eq!(tp("scan", &env, &["lines"]).text(), "1\tone\n");
    assert!(!env.join(mark).exists());
}

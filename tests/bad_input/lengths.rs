//! Keys, values, records, numbers, names and page sizes: empty, of the largest allowed size, and larger.

use libtp::{Bytes, Db, Env, Error};

use crate::error_texts::says;

fn with_pages(kib: u64, test: impl Fn(&Env, &Db)) {
    let directory = tempfile::tempdir().unwrap();
    let env = Env::builder().page_size("table", Bytes::kib(kib)).memory(Bytes::mib(8)).open(directory.path()).unwrap();
    let table = env.btree("table").unwrap();
    test(&env, &table);
    assert!(env.verify("table").unwrap().findings.is_empty());
}

#[test]
fn an_empty_key_and_a_key_of_the_largest_length_are_stored() {
    for kib in [4, 8, 64] {
        with_pages(kib, |env, table| {
            let limit = table.key_bytes_max();
            assert_eq!(limit as u64, kib * 256, "the limit must be a quarter of a page");
            for bytes in [0, 1, limit - 1, limit] {
                let key = vec![b'k'; bytes];
                env.run(|txn| table.put_new(txn, &key, &bytes.to_le_bytes())).unwrap();
            }
            for bytes in [0, 1, limit - 1, limit] {
                let key = vec![b'k'; bytes];
                let found = env.run(|txn| table.get(txn, &key)).unwrap();
                assert_eq!(found.as_deref(), Some(&bytes.to_le_bytes()[..]));
                assert!(env.run(|txn| Ok(table.cursor(txn).seek(&key)?.is_some_and(|pair| pair.0 == key))).unwrap());
                assert!(env.run(|txn| table.delete(txn, &key)).unwrap());
            }
        });
    }
}

#[test]
fn many_keys_of_the_largest_length_make_a_valid_tree() {
    for kib in [4, 8, 64] {
        with_pages(kib, |env, table| {
            let key = |number: u32| {
                let mut key = vec![b'k'; table.key_bytes_max() - 4];
                key.extend_from_slice(&number.to_be_bytes());
                key
            };
            env.run(|txn| (0..100).try_for_each(|number| table.put(txn, &key(number * 7919 % 100), b"value"))).unwrap();
            let count = |txn: &libtp::Txn<'_>| {
                let mut cursor = table.cursor(txn);
                let mut count = 0;
                while cursor.next()?.is_some() {
                    count += 1;
                }
                Ok(count)
            };
            assert_eq!(env.run(count).unwrap(), 100);
        });
    }
}

#[test]
fn a_key_one_byte_too_long_is_refused_and_the_transaction_continues() {
    for kib in [4, 8, 64] {
        with_pages(kib, |env, table| {
            let limit = table.key_bytes_max();
            let long = vec![b'k'; limit + 1];
            let txn = env.begin().unwrap();
            table.put(&txn, b"before", b"1").unwrap();
            let errors = [
                table.put(&txn, &long, b"v").unwrap_err(),
                table.put_new(&txn, &long, b"v").unwrap_err(),
                table.delete(&txn, &long).unwrap_err(),
                table.get(&txn, &long).unwrap_err(),
                table.get_for_update(&txn, &long).unwrap_err(),
                table.update_with(&txn, &long, |_| ()).unwrap_err(),
                table.cursor(&txn).seek(&long).unwrap_err(),
            ];
            for error in &errors {
                assert!(matches!(error, Error::Length { bytes, .. } if *bytes == limit + 1), "{error}");
                says(error, &["a key", &(limit + 1).to_string(), &limit.to_string()]);
            }
            table.put(&txn, b"after", b"2").unwrap();
            txn.commit().unwrap();
            let found = env.run(|txn| Ok((table.get(txn, b"before")?, table.get(txn, b"after")?))).unwrap();
            assert_eq!(found, (Some(b"1".to_vec()), Some(b"2".to_vec())));
        });
    }
}

#[test]
fn an_empty_value_and_a_value_of_many_pages_are_stored() {
    for kib in [4, 64] {
        with_pages(kib, |env, table| {
            let page = 1024 * usize::try_from(kib).unwrap();
            let lengths = [0, 1, page / 8, page / 4, page / 2, page - 100, page - 1, page, page + 1, 3 * page, 3 << 20];
            let value = |length: usize| -> Vec<u8> { (0..length).map(|at| at.to_le_bytes()[0] ^ 0x5a).collect() };
            for length in lengths {
                let key = length.to_be_bytes();
                env.run(|txn| table.put(txn, &key, &value(length))).unwrap();
                let found = env.run(|txn| table.get(txn, &key)).unwrap().unwrap();
                assert!(found == value(length), "{length} bytes");
            }
            // Each value replaces a value of another length.
            for pair in lengths.windows(2) {
                let key = pair[0].to_be_bytes();
                env.run(|txn| table.put(txn, &key, &value(pair[1]))).unwrap();
                assert!(env.run(|txn| table.get(txn, &key)).unwrap().unwrap() == value(pair[1]), "{pair:?}");
            }
        });
    }
}

#[test]
fn records_of_another_length_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let env = Env::open_or_create(directory.path()).unwrap();
    let cells = env.recno("cells", 16).unwrap();
    env.run(|txn| cells.append(txn, &[1; 16])).unwrap();
    let txn = env.begin().unwrap();
    for length in [0, 15, 17, 100_000] {
        let record = vec![7; length];
        for error in [cells.put(&txn, 1, &record).unwrap_err(), cells.append(&txn, &record).unwrap_err()] {
            assert!(matches!(error, Error::Length { .. }), "{error}");
            says(&error, &["a record", &length.to_string(), "16"]);
        }
    }
    assert_eq!(cells.get(&txn, 1).unwrap().as_deref(), Some(&[1; 16][..]));
    txn.commit().unwrap();
}

#[test]
fn numbers_that_no_record_can_have_are_refused_and_never_found() {
    let directory = tempfile::tempdir().unwrap();
    let env = Env::open_or_create(directory.path()).unwrap();
    let cells = env.recno("cells", 16).unwrap();
    let txn = env.begin().unwrap();
    for number in [0, u64::MAX] {
        let error = cells.put(&txn, number, &[7; 16]).unwrap_err();
        says(&error, &["cells", &number.to_string()]);
    }
    for number in [1, 2, 1 << 20, u64::MAX - 1] {
        assert_eq!(cells.get(&txn, number).unwrap(), None, "{number}");
    }
    assert_eq!(cells.append(&txn, &[7; 16]).unwrap(), 1);
    txn.commit().unwrap();
}

#[test]
fn a_record_length_that_fits_no_page_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let env = Env::open_or_create(directory.path()).unwrap();
    for length in [0, 8 << 10, u32::MAX] {
        let error = env.recno("cells", length).map(|_| ()).unwrap_err();
        says(&error, &["cells", &length.to_string()]);
    }
    assert!(env.databases().unwrap().is_empty(), "{:?}", env.databases());
    env.recno("cells", 8000).unwrap();
}

#[test]
fn a_database_keeps_its_kind() {
    let directory = tempfile::tempdir().unwrap();
    for _ in 0..2 {
        let env = Env::open_or_create(directory.path()).unwrap();
        env.btree("tree").unwrap();
        env.recno("cells", 16).unwrap();
        says(&env.recno("tree", 16).map(|_| ()).unwrap_err(), &["tree", "btree", "recno"]);
        says(&env.btree("cells").map(|_| ()).unwrap_err(), &["cells", "recno", "btree"]);
        says(&env.recno("cells", 17).map(|_| ()).unwrap_err(), &["cells", "16", "17"]);
        says(&env.database("missing").map(|_| ()).unwrap_err(), &["missing", &directory.path().display().to_string()]);
    }
}

#[test]
fn names_that_no_file_can_have_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let env = Env::open_or_create(directory.path()).unwrap();
    let long = "n".repeat(300);
    for name in ["", ".", "..", "a/b", "/etc/passwd", "../out", "a\0b", &long] {
        let error = env.btree(name).map(|_| ()).unwrap_err();
        assert!(matches!(error, Error::Database { .. }), "{name:?}: {error}");
        let shown = error.to_string();
        assert!(shown.contains(&name[..name.len().min(3)].replace('\0', "")), "{name:?}: {shown}");
    }
    assert!(env.databases().unwrap().is_empty(), "{:?}", env.databases());
    for name in ["control", "log", "libtp", "a b", "Überweisung", "-", "x.tp"] {
        let table = env.btree(name).unwrap();
        env.run(|txn| table.put(txn, b"name", name.as_bytes())).unwrap();
    }
    drop(env);
    let env = Env::open_or_create(directory.path()).unwrap();
    for name in ["control", "log", "libtp", "a b", "Überweisung", "-", "x.tp"] {
        let table = env.btree(name).unwrap();
        assert_eq!(env.run(|txn| table.get(txn, b"name")).unwrap().as_deref(), Some(name.as_bytes()));
    }
}

#[test]
fn impossible_page_sizes_are_refused() {
    for bytes in [0, 1, 4095, 5000, 2 << 10, 128 << 10, 1 << 40] {
        let directory = tempfile::tempdir().unwrap();
        let env = Env::builder().page_size("table", Bytes(bytes)).open(directory.path()).unwrap();
        let error = env.btree("table").map(|_| ()).unwrap_err();
        says(&error, &["table"]);
        assert!(env.databases().unwrap().is_empty(), "{bytes}");
        env.btree("other").unwrap();
    }
}

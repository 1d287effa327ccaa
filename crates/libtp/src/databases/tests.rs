//! What one transaction decides of several databases, one after the other.

use std::path::Path;

use libtp_lock::Mode;
use libtp_record::lock_names;

use crate::{Db, Env, Error, IndexKeys, Settings};

fn value(_key: &[u8], value: &[u8], keys: &mut IndexKeys) {
    keys.add(value);
}

fn open(place: &Path) -> Env {
    Env::builder().settings(Settings { no_background: true, ..Settings::default() }).open(place).unwrap()
}

fn names(env: &Env) -> Vec<String> {
    env.list_databases().unwrap().into_iter().map(|it| it.name).collect()
}

/// Writes go on, and the indices that there are agree with the records.
fn is_whole(env: &Env, stock: &Db) {
    env.run(|txn| stock.put(txn, b"a new one", b"of it")).unwrap();
    for name in env.databases().unwrap() {
        assert_eq!(env.verify(&name).unwrap().findings, [], "{name}");
    }
}

#[test]
fn a_database_is_emptied_by_the_name_that_the_transaction_has_given_it() {
    let dir = tempfile::tempdir().unwrap();
    let env = open(dir.path());
    let old = env.btree("stock").unwrap();
    env.run(|txn| old.put(txn, b"old", b"1")).unwrap();
    let (tree, hash) = (env.btree("tree").unwrap(), env.hash("hash").unwrap());
    let (recno, list) = (env.recno("recno", 8).unwrap(), env.list("list").unwrap());
    let index = tree.index("by value", value).unwrap();
    env.run(|txn| {
        for number in 0..3_u64 {
            let bytes = number.to_be_bytes();
            tree.put(txn, &bytes, &bytes)?;
            hash.put(txn, &bytes, &bytes)?;
            recno.append(txn, &bytes)?;
            list.append(txn, &bytes)?;
        }
        Ok(())
    })
    .unwrap();
    let kinds = ["tree", "hash", "recno", "list"];
    for name in kinds {
        env.run(|txn| {
            // One takes the place of another.
            txn.drop_database("stock")?;
            txn.rename_database(name, "stock")?;
            let told = txn.empty_database(name);
            assert!(matches!(&told, Err(Error::NoDatabase { .. })), "{name}: {told:?}");
            if name == "tree" {
                txn.rename_database("by value", "by its value")?;
            }
            assert_eq!(txn.empty_database("stock")?, 3, "{name}");
            assert_eq!(txn.empty_database("stock")?, 0, "{name}");
            Ok(())
        })
        .unwrap();
        assert_eq!(env.count_records("stock").unwrap(), Some(0), "{name}");
        if name == "tree" {
            assert_eq!(env.count_records("by its value").unwrap(), Some(0));
            is_whole(&env, &tree);
            assert_eq!(env.run(|txn| index.count(txn, b"of it")).unwrap(), 1);
        }
    }
    // The name stays the transaction's, in a process that knew no database of it.
    let theirs = open(dir.path());
    let txn = theirs.begin().unwrap();
    txn.rename_database("stock", "goods").unwrap();
    assert_eq!(txn.empty_database("goods").unwrap(), 0);
    let (locks, who) = (&txn.life().managers.locks, txn.session());
    assert_eq!(locks.holds(who.session(), who.locker(), lock_names::name("goods")), Some(Mode::X));
    txn.commit().unwrap();
    assert_eq!(names(&env), ["goods"]);
}

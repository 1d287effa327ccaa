//! Tests of a transaction's decisions about several databases in turn, of its state after failures, and of listing
//! during drops.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use libtp_buffer::{Fate, FileId};
use libtp_io::{Directory, File, OpenMode, Operation, PosixDirectory};
use libtp_lock::Mode;
use libtp_record::lock_names;
use libtp_sim::{DirectoryLayer, LayeredDirectory};

use super::Decision;
use crate::{Database, Db, Env, Error, Index, IndexKeys, Memory, Platform, Reader, Settings, SharedMemory};

fn value(_key: &[u8], value: &[u8], keys: &mut IndexKeys) {
    keys.add(value);
}

fn open(place: &Path) -> Env {
    Env::builder().settings(Settings { no_background: true, ..Settings::default() }).open(place).unwrap()
}

/// Makes a database with two indices and `records` records.
fn stock(env: &Env, records: u32) -> (Db, [Index; 2]) {
    let stock = env.btree("stock").unwrap();
    let indices = ["first", "second"].map(|name| stock.index(name, value).unwrap());
    let put = |number: u32| number.to_be_bytes();
    env.run(|txn| (0..records).try_for_each(|number| stock.put(txn, &put(number), &put(number % 7)))).unwrap();
    (stock, indices)
}

fn names(env: &Env) -> Vec<String> {
    env.list_databases().unwrap().into_iter().map(|it| it.name).collect()
}

/// Checks that a write succeeds, and that all indices agree with the records.
fn check_whole(env: &Env, stock: &Db) {
    env.run(|txn| stock.put(txn, b"a new one", b"of it")).unwrap();
    for name in env.databases().unwrap() {
        assert_eq!(env.verify(&name).unwrap().findings, [], "{name}");
    }
}

/// Reads an index without its database. A transaction that locks the whole index has to wait for the reader.
fn read_index(env: &Env, index: &str, reader: &impl Reader) {
    let Database::Index(index) = env.database(index).unwrap() else { panic!("it is an index") };
    assert_eq!(index.get(reader, b"nothing").unwrap(), None);
}

#[test]
fn an_index_that_was_renamed_in_the_transaction_is_dropped_from_its_database_too() {
    let dir = tempfile::tempdir().unwrap();
    let env = open(dir.path());
    let (stock, _indices) = stock(&env, 20);
    env.run(|txn| {
        txn.rename_database("first", "another")?;
        txn.drop_database("another")
    })
    .unwrap();
    assert_eq!(names(&env), ["second", "stock"]);
    check_whole(&env, &stock);
    // Rename its database, too.
    env.run(|txn| {
        txn.rename_database("stock", "goods")?;
        txn.rename_database("second", "third")?;
        txn.drop_database("third")
    })
    .unwrap();
    assert_eq!(names(&env), ["goods"]);
    check_whole(&env, &stock);
}

#[test]
fn a_database_is_dropped_with_its_indices_whatever_the_transaction_has_renamed() {
    for renamed in [["first", "another"], ["second", "another"], ["stock", "goods"]] {
        let dir = tempfile::tempdir().unwrap();
        let env = open(dir.path());
        let (_stock, _indices) = stock(&env, 20);
        let dropped = if renamed[0] == "stock" { renamed[1] } else { "stock" };
        env.run(|txn| {
            txn.rename_database(renamed[0], renamed[1])?;
            txn.drop_database(dropped)?;
            for name in ["stock", "goods", "first", "second", "another"] {
                let outcome = txn.drop_database(name);
                assert!(matches!(&outcome, Err(Error::NoDatabase { .. })), "{name}: {outcome:?}");
            }
            Ok(())
        })
        .unwrap();
        assert_eq!(names(&env), Vec::<String>::new(), "{renamed:?}");
    }
}

#[test]
fn a_drop_whose_wait_for_an_index_times_out_drops_nothing() {
    for held in ["first", "second"] {
        let dir = tempfile::tempdir().unwrap();
        let env = open(dir.path());
        let (stock, indices) = stock(&env, 20);
        let other = env.begin().unwrap();
        read_index(&env, held, &other);
        let txn = env.begin().unwrap();
        let outcome = txn.within(Some(Duration::ZERO), || txn.drop_database("stock"));
        assert!(matches!(&outcome, Err(Error::LockTimeout(_))), "{outcome:?}");
        txn.commit().unwrap();
        other.commit().unwrap();
        assert_eq!(names(&env), ["first", "second", "stock"]);
        check_whole(&env, &stock);
        for index in &indices {
            assert_eq!(env.run(|txn| index.count(txn, b"of it")).unwrap(), 1, "{held}");
        }
    }
}

#[test]
fn a_call_waits_for_a_name_no_longer_than_its_limit() {
    let dir = tempfile::tempdir().unwrap();
    let env = open(dir.path());
    let _stock = env.btree("stock").unwrap();
    let (one, two) = (env.begin().unwrap(), env.begin().unwrap());
    one.drop_database("stock").unwrap();
    let outcome = two.within(Some(Duration::ZERO), || two.drop_database("stock"));
    assert!(matches!(&outcome, Err(Error::LockTimeout(_))), "{outcome:?}");
}

#[test]
fn a_database_is_emptied_under_the_name_that_the_transaction_has_given_it() {
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
            // One database takes the place of another.
            txn.drop_database("stock")?;
            txn.rename_database(name, "stock")?;
            let outcome = txn.empty_database(name);
            assert!(matches!(&outcome, Err(Error::NoDatabase { .. })), "{name}: {outcome:?}");
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
            check_whole(&env, &tree);
            assert_eq!(env.run(|txn| index.count(txn, b"of it")).unwrap(), 1);
        }
    }
    // The transaction keeps the new name locked, in a process that has opened no database of that name.
    let theirs = open(dir.path());
    let txn = theirs.begin().unwrap();
    txn.rename_database("stock", "goods").unwrap();
    assert_eq!(txn.empty_database("goods").unwrap(), 0);
    let (locks, txn_session) = (&txn.generation().managers.locks, txn.session());
    assert_eq!(locks.holds(txn_session.session(), txn_session.locker(), lock_names::name("goods")), Some(Mode::X));
    txn.commit().unwrap();
    assert_eq!(names(&env), ["goods"]);
}

#[test]
fn a_database_that_could_not_be_emptied_has_all_its_records_and_entries() {
    for is_damaged in [true, false] {
        let dir = tempfile::tempdir().unwrap();
        let env = open(dir.path());
        drop(stock(&env, 3000));
        drop(env);
        if is_damaged {
            // Damage the pages with entries, but not the pages that an opening reads.
            let file = fs::OpenOptions::new().write(true).open(dir.path().join("second.tp")).unwrap();
            let (page, bytes) = (8192, file.metadata().unwrap().len());
            assert!(bytes > 5 * page);
            (4..bytes / page).for_each(|at| file.write_all_at(&[0x5a; 512], at * page + 1000).unwrap());
        }
        let env = open(dir.path());
        let (stock, [first, _]) = stock(&env, 0);
        let other = env.begin().unwrap();
        if !is_damaged {
            read_index(&env, "second", &other);
        }
        let txn = env.begin().unwrap();
        match txn.within(Some(Duration::ZERO), || txn.empty_database("stock")) {
            Err(Error::Corrupt { .. }) => assert!(is_damaged),
            Err(Error::LockTimeout(_)) => assert!(!is_damaged),
            outcome => panic!("{outcome:?}"),
        }
        txn.commit().unwrap();
        drop(other);
        let number = |number: u32| number.to_be_bytes();
        let found = env.run(|txn| (0..7).map(|value| first.count(txn, &number(value))).sum::<crate::Result<u64>>());
        assert_eq!(found.unwrap(), 3000, "damaged: {is_damaged}");
        assert_eq!(env.run(|txn| stock.count(txn, ..)).unwrap(), 3000);
        assert_eq!(first.verify(&env.snapshot().unwrap()).unwrap(), Vec::<String>::new());
    }
}

/// A test's action before a file is opened.
type Hook = Box<dyn FnOnce() -> libtp_io::Result<()> + Send>;

/// A directory that calls a test's hook once, before the hook's file is opened in the hook's mode.
struct Meddling {
    real: Arc<dyn Directory>,
    hook: Mutex<Option<(String, OpenMode, Hook)>>,
}

impl Meddling {
    fn before(&self, name: &str, mode: OpenMode, hook: Hook) {
        *self.hook.lock().unwrap() = Some((name.into(), mode, hook));
    }
}

impl DirectoryLayer for Meddling {
    fn below(&self) -> &dyn Directory {
        &*self.real
    }
    fn open(&self, name: &str, mode: OpenMode) -> libtp_io::Result<Arc<dyn File>> {
        let hook = self.hook.lock().unwrap().take_if(|(of, how, _)| of == name && *how == mode);
        hook.map_or(Ok(()), |(_, _, hook)| hook())?;
        self.real.open(name, mode)
    }
}

fn meddled(place: &Path) -> (Env, Arc<LayeredDirectory<Meddling>>) {
    let real = Arc::new(PosixDirectory::open(place).unwrap());
    let meddling = Arc::new(LayeredDirectory(Meddling { real, hook: Mutex::default() }));
    let directory: Arc<dyn Directory> = meddling.clone();
    let platform = Platform {
        path: place.into(),
        log_directory: Arc::clone(&directory),
        directory,
        memory: Memory::Shared(SharedMemory::new()),
        log_types: Arc::default(),
    };
    let settings = Settings { no_background: true, ..Settings::default() };
    (Env::builder().settings(settings).open_on(platform, &mut |_| {}).unwrap(), meddling)
}

#[test]
fn a_list_leaves_out_databases_that_are_dropped_meanwhile() {
    for mode in [OpenMode::Existing, OpenMode::ReadOnly] {
        let dir = tempfile::tempdir().unwrap();
        let (env, meddling) = meddled(dir.path());
        for name in ["kept", "dropped"] {
            env.btree(name).unwrap();
        }
        let drops = |name: &'static str| {
            let env = env.clone();
            meddling.0.before(
                &format!("{name}.tp"),
                mode,
                Box::new(move || {
                    env.run(|txn| txn.drop_database(name)).unwrap();
                    Ok(())
                }),
            );
        };
        drops("dropped");
        assert_eq!(names(&env), ["kept"], "{mode:?}");
        drops("kept");
        let outcome = env.list_database("kept");
        assert!(matches!(&outcome, Err(Error::NoDatabase { .. })), "{mode:?}: {outcome:?}");
    }
}

#[test]
fn a_list_reports_only_a_missing_file_as_missing() {
    let dir = tempfile::tempdir().unwrap();
    let (env, meddling) = meddled(dir.path());
    for name in ["first", "second", "third"] {
        env.btree(name).unwrap();
    }
    for (mode, errno) in [(OpenMode::Existing, 24), (OpenMode::ReadOnly, 24), (OpenMode::Existing, 5)] {
        let refused = move || Err(libtp_io::Error::from_errno(Operation::Open, "second.tp".into(), None, errno));
        meddling.0.before("second.tp", mode, Box::new(refused));
        let outcome = env.list_databases().map(|_| ());
        assert!(
            outcome.as_ref().is_err_and(|error| error.to_string().contains("second.tp")),
            "{mode:?} {errno}: {outcome:?}"
        );
        assert_eq!(names(&env).len(), 3);
    }
    fs::remove_file(dir.path().join("first.tp")).unwrap();
    fs::write(dir.path().join("second.tp"), b"cut off").unwrap();
    let kinds: Vec<_> = env.list_databases().unwrap().into_iter().map(|it| (it.name, it.kind, it.bytes > 0)).collect();
    let listed = |name: &str, kind, has_bytes| (name.to_owned(), kind, has_bytes);
    assert_eq!(
        kinds,
        [listed("first", None, false), listed("second", None, false), listed("third", Some("btree"), true)]
    );
}

#[test]
fn a_drop_does_not_remove_a_directory_that_has_the_name_of_the_databases_file() {
    let dir = tempfile::tempdir().unwrap();
    let env = open(dir.path());
    stock(&env, 20);
    fs::remove_file(dir.path().join("stock.tp")).unwrap();
    fs::create_dir(dir.path().join("stock.tp")).unwrap();
    env.run(|txn| txn.drop_database("stock")).unwrap();
    assert_eq!(names(&env), Vec::<String>::new());
    drop(env);
    assert_eq!(names(&open(dir.path())), Vec::<String>::new());
    assert!(dir.path().join("stock.tp").is_dir());
}

#[test]
fn more_drops_than_a_log_record_has_room_for_are_refused_and_nothing_is_changed() {
    let dir = tempfile::tempdir().unwrap();
    let env = open(dir.path());
    let (stock, _indices) = stock(&env, 20);
    let txn = env.begin().unwrap();
    // As if the transaction had dropped many databases with names of 200 bytes.
    txn.drop_database("second").unwrap();
    let first = txn.decided().0.borrow()[0].clone();
    for number in 0..5000 {
        let fate = Fate { id: FileId::new(1000 + number), name: format!("{number:0200}"), ..first.fate.clone() };
        txn.decided().0.borrow_mut().push(Decision { open: Arc::clone(&first.open), fate });
    }
    let outcome = txn.commit().unwrap_err();
    assert!(matches!(outcome, Error::Full { .. }) && outcome.to_string().contains("several transactions"), "{outcome}");
    assert_eq!(names(&env), ["first", "second", "stock"]);
    check_whole(&env, &stock);
}

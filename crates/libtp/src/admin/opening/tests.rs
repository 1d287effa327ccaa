//! Tests of the ways to open: creating, opening an existing environment, and opening for reading only.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::{Durability, Env, Error, Load, Run};

#[test]
fn exactly_one_of_many_threads_creates_an_environment() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("new");
    let created = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| match Env::create(&path) {
                Ok(env) => {
                    created.fetch_add(1, Ordering::Relaxed);
                    env.btree("words").unwrap();
                }
                Err(error) => {
                    let Error::Environment { what, .. } = error else { panic!("{error}") };
                    assert!(what.contains("it is an environment already"), "{what}");
                }
            });
        }
    });
    assert_eq!(created.into_inner(), 1);
    // An environment that no process uses is not replaced, either.
    assert!(matches!(Env::create(&path), Err(Error::Environment { .. })));
    assert_eq!(Env::open(&path).unwrap().databases().unwrap(), ["words"]);
}

#[test]
fn opening_a_missing_environment_makes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let missing = dir.path().join("missing");
    for path in [dir.path(), &missing] {
        assert!(matches!(Env::open(path), Err(Error::Environment { .. } | Error::Io(_))));
        assert!(matches!(Env::open_read_only(path), Err(Error::Environment { .. } | Error::Io(_))));
        let filled = Env::builder().read_only(true).open_to_fill(path, &mut |_| {});
        assert!(matches!(filled, Err(Error::Environment { .. } | Error::Io(_))));
    }
    assert!(!missing.exists());
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    drop(Env::open_or_create(&missing).unwrap());
    Env::open_or_create(&missing).unwrap();
}

#[test]
fn a_handle_for_reading_refuses_every_change() {
    let dir = tempfile::tempdir().unwrap();
    let writer = Env::create(dir.path()).unwrap();
    let stock = writer.btree("stock").unwrap();
    let by_value = stock.index("by value", |_, value, keys| keys.add(value)).unwrap();
    writer.run(|txn| stock.put(txn, b"apples", b"3")).unwrap();

    let env = Env::open_read_only(dir.path()).unwrap();
    assert!(env.is_read_only() && !writer.is_read_only());
    let read = env.btree("stock").unwrap();
    let snapshot = env.snapshot().unwrap();
    assert_eq!(read.get(&snapshot, b"apples").unwrap().as_deref(), Some(&b"3"[..]));
    let index = read.index("by value", |_, value, keys| keys.add(value)).unwrap();
    assert_eq!(index.get(&snapshot, b"3").unwrap().len(), 1);
    assert_eq!(env.verify("stock").unwrap().findings, []);

    let refused = |what: &str, error: Error| {
        let Error::ReadOnly { change, .. } = &error else { panic!("{what}: {error}") };
        let said = error.to_string();
        assert!(said.contains(change) && said.contains("nothing was changed"), "{what}: {said}");
    };
    refused("begin", env.begin().unwrap_err());
    refused("begin_with", env.begin_with(Durability::Relaxed).unwrap_err());
    refused("run", env.run(|txn| read.put(txn, b"pears", b"7")).unwrap_err());
    refused("try_run", env.try_run(&Run::new(), |txn| read.put(txn, b"pears", b"7")).unwrap_err());
    refused("compact", read.compact(80).unwrap_err());
    refused("load", read.load(&Load::sorted(), [(b"a", b"b")]).unwrap_err());
    refused("drop_index", read.drop_index("by value").unwrap_err());
    refused("segment", env.segment("memory", 4096).unwrap_err());
    refused("drop_if_empty", env.drop_if_empty("stock").unwrap_err());
    refused("drop_missing", env.drop_missing("stock").unwrap_err());
    refused("remove_old_log", env.remove_old_log().unwrap_err());
    refused("forget_file", env.forget_file(dir.path().join("file")).unwrap_err());
    refused("salvage", env.salvage(dir.path().join("stock.tp"), "saved", &mut |_| {}).unwrap_err());
    for missing in [env.btree("new").unwrap_err(), env.list("new").unwrap_err(), env.pages("new").unwrap_err()] {
        assert!(matches!(missing, Error::NoDatabase { .. }), "{missing}");
    }
    assert!(matches!(read.index("other", |_, _, _| ()).unwrap_err(), Error::NoDatabase { .. }));
    assert_eq!(writer.databases().unwrap(), ["by value", "stock"]);

    // The reader sees the writer's commits, and can still read when the writer has left.
    writer.run(|txn| stock.put(txn, b"pears", b"7")).unwrap();
    drop((stock, by_value, writer));
    assert_eq!(read.get(&env.snapshot().unwrap(), b"pears").unwrap().as_deref(), Some(&b"7"[..]));
    refused("begin", env.begin().unwrap_err());
}

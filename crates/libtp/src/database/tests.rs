//! Databases as two handles to one environment see them: each handle has its own open files, as a process of its own has.

use std::collections::BTreeSet;

use crate::{Env, Error, Granularity};

#[test]
fn a_database_number_is_given_out_once_whoever_asks() {
    let dir = tempfile::tempdir().unwrap();
    let first = Env::open(dir.path()).unwrap();
    let ask = || {
        let env = Env::open(dir.path()).unwrap();
        let by = env.managers().processes.join().unwrap();
        (0..200).map(|_| env.managers().next_file_id(&by).unwrap()).collect::<Vec<u32>>()
    };
    let numbers: Vec<u32> = std::thread::scope(|scope| {
        let askers = [(); 4].map(|()| scope.spawn(ask));
        for _ in 0..20 {
            // Writes the same file.
            first.checkpoint().unwrap();
        }
        askers.into_iter().flat_map(|asker| asker.join().unwrap()).collect()
    });
    assert_eq!(numbers.iter().collect::<BTreeSet<_>>().len(), 800, "a number was given out twice");
}

#[test]
fn databases_are_made_by_several_handles_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let work = |who: &str| {
        let env = Env::open(dir.path()).unwrap();
        for number in 0..10 {
            env.btree(&format!("{who}{number}")).unwrap();
        }
    };
    std::thread::scope(|scope| {
        for who in ["one", "two", "three"] {
            scope.spawn(move || work(who));
        }
    });
    assert_eq!(Env::open(dir.path()).unwrap().databases().unwrap().len(), 30);
}

#[test]
fn all_who_have_a_database_open_lock_the_same_things_in_it() {
    let dir = tempfile::tempdir().unwrap();
    let with = |granularity| Env::builder().granularity("stock", granularity).open(dir.path()).unwrap();
    let pages = with(Granularity::Page);
    pages.btree("stock").unwrap();
    let records = with(Granularity::Record);
    let Err(Error::Database { what, .. }) = records.btree("stock") else { panic!("two granularities at once") };
    assert!(what.contains("lock pages"), "{what}");
    // Who does not care does as the others do.
    let any = Env::open(dir.path()).unwrap();
    any.btree("stock").unwrap();
    drop((pages, records, any));
    with(Granularity::Record).btree("stock").unwrap();
}

#[test]
fn what_is_given_a_value_to_read_may_call_the_library() {
    let dir = tempfile::tempdir().unwrap();
    let env = Env::open(dir.path()).unwrap();
    let stock = env.btree("stock").unwrap();
    env.run(|txn| {
        stock.put(txn, b"pears", b"7")?;
        let read = stock.get_with(txn, b"pears", |pears| {
            stock.put(txn, b"apples", pears)?;
            stock.update_with(txn, b"pears", |pears| pears[0] = b'8')
        })?;
        read.expect("there are pears")?;
        assert_eq!(stock.get(txn, b"pears")?.as_deref(), Some(&b"8"[..]));
        assert_eq!(stock.get(txn, b"apples")?.as_deref(), Some(&b"7"[..]));
        Ok(())
    })
    .unwrap();
}

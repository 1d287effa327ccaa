use std::collections::BTreeSet;

use crate::{Env, Error, Granularity};

#[test]
fn databases_made_and_checkpoints_taken_by_two_handles_at_once_do_not_undo_each_other() {
    let dir = tempfile::tempdir().unwrap();
    let work = |who: &str| {
        // A handle of its own, as another process would have: nothing is shared but memory and files.
        let env = Env::open(dir.path()).unwrap();
        for number in 0..25 {
            env.btree(&format!("{who}{number}")).unwrap();
            env.checkpoint().unwrap();
        }
    };
    std::thread::scope(|scope| {
        for who in ["one", "two", "three"] {
            scope.spawn(move || work(who));
        }
    });
    let env = Env::open(dir.path()).unwrap();
    let names = env.databases().unwrap();
    assert_eq!(names.len(), 75);
    let numbers: BTreeSet<u32> = env.managers().buffers.files().iter().map(|info| info.id.raw()).collect();
    assert_eq!(numbers.len(), 75, "a number was given out twice");
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

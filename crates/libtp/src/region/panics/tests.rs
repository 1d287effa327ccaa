//! Panics of the library and of the program's functions. Panics at failpoints are tested by the suite `failpoints`, in
//! `panics`.

use std::panic::{catch_unwind, AssertUnwindSafe};

use super::{PanicEffect, Panics, PLACES};
use crate::{Db, Env};

fn with_one_record() -> (tempfile::TempDir, Env, Db) {
    let dir = tempfile::tempdir().unwrap();
    let env = Env::open_or_create(dir.path()).unwrap();
    let db = env.btree("stock").unwrap();
    env.run(|txn| db.put(txn, b"apples", b"3")).unwrap();
    (dir, env, db)
}

/// Returns the message of a panic in the program's function.
fn own_panic(work: impl FnOnce() -> crate::Result<()>) -> &'static str {
    catch_unwind(AssertUnwindSafe(work)).unwrap_err().downcast_ref::<&str>().copied().unwrap()
}

#[test]
fn a_repeated_panic_kills_the_session_then_the_region_and_then_reaches_the_caller() {
    let panics = Panics::default();
    assert_eq!(panics.note_panic(0, "index 7 of 3"), PanicEffect::Session);
    assert_eq!(panics.note_panic(0, "no such frame"), PanicEffect::Session, "the first panic at another place");
    assert_eq!(panics.note_panic(0, "index 12 of 4"), PanicEffect::Region, "the second panic at the same place");
    assert_eq!(
        panics.note_panic(1, "no such frame"),
        PanicEffect::Session,
        "the previous generation was not ended by a panic at this place"
    );
    assert_eq!(panics.note_panic(1, "index 9 of 5"), PanicEffect::Caller);
    assert_eq!(panics.note_panic(1, "index 9 of 5"), PanicEffect::Caller);
    assert_eq!(
        panics.note_panic(2, "index 9 of 5"),
        PanicEffect::Session,
        "the previous generation was not ended by a panic at this place"
    );
}

#[test]
fn too_many_different_panics_end_the_region() {
    let panics = Panics::default();
    let rungs: Vec<PanicEffect> =
        ('a'..).take(PLACES + 1).map(|place| panics.note_panic(3, &place.to_string())).collect();
    assert!(rungs[..PLACES].iter().all(|rung| *rung == PanicEffect::Session));
    assert_eq!(rungs[PLACES], PanicEffect::Region);
}

#[test]
fn a_panic_of_the_programs_own_function_reaches_the_program_and_kills_no_session() {
    let (_dir, env, db) = with_one_record();
    let in_a_value = || env.run(|txn| db.get_with(txn, b"apples", |_| panic!("mine")).map(|_: Option<()>| ()));
    let in_a_change = || env.run(|txn| db.update_with(txn, b"apples", |_| panic!("mine")).map(|_: Option<()>| ()));
    let in_a_transaction = || {
        env.run(|txn| {
            db.put(txn, b"apples", b"4")?;
            let mut cursor = db.cursor(txn);
            cursor.next()?;
            panic!("mine")
        })
    };
    assert_eq!(own_panic(in_a_value), "mine");
    assert_eq!(own_panic(in_a_change), "mine");
    assert_eq!(own_panic(in_a_transaction), "mine");
    assert_eq!(env.managers().processes.dead_sessions(), []);
    assert_eq!(
        env.run(|txn| db.get(txn, b"apples")).unwrap().as_deref(),
        Some(&b"3"[..]),
        "the transaction was undone at once"
    );
    assert_eq!(env.repairs().rebuilds, 0);
}

#[test]
fn a_panic_of_the_programs_own_function_reaches_the_program_in_broken_memory_too() {
    let (_dir, env, db) = with_one_record();
    let break_it = |_: &[u8]| -> () {
        env.managers().processes.declare_broken();
        panic!("mine")
    };
    assert_eq!(own_panic(|| env.run(|txn| db.get_with(txn, b"apples", break_it).map(|_| ()))), "mine");
    let broken_before = || {
        env.run(|txn| {
            env.managers().processes.declare_broken();
            db.get_with(txn, b"apples", |_| ()).ok();
            panic!("mine")
        })
    };
    assert_eq!(own_panic(broken_before), "mine");
    assert_eq!(env.run(|txn| db.get(txn, b"apples")).unwrap().as_deref(), Some(&b"3"[..]));
}

#[test]
fn a_destructor_may_use_the_library_while_a_panic_is_under_way() {
    let (_dir, env, db) = with_one_record();
    struct Writes<'e>(&'e Env, &'e Db);
    impl Drop for Writes<'_> {
        fn drop(&mut self) {
            self.0.run(|txn| (0..2000_u32).try_for_each(|key| self.1.put(txn, &key.to_be_bytes(), b"left"))).unwrap();
            self.0.checkpoint().unwrap();
        }
    }
    let panics = || {
        let _writes = Writes(&env, &db);
        panic!("mine")
    };
    assert_eq!(own_panic(panics), "mine");
    assert_eq!(env.managers().processes.dead_sessions(), []);
    let last = env.run(|txn| db.get(txn, &1999_u32.to_be_bytes())).unwrap();
    assert_eq!(last.as_deref(), Some(&b"left"[..]));
    // Dropping the environment may unwind, too.
    let dir = tempfile::tempdir().unwrap();
    let goes = || {
        let gone = Env::open_or_create(dir.path()).unwrap();
        gone.btree("stock").and_then(|stock| gone.run(|txn| stock.put(txn, b"pears", b"7"))).unwrap();
        panic!("mine")
    };
    assert_eq!(own_panic(goes), "mine");
    assert_eq!(Env::open_or_create(dir.path()).unwrap().opened().how, crate::OpenedBy::Clean);
}

#[test]
fn a_dead_session_without_a_commit_record_has_not_committed_even_if_its_noted_record_is_no_longer_in_the_log() {
    let (_dir, env, _db) = with_one_record();
    let managers = env.managers();
    let txn = managers.join().unwrap();
    let id = txn.begin(&managers);
    // No record begins at this LSN.
    let forgotten = libtp_log::Lsn::new(16);
    assert!(managers.log.read(forgotten).is_err());
    txn.session().note_append(forgotten.raw(), id.raw());
    txn.session().clear_append();
    txn.session().mark_dead();
    assert_eq!(txn.commit_record_of_dead(&managers).unwrap(), libtp_log::Lsn::NONE);
    managers.leave(txn);
}

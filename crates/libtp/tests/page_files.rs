//! Tests of files of pages, and of the program's log records: in a restore, in a salvage, and with a lock on all pages.
// Functions outside of the tests may panic, too: the panic reports the failure.
#![allow(clippy::unwrap_used)]

use std::path::Path;

use libtp::{Backup, Builder, Env, Error, LogType, PageLock, RestorePoint};

/// Registers a type that adds a byte to the first byte of a page.
fn program() -> Builder {
    Env::builder().log_type(LogType::new(7, "byte add", |page, argument| {
        page[0] = page[0].wrapping_add(argument[0]);
        Ok(())
    }))
}

fn counted(env: &Env) -> u8 {
    let pages = env.pages("counters").unwrap();
    let page = env.run(|txn| {
        pages.lock(txn, 0, PageLock::Read)?;
        pages.get(txn, 0)
    });
    page.unwrap().bytes[0]
}

/// Takes a backup in whose log a restore finds a record of the program's type.
fn back_up(environment: &Path, backup: &Path) {
    let env = program().open(environment).unwrap();
    let pages = env.pages("counters").unwrap();
    env.run(|txn| pages.apply(txn, 0, 7, &[1]).map(|_| ())).unwrap();
    env.backup(backup, &mut |_| {}).unwrap();
    env.run(|txn| pages.apply(txn, 0, 7, &[4]).map(|_| ())).unwrap();
    env.backup_more(backup, &mut |_| {}).unwrap();
}

#[test]
fn a_backup_with_records_of_the_program_is_restored_by_the_program() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    back_up(&at("environment"), &at("backup"));
    let backup = Backup::open(at("backup")).unwrap();
    backup.restore_with(&program(), at("restored"), RestorePoint::End, &mut |_| {}).unwrap();
    assert_eq!(counted(&program().open(at("restored")).unwrap()), 5);
}

#[test]
fn a_restore_without_the_log_type_reports_it_and_the_program_can_open_the_result() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    back_up(&at("environment"), &at("backup"));
    let backup = Backup::open(at("backup")).unwrap();
    let restored = backup.restore(at("restored"), RestorePoint::End, &mut |_| {});
    let Err(Error::LogType { code: 7, name, what }) = restored else { panic!("{restored:?}") };
    assert_eq!(name, "byte add");
    assert!(what.contains("keep it"), "{what}");
    assert_eq!(counted(&program().open(at("restored")).unwrap()), 5);
}

#[test]
fn a_lock_on_all_pages_also_covers_later_pages() {
    let directory = tempfile::tempdir().unwrap();
    let env = Env::builder().lock_timeout(std::time::Duration::from_millis(20)).open(directory.path()).unwrap();
    let pages = env.pages("counters").unwrap();
    let (reader, other) = (env.begin().unwrap(), env.begin().unwrap());
    pages.lock_all(&reader, PageLock::Read).unwrap();
    pages.lock(&other, 0, PageLock::Read).unwrap();
    assert!(matches!(pages.lock(&other, 1, PageLock::Write), Err(Error::LockTimeout(_))));
    other.abort().unwrap();
    // A lock for reading all pages does not allow changes.
    let mut page = pages.get(&reader, 0).unwrap();
    page.bytes[0] = 1;
    assert!(matches!(pages.put(&reader, &page), Err(Error::Database { .. })));
    pages.lock_all(&reader, PageLock::Write).unwrap();
    pages.put(&reader, &page).unwrap();
    let other = env.begin().unwrap();
    assert!(matches!(pages.lock(&other, 1, PageLock::Read), Err(Error::LockTimeout(_))));
    other.abort().unwrap();
    reader.commit().unwrap();
    assert_eq!(counted(&env), 1);
}

#[test]
fn salvage_refuses_pages_that_it_cannot_read() {
    let directory = tempfile::tempdir().unwrap();
    let env = program().open(directory.path()).unwrap();
    let pages = env.pages("counters").unwrap();
    env.run(|txn| pages.apply(txn, 0, 7, &[9]).map(|_| ())).unwrap();
    env.checkpoint().unwrap();
    let salvaged = env.salvage(directory.path().join("counters.tp"), "salvaged", &mut |_| {});
    let Err(Error::Database { what, .. }) = salvaged else { panic!("{salvaged:?}") };
    assert!(what.contains("a file of pages, which has no records"), "{what}");
    assert_eq!(env.databases().unwrap(), ["counters"]);
}

//! How long a session waits for a lock. The environment, a transaction or a call sets the timeout; other events end a
//! wait earlier.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use libtp::{Durability, Env, Error, PageLock, ProcessState, Run};

const MOMENT: Duration = Duration::from_millis(30);

/// Makes an environment with one table that has a key `x`.
fn table(builder: libtp::Builder) -> (tempfile::TempDir, Env, libtp::Db) {
    let directory = tempfile::tempdir().unwrap();
    let env = builder.durability(Durability::Relaxed).open(directory.path()).unwrap();
    let table = env.btree("table").unwrap();
    env.run(|txn| table.put(txn, b"x", b"1")).unwrap();
    (directory, env, table)
}

/// Waits until `count` sessions wait for locks.
fn until_waiting(env: &Env, count: usize) {
    while env.sessions().iter().filter(|session| session.waits_since.is_some()).count() < count {
        std::thread::yield_now();
    }
}

#[test]
fn a_transaction_can_write_a_record_after_another_reader_of_the_record_has_ended() {
    let (_directory, env, table) = table(Env::builder().lock_timeout(MOMENT * 30));
    let txn = env.begin().unwrap();
    table.get(&txn, b"x").unwrap();
    // Because of the second reader, the lock gets a queue. The reader then leaves the queue.
    env.run(|other| table.get(other, b"x")).unwrap();
    table.put(&txn, b"x", b"2").unwrap();
    txn.commit().unwrap();
}

#[test]
fn a_sum_waits_for_the_transaction_that_changed_the_number() {
    let (_directory, env, table) = table(Env::builder().lock_timeout(MOMENT));
    for db in [table, env.hash("hash").unwrap()] {
        env.run(|txn| db.put(txn, b"n", &[0; 8])).unwrap();
        let (holder, waiter) = (env.begin().unwrap(), env.begin().unwrap());
        assert_eq!(db.add(&holder, b"n", 0, 5).unwrap(), Some(5));
        assert!(matches!(db.add(&waiter, b"n", 0, 1), Err(Error::LockTimeout(_))));
        holder.abort().unwrap();
        assert_eq!(db.add(&waiter, b"n", 0, 1).unwrap(), Some(1));
        waiter.commit().unwrap();
    }
}

/// A call on several keys locks the least key first, whatever their order in the call. While it waits for this lock, it
/// holds none of the greater keys.
#[test]
fn several_records_are_locked_in_the_order_of_their_keys() {
    let (_directory, env, table) = table(Env::builder().lock_timeout(MOMENT));
    for db in [table, env.hash("hash").unwrap()] {
        env.run(|txn| [b"a", b"b"].into_iter().try_for_each(|key| db.put(txn, key, b"1"))).unwrap();
        let (holder, reader) = (env.begin().unwrap(), env.begin().unwrap());
        db.put(&holder, b"a", b"2").unwrap();
        let refused = db.get_many(&reader, &[b"b", b"a"]).unwrap_err();
        assert!(refused.to_string().contains("the record \"a\""), "{refused}");
        db.put(&holder, b"b", b"2").unwrap();
        holder.commit().unwrap();
        let two = Some(b"2".to_vec());
        assert_eq!(db.get_many(&reader, &[b"b", b"a"]).unwrap(), [two.clone(), two]);
        reader.commit().unwrap();
    }
}

#[test]
fn a_lock_that_is_not_granted_in_time_is_an_error_that_names_the_holder() {
    let (_directory, env, table) = table(Env::builder().lock_timeout(MOMENT));
    let holder = env.begin().unwrap();
    table.put(&holder, b"x", b"2").unwrap();
    let waiter = env.begin().unwrap();
    let start = Instant::now();
    let error = table.get(&waiter, b"x").unwrap_err();
    assert!(start.elapsed() >= MOMENT, "{:?}", start.elapsed());
    assert!(matches!(error, Error::LockTimeout(_)) && !error.is_retryable(), "{error}");
    let (pid, txn) = (std::process::id(), holder.id());
    let wanted = format!(
        "the lock on the record \"x\" of database `table` in mode S was not granted within 30ms: transaction {txn} of process {pid} is in the way"
    );
    assert!(error.to_string().starts_with(&wanted), "{error}");
    let wait = error.lock_wait().unwrap();
    assert_eq!((wait.in_the_way[0].txn, wait.in_the_way[0].pid), (Some(txn), pid));
    assert_eq!(wait.in_the_way[0].process_state, ProcessState::Alive);
    // The errors of other kinds of databases name the record, too.
    let numbers = env.recno("numbers", 1).unwrap();
    let values = env.multi("values", libtp::Duplicates::AsTheyCame).unwrap();
    numbers.put(&holder, 3, b"3").unwrap();
    values.put(&holder, b"x", b"1").unwrap();
    let text = |error: Error| error.to_string();
    let message = text(numbers.get(&waiter, 3).unwrap_err());
    assert!(message.starts_with("the lock on record 3 of database `numbers` in mode"), "{message}");
    let message = text(values.put(&waiter, b"x", b"2").unwrap_err());
    assert!(message.starts_with("the lock on a value of the key \"x\" of database `values` in mode"), "{message}");
    // The transaction continues without these locks.
    table.put(&waiter, b"y", b"1").unwrap();
    waiter.commit().unwrap();
    holder.commit().unwrap();
    assert_eq!(env.run(|txn| table.get(txn, b"x")).unwrap().as_deref(), Some(&b"2"[..]));
}

#[test]
fn run_repeats_a_transaction_after_a_timeout_only_on_request() {
    // The timeout is short, so that the tries end soon.
    let (_directory, env, table) = table(Env::builder().lock_timeout(MOMENT / 10));
    let tries = AtomicU32::new(0);
    let work = |txn: &libtp::Txn<'_>| {
        tries.fetch_add(1, Ordering::Relaxed);
        table.put(txn, b"x", b"3")
    };
    std::thread::scope(|scope| {
        let holder = env.begin().unwrap();
        table.put(&holder, b"x", b"2").unwrap();
        assert!(matches!(scope.spawn(|| env.run(work)).join().unwrap(), Err(Error::LockTimeout(_))));
        assert_eq!(tries.load(Ordering::Relaxed), 1);
        let asked = scope.spawn(|| env.try_run(&Run::new().again_after_timeout(), work));
        while tries.load(Ordering::Relaxed) < 4 {
            std::thread::yield_now();
        }
        holder.commit().unwrap();
        asked.join().unwrap().unwrap();
    });
    assert_eq!(env.run(|txn| table.get(txn, b"x")).unwrap().as_deref(), Some(&b"3"[..]));
}

#[test]
fn transactions_and_calls_have_timeouts_of_their_own() {
    let (_directory, env, table) = table(Env::builder());
    let holder = env.begin().unwrap();
    table.put(&holder, b"x", b"2").unwrap();
    let is_timeout = |read: libtp::Result<Option<Vec<u8>>>, limit| match read {
        Err(Error::LockTimeout(wait)) => wait.limit == limit,
        other => panic!("{other:?}"),
    };
    let waiter = env.begin().unwrap();
    waiter.set_lock_timeout(Some(MOMENT));
    assert!(is_timeout(table.get(&waiter, b"x"), Some(MOMENT)));
    assert!(is_timeout(waiter.within(Some(Duration::ZERO), || table.get(&waiter, b"x")), None));
    assert!(
        is_timeout(table.get(&waiter, b"x"), Some(MOMENT)),
        "the timeout of a call must not change the transaction's timeout"
    );
    let mut cursor = table.cursor(&waiter);
    let refused = waiter.within(Some(MOMENT / 2), || cursor.first());
    assert!(
        matches!(refused, Err(Error::LockTimeout(wait)) if wait.limit == Some(MOMENT / 2)),
        "the call's timeout must apply to a cursor, too"
    );
    let how = Run::new().lock_timeout(MOMENT * 2);
    let refused = env.try_run(&how, |txn| table.get(txn, b"x"));
    assert!(is_timeout(refused, Some(MOMENT * 2)));
    drop(cursor);
    waiter.abort().unwrap();
    // The next transaction uses the same session, and must not have the aborted transaction's timeout.
    std::thread::scope(|scope| {
        let read = scope.spawn(|| env.run(|txn| table.get(txn, b"x")));
        until_waiting(&env, 1);
        std::thread::sleep(MOMENT * 3);
        holder.commit().unwrap();
        assert_eq!(read.join().unwrap().unwrap().as_deref(), Some(&b"2"[..]));
    });
}

#[derive(Debug, PartialEq)]
enum Trouble {
    OutOfStock,
    Library(String),
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Trouble {
        Trouble::Library(error.to_string())
    }
}

#[test]
fn a_transaction_may_have_an_error_type_of_its_own() {
    let (_directory, env, table) = table(Env::builder());
    let tries = AtomicU32::new(0);
    let refused = env.try_run(&Run::new(), |txn| -> Result<(), Trouble> {
        tries.fetch_add(1, Ordering::Relaxed);
        table.put(txn, b"x", b"gone")?;
        Err(Trouble::OutOfStock)
    });
    assert_eq!((refused, tries.load(Ordering::Relaxed)), (Err(Trouble::OutOfStock), 1));
    assert_eq!(env.run(|txn| table.get(txn, b"x")).unwrap().as_deref(), Some(&b"1"[..]), "the put was undone");
    // The victim of a deadlock runs again, even if the caller's error type hides the cause.
    env.run(|txn| table.put(txn, b"y", b"1")).unwrap();
    let (told, met) = (channel(), channel());
    std::thread::scope(|scope| {
        let (env, table, tries) = (&env, &table, &tries);
        let first = env.begin().unwrap();
        table.put(&first, b"x", b"2").unwrap();
        let second = scope.spawn(move || {
            let mut has_told = false;
            env.try_run(&Run::new(), |txn| -> Result<(), Trouble> {
                tries.fetch_add(1, Ordering::Relaxed);
                table.put(txn, b"y", b"3")?;
                if !has_told {
                    has_told = true;
                    told.0.send(()).unwrap();
                    met.1.recv().unwrap();
                }
                Ok(table.put(txn, b"x", b"3")?)
            })
        });
        told.1.recv().unwrap();
        met.0.send(()).unwrap();
        until_waiting(env, 1);
        // The second transaction is younger, so it is the victim.
        table.put(&first, b"y", b"2").unwrap();
        first.commit().unwrap();
        second.join().unwrap().unwrap();
    });
    assert_eq!(tries.load(Ordering::Relaxed), 3);
    assert_eq!(env.run(|txn| table.get(txn, b"y")).unwrap().as_deref(), Some(&b"3"[..]));
}

#[test]
fn two_transactions_of_one_thread_that_wait_for_each_other_are_refused() {
    // The timeout is much longer than the time until the wait is refused.
    let (_directory, env, table) = table(Env::builder().lock_timeout(Duration::from_secs(10)));
    let (one, two) = (env.begin().unwrap(), env.begin().unwrap());
    table.put(&one, b"x", b"2").unwrap();
    let error = table.put(&two, b"x", b"3").unwrap_err();
    assert!(matches!(error, Error::OwnThread(_)) && !error.is_retryable(), "{error}");
    let text = error.to_string();
    assert!(text.contains("record \"x\"") && text.contains(&format!("transaction {}", one.id())), "{text}");
    // The circle may go through another thread, which waits for the first transaction.
    table.put(&two, b"y", b"3").unwrap();
    std::thread::scope(|scope| {
        let (env, table) = (&env, &table);
        let (tell, told) = channel();
        let other = scope.spawn(move || {
            let third = env.begin().unwrap();
            table.put(&third, b"z", b"4").unwrap();
            tell.send(()).unwrap();
            table.put(&third, b"x", b"4").unwrap();
            third.commit().unwrap();
        });
        told.recv().unwrap();
        until_waiting(env, 1);
        let error = table.put(&two, b"z", b"3").unwrap_err();
        assert!(matches!(error, Error::OwnThread(_)), "{error}");
        one.commit().unwrap();
        other.join().unwrap();
    });
    two.commit().unwrap();
    assert_eq!(env.run(|txn| table.get(txn, b"x")).unwrap().as_deref(), Some(&b"4"[..]));
}

#[test]
fn a_compaction_that_waits_for_a_transaction_of_its_own_thread_is_refused() {
    // The timeout is much longer than the time until the wait is refused.
    let (directory, env, table) = table(Env::builder().lock_timeout(Duration::from_secs(10)));
    let open = env.begin().unwrap();
    table.lock_all(&open, PageLock::Write).unwrap();
    let error = table.compact(90).unwrap_err();
    assert!(matches!(error, Error::OwnThread(_)), "{error}");
    // The wait is refused also if the compaction uses another handle of the environment.
    let other = Env::builder().lock_timeout(Duration::from_secs(10)).open(directory.path()).unwrap();
    let error = other.btree("table").unwrap().compact(90).unwrap_err();
    assert!(matches!(error, Error::OwnThread(_)), "another handle: {error}");
    open.commit().unwrap();
    table.compact(90).unwrap();
    other.btree("table").unwrap().compact(90).unwrap();
}

#[test]
fn an_opening_with_a_time_limit_waits_no_longer() {
    let (directory, env, _table) = table(Env::builder().lock_timeout(Duration::from_secs(20)));
    let renaming = env.begin().unwrap();
    renaming.rename_database("table", "other").unwrap();
    let opener = Env::builder().lock_timeout(Duration::from_secs(20)).open(directory.path()).unwrap();
    for limit in [Duration::ZERO, MOMENT] {
        let begun = Instant::now();
        // The first thread has a transaction open, and the second has none.
        let refused = [
            opener.btree_within("other", limit).err(),
            std::thread::scope(|scope| scope.spawn(|| opener.btree_within("other", limit).err()).join().unwrap()),
        ];
        let took = begun.elapsed();
        assert!(took >= limit * 2 && took < Duration::from_secs(4), "{took:?}");
        for error in refused.map(Option::unwrap) {
            assert!(matches!(error, Error::LockTimeout(_)), "{error}");
            assert!(error.to_string().contains("the name of database `other`"), "{error}");
        }
    }
    renaming.commit().unwrap();
    opener.btree_within("other", Duration::ZERO).unwrap();
}

#[test]
fn a_transaction_that_another_thread_continues_is_waited_for() {
    let (_directory, env, table) = table(Env::builder());
    let (one, two) = (env.begin().unwrap(), env.begin().unwrap());
    table.put(&one, b"x", b"2").unwrap();
    std::thread::scope(|scope| {
        let (env, table) = (&env, &table);
        scope.spawn(move || {
            table.put(&one, b"y", b"2").unwrap();
            until_waiting(env, 1);
            // The pause is longer than the time until a wait is refused.
            std::thread::sleep(Duration::from_millis(1500));
            one.commit().unwrap();
        });
        table.put(&two, b"x", b"3").unwrap();
    });
    two.commit().unwrap();
    assert_eq!(env.run(|txn| table.get(txn, b"x")).unwrap().as_deref(), Some(&b"3"[..]));
}

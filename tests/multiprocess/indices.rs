//! Tests of indices that several handles and processes use. They find the bugs that are planted in the library's rules
//! for indices.

use libtp::{Database, Db, Env, Error, Index, IndexKeys, Load};

/// Indexes "town:profession" by the town.
pub(crate) fn town(_key: &[u8], value: &[u8], keys: &mut IndexKeys) {
    keys.add(value.split(|&byte| byte == b':').next().unwrap_or_default());
}

fn with_people() -> (tempfile::TempDir, Env, Db) {
    let directory = tempfile::tempdir().unwrap();
    let env = Env::open_or_create(directory.path()).unwrap();
    let people = env.btree("people").unwrap();
    let towns = ["Brno", "London", "Erlangen", "Ulm", "Warszawa", "Paris"];
    env.run(|txn| {
        (0..200_u32).try_for_each(|number| {
            let value = format!("{}:logician", towns[number as usize % towns.len()]);
            people.put(txn, number.to_string().as_bytes(), value.as_bytes())
        })
    })
    .unwrap();
    (directory, env, people)
}

fn findings(env: &Env, index: &Index) -> usize {
    let of = |name: &str| env.verify(name).unwrap().findings.len();
    of(index.name()) + of(index.database().name())
}

#[test]
fn a_handle_without_an_index_s_function_may_not_write_in_a_transaction_that_it_took_over() {
    let (directory, env, people) = with_people();
    let other = Env::open_or_create(directory.path()).unwrap();
    let theirs = other.btree("people").unwrap();
    let index = people.index("by town", town).unwrap();
    let txn = env.begin().unwrap();
    people.put(&txn, b"kurt", b"Brno:logician").unwrap();
    let txn = other.attach(&txn.detach().unwrap()).unwrap();
    let refused = theirs.put(&txn, b"alan", b"London:logician").unwrap_err().to_string();
    assert!(refused.contains("by town"), "{refused}");
    txn.commit().unwrap();
    assert_eq!(findings(&env, &index), 0);
}

#[test]
fn an_index_is_made_of_all_records() {
    let (_directory, env, people) = with_people();
    let index = people.index("by town", town).unwrap();
    let snapshot = env.snapshot().unwrap();
    assert_eq!(index.verify(&snapshot).unwrap(), Vec::<String>::new());
    assert_eq!(index.keys(&snapshot, b"Brno").unwrap().len(), 34);
}

#[test]
fn an_index_that_differs_from_its_function_is_found() {
    let (directory, env, people) = with_people();
    people.index("by town", town).unwrap();
    let other = Env::open_or_create(directory.path()).unwrap();
    let theirs = other.btree("people").unwrap();
    // The other handle opens the index by the same name, with another function.
    let index = theirs.index("by town", |key, _, keys| keys.add(key)).unwrap();
    assert_eq!(findings(&other, &index), 200);
    assert_eq!(env.verify("by town").unwrap().findings.len(), 0);
}

#[test]
fn an_index_dropped_or_made_later_does_not_read_as_empty() {
    let (_directory, env, people) = with_people();
    let before = env.snapshot().unwrap();
    let index = people.index("by town", town).unwrap();
    let refused = index.keys(&before, b"Brno").unwrap_err().to_string();
    assert!(refused.contains("made after the snapshot"), "{refused}");
    assert!(people.drop_index("by town").unwrap());
    let refused = env.run(|txn| index.keys(txn, b"Brno")).unwrap_err().to_string();
    assert!(refused.contains("was dropped"), "{refused}");
}

#[test]
fn a_failed_index_build_leaves_no_function() {
    let (directory, env, people) = with_people();
    let long = vec![b'x'; 5000];
    env.run(|txn| people.put(txn, b"long", &long)).unwrap();
    assert!(people.index("by town", |_, value, keys| keys.add(value)).is_err());
    env.run(|txn| people.delete(txn, b"long").map(|_| ())).unwrap();
    let other = Env::open_or_create(directory.path()).unwrap();
    let index = other.btree("people").unwrap().index("by town", town).unwrap();
    let refused = env.run(|txn| people.put(txn, b"kurt", b"Brno:logician")).err();
    assert!(
        refused.is_some_and(|error| error.to_string().contains("by town")),
        "the put was accepted with the function of the failed build"
    );
    assert_eq!(findings(&other, &index), 0);
}

#[test]
fn a_record_that_an_index_refuses_is_not_stored() {
    let (directory, env, people) = with_people();
    let choosy = |_: &[u8], value: &[u8], keys: &mut IndexKeys| match value.iter().position(|&byte| byte == b':') {
        Some(end) => keys.add(&value[..end]),
        None => keys.refuse("it has no town"),
    };
    env.run(|txn| people.put(txn, b"nemo", b"nowhere")).unwrap();
    let message = people.index("by town", choosy).err().map(|error| error.to_string());
    assert!(
        message.is_some_and(|message| message.contains("`by town` refuses the record: it has no town")),
        "the index must not be made of a record that its function refuses"
    );
    env.run(|txn| people.delete(txn, b"nemo").map(|_| ())).unwrap();
    let index = people.index("by town", choosy).unwrap();
    let other = Env::open_or_create(directory.path()).unwrap();
    let theirs = other.btree("people").unwrap();
    theirs.index("by town", choosy).unwrap();
    for (env, people) in [(&env, &people), (&other, &theirs)] {
        let txn = env.begin().unwrap();
        people.put(&txn, b"kurt", b"Wien:logician").unwrap();
        let refused = [
            people.put(&txn, b"nemo", b"nowhere").err(),
            people.put_new(&txn, b"nemo", b"nowhere").err(),
            people.put(&txn, b"kurt", b"nowhere").err(),
            people.update_with(&txn, b"kurt", |value| value.fill(b'-')).err(),
        ];
        for (number, refused) in refused.into_iter().enumerate() {
            assert!(matches!(refused, Some(Error::Refused { .. })), "{number}: {refused:?}");
        }
        txn.commit().unwrap();
    }
    let kept = env.run(|txn| Ok((people.get(txn, b"kurt")?, people.get(txn, b"nemo")?))).unwrap();
    assert_eq!(kept, (Some(b"Wien:logician".to_vec()), None));
    assert_eq!(findings(&env, &index), 0);
}

#[test]
fn an_index_opened_by_its_name_can_be_read_and_not_written() {
    let (_directory, env, people) = with_people();
    let index = people.index("by town", town).unwrap();
    let Database::Index(entries) = env.database("by town").unwrap() else { panic!("the database is an index") };
    let txn = env.begin().unwrap();
    assert_eq!(entries.count(&txn, b"Brno").unwrap(), 34);
    let mut cursor = entries.cursor(&txn);
    cursor.first().unwrap();
    let refused = [
        entries.put(&txn, b"Wien", b"7").err(),
        entries.delete(&txn, b"Brno").err(),
        entries.delete_value(&txn, b"Brno", b"0").err(),
        entries.delete_at(&txn, &cursor).err(),
        entries.put_at(&txn, &cursor, b"8").err(),
    ];
    drop(cursor);
    txn.commit().unwrap();
    let loading = entries.load(&Load::unsorted(), [("Wien", "7")]).err();
    for (number, refused) in refused.into_iter().chain([loading]).enumerate() {
        let message = refused.map_or_else(|| "let through".into(), |error| error.to_string());
        assert!(message.contains("changes only with the records"), "{number}: {message}");
    }
    assert_eq!(findings(&env, &index), 0);
}

/// The maker of the index releases its locks as soon as its commit record is in the log. From then on a snapshot shows
/// the index, and the snapshot's reader waits until the commit is on the disk.
#[cfg(feature = "failpoints")]
#[test]
fn an_index_that_is_not_on_the_disk_yet_does_not_read_as_empty() {
    let directory = tempfile::tempdir().unwrap();
    let env = crate::stopped::idle().open(directory.path()).unwrap();
    let table = env.btree("table").unwrap();
    env.run(|txn| (0..50_u32).try_for_each(|number| table.put(txn, &number.to_le_bytes(), b"Brno:logician"))).unwrap();
    // This process must know the index's function.
    table.index("by town", town).unwrap();
    assert!(table.drop_index("by town").unwrap());
    let mut maker = crate::crew::Member::start(directory.path(), 1);
    maker.ask("arm commit: locks released, not ended!stop");
    // The maker holds its lock on the database for a second, and `verify` waits for the lock.
    maker.order("index-by-town-slowly");
    std::thread::sleep(std::time::Duration::from_millis(300));
    let found = env.verify("table").unwrap().findings;
    crate::stopped::stopped(directory.path(), |_| true);
    assert!(found.is_empty(), "{:?}", found.first());
    maker.resume();
    assert_eq!(maker.answer(), "made");
    maker.leave();
    assert!(env.verify("table").unwrap().findings.is_empty());
}

/// If the program catches a panic of an index's function, the panic has no later effect.
#[test]
fn after_a_panic_of_a_function_broken_memory_is_reported_as_before() {
    let (_directory, env, people) = with_people();
    let calls = std::sync::atomic::AtomicU32::new(0);
    let index = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        people.index("by town", move |key, value, keys| {
            assert!(calls.fetch_add(1, std::sync::atomic::Ordering::Relaxed) < 10, "for a test");
            town(key, value, keys);
        })
    }));
    assert!(index.is_err());
    let holder = env.begin().unwrap();
    people.put(&holder, b"0", b"Ulm:logician").unwrap();
    let txn = env.begin().unwrap();
    let answer = std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(std::time::Duration::from_millis(300));
            env.managers().processes.declare_broken();
        });
        // The memory is declared broken while the put waits for the lock.
        let put = || people.put(&txn, b"0", b"Paris:logician").map_err(|error| error.to_string());
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(put))
    });
    let told = libtp::Error::Rebuilt.to_string();
    assert!(
        matches!(&answer, Ok(Err(why)) if *why == told),
        "broken memory must be reported by an error, not by a panic: {answer:?}"
    );
    drop((txn, holder));
    let index = people.index("by town", town).unwrap();
    assert_eq!(findings(&env, &index), 0);
}

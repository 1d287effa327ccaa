//! Tests of lists through the public interface: snapshots, locks, damage, freed pages.

use std::time::Instant;

use libtp_record::list::entries::{node_key, record_key, Child, Entry, Head, Node, HEAD_KEY};

use crate::{Database, Env, Error, List, Reader, Txn};

fn all(list: &List, reader: &impl Reader) -> Vec<String> {
    let (mut cursor, mut lines) = (list.cursor(reader), Vec::new());
    while let Some((number, line)) = cursor.next().unwrap() {
        assert_eq!(number, lines.len() as u64 + 1);
        lines.push(String::from_utf8(line).unwrap());
    }
    lines
}

#[test]
fn a_snapshot_shows_the_numbers_of_its_moment() {
    let dir = tempfile::tempdir().unwrap();
    let env = Env::open_or_create(dir.path()).unwrap();
    let list = env.list("lines").unwrap();
    env.run(|txn| (0..500).try_for_each(|at| list.append(txn, format!("line {at}").as_bytes()).map(|_| ()))).unwrap();
    let before = env.snapshot().unwrap();
    let was = all(&list, &before);
    env.run(|txn| {
        (0..400).try_for_each(|_| list.delete(txn, 50).map(|_| ()))?;
        (0..3000).try_for_each(|at| list.insert_before(txn, 20, format!("new {at}").as_bytes()).map(|_| ()))?;
        list.put(txn, 1, b"other")
    })
    .unwrap();
    let running = env.begin().unwrap();
    list.insert_before(&running, 1, b"not committed").unwrap();
    assert_eq!(all(&list, &before), was);
    assert_eq!(was.len(), 500);
    for number in [0_u64, 1, 49, 50, 51, 499, 500, 501] {
        let wanted = number.checked_sub(1).and_then(|at| was.get(usize::try_from(at).unwrap()));
        let found = list.get(&before, number).unwrap();
        assert_eq!(found.as_deref(), wanted.map(|line| line.as_bytes()), "{number}");
    }
    assert_eq!(list.count(&before).unwrap(), 500);
    let now = env.snapshot().unwrap();
    assert_eq!(list.count(&now).unwrap(), 3100);
    assert_eq!(list.get(&now, 1).unwrap().as_deref(), Some(&b"other"[..]));
    assert_eq!(list.get(&now, 20).unwrap().as_deref(), Some(&b"new 2999"[..]));
    assert_eq!(list.count(&running).unwrap(), 3101);
    running.abort().unwrap();
    assert!(env.verify("lines").unwrap().findings.is_empty());
}

#[test]
fn transactions_replace_records_concurrently_and_insertions_wait_for_transactions_that_read_numbers() {
    let dir = tempfile::tempdir().unwrap();
    let settings = crate::Settings { lock_timeout_millis: Some(20), ..crate::Settings::default() };
    let env = Env::builder().settings(settings).open(dir.path()).unwrap();
    let list = env.list("lines").unwrap();
    env.run(|txn| (0..10).try_for_each(|_| list.append(txn, b"line").map(|_| ()))).unwrap();
    let (one, two) = (env.begin().unwrap(), env.begin().unwrap());
    list.put(&one, 1, b"by one").unwrap();
    list.put(&two, 2, b"by two").unwrap();
    assert_eq!(list.count(&two).unwrap(), 10);
    // Both transactions rely on the numbers.
    for refused in [list.append(&one, b"more"), list.insert_before(&two, 1, b"more")] {
        assert!(matches!(refused, Err(Error::LockTimeout(_) | Error::Deadlock)), "{refused:?}");
    }
    assert!(matches!(list.get(&two, 1), Err(Error::LockTimeout(_) | Error::Deadlock)));
    one.commit().unwrap();
    list.insert_before(&two, 1, b"first").unwrap();
    assert_eq!(list.get(&two, 2).unwrap().as_deref(), Some(&b"by one"[..]));
    let late = env.begin().unwrap();
    assert!(matches!(list.count(&late), Err(Error::LockTimeout(_))));
    late.abort().unwrap();
    two.commit().unwrap();
    let txn = env.begin().unwrap();
    assert_eq!(all(&list, &txn)[..4], ["first", "by one", "by two", "line"]);
    txn.commit().unwrap();
}

#[test]
fn a_list_opens_only_as_a_list() {
    let dir = tempfile::tempdir().unwrap();
    let env = Env::open_or_create(dir.path()).unwrap();
    env.list("lines").unwrap();
    env.btree("tree").unwrap();
    for error in [env.btree("lines").err(), env.hash("lines").err(), env.list("tree").err()] {
        assert!(matches!(error, Some(Error::Database { .. })), "{error:?}");
    }
    assert!(matches!(env.database("lines").unwrap(), Database::List(_)));
    let list = env.list("lines").unwrap();
    let txn = env.begin().unwrap();
    assert!(list.put(&txn, 0, b"").is_err());
    assert!(list.insert_before(&txn, 0, b"").is_err());
    assert!(list.put(&txn, 1 << 40, b"").is_err());
    assert!(list.insert_after(&txn, u64::MAX, b"").is_err());
    assert!(!list.delete(&txn, 0).unwrap() && !list.delete(&txn, 1).unwrap());
    assert_eq!(list.count(&txn).unwrap(), 0);
    list.put(&txn, 3, b"third").unwrap();
    assert_eq!(all(&list, &txn), ["", "", "third"]);
    txn.commit().unwrap();
}

#[test]
fn a_list_used_as_a_queue_frees_its_pages() {
    let dir = tempfile::tempdir().unwrap();
    let env = Env::open_or_create(dir.path()).unwrap();
    let list = env.list("queue").unwrap();
    let mut pages = Vec::new();
    for _ in 0..6 {
        for _ in 0..40 {
            env.run_with(crate::Durability::Relaxed, |txn| {
                (0..50).try_for_each(|_| list.append(txn, &[b'q'; 100]).map(|_| ()))
            })
            .unwrap();
            env.flush().unwrap();
            env.run_with(crate::Durability::Relaxed, |txn| {
                let many = list.count(txn)?.saturating_sub(200);
                (0..many).try_for_each(|_| list.delete(txn, 1).map(|_| ()))
            })
            .unwrap();
        }
        env.checkpoint().unwrap();
        pages.push(std::fs::metadata(dir.path().join("queue.tp")).unwrap().len() / 8192);
    }
    println!("figures: pages after each 2000 of a queue: {pages:?}");
    assert!(pages[5] <= pages[1] + 8, "{pages:?}");
    assert!(env.verify("queue").unwrap().findings.is_empty());
}

#[test]
fn each_snapshot_shows_its_own_numbers_during_random_changes() {
    let dir = tempfile::tempdir().unwrap();
    let env = Env::open_or_create(dir.path()).unwrap();
    let list = env.list("lines").unwrap();
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut below = |most: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % most
    };
    let mut model: Vec<String> = Vec::new();
    let mut held: Vec<(crate::Snapshot<'_>, Vec<String>)> = Vec::new();
    for round in 0..60 {
        let mut next = model.clone();
        let (is_kept, way) = (below(4) > 0, below(3));
        let txn = env.begin().unwrap();
        for step in 0..1 + below(120) {
            let at = usize::try_from(below(next.len() as u64 + 1)).unwrap();
            let line = format!("{round}.{step} {}", "x".repeat(usize::try_from(below(80)).unwrap()));
            if way == 0 && at < next.len() {
                list.delete(&txn, at as u64 + 1).unwrap();
                next.remove(at);
            } else if way == 1 && at < next.len() && below(2) == 0 {
                list.put(&txn, at as u64 + 1, line.as_bytes()).unwrap();
                next[at] = line;
            } else {
                list.insert_before(&txn, at as u64 + 1, line.as_bytes()).unwrap();
                next.insert(at, line);
            }
        }
        if is_kept {
            txn.commit().unwrap();
            model = next;
        } else if below(2) == 0 {
            txn.abort().unwrap();
        } else {
            // The transaction is left as by a kill: another session repairs it.
            txn.die();
        }
        if below(3) == 0 {
            held.push((env.snapshot().unwrap(), model.clone()));
        }
        for (snapshot, was) in &held {
            assert!(all(&list, snapshot) == *was, "in round {round}");
            let number = 1 + below(was.len() as u64 + 2);
            let wanted =
                usize::try_from(number - 1).ok().and_then(|at| was.get(at)).map(|line| line.as_bytes().to_vec());
            assert_eq!(list.get(snapshot, number).unwrap(), wanted, "{number} in round {round}");
        }
        if held.len() > 6 {
            held.remove(usize::try_from(below(6)).unwrap());
        }
    }
    let txn = env.begin().unwrap();
    assert!(all(&list, &txn) == model);
    txn.commit().unwrap();
    assert_eq!(env.verify("lines").unwrap().findings, []);
}

#[test]
fn threads_that_insert_and_replace_at_once_lose_nothing() {
    const THREADS: u64 = 4;
    const ROUNDS: u64 = 120;
    let dir = tempfile::tempdir().unwrap();
    let env = Env::open_or_create(dir.path()).unwrap();
    let list = env.list("lines").unwrap();
    env.run(|txn| (0..THREADS).try_for_each(|_| list.append(txn, b"0").map(|_| ()))).unwrap();
    let work = &|thread: u64| {
        for round in 1..=ROUNDS {
            let name = |kind: &str| format!("{kind} {thread} {round}");
            env.run_with(crate::Durability::Relaxed, |txn| {
                match round % 3 {
                    // Read first, like a program that looks for a place: two such transactions deadlock, and one begins
                    // again.
                    0 => {
                        let count = list.count(txn)?;
                        list.insert_before(txn, count + 1, name("back").as_bytes())?;
                    }
                    1 => drop(list.append(txn, name("back").as_bytes())?),
                    _ => drop(list.insert_before(txn, 1, name("front").as_bytes())?),
                }
                Ok(())
            })
            .unwrap();
            env.run_with(crate::Durability::Relaxed, |txn| {
                // The records that the test appended first are now in the middle of the list, in their old order.
                let mut cursor = list.cursor(txn);
                let mut met = 0;
                while let Some((number, line)) = cursor.next()? {
                    let Ok(sum) = std::str::from_utf8(&line).unwrap().parse::<u64>() else { continue };
                    if met == thread {
                        drop(cursor);
                        return list.put(txn, number, (sum + 1).to_string().as_bytes());
                    }
                    met += 1;
                }
                panic!("only {met} of the first lines exist");
            })
            .unwrap();
        }
    };
    std::thread::scope(|scope| {
        (0..THREADS).for_each(|thread| drop(scope.spawn(move || work(thread))));
    });
    let txn = env.begin().unwrap();
    let lines = all(&list, &txn);
    txn.commit().unwrap();
    assert_eq!(lines.len() as u64, THREADS * (ROUNDS + 1));
    let sums: Vec<u64> = lines.iter().filter_map(|line| line.parse().ok()).collect();
    assert_eq!(sums, vec![ROUNDS; 4]);
    for thread in 0..THREADS {
        let rounds = |kind: &str| -> Vec<u64> {
            let own = lines.iter().filter_map(|line| line.strip_prefix(&format!("{kind} {thread} ")));
            own.map(|round| round.parse().unwrap()).collect()
        };
        let (front, back) = (rounds("front"), rounds("back"));
        assert!(front.is_sorted_by(|one, other| one > other) && back.is_sorted_by(|one, other| one < other));
        assert_eq!((front.len() + back.len()) as u64, ROUNDS);
    }
    assert_eq!(env.verify("lines").unwrap().findings, []);
}

/// Returns the leaves of a list, as its tree stores them: ids and nodes.
fn leaves(list: &List, txn: &Txn<'_>) -> Vec<(u64, Node)> {
    let (mut cursor, mut found) = (list.tree().raw_cursor(txn, Default::default()), Vec::new());
    while let Some((key, value)) = cursor.next().unwrap() {
        if let Some(Entry::Node(id)) = Entry::of(&key) {
            found.push((id, Node::of(&value).unwrap()));
        }
    }
    found.retain(|(_, node)| node.level == 0);
    found
}

fn raw_put(list: &List, txn: &Txn<'_>, key: &[u8], value: &[u8]) {
    list.tree().access(txn).put(key, value).unwrap();
}

#[test]
fn a_change_that_fails_half_way_is_undone() {
    let dir = tempfile::tempdir().unwrap();
    let env = Env::open_or_create(dir.path()).unwrap();
    let list = env.list("lines").unwrap();
    env.run(|txn| (0..300).try_for_each(|at: u64| list.append(txn, &at.to_be_bytes()).map(|_| ()))).unwrap();
    let txn = env.begin().unwrap();
    let leaves = leaves(&list, &txn);
    let (id, second) = &leaves[1];
    assert!(list.tree().access(&txn).delete(&node_key(*id)).unwrap());
    // The deletions make the first leaf small, so the list looks for the leaf's neighbour, which is missing.
    let mut count = 300;
    let error = loop {
        match list.delete(&txn, 1) {
            Ok(was_there) => assert!(was_there),
            Err(error) => break error,
        }
        count -= 1;
    };
    assert!(matches!(error, Error::Corrupt(_)) && error.to_string().contains("is missing"), "{error}");
    assert!(count < 300 && count > 300 - leaves[0].1.children.len() as u64);
    raw_put(&list, &txn, &node_key(*id), &second.to_bytes());
    assert_eq!(list.count(&txn).unwrap(), count);
    assert_eq!(list.get(&txn, 1).unwrap().unwrap(), (300 - count).to_be_bytes());
    txn.commit().unwrap();
    assert_eq!(env.verify("lines").unwrap().findings, []);
}

#[test]
fn verify_finds_wrong_counts_and_lost_entries() {
    let dir = tempfile::tempdir().unwrap();
    let env = Env::open_or_create(dir.path()).unwrap();
    let list = env.list("lines").unwrap();
    env.run(|txn| (0..300).try_for_each(|at: u64| list.append(txn, &at.to_be_bytes()).map(|_| ()))).unwrap();
    let verified = env.verify("lines").unwrap();
    assert_eq!((verified.records, verified.findings.len()), (300, 0));
    let damage = |what: &str, harm: &dyn Fn(&Txn<'_>)| {
        let txn = env.begin().unwrap();
        let part = txn.savepoint();
        harm(&txn);
        let findings = crate::db::opening::verify(list.tree().environment(), "lines", &txn).unwrap().findings;
        assert!(findings.iter().any(|finding| finding.what.contains(what)), "{what}: {findings:?}");
        part.roll_back().unwrap();
        assert_eq!(crate::db::opening::verify(list.tree().environment(), "lines", &txn).unwrap().findings, []);
        txn.commit().unwrap();
    };
    let leaf = |txn: &Txn<'_>| leaves(&list, txn).swap_remove(0);
    damage("the node above states", &|txn| {
        let (id, mut node) = leaf(txn);
        node.children.pop();
        raw_put(&list, txn, &node_key(id), &node.to_bytes());
        assert!(matches!(list.get(txn, 1), Err(Error::Corrupt(_))));
    });
    damage("has two numbers", &|txn| {
        let (id, mut node) = leaf(txn);
        node.children[1] = node.children[0];
        raw_put(&list, txn, &node_key(id), &node.to_bytes());
    });
    damage("is missing", &|txn| {
        let (id, _) = leaf(txn);
        assert!(list.tree().access(txn).delete(&node_key(id)).unwrap());
        assert!(matches!(list.get(txn, 1), Err(Error::Corrupt(_))));
    });
    damage("contradicts itself", &|txn| {
        let (id, _) = leaf(txn);
        raw_put(&list, txn, &node_key(id), b"\0\x01");
        assert!(matches!(list.get(txn, 1), Err(Error::Corrupt(_))));
    });
    damage("of them exist", &|txn| {
        let (_, node) = leaf(txn);
        assert!(list.tree().access(txn).delete(&record_key(node.children[3].id)).unwrap());
        assert!(matches!(list.get(txn, 4), Err(Error::Corrupt(_))));
    });
    damage("no node of the list leads to", &|txn| raw_put(&list, txn, &record_key(7_000_000), b"lost"));
    damage("not yet assigned", &|txn| raw_put(&list, txn, &node_key(7_000_000), b"\0\x01\0\0\0\0\0\0\0"));
    damage("not a key of a list", &|txn| raw_put(&list, txn, b"key", b"of a tree"));
    damage("more than", &|txn| {
        let (id, mut node) = leaf(txn);
        let child = Child { id: 1, count: 1 };
        node.children.resize(1000, child);
        raw_put(&list, txn, &node_key(id), &node.to_bytes());
    });
    damage("head contradicts itself", &|txn| {
        // A count without a root.
        let mut head = [0; size_of::<Head>()];
        head[8] = 3;
        raw_put(&list, txn, &HEAD_KEY, &head);
        assert!(matches!(list.count(txn), Err(Error::Corrupt(_))));
    });
}

/// Prints times. Asserts nothing, because the machine may be busy.
#[test]
#[ignore = "a measurement"]
fn how_long_a_step_takes() {
    let dir = tempfile::tempdir().unwrap();
    let env = Env::open_or_create(dir.path()).unwrap();
    let list = env.list("lines").unwrap();
    let timed = |what: &str, count: u64, work: &mut dyn FnMut()| {
        let begin = Instant::now();
        work();
        println!("figures: {what}: {:.2} us each", begin.elapsed().as_secs_f64() * 1e6 / count as f64);
    };
    timed("append", 1_000_000, &mut || {
        for _ in 0..1000 {
            env.run_with(crate::Durability::Relaxed, |txn| {
                (0..1000).try_for_each(|_| list.append(txn, &[b'a'; 60]).map(|_| ()))
            })
            .unwrap();
        }
    });
    let mut at = 1_u64;
    let mut next = move || {
        at = at.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        1 + (at >> 33) % 900_000
    };
    timed("get at random", 100_000, &mut || {
        env.run(|txn| (0..100_000).try_for_each(|_| list.get(txn, next()).map(|_| ()))).unwrap();
    });
    timed("insert at random", 100_000, &mut || {
        env.run(|txn| (0..100_000).try_for_each(|_| list.insert_before(txn, next(), &[b'i'; 60]).map(|_| ()))).unwrap();
    });
    timed("delete at random", 100_000, &mut || {
        env.run(|txn| (0..100_000).try_for_each(|_| list.delete(txn, next()).map(|_| ()))).unwrap();
    });
    let snapshot = env.snapshot().unwrap();
    timed("step of a cursor", 1_000_000, &mut || {
        let mut cursor = list.cursor(&snapshot);
        while cursor.next().unwrap().is_some() {}
    });
    let bytes = std::fs::metadata(dir.path().join("lines.tp")).unwrap().len();
    println!("figures: a million records of 60 bytes take {} MiB", bytes >> 20);
}

/// Compares a cursor's place, kept over several transactions, with a model, while other transactions insert and remove.
#[test]
fn a_remembered_place_is_found_wherever_its_record_has_moved() {
    let dir = tempfile::tempdir().unwrap();
    let env = Env::open_or_create(dir.path()).unwrap();
    let list = env.list("lines").unwrap();
    let mut model: Vec<u64> = (0..2000).collect();
    env.run(|txn| model.iter().try_for_each(|name| list.append(txn, &name.to_le_bytes()).map(|_| ()))).unwrap();
    let mut seed = 7_u64;
    let mut random = |below: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(seed >> 33).unwrap() % below
    };
    let mut next_name = 2000;
    let place_of = |number: u64| {
        let mut cursor_place = None;
        env.run(|txn| {
            let mut cursor = list.cursor(txn);
            cursor.seek(number)?;
            cursor_place = cursor.place()?;
            Ok(())
        })
        .unwrap();
        cursor_place.unwrap()
    };
    for round in 0..150 {
        let at = random(model.len());
        let name = model[at];
        let place = place_of(at as u64 + 1);
        for _ in 0..random(40) {
            let at = random(model.len());
            // About a third of the changes are at the record's own place.
            let at = if random(3) == 0 { model.iter().position(|other| *other == name).unwrap_or(at) } else { at };
            env.run(|txn| match random(2) {
                0 => list.delete(txn, at as u64 + 1).map(|_| {
                    model.remove(at);
                }),
                _ => list
                    .insert_before(txn, at as u64 + 1, &u64::to_le_bytes(next_name))
                    .map(|_| model.insert(at, next_name)),
            })
            .unwrap();
            next_name += 1;
        }
        env.run(|txn| {
            let mut cursor = list.cursor(txn);
            let is_there = cursor.go_to(&place)?;
            let wanted = model.iter().position(|other| *other == name);
            assert_eq!(is_there, wanted.is_some(), "round {round}");
            assert_eq!(cursor.number(), wanted.map(|at| at as u64 + 1), "round {round}");
            // A removed record was between two neighbours: the remaining neighbours are still on its two sides.
            let next = cursor.next()?.map(|(number, _)| number);
            let back = cursor.go_to(&place).and_then(|_| cursor.prev())?.map(|(number, _)| number);
            match (wanted, back, next) {
                (None, Some(before), Some(after)) => assert_eq!(before + 1, after, "round {round}"),
                (Some(at), Some(before), Some(after)) => assert_eq!((before, after), (at as u64, at as u64 + 2)),
                _ => {}
            }
            Ok(())
        })
        .unwrap();
    }
}

#[test]
fn the_place_of_a_removed_record_is_between_its_former_neighbours() {
    let dir = tempfile::tempdir().unwrap();
    let env = Env::open_or_create(dir.path()).unwrap();
    let list = env.list("lines").unwrap();
    env.run(|txn| ["a", "b", "c", "d"].iter().try_for_each(|line| list.append(txn, line.as_bytes()).map(|_| ())))
        .unwrap();
    let place = env
        .run(|txn| {
            let mut cursor = list.cursor(txn);
            cursor.seek(3)?;
            cursor.place()
        })
        .unwrap()
        .unwrap();
    // The previous record and the record itself are removed, other records are inserted in front: the cursor is between
    // a and d.
    env.run(|txn| list.delete(txn, 2).and_then(|_| list.delete(txn, 2))).unwrap();
    env.run(|txn| (0..300).try_for_each(|_| list.insert_before(txn, 1, b"new").map(|_| ()))).unwrap();
    env.run(|txn| {
        let mut cursor = list.cursor(txn);
        assert!(!cursor.go_to(&place)?);
        assert_eq!(cursor.place()?.map(|_| ()), None);
        assert_eq!(cursor.next()?, Some((302, b"d".to_vec())));
        cursor.go_to(&place)?;
        assert_eq!(cursor.prev()?, Some((301, b"a".to_vec())));
        Ok(())
    })
    .unwrap();
    env.run(|txn| (0..301).try_for_each(|_| list.delete(txn, 1).map(|_| ()))).unwrap();
    env.run(|txn| {
        let mut cursor = list.cursor(txn);
        assert!(!cursor.go_to(&place)?);
        assert_eq!(cursor.next()?, Some((1, b"d".to_vec())));
        list.delete(txn, 1)?;
        assert!(!cursor.go_to(&place)?);
        assert_eq!(cursor.next()?, None);
        Ok(())
    })
    .unwrap();
}

#[test]
fn a_cursor_that_removes_nothing_stays_on_its_number() {
    let dir = tempfile::tempdir().unwrap();
    let env = Env::open_or_create(dir.path()).unwrap();
    let list = env.list("lines").unwrap();
    env.run(|txn| {
        list.append(txn, b"a")?;
        let mut cursor = list.cursor(txn);
        cursor.first()?;
        list.delete(txn, 1)?;
        assert!(!cursor.delete()?);
        assert_eq!(cursor.insert_after(b"b")?, Some(2));
        assert_eq!(list.get(txn, 1)?, Some(Vec::new()));
        Ok(())
    })
    .unwrap();
}

//! While a transaction has locked a whole database, no other transaction works in it, also if sessions have kept intent
//! locks on the database from earlier transactions.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use libtp::{Durability, Env, PageFile, PageLock, Result};

/// The number of times that the whole database is locked.
const ROUNDS: u32 = 120;
const WRITERS: usize = 3;

/// Adds one to both pages.
fn add(env: &Env, file: &PageFile, other: &PageFile) -> Result<()> {
    env.run(|txn| {
        // Locks another database first. So the session may check its kept intent lock on `other` again, and learn the
        // new epoch, while its kept intent lock on `file` is being revoked.
        other.lock(txn, 0, PageLock::Read)?;
        for page in [0, 1] {
            file.lock(txn, page, PageLock::Write)?;
            let mut copy = file.get(txn, page)?;
            let count = count_of(&copy.bytes) + 1;
            copy.bytes[..8].copy_from_slice(&count.to_le_bytes());
            file.put(txn, &copy)?;
        }
        Ok(())
    })
}

fn count_of(page: &[u8]) -> u64 {
    u64::from_le_bytes(page[..8].try_into().unwrap())
}

#[test]
fn a_transaction_that_has_locked_a_database_works_alone_in_the_database() {
    let directory = tempfile::tempdir().unwrap();
    let env = Env::builder().durability(Durability::Relaxed).open(directory.path()).unwrap();
    let (file, other) = (env.pages("pages").unwrap(), env.pages("others").unwrap());
    add(&env, &file, &other).unwrap();
    let (is_over, added, mut seen) = (AtomicBool::new(false), AtomicU32::new(1), None);
    std::thread::scope(|scope| {
        for _ in 0..WRITERS {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    add(&env, &file, &other).unwrap();
                    added.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        for round in 0..ROUNDS {
            let looked = env.run(|txn| {
                file.lock_all(txn, if round % 2 == 0 { PageLock::Write } else { PageLock::Read })?;
                let look =
                    || -> Result<_> { Ok([count_of(&file.get(txn, 0)?.bytes), count_of(&file.get(txn, 1)?.bytes)]) };
                let first = look()?;
                (0..20).for_each(|_| std::thread::yield_now());
                Ok([first, look()?])
            });
            let is_alone = matches!(looked, Ok([first, second]) if first[0] == first[1] && first == second);
            if !is_alone {
                seen = Some((round, looked));
                break;
            }
        }
        is_over.store(true, Ordering::Relaxed);
    });
    assert!(seen.is_none(), "another transaction worked in the locked database: round and counts {seen:?}");
    let total = env.run(|txn| Ok(count_of(&file.get(txn, 0)?.bytes))).unwrap();
    assert_eq!(total, u64::from(added.into_inner()), "additions are lost");
}

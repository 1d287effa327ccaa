//! Changes of a part of a value: `update_part` and `add`.
//!
//! The change is given as data, not as a function of the program, so the record is searched and its page latched only
//! once (`libtp_record::part`).

use libtp_record::part::{Add, Overwrite};
use libtp_record::Part;

use crate::db::handle::{Db, Recno};
use crate::{Result, Txn};

impl Db {
    /// Stores `bytes` into the value of a key at byte `offset`, counted from 0; the value keeps its length. Returns
    /// false if the key is missing. This is the cheapest change of a value: it does not return the old value, and calls
    /// no function of the program.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let env = libtp::Env::create(dir.path())?;
    /// let doors = env.btree("doors")?;
    /// env.run(|txn| {
    ///     doors.put(txn, b"front", b"open 07:30")?;
    ///     assert!(doors.update_part(txn, b"front", 0, b"shut")?);
    ///     assert_eq!(doors.get(txn, b"front")?.as_deref(), Some(&b"shut 07:30"[..]));
    ///     assert!(!doors.update_part(txn, b"back", 0, b"shut")?);
    ///     Ok(())
    /// })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// `Length` when a byte would be outside of the value; else as [`Db::put`].
    pub fn update_part(&self, txn: &Txn<'_>, key: &[u8], offset: usize, bytes: &[u8]) -> Result<bool> {
        Ok(self.change_part(txn, key, offset, Overwrite(bytes))?.is_some())
    }

    /// Adds `amount` to the number in the value of a key: eight little-endian bytes at byte `offset`. Returns the sum,
    /// which wraps around; `None` if the key is missing. Use it for counters and balances.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let env = libtp::Env::create(dir.path())?;
    /// let accounts = env.btree("accounts")?;
    /// env.run(|txn| {
    ///     accounts.put(txn, b"alice", &7_i64.to_le_bytes())?;
    ///     assert_eq!(accounts.add(txn, b"alice", 0, -10)?, Some(-3));
    ///     assert_eq!(accounts.add(txn, b"bob", 0, 10)?, None);
    ///     Ok(())
    /// })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Db::update_part`].
    pub fn add(&self, txn: &Txn<'_>, key: &[u8], offset: usize, amount: i64) -> Result<Option<i64>> {
        self.change_part(txn, key, offset, Add(amount))
    }

    #[inline]
    fn change_part<P: Part>(&self, txn: &Txn<'_>, key: &[u8], offset: usize, part: P) -> Result<Option<P::Told>> {
        let mut room = Vec::new();
        let stored = self.stored(key, &mut room);
        let done = self.written(txn, |access| access.change_part(stored, offset, part));
        match done.map_err(|error| self.about(error, stored))? {
            Some(found) => Ok(found),
            None => {
                let change = |value: &mut [u8]| part.change_copy(self.name(), value, offset);
                Ok(self.update_indexed(txn, stored, change)?.transpose()?)
            }
        }
    }
}

impl Recno {
    /// As [`Db::update_part`], for the record with that number.
    ///
    /// # Errors
    /// As [`Db::update_part`].
    pub fn update_part(&self, txn: &Txn<'_>, number: u64, offset: usize, bytes: &[u8]) -> Result<bool> {
        let changed = txn.guarded(|| Ok(self.access(txn).recno_change_part(number, offset, Overwrite(bytes))?))?;
        Ok(changed.is_some())
    }

    /// As [`Db::add`], for the record with that number.
    ///
    /// # Errors
    /// As [`Db::update_part`].
    pub fn add(&self, txn: &Txn<'_>, number: u64, offset: usize, amount: i64) -> Result<Option<i64>> {
        txn.guarded(|| Ok(self.access(txn).recno_change_part(number, offset, Add(amount))?))
    }
}

#[cfg(test)]
mod tests {
    use crate::{Env, Error, Result};

    /// Calls `work` with a new environment.
    fn with_env(work: impl FnOnce(&Env)) {
        let dir = tempfile::tempdir().unwrap();
        work(&Env::create(dir.path()).unwrap());
    }

    #[test]
    fn a_part_changes_in_every_kind_of_database() {
        with_env(|env| {
            let (tree, hash, numbers) = (env.btree("t").unwrap(), env.hash("h").unwrap(), env.recno("n", 20).unwrap());
            let value = *b"0123456789abcdefghij";
            env.run(|txn| {
                for db in [&tree, &hash] {
                    db.put(txn, b"k", &value)?;
                    assert!(db.update_part(txn, b"k", 10, b"ABC")?);
                    assert!(db.update_part(txn, b"k", 20, b"")?);
                    assert_eq!(db.get(txn, b"k")?.as_deref(), Some(&b"0123456789ABCdefghij"[..]));
                    db.delete(txn, b"k")?;
                    assert!(!db.update_part(txn, b"k", 0, b"x")?, "a deleted record");
                    assert_eq!(db.add(txn, b"never", 0, 1)?, None);
                }
                assert_eq!(numbers.append(txn, &value)?, 1);
                assert!(numbers.update_part(txn, 1, 17, b"XYZ")?);
                assert_eq!(numbers.get(txn, 1)?.as_deref(), Some(&b"0123456789abcdefgXYZ"[..]));
                assert_eq!(numbers.add(txn, 2, 0, 1)?, None);
                assert_eq!(numbers.add(txn, 1 << 40, 0, 1)?, None);
                assert_eq!(numbers.add(txn, 0, 0, 1)?, None);
                numbers.put(txn, 9, &[0; 20])?;
                assert_eq!(numbers.add(txn, 9, 12, -5)?, Some(-5));
                assert_eq!(numbers.add(txn, 8, 12, -5)?, None, "no record was stored at this number");
                numbers.delete(txn, 9)?;
                assert!(!numbers.update_part(txn, 9, 0, b"x")?);
                Ok(())
            })
            .unwrap();
        });
    }

    #[test]
    fn a_part_outside_of_its_value_is_refused_and_nothing_changes() {
        with_env(|env| {
            let (tree, hash, numbers) = (env.btree("t").unwrap(), env.hash("h").unwrap(), env.recno("n", 20).unwrap());
            let refused = |done: Result<bool>| {
                let Err(error @ Error::Length { .. }) = done else { panic!("{done:?}") };
                error.to_string()
            };
            env.run(|txn| {
                for (db, length) in [(&tree, 20), (&hash, 20), (&tree, 5000), (&tree, 100_000), (&hash, 100_000)] {
                    db.put(txn, b"k", &vec![b'v'; length])?;
                    let message = refused(db.update_part(txn, b"k", length - 2, b"abc"));
                    assert!(
                        message.contains(&format!("up to 2 bytes at byte {} of this value", length - 2)),
                        "{message}"
                    );
                    refused(db.update_part(txn, b"k", length + 1, b""));
                    refused(db.update_part(txn, b"k", usize::MAX, b"a"));
                    refused(db.update_part(txn, b"k", 0, &vec![0; length + 1]));
                    refused(db.add(txn, b"k", length - 7, 1).map(|_| true));
                    assert_eq!(db.get(txn, b"k")?, Some(vec![b'v'; length]));
                }
                numbers.append(txn, &[1; 20])?;
                refused(numbers.update_part(txn, 1, 18, b"abc"));
                refused(numbers.add(txn, 1, 13, 1).map(|_| true));
                assert_eq!(numbers.get(txn, 1)?, Some(vec![1; 20]));
                Ok(())
            })
            .unwrap();
        });
    }

    #[test]
    fn a_part_of_a_long_value_changes_and_is_undone() {
        with_env(|env| {
            let (tree, hash) = (env.btree("t").unwrap(), env.hash("h").unwrap());
            let long = vec![b'l'; 50_000];
            for db in [&tree, &hash] {
                env.run(|txn| db.put(txn, b"k", &long)).unwrap();
                let txn = env.begin().unwrap();
                assert!(db.update_part(&txn, b"k", 49_000, b"changed").unwrap());
                assert_eq!(&db.get(&txn, b"k").unwrap().unwrap()[49_000..49_007], b"changed");
                txn.abort().unwrap();
                env.run(|txn| {
                    assert_eq!(db.get(txn, b"k")?.as_ref(), Some(&long));
                    Ok(())
                })
                .unwrap();
            }
        });
    }

    #[test]
    fn a_sum_is_seen_after_its_commit_and_undone_by_an_abort() {
        with_env(|env| {
            let (tree, numbers) = (env.btree("t").unwrap(), env.recno("n", 16).unwrap());
            env.run(|txn| tree.put(txn, b"k", &[0; 16]).and_then(|()| numbers.append(txn, &[0; 16]))).unwrap();
            let txn = env.begin().unwrap();
            assert_eq!(tree.add(&txn, b"k", 8, 255).unwrap(), Some(255));
            assert_eq!(tree.add(&txn, b"k", 8, 1).unwrap(), Some(256));
            assert_eq!(tree.add(&txn, b"k", 8, 0).unwrap(), Some(256));
            assert_eq!(numbers.add(&txn, 1, 8, i64::MIN).unwrap(), Some(i64::MIN));
            let snapshot = env.snapshot().unwrap();
            assert_eq!(tree.get(&snapshot, b"k").unwrap(), Some(vec![0; 16]), "before the commit");
            txn.abort().unwrap();
            env.run(|txn| {
                assert_eq!((tree.get(txn, b"k")?, numbers.get(txn, 1)?), (Some(vec![0; 16]), Some(vec![0; 16])));
                assert_eq!(tree.add(txn, b"k", 8, -1)?, Some(-1));
                Ok(())
            })
            .unwrap();
            assert_eq!(tree.get(&snapshot, b"k").unwrap(), Some(vec![0; 16]), "an old snapshot");
        });
    }

    #[test]
    fn a_change_of_a_part_updates_the_index() {
        with_env(|env| {
            let people = env.btree("people").unwrap();
            let by_letter = people.index("by letter", |_, value, keys| keys.add(&value[..1])).unwrap();
            env.run(|txn| {
                people.put(txn, b"ada", b"countess")?;
                assert!(people.update_part(txn, b"ada", 0, b"C")?);
                assert!(people.update_part(txn, b"ada", 7, b"S")?);
                assert_eq!(people.get(txn, b"ada")?.as_deref(), Some(&b"CountesS"[..]));
                assert_eq!((by_letter.count(txn, b"C")?, by_letter.count(txn, b"c")?), (1, 0));
                assert!(!people.update_part(txn, b"alan", 0, b"C")?);
                assert!(matches!(people.update_part(txn, b"ada", 8, b"C"), Err(Error::Length { .. })));
                Ok(())
            })
            .unwrap();
            assert!(env.verify("people").unwrap().findings.is_empty());
        });
    }
}

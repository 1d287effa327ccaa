//! Reads of several records at once: `get_many` and `prefetch`.

use crate::db::handle::Db;
use crate::{Reader, Result};
use libtp_record::copies::copy_of;

impl Db {
    /// Returns the values of several keys, in the order of the keys in the call: the result of [`Db::get`] for each of
    /// them. The call is faster than single gets where the records are not in the processor's cache, because the
    /// session waits for the memory of several records at the same time.
    ///
    /// In a transaction the keys are locked for reading in their order in the database. So calls that lock nothing else
    /// cannot deadlock with each other.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let env = libtp::Env::create(dir.path())?;
    /// let stock = env.btree("stock")?;
    /// env.run(|txn| stock.put(txn, b"pears", b"7"))?;
    /// let found = stock.get_many(&env.snapshot()?, &["plums", "pears"])?;
    /// assert_eq!(found, [None, Some(b"7".to_vec())]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Db::get`].
    pub fn get_many(&self, reader: &impl Reader, keys: &[impl AsRef<[u8]>]) -> Result<Vec<Option<Vec<u8>>>> {
        let mut found: Vec<Option<Vec<u8>>> = vec![None; keys.len()];
        let mut refused = None;
        let encoded: Vec<Vec<u8>> = match self.order() {
            None => Vec::new(),
            Some(_) => keys.iter().map(|key| self.stored_key(key.as_ref().to_vec())).collect(),
        };
        let stored: Vec<&[u8]> = match self.order() {
            None => keys.iter().map(AsRef::as_ref).collect(),
            Some(_) => encoded.iter().map(Vec::as_slice).collect(),
        };
        reader.read_many(self, &stored, |nth, value| match copy_of(value) {
            Ok(value) => found[nth] = Some(value),
            Err(error) => refused = Some(error),
        })?;
        refused.map_or(Ok(found), |error| Err(error.into()))
    }

    /// Asks the processor to bring the memory of a key's record into its cache. Call it for a key that the program will
    /// read or change after some other work. The call is a hint: it locks nothing, reads nothing from the disk, and
    /// does not report whether the key exists.
    ///
    /// # Errors
    /// `Forked`, `Rebuilt` or `Panicked`, if the transaction or the snapshot cannot be used: in the child of a fork,
    /// after the shared memory was given up, or after a panic of the library.
    pub fn prefetch(&self, reader: &impl Reader, key: &[u8]) -> Result<()> {
        let mut room = Vec::new();
        reader.prefetch(self, self.stored(key, &mut room))
    }
}

#[cfg(test)]
mod tests {
    use crate::order::Descending;
    use crate::{Db, Env, Error};

    fn key(number: u32) -> [u8; 4] {
        number.to_be_bytes()
    }

    /// Fills databases of each kind, deep enough for pages above the leaves, with every third key and long values.
    fn filled(env: &Env) -> Vec<Db> {
        let all = vec![
            env.btree("tree").unwrap(),
            env.hash("hash").unwrap(),
            env.btree_ordered("down", Descending).unwrap(),
            env.btree("empty").unwrap(),
        ];
        for db in &all[..3] {
            env.run(|txn| {
                for number in (0..6000).step_by(3) {
                    let length = if number % 501 == 0 { 20_000 } else { 40 };
                    db.put(txn, &key(number), &vec![number.to_le_bytes()[0]; length])?;
                }
                (0..6000).step_by(21).try_for_each(|number| db.delete(txn, &key(number)).map(drop))
            })
            .unwrap();
        }
        all
    }

    #[test]
    fn get_many_returns_the_results_of_single_gets() {
        let dir = tempfile::tempdir().unwrap();
        let env = Env::create(dir.path()).unwrap();
        for db in filled(&env) {
            let keys: Vec<[u8; 4]> = (0..700).map(|nth: u32| key(nth.wrapping_mul(2_654_435_761) % 6100)).collect();
            let txn = env.begin().unwrap();
            let snapshot = env.snapshot().unwrap();
            for keys in [&keys[..], &keys[..1], &keys[..8], &keys[..9], &[]] {
                keys.iter().for_each(|key| db.prefetch(&txn, key).unwrap());
                let one_by_one: Vec<_> = keys.iter().map(|key| db.get(&txn, key).unwrap()).collect();
                assert_eq!(db.get_many(&txn, keys).unwrap(), one_by_one, "{}", db.name());
                assert_eq!(db.get_many(&snapshot, keys).unwrap(), one_by_one, "{}", db.name());
            }
            txn.commit().unwrap();
            env.run(|txn| db.put(txn, &keys[0], b"newer")).unwrap();
            assert_ne!(db.get_many(&snapshot, &keys[..2]).unwrap()[0].as_deref(), Some(&b"newer"[..]));
            db.prefetch(&snapshot, &keys[0]).unwrap();
        }
    }

    #[test]
    fn a_key_given_twice_is_found_twice_and_a_long_key_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let env = Env::create(dir.path()).unwrap();
        let tree = env.btree("tree").unwrap();
        env.run(|txn| {
            tree.put(txn, b"k", b"v")?;
            assert_eq!(tree.get_many(txn, &[b"k", b"k"])?, [Some(b"v".to_vec()), Some(b"v".to_vec())]);
            let long = vec![0; tree.key_bytes_max() + 1];
            assert!(matches!(tree.get_many(txn, &[&b"k"[..], &long]), Err(Error::Length { .. })));
            tree.prefetch(txn, &long)
        })
        .unwrap();
    }
}

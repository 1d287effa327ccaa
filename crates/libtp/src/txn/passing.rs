//! Passing on a running transaction: to another thread, or to another process of the same environment.
//!
//! The process that passes a transaction on keeps a session for it until another session takes the transaction over. If
//! the process dies or leaves before that, the transaction is undone, like every transaction that a process leaves
//! unfinished.

use std::fmt;
use std::str::FromStr;

use libtp_process::SessionId;
use libtp_txn::{Managers, Offer};

use crate::region::generation::{Generation, Seated};
use crate::{Durability, Env, Error, Result, Txn};

/// Names a running transaction that was passed on with [`Txn::detach`], for [`Env::attach`]. Its text is one word,
/// which can be sent to another process; the transaction can be taken over once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Detached {
    /// The environment, and the generation of its memory in which the transaction runs.
    region: String,
    offer: Offer,
}

impl Detached {
    /// Returns the transaction's number.
    pub fn txn(&self) -> u64 {
        self.offer.txn.raw()
    }
}

impl fmt::Display for Detached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Offer { slot, txn, session } = self.offer;
        write!(f, "{}/{}.{slot}.{:x}", self.region, txn.raw(), session.raw())
    }
}

impl FromStr for Detached {
    type Err = Error;

    fn from_str(text: &str) -> Result<Detached> {
        let parse = || {
            let (region, numbers) = text.trim().rsplit_once('/')?;
            let mut numbers = numbers.split('.');
            let txn = libtp_log::TxnId::new(numbers.next()?.parse().ok()?);
            let slot = numbers.next()?.parse().ok()?;
            let session = SessionId::from_raw(u64::from_str_radix(numbers.next()?, 16).ok()?);
            numbers.next().is_none().then(|| Detached { region: region.into(), offer: Offer { slot, txn, session } })
        };
        parse().ok_or_else(|| Error::NotPassed {
            txn: 0,
            what: format!("{text:?} is not the text of a detached transaction; nothing was changed. Give the text that `Txn::detach` returned"),
        })
    }
}

/// Returns the name by which processes recognise the same memory: the name of the memory's file, and the log's
/// incarnation.
fn region_name(managers: &Managers) -> String {
    let name = managers.region.path().file_name().unwrap_or_default().to_string_lossy();
    format!("{name}-{}", managers.log.incarnation())
}

impl Txn<'_> {
    /// Passes the transaction on: the thread or process of the environment that gets the returned value continues the
    /// transaction with [`Env::attach`], with its locks and all its changes. Savepoints are forgotten. The transaction
    /// commits with the durability of the environment handle that continues it, unless [`Txn::set_durability`] is
    /// called. If this process dies, or leaves the environment, before the transaction is taken over, the transaction
    /// is undone.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// let env = libtp::Env::create(dir.path())?;
    /// let stock = env.btree("stock")?;
    /// let txn = env.begin()?;
    /// stock.put(&txn, b"apples", b"3")?;
    /// let word = txn.detach()?.to_string();
    /// // In this process, or in another that has the environment open:
    /// let txn = env.attach(&word.parse()?)?;
    /// assert_eq!(stock.get(&txn, b"apples")?.as_deref(), Some(&b"3"[..]));
    /// txn.commit()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// `NotPassed` if the transaction has joined memory, read or changed plain files, or drops or renames databases;
    /// `RollbackFailed`; `Rebuilt`. After an error the transaction was undone.
    pub fn detach(self) -> Result<Detached> {
        self.generation().check_process()?;
        self.savepoints().refuse_after_failed_rollback()?;
        if !self.parts().is_empty() {
            let what =
                "it has joined memory, which belongs to this process; the transaction was undone. Pass a transaction on before it joins memory";
            return Err(Error::NotPassed { txn: self.id(), what: what.into() });
        }
        if !self.files().is_empty() {
            let what = "it cannot be passed on: it has read or changed plain files, and only this process knows their state; the transaction was undone. Pass a transaction on before it uses plain files";
            return Err(Error::NotPassed { txn: self.id(), what: what.into() });
        }
        if !self.decided().is_empty() {
            let what = "it cannot be passed on: it drops or renames databases, and only this process knows that until the commit; the transaction was undone. Pass a transaction on before it drops or renames databases";
            return Err(Error::NotPassed { txn: self.id(), what: what.into() });
        }
        let env = self.environment().clone();
        env.passed_on.sweep();
        let offered =
            || Ok(Detached { region: region_name(&self.generation().managers), offer: self.session().offer() });
        let detached = self.guarded(offered)?;
        env.passed_on.add(self.part());
        Ok(detached)
    }
}

impl Env {
    /// Continues a transaction that was passed on.
    ///
    /// # Errors
    /// `NotPassed` if the transaction is not available, for one of three reasons: another session has taken it over; it
    /// was undone, because the process that passed it on has died, has left, or has lost its memory; or it belongs to
    /// another environment. `Full` if there is no room for a session: try again.
    pub fn attach(&self, detached: &Detached) -> Result<Txn<'_>> {
        self.0.check_writable("transactions")?;
        self.attach_with(detached, self.0.durability)
    }

    /// Aborts a transaction that was passed on, for a program that knows that no session will take the transaction
    /// over: undoes its changes and releases its locks. Afterwards its [`Detached`] is refused.
    ///
    /// # Errors
    /// `NotPassed` if no transaction of that number waits to be taken over: a running transaction must be ended by its
    /// program. `Full` as [`Env::attach`].
    pub fn abort_detached(&self, txn: u64) -> Result<()> {
        self.0.check_writable("ending a transaction")?;
        let generation = self.0.generation()?;
        let aborted = generation.guarded(|| {
            let offer = generation.managers.offers().into_iter().find(|offer| offer.txn.raw() == txn);
            Ok(offer.map(|offer| generation.managers.abort_offered(offer)).transpose()?.unwrap_or(false))
        })?;
        self.0.passed_on.sweep();
        match aborted {
            true => Ok(()),
            false => Err(Error::NotPassed {
                txn,
                what: "it was not aborted: only a detached transaction, which waits to be taken over, can be aborted by another process. A running transaction must be ended by its own process; `tp txns` shows the transactions, and `tp sessions` the processes".into(),
            }),
        }
    }

    fn attach_with(&self, detached: &Detached, durability: Durability) -> Result<Txn<'_>> {
        let refuse = |what: &str| Error::NotPassed { txn: detached.txn(), what: what.into() };
        let generation = self.0.generation()?;
        if region_name(&generation.managers) != detached.region {
            return Err(refuse(
                "it cannot be continued: it belongs to another environment, or it was undone because the shared memory was created again since. Nothing was changed by this call; open the right environment, or run the transaction again",
            ));
        }
        let taken = generation.guarded(|| Ok(generation.managers.take_offered(detached.offer)?))?;
        let Some(session) = taken else {
            return Err(refuse(
                "it cannot be continued: another session has taken it over, or it was undone because the process that passed it on has ended. Nothing was changed by this call; if it was undone, run it again",
            ));
        };
        self.0.passed_on.sweep();
        self.0.make_ready(&session);
        Ok(Txn::of(&self.0, Box::new(Seated { session, generation }), durability, libtp_lock::OpenHere::new()))
    }
}

impl Generation {
    /// Returns the number of transactions that wait to be taken over, for tests.
    #[cfg(test)]
    pub(crate) fn offers(&self) -> usize {
        self.managers.transactions().iter().filter(|txn| txn.is_offered).count()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::time::Duration;

    use crate::ground::settings::Settings;
    use crate::{Db, Env, Error};

    fn with_stock() -> (tempfile::TempDir, Env, Db) {
        let dir = tempfile::tempdir().unwrap();
        let env = Env::open_or_create(dir.path()).unwrap();
        let stock = env.btree("stock").unwrap();
        env.run(|txn| stock.put(txn, b"apples", b"1")).unwrap();
        (dir, env, stock)
    }

    fn apples(env: &Env, stock: &Db) -> Vec<u8> {
        env.run(|txn| stock.get(txn, b"apples")).unwrap().unwrap()
    }

    #[test]
    fn another_handle_continues_and_ends_a_detached_transaction() {
        let (dir, env, stock) = with_stock();
        let other = Env::builder().lock_timeout(Duration::from_millis(20)).open(dir.path()).unwrap();
        let theirs = other.btree("stock").unwrap();
        for (value, is_kept) in [(b"2", true), (b"3", false)] {
            let before = apples(&env, &stock);
            let txn = env.begin().unwrap();
            stock.put(&txn, b"apples", value).unwrap();
            let word = txn.detach().unwrap().to_string();
            assert_eq!(env.0.newest().offers(), 1);
            let meanwhile = other.begin().unwrap();
            assert!(matches!(theirs.get(&meanwhile, b"apples"), Err(Error::LockTimeout(_))), "its locks are held");
            drop(meanwhile);
            let txn = other.attach(&word.parse().unwrap()).unwrap();
            assert_eq!(theirs.get(&txn, b"apples").unwrap().unwrap(), value);
            theirs.put(&txn, b"pears", value).unwrap();
            let again = env.attach(&word.parse().unwrap()).err().unwrap();
            assert!(matches!(again, Error::NotPassed { .. }), "{again}");
            if is_kept {
                txn.commit().unwrap();
            } else {
                txn.abort().unwrap();
            }
            assert_eq!(apples(&env, &stock), if is_kept { value.to_vec() } else { before });
        }
        assert_eq!(env.run(|txn| stock.get(txn, b"pears")).unwrap().as_deref(), Some(&b"2"[..]));
    }

    #[test]
    fn a_detached_transaction_that_no_thread_continues_is_aborted_by_a_call_or_after_a_limit() {
        let (dir, env, stock) = with_stock();
        let txn = env.begin().unwrap();
        stock.put(&txn, b"apples", b"2").unwrap();
        let (number, refused) = (txn.id(), env.abort_detached(txn.id()).unwrap_err().to_string());
        assert!(refused.contains("waits to be taken over"), "{refused}");
        let detached = txn.detach().unwrap();
        let other = Env::open_or_create(dir.path()).unwrap();
        other.abort_detached(number).unwrap();
        assert_eq!(apples(&env, &stock), b"1");
        assert!(matches!(env.attach(&detached), Err(Error::NotPassed { .. })));
        assert!(matches!(env.abort_detached(number), Err(Error::NotPassed { .. })));
        drop(other);
        // The background work of a handle with a limit aborts the transaction.
        let settings = Settings { detached_timeout_millis: Some(100), ..Settings::default() };
        let _limiting = Env::builder().settings(settings).open(dir.path()).unwrap();
        let kept = env.begin().unwrap();
        stock.put(&kept, b"pears", b"7").unwrap();
        let txn = env.begin().unwrap();
        stock.put(&txn, b"apples", b"3").unwrap();
        let detached = txn.detach().unwrap();
        // This read waits for the lock of the detached transaction.
        assert_eq!(apples(&env, &stock), b"1");
        assert!(matches!(env.attach(&detached), Err(Error::NotPassed { .. })));
        // The limit does not apply to a running transaction.
        kept.commit().unwrap();
        assert_eq!(env.run(|txn| stock.get(txn, b"pears")).unwrap().as_deref(), Some(&b"7"[..]));
        assert!(env.sessions().len() < 14, "{} sessions", env.sessions().len());
    }

    #[test]
    fn a_process_that_leaves_aborts_its_detached_transactions() {
        let (dir, env, stock) = with_stock();
        let other = Env::open_or_create(dir.path()).unwrap();
        let theirs = other.btree("stock").unwrap();
        let txn = env.begin().unwrap();
        stock.put(&txn, b"apples", b"2").unwrap();
        let detached = txn.detach().unwrap();
        drop((stock, env));
        assert_eq!(apples(&other, &theirs), b"1", "the transaction that waited for its locks got them");
        let refused = other.attach(&detached).err().unwrap().to_string();
        assert!(refused.contains("was undone because the process that passed it on has ended"), "{refused}");
        drop((theirs, other));
        // Without another handle, the next opening creates the shared memory again.
        let env = Env::open_or_create(dir.path()).unwrap();
        let stock = env.btree("stock").unwrap();
        let txn = env.begin().unwrap();
        stock.put(&txn, b"apples", b"2").unwrap();
        let detached = txn.detach().unwrap();
        drop((stock, env));
        let env = Env::open_or_create(dir.path()).unwrap();
        assert_eq!(apples(&env, &env.btree("stock").unwrap()), b"1");
        let refused = env.attach(&detached).err().unwrap().to_string();
        assert!(refused.contains("because the shared memory was created again"), "{refused}");
    }

    #[test]
    fn sessions_of_detached_transactions_are_released_after_the_transaction() {
        let (_dir, env, stock) = with_stock();
        for round in 0..200_u32 {
            let txn = env.begin().unwrap();
            stock.put(&txn, b"apples", &round.to_be_bytes()).unwrap();
            let txn = env.attach(&txn.detach().unwrap()).unwrap();
            txn.commit().unwrap();
        }
        assert_eq!(apples(&env, &stock), 199_u32.to_be_bytes());
        assert!(env.sessions().len() < 12, "{} sessions", env.sessions().len());
    }

    #[test]
    fn exactly_one_of_many_threads_attaches_a_detached_transaction() {
        let (_dir, env, stock) = with_stock();
        for round in 0..100_u32 {
            let txn = env.begin().unwrap();
            stock.put(&txn, b"apples", &round.to_be_bytes()).unwrap();
            let detached = txn.detach().unwrap();
            let tries = || match env.attach(&detached) {
                Ok(txn) => txn.commit().map(|()| 1).unwrap(),
                Err(Error::NotPassed { .. }) => 0,
                Err(error) => panic!("{error}"),
            };
            let had = std::thread::scope(|scope| {
                let tries: Vec<_> = (0..4).map(|_| scope.spawn(tries)).collect();
                tries.into_iter().map(|one| one.join().unwrap()).sum::<u32>()
            });
            assert_eq!(had, 1, "round {round}");
            assert_eq!(apples(&env, &stock), round.to_be_bytes());
        }
    }

    #[test]
    fn threads_take_turns_in_one_transaction() {
        let (_dir, env, stock) = with_stock();
        let txn = Mutex::new(env.begin().unwrap());
        std::thread::scope(|scope| {
            for name in ["pears", "plums", "cherries"] {
                let (txn, stock) = (&txn, &stock);
                scope.spawn(move || stock.put(&txn.lock().unwrap(), name.as_bytes(), b"5").unwrap());
            }
        });
        txn.into_inner().unwrap().commit().unwrap();
        for name in ["apples", "pears", "plums", "cherries"] {
            assert!(env.run(|txn| stock.get(txn, name.as_bytes())).unwrap().is_some(), "{name}");
        }
    }

    #[test]
    fn a_text_that_is_no_detached_transaction_is_refused_with_the_text() {
        let (_dir, env, _stock) = with_stock();
        for text in ["", "libtp", "libtp-1/2", "a/b.c.d", "a/1.2.3.4"] {
            let refused = text.parse::<super::Detached>().err().unwrap().to_string();
            assert!(refused.contains(&format!("{text:?} is not the text of a detached transaction")), "{refused}");
        }
        // A number that no transaction has, and a transaction that was not passed on.
        let txn = env.begin().unwrap();
        let detached = {
            let other = env.begin().unwrap().detach().unwrap();
            env.attach(&other).unwrap().abort().unwrap();
            other
        };
        for slot in [0, detached.offer.slot, u32::MAX] {
            let mut forged = detached.clone();
            forged.offer.slot = slot;
            assert!(matches!(env.attach(&forged), Err(Error::NotPassed { .. })));
        }
        let mut forged = detached;
        forged.offer.txn = libtp_log::TxnId::new(txn.id());
        forged.offer.session = txn.session().session().id();
        forged.offer.slot = txn.session().slot_index();
        assert!(matches!(env.attach(&forged), Err(Error::NotPassed { .. })), "it runs in its own session");
        txn.commit().unwrap();
    }
}

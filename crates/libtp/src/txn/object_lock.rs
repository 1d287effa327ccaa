//! Locks on objects named by the program: the primitive lock calls of LIBTP 3.2.3.

use libtp_lock::{LockName, Mode};
use libtp_record::key_hash::key_hash;
use libtp_record::lock_names::KIND_APPLICATION;

use crate::{Result, Txn};

fn object(name: &[u8]) -> LockName {
    LockName { space: 0, kind: KIND_APPLICATION, hash: key_hash(name) }
}

impl Txn<'_> {
    /// Locks an object that the program names, until the transaction ends: the paper's `lock`. The program defines the
    /// meaning of the name, the same for all users of the environment. A lock already held is traded for the weakest
    /// mode that covers both (`lock_upgrade`). Two names may, very rarely, share a lock.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let env = libtp::Env::create(dir.path())?;
    /// use libtp::Mode;
    /// env.run(|txn| {
    ///     txn.lock(b"the printer", Mode::X)?;
    ///     // No other transaction gets the lock until this transaction ends.
    ///     Ok(())
    /// })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// `Deadlock`, `LockTimeout`, `Full`.
    pub fn lock(&self, name: &[u8], mode: Mode) -> Result<()> {
        self.guarded(|| {
            let (locks, session) = (&self.generation().managers.locks, self.session());
            Ok(locks.lock(session.session(), session.locker(), object(name), mode, session.wait())?)
        })
    }

    /// Trades the lock of an object that the program names for a weaker lock: the paper's `lock_downgrade`.
    ///
    /// # Errors
    /// `Io` with a message when the lock is not held, or not in a mode that covers `mode`.
    pub fn lock_downgrade(&self, name: &[u8], mode: Mode) -> Result<()> {
        self.guarded(|| {
            let (locks, session) = (&self.generation().managers.locks, self.session());
            Ok(locks.downgrade(session.session(), session.locker(), object(name), mode)?)
        })
    }

    /// Releases the lock of an object that the program names before the transaction ends: the paper's `unlock`.
    /// Two-phase locking is then broken: other transactions can see changes of the guarded data before this transaction
    /// commits. The transaction's end releases all other locks, the paper's `lock_unlock_all`.
    ///
    /// # Errors
    /// `Io` with a message when it is not held.
    pub fn unlock(&self, name: &[u8]) -> Result<()> {
        self.guarded(|| {
            let (locks, session) = (&self.generation().managers.locks, self.session());
            Ok(locks.unlock(session.session(), session.locker(), object(name))?)
        })
    }

    /// Releases the locks of all objects that the program named, before the transaction ends, and returns their number.
    /// Locks of records and pages stay: their changes may have to be undone.
    ///
    /// # Errors
    /// `Rebuilt`.
    pub fn unlock_objects(&self) -> Result<u32> {
        self.guarded(|| {
            let (locks, session) = (&self.generation().managers.locks, self.session());
            Ok(locks.unlock_those(session.session(), session.locker(), |name| name.kind == KIND_APPLICATION))
        })
    }
}

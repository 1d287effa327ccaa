//! Locks on objects named by the program: the primitive lock calls of LIBTP 3.2.3.

use libtp_lock::LockName;
use libtp_record::key_hash::key_hash;
use libtp_record::lock_names::KIND_APPLICATION;

use crate::{Mode, Result, Txn};

fn object(name: &[u8]) -> LockName {
    LockName { space: 0, kind: KIND_APPLICATION, hash: key_hash(name) }
}

impl Txn<'_> {
    /// Locks an object that the program names, until the transaction ends: the paper's `lock`. All programs that use
    /// the environment must give a name the same meaning. If the transaction already has the lock, the lock gets the
    /// weakest mode that covers the old and the new mode (`lock_upgrade`). Very rarely, two names share a lock.
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
            Ok(locks.lock(session.session(), session.locker(), object(name), mode.into(), session.wait())?)
        })
    }

    /// Weakens the lock of an object that the program names to `mode`: the paper's `lock_downgrade`.
    ///
    /// # Errors
    /// `Io` with a message when the lock is not held, or not in a mode that covers `mode`.
    pub fn lock_downgrade(&self, name: &[u8], mode: Mode) -> Result<()> {
        self.guarded(|| {
            let (locks, session) = (&self.generation().managers.locks, self.session());
            Ok(locks.downgrade(session.session(), session.locker(), object(name), mode.into())?)
        })
    }

    /// Releases, before the transaction ends, the lock of an object that the program names: the paper's `unlock`.
    /// Two-phase locking is then broken: other transactions can see changes of the guarded data before this transaction
    /// commits. The transaction's end releases all other locks, the paper's `lock_unlock_all`.
    ///
    /// # Errors
    /// `Io` with a message when the lock is not held.
    pub fn unlock(&self, name: &[u8]) -> Result<()> {
        self.guarded(|| {
            let (locks, session) = (&self.generation().managers.locks, self.session());
            Ok(locks.unlock(session.session(), session.locker(), object(name))?)
        })
    }

    /// Releases the locks of all objects that the program named, before the transaction ends, and returns their number.
    /// Locks of records and pages stay, because changes of records and pages may have to be undone.
    ///
    /// # Errors
    /// `Rebuilt`.
    pub fn unlock_objects(&self) -> Result<u32> {
        self.guarded(|| {
            let (locks, session) = (&self.generation().managers.locks, self.session());
            Ok(locks.unlock_matching(session.session(), session.locker(), |name| name.kind == KIND_APPLICATION))
        })
    }
}

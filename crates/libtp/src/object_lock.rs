//! Locks on objects that the program names: the primitive lock calls of LIBTP 3.2.3.

use libtp_lock::{LockName, Mode};
use libtp_record::key_hash::key_hash;
use libtp_record::lock_names::KIND_APPLICATION;

use crate::{Result, Txn};

fn object(name: &[u8]) -> LockName {
    LockName { space: 0, kind: KIND_APPLICATION, hash: key_hash(name) }
}

impl Txn<'_> {
    /// Locks an object that the program names, until the transaction ends: the paper's `lock`. What the name stands for is the
    /// program's to know; all that use the environment mean the same by it. Held already, it is traded for the weakest mode
    /// that covers both (`lock_upgrade`). Two names may, very seldom, share a lock.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let env = libtp::Env::open(dir.path())?;
    /// use libtp::Mode;
    /// env.run(|txn| {
    ///     txn.lock(b"the printer", Mode::X)?;
    ///     // Nobody else has it until the transaction ends.
    ///     Ok(())
    /// })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// `Deadlock`, `LockTimeout`, `Full`.
    pub fn lock(&self, name: &[u8], mode: Mode) -> Result<()> {
        self.guarded(|| {
            let (locks, session) = (&self.life().managers.locks, self.session());
            Ok(locks.lock(session.session(), session.locker(), object(name), mode, session.wait())?)
        })
    }

    /// Trades the lock of such an object for a weaker one: the paper's `lock_downgrade`.
    ///
    /// # Errors
    /// `Io` with a sentence when it is not held, or not in a mode that covers that.
    pub fn lock_downgrade(&self, name: &[u8], mode: Mode) -> Result<()> {
        self.guarded(|| {
            let (locks, session) = (&self.life().managers.locks, self.session());
            Ok(locks.downgrade(session.session(), session.locker(), object(name), mode)?)
        })
    }

    /// Gives the lock of such an object back before the transaction ends: the paper's `unlock`. Its shrinking phase has begun
    /// then: what the object guards and the transaction changed others see before it commits. All others are given back at its
    /// end, the paper's `lock_unlock_all`.
    ///
    /// # Errors
    /// `Io` with a sentence when it is not held.
    pub fn unlock(&self, name: &[u8]) -> Result<()> {
        self.guarded(|| {
            let (locks, session) = (&self.life().managers.locks, self.session());
            Ok(locks.unlock(session.session(), session.locker(), object(name))?)
        })
    }

    /// Gives back the locks of all objects that the program names, before the transaction ends, and says how many there were. Those of
    /// records and pages stay: what was changed there may have to be taken back.
    ///
    /// # Errors
    /// `Rebuilt`.
    pub fn unlock_objects(&self) -> Result<u32> {
        self.guarded(|| {
            let (locks, session) = (&self.life().managers.locks, self.session());
            Ok(locks.unlock_those(session.session(), session.locker(), |name| name.kind == KIND_APPLICATION))
        })
    }
}

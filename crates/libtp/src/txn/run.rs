//! Running a transaction until it commits.
//!
//! A transaction that was the victim of a deadlock, or was undone because of events outside it, is run again. A
//! transaction whose wait for a lock reached the program's limit is not run again: the holder, a stopped process for
//! example, may never release the lock.

use std::sync::Arc;
use std::time::Duration;

use crate::ground::settings::wait_of;
use crate::region::inner::Inner;
use crate::txn::failure::LastFailure;
use crate::{Durability, Env, Error, Result, Txn};

/// The number of attempts after which the caller gets the error.
const TRIES: u32 = 1000;

/// The options of [`Env::try_run`].
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// use std::time::Duration;
/// let env = libtp::Env::create(dir.path())?;
/// let stock = env.btree("stock")?;
///
/// #[derive(Debug)]
/// enum Trouble {
///     SoldOut,
///     Library(libtp::Error),
/// }
/// impl From<libtp::Error> for Trouble {
///     fn from(error: libtp::Error) -> Trouble {
///         Trouble::Library(error)
///     }
/// }
///
/// let how = libtp::Run::new().lock_timeout(Duration::from_secs(2));
/// let sold = env.try_run(&how, |txn| match stock.get(txn, b"apples")? {
///     None => Err(Trouble::SoldOut),
///     Some(_) => Ok(stock.delete(txn, b"apples")?),
/// });
/// assert!(matches!(sold, Err(Trouble::SoldOut)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Run {
    durability: Option<Durability>,
    lock_timeout: Option<Duration>,
    is_again_after_timeout: bool,
}

impl Run {
    /// Returns options that follow the environment's settings.
    pub fn new() -> Run {
        Run::default()
    }

    /// Sets when the commit returns.
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> Run {
        self.durability = Some(durability);
        self
    }

    /// Sets the longest wait for each lock of the transaction, as [`Txn::set_lock_timeout`] does.
    #[must_use]
    pub fn lock_timeout(mut self, longest: Duration) -> Run {
        self.lock_timeout = Some(longest);
        self
    }

    /// Sets that the transaction also runs again after a lock timeout.
    #[must_use]
    pub fn again_after_timeout(mut self) -> Run {
        self.is_again_after_timeout = true;
        self
    }

    fn is_again(&self, error: &Error) -> bool {
        error.is_retryable() || (self.is_again_after_timeout && matches!(error, Error::LockTimeout(_)))
    }
}

impl Env {
    /// As [`Env::run`], where `work` has an error type of the program's own. After an error of `work`, the transaction
    /// runs again if the last of its calls to fail did so because of a deadlock or of events outside the transaction,
    /// whatever error `work` returned. Otherwise the error is returned.
    ///
    /// # Errors
    /// The error that `work` returned, after the transaction was aborted; or the commit's error.
    pub fn try_run<T, E: From<Error>>(
        &self,
        how: &Run,
        work: impl FnMut(&Txn<'_>) -> std::result::Result<T, E>,
    ) -> std::result::Result<T, E> {
        self.0.check_writable("transactions")?;
        let is_again = |_: &E, txn: &Txn<'_>| match txn.met() {
            LastFailure::Nothing => false,
            LastFailure::Retryable => true,
            LastFailure::Timeout => how.is_again_after_timeout,
        };
        run_until(&self.0, how, work, is_again)
    }
}

/// As [`Env::run`].
pub(crate) fn run<T>(env: &Arc<Inner>, durability: Durability, work: impl FnMut(&Txn<'_>) -> Result<T>) -> Result<T> {
    run_until(env, &Run::new().durability(durability), work, |error: &Error, _| error.is_retryable())
}

/// Runs `work` in transactions until one commits. After an error of `work`, `is_again` decides whether the transaction
/// runs again.
fn run_until<T, E: From<Error>>(
    env: &Arc<Inner>,
    how: &Run,
    mut work: impl FnMut(&Txn<'_>) -> std::result::Result<T, E>,
    is_again: impl Fn(&E, &Txn<'_>) -> bool,
) -> std::result::Result<T, E> {
    let mut result = None;
    let mut once = |txn: &Txn<'_>| {
        let given = work(txn);
        let ended = match &given {
            Ok(_) => Ended::Well,
            Err(error) => Ended::Failed { is_again: is_again(error, txn) },
        };
        result = Some(given);
        ended
    };
    run_erased(env, how, &mut once)?;
    result.expect("the work was run")
}

/// The outcome of one run of the caller's work.
enum Ended {
    /// The transaction is to be committed.
    Well,
    /// The work failed; the transaction may run again.
    Failed { is_again: bool },
}

/// The part of [`run_until`] that is compiled once for all kinds of work. Returns when a transaction has committed, or
/// when the work's last error is final.
///
/// # Errors
/// The library's own errors, which take precedence over the result of the work.
fn run_erased(env: &Arc<Inner>, how: &Run, work: &mut dyn FnMut(&Txn<'_>) -> Ended) -> Result<()> {
    let cancels = libtp_process::cancels();
    let mut tries = 0;
    loop {
        let txn = Txn::begin(env, how.durability.unwrap_or(env.durability))?;
        txn.heed_cancels_since(cancels);
        if how.lock_timeout.is_some() {
            txn.session().set_wait(wait_of(how.lock_timeout));
        }
        let (stands, again) = match work(&txn) {
            Ended::Well => match txn.commit() {
                Ok(()) => return Ok(()),
                Err(error) => {
                    let again = how.is_again(&error);
                    (Err(error), again)
                }
            },
            Ended::Failed { is_again } => match txn.abort() {
                // A failed undo takes precedence over a retryable error.
                Err(undone) if is_again => (Err(undone), false),
                // Otherwise the caller's error takes precedence over an error of the abort; the next opening repeats
                // the abort.
                _ => (Ok(()), is_again),
            },
        };
        tries += 1;
        if !again || tries >= TRIES {
            return stands;
        }
        // Let the conflicting transaction finish; wait longer with each attempt.
        std::thread::sleep(Duration::from_micros(u64::from(tries.min(64)) * 10));
    }
}

//! Log-record types of the program: a code and a name, with the functions that make and undo a change of a page.
//!
//! Paper: LIBTP 3.2.1 and 4.4, step 6: "provide undo/redo code for each type of log record defined".

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use libtp_record::paged::log_records::{signature, NAME_BYTES_MAX};
use libtp_txn::{ApplicationType, Applications};

use crate::{Error, Result};

/// A log-record type of the program, for [`Builder::log_type`](crate::Builder::log_type).
///
/// Its functions work on a copy of a page's bytes, with no latch held. They may be called more than once for one
/// change: for a page that changed meanwhile, or by another process that undoes a dead process's transaction. They must
/// depend only on their arguments, and call nothing of this library. If a function returns an error, the change is not
/// made.
///
/// ```
/// // A page that begins with a counter. Several transactions add to the counter at the same time. The undo of a
/// // transaction subtracts only what that transaction has added.
/// fn change(page: &mut [u8], by: i64) -> Result<(), String> {
///     let (counter, _) = page.split_first_chunk_mut::<8>().ok_or("the page is too short")?;
///     *counter = i64::from_le_bytes(*counter).wrapping_add(by).to_le_bytes();
///     Ok(())
/// }
/// fn by(argument: &[u8]) -> Result<i64, String> {
///     argument.try_into().map(i64::from_le_bytes).map_err(|_| "eight bytes are needed".into())
/// }
/// let add = libtp::LogType::new(1, "counter add", |page, argument| change(page, by(argument)?))
///     .undo(|page, argument| change(page, by(argument)?.wrapping_neg()));
///
/// # let dir = tempfile::tempdir()?;
/// let env = libtp::Env::builder().log_type(add).open(dir.path())?;
/// let counters = env.pages("counters")?;
/// env.run(|txn| counters.apply(txn, 0, 1, &5_i64.to_le_bytes()).map(|_| ()))?;
///
/// let (one, two) = (env.begin()?, env.begin()?);
/// counters.apply(&one, 0, 1, &10_i64.to_le_bytes())?;
/// counters.apply(&two, 0, 1, &100_i64.to_le_bytes())?;
/// one.abort()?;
/// two.commit()?;
/// let page = env.run(|txn| {
///     counters.lock(txn, 0, libtp::PageLock::Read)?;
///     counters.get(txn, 0)
/// })?;
/// assert_eq!(page.bytes[..8], 105_i64.to_le_bytes());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct LogType(pub(crate) ApplicationType);

impl fmt::Debug for LogType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl LogType {
    /// Returns a type. `code` is 1 or more; an environment must never use one code for two types. `name` has 1 to 64
    /// bytes and is stored in each log record of the type. `redo` makes the change; it gets the page's bytes and the
    /// argument. Without [`LogType::undo`], an undo restores the former bytes.
    pub fn new(
        code: u16,
        name: impl Into<String>,
        redo: impl Fn(&mut [u8], &[u8]) -> std::result::Result<(), String> + Send + Sync + 'static,
    ) -> LogType {
        LogType(ApplicationType { code, name: name.into(), redo: Arc::new(redo), undo: None })
    }

    /// Sets the function that undoes the change. Since the change, other transactions may have changed the page by
    /// types with an undo function. The function must accept every state that those changes can leave, in any order: a
    /// transaction that cannot be undone keeps its locks, and after a crash the environment does not open until the
    /// undo succeeds. For example, the undo of an addition to a counter must not fail on an overflow.
    #[must_use]
    pub fn undo(
        mut self,
        undo: impl Fn(&mut [u8], &[u8]) -> std::result::Result<(), String> + Send + Sync + 'static,
    ) -> LogType {
        self.0.undo = Some(Arc::new(undo));
        self
    }

    /// Returns the code.
    pub fn code(&self) -> u16 {
        self.0.code
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.0.name
    }
}

/// Refuses types with equal codes, or with an invalid code or name.
pub(crate) fn check(types: &[LogType]) -> Result<()> {
    let mut known: BTreeMap<u16, &str> = BTreeMap::new();
    for LogType(one) in types {
        let wrong = |what: String| Err(Error::Settings { what });
        if one.code == 0 || one.name.is_empty() || one.name.len() > NAME_BYTES_MAX {
            return wrong(format!(
                "the log-record type \"{}\" has the code {}, and codes begin with 1, and names have 1 to {NAME_BYTES_MAX} bytes; nothing was opened",
                one.name, one.code
            ));
        }
        if let Some(other) = known.insert(one.code, &one.name) {
            return wrong(format!("two log-record types have the code {}: \"{other}\" and \"{}\"; nothing was opened. Give one of them another code", one.code, one.name));
        }
    }
    Ok(())
}

/// Returns the types as the transaction manager knows them.
pub(crate) fn applications(types: &[LogType]) -> Applications {
    Applications::new(types.iter().map(|LogType(one)| one.clone()), signature)
}

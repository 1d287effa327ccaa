//! Log-record types of the application: types that a program registers, by code and name, with their redo and undo.
//!
//! Paper: LIBTP 3.2.1, "the log record type is used to call the appropriate redo and undo routines", and 4.4, step 6.
//! Departure: the log has the bytes that redo has made, so any process can repeat a change of a type that it does not
//! know. Undo needs the program's function, and a process without the function leaves the transaction to a process that
//! has it (docs/design/0019).

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::{Arc, Mutex, PoisonError};

use libtp_log::{RecordRef, TxnId};

use crate::log_records::CLR_FLAG;
use crate::{Error, Result};

/// Changes the bytes of a page after the common header, as the argument states, or returns the reason of a refusal.
pub type PageFn = dyn Fn(&mut [u8], &[u8]) -> std::result::Result<(), String> + Send + Sync;

/// A log-record type of the application.
#[derive(Clone)]
pub struct ApplicationType {
    /// The type's code, from 1 on. The code is never used for another type.
    pub code: u16,
    /// Its name, which each of its records contains: 1 to 64 bytes.
    pub name: String,
    /// Makes the change, on a copy of the page. No latch is held meanwhile.
    pub redo: Arc<PageFn>,
    /// Undoes the change. `None`: undo restores the old bytes.
    pub undo: Option<Arc<PageFn>>,
}

impl fmt::Debug for ApplicationType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}({})", self.name, self.code)
    }
}

/// Calls a function of the application. A panic of the function counts as a refusal: the function works on a copy, so
/// no page is half changed.
///
/// # Errors
/// The function's refusal.
pub fn call(function: &PageFn, page: &mut [u8], argument: &[u8]) -> std::result::Result<(), String> {
    catch_unwind(AssertUnwindSafe(|| function(page, argument))).unwrap_or_else(|payload| {
        let message = payload.downcast_ref::<String>().map(String::as_str);
        let message = message.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("no message");
        Err(format!("the function panicked: {message}"))
    })
}

/// The application's type that a log record names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature {
    /// The type's code.
    pub code: u16,
    /// Its name.
    pub name: String,
    /// Whether undo calls the application's function.
    pub is_logical: bool,
}

/// Reads the signature of a record's body; `None` if the record has no application's type.
pub type SignatureFn = fn(kind: u16, body: &[u8]) -> Option<Signature>;

/// The application's types that this process has registered.
#[derive(Default)]
pub struct Applications {
    types: BTreeMap<u16, ApplicationType>,
    signature: Option<SignatureFn>,
    /// Transactions that this process cannot undo.
    left: Mutex<HashSet<TxnId>>,
}

impl fmt::Debug for Applications {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.types.values()).finish()
    }
}

impl Applications {
    /// Makes the table of the application's types, with the function that reads the type of a record.
    pub fn new(types: impl IntoIterator<Item = ApplicationType>, signature: SignatureFn) -> Applications {
        let types = types.into_iter().map(|it| (it.code, it)).collect();
        Applications { types, signature: Some(signature), left: Mutex::default() }
    }

    /// Returns the type with that code.
    pub fn get(&self, code: u16) -> Option<&ApplicationType> {
        self.types.get(&code)
    }

    /// Refuses a record of a type that this process does not know.
    ///
    /// # Errors
    /// [`Error::Unregistered`] with the type's name and code.
    pub fn check(&self, record: &RecordRef<'_>) -> Result<()> {
        // A compensation has only the new bytes, and names no type of the application.
        if record.header.flags() & CLR_FLAG != 0 {
            return Ok(());
        }
        let Some(signature) = self.signature.and_then(|read| read(record.header.kind(), record.body)) else {
            return Ok(());
        };
        match self.types.get(&signature.code) {
            Some(known) if known.name == signature.name && (known.undo.is_some() || !signature.is_logical) => Ok(()),
            Some(other) if other.name != signature.name => Err(Error::OtherType {
                lsn: record.lsn,
                code: signature.code,
                name: signature.name,
                known: other.name.clone(),
            }),
            _ => Err(Error::Unregistered { lsn: record.lsn, code: signature.code, name: signature.name }),
        }
    }

    /// Notes that this process lacks a function for the undo of the transaction: the transaction is left to other
    /// processes.
    pub(crate) fn leave(&self, txn: TxnId) {
        self.left.lock().unwrap_or_else(PoisonError::into_inner).insert(txn);
    }

    /// Returns whether [`Applications::leave`] has noted the transaction.
    pub(crate) fn is_left(&self, txn: TxnId) -> bool {
        self.left.lock().unwrap_or_else(PoisonError::into_inner).contains(&txn)
    }
}

//! `tp_log_type`: types of log records that the program registers for the environments that it opens (LIBTP 3.2.1).
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::sync::{Mutex, PoisonError};

use libtp::{Builder, LogType};

use crate::answer::{c_call, Trouble};
use crate::arguments::Text;

static LOG_TYPES: Mutex<Vec<LogType>> = Mutex::new(Vec::new());

/// Adds the registered log types to the builder of an environment.
pub(crate) fn with_log_types(builder: Builder) -> Builder {
    let types = LOG_TYPES.lock().unwrap_or_else(PoisonError::into_inner);
    types.iter().cloned().fold(builder, Builder::log_type)
}

/// `tp_page_change`.
pub type PageChange = extern "C" fn(*mut c_void, usize, *const c_void, usize) -> c_int;

/// Returns the program's function as a Rust closure.
fn called(change: PageChange) -> impl Fn(&mut [u8], &[u8]) -> Result<(), String> + Send + Sync {
    move |page, argument| {
        let code = change(page.as_mut_ptr().cast(), page.len(), argument.as_ptr().cast(), argument.len());
        match code {
            0 => Ok(()),
            code => Err(format!("it returned {code}")),
        }
    }
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_log_type(code: u16, name: Text, redo: Option<PageChange>, undo: Option<PageChange>) -> c_int {
    c_call("tp_log_type", || {
        let name = name.needed("the name")?;
        let redo = redo.ok_or_else(|| Trouble::misuse("NULL was given for the function that makes the change"))?;
        if code == 0 || name.is_empty() || name.len() > 64 {
            return Err(Trouble::misuse("codes begin with 1, and names have 1 to 64 bytes"));
        }
        let mut made = LogType::new(code, name, called(redo));
        if let Some(undo) = undo {
            made = made.undo(called(undo));
        }
        let mut types = LOG_TYPES.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(other) = types.iter().find(|other| other.code() == code && other.name() != name) {
            return Err(Trouble::misuse(format!("the code {code} is that of \"{}\" already", other.name())));
        }
        types.retain(|other| other.code() != code);
        types.push(made);
        Ok(())
    })
}

//! Paths for functions in C.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::error::{Error, Result};

/// Returns a path with a zero byte at its end. `engine` and `doing` name the operation in the error.
///
/// # Errors
/// `Engine` if the path contains a zero byte.
pub(crate) fn c_path(path: &Path, engine: &'static str, doing: &'static str) -> Result<CString> {
    CString::new(path.as_os_str().as_bytes()).map_err(Error::engine(engine, doing))
}

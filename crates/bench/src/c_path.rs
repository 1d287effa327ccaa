//! Paths as C reads them.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::error::{Error, Result};

/// A path with its end marked, for an engine that is `doing` something with it.
///
/// # Errors
/// It has a zero in it.
pub(crate) fn c_path(path: &Path, engine: &'static str, doing: &'static str) -> Result<CString> {
    CString::new(path.as_os_str().as_bytes()).map_err(Error::engine(engine, doing))
}

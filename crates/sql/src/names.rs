//! Opens databases by their names.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use libtp_console::failure::Result;

use crate::rusqlite::{Connection, OpenFlags};
use crate::sentence;

/// The rights of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Read and write. A missing database is created.
    Create,
    /// Read and write. The database must exist.
    Write,
    /// Read only. The database must exist.
    Read,
}

impl Access {
    fn flags(self) -> OpenFlags {
        let access = match self {
            Access::Create => OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE,
            Access::Write => OpenFlags::SQLITE_OPEN_READ_WRITE,
            Access::Read => OpenFlags::SQLITE_OPEN_READ_ONLY,
        };
        access | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_EXRESCODE
    }
}

/// Opens a database. `name` is a path or a URI, as in other programs. A statement waits at most `wait` for a lock.
pub fn open(name: &Path, access: Access, wait: Duration) -> Result<Connection> {
    let connection = Connection::open_with_flags(name, access.flags()).map_err(sentence)?;
    connection.busy_timeout(wait).map_err(sentence)?;
    Ok(connection)
}

/// Returns the URI of a path. With `is_environment`, the URI opens an environment even if the path does not end in .tp.
pub fn uri(path: &Path, is_environment: bool) -> String {
    let mut uri = String::from("file:");
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'/' | b'-' | b'_' | b'.' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => uri.push(char::from(*byte)),
            _ => uri.push_str(&format!("%{byte:02X}")),
        }
    }
    if is_environment {
        uri.push_str("?tp=1");
    }
    uri
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uri_escapes_the_special_bytes_of_a_path() {
        assert_eq!(uri(Path::new("/a b/c?d#e%.db"), false), "file:/a%20b/c%3Fd%23e%25.db");
        assert_eq!(uri(Path::new("shop"), true), "file:shop?tp=1");
    }
}

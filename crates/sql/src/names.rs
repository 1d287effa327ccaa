//! Names of databases, and opening them.

use std::path::Path;

use libtp_console::failure::Result;

use crate::rusqlite::{Connection, OpenFlags};
use crate::sentence;

/// What an opening may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Read, write, and make a missing database.
    Create,
    /// Read.
    Read,
}

impl Access {
    fn flags(self) -> OpenFlags {
        let access = match self {
            Access::Create => OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE,
            Access::Read => OpenFlags::SQLITE_OPEN_READ_ONLY,
        };
        access | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_EXRESCODE
    }
}

/// Opens a database by its name as programs give it: a path, or a URI.
pub fn open(name: &Path, access: Access) -> Result<Connection> {
    let connection = Connection::open_with_flags(name, access.flags()).map_err(sentence)?;
    // A lock of another process is waited for as long as a person waits.
    connection.busy_timeout(std::time::Duration::from_secs(10)).map_err(sentence)?;
    Ok(connection)
}

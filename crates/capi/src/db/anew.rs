//! O_TRUNC in shared mode: replaces a database by a new one if its form differs from the form that this opening asks
//! for.
//!
//! A transaction locks the old database and its name. Then the new database is made, under the old name with
//! [`SUCCESSOR`] appended. The transaction drops the old database and renames the new database to the old name. A later
//! call on a handle of the old database reports that it was dropped.
//!
//! If we die here: before the commit the old database is unchanged. An empty database may remain under the name with
//! [`SUCCESSOR`]. The next program that replaces the database drops the empty database.

use std::sync::Arc;

use libtp::{Database, Env, Error, Stored, SUCCESSOR};

use crate::db::current;
use crate::db::environments::OpenEnvironment;
use crate::db::open_mode::OpenMode;
use crate::db::refusal::{Answer, Refusal};

/// Refuses to replace a database if the file is opened for reading only, if the thread's transaction runs in the
/// environment, or if the database is of a kind that db(3) never makes.
pub(crate) fn check_may_make_anew(home: &Arc<OpenEnvironment>, name: &str, how: &OpenMode) -> Answer<()> {
    let refuse = |why: &str| Err(Refusal::invalid(format!("{name} {why}. Nothing was opened or changed")));
    match home.env.stored(name)? {
        Stored::Pages(_) => {
            refuse("is a file of pages, which O_TRUNC does not replace: open another file, or drop this file first")
        }
        Stored::Records(Database::Index(_)) => {
            refuse("is an index of another database, which O_TRUNC does not replace: open another file, or drop the index first")
        }
        _ if how.is_read_only() => {
            refuse("was made as another type, or with other flags, and O_TRUNC replaces it only with O_RDWR")
        }
        _ if current::has_begun(home)? => refuse(
            "was made as another type, or with other flags, and O_TRUNC cannot replace it inside a running transaction: open it before txn_begin",
        ),
        _ => Ok(()),
    }
}

/// Returns whether there is a database with this name. While a database is being replaced, it may be missing in the
/// list of databases for a moment. In that case this call waits for the lock on the database's name.
pub(crate) fn is_there(env: &Env, name: &str) -> Answer<bool> {
    if env.databases()?.iter().any(|there| there == name) {
        return Ok(true);
    }
    match env.stored(name) {
        Ok(_) => Ok(true),
        Err(Error::NoDatabase { .. } | Error::Database { .. }) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Replaces a database by a new one. `make` makes a database with a given name.
pub(crate) fn make_anew(env: &Env, name: &str, make: impl Fn(&str) -> libtp::Result<()>) -> Answer<()> {
    let successor = format!("{name}{SUCCESSOR}");
    let made = env.run(|txn| {
        txn.drop_database(name)?;
        // This transaction has locked the name. So an empty successor that exists now was left by a dead process.
        match env.drop_if_empty(&successor) {
            Ok(true) | Err(Error::NoDatabase { .. }) => {}
            Ok(false) => {
                let what = format!(
                    "O_TRUNC makes a new `{name}` under this name first, and this database has records; nothing was changed. Rename or drop this database"
                );
                return Err(Error::Database { name: successor.clone(), what });
            }
            Err(error) => return Err(error),
        }
        make(&successor)?;
        txn.rename_database(&successor, name)
    });
    match made {
        // Another program has dropped the database during this call. The caller makes it, as it makes a missing
        // database.
        Err(Error::NoDatabase { name: missing, .. }) if missing == name => Ok(()),
        made => Ok(made?),
    }
}

//! O_TRUNC in shared mode: makes a database anew if its form differs from the form that this opening asks for.
//!
//! The new database is made beside the old one, under the old name with [`SUCCESSOR`] appended. Meanwhile a transaction
//! has the old database and its name locked. Then, in that transaction, the new database takes the old name. A later
//! call on a handle of the old database reports that it was dropped.
//!
//! If we die here: before the commit the old database is as it was. An empty database may be left beside it. The next
//! program that makes the database anew drops the empty one.

use std::sync::Arc;

use libtp::{Database, Env, Error, Stored, SUCCESSOR};

use crate::db::current;
use crate::db::environments::OpenEnvironment;
use crate::db::open::OpenMode;
use crate::db::refusal::{Answer, Refusal};

/// In an opening for reading, refuses to make any database anew. Always refuses for the kinds that db(3) never makes.
pub(crate) fn check_may_make_anew(home: &Arc<OpenEnvironment>, name: &str, how: &OpenMode) -> Answer<()> {
    let refuse = |why: &str| Err(Refusal::invalid(format!("{name} {why}. Nothing was opened or changed")));
    match home.env.stored(name)? {
        Stored::Pages(_) => {
            refuse("is a file of pages, which O_TRUNC does not make anew: open another file, or drop this one first")
        }
        Stored::Records(Database::Index(_)) => {
            refuse("is an index of another database, which O_TRUNC does not make anew: open another file, or drop this one first")
        }
        _ if how.is_read_only() => {
            refuse("was made as another type, or with other flags, and O_TRUNC makes it anew only with O_RDWR")
        }
        _ if current::has_begun(home)? => refuse(
            "was made as another type, or with other flags, and O_TRUNC cannot make it anew inside a running transaction: open it before txn_begin",
        ),
        _ => Ok(()),
    }
}

/// Returns whether there is a database with this name. A database that is being made anew may have no file for a
/// moment. In that case this call waits for the lock on the database's name.
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
        // This transaction has the name locked, so a dead process has left this empty successor.
        match env.drop_if_empty(&successor) {
            Ok(true) | Err(Error::NoDatabase { .. }) => {}
            Ok(false) => {
                let what = format!(
                    "O_TRUNC makes `{name}` anew under this name first, and this database has records; nothing was changed. Rename or drop this database"
                );
                return Err(Error::Database { name: successor.clone(), what });
            }
            Err(error) => return Err(error),
        }
        make(&successor)?;
        txn.rename_database(&successor, name)
    });
    match made {
        // Another program has dropped the database meanwhile. The caller makes it like a missing database.
        Err(Error::NoDatabase { name: missing, .. }) if missing == name => Ok(()),
        made => Ok(made?),
    }
}

//! A database of any kind, opened by its name alone.

use std::sync::Arc;

use libtp_record::{order, Duplicates, KeyFormat, Method};

use crate::db::handle::{Db, Recno};
use crate::db::list::List;
use crate::db::multi::Multi;
use crate::db::opening::{open, wrong_key_format};
use crate::region::inner::Inner;
use crate::{Error, Result};

/// A database of any kind, for tools that are given a name.
#[derive(Clone, Debug)]
pub enum Database {
    /// A B-tree.
    Btree(Db),
    /// A B-tree whose keys have several values each.
    Multi(Multi),
    /// Records by number.
    Recno(Recno),
    /// A hash file.
    Hash(Db),
    /// Records by number, renumbered by insertions and deletions.
    List(List),
    /// An index of another database ([`Db::index`](crate::Db::index)): the values of an index key are the keys of the
    /// records that the index key finds. An index is only read.
    Index(Multi),
}

impl Database {
    pub(crate) fn open(env: &Arc<Inner>, name: &str) -> Result<Database> {
        let open = open(env, name, None)?;
        match open.method() {
            Method::Btree if open.key_format().is_list => Ok(Database::List(List::open(env, name)?)),
            Method::Btree if open.key_format().index_of.is_some() => {
                Ok(Database::Index(Multi::of_index(Db::open_keyed(env, name, *open.key_format(), None)?)))
            }
            Method::Btree => open_as_it_is(env, name),
            Method::Hash => Ok(Database::Hash(Db::open(env, name, Method::Hash)?)),
            Method::Recno { .. } => Ok(Database::Recno(Recno::open(env, name, None)?)),
            Method::Pages => {
                let what = "it is a file of pages, and only the program that made it (`Env::pages`) knows their contents; nothing was changed. Use that program";
                Err(Error::Database { name: name.into(), what: what.into() })
            }
        }
    }
}

/// Opens a tree with the order that its file names, if the order is one of the library's own.
fn open_as_it_is(env: &Arc<Inner>, name: &str) -> Result<Database> {
    let key_format = *open(env, name, None)?.key_format();
    let order = match &key_format.order {
        None => None,
        Some(called) => {
            let unknown = || wrong_key_format(name, &key_format, &KeyFormat::default());
            Some(order::by_name(called.as_str()).ok_or_else(unknown)?)
        }
    };
    match key_format.duplicates {
        Duplicates::None => Ok(Database::Btree(Db::open_keyed(env, name, key_format, order)?)),
        kind => Ok(Database::Multi(Multi::open(env, name, kind, order)?)),
    }
}

//! `dbopen`: determines the file and the mode, and opens the file as the argument `openinfo` demands.

use std::ffi::c_uint;
use std::path::Path;
use std::sync::Arc;

use libtp::{Database, Db, Duplicates, Env, Error, Multi, Order};

use crate::db::anew::{check_may_make_anew, is_there, make_anew};
use crate::db::environments::{environment, of_path, Wishes};
use crate::db::info::{FileInfo, PairsInfo};
use crate::db::keyed::{Keyed, Pairs};
use crate::db::open_mode::OpenMode;
use crate::db::open_records;
use crate::db::orders::order_of;
use crate::db::plain::Plain;
use crate::db::plain_file::{Kind, PlainFile};
use crate::db::refusal::{Answer, Refusal};
use crate::db::rule::{Compare, Rule};
use crate::db::shared::{Shared, SharedDuplicates, SharedPairs};
use crate::db::Store;

/// The text whose hash value identifies a file's hash function, as in db(3).
const TEXT: &[u8] = b"%$sniglet^&";

/// Opens the file or database that `dbopen` asks for.
pub(crate) fn open(path: Option<&Path>, how: &OpenMode, given: FileInfo) -> Answer<Store> {
    let shared = path.filter(|_| how.modes != 0);
    match (shared, given) {
        (Some(path), FileInfo::Pairs(given)) => open_shared(path, how, given),
        (Some(path), FileInfo::Recno(given)) => open_records::open_shared(path, how, &given),
        (None, FileInfo::Pairs(given)) => open_plain(path, how, given),
        (None, FileInfo::Recno(given)) => open_records::open_plain(path, how, &given),
    }
}

fn open_plain(path: Option<&Path>, how: &OpenMode, given: PairsInfo) -> Answer<Store> {
    let (rule, kind) = match given {
        PairsInfo::Btree { has_duplicates, compare, .. } => {
            (compare.map_or(Rule::Bytes, Rule::Compared), Kind { is_hash: false, has_duplicates, hash_of_text: 0 })
        }
        PairsInfo::Hash { hash, .. } => {
            let hash_of_text = hash.map_or(0, |hash| hash(TEXT.as_ptr().cast(), TEXT.len()));
            (hash.map_or(Rule::Scattered, Rule::Hashed), Kind { is_hash: true, has_duplicates: false, hash_of_text })
        }
    };
    let file = path.map(|path| PlainFile::open(how.open(path)?, path, kind)).transpose()?;
    let is_read_only = file.is_some() && how.is_read_only();
    let has_duplicates = file.as_ref().map_or(kind, PlainFile::kind).has_duplicates;
    let pairs: Box<dyn Pairs> = Box::new(Plain::open(rule, has_duplicates, file)?);
    Ok(Store::Keyed(Keyed::new(pairs, kind.is_hash, is_read_only)))
}

fn open_shared(path: &Path, how: &OpenMode, given: PairsInfo) -> Answer<Store> {
    let (PairsInfo::Btree { page_bytes, .. } | PairsInfo::Hash { page_bytes, .. }) = given;
    let (directory, name) = of_path(path)?;
    let create = how.has(libc::O_CREAT);
    let home = environment(&directory, &Wishes { create, database: &name, page_bytes })?;
    let is_there = is_there(&home.env, &name)?;
    if !is_there && !create {
        return Err(Error::NoDatabase { name, environment: directory }.into());
    }
    if is_there && create && how.has(libc::O_EXCL) {
        return Err(Refusal::new(
            libc::EEXIST,
            format!("{} exists already, and O_EXCL was given; nothing was opened", path.display()),
        ));
    }
    let at = how.shared(&home, &name);
    let is_read_only = how.is_read_only();
    let mut is_emptied = how.has(libc::O_TRUNC) && is_there;
    if is_emptied {
        let make = maker(&home.env, &given)?;
        match make(&name) {
            // A database of the requested form is only emptied, so other programs can continue to use it.
            Ok(()) => {}
            Err(Error::Database { .. }) => {
                check_may_make_anew(&home, &name, how)?;
                make_anew(&home.env, &name, make)?;
                is_emptied = false;
            }
            Err(error) => return Err(error.into()),
        }
    }
    match given {
        PairsInfo::Btree { has_duplicates, compare, .. } => {
            let pairs = open_tree(at, has_duplicates, compare, is_emptied)?;
            Ok(Store::Keyed(Keyed::new(pairs, false, is_read_only)))
        }
        // A hash function only decides which page a pair is on. In shared mode the library uses its own function.
        PairsInfo::Hash { .. } => {
            let shared = SharedPairs { db: home.env.hash(&name)?, at };
            if is_emptied {
                shared.clear()?;
            }
            Ok(Store::Keyed(Keyed::new(Box::new(shared), true, is_read_only)))
        }
    }
}

/// Returns a closure that takes a name. It opens the database with that name, and makes the database if it is missing.
/// It fails if the database does not have the requested form; any page size will do.
fn maker<'a>(env: &'a Env, given: &PairsInfo) -> Answer<impl Fn(&str) -> libtp::Result<()> + 'a> {
    let (has_duplicates, order) = match given {
        PairsInfo::Btree { has_duplicates, compare, .. } => {
            (Some(*has_duplicates), order(*compare).map_err(Wrong::refusal)?)
        }
        PairsInfo::Hash { .. } => (None, None),
    };
    Ok(move |name: &str| match (has_duplicates, order.clone()) {
        (None, _) => env.hash(name).map(|_| ()),
        (Some(false), None) => env.btree(name).map(|_| ()),
        (Some(false), Some(order)) => env.btree_ordered(name, order).map(|_| ()),
        (Some(true), order) => multi(env, name, order).map(|_| ()),
    })
}

/// Opens a tree. If the tree exists, its own kind decides whether a key has several values or one.
fn open_tree(at: Shared, has_duplicates: bool, compare: Option<Compare>, is_emptied: bool) -> Answer<Box<dyn Pairs>> {
    let (env, name) = (&at.home.env, &at.name);
    let opened = match has_duplicates {
        true => lists(env, name, compare).map(Tree::Lists),
        false => tree(env, name, compare).map(Tree::One),
    };
    let opened = match (opened, has_duplicates) {
        // The tree may be of the other kind. If it is of neither kind, the caller gets the error for the requested
        // kind.
        (Err(Wrong::Kind(_)), true) => tree(env, name, compare).map(Tree::One),
        (Err(Wrong::Kind(first)), false) => lists(env, name, compare).map(Tree::Lists).map_err(|_| Wrong::Kind(first)),
        (opened, _) => opened,
    };
    match opened.map_err(Wrong::refusal)? {
        Tree::One(db) => {
            let shared = SharedPairs { at, db };
            if is_emptied {
                shared.clear()?;
            }
            Ok(Box::new(shared))
        }
        Tree::Lists(multi) => {
            let shared = SharedDuplicates { at, multi };
            if is_emptied {
                shared.clear()?;
            }
            Ok(Box::new(shared))
        }
    }
}

enum Tree {
    One(Db),
    Lists(Multi),
}

/// The reason why a database is not opened: the database is of another kind, or another error occurred.
enum Wrong {
    Kind(Error),
    Else(Refusal),
}

impl Wrong {
    fn refusal(self) -> Refusal {
        match self {
            Wrong::Kind(error) => error.into(),
            Wrong::Else(refusal) => refusal,
        }
    }
}

impl From<Error> for Wrong {
    fn from(error: Error) -> Wrong {
        match error {
            Error::Database { .. } => Wrong::Kind(error),
            other => Wrong::Else(other.into()),
        }
    }
}

/// Returns the order of a comparison function, or `None` if no function was given.
fn order(compare: Option<Compare>) -> Result<Option<Arc<dyn Order>>, Wrong> {
    let what = "the order of the given comparison function has no name, and other processes cannot call the function. Give the order a name before dbopen, in every program that opens the file: tp_order(\"NAME\", ..) registers an encoding of keys whose bytes are in that order, and db_order(compare, \"NAME\") says that the function compares in that order. Or use db_compare_descending, db_compare_caseless or db_compare_little_endian, whose orders have names. Nothing was opened";
    let named = |compare| order_of(compare).ok_or_else(|| Wrong::Else(Refusal::invalid(what)));
    compare.map(named).transpose()
}

fn tree(env: &Env, name: &str, compare: Option<Compare>) -> Result<Db, Wrong> {
    let Some(order) = order(compare)? else {
        // If an existing tree is in one of the library's orders, it is opened in that order.
        return match env.btree(name) {
            Err(refused @ Error::Database { .. }) => match env.database(name) {
                Ok(Database::Btree(db)) => Ok(db),
                _ => Err(refused.into()),
            },
            opened => Ok(opened?),
        };
    };
    Ok(env.btree_ordered(name, order)?)
}

fn lists(env: &Env, name: &str, compare: Option<Compare>) -> Result<Multi, Wrong> {
    Ok(multi(env, name, order(compare)?)?)
}

fn multi(env: &Env, name: &str, order: Option<Arc<dyn Order>>) -> libtp::Result<Multi> {
    const AS_THEY_CAME: Duplicates = Duplicates::AsTheyCame;
    match order {
        None => env.multi(name, AS_THEY_CAME),
        Some(order) => env.multi_ordered(name, AS_THEY_CAME, order),
    }
}

/// The type of file that C asks for.
pub(crate) type Type = c_uint;

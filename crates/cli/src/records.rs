//! Records of any kind of database, by key or by number.

use libtp::{Database, Env, Multi, Txn};

use crate::failure::{Ending, Failure, Result};
use crate::output::{note, Output};
use crate::spelling::{Object, Spelling};

/// The key of a record.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// The key of a B-tree or a hash file.
    Bytes(Vec<u8>),
    /// The number in a record-number database or a list, from 1.
    Number(u64),
}

impl Key {
    /// Parses a key of the command line. A number is always decimal.
    pub fn read(database: &Database, name: &str, word: &std::ffi::OsStr, spelling: Spelling) -> Result<Key> {
        match database {
            Database::Btree(_) | Database::Hash(_) | Database::Multi(_) | Database::Index(_) => {
                Ok(Key::Bytes(spelling.read(word)?))
            }
            Database::Recno(_) | Database::List(_) => {
                let number = word.to_str().and_then(|text| text.parse().ok()).filter(|&number| number > 0);
                number.map(Key::Number).ok_or_else(|| {
                    let word = word.to_string_lossy();
                    Failure::Usage(format!(
                        "`{word}` is not a record number: {name} keeps records by number, from 1 on"
                    ))
                })
            }
        }
    }

    /// Returns the key as text output shows it.
    pub fn write(&self, spelling: Spelling) -> Vec<u8> {
        match self {
            Key::Bytes(bytes) => spelling.write(bytes),
            Key::Number(number) => number.to_string().into_bytes(),
        }
    }

    /// Puts the key into a JSON object. A record's number becomes a JSON number.
    pub fn enter(&self, spelling: Spelling, object: &mut Object) {
        match self {
            Key::Bytes(bytes) => spelling.enter(object, "key", bytes),
            Key::Number(number) => {
                object.insert("key".to_string(), (*number).into());
            }
        }
    }
}

/// Begins a JSON result with its database and its key.
pub fn result(database: &str, key: &Key, spelling: Spelling) -> Object {
    let mut object = Object::new();
    object.insert("database".to_string(), database.into());
    key.enter(spelling, &mut object);
    object
}

/// Reads one record. If the key has several values, reads the first.
pub fn get(env: &Env, database: &Database, key: &Key) -> Result<Option<Vec<u8>>> {
    Ok(env.run(|txn| get_in(txn, database, key))?)
}

/// Reads one record in a transaction. If the key has several values, reads the first.
pub fn get_in(txn: &Txn<'_>, database: &Database, key: &Key) -> libtp::Result<Option<Vec<u8>>> {
    match (database, key) {
        (Database::Btree(db) | Database::Hash(db), Key::Bytes(key)) => db.get(txn, key),
        (Database::Multi(db) | Database::Index(db), Key::Bytes(key)) => db.get(txn, key),
        (Database::Recno(db), Key::Number(number)) => db.get(txn, *number),
        (Database::List(db), Key::Number(number)) => db.get(txn, *number),
        _ => unreachable!("`Key::read` returns only a key of the database's kind"),
    }
}

fn not_to_write(index: &Multi) -> libtp::Error {
    let what =
        "it is an index, which changes only with the records of its database; nothing was changed. Change the database";
    libtp::Error::Database { name: index.name().into(), what: what.into() }
}

/// Writes one record.
pub fn put(env: &Env, database: &Database, key: &Key, value: &[u8]) -> Result<()> {
    Ok(env.run(|txn| put_in(txn, database, key, value))?)
}

/// Writes one record in a transaction.
pub fn put_in(txn: &Txn<'_>, database: &Database, key: &Key, value: &[u8]) -> libtp::Result<()> {
    match (database, key) {
        (Database::Btree(db) | Database::Hash(db), Key::Bytes(key)) => db.put(txn, key, value),
        (Database::Index(db), _) => Err(not_to_write(db)),
        (Database::Multi(db), Key::Bytes(key)) => db.put(txn, key, value).map(|_| ()),
        (Database::Recno(db), Key::Number(number)) => db.put(txn, *number, value),
        (Database::List(db), Key::Number(number)) => db.put(txn, *number, value),
        _ => unreachable!("`Key::read` returns only a key of the database's kind"),
    }
}

/// Deletes one record with all its values. Returns false if the record was missing.
pub fn delete(env: &Env, database: &Database, key: &Key) -> Result<bool> {
    Ok(env.run(|txn| delete_in(txn, database, key))?)
}

/// Deletes one record with all its values, in a transaction. Returns false if the record was missing.
pub fn delete_in(txn: &Txn<'_>, database: &Database, key: &Key) -> libtp::Result<bool> {
    match (database, key) {
        (Database::Btree(db) | Database::Hash(db), Key::Bytes(key)) => db.delete(txn, key),
        (Database::Index(db), _) => Err(not_to_write(db)),
        (Database::Multi(db), Key::Bytes(key)) => Ok(db.delete(txn, key)? > 0),
        (Database::Recno(db), Key::Number(number)) => db.delete(txn, *number),
        (Database::List(db), Key::Number(number)) => db.delete(txn, *number),
        _ => unreachable!("`Key::read` returns only a key of the database's kind"),
    }
}

/// Reports a missing record on standard error, and as a JSON result in which the field with the name `said` is false.
pub fn missing(output: &mut Output, mut result: Object, said: &str, key: &Key, name: &str) -> Result<Ending> {
    result.insert(said.to_string(), false.into());
    output.object(&result)?;
    let key = key.write(Spelling::Text);
    note(format_args!("there is no record {} in {name}", String::from_utf8_lossy(&key)));
    Ok(Ending::Disagrees)
}

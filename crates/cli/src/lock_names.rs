//! The names of locked objects, in words.

use libtp::{Env, LockName};

use crate::failure::Result;

/// The databases of an environment, by the numbers in the names of locks.
pub struct LockNames {
    databases: Vec<libtp::DatabaseInfo>,
}

impl LockNames {
    /// Reads the databases of the environment.
    pub fn of(env: &Env) -> Result<LockNames> {
        Ok(LockNames { databases: env.stats()?.databases })
    }

    /// Reads the databases of the environment. Returns no names if damaged memory makes the databases unreadable.
    pub fn or_none(env: &Env) -> LockNames {
        LockNames::of(env).unwrap_or(LockNames { databases: Vec::new() })
    }

    /// Returns the names of an environment without databases.
    #[cfg(test)]
    pub fn none() -> LockNames {
        LockNames { databases: Vec::new() }
    }

    /// Returns the database's name, or its file's number if it has no name.
    pub fn database(&self, name: LockName) -> String {
        let database = self.databases.iter().find(|database| database.file == name.space);
        database.map_or_else(|| name.space.to_string(), |database| database.name.clone())
    }

    /// Returns the whole name: `record 17 of stock`. The number names a page or a record, or is the hash of a key.
    pub fn words(&self, name: LockName) -> String {
        match kind_name(name.kind) {
            "database" => format!("database {}", self.database(name)),
            "segment" => format!("segment {}", name.space),
            "name" => "the name of a database".into(),
            "files" => "the list of databases".into(),
            kind => format!("{kind} {} of {}", name.hash, self.database(name)),
        }
    }
}

/// Returns the kind of the locked object.
pub fn kind_name(kind: u32) -> &'static str {
    match kind {
        1 => "database",
        2 => "page",
        3 => "record",
        4 => "gap",
        5 => "segment",
        8 => "name",
        9 => "files",
        _ => "other",
    }
}

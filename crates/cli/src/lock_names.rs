//! What a lock's name stands for, in words.

use libtp::{Env, LockName};

use crate::failure::Result;

/// The databases of an environment by the numbers that stand in locks' names.
pub struct LockNames {
    databases: Vec<libtp::DatabaseInfo>,
}

impl LockNames {
    /// Asks the environment.
    pub fn of(env: &Env) -> Result<LockNames> {
        Ok(LockNames { databases: env.stats()?.databases })
    }

    /// The same, or none: damaged memory may not say.
    pub fn or_none(env: &Env) -> LockNames {
        LockNames::of(env).unwrap_or(LockNames { databases: Vec::new() })
    }

    /// Of an environment that has no databases.
    #[cfg(test)]
    pub fn none() -> LockNames {
        LockNames { databases: Vec::new() }
    }

    /// The database's name, or its file's number where it has none.
    pub fn database(&self, name: LockName) -> String {
        let database = self.databases.iter().find(|database| database.file == name.space);
        database.map_or_else(|| name.space.to_string(), |database| database.name.clone())
    }

    /// All of it: `record 17 of stock`. The number is a page's or a record's, or the hash of a key.
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

/// What kind of thing is locked.
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

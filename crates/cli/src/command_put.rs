//! `tp put`: stores a value under a key, in a separate transaction.

use std::ffi::OsString;
use std::io::Read;

use clap::Args;
use libtp::{Database, Env};

use crate::environment::DatabaseArguments;
use crate::failure::{Ending, Failure, Result};
use crate::output::Output;
use crate::records::{self, Key};
use crate::spelling::Spelling;

/// The command line.
#[derive(Args)]
pub struct Arguments {
    #[command(flatten)]
    at: DatabaseArguments,
    /// The key, or the number of a record.
    key: OsString,
    /// The value. Default: all of standard input.
    value: Option<OsString>,
    /// Read the key and the value in hexadecimal. A value from standard input is read as it is.
    #[arg(long)]
    hex: bool,
    /// If the database is missing, make a hash file instead of a B-tree. A database of another kind is refused.
    #[arg(long)]
    hash: bool,
    /// If the database is missing, make a list: records of any length by number. A database of another kind is refused.
    #[arg(long, conflicts_with = "hash")]
    list: bool,
}

/// Writes the record. Makes the environment and the database if they are missing.
pub fn run(arguments: &Arguments, output: &mut Output) -> Result<Ending> {
    let (name, spelling) = (&arguments.at.database, Spelling::of(arguments.hex));
    // If no environment is named, this call fails, and standard input is not read.
    arguments.at.environment.directory()?;
    let value = match &arguments.value {
        Some(word) => spelling.read(word)?,
        None => {
            let mut value = Vec::new();
            std::io::stdin().lock().read_to_end(&mut value).map_err(Failure::doing("read the value"))?;
            value
        }
    };
    let env = arguments.at.environment.open_or_create(output)?;
    let database = open_or_create(&env, name, arguments)?;
    let key = Key::read(&database, name, &arguments.key, spelling)?;
    records::put(&env, &database, &key, &value)?;
    let mut result = records::result(name, &key, spelling);
    result.insert("put".to_string(), true.into());
    output.object(&result)?;
    Ok(Ending::Done)
}

fn open_or_create(env: &Env, name: &str, arguments: &Arguments) -> Result<Database> {
    match env.database(name) {
        Err(libtp::Error::NoDatabase { .. }) if arguments.list => Ok(Database::List(env.list(name)?)),
        Err(libtp::Error::NoDatabase { .. }) if arguments.hash => Ok(Database::Hash(env.hash(name)?)),
        Err(libtp::Error::NoDatabase { .. }) => Ok(Database::Btree(env.btree(name)?)),
        found => {
            let found = found?;
            let wrong = match &found {
                Database::Hash(_) if arguments.hash => None,
                Database::List(_) if arguments.list => None,
                _ if arguments.hash => Some(("--hash", "a hash file")),
                _ if arguments.list => Some(("--list", "a list")),
                _ => None,
            };
            match wrong {
                None => Ok(found),
                Some((option, kind)) => Err(Failure::Usage(format!(
                    "the database `{name}` exists and is not {kind}; nothing was changed. Leave out {option}, or name another database"
                ))),
            }
        }
    }
}

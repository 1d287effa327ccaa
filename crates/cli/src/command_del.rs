//! `tp del`: deletes a key and its value, in a separate transaction.

use std::ffi::OsString;

use clap::Args;

use crate::environment::DatabaseArguments;
use crate::failure::{Ending, Result};
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
    /// Read the key in hexadecimal.
    #[arg(long)]
    hex: bool,
}

/// Deletes the record; exit 1 if there is no such record.
pub fn run(arguments: &Arguments, output: &mut Output) -> Result<Ending> {
    let (env, database) = arguments.at.open(output)?;
    let (name, spelling) = (&arguments.at.database, Spelling::of(arguments.hex));
    let key = Key::read(&database, name, &arguments.key, spelling)?;
    let mut result = records::result(name, &key, spelling);
    if !records::delete(&env, &database, &key)? {
        return records::missing(output, result, "deleted", &key, name);
    }
    result.insert("deleted".to_string(), true.into());
    output.object(&result)?;
    Ok(Ending::Done)
}

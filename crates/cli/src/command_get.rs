//! `tp get`: prints the value of one key.

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
    /// Read the key and print the value in hexadecimal.
    #[arg(long)]
    hex: bool,
}

/// Prints the value and a newline; exit 1 if the key is missing.
pub fn run(arguments: &Arguments, output: &mut Output) -> Result<Ending> {
    let (env, database) = arguments.at.open(output)?;
    let (name, spelling) = (&arguments.at.database, Spelling::of(arguments.hex));
    let key = Key::read(&database, name, &arguments.key, spelling)?;
    let mut result = records::result(name, &key, spelling);
    let Some(value) = records::get(&env, &database, &key)? else {
        return records::missing(output, result, "found", &key, name);
    };
    spelling.enter(&mut result, "value", &value);
    result.insert("found".to_string(), true.into());
    output.object(&result)?;
    if !output.is_json() {
        output.bytes(&spelling.write(&value))?;
        output.bytes(b"\n")?;
    }
    Ok(Ending::Done)
}

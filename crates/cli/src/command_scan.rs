//! `tp scan`: prints keys and values in order.

use std::ffi::OsString;

use clap::Args;
use libtp_console::numbers::whole_number;
use serde_json::json;

use crate::environment::DatabaseArguments;
use crate::failure::{Ending, Result};
use crate::in_order::{each_record, Range, Reading};
use crate::output::Output;
use crate::records::Key;
use crate::spelling::{Object, Spelling};

/// The command line.
#[derive(Args)]
pub struct Arguments {
    #[command(flatten)]
    at: DatabaseArguments,
    /// Key to begin at; if there is no such key, the scan begins at the next key. Default: the first key, or with
    /// --reverse the last.
    key: Option<OsString>,
    /// Stop before this key. Default: print to the end.
    #[arg(long, value_name = "KEY")]
    to: Option<OsString>,
    /// Read backward, from the last key to the first.
    #[arg(long)]
    reverse: bool,
    /// Stop after this number of records. Default: print all.
    #[arg(long, value_name = "RECORDS", value_parser = whole_number::<u64>)]
    limit: Option<u64>,
    /// Read keys, and print keys and values, in hexadecimal.
    #[arg(long)]
    hex: bool,
    #[command(flatten)]
    reading: Reading,
}

/// Prints a line for each record: key, tab, value.
pub fn run(arguments: &Arguments, output: &mut Output) -> Result<Ending> {
    let (env, database) = arguments.at.open(output)?;
    let (name, spelling) = (&arguments.at.database, Spelling::of(arguments.hex));
    let read = |word: &Option<OsString>| -> Result<Option<Key>> {
        word.as_ref().map(|word| Key::read(&database, name, word, spelling)).transpose()
    };
    let range = Range { from: read(&arguments.key)?, to: read(&arguments.to)?, reverse: arguments.reverse };
    let limit = arguments.limit.unwrap_or(u64::MAX);
    let mut records = 0;
    if limit > 0 {
        each_record(&env, &database, (&range, arguments.reading), &mut |key, value| {
            write(output, key, value, spelling)?;
            records += 1;
            Ok(records < limit)
        })?;
    }
    output.object(&json!({ "database": name, "records": records }))?;
    Ok(Ending::Done)
}

fn write(output: &mut Output, key: &Key, value: &[u8], spelling: Spelling) -> Result<()> {
    if output.is_json() {
        let mut object = Object::new();
        key.enter(spelling, &mut object);
        spelling.enter(&mut object, "value", value);
        return output.object(&object);
    }
    output.bytes(&key.write(spelling))?;
    output.bytes(b"\t")?;
    output.bytes(&spelling.write(value))?;
    output.bytes(b"\n")
}

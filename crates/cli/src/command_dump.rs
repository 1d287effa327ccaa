//! `tp dump`: writes a database as the text that `db_load` and `tp load` read.

use clap::Args;
use libtp::{Database, Stored};
use serde_json::json;

use crate::dump_format::{write_datum, write_end};
use crate::dump_header::{write_header, DumpType, Header};
use crate::dumped_pages;
use crate::environment::DatabaseArguments;
use crate::failure::{Ending, Result};
use crate::in_order::{each_record, Range, Reading};
use crate::output::{cannot_write, note, Output};
use crate::progress::Progress;
use crate::records::Key;
use crate::spelling::{Object, Spelling};

/// Records between two updates of the progress bar.
const SHOW_EVERY: u64 = 1024;

/// The command line.
#[derive(Args)]
pub struct Arguments {
    #[command(flatten)]
    at: DatabaseArguments,
    /// For a database of records by number, write the number of each record, too. A load of such a dump gives each
    /// record its old number, even if some smaller numbers have no record.
    #[arg(short = 'k', long)]
    keys: bool,
    #[command(flatten)]
    reading: Reading,
}

/// Writes the dump to standard output. With `--json` writes an object for each record instead, with its bytes in
/// hexadecimal.
pub fn run(arguments: &Arguments, output: &mut Output) -> Result<Ending> {
    let env = arguments.at.environment.open(output)?;
    let (database, keys_as_stored) = match env.stored(&arguments.at.database)? {
        Stored::Records(database) => (database, false),
        Stored::Encoded(database) => (database, true),
        Stored::Pages(file) => return dumped_pages::dump(&env, &file, output),
    };
    let mut header = Header { keys_as_stored, ..header_of(&database) };
    header.keys |= arguments.keys;
    let kind = header.kind;
    let bar = Progress::endless(output.may_draw() && !output.is_terminal(), "records written");
    let as_text = !output.is_json();
    if as_text {
        write_header(output, &header).map_err(cannot_write)?;
    }
    let (mut records, mut gaps) = (0, 0);
    each_record(&env, &database, (&Range::default(), arguments.reading), &mut |key, value| {
        records += 1;
        if records % SHOW_EVERY == 0 {
            bar.set(records);
        }
        if let Key::Number(number) = key {
            gaps = number - records;
        }
        match (as_text, key) {
            (false, _) => write_object(output, key, value)?,
            (true, Key::Bytes(key)) => {
                write_datum(output, key).and_then(|()| write_datum(output, value)).map_err(cannot_write)?
            }
            (true, Key::Number(number)) => {
                if arguments.keys {
                    write_datum(output, number.to_string().as_bytes()).map_err(cannot_write)?;
                }
                write_datum(output, value).map_err(cannot_write)?;
            }
        }
        Ok(true)
    })?;
    if as_text {
        write_end(output).map_err(cannot_write)?;
    }
    drop(bar);
    if gaps > 0 && as_text && !arguments.keys {
        note(format_args!("{gaps} numbers have no record. Without --keys the dump has no numbers, so after a load, the records after these gaps have smaller numbers"));
    }
    let mut result = json!({ "database": arguments.at.database, "type": kind.name(), "records": records });
    if keys_as_stored {
        result["keys"] = "stored".into();
    }
    output.object(&result)?;
    Ok(Ending::Done)
}

/// Returns the header of the database's dump.
fn header_of(database: &Database) -> Header {
    let named = |name: Option<&str>| name.map(str::to_owned);
    match database {
        Database::Btree(db) => Header { order: named(db.order_name()), ..Header::of(DumpType::Btree) },
        Database::Multi(db) | Database::Index(db) => {
            let (duplicates, order) = (db.duplicates(), named(db.order_name()));
            Header { duplicates, order, ..Header::of(DumpType::Btree) }
        }
        Database::Recno(db) => {
            Header { record_bytes: usize::try_from(db.record_bytes()).ok(), ..Header::of(DumpType::Recno) }
        }
        Database::Hash(_) => Header::of(DumpType::Hash),
        Database::List(_) => Header::of(DumpType::List),
    }
}

fn write_object(output: &mut Output, key: &Key, value: &[u8]) -> Result<()> {
    let mut object = Object::new();
    key.enter(Spelling::Hex, &mut object);
    Spelling::Hex.enter(&mut object, "value", value);
    output.object(&object)
}

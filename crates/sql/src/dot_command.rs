//! The commands of the shell: lines that begin with a dot.

use std::io::Write;
use std::path::{Path, PathBuf};

use libtp_console::failure::{Failure, Result};

use crate::csv_import::{self, Shape};
use crate::session::Session;
use crate::{dump, sentence, statements};

/// The commands with their arguments and their purposes, as `.help` lists them.
pub const COMMANDS: [(&str, &str, &str); 15] = [
    (".help", "", "list these commands"),
    (".tables", "[PATTERN]", "list tables and views, or those whose names are LIKE PATTERN"),
    (".schema", "[PATTERN]", "print the statements that created tables, indices, triggers and views"),
    (".indexes", "[TABLE]", "list indices"),
    (".import", "[--tabs] [--skip N] FILE TABLE", "add the records of a CSV file to a table; creates a missing table"),
    (".dump", "[TABLE..]", "print statements that recreate the database, or the tables TABLE"),
    (".mode", "MODE", "print rows as column, table, csv, json, line or list"),
    (".headers", "on|off", "print the names of the columns before the rows, in the modes csv and list"),
    (".timer", "on|off", "print the time of each statement"),
    (".explain", "STATEMENT", "print the plan of a statement"),
    (".output", "[FILE]", "print rows to a file; without FILE, to standard output"),
    (".read", "FILE", "run the statements of a file"),
    (".open", "[NAME]", "open another database; without NAME, one in memory"),
    (".quit", "", "leave the shell"),
    (".exit", "", "leave the shell"),
];

/// The next step after a command.
pub enum Next {
    /// Run the next command.
    GoesOn,
    /// Run the commands of this file.
    Reads(PathBuf),
    /// End the shell.
    Leaves,
}

/// Runs a command.
pub fn run(session: &mut Session<'_>, line: &str) -> Result<Next> {
    let words = words(line)?;
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        [".quit" | ".exit"] => return Ok(Next::Leaves),
        [".read", file] => return Ok(Next::Reads(file.into())),
        [".open"] => session.reopen(None)?,
        [".open", name] => session.reopen(Some(Path::new(name)))?,
        [".output"] => session.sink.turn_to(None)?,
        [".output", file] => session.sink.turn_to(Some(Path::new(file)))?,
        [".mode", mode] => session.settings.mode = mode.parse().map_err(Failure::Usage)?,
        [".headers", setting] => session.settings.has_headers = is_on(setting)?,
        [".timer", setting] => session.settings.has_timer = is_on(setting)?,
        [".help"] => help(session)?,
        _ => {
            let interrupts = session.interrupts.clone();
            let _running = interrupts.while_running(&[&session.connection]);
            at_database(session, line, &words)?;
        }
    }
    Ok(Next::GoesOn)
}

/// Runs a command that reads or writes the database.
fn at_database(session: &mut Session<'_>, line: &str, words: &[&str]) -> Result<()> {
    match words {
        [".tables"] => list(session, TABLES, "%"),
        [".tables", pattern] => list(session, TABLES, pattern),
        [".indexes"] => list(session, INDEXES, "%"),
        [".indexes", table] => list(session, INDEXES, table),
        [".schema"] => list(session, SCHEMA, "%"),
        [".schema", pattern] => list(session, SCHEMA, pattern),
        [".dump", tables @ ..] => {
            let tables: Vec<String> = tables.iter().map(|table| (*table).to_owned()).collect();
            dump::run(&session.connection, &tables, &mut session.sink)
        }
        [".explain", _, ..] => {
            let statement = line.trim_start().trim_start_matches(".explain");
            let plan = format!("EXPLAIN QUERY PLAN {statement}");
            statements::run(&session.connection, &plan, &session.settings, &mut session.sink)
        }
        [".import", options @ .., file, table] => {
            let rows = csv_import::run(&session.connection, Path::new(file), table, &shape(options)?)?;
            print_text(session, &format!("{rows} rows were added to {table}"))
        }
        _ => Err(unknown(words)),
    }
}

fn unknown(words: &[&str]) -> Failure {
    let command = words.first().copied().unwrap_or(".");
    Failure::Usage(match COMMANDS.iter().find(|(name, _, _)| *name == command) {
        Some((name, takes, _)) => format!("usage: {}; nothing was done", format!("{name} {takes}").trim_end()),
        None => format!("there is no command {command}; nothing was done. `.help` lists the commands"),
    })
}

fn help(session: &mut Session<'_>) -> Result<()> {
    for (name, takes, purpose) in COMMANDS {
        print_text(session, &format!("{:42}  {purpose}", format!("{name} {takes}")))?;
    }
    Ok(())
}

fn print_text(session: &mut Session<'_>, text: &str) -> Result<()> {
    writeln!(session.sink, "{text}").map_err(|error| session.sink.failed(error))
}

/// Selects the names of tables and views, except the shadow tables of virtual tables.
const TABLES: &str = "SELECT iif(schema = 'main', '', schema || '.') || name FROM pragma_table_list
    WHERE name LIKE ?1 AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' AND type <> 'shadow' ORDER BY 1";
const INDEXES: &str = "SELECT name FROM sqlite_schema WHERE type = 'index' AND tbl_name LIKE ?1
    UNION ALL SELECT 'temp.' || name FROM temp.sqlite_schema WHERE type = 'index' AND tbl_name LIKE ?1 ORDER BY 1";
const SCHEMA: &str = "SELECT sql || ';' FROM sqlite_schema WHERE sql IS NOT NULL AND tbl_name LIKE ?1
    UNION ALL SELECT sql || ';' FROM temp.sqlite_schema WHERE sql IS NOT NULL AND tbl_name LIKE ?1";

/// Prints the texts that a query returns. `pattern` is the query's parameter.
fn list(session: &mut Session<'_>, sql: &str, pattern: &str) -> Result<()> {
    let found = {
        let mut statement = session.connection.prepare(sql).map_err(sentence)?;
        let rows = statement.query_map([pattern], |row| row.get(0));
        rows.and_then(Iterator::collect::<std::result::Result<Vec<String>, _>>).map_err(sentence)?
    };
    found.iter().try_for_each(|text| print_text(session, text))
}

fn is_on(setting: &str) -> Result<bool> {
    match setting {
        "on" => Ok(true),
        "off" => Ok(false),
        other => Err(Failure::Usage(format!("{other:?} is neither `on` nor `off`; nothing was changed"))),
    }
}

fn shape(options: &[&str]) -> Result<Shape> {
    let mut shape = Shape { between: b',', skips: 0 };
    let mut options = options.iter();
    while let Some(option) = options.next() {
        match *option {
            "--csv" => shape.between = b',',
            "--tabs" => shape.between = b'\t',
            "--skip" => {
                let number = options.next().and_then(|number| number.parse().ok());
                shape.skips = number.ok_or_else(|| unknown(&[".import"]))?;
            }
            _ => return Err(unknown(&[".import"])),
        }
    }
    Ok(shape)
}

/// Splits a line at spaces that are outside single or double quotes. Removes semicolons from the end of the line first.
fn words(line: &str) -> Result<Vec<String>> {
    let (mut words, mut rest) = (Vec::new(), line.trim().trim_end_matches(';').trim_end());
    while let Some(first) = rest.chars().next() {
        let (word, after) = match first {
            '"' | '\'' => rest[1..].split_once(first).ok_or_else(|| {
                Failure::Usage(format!("the quote before {:?} is not closed; nothing was done", &rest[1..]))
            })?,
            _ => rest.split_once(char::is_whitespace).unwrap_or((rest, "")),
        };
        words.push(word.to_owned());
        rest = after.trim_start();
    }
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spaces_in_quotes_do_not_split_a_word() {
        assert_eq!(words(" .import 'a b.csv'  \"t\";\n").expect("each quote is closed"), [".import", "a b.csv", "t"]);
        assert!(words(".read 'a").is_err());
        assert_eq!(words(".").expect("each quote is closed"), ["."]);
    }
}

//! `tp-sql`: SQL on environments and on files of SQLite, from the command line; `tp sql ARGUMENTS` starts it.
//!
//! The program has SQLite on libtp inside (`libtp-sqlite`). Without an option it is a shell; `--import` and `--export`
//! move a database between a file and an environment, and `--check` reports which SQLite another program has.
//!
//! Exit code: 0: done; 1: failed; 2: wrong usage; 130: ended by Ctrl-C; 141: the reader closed standard output.
#![deny(unsafe_code)]

mod comparison;
mod complete;
mod completion;
mod copy;
mod csv_import;
mod dot_command;
mod dump;
mod editor;
mod elf;
mod export;
mod format;
mod import;
mod interrupts;
mod linker;
mod names;
mod program_check;
mod session;
mod shell;
mod sink;
mod statements;
mod tables;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use libtp_console::failure::{Ending, Failure, Result};
use libtp_console::numbers::wait_seconds;
use libtp_console::output::Output;

use crate::format::Mode;
use crate::interrupts::Work;

/// Work with SQL on an environment, which many processes may write at once, or on a file of SQLite.
///
/// NAME is an environment if it ends in .tp, if it is the directory of an environment, or if it is a URI with ?tp=1.
/// Without NAME the database is in memory. Without SQL the statements are read from standard input; `.help` lists the
/// commands of the shell.
#[derive(Parser)]
#[command(name = "tp-sql", bin_name = "tp sql", version)]
struct CommandLine {
    /// Print each row as an object of JSON, one on each line.
    #[arg(short = 'j', long)]
    json: bool,
    /// How rows are printed: column, table, csv, json, line or list.
    #[arg(long, value_name = "MODE")]
    mode: Option<Mode>,
    /// Print the names of the columns first, in the modes csv and list.
    #[arg(long)]
    headers: bool,
    /// Refuse every change.
    #[arg(long)]
    read_only: bool,
    /// Longest wait for a lock of another program, in seconds.
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = wait_seconds)]
    wait: Duration,
    /// Copy a file of SQLite into a new environment, NAME or the file's name with .tp, check the copy, and rename the
    /// file to FILE.imported.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["export", "sql", "read_only"])]
    import: Option<PathBuf>,
    /// Copy a database into a new file of SQLite, and check the copy.
    #[arg(long, num_args = 2, value_names = ["NAME", "FILE"], conflicts_with_all = ["name", "sql"])]
    export: Option<Vec<PathBuf>>,
    /// Report which SQLite programs have: their paths or names, or directories of libraries.
    #[arg(long, num_args = 1.., value_name = "PROGRAM", conflicts_with_all = ["name", "sql", "import", "export"])]
    check: Option<Vec<PathBuf>>,
    /// The database.
    name: Option<PathBuf>,
    /// Statements and commands of the shell, each an argument.
    sql: Vec<String>,
}

fn main() -> ExitCode {
    let arguments = CommandLine::parse();
    let mut output = Output::new(arguments.json);
    let done = run(&arguments, &mut output).and_then(|ending| output.finish().map(|()| ending));
    match done {
        Ok(ending) => ending.exit_code(),
        Err(failure) => {
            output.failed(&failure);
            failure.exit_code()
        }
    }
}

fn run(arguments: &CommandLine, output: &mut Output) -> Result<Ending> {
    if let Some(file) = &arguments.import {
        return import::run(file, arguments.name.as_deref(), arguments.wait, output);
    }
    if let Some([name, file]) = arguments.export.as_deref() {
        return export::run(name, file, arguments.wait, output);
    }
    if let Some(programs) = &arguments.check {
        return program_check::run(programs, output);
    }
    let mut session = session::Session::open(arguments.name.as_deref(), arguments.read_only, arguments.wait, output)?;
    if arguments.json {
        session.settings.mode = Mode::Objects;
    }
    session.settings.has_headers |= arguments.headers;
    session.settings.mode = arguments.mode.unwrap_or(session.settings.mode);
    if arguments.sql.is_empty() && editor::is_wanted() {
        return editor::run(&mut session);
    }
    session.interrupts.listen(Work::Script)?;
    if arguments.sql.is_empty() {
        return shell::run_standard_input(&mut session);
    }
    for text in &arguments.sql {
        if !shell::run(&mut session, text)? {
            break;
        }
    }
    session.finish()
}

/// Returns a failure of the database as a sentence.
fn sentence(error: rusqlite::Error) -> Failure {
    use rusqlite::Error;
    Failure::Failed(match error {
        Error::SqlInputError { msg, sql, offset, .. } => {
            match usize::try_from(offset).ok().and_then(|at| sql.get(at..)) {
                Some(rest) => format!("{msg}, before {:?}", rest.chars().take(40).collect::<String>()),
                None => msg,
            }
        }
        Error::SqliteFailure(_, Some(sentence)) => sentence,
        other => other.to_string(),
    })
}

use libtp_sqlite::rusqlite;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        <CommandLine as clap::CommandFactory>::command().debug_assert();
    }
}

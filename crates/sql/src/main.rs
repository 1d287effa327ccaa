//! `tp-sql`: SQL on environments and on SQLite files, from the command line. `tp sql ARGUMENTS` starts this program.
//!
//! The program is linked to SQLite on libtp (`libtp-sqlite`). By default it is a shell. `--import` and `--export` copy
//! a database between a file and an environment. `--check` reports which SQLite another program uses.
//!
//! Exit codes: 0: done. 1: failed, or `--check` found another SQLite or no SQLite. 2: wrong usage. 130: ended by
//! Ctrl-C. 141: the reader closed standard output.
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

/// Work with SQL on an environment, which many processes may write at once, or on an SQLite file.
///
/// NAME is an environment if it ends in .tp, if it is the directory of an environment, or if it is a URI with ?tp=1.
/// Without NAME the database is in memory. Without SQL the shell reads statements from standard input. `.help` lists
/// the commands of the shell.
#[derive(Parser)]
#[command(name = "tp-sql", bin_name = "tp sql", version)]
struct CommandLine {
    /// Print each row as a JSON object on a line of its own.
    #[arg(short = 'j', long)]
    json: bool,
    /// The format of printed rows: column, table, csv, json, line or list.
    #[arg(long, value_name = "MODE")]
    mode: Option<Mode>,
    /// Print the names of the columns before the rows, in the modes csv and list.
    #[arg(long)]
    headers: bool,
    /// Refuse every change.
    #[arg(long)]
    read_only: bool,
    /// The longest time, in seconds, to wait for a lock that another program holds.
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = wait_seconds)]
    wait: Duration,
    /// Copy an SQLite file into a new environment, check the copy, and rename the file to FILE.imported. The
    /// environment is NAME. Without NAME, its name is that of FILE with the suffix replaced by .tp.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["export", "sql", "read_only"])]
    import: Option<PathBuf>,
    /// Copy the database NAME into a new SQLite file, and check the copy.
    #[arg(long, num_args = 2, value_names = ["NAME", "FILE"], conflicts_with_all = ["name", "sql"])]
    export: Option<Vec<PathBuf>>,
    /// Report which SQLite each PROGRAM uses. PROGRAM is a path, a name in PATH, or a directory of libraries.
    #[arg(long, num_args = 1.., value_name = "PROGRAM", conflicts_with_all = ["name", "sql", "import", "export"])]
    check: Option<Vec<PathBuf>>,
    /// The database.
    name: Option<PathBuf>,
    /// Statements and commands of the shell. Each command is an argument of its own.
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

/// Converts an error of the database into a failure with a readable text.
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

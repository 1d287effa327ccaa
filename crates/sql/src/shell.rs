//! The shell: runs statements and commands from an argument, from standard input or from a file.
//!
//! A text or file is run up to the first statement that fails.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use libtp_console::failure::{Ending, Failure, Result};

use crate::complete::is_complete;
use crate::dot_command::{self, Next};
use crate::session::Session;
use crate::statements;

/// The limit for nested `.read` commands. Without a limit, two files that read each other would be read for ever.
const DEPTH_MAX: usize = 16;

/// Runs a shell command, or statements. Returns `false` if a command ends the shell.
pub fn run(session: &mut Session<'_>, text: &str) -> Result<bool> {
    run_in(session, text, 0)
}

/// Runs a text inside `depth` nested `.read` commands.
fn run_in(session: &mut Session<'_>, text: &str, depth: usize) -> Result<bool> {
    let begin = text.trim_start();
    let next = match begin.starts_with('.') {
        true => dot_command::run(session, begin)?,
        false => {
            let _running = session.interrupts.while_running(&[&session.connection]);
            statements::run(&session.connection, text, &session.settings, &mut session.sink)?;
            Next::GoesOn
        }
    };
    session.sink.flush()?;
    match next {
        Next::GoesOn => Ok(true),
        Next::Leaves => Ok(false),
        Next::Reads(path) => run_file(session, &path, depth),
    }
}

/// Runs the statements and commands on standard input.
pub fn run_standard_input(session: &mut Session<'_>) -> Result<Ending> {
    run_lines(session, "standard input", std::io::stdin().lock(), 0)?;
    session.finish()
}

/// Runs a file. Returns `false` if a command in the file ends the shell.
fn run_file(session: &mut Session<'_>, path: &Path, depth: usize) -> Result<bool> {
    let name = path.display().to_string();
    if depth == DEPTH_MAX {
        return Err(Failure::Failed(format!("{name} was not read: `.read` is already nested {DEPTH_MAX} files deep")));
    }
    let file = File::open(path).map_err(Failure::doing(format!("open {name}")))?;
    run_lines(session, &name, BufReader::new(file), depth + 1)
}

fn run_lines(session: &mut Session<'_>, name: &str, mut from: impl BufRead, depth: usize) -> Result<bool> {
    let (mut text, mut line) = (String::new(), Vec::new());
    let (mut number, mut first) = (0_u64, 1_u64);
    loop {
        line.clear();
        let length = from.read_until(b'\n', &mut line).map_err(Failure::doing(format!("read {name}")))?;
        number += 1;
        let part = std::str::from_utf8(&line).map_err(|_| {
            Failure::Failed(format!("{name}, line {number}: the line is not UTF-8 text; it was not run"))
        })?;
        if text.is_empty() {
            first = number;
        }
        text.push_str(part);
        if length > 0 && !is_complete(&text) {
            continue;
        }
        let continues = run_in(session, &text, depth).map_err(|failure| at_line(name, first, failure))?;
        if length == 0 || !continues {
            return Ok(continues);
        }
        text.clear();
    }
}

fn at_line(name: &str, line: u64, failure: Failure) -> Failure {
    match failure {
        Failure::OutputClosed => failure,
        other => Failure::Failed(format!("{name}, line {line}: {other}")),
    }
}

//! `tp shell`: runs commands line by line in one process, for records, transactions, and the primitive lock and buffer
//! calls.
//!
//! Paper: LIBTP 5.1.1's command-line interface. Figure 4 compares reading a record by one call with reading it by calls
//! of the lock and buffer managers. Each command is answered in one line, or with `--json` in one object.

use std::io::{BufRead, BufReader, IsTerminal};

use clap::Args;

use crate::environment::EnvironmentArgument;
use crate::failure::{Ending, Failure, Result};
use crate::output::{note, Output};
use crate::shell_command::Command;
use crate::shell_session::ShellSession;
use crate::spelling::Spelling;

/// The command line.
#[derive(Args)]
pub struct Arguments {
    #[command(flatten)]
    environment: EnvironmentArgument,
    /// Read and print keys, values and bytes in hexadecimal.
    #[arg(long)]
    hex: bool,
}

/// Carries out the commands on standard input. At a terminal, a failing command is reported, and the next command is
/// read. Otherwise a failing command ends the session, and the open transaction is aborted.
pub fn run(arguments: &Arguments, output: &mut Output) -> Result<Ending> {
    let env = arguments.environment.open_or_create(output)?;
    let mut session = ShellSession::new(&env, Spelling::of(arguments.hex));
    let is_watched = std::io::stdin().is_terminal();
    let mut input = BufReader::with_capacity(64 << 10, std::io::stdin().lock());
    let (mut line, mut number) = (Vec::new(), 0_u64);
    loop {
        // The answers are sent now, to a program that may wait for them before its next command.
        if input.buffer().is_empty() {
            output.flush()?;
        }
        line.clear();
        number += 1;
        if input.read_until(b'\n', &mut line).map_err(Failure::doing("read standard input"))? == 0 {
            break;
        }
        let done = read(&line).and_then(|command| carry_out(&mut session, &command, output));
        match done {
            Ok(true) => {}
            Ok(false) => break,
            Err(failure @ Failure::OutputClosed) => return Err(failure),
            Err(failure) if is_watched => note(failure),
            Err(failure) => {
                let _ = session.end();
                return Err(Failure::Failed(format!("line {number}: {failure}")));
            }
        }
    }
    if session.end()? {
        note("the transaction was not committed, and was aborted");
    }
    Ok(Ending::Done)
}

fn read(line: &[u8]) -> Result<Command> {
    let line = std::str::from_utf8(line).map_err(|_| {
        Failure::Usage("the line is not UTF-8 text; nothing was done. The option --hex takes any bytes".to_owned())
    })?;
    Command::read(line)
}

/// Carries out a command. Returns whether the shell continues.
fn carry_out(session: &mut ShellSession<'_>, command: &Command, output: &mut Output) -> Result<bool> {
    if let Some(answer) = session.execute(command)? {
        output.object(&answer.json)?;
        if !output.is_json() {
            output.bytes(&answer.text)?;
            output.bytes(b"\n")?;
        }
    }
    Ok(*command != Command::Quit)
}

//! The shell at a terminal: line editing, history, completion, statements of several lines.
//!
//! After a statement fails, the shell reports the error and reads the next statement. Ctrl-C discards the line, or
//! interrupts the running statement.

use std::fs;
use std::io::IsTerminal;
use std::path::PathBuf;

use libtp_console::failure::{Ending, Failure, Result};
use libtp_console::output::note;
use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::FileHistory;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{CompletionType, Config, Context, Editor, Helper};

use crate::complete::is_complete;
use crate::completion;
use crate::interrupts::Work;
use crate::session::Session;
use crate::shell;

/// The highest number of lines in the history.
const HISTORY_MAX: usize = 10_000;

/// Returns whether standard input and standard output are terminals.
pub fn is_wanted() -> bool {
    std::io::stdin().is_terminal() && std::io::stdout().is_terminal()
}

/// Reads and runs statements until `.quit` or the end of input.
pub fn run(session: &mut Session<'_>) -> Result<Ending> {
    let config = Config::builder()
        .completion_type(CompletionType::List)
        .max_history_size(HISTORY_MAX)
        .map_err(terminal)?
        .history_ignore_space(true)
        .build();
    let mut editor: Editor<Words, FileHistory> = Editor::with_config(config).map_err(terminal)?;
    editor.set_helper(Some(Words::default()));
    session.interrupts.listen(Work::Lines)?;
    let history = history();
    if let Some(history) = &history {
        // At the first start there is no history file.
        let _ = editor.load_history(history);
    }
    note("`.help` lists the commands of the shell; a statement ends with a semicolon");
    loop {
        if let Some(words) = editor.helper_mut() {
            words.names = completion::names(&session.connection);
        }
        let line = match editor.readline("sql> ") {
            Ok(line) => line,
            Err(ReadlineError::Interrupted) => continue,
            Err(ReadlineError::Eof) => break,
            Err(error) => return Err(terminal(error)),
        };
        if !line.trim().is_empty() {
            // The statement is run even if the history cannot be written.
            let _ = editor.add_history_entry(line.as_str());
            let _ = history.as_ref().map(|history| editor.append_history(history));
        }
        match shell::run(session, &line) {
            Ok(true) => {}
            Ok(false) => break,
            Err(failure @ Failure::OutputClosed) => return Err(failure),
            Err(failure) => note(failure),
        }
    }
    session.finish()
}

fn terminal(error: ReadlineError) -> Failure {
    Failure::Failed(format!("the terminal cannot be read: {error}"))
}

/// Returns the path of the history file, after creating its directory.
fn history() -> Option<PathBuf> {
    let state = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let state = state.or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".local/state")))?;
    let directory = state.join("tp");
    fs::create_dir_all(&directory).ok()?;
    Some(directory.join("sql_history"))
}

/// The editor's helper: completes words, and detects whether a statement is complete.
#[derive(Default)]
struct Words {
    /// The names of tables, views and columns.
    names: Vec<String>,
}

impl Helper for Words {}
impl Hinter for Words {
    type Hint = String;
}
impl Highlighter for Words {}

impl Completer for Words {
    type Candidate = String;

    fn complete(&self, line: &str, at: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<String>)> {
        Ok(completion::complete(line, at, &self.names))
    }
}

impl Validator for Words {
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        Ok(match is_complete(context.input()) {
            true => ValidationResult::Valid(None),
            false => ValidationResult::Incomplete,
        })
    }
}

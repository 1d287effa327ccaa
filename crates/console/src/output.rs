//! Standard output of a command: text for people, or with `--json` one JSON object in each line.

use std::io::{BufWriter, ErrorKind, IsTerminal, Stdout, Write};

use serde::Serialize;

use crate::failure::{Failure, Result};

/// Standard output, buffered.
pub struct Output {
    json: bool,
    out: BufWriter<Stdout>,
}

impl Output {
    /// Opens standard output. If `json`, the command writes only JSON.
    pub fn new(json: bool) -> Output {
        Output { json, out: BufWriter::with_capacity(64 << 10, std::io::stdout()) }
    }

    /// Returns whether only JSON may be written.
    pub fn is_json(&self) -> bool {
        self.json
    }

    /// Returns whether progress may be drawn: standard error is a terminal, and `--json` was not given.
    pub fn may_draw(&self) -> bool {
        !self.json && std::io::stderr().is_terminal()
    }

    /// Returns whether standard output is a terminal.
    pub fn is_terminal(&self) -> bool {
        std::io::stdout().is_terminal()
    }

    /// Writes a line of JSON, if JSON was asked for.
    pub fn object(&mut self, what: &impl Serialize) -> Result<()> {
        if !self.json {
            return Ok(());
        }
        let line = serde_json::to_string(what)
            .map_err(|error| Failure::Failed(format!("the result cannot be written as JSON: {error}")))?;
        self.bytes(line.as_bytes())?;
        self.bytes(b"\n")
    }

    /// Writes a line of text, if JSON was not asked for.
    pub fn line(&mut self, text: impl std::fmt::Display) -> Result<()> {
        if self.json {
            return Ok(());
        }
        let written = writeln!(self.out, "{text}");
        written.map_err(cannot_write)
    }

    /// Writes bytes as they are.
    pub fn bytes(&mut self, bytes: &[u8]) -> Result<()> {
        self.out.write_all(bytes).map_err(cannot_write)
    }

    /// Writes the buffered output, so that readers see it.
    pub fn flush(&mut self) -> Result<()> {
        self.out.flush().map_err(cannot_write)
    }

    /// Writes the buffered output at the end of a command.
    ///
    /// # Errors
    /// `OutputClosed` if the reader closed the pipe. `Failed` if the output cannot be written, as on a full disk: the
    /// command has failed, because its answer is incomplete.
    pub fn finish(&mut self) -> Result<()> {
        self.flush()
    }

    /// Reports a failure on standard error, and with `--json` also as the last line of standard output.
    pub fn failed(&mut self, failure: &Failure) {
        if matches!(failure, Failure::OutputClosed) {
            return;
        }
        note(failure);
        // Standard output itself may be broken; standard error has the message already.
        let _ = self.object(&serde_json::json!({ "error": failure.to_string() })).and_then(|()| self.flush());
    }
}

/// Writes a line of text to standard error. Ignores errors: a closed standard error is no failure of the command.
pub fn note(text: impl std::fmt::Display) {
    let _ = writeln!(std::io::stderr(), "tp: {text}");
}

/// Returns the failure for an error of standard output.
pub fn cannot_write(error: std::io::Error) -> Failure {
    if error.kind() == ErrorKind::BrokenPipe {
        return Failure::OutputClosed;
    }
    Failure::Failed(format!("cannot write to standard output: {error}"))
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.out.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.out.flush()
    }
}

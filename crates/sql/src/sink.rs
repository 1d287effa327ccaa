//! The destination of printed rows: standard output, or a file that `.output` names.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use libtp_console::failure::{Failure, Result};
use libtp_console::output::{cannot_write, Output};

/// The destination of printed rows.
pub struct Sink<'o> {
    standard: &'o mut Output,
    /// The name and the writer of the file that `.output` names.
    file: Option<(String, BufWriter<File>)>,
}

impl<'o> Sink<'o> {
    /// Returns a sink that writes to standard output.
    pub fn new(standard: &'o mut Output) -> Sink<'o> {
        Sink { standard, file: None }
    }

    /// Redirects rows to the file `path`, which is created or truncated. `None` is standard output.
    pub fn turn_to(&mut self, path: Option<&Path>) -> Result<()> {
        self.close()?;
        if let Some(path) = path {
            let name = path.display().to_string();
            let file = File::create(path).map_err(Failure::doing(format!("make {name}")))?;
            self.file = Some((name, BufWriter::new(file)));
        }
        Ok(())
    }

    /// Writes the buffered bytes, and closes the file if one is open.
    pub fn close(&mut self) -> Result<()> {
        let written = self.flush();
        self.file = None;
        written
    }

    /// Writes the buffered bytes.
    pub fn flush(&mut self) -> Result<()> {
        match &mut self.file {
            Some((name, file)) => file.flush().map_err(Failure::doing(format!("write {name}"))),
            None => self.standard.flush(),
        }
    }

    /// Returns the failure for an error of a write.
    pub fn failed(&self, error: std::io::Error) -> Failure {
        match &self.file {
            Some((name, _)) => Failure::Failed(format!("cannot write {name}: {error}")),
            None => cannot_write(error),
        }
    }
}

impl Write for Sink<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        match &mut self.file {
            Some((_, file)) => file.write(bytes),
            // `Output::bytes` returns a `Failure`, but callers need the `io::Error` to recognize a closed pipe.
            None => Write::write(self.standard, bytes),
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        match &mut self.file {
            Some((_, file)) => file.flush(),
            None => Write::flush(self.standard),
        }
    }
}

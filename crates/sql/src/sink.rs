//! Where the rows go: standard output, or a file that `.output` names.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use libtp_console::failure::{Failure, Result};
use libtp_console::output::{cannot_write, Output};

/// The place of the rows.
pub struct Sink<'o> {
    standard: &'o mut Output,
    file: Option<(String, BufWriter<File>)>,
}

impl<'o> Sink<'o> {
    /// Begins with standard output.
    pub fn new(standard: &'o mut Output) -> Sink<'o> {
        Sink { standard, file: None }
    }

    /// Goes on with a file, which is made or emptied, or with standard output.
    pub fn turn_to(&mut self, path: Option<&Path>) -> Result<()> {
        self.close()?;
        if let Some(path) = path {
            let name = path.display().to_string();
            let file = File::create(path).map_err(Failure::doing(format!("make {name}")))?;
            self.file = Some((name, BufWriter::new(file)));
        }
        Ok(())
    }

    /// Ends the file, if there is one.
    pub fn close(&mut self) -> Result<()> {
        let written = self.flush();
        self.file = None;
        written
    }

    /// Writes all that is buffered.
    pub fn flush(&mut self) -> Result<()> {
        match &mut self.file {
            Some((name, file)) => file.flush().map_err(Failure::doing(format!("write {name}"))),
            None => self.standard.flush(),
        }
    }

    /// Returns the failure of a write.
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
            // The output's own method returns an error type that loses the closed pipe.
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

//! The state of the shell between its commands.

use std::path::Path;
use std::time::Duration;

use libtp_console::failure::{Ending, Result};
use libtp_console::output::{note, Output};

use crate::format::Settings;
use crate::interrupts::Interrupts;
use crate::names::{self, Access};
use crate::rusqlite::Connection;
use crate::sink::Sink;

/// SQLite's name for a database in memory, which exists until its connection is closed.
const IN_MEMORY: &str = ":memory:";

/// A connection, the settings of the shell, and the destination of rows.
pub struct Session<'o> {
    /// The database.
    pub connection: Connection,
    /// The format of printed rows, and other settings.
    pub settings: Settings,
    /// The destination of printed rows.
    pub sink: Sink<'o>,
    /// The statements that Ctrl-C ends.
    pub interrupts: Interrupts,
    is_read_only: bool,
    /// The longest wait for a lock.
    wait: Duration,
}

impl<'o> Session<'o> {
    /// Opens a database. Without a name, the database is in memory.
    pub fn open(
        name: Option<&Path>,
        is_read_only: bool,
        wait: Duration,
        output: &'o mut Output,
    ) -> Result<Session<'o>> {
        let connection = connect(name, is_read_only, wait)?;
        let settings = Settings::of(output.is_terminal());
        let interrupts = Interrupts::default();
        Ok(Session { connection, settings, sink: Sink::new(output), interrupts, is_read_only, wait })
    }

    /// Opens another database, and then closes the current one.
    pub fn reopen(&mut self, name: Option<&Path>) -> Result<()> {
        self.connection = self.interrupts.while_opening(|| connect(name, self.is_read_only, self.wait))?;
        Ok(())
    }

    /// Ends the output, and reports a transaction that is still open. Dropping the connection undoes this transaction.
    pub fn finish(&mut self) -> Result<Ending> {
        self.sink.close()?;
        if !self.connection.is_autocommit() {
            note("the open transaction was not committed; it was undone");
        }
        Ok(Ending::Done)
    }
}

fn connect(name: Option<&Path>, is_read_only: bool, wait: Duration) -> Result<Connection> {
    let access = if is_read_only { Access::Read } else { Access::Create };
    names::open(name.unwrap_or(Path::new(IN_MEMORY)), access, wait)
}

//! Ctrl-C ends the running statement, and not the shell.
//!
//! A thread handles the signals. While a statement runs, a signal interrupts the statement through `sqlite3_interrupt`,
//! which also ends a wait for a lock. While a database is being opened, a signal ends the program: the opening may be
//! waiting for another process, and no file has been created yet. Between two statements, a signal ends a script, and
//! has no effect on a shell at a terminal or on a copy.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use libtp_console::failure::{Failure, Result};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::rusqlite::{Connection, InterruptHandle};

/// If a signal has ended a program, shells report the exit code `SIGNAL_CODE` plus the signal's number.
const SIGNAL_CODE: i32 = 128;

/// The kind of work that signals interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Statements that a person enters at a terminal.
    Lines,
    /// Statements from a file, a pipe or the command line.
    Script,
    /// A copy of a database. SIGTERM is handled, too, so that an unfinished copy is removed.
    Copy,
}

/// The operations that a signal ends.
#[derive(Default)]
struct Ends {
    /// The connections whose statements are running.
    handles: Vec<InterruptHandle>,
    /// Whether a database is being opened.
    is_opening: bool,
}

/// The state that the main thread shares with the signal thread.
#[derive(Clone, Default)]
pub struct Interrupts(Arc<Mutex<Ends>>);

/// A mark that statements are running. While this value exists, a signal interrupts the statements.
pub struct Running<'i>(&'i Interrupts);

impl Interrupts {
    /// Starts the signal thread. The editor installs its own handler for SIGINT: create the editor before this call.
    pub fn listen(&self, work: Work) -> Result<()> {
        let signals: &[i32] = if work == Work::Copy { &[SIGINT, SIGTERM] } else { &[SIGINT] };
        let mut signals = Signals::new(signals).map_err(Failure::doing("install the handler for Ctrl-C"))?;
        let there = self.clone();
        std::thread::spawn(move || signals.forever().for_each(|signal| there.arrived(work, signal)));
        Ok(())
    }

    /// Makes signals interrupt the statements of these connections, until the returned value is dropped.
    pub fn while_running(&self, connections: &[&Connection]) -> Running<'_> {
        self.ends().handles.extend(connections.iter().map(|connection| connection.get_interrupt_handle()));
        Running(self)
    }

    /// Runs `open`, which opens a database. A signal ends the program, so `open` must not create files that would have
    /// to be removed.
    pub fn while_opening<T>(&self, open: impl FnOnce() -> T) -> T {
        self.ends().is_opening = true;
        let opened = open();
        self.ends().is_opening = false;
        opened
    }

    fn arrived(&self, work: Work, signal: i32) {
        let ends = self.ends();
        if ends.is_opening || ends.handles.is_empty() && work == Work::Script {
            std::process::exit(SIGNAL_CODE + signal);
        }
        ends.handles.iter().for_each(InterruptHandle::interrupt);
    }

    fn ends(&self) -> MutexGuard<'_, Ends> {
        // A panic cannot leave the state half changed, because each change is a single call.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.ends().handles.clear();
    }
}

//! Ctrl-C ends the running statement, and not the shell.
//!
//! A thread takes the signals. While a statement runs, a signal interrupts it through `sqlite3_interrupt`, which also
//! ends a wait for a lock. While a database is opened, a signal ends the program: an opening may wait for another
//! process, and nothing is made yet. Between two statements a signal ends a script and nothing else.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use libtp_console::failure::{Failure, Result};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::rusqlite::{Connection, InterruptHandle};

/// The exit code that shells show for a program that a signal ended is this and the signal's number.
const SIGNAL_CODE: i32 = 128;

/// The work that signals meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// A person at a terminal.
    Lines,
    /// Statements from a file, a pipe or the command line.
    Script,
    /// A copy of a database. Its remains are removed, so SIGTERM is taken, too.
    Copy,
}

/// What a signal ends: the statements of these connections, or an opening.
#[derive(Default)]
struct Ends {
    handles: Vec<InterruptHandle>,
    is_opening: bool,
}

/// The state that the thread of the signals shares with the work.
#[derive(Clone, Default)]
pub struct Interrupts(Arc<Mutex<Ends>>);

/// As long as this value exists, a signal interrupts statements.
pub struct Running<'i>(&'i Interrupts);

impl Interrupts {
    /// Takes the signals. The editor takes SIGINT for itself when it is made, so this call comes later.
    pub fn listen(&self, work: Work) -> Result<()> {
        let signals: &[i32] = if work == Work::Copy { &[SIGINT, SIGTERM] } else { &[SIGINT] };
        let mut signals = Signals::new(signals).map_err(Failure::doing("take the signal of Ctrl-C"))?;
        let there = self.clone();
        std::thread::spawn(move || signals.forever().for_each(|signal| there.arrived(work, signal)));
        Ok(())
    }

    /// Notes that statements of these connections run.
    pub fn while_running(&self, connections: &[&Connection]) -> Running<'_> {
        self.ends().handles.extend(connections.iter().map(|connection| connection.get_interrupt_handle()));
        Running(self)
    }

    /// Opens databases. Nothing that is made meanwhile must need a removal: a signal ends the program.
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
        // Each change of the state is one call.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.ends().handles.clear();
    }
}

//! Ctrl-C ends the running statement, and not the shell.
//!
//! A thread takes the signals. While a statement runs, a signal interrupts it through `sqlite3_interrupt`, which also
//! ends a wait for a lock. Between two statements a signal ends a script and nothing else.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use libtp_console::failure::{Failure, Result};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::rusqlite::{Connection, InterruptHandle};

/// Exit code that shells show for a program that SIGINT (2) ended.
const SIGINT_CODE: i32 = 128 + 2;

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

/// The connections whose statements a signal ends.
#[derive(Clone, Default)]
pub struct Interrupts(Arc<Mutex<Vec<InterruptHandle>>>);

/// As long as this value exists, a signal interrupts statements.
pub struct Running<'i>(&'i Interrupts);

impl Interrupts {
    /// Takes the signals. The editor takes SIGINT for itself when it is made, so this call comes later.
    pub fn listen(&self, work: Work) -> Result<()> {
        let signals: &[i32] = if work == Work::Copy { &[SIGINT, SIGTERM] } else { &[SIGINT] };
        let mut signals = Signals::new(signals).map_err(Failure::doing("take the signal of Ctrl-C"))?;
        let there = self.clone();
        std::thread::spawn(move || signals.forever().for_each(|_| there.arrived(work)));
        Ok(())
    }

    /// Notes that statements of these connections run.
    pub fn while_running(&self, connections: &[&Connection]) -> Running<'_> {
        self.handles().extend(connections.iter().map(|connection| connection.get_interrupt_handle()));
        Running(self)
    }

    fn arrived(&self, work: Work) {
        let handles = self.handles();
        if handles.is_empty() && work == Work::Script {
            std::process::exit(SIGINT_CODE);
        }
        handles.iter().for_each(InterruptHandle::interrupt);
    }

    fn handles(&self) -> MutexGuard<'_, Vec<InterruptHandle>> {
        // Each change of the list is one call.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.handles().clear();
    }
}

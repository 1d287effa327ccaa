//! Stops a child before each store to shared memory and before each system call.
//!
//! Between two events the child changes nothing that another process can see. So deaths before each event have the same
//! effects as deaths between any two instructions.

use nix::sys::ptrace;
use nix::sys::signal::Signal;
use nix::sys::wait::{waitpid, WaitPidFlag, WaitStatus};
use nix::unistd::Pid;

use crate::stepping::{Effect, Instructions, Memory};

/// The number of rounds of a repeated instruction (`rep movsb`) that count as one event. Each round stores.
const ROUNDS: u64 = 64;

/// The child's next instruction with an effect on other processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A store that may be to shared memory.
    Store,
    /// A system call with this number.
    Call(i64),
}

/// The events of a stopped thread.
pub struct Events {
    thread: Pid,
    instructions: Instructions,
}

impl Events {
    /// Begins at the thread's next instruction.
    pub fn new(thread: Pid) -> Events {
        Events { thread, instructions: Instructions::new(thread, Memory::Shared) }
    }

    /// Lets the thread run up to its next event, and stops it before the event.
    ///
    /// # Errors
    /// The thread stopped for another reason.
    pub fn upcoming(&mut self) -> Result<Event, String> {
        loop {
            match self.instructions.upcoming() {
                Effect::Store => return Ok(Event::Store),
                Effect::Call(number) => return Ok(Event::Call(number)),
                Effect::None | Effect::WriteBack(_) | Effect::Fence => self.step()?,
            }
        }
    }

    /// Lets the event happen that [`Events::upcoming`] returned.
    ///
    /// # Errors
    /// The thread stopped for another reason.
    pub fn pass(&mut self, event: Event) -> Result<(), String> {
        let here = self.address();
        self.step()?;
        if event != Event::Store {
            self.instructions.has_called();
        }
        // After a round of a repeated instruction, the child is at the same instruction again.
        for _ in 1..ROUNDS {
            if self.address() != here {
                break;
            }
            self.step()?;
        }
        Ok(())
    }

    fn step(&mut self) -> Result<(), String> {
        ptrace::step(self.thread, None).map_err(|error| format!("the child cannot be stepped: {error}"))?;
        match waitpid(self.thread, Some(WaitPidFlag::__WALL)) {
            Ok(WaitStatus::Stopped(_, Signal::SIGTRAP)) => Ok(()),
            other => Err(format!("unexpected state of the child: {other:?}")),
        }
    }

    /// Returns the address of the next instruction.
    ///
    /// # Panics
    /// If the thread is not stopped.
    pub fn address(&self) -> u64 {
        ptrace::getregs(self.thread).expect("the thread is stopped").rip
    }

    /// Waits for the end of the thread, whose process was killed. The kernel reports a thread's end to its tracer
    /// before it reports the process's end to the parent.
    pub fn wait_for_end(self) {
        while matches!(waitpid(self.thread, Some(WaitPidFlag::__WALL)), Ok(WaitStatus::Stopped(..))) {}
    }
}

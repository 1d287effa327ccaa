//! Stops a child before each store to shared memory and before each system call.
//!
//! Between two events every other process sees the same memory and files. So a death before each event is a death
//! between any two instructions.

use nix::sys::ptrace;
use nix::sys::signal::Signal;
use nix::sys::wait::{waitpid, WaitPidFlag, WaitStatus};
use nix::unistd::Pid;

use crate::stepping::{Effect, Instructions, Memory};

/// The number of rounds of one repeated instruction (`rep movsb`) that are one event: each of them stores.
const ROUNDS: u64 = 64;

/// The child's next instruction with an effect on other processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A store that may be to shared memory.
    Store,
    /// A system call of this number.
    Call(i64),
}

/// The events of a stopped thread.
pub struct Events {
    thread: Pid,
    instructions: Instructions,
}

impl Events {
    /// Begins where the thread is.
    pub fn new(thread: Pid) -> Events {
        Events { thread, instructions: Instructions::new(thread, Memory::Shared) }
    }

    /// Lets the thread run to its next event. The thread stops before it.
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
    /// As [`Events::upcoming`].
    pub fn pass(&mut self, event: Event) -> Result<(), String> {
        let here = self.address();
        self.step()?;
        if event != Event::Store {
            self.instructions.has_called();
        }
        // Behind a round of a repeated instruction the child is at the same instruction.
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

    /// Waits for the end of the thread, whose process was killed: the kernel tells it to the tracer first.
    pub fn wait_for_end(self) {
        while matches!(waitpid(self.thread, Some(WaitPidFlag::__WALL)), Ok(WaitStatus::Stopped(..))) {}
    }
}

//! A process that the test has started: orders, answers, and its death.

use std::path::Path;
use std::time::Instant;

use libtp_tests::process::{Heard, Process};
use libtp_tests::stepping::{on_one_processor, stopped, Event, Events, Place, MARK};
use nix::unistd::Pid;

use crate::child::{watchdog, BACKGROUND, DIRECTORY, ENTRY, NUMBER};

/// The beginning of the error if the kernel does not let a process be stepped.
pub const UNTRACED: &str = "this system does not let a process be traced: ";

/// The stepped part may take the time of a survivor's work, multiplied by this number.
const LONGEST: u32 = 5;

/// A process that the test has started.
pub struct Member {
    pub number: u64,
    pub process: Process,
}

/// A stepped process at its death.
pub struct Death {
    /// The number of events that the process passed.
    pub events: u64,
    /// Whether the process was at the end of the stepped part.
    pub has_ended: bool,
    /// The process's next instruction.
    pub place: Place,
}

impl Member {
    /// Starts a process, and waits until it has opened the environment.
    pub fn launch(path: &Path, number: u64, has_background: bool) -> Result<Member, String> {
        let variables = [
            (DIRECTORY, path.display().to_string()),
            (NUMBER, number.to_string()),
            (BACKGROUND, u64::from(has_background).to_string()),
        ];
        let member = Member { number, process: Process::start(ENTRY, &variables) };
        member.hears("open")?;
        Ok(member)
    }

    /// Gives the process an order, and waits for the answer.
    pub fn does(&mut self, order: &str, answer: &str) -> Result<(), String> {
        self.process.order(order);
        self.hears(answer).map_err(|what| format!("at the order {order:?}: {what}"))
    }

    /// Waits for the next line, which must be `line`.
    pub fn hears(&self, line: &str) -> Result<(), String> {
        match self.line()? {
            heard if heard == line => Ok(()),
            heard => {
                Err(format!("process {} reports {heard:?}, wanted {line:?}: {}", self.number, self.process.errors()))
            }
        }
    }

    /// Waits for the next line.
    pub fn line(&self) -> Result<String, String> {
        match self.process.hear_within(watchdog()) {
            Heard::Line(line) => Ok(line),
            Heard::Nothing => Err(format!("process {} is stuck: {}", self.number, self.process.errors())),
            Heard::End => Err(format!("process {} has ended: {}", self.number, self.process.errors())),
        }
    }

    /// Gives the process an order with a stepped part; returns the thread, which is stopped before this part.
    pub fn begins(&mut self, order: &str) -> Result<Pid, String> {
        self.process.order(order);
        let line = self.line()?;
        if let Some(why) = line.strip_prefix("untraced ") {
            return Err(format!("{UNTRACED}{why}"));
        }
        let thread = line.strip_prefix("thread ").and_then(|number| number.parse().ok());
        let thread = Pid::from_raw(thread.ok_or_else(|| format!("process {} reports {line:?}", self.number))?);
        stopped(thread);
        Ok(thread)
    }

    /// Steps the stopped thread, and kills the process before the event `at`, or at the end of the stepped part. Calls
    /// `calls` with the number of each system call before the call.
    pub fn dies(
        mut self,
        thread: Pid,
        at: Option<u64>,
        calls: &mut dyn FnMut(i64) -> Result<(), String>,
    ) -> Result<Death, String> {
        let mut events = Events::new(thread);
        let death = on_one_processor(Some(thread), || step(&mut events, thread, at, calls));
        self.process.kill();
        events.wait_for_end();
        self.process.wait();
        death.map_err(|what| format!("{what}: {}", self.process.errors()))
    }
}

/// Steps the thread up to the event `at`, or to the end of the stepped part, and stops it there.
fn step(
    events: &mut Events,
    thread: Pid,
    at: Option<u64>,
    calls: &mut dyn FnMut(i64) -> Result<(), String>,
) -> Result<Death, String> {
    const END: Event = Event::Call(MARK);
    // The stepped part begins after the first mark.
    loop {
        let event = events.upcoming()?;
        events.pass(event)?;
        if event == END {
            break;
        }
    }
    let (mut passed, start) = (0, Instant::now());
    loop {
        if start.elapsed() > LONGEST * watchdog() {
            return Err(format!("the stepped part does not end after {passed} stores and system calls"));
        }
        let event = events.upcoming()?;
        if event == END || at == Some(passed) {
            let place = Place::new(thread, events.address());
            return Ok(Death { events: passed, has_ended: event == END, place });
        }
        if let Event::Call(number) = event {
            calls(number)?;
        }
        events.pass(event)?;
        passed += 1;
    }
}

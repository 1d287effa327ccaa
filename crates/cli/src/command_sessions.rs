//! `tp sessions`: lists the sessions of an environment. For each session it shows the state of the session's process,
//! the latches that the session holds, and the object for which it waits.
//!
//! The command takes no latch and changes nothing. It also does not take the lock under which a process opens and
//! leaves the environment (the door). So it answers even while a stopped process holds latches or the door.

use std::collections::BTreeSet;
use std::fmt;
use std::time::SystemTime;

use libtp::{JoinedSegment, OpeningProcess, ProcessState, SessionState, WaitsFor};
use serde::Serialize;
use serde_json::json;

use crate::environment::EnvironmentArgument;
use crate::failure::{Ending, Result};
use crate::lock_names::LockNames;
use crate::output::Output;

/// The command line.
#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    environment: EnvironmentArgument,
}

/// One session.
#[derive(Serialize)]
pub struct Session {
    pub session: u64,
    pub pid: u32,
    pub process_state: ProcessState,
    pub txn: Option<u64>,
    pub txn_state: Option<String>,
    pub latches: usize,
    /// The latches that the session holds, and for each the time that other sessions have waited for it.
    pub held: Vec<Held>,
    /// The log record whose change is not complete yet.
    pub append_lsn: Option<u64>,
    /// Tasks of the environment that the session has at this moment.
    pub roles: Vec<&'static str>,
    pub waits_for: Option<String>,
    pub wanted: Option<String>,
    pub waits_ms: Option<u64>,
}

/// A latch that is held.
#[derive(Serialize)]
pub struct Held {
    latch: String,
    alone: bool,
    wanted_ms: Option<u64>,
}

/// Prints a line for each session, in all processes.
pub fn run(arguments: &Arguments, output: &mut Output) -> Result<Ending> {
    let env = arguments.environment.open_to_look(output)?;
    let names = LockNames::or_none(&env);
    let sessions = env.sessions();
    for session in &sessions {
        let shown = shown(session, &names);
        output.object(&shown)?;
        output.line(shown)?;
    }
    let count = |state| sessions.iter().filter(|session| session.process_state == state).count();
    let (alive, stopped, dead) = (count(ProcessState::Alive), count(ProcessState::Stopped), count(ProcessState::Dead));
    let opening_process = env.opening_process();
    let segments = env.joined_segments();
    output.object(&json!({
        "segments": &segments, "sessions": sessions.len(), "alive": alive, "stopped": stopped, "dead": dead, "at_the_door": opening_process
    }))?;
    if sessions.is_empty() {
        output.line("no session is at work")?;
    }
    for segment in segments {
        output.line(words(segment))?;
    }
    if let Some(process) = opening_process {
        output.line(door(process))?;
    }
    for pid in stopped_at_work(&sessions, opening_process) {
        output.line(stopped_words(pid, writes_the_log(&sessions, pid)))?;
    }
    output.flush()?;
    Ok(Ending::Done)
}

/// Describes a segment of memory.
fn words(segment: JoinedSegment) -> String {
    let JoinedSegment { segment, unresolved_txn, unresolved_lsn } = segment;
    match (unresolved_txn, unresolved_lsn) {
        (Some(txn), Some(lsn)) => format!(
            "segment of memory {segment}  may not have the commit of transaction {txn} at LSN {lsn} yet: the next transaction that joins the segment completes that commit"
        ),
        _ => format!("segment of memory {segment}  has every commit"),
    }
}

impl Session {
    /// Returns the state of the session's process as a word.
    pub fn state(&self) -> &'static str {
        match self.process_state {
            ProcessState::Alive => "alive",
            ProcessState::Stopped => "stopped",
            ProcessState::Dead => "dead",
        }
    }

    /// Returns the object for which the session waits, with the wanted mode: `X on record 5 of stock`.
    pub fn wait(&self) -> Option<String> {
        let mode = self.wanted.as_ref().map_or(String::new(), |mode| format!("{mode} on "));
        self.waits_for.as_ref().map(|what| format!("{mode}{what}"))
    }
}

impl fmt::Display for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "session {}  process {}  {}", self.session, self.pid, self.state())?;
        match (self.txn, &self.txn_state) {
            (Some(txn), Some(state)) => write!(f, "  txn {txn} {state}")?,
            _ => f.write_str("  idle")?,
        }
        for held in &self.held {
            write!(f, "  holds the latch of {}", held.latch)?;
            if !held.alone {
                f.write_str(", shared")?;
            }
            if let Some(millis) = held.wanted_ms {
                write!(f, ", for which others have waited {millis} ms")?;
            }
        }
        for role in &self.roles {
            write!(f, "  {role}")?;
        }
        if let Some(lsn) = self.append_lsn {
            write!(f, "  in the change of log record {lsn}")?;
        }
        if let Some(what) = self.wait() {
            write!(f, "  waits for {what}")?;
        }
        self.waits_ms.map_or(Ok(()), |millis| write!(f, ", {millis} ms"))
    }
}

/// Converts a session to its form for output.
pub fn shown(session: &SessionState, names: &LockNames) -> Session {
    let (waits_for, wanted) = match &session.waits_for {
        Some(WaitsFor::Lock(name, mode)) => (Some(names.words(*name)), Some(mode.to_string())),
        Some(WaitsFor::Latch(name)) => (Some(format!("the latch of {name}")), None),
        Some(WaitsFor::Flush(lsn)) => (Some(format!("the log to be on disk up to {lsn}")), None),
        Some(WaitsFor::LogSpace(lsn)) => (Some(format!("room in the log up to {lsn}")), None),
        Some(WaitsFor::Other(kind, subject)) => (Some(format!("{subject} of kind {kind}")), None),
        None => (None, None),
    };
    // If the clock was set back during the wait, the result is too short.
    let waited = |since: SystemTime| SystemTime::now().duration_since(since).unwrap_or_default();
    let millis = |since: SystemTime| u64::try_from(waited(since).as_millis()).unwrap_or(u64::MAX);
    let held = |held: &libtp::HeldLatch| Held {
        latch: held.name.clone(),
        alone: held.alone,
        wanted_ms: held.wanted_since.map(millis),
    };
    Session {
        session: session.id.raw(),
        pid: session.pid,
        process_state: session.process_state,
        txn: session.txn.as_ref().map(|txn| txn.id),
        txn_state: session.txn.as_ref().map(|txn| format!("{:?}", txn.state).to_lowercase()),
        latches: session.latches,
        held: session.held.iter().map(held).collect(),
        append_lsn: session.append_lsn,
        roles: session.roles.clone(),
        waits_for,
        wanted,
        waits_ms: session.waits_since.map(millis),
    }
}

fn door(process: OpeningProcess) -> String {
    let state = match process.process_state {
        ProcessState::Alive => "",
        ProcessState::Stopped => ", and is stopped",
        ProcessState::Dead => ", and has ended, but a child that it forked still holds its lock",
    };
    format!("process {} is opening the environment, closing it or rebuilding its shared memory{state}", process.pid)
}

/// Describes a stopped process for which other processes may wait.
fn stopped_words(pid: u32, writes_the_log: bool) -> String {
    match writes_the_log {
        true => format!(
            "process {pid} is stopped while it writes the log: commits of all processes wait for the disk until it continues (kill -CONT {pid}) or ends (kill -KILL {pid})"
        ),
        false => format!(
            "process {pid} is stopped in the middle of a change: other processes may wait until it continues (kill -CONT {pid}) or ends"
        ),
    }
}

/// Returns whether a session of the process leads the flush of the log.
fn writes_the_log(sessions: &[SessionState], pid: u32) -> bool {
    sessions.iter().any(|session| session.pid == pid && session.roles.contains(&"writes the log"))
}

/// Returns the stopped processes for which other processes may wait. Such a process has a latch, a task, a transaction
/// or the door.
pub fn stopped_at_work(sessions: &[SessionState], opening_process: Option<OpeningProcess>) -> BTreeSet<u32> {
    let is_at_it = |session: &&SessionState| {
        session.process_state == ProcessState::Stopped
            && (session.latches > 0 || !session.roles.is_empty() || session.txn.is_some())
    };
    let opening_process =
        opening_process.filter(|process| process.process_state == ProcessState::Stopped).map(|process| process.pid);
    sessions.iter().filter(is_at_it).map(|session| session.pid).chain(opening_process).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(pid: u32, process_state: ProcessState) -> SessionState {
        SessionState {
            id: libtp::SessionId::from_raw(7),
            pid,
            process_state,
            txn: None,
            latches: 0,
            held: Vec::new(),
            append_lsn: None,
            roles: Vec::new(),
            waits_for: None,
            waits_since: None,
        }
    }

    #[test]
    fn only_a_process_that_is_stopped_in_the_middle_of_a_change_gets_a_warning() {
        let writes = SessionState { roles: vec!["writes the log"], ..session(1, ProcessState::Stopped) };
        let holds = SessionState { latches: 2, ..session(2, ProcessState::Stopped) };
        let works = SessionState { latches: 2, ..session(3, ProcessState::Alive) };
        let all = [writes, holds, works, session(4, ProcessState::Stopped), session(1, ProcessState::Stopped)];
        assert_eq!(stopped_at_work(&all, None), BTreeSet::from([1, 2]));
        let passes = |pid, process_state| Some(OpeningProcess { pid, process_state });
        assert_eq!(stopped_at_work(&all, passes(5, ProcessState::Alive)), BTreeSet::from([1, 2]));
        assert_eq!(stopped_at_work(&all, passes(5, ProcessState::Stopped)), BTreeSet::from([1, 2, 5]));
        let told = |pid| stopped_words(pid, writes_the_log(&all, pid));
        assert!(told(1).contains("process 1 is stopped while it writes the log"), "{}", told(1));
        assert!(told(2).contains("process 2 is stopped in the middle of a change"), "{}", told(2));
    }

    #[test]
    fn the_process_that_is_opening_the_environment_is_reported() {
        let printed = door(OpeningProcess { pid: 9, process_state: ProcessState::Stopped });
        assert_eq!(
            printed,
            "process 9 is opening the environment, closing it or rebuilding its shared memory, and is stopped"
        );
    }

    #[test]
    fn a_line_has_the_locks_the_task_and_the_wait_of_its_session() {
        let printed = Session {
            session: 7,
            pid: 9,
            process_state: ProcessState::Stopped,
            txn: Some(3),
            txn_state: Some("running".to_string()),
            latches: 1,
            held: vec![Held { latch: "page 2 of stock".to_string(), alone: false, wanted_ms: Some(30) }],
            append_lsn: Some(80),
            roles: vec!["writes the log"],
            waits_for: Some("record 5 of stock".to_string()),
            wanted: Some("X".to_string()),
            waits_ms: Some(12),
        };
        let text = "session 7  process 9  stopped  txn 3 running  holds the latch of page 2 of stock, shared, for \
                    which others have waited 30 ms  writes the log  in the change of log record 80  waits for X on record 5 of stock, 12 ms";
        assert_eq!(printed.to_string(), text);
        let names = LockNames::none();
        assert_eq!(shown(&session(9, ProcessState::Alive), &names).to_string(), "session 7  process 9  alive  idle");
    }
}

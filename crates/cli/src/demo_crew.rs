//! Starts, listens to, kills and replaces the processes of a demonstration.
//!
//! Each process has a pipe, which a thread of this program reads. So all acknowledgements that a process wrote before
//! it was killed arrive, even after its death.

use std::collections::HashSet;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{sync_channel, Receiver, RecvTimeoutError, SyncSender};
use std::time::{Duration, Instant};

use crate::acknowledgements::{Acknowledgement, Receiver as AckReader};
use crate::demo_worker::{self, durability_of};
use crate::failure::{Failure, Result};
use libtp_bank::clock;

/// The time after which a process without an acknowledgement counts as stuck.
const WATCHDOG: Duration = Duration::from_secs(30);
/// The greatest number of unread messages. At this limit the reader threads wait, and then the processes wait for room
/// in their pipes.
const UNREAD: usize = 64;
const SIGKILL: i32 = 9;

/// All processes at work.
pub struct Workers {
    /// Arguments of all processes, except the client's number and the durability.
    words: demo_worker::Arguments,
    workers: Vec<Worker>,
    next_client: u32,
    killed: HashSet<u32>,
    readers: usize,
    news_sender: SyncSender<(u32, News)>,
    news: Receiver<(u32, News)>,
}

/// A process at work.
struct Worker {
    client: u32,
    child: Child,
    has_committed: bool,
    /// Time of the start or of the last acknowledgement.
    heard: Instant,
}

/// A reader thread's message.
enum News {
    Told(Vec<Acknowledgement>),
    /// The pipe has ended: the process is gone.
    Ended,
    Failed(Failure),
}

/// A kill of a process.
pub struct Killed {
    /// The killed client's number.
    pub victim: u32,
    /// Time of the kill, by [`clock`].
    pub at: u64,
    /// The other clients that had committed before the kill.
    pub survivors: Vec<u32>,
}

impl Workers {
    /// Starts `count` processes. Their clients have the numbers from `words.client` on.
    pub fn start(words: demo_worker::Arguments, count: usize) -> Result<Workers> {
        let (news_sender, news) = sync_channel(UNREAD);
        let next_client = words.client;
        let workers = Vec::with_capacity(count);
        let mut crew = Workers { words, workers, next_client, killed: HashSet::new(), readers: 0, news_sender, news };
        for place in 0..count {
            let worker = crew.begin(place)?;
            crew.workers.push(worker);
        }
        Ok(crew)
    }

    /// Starts a process for the place `place` among the processes, with a new client number.
    fn begin(&mut self, place: usize) -> Result<Worker> {
        let program = std::env::current_exe().map_err(Failure::doing("find this program's own file"))?;
        let client = self.next_client;
        self.next_client += 1;
        let words = demo_worker::Arguments { client, durability: durability_of(place), ..self.words.clone() };
        let mut command = Command::new(program);
        command.args(words.words()).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(Failure::doing("start a process"))?;
        let pipe = child.stdout.take().expect("the child was started with a pipe");
        let news_sender = self.news_sender.clone();
        std::thread::spawn(move || listen(client, AckReader::new(pipe), &news_sender));
        self.readers += 1;
        Ok(Worker { client, child, has_committed: false, heard: Instant::now() })
    }

    /// Waits at most `patience` for acknowledgements and passes them to `each`.
    ///
    /// Fails if a process ended without a kill, has acknowledged nothing for too long, or has a pipe that cannot be
    /// read.
    pub fn hear(&mut self, patience: Duration, each: &mut dyn FnMut(u32, &Acknowledgement)) -> Result<()> {
        match self.news.recv_timeout(patience) {
            Ok((client, news)) => self.take_in(client, news, each),
            Err(RecvTimeoutError::Timeout) => self.check_all_are_heard(),
            Err(RecvTimeoutError::Disconnected) => unreachable!("one end of the channel is ours"),
        }
    }

    fn take_in(&mut self, client: u32, news: News, each: &mut dyn FnMut(u32, &Acknowledgement)) -> Result<()> {
        let worker = self.workers.iter_mut().find(|worker| worker.client == client);
        match news {
            News::Told(all) => {
                all.iter().for_each(|acknowledged| each(client, acknowledged));
                if let Some(worker) = worker {
                    worker.heard = Instant::now();
                    worker.has_committed = true;
                }
                return self.check_all_are_heard();
            }
            News::Failed(failure) => return Err(failure),
            News::Ended => self.readers -= 1,
        }
        match worker {
            Some(worker) if !self.killed.contains(&client) => Err(ended(&mut worker.child)),
            _ => Ok(()),
        }
    }

    fn check_all_are_heard(&self) -> Result<()> {
        let Some(silent) = self.workers.iter().find(|worker| worker.heard.elapsed() > WATCHDOG) else { return Ok(()) };
        Err(Failure::Failed(format!(
            "process {} has not committed for {} s; if it still runs, `tp sessions` and `tp locks --wait-for` show the cause",
            silent.child.id(),
            WATCHDOG.as_secs()
        )))
    }

    /// Kills the process at the place `place`, as `kill -9` does, and starts another process in that place.
    pub fn replace(&mut self, place: usize) -> Result<Killed> {
        let worker = &mut self.workers[place];
        let (victim, at) = (worker.client, clock::now_nanos());
        self.killed.insert(victim);
        kill(worker)?;
        let others = self.workers.iter().filter(|worker| worker.client != victim && worker.has_committed);
        let survivors = others.map(|worker| worker.client).collect();
        self.workers[place] = self.begin(place)?;
        Ok(Killed { victim, at, survivors })
    }

    /// Kills all processes at once, and passes on the acknowledgements that they had written.
    pub fn kill_all(mut self, each: &mut dyn FnMut(u32, &Acknowledgement)) -> Result<()> {
        self.killed.extend(self.workers.iter().map(|worker| worker.client));
        let gone = self.workers.iter_mut().map(|worker| worker.child.kill());
        gone.collect::<std::io::Result<()>>().map_err(Failure::doing("kill a process"))?;
        self.workers.iter_mut().try_for_each(kill)?;
        self.workers.clear();
        while self.readers > 0 {
            self.hear(WATCHDOG, each)?;
        }
        Ok(())
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        for worker in &mut self.workers {
            // Both calls fail only if the process has already ended.
            worker.child.kill().ok();
            worker.child.wait().ok();
        }
    }
}

/// Kills a process. Fails if the process has already ended in another way.
fn kill(worker: &mut Worker) -> Result<()> {
    worker.child.kill().map_err(Failure::doing("kill a process"))?;
    let status = worker.child.wait().map_err(Failure::doing("wait for a process"))?;
    match status.signal() {
        Some(SIGKILL) => Ok(()),
        _ => Err(ended(&mut worker.child)),
    }
}

/// Returns the failure of a process that ended without a kill. The process has written its reason to standard error.
fn ended(child: &mut Child) -> Failure {
    let how = child.wait().map_or_else(|error| error.to_string(), |status| status.to_string());
    Failure::Failed(format!("process {} should work until it is killed, but ended without a kill ({how})", child.id()))
}

/// Passes on the acknowledgements of one process, until the process is gone.
fn listen(client: u32, mut reader: AckReader<std::process::ChildStdout>, news_sender: &SyncSender<(u32, News)>) {
    loop {
        let mut acknowledged = Vec::new();
        let news = match reader.receive(&mut |one| acknowledged.push(one)) {
            Ok(true) => News::Told(acknowledged),
            Ok(false) => News::Ended,
            Err(failure) => News::Failed(failure),
        };
        let is_last = !matches!(news, News::Told(_));
        // The channel has lost its receiver only if the demonstration has ended.
        if news_sender.send((client, news)).is_err() || is_last {
            return;
        }
    }
}

//! The death watch: the kernel reports at once that an attached process has died.
//!
//! A survivor that waits for a dead session notices the death without the watch (PROTOCOLS D8, D9). The watch is for
//! dead sessions that no survivor waits for yet. For each other process of this pid namespace, the watch keeps a
//! descriptor that the kernel makes readable when the process's last thread has ended. At each timeout, it checks the
//! processes of other pid namespaces, or all processes if the kernel has no such descriptors. It also checks each new
//! process once its descriptor is open, because the descriptor may belong to another process with the same pid.
//!
//! Not every death is the end of a process: a process that becomes another program (`exec`) keeps its pid and its
//! start time, and loses its memory and its attachment lock. The descriptor does not show that, so the watch checks the
//! attachment locks from time to time, a few at a time.
//!
//! If we die here: only the watch is lost; it changes no shared memory.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rio::planted;
use rustix::event::{eventfd, poll, EventfdFlags, PollFd, PollFlags};
use rustix::process::{pidfd_open, Pid, PidfdFlags};

use crate::attachment::has_sessions;
use crate::attachment_id::AttachmentId;
use crate::liveness::Identity;
use crate::os::timespec;
use crate::ProcessManager;

/// The time between checks of processes with a descriptor: each check is a system call.
const ROLL_CALL: Duration = Duration::from_secs(1);
/// The number of processes that one such check covers. If each of sixty processes checked all others, the checks would
/// take most of their time.
const CALLED: usize = 8;

/// Watches all other attached processes.
pub struct DeathWatch {
    processes: ProcessManager,
    watched: Vec<Watched>,
    /// The time of the last check of processes with a descriptor.
    called: Instant,
    /// The next process to check, as an index into `watched`. Each observer begins at another index.
    next: usize,
    waker: Waker,
}

/// Ends a [`DeathWatch::wait`] early, from any thread.
#[derive(Clone, Debug)]
pub struct Waker(Option<Arc<OwnedFd>>);

struct Watched {
    id: AttachmentId,
    /// `None` if the kernel gives no descriptor, and for a dead process.
    descriptor: Option<OwnedFd>,
    /// Whether the watch has not checked the process yet.
    is_new: bool,
    /// Whether the process's death was reported.
    told: bool,
}

/// The reason why a sleep ended.
enum Happened {
    /// The timeout passed.
    Nothing,
    /// The waker woke the watch, or a signal came.
    Woken,
    /// The kernel reports that these processes have ended.
    Ended(Vec<AttachmentId>),
}

impl DeathWatch {
    /// Begins to watch all processes that are attached now.
    pub fn new(processes: &ProcessManager) -> DeathWatch {
        let waker = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).ok();
        let waker = waker.and_then(|waker| rio::above_standard(waker).ok()).map(Arc::new);
        let called = Instant::now();
        let (processes, next) = (processes.clone(), std::process::id() as usize);
        let mut watch = DeathWatch { processes, watched: Vec::new(), called, next, waker: Waker(waker) };
        watch.look_around();
        watch
    }

    /// Returns the waker, which ends a wait early. A wake is remembered: a wake that comes before a wait ends that wait
    /// at once.
    pub fn waker(&self) -> Waker {
        self.waker.clone()
    }

    /// Waits until a watched process dies, until the waker ends the wait, or until `timeout` has passed. Returns true
    /// if there are dead processes: the watch reports each death once as it happens, and again at each timeout while a
    /// session of the dead process is left.
    pub fn wait(&mut self, timeout: Duration) -> bool {
        self.look_around();
        if self.tell_new_deaths(&[]) {
            return true;
        }
        let happened = self.poll(timeout);
        self.look_around();
        let died = match &happened {
            Happened::Nothing => self.tell_new_deaths(&[]),
            Happened::Woken => false,
            Happened::Ended(ended) => self.tell_new_deaths(ended),
        };
        match happened {
            Happened::Nothing => died || self.has_unrepaired(),
            Happened::Woken => died,
            Happened::Ended(ended) => {
                // A descriptor reports the end of a process only once. From now on a process of this list that seems to
                // live is checked without its descriptor.
                let doubtful = |watched: &&mut Watched| ended.contains(&watched.id);
                self.watched.iter_mut().filter(doubtful).for_each(|watched| watched.descriptor = None);
                died
            }
        }
    }

    /// Sleeps until something happens.
    fn poll(&self, timeout: Duration) -> Happened {
        let watched: Vec<&Watched> = self.watched.iter().filter(|watched| watched.descriptor.is_some()).collect();
        let descriptors =
            watched.iter().filter_map(|watched| watched.descriptor.as_ref()).chain(self.waker.0.as_deref());
        let mut polled: Vec<PollFd<'_>> =
            descriptors.map(|descriptor| PollFd::new(descriptor, PollFlags::IN)).collect();
        match poll(&mut polled, Some(&timespec(timeout))) {
            Ok(0) => Happened::Nothing,
            Ok(_) => {
                self.waker.empty();
                let ready = watched.iter().zip(&polled).filter(|(_, polled)| !polled.revents().is_empty());
                let ended: Vec<AttachmentId> = ready.map(|(watched, _)| watched.id).collect();
                if ended.is_empty() {
                    Happened::Woken
                } else {
                    Happened::Ended(ended)
                }
            }
            // A signal; the caller waits again.
            Err(rustix::io::Errno::INTR) => Happened::Woken,
            // The call failed, perhaps for lack of memory: check the processes at each timeout instead.
            Err(_) => {
                std::thread::sleep(timeout);
                Happened::Nothing
            }
        }
    }

    /// Watches new processes, and forgets processes that have left.
    fn look_around(&mut self) {
        let attachments = &self.processes.0.attachments;
        let there: Vec<(AttachmentId, Identity)> = attachments.others().collect();
        self.watched.retain(|watched| there.iter().any(|(id, _)| *id == watched.id));
        for (id, identity) in there {
            // An attachment of this same process dies when this process dies.
            let known = self.watched.iter().any(|watched| watched.id == id);
            if known || identity == attachments.process().identity() {
                continue;
            }
            let foreign = !attachments.process().shares_pids_with(identity);
            let descriptor = if foreign { None } else { descriptor_of(identity.pid) };
            self.watched.push(Watched { id, descriptor, is_new: true, told: false });
        }
    }

    /// Returns whether there are deaths not reported yet. A descriptor that was opened too late, for another process
    /// with the same pid, does no harm: the start time is checked here, after the opening. A check costs a system call
    /// or two, so only processes that the kernel reports as ended, and processes without a descriptor, are checked.
    /// From time to time the attachment locks of some of the other processes are checked.
    fn tell_new_deaths(&mut self, ended: &[AttachmentId]) -> bool {
        let attachments = &self.processes.0.attachments;
        let calls = self.called.elapsed() >= ROLL_CALL
            && !planted("process: a process that runs another program counts as alive");
        let (count, first) = (self.watched.len(), self.next);
        if calls {
            (self.called, self.next) = (Instant::now(), first.wrapping_add(CALLED));
        }
        let mut some = false;
        let all = self.watched.iter_mut().enumerate();
        for (place, watched) in all.filter(|(_, watched)| !watched.told) {
            let is_new = std::mem::replace(&mut watched.is_new, false);
            let is_doubtful = is_new || watched.descriptor.is_none() || ended.contains(&watched.id);
            let has_exec =
                || calls && is_in_turn(place, first, count) && attachments.is_attachment_lock_free(watched.id);
            if (is_doubtful && !attachments.lives(watched.id)) || has_exec() {
                (watched.told, watched.descriptor) = (true, None);
                some = true;
            }
        }
        some
    }

    fn has_unrepaired(&self) -> bool {
        self.watched.iter().any(|watched| watched.told && has_sessions(&self.processes.0.slots, watched.id))
    }
}

impl Waker {
    /// Ends the present wait, or the next one.
    pub fn wake(&self) {
        if let Some(descriptor) = &self.0 {
            // Fails if there were 2^64 - 2 wakes already.
            let _ = rustix::io::write(descriptor, &1_u64.to_ne_bytes());
        }
    }

    fn empty(&self) {
        if let Some(descriptor) = &self.0 {
            // Fails if there was no wake.
            let _ = rustix::io::read(descriptor, &mut [0; 8]);
        }
    }
}

/// Returns whether a check that begins at the index `first` includes the process at the index `place` of `count`
/// processes.
fn is_in_turn(place: usize, first: usize, count: usize) -> bool {
    (place + count - first % count) % count < CALLED
}

/// Returns a descriptor of the process. Returns `None` if the kernel has no such descriptors, or if the process is
/// gone; the caller then checks the process without a descriptor.
fn descriptor_of(pid: u32) -> Option<OwnedFd> {
    let pid = Pid::from_raw(i32::try_from(pid).ok()?)?;
    rio::above_standard(pidfd_open(pid, PidfdFlags::empty()).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::{is_in_turn, CALLED};

    #[test]
    fn a_round_checks_a_few_processes_and_later_rounds_check_the_others() {
        for count in [1, 2, CALLED, CALLED + 1, 63] {
            let mut asked = vec![0; count];
            let turns = count.div_ceil(CALLED);
            for turn in 0..turns {
                let called = (0..count).filter(|&place| is_in_turn(place, 4711 + turn * CALLED, count));
                let called: Vec<usize> = called.collect();
                assert_eq!(called.len(), CALLED.min(count));
                called.into_iter().for_each(|place| asked[place] += 1);
            }
            assert!(asked.iter().all(|&times| times >= 1), "{count}: {asked:?}");
        }
    }
}

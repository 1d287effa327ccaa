//! Failpoints: named places where shared memory is between two valid states. A test build can die at such a place.
//!
//! Compiled in only with the feature `failpoints`, which only the test suites switch on; without it every call is empty
//! and costs nothing. `LIBTP_FAILPOINT="log: tail published@3"` makes the process kill itself, as `kill -9` does, at
//! its third visit to that place; a program can also call `arm` later. With `!stop` at the end, the process stops
//! there, as `kill -STOP` does, until it gets `SIGCONT`. With `!panic`, the thread panics. With `!sleep=FILE` the
//! thread makes `FILE.asleep` and sleeps until `FILE` exists (at most two minutes), which can outlast every timeout of
//! the library; with `!sleep-panic=FILE` it sleeps the same way, and then panics. `LIBTP_FAILPOINT_HITS=FILE` appends
//! the name of each place to that file at the first visit. It also appends, with the time in nanoseconds, the place
//! where the process died, stopped or panicked.
//!
//! `cargo xtask failpoints` lists the places.

#[cfg(feature = "failpoints")]
mod chosen {
    use std::cell::RefCell;
    use std::collections::HashSet;
    use std::hash::{BuildHasherDefault, Hasher};
    use std::io::Write;
    use std::path::PathBuf;
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
    use std::sync::{OnceLock, PoisonError, RwLock};

    /// The chosen place, the number of visits left until the action, and the action.
    struct Plan {
        name: String,
        passes: AtomicU64,
        action: Action,
    }

    #[derive(Clone, PartialEq, Eq)]
    enum Action {
        Die,
        Stop,
        Panic,
        Sleep(std::path::PathBuf),
        SleepThenPanic(std::path::PathBuf),
    }

    static PLAN: OnceLock<RwLock<Option<Plan>>> = OnceLock::new();
    static HITS: OnceLock<Option<PathBuf>> = OnceLock::new();
    /// True once the environment variables have been read, if no place is chosen and visits are not reported.
    static IDLE: AtomicBool = AtomicBool::new(false);
    /// The number of threads that have a plan in `OWN_PLAN`.
    static PLANS_OF_THREADS: AtomicU64 = AtomicU64::new(0);

    thread_local! {
        /// The plan of this thread alone.
        static OWN_PLAN: RefCell<Option<Plan>> = const { RefCell::new(None) };
        /// The places that this thread has reported, by the addresses of their names.
        static REPORTED: RefCell<HashSet<usize, BuildHasherDefault<OfAddress>>> = RefCell::default();
    }

    /// A hash of an address: a single multiplication. The standard hash took a tenth of the tests' time.
    #[derive(Default)]
    struct OfAddress(u64);

    impl Hasher for OfAddress {
        fn finish(&self) -> u64 {
            self.0
        }

        fn write(&mut self, bytes: &[u8]) {
            bytes.iter().for_each(|byte| self.write_usize(usize::from(*byte)));
        }

        fn write_usize(&mut self, address: usize) {
            self.0 = (self.0 ^ address as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
        }
    }

    fn plan() -> &'static RwLock<Option<Plan>> {
        PLAN.get_or_init(|| RwLock::new(std::env::var("LIBTP_FAILPOINT").ok().as_deref().and_then(parse)))
    }

    /// Parses `NAME@N!ACTION`: the place, the N-th visit (without `@N`, the first), and the action (without `!ACTION`,
    /// death).
    fn parse(text: &str) -> Option<Plan> {
        let (text, action) = match text.split_once('!') {
            Some((text, action)) if action.starts_with("sleep-panic=") => {
                (text, Action::SleepThenPanic(action["sleep-panic=".len()..].into()))
            }
            Some((text, "stop")) => (text, Action::Stop),
            Some((text, "panic")) => (text, Action::Panic),
            Some((text, action)) if action.starts_with("sleep=") => {
                (text, Action::Sleep(action["sleep=".len()..].into()))
            }
            _ => (text, Action::Die),
        };
        let (name, hit) = text.rsplit_once('@').map_or((text, 1), |(name, hit)| (name, hit.parse().unwrap_or(1)));
        (!name.is_empty()).then(|| Plan { name: name.to_string(), passes: AtomicU64::new(hit), action })
    }

    /// Chooses the place at which this process dies, as in `LIBTP_FAILPOINT`. An empty text chooses no place.
    pub fn arm(text: &str) {
        let mut plan = plan().write().unwrap_or_else(PoisonError::into_inner);
        *plan = parse(text);
        // Relaxed: a thread that must die there is started, or woken, after this call. The lock of the plan orders two
        // calls of `arm`.
        IDLE.store(false, Ordering::Relaxed);
    }

    /// As [`arm`], but only for the calls that `work` makes on this thread.
    pub fn armed_here<T>(text: &str, work: impl FnOnce() -> T) -> T {
        OWN_PLAN.set(parse(text));
        // Relaxed: this thread alone relies on it, and sees its own store.
        PLANS_OF_THREADS.fetch_add(1, Ordering::Relaxed);
        let done = work();
        PLANS_OF_THREADS.fetch_sub(1, Ordering::Relaxed);
        OWN_PLAN.set(None);
        done
    }

    /// Marks a place between two valid states of shared memory. If this place is chosen, the chosen action happens
    /// here.
    #[inline]
    pub fn failpoint(name: &'static str) {
        // Relaxed: as in `arm`.
        if !IDLE.load(Ordering::Relaxed) || PLANS_OF_THREADS.load(Ordering::Relaxed) > 0 {
            visit(name);
        }
    }

    fn visit(name: &'static str) {
        let reports = report(name);
        // The access fails only while the thread ends.
        let own = OWN_PLAN.try_with(|plan| plan.borrow().as_ref().and_then(|plan| plan.due(name))).ok().flatten();
        if let Some(action) = own {
            act(action, name);
        }
        if let Some(action) = due(name, reports) {
            act(action, name);
        }
    }

    fn due(name: &str, reports: bool) -> Option<Action> {
        let plan = plan().read().unwrap_or_else(PoisonError::into_inner);
        if plan.is_none() && !reports {
            // Stored under the lock that `arm` takes, so that a later choice is not lost.
            IDLE.store(true, Ordering::Relaxed);
        }
        plan.as_ref()?.due(name)
    }

    impl Plan {
        /// Returns the action, if it is due at this place now.
        fn due(&self, name: &str) -> Option<Action> {
            // Relaxed: the number is only a count. Several threads may come here at once; exactly one of them finds a
            // count of 1.
            (self.name == name && self.passes.fetch_sub(1, Ordering::Relaxed) == 1).then(|| self.action.clone())
        }
    }

    /// Notes the visit to the place. Returns false if visits are not reported.
    fn report(name: &'static str) -> bool {
        if HITS.get_or_init(|| std::env::var_os("LIBTP_FAILPOINT_HITS").map(PathBuf::from)).is_none() {
            return false;
        }
        // The access fails only while the thread ends.
        let is_new = REPORTED.try_with(|seen| seen.borrow_mut().insert(name.as_ptr().addr())).unwrap_or(false);
        if is_new {
            append(&format!("hit {name}\n"));
        }
        true
    }

    /// Appends the line in one write, so that lines of dying processes stay whole. If the file cannot be written, the
    /// place counts as not visited.
    fn append(line: &str) {
        if let Some(Some(path)) = HITS.get() {
            if let Ok(mut file) = std::fs::OpenOptions::new().create(true).append(true).open(path) {
                let _ = file.write_all(line.as_bytes());
            }
        }
    }

    fn act(action: Action, name: &str) {
        use rustix::process::{getpid, kill_process, Signal};
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |now| now.as_nanos());
        // The kill cannot fail. If it failed anyway, `abort` ends the process.
        match action {
            Action::Die => {
                append(&format!("died {now} {name}\n"));
                let _ = kill_process(getpid(), Signal::KILL);
                std::process::abort()
            }
            Action::Stop => {
                append(&format!("stopped {now} {name}\n"));
                let _ = kill_process(getpid(), Signal::STOP);
                // The signal may reach another thread first, and on a busy machine it may come late. This thread must
                // not continue before the signal comes.
                std::thread::sleep(std::time::Duration::from_millis(300));
            }
            Action::Sleep(until) => {
                append(&format!("slept {now} {name}\n"));
                let _ = std::fs::write(until.with_extension("asleep"), b"");
                let begun = std::time::Instant::now();
                while !until.exists() && begun.elapsed() < std::time::Duration::from_secs(120) {
                    std::thread::sleep(std::time::Duration::from_millis(5));
                }
            }
            Action::SleepThenPanic(until) => {
                act(Action::Sleep(until), name);
                act(Action::Panic, name);
            }
            Action::Panic => {
                append(&format!("panicked {now} {name}\n"));
                panic!("at the failpoint {name:?}")
            }
        }
    }
}

#[cfg(feature = "failpoints")]
pub use chosen::{arm, armed_here, failpoint};

/// Marks a place between two valid states of shared memory. Does nothing in this build.
#[cfg(not(feature = "failpoints"))]
#[inline(always)]
pub const fn failpoint(_name: &'static str) {}

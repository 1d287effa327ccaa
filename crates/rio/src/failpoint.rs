//! Failpoints: named places where shared memory is between two valid states. A test build can die at such a place.
//!
//! Compiled in only with the feature `failpoints`, which only the test suites switch on; without it every call is empty
//! and costs nothing. `LIBTP_FAILPOINT="log: tail published@3"` makes the process kill itself, as `kill -9` does, at
//! its third visit to that place; a program can also `arm` itself later. With `!stop` at the end the process stops
//! there, as `kill -STOP` does, until it gets `SIGCONT`; with `!panic` the thread panics. With `!sleep=FILE` the thread
//! makes `FILE.asleep` and sleeps until `FILE` exists (at most two minutes), which can outlast every timeout of the
//! library; with `!sleep-panic=FILE` it sleeps the same way, and then panics. `LIBTP_FAILPOINT_HITS=FILE` appends the
//! name of each place to that file at the first visit. It also appends, with the time in nanoseconds, the place where
//! the process died, stopped or panicked.
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

    /// The chosen place, the number of visits left until the deed, and the deed.
    struct Plan {
        name: String,
        passes: AtomicU64,
        deed: Deed,
    }

    #[derive(Clone, PartialEq, Eq)]
    enum Deed {
        Die,
        Stop,
        Panic,
        Sleep(std::path::PathBuf),
        SleepThenPanic(std::path::PathBuf),
    }

    static PLAN: OnceLock<RwLock<Option<Plan>>> = OnceLock::new();
    static HITS: OnceLock<Option<PathBuf>> = OnceLock::new();
    /// True once the environment has been read, if then no place is chosen and visits are not reported.
    static IDLE: AtomicBool = AtomicBool::new(false);
    /// Number of threads with a plan of their own.
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

    /// Parses `NAME@N!DEED`: the place, the N-th visit (without `@N`, the first), and the deed (without `!DEED`,
    /// death).
    fn parse(text: &str) -> Option<Plan> {
        let (text, deed) = match text.split_once('!') {
            Some((text, deed)) if deed.starts_with("sleep-panic=") => {
                (text, Deed::SleepThenPanic(deed["sleep-panic=".len()..].into()))
            }
            Some((text, "stop")) => (text, Deed::Stop),
            Some((text, "panic")) => (text, Deed::Panic),
            Some((text, deed)) if deed.starts_with("sleep=") => (text, Deed::Sleep(deed["sleep=".len()..].into())),
            _ => (text, Deed::Die),
        };
        let (name, hit) = text.rsplit_once('@').map_or((text, 1), |(name, hit)| (name, hit.parse().unwrap_or(1)));
        (!name.is_empty()).then(|| Plan { name: name.to_string(), passes: AtomicU64::new(hit), deed })
    }

    /// Chooses the place at which this process dies, as in `LIBTP_FAILPOINT`. An empty text chooses no place.
    pub fn arm(text: &str) {
        let mut plan = plan().write().unwrap_or_else(PoisonError::into_inner);
        *plan = parse(text);
        // Relaxed: a thread that must die there is started, or woken, after this call. The lock of the plan orders two
        // calls of `arm`.
        IDLE.store(false, Ordering::Relaxed);
    }

    /// As [`arm`], for the calls that `work` makes: other threads pass the place unharmed.
    pub fn armed_here<T>(text: &str, work: impl FnOnce() -> T) -> T {
        OWN_PLAN.set(parse(text));
        // Relaxed: this thread alone relies on it, and sees its own store.
        PLANS_OF_THREADS.fetch_add(1, Ordering::Relaxed);
        let done = work();
        PLANS_OF_THREADS.fetch_sub(1, Ordering::Relaxed);
        OWN_PLAN.set(None);
        done
    }

    /// Marks a place between two valid states of shared memory. If this place is chosen, the chosen deed happens here.
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
        if let Some(deed) = own {
            act(deed, name);
        }
        if let Some(deed) = due(name, reports) {
            act(deed, name);
        }
    }

    fn due(name: &str, reports: bool) -> Option<Deed> {
        let plan = plan().read().unwrap_or_else(PoisonError::into_inner);
        if plan.is_none() && !reports {
            // Stored under the lock that `arm` takes, so that a later choice is not lost.
            IDLE.store(true, Ordering::Relaxed);
        }
        plan.as_ref()?.due(name)
    }

    impl Plan {
        /// Returns the deed, if it is due at this place now.
        fn due(&self, name: &str) -> Option<Deed> {
            // Relaxed: the number is only a count. Several threads may come here at once; the count reaches one for one
            // of them.
            (self.name == name && self.passes.fetch_sub(1, Ordering::Relaxed) == 1).then(|| self.deed.clone())
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

    fn act(deed: Deed, name: &str) {
        use rustix::process::{getpid, kill_process, Signal};
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |now| now.as_nanos());
        // The kill cannot fail. If it failed all the same, the process would still not go on.
        match deed {
            Deed::Die => {
                append(&format!("died {now} {name}\n"));
                let _ = kill_process(getpid(), Signal::KILL);
                std::process::abort()
            }
            Deed::Stop => {
                append(&format!("stopped {now} {name}\n"));
                let _ = kill_process(getpid(), Signal::STOP);
                // The signal may reach another thread first, and on a busy machine it may come late. This thread must
                // not go on before it comes.
                std::thread::sleep(std::time::Duration::from_millis(300));
            }
            Deed::Sleep(until) => {
                append(&format!("slept {now} {name}\n"));
                let _ = std::fs::write(until.with_extension("asleep"), b"");
                let begun = std::time::Instant::now();
                while !until.exists() && begun.elapsed() < std::time::Duration::from_secs(120) {
                    std::thread::sleep(std::time::Duration::from_millis(5));
                }
            }
            Deed::SleepThenPanic(until) => {
                act(Deed::Sleep(until), name);
                act(Deed::Panic, name);
            }
            Deed::Panic => {
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

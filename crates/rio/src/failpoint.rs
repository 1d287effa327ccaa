//! Failpoints: named places where shared state is between two valid states, at which a test build can die.
//!
//! Compiled in only with the feature `failpoints`, which nothing but the test suites switches on; without it every call
//! is empty and costs nothing. `LIBTP_FAILPOINT="log: tail published@3"` makes the process kill itself, as `kill -9` does,
//! when it comes to that place for the third time; a program can also `arm` itself later. With `!stop` behind it the
//! process stops there, as `kill -STOP` does, until somebody lets it go on; with `!panic` the thread panics; with `!sleep=FILE`
//! it makes `FILE.asleep` and sleeps there until that file is there, which may be longer than anybody believes that it does anything (two minutes
//! at most).
//! `LIBTP_FAILPOINT_HITS=FILE`: the name of each place is appended to that file when it is first come to, and where the
//! process died, stopped or panicked, with the time in nanoseconds.
//!
//! `cargo xtask failpoints` lists them.

#[cfg(feature = "failpoints")]
mod chosen {
    use std::cell::RefCell;
    use std::collections::HashSet;
    use std::hash::{BuildHasherDefault, Hasher};
    use std::io::Write;
    use std::path::PathBuf;
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
    use std::sync::{OnceLock, PoisonError, RwLock};

    /// The place to die at, how often it may still be passed, and what happens then.
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
    }

    static PLAN: OnceLock<RwLock<Option<Plan>>> = OnceLock::new();
    static HITS: OnceLock<Option<PathBuf>> = OnceLock::new();
    /// True once the environment has been read, no place is chosen and hits are not reported.
    static IDLE: AtomicBool = AtomicBool::new(false);
    /// Number of threads with a plan of their own.
    static PLANS_OF_THREADS: AtomicU64 = AtomicU64::new(0);

    thread_local! {
        /// The place at which something happens to this thread alone.
        static OWN_PLAN: RefCell<Option<Plan>> = const { RefCell::new(None) };
        /// The places this thread has reported, by where their names lie.
        static REPORTED: RefCell<HashSet<usize, BuildHasherDefault<OfAddress>>> = RefCell::default();
    }

    /// The hash of an address is a product: the standard hash took a tenth of the tests' time.
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

    /// `NAME@N!DEED`: the place, the N-th time, without `@N` the first; without a deed it is death.
    fn parse(text: &str) -> Option<Plan> {
        let (text, deed) = match text.rsplit_once('!') {
            Some((text, "stop")) => (text, Deed::Stop),
            Some((text, "panic")) => (text, Deed::Panic),
            Some((text, deed)) if deed.starts_with("sleep=") => (text, Deed::Sleep(deed["sleep=".len()..].into())),
            _ => (text, Deed::Die),
        };
        let (name, hit) = text.rsplit_once('@').map_or((text, 1), |(name, hit)| (name, hit.parse().unwrap_or(1)));
        (!name.is_empty()).then(|| Plan { name: name.to_string(), passes: AtomicU64::new(hit), deed })
    }

    /// Chooses the place at which this process dies, as in `LIBTP_FAILPOINT`; an empty text is none.
    pub fn arm(text: &str) {
        let mut plan = plan().write().unwrap_or_else(PoisonError::into_inner);
        *plan = parse(text);
        // Relaxed: a thread that must die there is started, or woken, after this call. The lock orders two calls.
        IDLE.store(false, Ordering::Relaxed);
    }

    /// As [`arm`], for the calls of `work` alone: other threads pass the place meanwhile.
    pub fn armed_here<T>(text: &str, work: impl FnOnce() -> T) -> T {
        OWN_PLAN.set(parse(text));
        // Relaxed: this thread alone relies on it, and sees its own store.
        PLANS_OF_THREADS.fetch_add(1, Ordering::Relaxed);
        let done = work();
        PLANS_OF_THREADS.fetch_sub(1, Ordering::Relaxed);
        OWN_PLAN.set(None);
        done
    }

    /// A place between two valid states of what is shared: if it is the chosen one, the process ends here.
    #[inline]
    pub fn failpoint(name: &'static str) {
        // Relaxed: as in `arm`.
        if !IDLE.load(Ordering::Relaxed) || PLANS_OF_THREADS.load(Ordering::Relaxed) > 0 {
            visit(name);
        }
    }

    fn visit(name: &'static str) {
        let reports = report(name);
        // Refused only while the thread ends.
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
            // Under the lock that `arm` takes: a place that it chooses later is not forgotten here.
            IDLE.store(true, Ordering::Relaxed);
        }
        plan.as_ref()?.due(name)
    }

    impl Plan {
        /// What happens at this place now.
        fn due(&self, name: &str) -> Option<Deed> {
            // Relaxed: a count. Another thread may come here meanwhile; the process dies once.
            (self.name == name && self.passes.fetch_sub(1, Ordering::Relaxed) == 1).then(|| self.deed.clone())
        }
    }

    /// Notes the place as hit. False if hits are not reported.
    fn report(name: &'static str) -> bool {
        if HITS.get_or_init(|| std::env::var_os("LIBTP_FAILPOINT_HITS").map(PathBuf::from)).is_none() {
            return false;
        }
        // Refused only while the thread ends.
        let is_new = REPORTED.try_with(|seen| seen.borrow_mut().insert(name.as_ptr().addr())).unwrap_or(false);
        if is_new {
            append(&format!("hit {name}\n"));
        }
        true
    }

    /// One write, so that lines of processes that die stay whole. A file that cannot be written shows as a place not hit.
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
        // Killing oneself cannot fail; if it did, the process must not go on all the same.
        match deed {
            Deed::Die => {
                append(&format!("died {now} {name}\n"));
                let _ = kill_process(getpid(), Signal::KILL);
                std::process::abort()
            }
            Deed::Stop => {
                append(&format!("stopped {now} {name}\n"));
                let _ = kill_process(getpid(), Signal::STOP);
                // The signal may come through another thread first, on a busy machine late: it must not find this one further on.
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
            Deed::Panic => {
                append(&format!("panicked {now} {name}\n"));
                panic!("at the failpoint {name:?}")
            }
        }
    }
}

#[cfg(feature = "failpoints")]
pub use chosen::{arm, armed_here, failpoint};

/// A place between two valid states of what is shared: nothing, in this build.
#[cfg(not(feature = "failpoints"))]
#[inline(always)]
pub const fn failpoint(_name: &'static str) {}

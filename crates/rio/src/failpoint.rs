//! Failpoints: named places where shared state is between two valid states, at which a test build can die.
//!
//! Compiled in only with the feature `failpoints`, which nothing but the test suites switches on; without it every call
//! is empty and costs nothing. `LIBTP_FAILPOINT="log: tail published@3"` makes the process kill itself, as `kill -9` does,
//! when it comes to that place for the third time; a program can also `arm` itself later.
//! `LIBTP_FAILPOINT_HITS=FILE`: the name of each place is appended to that file when it is first come to, and what a
//! process died of, with the time in nanoseconds.
//!
//! `cargo xtask failpoints` lists them.

#[cfg(feature = "failpoints")]
mod chosen {
    use std::cell::RefCell;
    use std::collections::HashSet;
    use std::io::Write;
    use std::path::PathBuf;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::sync::{OnceLock, PoisonError, RwLock};

    /// The place to die at, and how often it may still be passed.
    struct Plan {
        name: String,
        passes: AtomicU64,
    }

    static PLAN: OnceLock<RwLock<Option<Plan>>> = OnceLock::new();
    static HITS: OnceLock<Option<PathBuf>> = OnceLock::new();

    thread_local! {
        /// The places this thread has reported, by where their names lie.
        static REPORTED: RefCell<HashSet<usize>> = RefCell::default();
    }

    fn plan() -> &'static RwLock<Option<Plan>> {
        PLAN.get_or_init(|| RwLock::new(std::env::var("LIBTP_FAILPOINT").ok().as_deref().and_then(parse)))
    }

    /// `NAME@N`: the place to die at, the N-th time; without `@N` the first.
    fn parse(text: &str) -> Option<Plan> {
        let (name, hit) = text.rsplit_once('@').map_or((text, 1), |(name, hit)| (name, hit.parse().unwrap_or(1)));
        (!name.is_empty()).then(|| Plan { name: name.to_string(), passes: AtomicU64::new(hit) })
    }

    /// Chooses the place at which this process dies, as in `LIBTP_FAILPOINT`; an empty text is none.
    pub fn arm(text: &str) {
        *plan().write().unwrap_or_else(PoisonError::into_inner) = parse(text);
    }

    /// A place between two valid states of what is shared: if it is the chosen one, the process ends here.
    pub fn failpoint(name: &'static str) {
        report(name);
        let plan = plan().read().unwrap_or_else(PoisonError::into_inner);
        let Some(plan) = plan.as_ref().filter(|plan| plan.name == name) else { return };
        // Relaxed: a count. Another thread may come here meanwhile; the process dies once.
        if plan.passes.fetch_sub(1, Ordering::Relaxed) == 1 {
            die(name);
        }
    }

    fn report(name: &'static str) {
        if HITS.get_or_init(|| std::env::var_os("LIBTP_FAILPOINT_HITS").map(PathBuf::from)).is_none() {
            return;
        }
        // Refused only while the thread ends.
        let is_new = REPORTED.try_with(|seen| seen.borrow_mut().insert(name.as_ptr().addr())).unwrap_or(false);
        if is_new {
            append(&format!("hit {name}\n"));
        }
    }

    /// One write, so that lines of processes that die stay whole. A file that cannot be written shows as a place not hit.
    fn append(line: &str) {
        if let Some(Some(path)) = HITS.get() {
            if let Ok(mut file) = std::fs::OpenOptions::new().create(true).append(true).open(path) {
                let _ = file.write_all(line.as_bytes());
            }
        }
    }

    fn die(name: &str) -> ! {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |now| now.as_nanos());
        append(&format!("died {now} {name}\n"));
        // It cannot fail; if it did, the process must not go on all the same.
        let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
        std::process::abort()
    }
}

#[cfg(feature = "failpoints")]
pub use chosen::{arm, failpoint};

/// A place between two valid states of what is shared: nothing, in this build.
#[cfg(not(feature = "failpoints"))]
#[inline(always)]
pub const fn failpoint(_name: &'static str) {}

//! An environment and its survivors, and the checks after each death and at the end.

use std::collections::BTreeSet;
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use libtp::{Env, Error, OpenedBy, Settings};

use crate::audit;
use crate::crew::{whereabouts, Death, Member};
use crate::role::Role;
use crate::watchdog;
use libtp_tests::audit::{at_rest, report};
use libtp_tests::transfers::{TransferId, MONEY};

/// Settings with small sizes, so that pages are often split and replaced, segments recycled and checkpoints taken.
const SETTINGS: &str = r#"
memory = "2MiB"
log_segment_first = "64KiB"
log_segment_max = "256KiB"
checkpoint_log = "2MiB"
relaxed_millis = 20

[database.pages]
granularity = "page"
page_bytes = "4KiB"

[database.wide]
page_bytes = "64KiB"
"#;
/// A dead session counts as not repaired after the watchdog's time, multiplied by this number. The time is long,
/// because the survivors continue before the repair has ended.
const REPAIR_FACTOR: u32 = 6;
/// The interval between two checks for dead sessions.
const POLL: Duration = Duration::from_micros(100);

/// An environment and its processes.
pub struct Scenario {
    directory: tempfile::TempDir,
    seed: u64,
    pub crew: Vec<Member>,
    /// This process's handle, which has no background threads and repairs nothing.
    observer: Option<Env>,
    acknowledged: BTreeSet<TransferId>,
    next: u64,
    /// The failpoints of the deaths, in order.
    pub deaths: Vec<String>,
    /// How often the shared memory was rebuilt until the last audit.
    rebuilds: u64,
    /// Whether a rebuild is expected before the next audit.
    is_rebuild_expected: bool,
}

/// A thread that waits for the repair of dead sessions.
pub struct RepairWatch(JoinHandle<RepairEnd>);

/// The result of waiting for the repair of dead sessions.
enum RepairEnd {
    /// The time from the death until no session was dead any more.
    After(Duration),
    /// The memory in which the sessions died was given up first.
    GivenUp,
    /// Some session is still dead.
    StillDead,
}

impl Scenario {
    /// Makes a new environment without processes.
    pub fn new(seed: u64) -> Scenario {
        // The files are in memory, so that no process waits for a disk. The death of a process loses none of them.
        let memory = Path::new("/dev/shm");
        let directory = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }.unwrap();
        std::fs::create_dir(directory.path().join("env")).unwrap();
        // The shared memory is in the directory, so it is deleted with it, whatever the test's result.
        let settings = format!("region_directory = {:?}\n{SETTINGS}", directory.path());
        std::fs::write(directory.path().join("env/libtp.toml"), settings).unwrap();
        Scenario {
            directory,
            seed,
            crew: Vec::new(),
            observer: None,
            acknowledged: BTreeSet::new(),
            next: 1,
            deaths: Vec::new(),
            rebuilds: 0,
            is_rebuild_expected: false,
        }
    }

    /// Notes that the shared memory may be rebuilt before the next audit.
    pub fn expect_rebuild(&mut self) {
        self.is_rebuild_expected = true;
    }

    /// Returns the environment's directory.
    pub fn path(&self) -> PathBuf {
        self.directory.path().join("env")
    }

    /// Starts another process, which dies at the failpoint `armed` unless this is empty.
    pub fn launch(&mut self, role: &Role, armed: &str) -> Member {
        self.next += 1;
        Member::launch(&self.path(), self.next, role, armed)
    }

    /// Returns this process's handle, and opens it first if necessary.
    pub fn observe(&mut self) -> &Env {
        if self.observer.is_none() {
            let own = Settings { no_background: true, ..Settings::default() };
            self.observer = Some(
                Env::builder()
                    .settings(own)
                    .log_type(crate::churn::adding())
                    .lock_timeout(watchdog())
                    .open(self.path())
                    .unwrap(),
            );
        }
        self.observer.as_ref().expect("the observer was just opened")
    }

    /// Starts survivors until there are three, one of them without background threads. Waits until each makes
    /// transfers.
    #[track_caller]
    pub fn settle(&mut self) {
        while self.crew.len() < 3 {
            let role = if self.crew.len() == 2 { Role::Idler } else { Role::Survivor };
            let member = self.launch(&role, "");
            self.crew.push(member);
        }
        self.go_on("at the beginning");
        self.observe();
    }

    /// Waits until each survivor has acknowledged more transfers.
    #[track_caller]
    pub fn go_on(&mut self, what: &str) {
        if let Some(at) = self.who_stands_still() {
            self.despair_of(at, what);
        }
    }

    /// Waits until each survivor has acknowledged more transfers. Until a moment ago, some members had the order to die
    /// at a failpoint. A member that had reached the failpoint by then may end instead. Returns the members that ended.
    #[track_caller]
    pub fn go_on_but_for_late_deaths(&mut self, what: &str) -> Vec<Member> {
        let mut late = Vec::new();
        while let Some(at) = self.who_stands_still() {
            if !self.crew[at].has_ended() {
                self.despair_of(at, what);
            }
            // The end of this member is checked with the other deaths.
            late.push(self.crew.remove(at));
        }
        late
    }

    fn who_stands_still(&mut self) -> Option<usize> {
        self.crew.iter_mut().position(|member| {
            member.listen();
            let count = member.told.len() + 1;
            !member.acknowledges_more_than(count, watchdog())
        })
    }

    #[track_caller]
    fn despair_of(&mut self, at: usize, what: &str) {
        let ended = self.crew[at].has_ended();
        let number = self.crew[at].number;
        self.fail_with_report(&format!("process {number} (ended: {ended}) does not continue {what}"));
    }

    /// Checks that the sum of all balances is unchanged, which a partial transfer would change. Checks that no page is
    /// pinned without an owner, and that the memory was not rebuilt, unless a rebuild was expected.
    #[track_caller]
    pub fn audit(&mut self, what: &str) {
        let env = self.observe();
        let accounts = env.btree("accounts").unwrap();
        let sum = || {
            let txn = env.begin()?;
            let (mut cursor, mut sum) = (accounts.cursor(&txn), 0);
            while let Some((_, balance)) = cursor.next()? {
                sum += i64::from_le_bytes(balance.try_into().expect("balances have eight bytes"));
            }
            drop(cursor);
            txn.commit().map(|()| sum)
        };
        let sum = loop {
            match sum() {
                // A timeout is not retried: it means a lock that is never granted.
                Err(Error::Deadlock | Error::Rebuilt | Error::Panicked { .. }) => {}
                done => break done.unwrap_or_else(|error| panic!("{what}: the audit cannot read: {error}")),
            }
        };
        assert_eq!(sum, MONEY, "the sum of all balances has changed {what}");
        let managers = env.managers();
        let txn = managers.join().unwrap();
        let dead = managers.processes.dead_sessions().is_empty();
        let pages = managers.buffers.pinned_by_nobody(txn.session());
        managers.leave(txn);
        assert!(pages.is_empty() || !dead, "pages are pinned without an owner {what}: {pages:?}; {:?}", self.deaths);
        let rebuilds = managers.processes.rebuild_count();
        // Every death must leave shared memory that can be repaired.
        assert!(
            rebuilds == self.rebuilds || self.is_rebuild_expected,
            "the shared memory was rebuilt {what}: {:?}",
            self.deaths
        );
        (self.rebuilds, self.is_rebuild_expected) = (rebuilds, false);
    }

    /// Records a dead process, with the transfers that it acknowledged.
    pub fn record_death(&mut self, dead: &mut Member, place: &str) {
        self.deaths.push(place.into());
        self.acknowledged.extend(dead.told.drain(..));
    }

    /// Waits in a thread until no session is dead any more, and measures the time since the death.
    pub fn watch_repair(&mut self, death: &Death) -> RepairWatch {
        let (managers, at) = (self.observe().managers(), death.at);
        let watch = move || {
            let start = Instant::now();
            // In memory that was given up, no session is repaired.
            while !managers.region.is_broken() && !managers.processes.dead_sessions().is_empty() {
                if start.elapsed() >= REPAIR_FACTOR * watchdog() {
                    return RepairEnd::StillDead;
                }
                std::thread::sleep(POLL);
            }
            if managers.region.is_broken() {
                return RepairEnd::GivenUp;
            }
            let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_nanos());
            RepairEnd::After(Duration::from_nanos(u64::try_from(now.saturating_sub(at)).unwrap_or(u64::MAX)))
        };
        // If the observer's memory is found broken while the thread reads it, the thread unwinds with `Broken`. Every
        // other panic is a failure.
        let looks = move || match catch_unwind(AssertUnwindSafe(watch)) {
            Ok(buried) => buried,
            Err(payload) if payload.is::<libtp_process::Broken>() => RepairEnd::GivenUp,
            Err(payload) => resume_unwind(payload),
        };
        RepairWatch(std::thread::spawn(looks))
    }

    /// Waits until no session is dead any more.
    #[track_caller]
    pub fn wait_for_repairs(&mut self, what: &str) {
        let managers = self.observe().managers();
        let start = Instant::now();
        while !managers.region.is_broken() && !managers.processes.dead_sessions().is_empty() {
            if start.elapsed() >= REPAIR_FACTOR * watchdog() {
                drop(managers);
                self.fail_with_report(&format!("a dead session is not repaired {what}"));
            }
            std::thread::sleep(POLL);
        }
    }

    /// Waits for the result of [`Scenario::watch_repair`], and returns the time from the death to the end of the
    /// repair. Returns `None` if a rebuild was expected and came first.
    #[track_caller]
    pub fn bury(&mut self, death: &Death, burial: RepairWatch) -> Option<Duration> {
        let (seed, point) = (self.seed, &death.point);
        match burial.0.join().unwrap_or_else(|payload| resume_unwind(payload)) {
            RepairEnd::After(time) => Some(time),
            RepairEnd::GivenUp if self.is_rebuild_expected => None,
            RepairEnd::GivenUp => self.fail_with_report(&format!(
                "seed {seed}: the shared memory was given up before the session that died at {point:?} was repaired"
            )),
            RepairEnd::StillDead => {
                self.fail_with_report(&format!("seed {seed}: no session repairs the session that died at {point:?}"))
            }
        }
    }

    /// Lets every process leave, and checks that nothing of dead sessions is left. Then opens the environment, and
    /// opens a copy whose log must be replayed. Each time checks that all acknowledged transfers are there and that no
    /// database is damaged.
    #[track_caller]
    pub fn close(mut self, what: &str) {
        for mut member in std::mem::take(&mut self.crew) {
            member.leave();
            self.acknowledged.extend(member.told.drain(..));
        }
        println!("{what}; deaths: {:?}", self.deaths);
        // All changes are in the log on the disk. The copy is made before the pages are written, so that its opening
        // must replay the log.
        let copy = self.directory.path().join("copy");
        audit::copy(&self.path(), &copy);
        at_rest(self.observe(), what);
        drop(self.observer.take());
        let (_, seen) = audit::whole(&self.path(), &self.acknowledged, what);
        let (how, replayed) = audit::whole(&copy, &self.acknowledged, &format!("{what}, replayed"));
        // No shared memory belongs to the copy, and its environment was not closed. So its opening must be a restart.
        assert_eq!(how, OpenedBy::Restarted, "{what}: how the copy was opened");
        audit::same(&seen, &replayed, what);
    }

    /// Prints the holders of latches and locks, and fails.
    fn fail_with_report(&mut self, what: &str) -> ! {
        if std::env::var_os("LIBTP_TEST_KEEP").is_some() {
            println!("{what}; {}", self.path().display());
            std::thread::sleep(Duration::from_secs(3600));
        }
        for member in &self.crew {
            println!("process {}:\n{}", member.number, whereabouts(member.pid()));
        }
        let (message, heard) = std::sync::mpsc::channel();
        let env = self.observe().clone();
        // The report is made in a thread, because it takes latches, which may be held for ever.
        std::thread::spawn(move || message.send(report(&env)));
        let report = heard.recv_timeout(watchdog()).unwrap_or_else(|_| "the report is stuck, too".into());
        println!("{what}; {report}");
        // This process's handle is not closed, because its close could wait for ever, too.
        std::mem::forget(self.observer.take());
        panic!("{what}")
    }
}

/// Returns the file of the shared memory that a process has mapped.
pub fn region_of(pid: u32) -> Option<PathBuf> {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).ok()?;
    let place = maps.lines().filter_map(|line| line.split_whitespace().nth(5)).find(|path| path.contains("/libtp-"))?;
    Some(Path::new(place).to_path_buf())
}

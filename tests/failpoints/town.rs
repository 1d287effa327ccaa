//! An environment and its survivors: what is expected of them when somebody dies, and in the end.

use std::collections::BTreeSet;
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use libtp::{Env, Error, How, Settings};

use crate::audit;
use crate::bank::{self, TransferId};
use crate::child::Role;
use crate::crew::{Death, Member};
use crate::watchdog;

/// Everything small, so that pages are split and replaced, segments recycled and checkpoints taken all the time.
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
/// Who is not buried after so many times the watchdog's time never will be. It is no matter of life for the others: they go
/// on meanwhile.
const GRAVE: u32 = 6;
/// How often it is looked whether the dead are buried.
const LOOK: Duration = Duration::from_micros(100);

/// An environment, and who is in it.
pub struct Town {
    directory: tempfile::TempDir,
    seed: u64,
    pub crew: Vec<Member>,
    /// This process looks on, and repairs nothing.
    observer: Option<Env>,
    acknowledged: BTreeSet<TransferId>,
    next: u64,
    /// Where somebody has died, in this order.
    pub deaths: Vec<String>,
    /// How often the shared memory was made anew, as far as that was meant.
    rebuilds: u64,
    /// Whether it was meant since that was last looked at.
    is_rebuild_meant: bool,
}

/// Somebody looks on while the dead are repaired.
pub struct Burial(JoinHandle<Buried>);

/// What came of it.
enum Buried {
    /// So long after the death nothing of the dead was left.
    After(Duration),
    /// The memory they died in was given up before.
    GivenUp,
    /// Somebody is dead still.
    Not,
}

impl Town {
    /// A new environment without anybody.
    pub fn new(seed: u64) -> Town {
        // In memory: a process that dies takes no disk with it, and nobody should wait for one.
        let memory = Path::new("/dev/shm");
        let directory = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }.unwrap();
        std::fs::create_dir(directory.path().join("env")).unwrap();
        // The shared memory goes with the directory, whatever becomes of the test.
        let settings = format!("region_directory = {:?}\n{SETTINGS}", directory.path());
        std::fs::write(directory.path().join("env/libtp.toml"), settings).unwrap();
        Town {
            directory,
            seed,
            crew: Vec::new(),
            observer: None,
            acknowledged: BTreeSet::new(),
            next: 1,
            deaths: Vec::new(),
            rebuilds: 0,
            is_rebuild_meant: false,
        }
    }

    /// The shared memory is made anew, and that is meant.
    pub fn means_a_rebuild(&mut self) {
        self.is_rebuild_meant = true;
    }

    /// The environment's directory.
    pub fn path(&self) -> PathBuf {
        self.directory.path().join("env")
    }

    /// Starts one more process, which dies at `armed` if that is not empty.
    pub fn launch(&mut self, role: &Role, armed: &str) -> Member {
        self.next += 1;
        Member::launch(&self.path(), self.next, role, armed)
    }

    /// This process looks on from now.
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
        self.observer.as_ref().expect("it was just opened")
    }

    /// Makes the survivors three, one of them without threads of its own, each of them at work.
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

    /// Each survivor acknowledges more transfers.
    #[track_caller]
    pub fn go_on(&mut self, what: &str) {
        if let Some(at) = self.who_stands_still() {
            self.despair_of(at, what);
        }
    }

    /// As [`Town::go_on`], where some were to die until a moment ago: one that has come to its failpoint in that moment ends
    /// instead, and is no survivor.
    #[track_caller]
    pub fn go_on_but_for_late_deaths(&mut self, what: &str) -> Vec<Member> {
        let mut late = Vec::new();
        while let Some(at) = self.who_stands_still() {
            if !self.crew[at].has_ended() {
                self.despair_of(at, what);
            }
            // How it ended is looked at with the others' deaths.
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
        self.despair(&format!("process {number} (ended: {ended}) does not go on {what}"));
    }

    /// The balances of all accounts together are what they were: nobody's transaction was cut in two.
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
                // Not of a lock that is never granted.
                Err(Error::Deadlock | Error::Rebuilt | Error::Panicked { .. }) => {}
                done => break done.unwrap_or_else(|error| panic!("{what}: the audit cannot read: {error}")),
            }
        };
        assert_eq!(sum, bank::MONEY, "money was made or lost {what}");
        let managers = env.managers();
        let who = managers.join().unwrap();
        let dead = managers.processes.dead_sessions().is_empty();
        let pages = managers.buffers.pinned_by_nobody(who.session());
        managers.leave(who);
        assert!(pages.is_empty() || !dead, "pinned by nobody {what}: {pages:?}; {:?}", self.deaths);
        let rebuilds = managers.processes.rebuild_count();
        // Nobody dies so that what is shared cannot be repaired.
        assert!(
            rebuilds == self.rebuilds || self.is_rebuild_meant,
            "the shared memory was made anew {what}: {:?}",
            self.deaths
        );
        (self.rebuilds, self.is_rebuild_meant) = (rebuilds, false);
    }

    /// Takes a dead process out of the town's books.
    pub fn mourn(&mut self, dead: &mut Member, place: &str) {
        self.deaths.push(place.into());
        self.acknowledged.extend(dead.told.drain(..));
    }

    /// Looks on, beside all else, until nothing of the dead is left; how long that is after a death.
    pub fn watch_burial(&mut self, death: &Death) -> Burial {
        let (managers, at) = (self.observe().managers(), death.at);
        let watch = move || {
            let start = Instant::now();
            // In memory that is given up nobody buries anybody.
            while !managers.region.is_broken() && !managers.processes.dead_sessions().is_empty() {
                if start.elapsed() >= GRAVE * watchdog() {
                    return Buried::Not;
                }
                std::thread::sleep(LOOK);
            }
            if managers.region.is_broken() {
                return Buried::GivenUp;
            }
            let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_nanos());
            Buried::After(Duration::from_nanos(u64::try_from(now.saturating_sub(at)).unwrap_or(u64::MAX)))
        };
        // The observer's memory may be found broken while it looks: then it unwinds. Any other panic is told.
        let looks = move || match catch_unwind(AssertUnwindSafe(watch)) {
            Ok(buried) => buried,
            Err(payload) if payload.is::<libtp_process::Broken>() => Buried::GivenUp,
            Err(payload) => resume_unwind(payload),
        };
        Burial(std::thread::spawn(looks))
    }

    /// Waits until nobody is dead any more.
    #[track_caller]
    pub fn all_are_buried(&mut self, what: &str) {
        let managers = self.observe().managers();
        let start = Instant::now();
        while !managers.region.is_broken() && !managers.processes.dead_sessions().is_empty() {
            if start.elapsed() >= GRAVE * watchdog() {
                drop(managers);
                self.despair(&format!("somebody is not buried {what}"));
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Waits for the end of a burial; how long after the death that was. None if the memory was to be made anew, and was.
    #[track_caller]
    pub fn bury(&mut self, death: &Death, burial: Burial) -> Option<Duration> {
        let (seed, point) = (self.seed, &death.point);
        match burial.0.join().unwrap_or_else(|payload| resume_unwind(payload)) {
            Buried::After(time) => Some(time),
            Buried::GivenUp if self.is_rebuild_meant => None,
            Buried::GivenUp => self.despair(&format!(
                "seed {seed}: the shared memory was given up before who died at {point:?} was buried"
            )),
            Buried::Not => self.despair(&format!("seed {seed}: nobody buries who died at {point:?}")),
        }
    }

    /// Everybody leaves, and nothing of the dead is left behind; then all is there that was acknowledged, and every database
    /// is whole, for who opens the environment as for who replays its log.
    #[track_caller]
    pub fn close(mut self, what: &str) {
        for mut member in std::mem::take(&mut self.crew) {
            member.leave();
            self.acknowledged.extend(member.told.drain(..));
        }
        println!("{what}; deaths: {:?}", self.deaths);
        // What they did is on the disk as far as the log goes, and nobody has written the pages on purpose.
        let copy = self.directory.path().join("copy");
        audit::copy(&self.path(), &copy);
        audit::at_rest(self.observe(), what);
        drop(self.observer.take());
        let (_, seen) = audit::whole(&self.path(), &self.acknowledged, what);
        let (how, replayed) = audit::whole(&copy, &self.acknowledged, &format!("{what}, replayed"));
        // Also if somebody had closed it and died before the memory was taken away: others have worked in that since.
        assert_eq!(how, How::Restarted, "{what}: how the copy was opened");
        audit::same(&seen, &replayed, what);
    }

    /// Says who holds what, and fails.
    fn despair(&mut self, what: &str) -> ! {
        if std::env::var_os("LIBTP_TEST_KEEP").is_some() {
            println!("{what}; {}", self.path().display());
            std::thread::sleep(Duration::from_secs(3600));
        }
        for member in &self.crew {
            println!("process {}:{}", member.number, threads_of(member.pid()));
        }
        let (said, heard) = std::sync::mpsc::channel();
        let env = self.observe().clone();
        // It takes latches, which may be what nobody gives back.
        std::thread::spawn(move || said.send(report(&env)));
        let report = heard.recv_timeout(watchdog()).unwrap_or_else(|_| "nothing more can be said".into());
        println!("{what}; {report}");
        // What this process has open could not be closed either.
        std::mem::forget(self.observer.take());
        panic!("{what}")
    }
}

/// Where in the kernel each of a process's threads is, as far as one may know.
fn threads_of(pid: u32) -> String {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let of_one = |thread: std::fs::DirEntry| {
        let read = |name: &str| std::fs::read_to_string(thread.path().join(name)).unwrap_or_default();
        let stack = read("stack").lines().map(|line| format!(" {}", line.trim())).collect::<String>();
        format!("\n  {}: {}{stack}", read("comm").trim(), read("wchan").trim())
    };
    threads.map(of_one).collect()
}

/// Who holds what.
fn report(env: &Env) -> String {
    let processes = env.managers().processes.clone();
    let sessions: Vec<String> = processes.sessions().iter().map(|one| format!("\n  {one:?}")).collect();
    let txns: Vec<String> = env.transactions().iter().map(|one| format!("\n  {one:?}")).collect();
    let locks: Vec<String> = env.locks().unwrap_or_default().iter().map(|one| format!("\n  {one:?}")).collect();
    let dead = processes.dead_sessions();
    let [sessions, txns, locks] = [sessions, txns, locks].map(|lines| lines.concat());
    format!("dead: {dead:?}\nsessions:{sessions}\ntransactions:{txns}\nlocks:{locks}")
}

/// The file of the shared memory that a process has mapped.
pub fn region_of(pid: u32) -> Option<PathBuf> {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).ok()?;
    let place = maps.lines().filter_map(|line| line.split_whitespace().nth(5)).find(|path| path.contains("/libtp-"))?;
    Some(Path::new(place).to_path_buf())
}

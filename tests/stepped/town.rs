//! An environment with its survivors, and the checks after a death.

use std::collections::BTreeSet;
use std::mem::ManuallyDrop;
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::sync::Arc;
use std::time::Duration;

use libtp::{Env, OpenedBy, Settings};
use libtp_tests::audit::{at_rest, nothing_lost, report, verify_all};
use libtp_tests::transfers::TransferId;

use crate::child::watchdog;
use crate::member::{Death, Member};
use crate::operations::Operation;
use crate::world::{Contents, World};

/// Settings with small sizes, so that one environment costs little.
const SETTINGS: &str = r#"
memory = "2MiB"
log_segment_first = "64KiB"
log_segment_max = "1MiB"
checkpoint_log = "4MiB"
relaxed_millis = 20

[database.wide]
page_bytes = "4KiB"
"#;
/// The system calls of a thread that waits for a lock.
const SLEEPS: [i64; 4] = [libc::SYS_futex, libc::SYS_clock_nanosleep, libc::SYS_nanosleep, libc::SYS_sched_yield];
/// The longest time until background threads are idle, or until a survivor waits.
const MOMENT: Duration = Duration::from_secs(5);

/// An environment and its survivors.
pub struct Town {
    operation: Operation,
    directory: tempfile::TempDir,
    survivors: [Member; 2],
    /// Whether a survivor has background threads, which repair dead sessions at once.
    has_keeper: bool,
    /// This process's handles. They are not dropped if the town fails, because the drop could wait for ever.
    world: ManuallyDrop<Arc<World>>,
    model: Contents,
    acknowledged: BTreeSet<TransferId>,
    /// The number of the last transaction or process.
    last: u64,
    /// The transaction that the first survivor has begun, if it waits for the victim.
    waits: Option<u64>,
}

impl Town {
    /// Makes an environment with two survivors.
    pub fn new(operation: Operation, has_keeper: bool) -> Result<Town, String> {
        let memory = Path::new("/dev/shm");
        let directory = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }.unwrap();
        let path = path_in(&directory);
        std::fs::create_dir(&path).unwrap();
        // The shared memory is in this directory. So both are deleted together, also if the test fails.
        let settings = format!("region_directory = {:?}\n{SETTINGS}", directory.path());
        std::fs::write(path.join("libtp.toml"), settings).unwrap();
        let world = open(&path)?;
        world.fill().map_err(|error| error.to_string())?;
        let model = world.contents().map_err(|error| error.to_string())?;
        let survivors = [Member::launch(&path, 1, false)?, Member::launch(&path, 2, has_keeper)?];
        let mut town = Town {
            operation,
            directory,
            survivors,
            has_keeper,
            world: ManuallyDrop::new(Arc::new(world)),
            model,
            acknowledged: BTreeSet::new(),
            last: 2,
            waits: None,
        };
        // Brings the records into the state that the survivors restore after each death.
        town.settle(0, false)?;
        town.judge()?;
        Ok(town)
    }

    fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// Starts a process that has done the operation once.
    fn launch_warm(&mut self) -> Result<Member, String> {
        let (number, nth) = (self.next(), self.next());
        let mut member = Member::launch(&path_in(&self.directory), number, false)?;
        member.does(&format!("warm {:?} {nth}", self.operation), "done warm")?;
        Ok(member)
    }

    /// Lets a process die in the operation before the event `at`, or at the end of the stepped part if the part has
    /// fewer events. Then the survivors must continue.
    ///
    /// # Errors
    /// The failure, with the place of the death.
    pub fn dies(&mut self, at: Option<u64>) -> Result<Death, String> {
        let (victim, dead) = (self.launch_warm()?, self.next());
        let death = self.step_victim(victim, dead, at)?;
        self.goes_on(dead, &death)
            .map_err(|why| format!("{why}; the victim died before {}", death.place.describe()))?;
        Ok(death)
    }

    /// Lets a process die in the operation before the event `first`. Then a second process repairs the dead process,
    /// and dies before the event `at` of the repair. Then the survivors must continue. Returns the second death.
    ///
    /// # Errors
    /// The failure, with the places of the deaths.
    pub fn dies_repairing(&mut self, first: u64, at: Option<u64>) -> Result<Death, String> {
        assert!(!self.has_keeper, "a background thread of a survivor would do the repair");
        let (victim, mut repairer, dead) = (self.launch_warm()?, self.launch_warm()?, self.next());
        let death = self.step_victim(victim, dead, Some(first))?;
        let thread = repairer.begins("repair-stepped")?;
        let second = repairer.dies(thread, at, &mut |_| Ok(()))?;
        self.goes_on(dead, &death).map_err(|why| {
            let (first, second) = (death.place.describe(), second.place.describe());
            format!("{why}; the victim died before {first}, and the repairer before {second}")
        })?;
        Ok(second)
    }

    /// Steps a victim through the operation up to the event `at`, and kills it.
    fn step_victim(&mut self, mut victim: Member, dead: u64, at: Option<u64>) -> Result<Death, String> {
        let mut is_locked = self.operation == Operation::Wait;
        if is_locked {
            self.survivors[0].does("hold", "done hold")?;
        }
        let thread = victim.begins(&format!("play {:?} {dead}", self.operation))?;
        if self.operation == Operation::CommitBeforeWaiter {
            let nth = self.next();
            self.waits = Some(nth);
            self.survivors[0].process.order(&format!("settle {:?} {dead} {nth}", self.operation));
            let locks = &self.world.env.managers().locks;
            until("a survivor waits for the victim", || !locks.waits().is_empty())?;
        }
        let holder = &mut self.survivors[0];
        let mut release = |is_locked: &mut bool| match std::mem::replace(is_locked, false) {
            true => holder.does("release", "done hold"),
            false => Ok(()),
        };
        let death = victim.dies(thread, at, &mut |call| match SLEEPS.contains(&call) {
            true => release(&mut is_locked),
            false => Ok(()),
        });
        release(&mut is_locked)?;
        death
    }

    /// Lets the survivors continue after a death, and judges the result.
    fn goes_on(&mut self, dead: u64, death: &Death) -> Result<(), String> {
        let went_on = self.go_on(dead, death.has_ended);
        went_on.map_err(|what| format!("{what}\n{}", self.report()))
    }

    fn go_on(&mut self, dead: u64, has_ended: bool) -> Result<(), String> {
        // After every second death the dead process is repaired first. After the other deaths, the survivors meet the
        // locks and latches of the dead process.
        if dead % 2 == 0 && self.waits.is_none() {
            self.survivors[1].does("repair", "done repair")?;
        }
        self.settle(dead, has_ended)?;
        self.survivors[1].does("repair", "done repair")?;
        self.judge()
    }

    /// Lets each survivor change the records that the transaction `dead` used.
    fn settle(&mut self, dead: u64, has_ended: bool) -> Result<(), String> {
        let operation = self.operation;
        for at in [0, 1] {
            let nth = match self.waits.take() {
                Some(nth) => nth,
                None => {
                    let nth = self.next();
                    self.survivors[at].process.order(&format!("settle {operation:?} {dead} {nth}"));
                    nth
                }
            };
            let member = &self.survivors[at];
            let line = member.line()?;
            let numbers: Vec<u64> = line.split(' ').filter_map(|word| word.parse().ok()).collect();
            let [found, transfer] = numbers[..] else { return Err(format!("process {}: {line}", member.number)) };
            member.hears("done settle")?;
            self.acknowledged.insert((member.number, transfer));
            let edits = operation.edits(dead);
            if at == 0 && dead != 0 {
                let (found, all) = (usize::try_from(found).unwrap(), edits.len());
                if found != 0 && found != all {
                    return Err(format!("{found} of the {all} changes of one transaction were found"));
                }
                let is_there = all != 0 && found == all;
                if is_there && !operation.commits() {
                    return Err("a change that was not committed is there".to_owned());
                }
                if all != 0 && !is_there && operation.commits() && has_ended {
                    return Err("an answered commit is lost".to_owned());
                }
                if is_there {
                    edits.iter().for_each(|edit| self.model.apply(edit));
                }
            }
            operation.settles(dead, nth).iter().for_each(|edit| self.model.apply(edit));
        }
        Ok(())
    }

    /// Compares all records with the model, and checks that nothing of dead sessions is left. No other process works
    /// meanwhile.
    fn judge(&self) -> Result<(), String> {
        let (world, model) = (Arc::clone(&self.world), self.model.clone());
        let (send, judged) = channel();
        // The check runs in a thread, because it may wait for ever for a latch.
        std::thread::spawn(move || send.send(judge(&world, &model)));
        judged.recv_timeout(2 * watchdog()).unwrap_or_else(|_| Err("the records cannot be read".to_owned()))
    }

    fn report(&self) -> String {
        let (world, (send, told)) = (Arc::clone(&self.world), channel());
        std::thread::spawn(move || send.send(report(&world.env)));
        told.recv_timeout(watchdog()).unwrap_or_else(|_| "the report is stuck, too".to_owned())
    }

    /// Lets the survivors leave. Checks that nothing of dead sessions is left, and that the environment and a copy of
    /// its files, whose log is replayed, have the records of the model.
    ///
    /// # Errors
    /// The failure.
    pub fn close(self) -> Result<(), String> {
        let Town { directory, survivors, world, model, acknowledged, .. } = self;
        for mut member in survivors {
            member.does("stop", "left")?;
            member.process.wait();
        }
        let path = path_in(&directory);
        let copy = directory.path().join("copy");
        world.env.flush().map_err(|error| error.to_string())?;
        copy_files(&path, &copy);
        at_rest(&world.env, "after all deaths");
        drop(ManuallyDrop::into_inner(world));
        for (path, what) in [(path, "opened again"), (copy, "replayed")] {
            let world = open(&path).map_err(|error| format!("{what}: {error}"))?;
            if what == "replayed" && world.env.opened().how != OpenedBy::Restarted {
                return Err(format!("the copy was opened as {:?}", world.env.opened().how));
            }
            nothing_lost(&world.env, &acknowledged, what);
            let found = world.contents().map_err(|error| format!("{what}: {error}"))?;
            if let Some(apart) = model.apart(&found) {
                return Err(format!("{what}: {apart}"));
            }
        }
        Ok(())
    }
}

fn path_in(directory: &tempfile::TempDir) -> PathBuf {
    directory.path().join("env")
}

/// Opens the environment for this process, without background threads, so that this process repairs nothing by itself.
fn open(path: &Path) -> Result<World, String> {
    let own = Settings { no_background: true, ..Settings::default() };
    let env = Env::builder().settings(own).lock_timeout(watchdog()).open(path);
    env.and_then(World::open).map_err(|error| error.to_string())
}

fn judge(world: &World, model: &Contents) -> Result<(), String> {
    let found = world.contents().map_err(|error| format!("the records cannot be read: {error}"))?;
    if let Some(apart) = model.apart(&found) {
        return Err(apart);
    }
    verify_all(&world.env)?;
    let mut left = Ok(());
    // A background thread may hold locks or pins for a moment.
    let is_clean = || {
        left = nothing_left(&world.env);
        left.is_ok()
    };
    until("nothing is left", is_clean).or(left)
}

/// Checks that no session is dead, and that no transaction, lock or pin is left.
fn nothing_left(env: &Env) -> Result<(), String> {
    let managers = env.managers();
    let dead = managers.processes.dead_sessions();
    let running = env.transactions();
    if !dead.is_empty() || !running.is_empty() {
        return Err(format!("dead sessions are left: {dead:?}, and transactions: {running:?}"));
    }
    let census = managers.locks.check().map_err(|broken| format!("the lock table: {broken}"))?;
    if (census.granted, census.waiting) != (0, 0) {
        return Err(format!("locks are left: {census:?}"));
    }
    managers.buffers.check_slabs()?;
    managers.log.check_words()?;
    let txn = managers.join().map_err(|error| error.to_string())?;
    let pinned = managers.buffers.pinned_by_nobody(txn.session());
    managers.leave(txn);
    if !pinned.is_empty() {
        return Err(format!("pins are left on {pinned:?}"));
    }
    match managers.processes.rebuild_count() {
        0 => Ok(()),
        count => Err(format!("the shared memory was rebuilt {count} times")),
    }
}

/// Waits for at most [`MOMENT`] until the condition holds.
fn until(what: &str, is_so: impl FnMut() -> bool) -> Result<(), String> {
    let failed = || Err(format!("this has not happened within {MOMENT:?}: {what}"));
    libtp_sim::until(MOMENT, is_so).then_some(()).map_or_else(failed, Ok)
}

/// Copies the files of an idle environment. An opening of the copy makes new shared memory.
fn copy_files(from: &Path, to: &Path) {
    std::fs::create_dir(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        if entry.file_type().unwrap().is_file() {
            std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
        }
    }
}

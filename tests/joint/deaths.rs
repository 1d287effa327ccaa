//! A process dies at each failpoint of a transaction over records and memory, from the joining of the first segment
//! until the last segment has applied the outcome.
//!
//! Afterwards records and memory must agree, and have all acknowledged changes. Three processes check this: a process
//! that ran concurrently with the victim, a process that opens the environment after all others have died, and a
//! process that restarts from the log without the shared memory.

use std::path::Path;

use libtp_sim::Random;
use libtp_tests::failpoints::{self, Failpoint, Scene};
use libtp_tests::sizes;

use crate::business::Business;
use crate::child::Child;

/// The process that checks the state that the victim left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Finder {
    /// A process that runs concurrently with the victim.
    Survivor,
    /// The process that opens the environment next.
    Next,
    /// The process that opens the environment after the shared memory was lost.
    Restart,
}

/// A durability setting: commits are acknowledged when they are on the disk.
pub const SYNC: &str = "sync";
const RELAXED: &str = "relaxed";
/// A part of the error for a segment that is newer than the log: the log has lost commits that the segment applied.
const NOTICED: &str = "the segment is newer than the environment";
const FINDERS: [Finder; 3] = [Finder::Survivor, Finder::Next, Finder::Restart];
/// A failpoint at which a death leaves work for the next process.
pub const BEFORE: &str = "joined: logged, segments not committed";
/// The largest number of transactions of a victim. It is large enough that a victim reaches the rare failpoints.
const MANY: u64 = 60;

/// Configures an environment whose shared memory is in a directory that can be deleted.
pub fn found(directory: &Path, durability: &str) {
    std::fs::create_dir_all(directory.join("shm")).unwrap();
    let shm = directory.join("shm").display().to_string();
    let text = format!("region_directory = {shm:?}\ndurability = {durability:?}\n");
    std::fs::write(directory.join("libtp.toml"), text).unwrap();
}

pub fn lose_memory(directory: &Path) {
    for entry in std::fs::read_dir(directory.join("shm")).unwrap() {
        std::fs::remove_file(entry.unwrap().path()).unwrap();
    }
}

/// Returns the segments that may not have applied the outcome of a transaction.
fn open_outcomes(env: &libtp::Env) -> Vec<libtp::JoinedSegment> {
    env.joined_segments().into_iter().filter(|segment| segment.unresolved_txn.is_some()).collect()
}

/// A victim's death, and the process that checks the result.
#[derive(Clone, Copy, Debug)]
struct Death {
    /// The failpoint.
    name: &'static str,
    /// The visit to the failpoint at which the victim dies.
    hit: u64,
    /// The failpoint where another process dies first, if the victim must repair that process's session.
    after: Option<&'static str>,
    /// The durability setting.
    durability: &'static str,
    finder: Finder,
}

impl Death {
    /// Runs the death in a new environment. Returns false if the victim made fewer than `hit` visits to the failpoint.
    fn happens(self) -> bool {
        let directory = tempfile::tempdir().unwrap();
        let (directory, seed) = (directory.path(), sizes::first_seed() + self.hit);
        found(directory, self.durability);
        let beside =
            (self.finder == Finder::Survivor && self.after.is_none()).then(|| Business::open(directory).unwrap());
        if let Some(beside) = &beside {
            for _ in 0..3 {
                beside.transact(&mut Random::new(seed)).unwrap();
            }
        }
        let mut told = 0;
        let mut victim = Child::start(directory, seed, &format!("{}@{}", self.name, self.hit));
        let is_open = victim.says("open");
        if let Some(before) = self.after.filter(|_| is_open) {
            let mut first = Child::start(directory, seed + 1, before);
            first.says("open");
            first.work(MANY);
            assert!(first.end(), "the first process did not reach {before}");
            told = first.told;
        }
        victim.work(MANY);
        let has_died = victim.end();
        told = told.max(victim.told);
        if self.finder == Finder::Restart {
            lose_memory(directory);
        }
        let business =
            beside.unwrap_or_else(|| Business::open(directory).unwrap_or_else(|error| panic!("{self:?}: {error}")));
        self.judge(&business, told, seed);
        has_died
    }

    fn judge(self, business: &Business, told: u64, seed: u64) {
        let may_be_lost = self.durability == RELAXED && self.finder == Finder::Restart;
        for round in 0..2 {
            let count = match business.judge() {
                // The memory has commits that the log has lost. This is reported at every attempt.
                Err(wrong) if may_be_lost && wrong.contains(NOTICED) => continue,
                judged => judged.unwrap_or_else(|wrong| panic!("{self:?}, round {round}: {wrong}")),
            };
            assert!(
                count >= told || may_be_lost,
                "{self:?}: transaction {told} was acknowledged, {count} transactions were found"
            );
            assert_eq!(open_outcomes(&business.env), [], "{self:?}: a segment has not applied its outcome");
            (0..20).for_each(|_| _ = business.transact(&mut Random::new(seed + round)).unwrap());
        }
    }
}

/// The visits to a failpoint at which victims die.
fn hits() -> impl Iterator<Item = u64> {
    [1, 4].into_iter().chain(2..sizes::number("LIBTP_TEST_HITS", 0))
}

/// Runs a death in the same way as [`Death::happens`], without an earlier death.
fn dies_once(name: &'static str, hit: u64, finder: Finder) -> bool {
    Death { name, hit, after: None, durability: SYNC, finder }.happens()
}

#[test]
fn survivors_find_the_commit() {
    assert!([1, 3, 5].map(|hit| dies_once(BEFORE, hit, Finder::Survivor)).contains(&true));
}

#[test]
fn the_next_opener_finds_the_commit() {
    assert!([1, 3, 5].map(|hit| dies_once(BEFORE, hit, Finder::Next)).contains(&true));
}

#[test]
fn a_restart_finds_the_commit() {
    // Once the first of two segments has applied the outcome, the commit record is on the disk.
    for name in [BEFORE, "joined: a segment committed"] {
        assert!([1, 3, 5].map(|hit| dies_once(name, hit, Finder::Restart)).contains(&true));
    }
}

#[test]
fn an_uncommitted_change_is_undone() {
    for finder in FINDERS {
        assert!(dies_once("joined: committing, nothing logged", 2, finder));
    }
}

/// The process dies while it rolls back a part of its transaction. The next process finds the whole undo log.
#[test]
fn a_death_in_a_rollback_to_a_savepoint_undoes_the_whole_transaction() {
    let places = [
        "undo: between two before-images of a savepoint",
        "undo: before-images of a savepoint restored, not cut",
        "savepoint: a segment rolled back",
        "savepoint: segments rolled back, records not",
    ];
    for name in places {
        for finder in FINDERS {
            assert!([1, 2, 5, 9].map(|hit| dies_once(name, hit, finder)).contains(&true), "no process died at {name}");
        }
    }
}

/// The commit record is lost with the shared memory, but a segment that has already applied the outcome keeps the
/// change. The mismatch is reported.
#[test]
fn a_restart_notices_memory_whose_records_are_lost() {
    let places = [
        "member: undo log empty, decision not noted as applied",
        "member: decision known, not noted",
        "member: about to apply the decision, undo log not empty",
        "member: decision applied, partly noted",
        "member: decision applied, transaction still noted",
        "joined: a segment committed",
    ];
    for name in places {
        let death = |hit| Death { name, hit, after: None, durability: RELAXED, finder: Finder::Restart };
        assert!([1, 2, 3, 4, 5].map(|hit| death(hit).happens()).contains(&true), "no process died at {name}");
    }
}

/// The decision of a dead process's transaction is lost. A second process rolls back the transaction's memory, and dies
/// in the rollback. The next process finds the memory as it was before the transaction, and is not blocked.
#[test]
fn a_rolled_back_segment_has_not_applied_a_decision() {
    for nth in 0..3 {
        let directory = tempfile::tempdir().unwrap();
        let (directory, seed) = (directory.path(), sizes::first_seed() + nth);
        found(directory, RELAXED);
        for name in [
            // The victim dies at the first visit. At a later visit, commits that segments have already applied would be
            // lost, too.
            "member: about to apply the decision, undo log not empty",
            "member: rolled back, transaction still noted",
        ] {
            let mut victim = Child::start(directory, seed, name);
            assert!(victim.says("open"));
            victim.work(MANY);
            assert!(victim.end(), "the victim does not reach {name}");
            lose_memory(directory);
        }
        let judged = Business::open(directory).unwrap().judge();
        judged.unwrap_or_else(|wrong| panic!("seed {seed}: {wrong}"));
    }
}

/// No transaction joins the segments for a while. Meanwhile checkpoints are made and the environment is closed cleanly.
#[test]
fn checkpoints_carry_outcomes_that_no_session_has_applied() {
    let directory = tempfile::tempdir().unwrap();
    found(directory.path(), SYNC);
    let mut victim = Child::start(directory.path(), sizes::first_seed(), &format!("{BEFORE}@3"));
    victim.says("open");
    victim.work(MANY);
    assert!(victim.end(), "the victim does not reach {BEFORE}");
    let count = {
        let env = libtp::Env::open_or_create(directory.path()).unwrap();
        let open = open_outcomes(&env);
        assert_eq!(open.len(), 2, "both segments have an open outcome: {open:?}");
        assert!(env.checkpoint().unwrap());
        let control = std::fs::read(directory.path().join("control")).unwrap();
        let named = [4096, 8192].map(|slot| u32::from_le_bytes(control[slot + 88..slot + 92].try_into().unwrap()));
        assert_eq!(named.iter().max(), Some(&1), "the control file names one transaction");
        env.checkpoint().unwrap();
        open.len()
    };
    let business = Business::open(directory.path()).unwrap();
    assert_eq!(open_outcomes(&business.env).len(), count, "the checkpoint has the open outcomes");
    business.judge().unwrap_or_else(|wrong| panic!("{wrong}"));
    assert_eq!(open_outcomes(&business.env), []);
}

#[test]
fn record_and_memory_both_change_or_neither_after_a_death_at_any_failpoint() {
    let chosen: Option<String> = sizes::chosen("LIBTP_TEST_FAILPOINT");
    let (mut deaths, mut never) = (0, Vec::new());
    let is_wanted = |point: &&Failpoint| {
        matches!(point.scene, Scene::Memory { .. }) && chosen.as_deref().is_none_or(|one| one == point.name)
    };
    let points: Vec<&Failpoint> = failpoints::all().filter(is_wanted).collect();
    let points = if chosen.is_some() { points } else { sizes::todays(points) };
    for point in points {
        let Scene::Memory { after } = point.scene else { continue };
        let ways = [SYNC, RELAXED].into_iter().flat_map(|durability| FINDERS.map(|finder| (durability, finder)));
        let scenes = ways.flat_map(|(durability, finder)| hits().map(move |hit| (durability, finder, hit)));
        let death = |(durability, finder, hit)| Death { name: point.name, hit, after, durability, finder };
        let died = scenes.filter(|&scene| death(scene).happens()).count();
        if died == 0 {
            never.push(point.name);
        }
        deaths += died;
    }
    println!("figures: {deaths} deaths between records and memory, 0 torn, 0 lost");
    assert!(never.is_empty(), "no process died at {never:?}");
}

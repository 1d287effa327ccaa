//! Planted bugs, and for each the test that must notice it. If a test build switches a planted bug on, the bug breaks
//! a rule of the protocols at one place of the code. If no test notices the bug, no test covers the rule.
//!
//! A bug's name is the argument of its call (`rio::planted("log: ...")`); `grep -rn 'planted("' crates` finds the
//! calls.

mod cases;
mod crashes;
mod deaths;
mod stores;

pub use crashes::Catcher;
pub use stores::NoticedBy;

/// The suite that must notice a bug.
#[allow(missing_docs)] // each has the name of its suite
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Suite {
    Backup,
    Crash,
    /// `crates/rvm/tests/disks`.
    Disks,
    Failpoints,
    Files,
    Isolation,
    Joint,
    Lived,
    Model,
    Multiprocess,
    Snapshots,
    Stepped,
    Vista,
    Warm,
}

/// The way in which a process reaches a failpoint, and dies or stops there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scene {
    /// A victim dies at the failpoint while three survivors work.
    At(&'static str),
    /// In a new environment, a victim dies at the failpoint while three survivors work.
    Young(&'static str),
    /// A victim dies at the first failpoint, and the process that repairs it dies at the second.
    Repairing(&'static str, &'static str),
    /// A victim stops at the failpoint while other processes rebuild the memory, and continues afterwards.
    Standing(&'static str),
    /// A victim's thread panics at the failpoint.
    Panicking(&'static str),
}

impl Scene {
    /// Returns the failpoint of the scene.
    pub fn point(self) -> &'static str {
        match self {
            Scene::At(point) | Scene::Young(point) | Scene::Standing(point) | Scene::Panicking(point) => point,
            Scene::Repairing(_, point) => point,
        }
    }
}

/// The test that must notice a bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judge {
    /// The test function with this name.
    Case(&'static str),
    /// One of these scenes.
    Scenes(&'static [Scene]),
    /// A test of the crash suites.
    Catcher(Catcher),
    /// A test of the stores of recoverable memory.
    Stores(NoticedBy),
}

/// A bug and the test that must notice it.
#[derive(Clone, Copy, Debug)]
pub struct Planted {
    /// The name of the bug, as in the call of `rio::planted`.
    pub name: &'static str,
    /// The suite of the test.
    pub suite: Suite,
    /// The test.
    pub judge: Judge,
    /// Whether the bug is tried only if there is time, and may stay unnoticed in a run: it shows only if other sessions
    /// act at the right moment.
    pub shows_seldom: bool,
    /// A seed that has shown the bug; the test tries this seed before the seeds of the day.
    pub known_seed: Option<u64>,
}

impl Planted {
    const fn new(suite: Suite, name: &'static str, judge: Judge) -> Planted {
        Planted { name, suite, judge, shows_seldom: false, known_seed: None }
    }

    const fn seen_at(mut self, seed: u64) -> Planted {
        self.known_seed = Some(seed);
        self
    }

    /// Returns the scenes that must notice the bug.
    pub fn scenes(&self) -> &'static [Scene] {
        match self.judge {
            Judge::Scenes(scenes) => scenes,
            _ => &[],
        }
    }
}

const fn case(suite: Suite, name: &'static str, of: &'static str) -> Planted {
    Planted::new(suite, name, Judge::Case(of))
}

const fn seldom(mut bug: Planted) -> Planted {
    bug.shows_seldom = true;
    bug
}

/// Returns all planted bugs.
pub fn all() -> impl Iterator<Item = &'static Planted> {
    [cases::CASES, crashes::CRASHES, deaths::DEATHS, stores::STORES].into_iter().flatten()
}

/// Returns the bugs that a suite must notice.
pub fn of(suite: Suite) -> Vec<&'static Planted> {
    all().filter(|bug| bug.suite == suite).collect()
}

/// Returns the names of the bugs that a test of the stores must notice.
pub fn of_stores(test: NoticedBy) -> Vec<&'static str> {
    all().filter(|bug| bug.judge == Judge::Stores(test)).map(|bug| bug.name).collect()
}

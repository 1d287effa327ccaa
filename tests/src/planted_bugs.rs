//! The yardstick: bugs that a test build can switch on, each at a real place, each to be caught by the crash workload.
//!
//! The names are those of the sites (`rio::planted("log: ...")`); `grep -rn 'planted("' crates` finds them. A rule of the
//! protocols whose bug nobody catches is a rule nobody tests.

/// Who is to catch a bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Catcher {
    /// The workload itself, its crash states and its killed processes.
    Crashes,
    /// The same workload with calls that fail.
    FailingCalls,
    /// Damaged files.
    Damage,
}

/// A bug and who is to catch it.
#[derive(Clone, Copy, Debug)]
pub struct PlantedBug {
    /// The site's name.
    pub name: &'static str,
    /// Who catches it.
    pub catcher: Catcher,
}

const fn by_crashes(name: &'static str) -> PlantedBug {
    PlantedBug { name, catcher: Catcher::Crashes }
}

/// All of them.
pub const PLANTED_BUGS: &[PlantedBug] = &[
    by_crashes("log: no sync at commit"),
];

//! The heavy suites: integration tests, each at three sizes.
//!
//! A suite is one entry of [`SUITES`]. Environment variables set its size; `cargo test` alone runs the same test at a
//! small default size. A suite whose test does not exist, or that runs no test at all, is a failure. So the renaming of
//! a file cannot remove a suite unnoticed. The sanitizers are a suite, too, although cargo has no test for them.

/// The unit tests that loom runs.
pub const LOOM: &str = "loom";
/// The doubt that `LOOM` answers.
pub const LOOM_DOUBT: &str = "Are latches, the log's tail and thin locks right in every interleaving?";
/// The part of the name that all of loom's tests share.
pub const LOOM_TESTS: &str = "::loom_tests::";
/// The test programs that belong to no suite.
pub const UNIT_TESTS: &str = "unit tests";
/// The doubt that `UNIT_TESTS` answers.
pub const UNIT_TESTS_DOUBT: &str = "Does each part do what its interface says?";

/// The features that a suite is built with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Build {
    /// All features: planted bugs, failpoints, scheduling points. One build serves all suites with this value.
    ForTests,
    /// No features: `--deep` and `soak` build the library as users do. `test` has no such build, and runs these suites
    /// with all features.
    ForUsers,
}

/// One integration test and its three sizes.
pub struct Suite {
    /// Name in `cargo xtask test NAME` and in the tables.
    pub name: &'static str,
    /// The package that owns the test.
    pub package: &'static str,
    /// The integration test (`--test TARGET`).
    pub target: &'static str,
    /// Run only the tests whose names contain this text; empty for all.
    pub only: &'static str,
    /// The features that the suite is built with.
    pub build: Build,
    /// The doubt that the suite answers.
    pub doubt: &'static str,
    /// The faults that the suite must notice.
    pub catches: &'static str,
    /// Size under `cargo xtask test`.
    pub test_env: Env,
    /// Size under `cargo xtask test --deep`.
    pub deep_env: Env,
    /// Size under `cargo xtask soak`.
    pub soak_env: Env,
}

/// Environment variables and their values.
pub type Env = &'static [(&'static str, &'static str)];

impl Suite {
    /// Returns the filters of other suites in the same test program. This suite leaves their tests out.
    pub fn apart(&self) -> impl Iterator<Item = &'static str> + '_ {
        let others = SUITES.iter().filter(|other| other.target == self.target && other.name != self.name);
        others.map(|other| other.only).filter(|only| !only.is_empty() && self.only.is_empty())
    }

    /// Returns whether cargo builds this suite's test; false for the sanitizers.
    pub fn is_cargos(&self) -> bool {
        self.package != WATCHERS
    }
}

/// Every heavy suite.
#[rustfmt::skip]
pub const SUITES: &[Suite] = &[
    Suite {
        name: "backup", package: TESTS, target: "backup", only: "", build: Build::ForTests,
        doubt: "Is a backup of an environment in use a copy of one moment?",
        catches: "a backup that mixes two moments, a truncated backup that opens, unnoticed damage in a backup; planted bugs of backup",
        test_env: &[("LIBTP_TEST_SHARE", "3")],
        deep_env: &[],
        soak_env: &[("LIBTP_TEST_BACKUPS", "100"), ("LIBTP_TEST_BACKUP_CUTS", "2000"), ("LIBTP_TEST_HARMS", "2000")],
    },
    Suite {
        name: "bad_input", package: TESTS, target: "bad_input", only: "", build: Build::ForTests,
        doubt: "Does bad input cause an error that is a sentence, with nothing lost?",
        catches: "a panic, a SIGBUS or a lost record on a limit, a foreign file, a full disk or full memory",
        test_env: &[],
        deep_env: &[],
        soak_env: &[("LIBTP_TEST_DISKS", "50"), ("LIBTP_TEST_RECORDS", "10000000"), ("LIBTP_TEST_LOCKS", "1000000")],
    },
    Suite {
        name: "crash", package: TESTS, target: "crash", only: "", build: Build::ForTests,
        doubt: "Is every acknowledged commit kept after a power cut?",
        catches: "a lost or half-done transaction after any sampled power cut, failed call or torn flush",
        test_env: &[("LIBTP_TEST_STATES", "200"), ("LIBTP_TEST_FAULTS", "30"), ("LIBTP_TEST_SHARE", "4")],
        deep_env: &[("LIBTP_TEST_STATES", "20000"), ("LIBTP_TEST_FAULTS", "1000")],
        soak_env: &[("LIBTP_TEST_STATES", "100000"), ("LIBTP_TEST_FAULTS", "1000000"), ("LIBTP_TEST_LOGS", "20")],
    },
    Suite {
        name: "damage", package: TESTS, target: "damage", only: "", build: Build::ForTests,
        doubt: "Is damage ever returned as data?",
        catches: "a wrong value read from a file with flipped bits, or with zeroed or exchanged blocks",
        test_env: &[("LIBTP_TEST_FLIPS", "1000")],
        deep_env: &[("LIBTP_TEST_FLIPS", "2000")],
        soak_env: &[("LIBTP_TEST_FLIPS", "100000")],
    },
    Suite {
        name: "failpoints", package: TESTS, target: "failpoints", only: "", build: Build::ForTests,
        doubt: "Do other processes continue when a process dies between two valid states?",
        catches: "a stuck process, a lost commit, a lock or page that is not released, after a death at each failpoint",
        test_env: &[("LIBTP_TEST_SHARE", "6")],
        deep_env: &[],
        soak_env: &[("LIBTP_TEST_SEEDS", "20"), ("LIBTP_TEST_PANICS", "1000")],
    },
    Suite {
        name: "files", package: TESTS, target: "files", only: "", build: Build::ForTests,
        doubt: "Do plain files change with their records?",
        catches: "a file and a record of different versions, a temporary file that remains; planted bugs of plain files",
        test_env: &[("LIBTP_TEST_SHARE", "3")],
        deep_env: &[],
        soak_env: &[("LIBTP_TEST_SEEDS", "50"), ("LIBTP_TEST_STATES", "500"), ("LIBTP_TEST_KILLS", "1000")],
    },
    Suite {
        name: FUZZ, package: "libtp-fuzz", target: "fuzz", only: "", build: Build::ForTests,
        doubt: "Does any input panic, hang or exhaust memory?",
        catches: "a panic or a hang on pages, log records, logs, the control file, dumps and settings",
        test_env: &[("LIBTP_TEST_FUZZ_MILLIS", "1500")],
        deep_env: &[("LIBTP_TEST_FUZZ_MILLIS", "1500")],
        soak_env: &[("LIBTP_TEST_FUZZ_MILLIS", "10000"), ("LIBTP_FUZZ_SECONDS", "600")],
    },
    Suite {
        name: "isolation", package: TESTS, target: "isolation", only: "", build: Build::ForTests,
        doubt: "Is every history serializable?",
        catches: "a cycle in the histories of threads, of appends and of killed processes; Hermitage cases; a read of an older state than an earlier read saw; a wait that does not end",
        test_env: &[("LIBTP_TEST_TXNS", "14000")],
        deep_env: &[("LIBTP_TEST_TXNS", "14000")],
        soak_env: &[("LIBTP_TEST_TXNS", "1000000")],
    },
    Suite {
        name: "joint", package: TESTS, target: "joint", only: "", build: Build::ForTests,
        doubt: "Do records and recoverable memory commit together?",
        catches: "a commit of only the records or only the memory, a message delivered twice; planted bugs of joined transactions",
        test_env: &[("LIBTP_TEST_SHARE", "3")],
        deep_env: &[],
        soak_env: &[("LIBTP_TEST_KILLS", "5000"), ("LIBTP_TEST_HITS", "30")],
    },
    Suite {
        name: "kills", package: TESTS, target: "kills", only: "", build: Build::ForUsers,
        doubt: "Do survivors continue at once when processes are killed?",
        catches: "a lost transfer, a stuck survivor, a rebuild of the shared memory",
        test_env: &[("LIBTP_TEST_KILL_SECONDS", "4")],
        deep_env: &[("LIBTP_TEST_KILL_SECONDS", "20")],
        soak_env: &[("LIBTP_TEST_KILL_SECONDS", "60"), ("LIBTP_TEST_STALL_SECONDS", "60")],
    },
    Suite {
        name: LAB, package: TESTS, target: LAB, only: "", build: Build::ForTests,
        doubt: "Does memory survive a crash of the system?",
        catches: "an announced transaction that is missing after a crash of an emulated machine",
        test_env: &[("LIBTP_TEST_CYCLES", "2")],
        deep_env: &[("LIBTP_TEST_CYCLES", "5")],
        soak_env: &[("LIBTP_TEST_CYCLES", "200")],
    },
    Suite {
        name: "lived", package: TESTS, target: "lived", only: "", build: Build::ForTests,
        doubt: "Does anything grow without end?",
        catches: "files, log, shared memory or process that grow under a fixed working set",
        test_env: &[("LIBTP_TEST_OPERATIONS", "500000"), ("LIBTP_TEST_KEYS", "2500")],
        deep_env: &[("LIBTP_TEST_OPERATIONS", "1000000"), ("LIBTP_TEST_KEYS", "2500")],
        soak_env: &[("LIBTP_TEST_OPERATIONS", "100000000"), ("LIBTP_TEST_KEYS", "100000"), ("LIBTP_TEST_PLOT", "docs/figures/lived.svg")],
    },
    Suite {
        name: "model", package: TESTS, target: "model", only: "", build: Build::ForTests,
        doubt: "Do all access methods act like a map in memory?",
        catches: "a difference from the model in transactions, crashes and restarts; planted bugs of cursors",
        test_env: &[("LIBTP_TEST_CASES", "40")],
        deep_env: &[("LIBTP_TEST_CASES", "120")],
        soak_env: &[("LIBTP_TEST_CASES", "2000")],
    },
    Suite {
        name: "multiprocess", package: TESTS, target: "multiprocess", only: "", build: Build::ForTests,
        doubt: "Is an environment shared by processes safe?",
        catches: "a lost transfer, a leaked page, frame, lock or session when processes die, fork, stop or lose files",
        test_env: &[],
        deep_env: &[],
        soak_env: &[("LIBTP_TEST_DEATHS", "200"), ("LIBTP_TEST_WILD_STRICT", "1")],
    },
    Suite {
        name: "rvm", package: "rvm", target: "disks", only: "", build: Build::ForTests,
        doubt: "Is memory on a plain disk recoverable?",
        catches: "a half-done transaction after a crash between any two calls; planted bugs of RVM",
        test_env: &[],
        deep_env: &[],
        soak_env: &[("LIBTP_TEST_EVERY", "1")],
    },
    Suite {
        name: "sanitizers", package: WATCHERS, target: "", only: "", build: Build::ForTests,
        doubt: "Is there a data race or undefined behaviour?",
        catches: "a report of ThreadSanitizer or Miri; only in a soak",
        test_env: &[],
        deep_env: &[],
        soak_env: &[("LIBTP_TEST_WATCHED", "1")],
    },
    Suite {
        name: "schedules", package: TESTS, target: "schedules", only: "", build: Build::ForTests,
        doubt: "Is there a schedule that breaks locks, trees or repair?",
        catches: "a broken invariant under random schedules; planted bugs of locks",
        test_env: &[("LIBTP_TEST_SCHEDULES", "250")],
        deep_env: &[("LIBTP_TEST_SCHEDULES", "2600")],
        soak_env: &[("LIBTP_TEST_SCHEDULES", "100000")],
    },
    Suite {
        name: "snapshots", package: TESTS, target: "snapshots", only: "", build: Build::ForTests,
        doubt: "Does a snapshot show exactly what was committed then?",
        catches: "a record of another moment; planted bugs of snapshots",
        test_env: &[],
        deep_env: &[],
        soak_env: &[("LIBTP_TEST_HISTORIES", "500")],
    },
    Suite {
        name: "stepped", package: TESTS, target: "stepped", only: "", build: Build::ForUsers,
        doubt: "Do other processes continue when a process dies between any two instructions?",
        catches: "a stuck survivor, a lost or half-done transaction, a lock, pin or session that remains, at a death before each store of each operation",
        test_env: &[("LIBTP_TEST_SHARE", "4"), ("LIBTP_TEST_STORES", "40"), ("LIBTP_TEST_REPAIRERS", "12")],
        deep_env: &[("LIBTP_TEST_STORES", "60"), ("LIBTP_TEST_REPAIRERS", "60")],
        soak_env: &[("LIBTP_TEST_STORES", "0"), ("LIBTP_TEST_REPAIRERS", "0")],
    },
    Suite {
        name: "tcl", package: "libtp-sqlite", target: "tcl", only: "", build: Build::ForUsers,
        doubt: "Do environments pass the test cases of SQLite that files pass?",
        catches: "a test case of SQLite's own scripts that fails on an environment and is not in the list of exceptions, or passes and is in the list",
        test_env: &[("LIBTP_TEST_SCRIPTS", "few")],
        deep_env: &[("LIBTP_TEST_SCRIPTS", "listed")],
        soak_env: &[("LIBTP_TEST_SCRIPTS", "listed")],
    },
    Suite {
        name: "vista", package: TESTS, target: "vista", only: "", build: Build::ForTests,
        doubt: "Is recoverable memory consistent after a kill between any two stores?",
        catches: "a torn or lost transaction at kills, single steps and wild stores; planted bugs of vista",
        test_env: &[("LIBTP_TEST_SHARE", "4"), ("LIBTP_TEST_KILLS", "400"), ("LIBTP_TEST_WILD", "10000"), ("LIBTP_TEST_TRACED", "5"), ("LIBTP_TEST_TRACED_TWO", "5")],
        deep_env: &[("LIBTP_TEST_KILLS", "600"), ("LIBTP_TEST_WILD", "10000")],
        soak_env: &[("LIBTP_TEST_KILLS", "24000"), ("LIBTP_TEST_TRACED", "1000"), ("LIBTP_TEST_TRACED_TWO", "100"), ("LIBTP_TEST_TRACED_JOINED", "20"), ("LIBTP_TEST_WILD", "100000")],
    },
    Suite {
        name: "warm", package: TESTS, target: "warm", only: "", build: Build::ForTests,
        doubt: "Are commits found in memory that outlives the system?",
        catches: "a lost commit after a simulated or real restart; planted bugs of warm starts",
        test_env: &[("LIBTP_TEST_WARM", "150"), ("LIBTP_TEST_WARM_KILLS", "6")],
        deep_env: &[("LIBTP_TEST_WARM", "2000"), ("LIBTP_TEST_WARM_KILLS", "10")],
        soak_env: &[("LIBTP_TEST_WARM", "20000"), ("LIBTP_TEST_WARM_KILLS", "500")],
    },
    Suite {
        name: "yardstick", package: TESTS, target: "yardstick", only: "", build: Build::ForTests,
        doubt: "Do the crash tests notice a broken rule?",
        catches: "each planted bug of log, buffer, lock, tree and recovery, within ten seeds",
        test_env: &[("LIBTP_TEST_UNPLANTED", "0"), ("LIBTP_TEST_SHARE", "4")],
        deep_env: &[("LIBTP_TEST_UNPLANTED", "3")],
        soak_env: &[("LIBTP_TEST_UNPLANTED", "10")],
    },
    Suite {
        name: "yardstick_deaths", package: TESTS, target: "failpoints", only: "yardstick::", build: Build::ForTests,
        doubt: "Do the failpoint tests notice a broken repair?",
        catches: "each planted bug of repair, within ten seeds",
        test_env: &[("LIBTP_TEST_SHARE", "4")],
        deep_env: &[("LIBTP_TEST_SELDOM", "1")],
        soak_env: &[("LIBTP_TEST_SELDOM", "1"), ("LIBTP_TEST_SEEDS", "10")],
    },
    Suite {
        name: "yardstick_lived", package: TESTS, target: "lived", only: "yardstick::", build: Build::ForTests,
        doubt: "Does `lived` notice growth?",
        catches: "each planted bug that makes a file, the log, the shared memory or the process grow",
        test_env: &[],
        deep_env: &[],
        soak_env: &[],
    },
    Suite {
        name: "yardstick_processes", package: TESTS, target: "multiprocess", only: "yardstick::", build: Build::ForTests,
        doubt: "Does `multiprocess` notice its bugs?",
        catches: "each planted bug that a case of `multiprocess` looks for",
        test_env: &[("LIBTP_TEST_SHARE", "4")],
        deep_env: &[("LIBTP_TEST_SELDOM", "1")],
        soak_env: &[("LIBTP_TEST_SELDOM", "1")],
    },
    Suite {
        name: "yardstick_stepped", package: TESTS, target: "yardstick_stepped", only: "", build: Build::ForTests,
        doubt: "Does `stepped` notice a wrong order of stores?",
        catches: "each planted bug in the order of stores, within ten seeds",
        test_env: &[("LIBTP_TEST_SHARE", "3")],
        deep_env: &[("LIBTP_TEST_SELDOM", "1")],
        soak_env: &[("LIBTP_TEST_SELDOM", "1")],
    },
];

/// The suite that a soak continues with libFuzzer.
pub const FUZZ: &str = "fuzz";
/// The package of the whole-system tests.
const TESTS: &str = "libtp-tests";
/// The suite whose program runs on an emulated machine that crashes.
pub const LAB: &str = "lab";
/// The package name of the sanitizers, which run tests of other packages.
pub const WATCHERS: &str = "(the sanitizers)";

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn no_two_suites_have_the_same_name() {
        let names: HashSet<&str> = SUITES.iter().map(|suite| suite.name).collect();
        assert_eq!(names.len(), SUITES.len());
    }

    /// If a test of another package had the name of a suite's test, no run would include it: the run of unit tests
    /// leaves out tests with the names of suites, and each suite runs the test of one package.
    #[test]
    fn tests_of_other_packages_do_not_share_the_name_of_a_suite_test() {
        let crates = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates");
        for package in std::fs::read_dir(crates).unwrap() {
            let folder = package.unwrap().path();
            let Ok(tests) = std::fs::read_dir(folder.join("tests")) else { continue };
            for test in tests {
                let path = test.unwrap().path();
                let name = path.file_stem().unwrap_or_default().to_str().unwrap_or_default();
                let is_test = path.extension().is_some_and(|extension| extension == "rs");
                let is_suites = |suite: &Suite| suite.target == name && !folder.ends_with(suite.package);
                assert!(!is_test || !SUITES.iter().any(is_suites), "{} is run by no suite", path.display());
            }
        }
    }

    #[test]
    fn a_test_belongs_to_one_suite() {
        let apart = |name| SUITES.iter().find(|it| it.name == name).map(|it| it.apart().collect::<Vec<_>>());
        assert_eq!(apart("multiprocess"), Some(vec!["yardstick::"]));
        assert_eq!(apart("yardstick_processes"), Some(Vec::new()));
    }

    #[test]
    fn recoverable_memory_is_soaked_as_often_as_was_promised() {
        let promised = [
            ("vista", "LIBTP_TEST_KILLS", 20_000),
            ("vista", "LIBTP_TEST_TRACED", 1000),
            ("vista", "LIBTP_TEST_WILD", 10_000),
            ("lab", "LIBTP_TEST_CYCLES", 200),
        ];
        for (suite, variable, least) in promised {
            let suite = SUITES.iter().find(|it| it.name == suite).unwrap();
            let size = suite.soak_env.iter().find(|(name, _)| *name == variable).map(|(_, value)| value.parse::<u64>());
            assert!(size.is_some_and(|size| size.unwrap() >= least), "{variable} of {}", suite.name);
        }
    }
}

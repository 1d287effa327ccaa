//! The heavy suites: integration tests that run in release, each at two sizes.
//!
//! A suite is one line of [`SUITES`]. Its size is told through environment variables, so that `cargo test` on a
//! developer's machine runs the same test at its own small default. A suite of this table whose test does not exist, or
//! that runs no test at all, is a failure: a suite must not vanish by a renamed file. The lab is one, too, though what runs it is
//! not cargo.

/// One integration test and its two sizes.
pub struct Suite {
    /// What `cargo xtask test NAME` and the tables call it.
    pub name: &'static str,
    /// The package that owns the test.
    pub package: &'static str,
    /// The integration test (`--test TARGET`).
    pub target: &'static str,
    /// Only its tests whose names contain this; all of them if it is empty.
    pub only: &'static str,
    /// Cargo features of the package that the test needs. Each set of them is a build of everything of its own.
    pub features: &'static [&'static str],
    /// Size under `cargo xtask test`.
    pub test_env: &'static [(&'static str, &'static str)],
    /// Size under `cargo xtask soak`.
    pub soak_env: &'static [(&'static str, &'static str)],
}

impl Suite {
    /// What the names of those tests of its binary contain that are a suite of their own. Built alike, the two are built once.
    pub fn apart(&self) -> impl Iterator<Item = &'static str> + '_ {
        let others = SUITES.iter().filter(|other| other.target == self.target && other.name != self.name);
        others.map(|other| other.only).filter(|only| !only.is_empty() && self.only.is_empty())
    }
}

/// Every heavy suite, in the order in which they run.
#[rustfmt::skip]
pub const SUITES: &[Suite] = &[
    Suite { name: "backup", package: TESTS, target: "backup", only: "", features: &["failpoints", "planted"], test_env: &[], soak_env: &[("LIBTP_TEST_BACKUPS", "100"), ("LIBTP_TEST_BACKUP_CUTS", "2000"), ("LIBTP_TEST_HARMS", "2000")] },
    Suite { name: "bad_input", package: TESTS, target: "bad_input", only: "", features: &[], test_env: &[], soak_env: &[("LIBTP_TEST_DISKS", "50"), ("LIBTP_TEST_RECORDS", "10000000"), ("LIBTP_TEST_LOCKS", "1000000")] },
    Suite { name: "crash", package: TESTS, target: "crash", only: "", features: &[], test_env: &[("LIBTP_TEST_STATES", "20000"), ("LIBTP_TEST_FAULTS", "1000")], soak_env: &[("LIBTP_TEST_STATES", "100000"), ("LIBTP_TEST_FAULTS", "1000000"), ("LIBTP_TEST_LOGS", "20")] },
    Suite { name: "damage", package: TESTS, target: "damage", only: "", features: &[], test_env: &[("LIBTP_TEST_FLIPS", "2000")], soak_env: &[("LIBTP_TEST_FLIPS", "100000")] },
    Suite { name: "failpoints", package: TESTS, target: "failpoints", only: "", features: &["failpoints", "planted"], test_env: &[], soak_env: &[("LIBTP_TEST_SEEDS", "20"), ("LIBTP_TEST_PANICS", "1000")] },
    Suite { name: "files", package: TESTS, target: "files", only: "", features: &["failpoints", "planted"], test_env: &[], soak_env: &[("LIBTP_TEST_SEEDS", "50"), ("LIBTP_TEST_STATES", "500"), ("LIBTP_TEST_KILLS", "1000")] },
    Suite { name: FUZZ, package: "libtp-fuzz", target: "fuzz", only: "", features: &[], test_env: &[("LIBTP_TEST_FUZZ_MILLIS", "1500")], soak_env: &[("LIBTP_TEST_FUZZ_MILLIS", "10000"), ("LIBTP_FUZZ_SECONDS", "600")] },
    Suite { name: "isolation", package: TESTS, target: "isolation", only: "", features: &[], test_env: &[("LIBTP_TEST_TXNS", "20000")], soak_env: &[("LIBTP_TEST_TXNS", "1000000")] },
    Suite { name: "joint", package: TESTS, target: "joint", only: "", features: &["failpoints", "planted"], test_env: &[], soak_env: &[("LIBTP_TEST_KILLS", "5000"), ("LIBTP_TEST_HITS", "30")] },
    Suite { name: "kills", package: TESTS, target: "kills", only: "", features: &[], test_env: &[("LIBTP_TEST_KILL_SECONDS", "20")], soak_env: &[("LIBTP_TEST_KILL_SECONDS", "60")] },
    Suite { name: "lab", package: LAB, target: "", only: "", features: &[], test_env: &[("LIBTP_TEST_CYCLES", "5")], soak_env: &[("LIBTP_TEST_CYCLES", "200")] },
    Suite { name: "lived", package: TESTS, target: "lived", only: "", features: &[], test_env: &[("LIBTP_TEST_OPERATIONS", "1000000"), ("LIBTP_TEST_KEYS", "2500")], soak_env: &[("LIBTP_TEST_OPERATIONS", "100000000"), ("LIBTP_TEST_KEYS", "100000"), ("LIBTP_TEST_PLOT", "docs/figures/lived.svg")] },
    Suite { name: "model", package: TESTS, target: "model", only: "", features: &[], test_env: &[("LIBTP_TEST_CASES", "120")], soak_env: &[("LIBTP_TEST_CASES", "2000")] },
    Suite { name: "multiprocess", package: TESTS, target: "multiprocess", only: "", features: &["failpoints", "planted"], test_env: &[], soak_env: &[("LIBTP_TEST_DEATHS", "200"), ("LIBTP_TEST_WILD_STRICT", "1")] },
    Suite { name: "rvm", package: "rvm", target: "disks", only: "", features: &["planted"], test_env: &[], soak_env: &[("LIBTP_TEST_EVERY", "1")] },
    Suite { name: "sanitizers", package: WATCHERS, target: "", only: "", features: &[], test_env: &[], soak_env: &[("LIBTP_TEST_WATCHED", "1")] },
    Suite { name: "schedules", package: TESTS, target: "schedules", only: "", features: &["scheduled", "planted"], test_env: &[("LIBTP_TEST_SCHEDULES", "2600")], soak_env: &[("LIBTP_TEST_SCHEDULES", "100000")] },
    Suite { name: "snapshots", package: TESTS, target: "snapshots", only: "", features: &["failpoints", "planted"], test_env: &[], soak_env: &[("LIBTP_TEST_HISTORIES", "500")] },
    Suite { name: "vista", package: TESTS, target: "vista", only: "", features: &["failpoints", "planted"], test_env: &[("LIBTP_TEST_KILLS", "600"), ("LIBTP_TEST_WILD", "10000")], soak_env: &[("LIBTP_TEST_KILLS", "24000"), ("LIBTP_TEST_TRACED", "1000"), ("LIBTP_TEST_TRACED_TWO", "100"), ("LIBTP_TEST_TRACED_JOINED", "20"), ("LIBTP_TEST_WILD", "100000")] },
    Suite { name: "warm", package: TESTS, target: "warm", only: "", features: &["failpoints", "planted"], test_env: &[("LIBTP_TEST_WARM", "2000"), ("LIBTP_TEST_WARM_KILLS", "10")], soak_env: &[("LIBTP_TEST_WARM", "20000"), ("LIBTP_TEST_WARM_KILLS", "500")] },
    Suite { name: "yardstick", package: TESTS, target: "yardstick", only: "", features: &["failpoints", "planted"], test_env: &[], soak_env: &[("LIBTP_TEST_UNPLANTED", "10")] },
    Suite { name: "yardstick_deaths", package: TESTS, target: "failpoints", only: "yardstick::", features: &["failpoints", "planted"], test_env: &[], soak_env: &[("LIBTP_TEST_SELDOM", "1"), ("LIBTP_TEST_SEEDS", "10")] },
    Suite { name: "yardstick_lived", package: TESTS, target: "lived", only: "yardstick::", features: &["failpoints", "planted"], test_env: &[], soak_env: &[] },
    Suite { name: "yardstick_processes", package: TESTS, target: "multiprocess", only: "yardstick::", features: &["failpoints", "planted"], test_env: &[], soak_env: &[] },
];

/// The suite that libFuzzer does a part of, where it is soaked.
pub const FUZZ: &str = "fuzz";
/// The package of the whole-system tests.
const TESTS: &str = "libtp-tests";
/// In the place of a package: a machine that is crashed, and no test of cargo's.
pub const LAB: &str = "(the lab)";
/// The same: the compiler's watchers, over tests of other packages.
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

    /// Such a test would be run by nobody: unit tests leave out what has a suite's name, and a suite is of one package.
    #[test]
    fn no_test_of_another_package_has_the_name_of_a_suites() {
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
    fn no_test_is_of_two_suites() {
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

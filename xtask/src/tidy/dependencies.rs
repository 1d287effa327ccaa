//! The allowed dependencies between crates. Every dependency must be explained and used.

use super::source::{code, word_places, File};
use crate::workspace::Package;
use std::collections::BTreeSet;

/// The figure of ARCHITECTURE.md as a table: a crate, and the crates of ours that it may depend on.
///
/// `libtp` may name every manager; crates above it see only its re-exports.
const ARROWS: &[(&str, &[&str])] = &[
    ("libtp-rio", &[]),
    ("libtp-vista", &["libtp-rio"]),
    // `libtp-io` uses only rio's `Anchor`.
    ("libtp-io", &["libtp-rio"]),
    ("rvm", &["libtp-vista", "libtp-io", "libtp-rio"]),
    ("libtp-process", &["libtp-rio"]),
    ("libtp-lock", &["libtp-process", "libtp-rio"]),
    ("libtp-log", &["libtp-io", "libtp-process", "libtp-rio"]),
    ("libtp-buffer", &["libtp-log", "libtp-io", "libtp-process", "libtp-rio"]),
    ("libtp-txn", &["libtp-log", "libtp-lock", "libtp-buffer", "libtp-process", "libtp-rio"]),
    // The record manager depends on `libtp-process`, because every call with a latch names ranks and sessions. It
    // depends on `libtp-io`, because it makes database files.
    (
        "libtp-record",
        &["libtp-txn", "libtp-log", "libtp-lock", "libtp-buffer", "libtp-process", "libtp-io", "libtp-rio"],
    ),
    (
        "libtp",
        &[
            "libtp-record",
            "libtp-txn",
            "libtp-log",
            "libtp-lock",
            "libtp-buffer",
            "libtp-process",
            "libtp-io",
            "libtp-vista",
            "libtp-rio",
        ],
    ),
    ("libtp-histogram", &[]),
    ("libtp-console", &["libtp"]),
    ("libtp-bank", &["libtp", "libtp-console"]),
    ("libtp-bench", &["libtp", "libtp-bank", "libtp-console", "libtp-histogram", "libtp-sqlite", "rvm", "libtp-vista"]),
    ("libtp-cli", &["libtp", "libtp-bank", "libtp-console", "libtp-histogram", "libtp-vista"]),
    ("libtp-capi", &["libtp", "libtp-vista"]),
    ("libtp-sqlite", &["libtp"]),
    ("libtp-sql", &["libtp-console", "libtp-sqlite"]),
    ("libtp-sim", &["libtp-io"]),
    // These tests use the log and the sessions without an environment, because they choose the exact byte at which a
    // log ends.
    ("libtp-tests", &["libtp", "libtp-sim", "libtp-log", "libtp-process", "libtp-io", "libtp-rio", "libtp-vista"]),
    // Each entry point is tried by itself: pages and log records are passed to their readers without an environment.
    (
        "libtp-fuzz",
        &[
            "libtp",
            "libtp-record",
            "libtp-txn",
            "libtp-log",
            "libtp-lock",
            "libtp-buffer",
            "libtp-process",
            "libtp-io",
            "libtp-rio",
        ],
    ),
    ("xtask", &[]),
];

const LIST: &str = "ARCHITECTURE.md";
const LIST_HEADING: &str = "## Dependencies";

/// Returns dependencies that the figure does not have. Tests may depend on any crate.
pub fn wrong_arrows(packages: &[Package]) -> Vec<String> {
    let mut complaints = Vec::new();
    for package in packages {
        let Some((_, allowed)) = ARROWS.iter().find(|(name, _)| *name == package.name) else {
            complaints
                .push(format!("{}: a new crate; add it to ARROWS in xtask/src/tidy/dependencies.rs", package.folder));
            continue;
        };
        for dependency in package.dependencies.iter().filter(|dependency| !dependency.for_tests) {
            let ours = packages.iter().any(|other| other.name == dependency.name);
            if ours && !allowed.contains(&dependency.name.as_str()) {
                complaints.push(format!("{}: must not know {}", package.folder, dependency.name));
            }
        }
    }
    complaints
}

/// Returns outside dependencies without a line in ARCHITECTURE.md, and lines without a dependency.
pub fn unexplained(files: &[File], packages: &[Package]) -> Vec<String> {
    let used: BTreeSet<&str> = packages
        .iter()
        .flat_map(|package| &package.dependencies)
        .map(|dependency| dependency.name.as_str())
        .filter(|name| !packages.iter().any(|package| package.name == *name))
        .collect();
    let text = files.iter().find(|file| file.path == LIST).map_or("", |file| file.text.as_str());
    let explained = explained(text);
    let missing =
        used.difference(&explained).map(|name| format!("{LIST}: explain under {LIST_HEADING:?} why we use {name}"));
    let stale = explained.difference(&used).map(|name| format!("{LIST}: explains {name}, which nothing uses"));
    missing.chain(stale).collect()
}

/// Returns the names in "* `name`: why" or "* `a`, `b`: why" lines under the heading.
fn explained(text: &str) -> BTreeSet<&str> {
    let section = text.split(LIST_HEADING).nth(1).unwrap_or("");
    let section = section.split("\n## ").next().unwrap_or("");
    let lines = section.lines().filter_map(|line| line.strip_prefix("* `"));
    let heads = lines.filter_map(|line| line.split_once(':')).map(|(head, _)| head);
    heads.flat_map(|head| head.split(',')).map(|name| name.trim().trim_matches('`')).collect()
}

/// Returns dependencies that no source file of their crate names.
pub fn unused(files: &[File], packages: &[Package]) -> Vec<String> {
    let mut complaints = Vec::new();
    for package in packages {
        let folder = format!("{}/", package.folder);
        let inside = |file: &&File| {
            file.is_rust()
                && (file.path.starts_with(&folder) || package.targets.iter().any(|target| target.source == file.path))
        };
        let source: String = files.iter().filter(inside).map(|file| code(&file.text)).collect();
        let with_examples: String = files.iter().filter(inside).map(|file| file.text.as_str()).collect();
        for dependency in &package.dependencies {
            // Only a documentation test may name a dependency for tests.
            let place = if dependency.for_tests { &with_examples } else { &source };
            if word_places(place, &dependency.called.replace('-', "_")).is_empty() {
                complaints
                    .push(format!("{folder}Cargo.toml: {} is named by no source file; remove it", dependency.name));
            }
        }
    }
    complaints
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::Dependency;

    fn package(name: &str, dependencies: &[(&str, bool)]) -> Package {
        let dependency = |(name, for_tests): &(&str, bool)| Dependency {
            name: (*name).into(),
            called: (*name).into(),
            for_tests: *for_tests,
        };
        Package {
            name: name.into(),
            folder: format!("crates/{name}"),
            dependencies: dependencies.iter().map(dependency).collect(),
            targets: Vec::new(),
            features: Vec::new(),
            is_published: true,
        }
    }

    #[test]
    fn a_forbidden_dependency_is_found_and_tests_may_depend_on_any_crate() {
        let packages = [
            package("libtp-rio", &[("libtp-log", false), ("libtp-io", true)]),
            package("libtp-log", &[("libtp-rio", false)]),
            package("libtp-io", &[]),
        ];
        assert_eq!(wrong_arrows(&packages), ["crates/libtp-rio: must not know libtp-log"]);
    }

    #[test]
    fn a_crate_that_the_figure_does_not_have_is_found() {
        assert_eq!(wrong_arrows(&[package("libtp-cache", &[])]).len(), 1);
    }

    #[test]
    fn dependencies_and_their_list_must_agree() {
        let text = "# A\n## Dependencies\n\n* `rustix`, `libc`: calls\n* `heed`: a peer\n## Next\n* `clap`: not here\n";
        let files = [File { path: LIST.into(), text: text.into() }];
        let packages = [
            package("libtp-rio", &[("rustix", false), ("libc", true), ("clap", false)]),
            package("libtp-io", &[("libtp-rio", false)]),
        ];
        let complaints = unexplained(&files, &packages);
        assert_eq!(complaints.len(), 2);
        assert!(complaints[0].ends_with("why we use clap") && complaints[1].contains("heed"));
    }

    #[test]
    fn a_dependency_that_no_source_names_is_found() {
        let files = [File { path: "crates/a/src/lib.rs".into(), text: "use libtp_log::Lsn; // rustix".into() }];
        let complaints = unused(&files, &[package("a", &[("libtp-log", false), ("rustix", false)])]);
        assert_eq!(complaints.len(), 1);
        assert!(complaints[0].contains("rustix"));
    }
}

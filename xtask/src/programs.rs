//! The test programs: one cargo command builds all of them, and the suites and unit tests are runs of them.

use crate::child;
use crate::suites::{Build, Suite, SUITES};
use crate::workspace::{niced, niced_cargo, Workspace};
use serde_json::Value;
use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Longest time of a build on a busy machine.
const LIMIT: Duration = Duration::from_secs(60 * 60);

/// One program of tests.
pub struct Program {
    /// The package of the program.
    pub package: String,
    /// `lib`, `bin`, `test` or `example`, and the target's name.
    pub target: (String, String),
    /// The file.
    pub path: PathBuf,
    /// The package's folder, in which its tests run.
    pub home: PathBuf,
}

/// The name of cargo's profile that programs are built with.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Profile {
    /// Quick to build.
    Dev,
    /// Quick to run: for suites at a size that takes longer than building.
    Suite,
}

impl Profile {
    fn name(self) -> &'static str {
        match self {
            Profile::Dev => "dev",
            Profile::Suite => "suite",
        }
    }
}

/// Returns the features that the tests are built with: all features, or all features except those that build the
/// benchmarks' peers.
pub fn features(workspace: &Workspace, has_peers: bool) -> Vec<String> {
    if has_peers {
        vec!["--all-features".to_owned()]
    } else {
        vec!["--features".to_owned(), features_without_peers(workspace)]
    }
}

/// Builds every test program of the workspace.
///
/// # Errors
/// When cargo cannot be started. Returns `None` if the build fails.
pub fn build_all(workspace: &Workspace, has_peers: bool, logs: &Path) -> io::Result<Option<Vec<Program>>> {
    let mut command = niced_cargo();
    command.args(["test", "--workspace", "--lib", "--bins", "--tests"]).args(features(workspace, has_peers));
    build("build", &mut command, Profile::Dev, logs)
}

/// Builds only the programs of these suites.
///
/// # Errors
/// The errors of [`build_all`].
pub fn build_suites(
    suites: &[&Suite],
    build_as: Build,
    profile: Profile,
    logs: &Path,
) -> io::Result<Option<Vec<Program>>> {
    let is_built = |suite: &&Suite| suite.is_cargos() && suite.build == build_as;
    // Always builds all packages that have suites: for another set of packages cargo chooses other features and builds
    // the library again.
    let packages: BTreeSet<&str> = SUITES.iter().filter(is_built).map(|suite| suite.package).collect();
    let targets: BTreeSet<&str> = suites.iter().copied().filter(is_built).map(|suite| suite.target).collect();
    let mut command = niced_cargo();
    command.arg("test");
    command.args(packages.iter().flat_map(|package| ["--package", package]));
    command.args(targets.iter().flat_map(|target| ["--test", target]));
    if build_as == Build::ForTests {
        command.arg("--all-features");
    }
    build("build of suites", &mut command, profile, logs)
}

fn features_without_peers(workspace: &Workspace) -> String {
    let all = workspace.packages.iter();
    let named = all.flat_map(|package| package.features.iter().map(move |feature| (package, feature)));
    let kept = named.filter(|(_, feature)| !feature.starts_with("peers") && feature.as_str() != "default");
    kept.map(|(package, feature)| format!("{}/{feature}", package.name)).collect::<Vec<_>>().join(",")
}

fn build(name: &str, command: &mut Command, profile: Profile, logs: &Path) -> io::Result<Option<Vec<Program>>> {
    command.args(["--no-run", "--profile", profile.name(), "--message-format", "json-render-diagnostics"]);
    let ended = child::run_within(name, command, logs, LIMIT)?;
    Ok(ended.success.then(|| named(&ended.output)))
}

/// Returns the programs that cargo names in its messages.
pub fn named(output: &str) -> Vec<Program> {
    let messages = output.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let program = |message: Value| {
        let target = &message["target"];
        // A package's own programs are built for its tests, too. Only a target in test mode is a test program.
        if message["profile"]["test"] != true {
            return None;
        }
        let manifest = PathBuf::from(message["manifest_path"].as_str()?);
        let home = manifest.parent()?.to_path_buf();
        let kind = target["kind"][0].as_str()?;
        let kind = if kind.ends_with("lib") { "lib" } else { kind };
        Some(Program {
            package: package_name(message["package_id"].as_str()?, &home),
            target: (kind.to_owned(), target["name"].as_str()?.to_owned()),
            path: PathBuf::from(message["executable"].as_str()?),
            home,
        })
    };
    messages.filter_map(program).collect()
}

/// Returns the name in `path+file:///folder#name@version`, or in `path+file:///name#version` if folder and package have
/// the same name.
fn package_name(id: &str, home: &Path) -> String {
    let fragment = id.rsplit_once('#').map_or(id, |(_, fragment)| fragment);
    match fragment.split_once('@') {
        Some((name, _)) => name.to_owned(),
        None => home.file_name().unwrap_or_default().to_string_lossy().into_owned(),
    }
}

impl Program {
    /// Returns package and target in a few words.
    pub fn name(&self) -> String {
        let (kind, name) = &self.target;
        let name = if kind == "lib" || kind == "bin" { kind } else { name };
        format!("{} {name}", self.package)
    }

    /// Returns whether this is the test program of the suite.
    pub fn is_of(&self, suite: &Suite) -> bool {
        self.package == suite.package && self.target == ("test".to_owned(), suite.target.to_owned())
    }

    /// Returns a command that runs this program, at normal or at lower priority.
    pub fn command(&self, is_first: bool) -> Command {
        let mut command = if is_first { Command::new(&self.path) } else { niced(&self.path) };
        // Cargo sets the same directory and variable for the test programs that it runs.
        command.current_dir(&self.home).env("CARGO_MANIFEST_DIR", &self.home);
        command
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_programs_with_tests_are_listed() {
        let message = |test: bool, id: &str, kind: &str| {
            format!(
                r#"{{"reason":"compiler-artifact","package_id":"{id}","manifest_path":"/r/crates/rio/Cargo.toml",
                "target":{{"kind":["{kind}"],"name":"rio"}},"profile":{{"test":{test}}},"executable":"/t/rio-1"}}"#
            )
            .replace('\n', "")
        };
        let output = [
            message(true, "path+file:///r/crates/rio#0.1.0", "rlib"),
            message(false, "path+file:///r/crates/rio#0.1.0", "bin"),
            message(true, "path+file:///r/crates/log#libtp-log@0.1.0", "test"),
        ]
        .join("\nwarning: words\n");
        let programs = named(&output);
        assert_eq!(programs.len(), 2);
        assert_eq!((programs[0].package.as_str(), programs[0].target.0.as_str()), ("rio", "lib"));
        assert_eq!((programs[1].package.as_str(), programs[1].target.0.as_str()), ("libtp-log", "test"));
        assert_eq!(programs[0].home, Path::new("/r/crates/rio"));
    }
}

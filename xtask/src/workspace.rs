//! Cargo's description of this workspace: its packages, their dependencies, and their targets.

use serde_json::Value;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The workspace as `cargo metadata` describes it.
pub struct Workspace {
    /// The folder that holds the workspace's `Cargo.toml`.
    pub root: PathBuf,
    /// The directory of cargo's builds.
    pub target: PathBuf,
    /// Every member.
    pub packages: Vec<Package>,
}

/// One member of the workspace.
pub struct Package {
    /// The package's name in its `Cargo.toml`.
    pub name: String,
    /// The package's folder, relative to the workspace's root, with `/` between the parts.
    pub folder: String,
    /// The package's dependencies of all kinds.
    pub dependencies: Vec<Dependency>,
    /// The package's targets.
    pub targets: Vec<Target>,
    /// The package's cargo features.
    pub features: Vec<String>,
    /// Whether the package is meant for a registry: false if its manifest has `publish = false`.
    pub is_published: bool,
}

/// One line of a `[dependencies]` table.
pub struct Dependency {
    /// The package depended on.
    pub name: String,
    /// The name that the source code uses: the package's name, or the name that the line gives it with `package = ..`.
    pub called: String,
    /// True for `[dev-dependencies]`.
    pub for_tests: bool,
}

/// A target of a package.
pub struct Target {
    /// The target's name.
    pub name: String,
    /// `lib`, `bin`, `test`, `bench`, `example`, `custom-build`.
    pub kind: String,
    /// The target's first file, relative to the workspace's root.
    pub source: String,
}

impl Workspace {
    /// Loads the description from cargo.
    ///
    /// # Errors
    /// Cargo's message when it cannot read the workspace.
    pub fn load() -> Result<Workspace, String> {
        let output = cargo()
            .args(["metadata", "--no-deps", "--format-version", "1"])
            .output()
            .map_err(|error| format!("cargo cannot be started: {error}"))?;
        if !output.status.success() {
            return Err(format!("cargo cannot read the workspace:\n{}", String::from_utf8_lossy(&output.stderr)));
        }
        let value: Value = serde_json::from_slice(&output.stdout)
            .map_err(|error| format!("cargo metadata did not print JSON: {error}"))?;
        Ok(Workspace::from_metadata(&value))
    }

    fn from_metadata(value: &Value) -> Workspace {
        let root = PathBuf::from(text(&value["workspace_root"]));
        let packages = items(&value["packages"]).map(|package| Package::from_metadata(package, &root)).collect();
        Workspace { target: PathBuf::from(text(&value["target_directory"])), packages, root }
    }

    /// Returns whether `package` has a target of this kind and name.
    pub fn has_target(&self, package: &str, kind: &str, name: &str) -> bool {
        self.packages
            .iter()
            .filter(|candidate| candidate.name == package)
            .any(|candidate| candidate.targets.iter().any(|target| target.kind == kind && target.name == name))
    }
}

impl Package {
    fn from_metadata(value: &Value, root: &Path) -> Package {
        let manifest = PathBuf::from(text(&value["manifest_path"]));
        Package {
            name: text(&value["name"]),
            folder: relative(manifest.parent().unwrap_or(root), root),
            dependencies: items(&value["dependencies"])
                .map(|dependency| Dependency {
                    name: text(&dependency["name"]),
                    called: text(dependency["rename"].as_str().map_or(&dependency["name"], |_| &dependency["rename"])),
                    for_tests: dependency["kind"] == "dev",
                })
                .collect(),
            targets: items(&value["targets"])
                .map(|target| Target {
                    name: text(&target["name"]),
                    kind: items(&target["kind"]).next().map(text).unwrap_or_default(),
                    source: relative(Path::new(&text(&target["src_path"])), root),
                })
                .collect(),
            features: value["features"].as_object().map(|map| map.keys().cloned().collect()).unwrap_or_default(),
            is_published: value["publish"].is_null(),
        }
    }
}

/// Returns the command for the cargo that runs xtask.
pub fn cargo() -> Command {
    Command::new(cargos_path())
}

/// Returns cargo's command at lower priority.
pub fn niced_cargo() -> Command {
    niced(cargos_path())
}

fn cargos_path() -> OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

/// Returns a command at lower priority, for programs that compute. They run in parallel with programs whose processes
/// pass control to each other at every step. At equal priority, these processes would wait for a time slice at each
/// step.
pub fn niced(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new("nice");
    command.args(["-n", "10"]).arg(program);
    command
}

fn relative(path: &Path, root: &Path) -> String {
    path.strip_prefix(root).unwrap_or(path).to_string_lossy().into_owned()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_is_read_into_packages_with_their_targets() {
        let value: Value = serde_json::from_str(
            r#"{"workspace_root":"/r","target_directory":"/r/target","packages":[
                {"name":"libtp-log","publish":[],"manifest_path":"/r/crates/log/Cargo.toml","features":{"planted":[]},
                 "dependencies":[{"name":"rio","kind":null},{"name":"loom","kind":"dev"}],
                 "targets":[{"kind":["lib"],"name":"libtp_log","src_path":"/r/crates/log/src/lib.rs"},
                            {"kind":["test"],"name":"torn_tail","src_path":"/r/tests/crash/torn_tail.rs"}]}]}"#,
        )
        .expect("the sample is JSON");
        let workspace = Workspace::from_metadata(&value);
        let package = &workspace.packages[0];
        assert_eq!(package.folder, "crates/log");
        assert!(!package.dependencies[0].for_tests && package.dependencies[1].for_tests);
        assert_eq!(package.targets[1].source, "tests/crash/torn_tail.rs");
        assert_eq!(package.features, ["planted"]);
        assert!(!package.is_published);
        assert!(workspace.has_target("libtp-log", "test", "torn_tail"));
        assert!(!workspace.has_target("rio", "test", "torn_tail"));
    }
}

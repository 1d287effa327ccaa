//! Checks before a release, which only `cargo xtask test --deep` makes: the packages, and the crates that this tree
//! depends on.

use crate::child;
use crate::outcome::Counts;
use crate::workspace::{cargo, niced_cargo, Workspace};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;

/// Packages each published crate as `cargo publish` does, and builds it from its package.
///
/// Cargo takes the other published crates from their packages, too. A crate with `publish = false` cannot be packaged
/// in the same way: Cargo looks in the registry for the crates of ours that it depends on.
///
/// # Errors
/// When cargo cannot be started.
pub fn package(workspace: &Workspace, logs: &Path) -> io::Result<Counts> {
    let mut command = niced_cargo();
    // A run on a changed tree is allowed. All dependencies were fetched for the tests.
    command.args(["package", "--allow-dirty", "--offline"]);
    let published = workspace.packages.iter().filter(|package| package.is_published);
    command.args(published.flat_map(|package| ["--package", &package.name])).current_dir(&workspace.root);
    let ended = child::run("package", &mut command, logs)?;
    Ok(if ended.success { Counts::ONE_PASSED } else { Counts::ONE_FAILED })
}

/// Runs cargo-deny, whose rules are in `deny.toml`: licences, duplicates and origins of all dependencies, and known
/// advisories about them. Without cargo-deny, and without a database of advisories, the checks are skipped.
///
/// # Errors
/// When cargo cannot be started.
pub fn deny(workspace: &Workspace, logs: &Path) -> io::Result<Counts> {
    let mut version = cargo();
    version.args(["deny", "--version"]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    if !version.status()?.success() {
        println!("  SKIPPED: cargo-deny is not installed, so no licence and no origin of a dependency was checked");
        println!("  to install it: cargo install --locked cargo-deny");
        return Ok(Counts::ONE_SKIPPED);
    }
    let mut counts = check(workspace, &["check", "bans", "licenses", "sources"], logs)?;
    if cargo_home().join("advisory-dbs").is_dir() {
        counts += check(workspace, &["--offline", "check", "advisories"], logs)?;
    } else {
        println!("  SKIPPED: there is no database of advisories; `cargo deny fetch db` fetches it");
        counts += Counts::ONE_SKIPPED;
    }
    Ok(counts)
}

fn check(workspace: &Workspace, arguments: &[&str], logs: &Path) -> io::Result<Counts> {
    let mut command = cargo();
    command.arg("deny").args(arguments).current_dir(&workspace.root);
    let ended = child::run("deny", &mut command, logs)?;
    Ok(if ended.success { Counts::ONE_PASSED } else { Counts::ONE_FAILED })
}

/// Returns the directory of cargo's own files.
fn cargo_home() -> PathBuf {
    let of_user = || PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(".cargo");
    std::env::var_os("CARGO_HOME").map_or_else(of_user, PathBuf::from)
}

//! Checks of the published crates, which only `cargo xtask test --deep` makes.

use crate::child;
use crate::outcome::Counts;
use crate::workspace::{niced_cargo, Workspace};
use std::io;
use std::path::Path;

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

//! Finds the directory of SQLite's amalgamation.
//!
//! `LIBTP_SQLITE_SOURCE` can name a directory with `sqlite3.c` and `sqlite3.h`, for another version of SQLite. Without
//! this variable, the source is that of the package `libsqlite3-sys`, which cargo has fetched for this build, in
//! cargo's directory of unpacked packages. If the source is not there (vendored packages), `cargo metadata` returns the
//! package's directory. The build does not call `cargo metadata` first, because that command needs all packages of the
//! workspace, and a build fetches only some of them.

use std::path::{Path, PathBuf};
use std::process::Command;

const PACKAGE: &str = "libsqlite3-sys";
const CHOSEN: &str = "LIBTP_SQLITE_SOURCE";

/// Returns the directory of `sqlite3.c`. `expected` is the SQLite version of the package `libsqlite3-sys`.
pub fn find(expected: i32) -> Result<PathBuf, String> {
    println!("cargo::rerun-if-env-changed={CHOSEN}");
    if let Some(chosen) = std::env::var_os(CHOSEN) {
        let chosen = PathBuf::from(chosen);
        println!("cargo::rerun-if-changed={}", chosen.display());
        return match chosen.join("sqlite3.c").exists() {
            true => Ok(chosen),
            false => Err(format!("{CHOSEN} is {}, and this directory has no sqlite3.c", chosen.display())),
        };
    }
    if let Some(unpacked) = unpacked(expected) {
        return Ok(unpacked);
    }
    let found = of_package()?.join("sqlite3");
    is_version(&found, expected)?;
    Ok(found)
}

/// Searches the packages that cargo has unpacked for the source of the expected version.
fn unpacked(expected: i32) -> Option<PathBuf> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| std::env::var_os("HOME").map(|home| Path::new(&home).join(".cargo")))?;
    let registries = std::fs::read_dir(home.join("registry/src")).ok()?.flatten();
    let packages = registries.filter_map(|registry| std::fs::read_dir(registry.path()).ok()).flatten().flatten();
    let packages = packages.filter(|package| package.file_name().to_string_lossy().starts_with(PACKAGE));
    packages.map(|package| package.path().join("sqlite3")).find(|source| is_version(source, expected).is_ok())
}

fn of_package() -> Result<PathBuf, String> {
    let fail = |what: &str| format!("the source of SQLite was not found: {what}. Set {CHOSEN} to its directory");
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let target = std::env::var("TARGET").map_err(|_| fail("cargo sets TARGET for a build script"))?;
    let words = ["metadata", "--format-version", "1", "--offline", "--filter-platform", &target];
    let ended = Command::new(cargo).args(words).output().map_err(|error| fail(&error.to_string()))?;
    if !ended.status.success() {
        return Err(fail(&format!("`cargo metadata` failed: {}", String::from_utf8_lossy(&ended.stderr))));
    }
    let listed: serde_json::Value = serde_json::from_slice(&ended.stdout).map_err(|error| fail(&error.to_string()))?;
    let packages = listed["packages"].as_array().ok_or_else(|| fail("`cargo metadata` lists no packages"))?;
    let package = packages.iter().find(|package| package["name"] == PACKAGE);
    let manifest = package.and_then(|package| package["manifest_path"].as_str());
    let manifest = manifest.ok_or_else(|| fail(&format!("`cargo metadata` does not list {PACKAGE}")))?;
    let folder = Path::new(manifest).parent().ok_or_else(|| fail("the package's manifest has no directory"))?;
    Ok(folder.to_owned())
}

/// Fails if the source in a directory is of another version.
fn is_version(directory: &Path, expected: i32) -> Result<(), String> {
    let header = directory.join("sqlite3.h");
    let text = std::fs::read_to_string(&header).map_err(|error| format!("{}: {error}", header.display()))?;
    let line = text.lines().find(|line| line.starts_with("#define SQLITE_VERSION_NUMBER"));
    let number = line.and_then(|line| line.split_whitespace().last()).and_then(|number| number.parse::<i32>().ok());
    match number == Some(expected) {
        true => Ok(()),
        false => Err(format!("{} is of version {number:?}, and {PACKAGE} of {expected}", header.display())),
    }
}

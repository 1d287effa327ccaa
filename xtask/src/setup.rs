//! Finds the packages that a fresh Debian machine with the Rust toolchain still lacks, and installs them.

use crate::child;
use crate::outcome::Counts;
use crate::workspace::cargo;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// Debian packages that the tests use, each with its purpose.
const PACKAGES: &[(&str, &str)] = &[
    ("db5.3-util", "db5.3_dump and db5.3_load, which exchange dumps with `tp load` and `tp dump`"),
    ("g++", "compiles the headers for C as C++"),
    ("pkg-config", "tells programs in C where the library is"),
    ("mandoc", "checks the manual pages of the calls for C"),
    ("valgrind", "watches the memory of the programs in C"),
    ("perl", "for its module DB_File, which is built against db.h"),
    ("make", "builds the module DB_File and the editor nvi"),
    ("libncurses-dev", "for nvi, which is built over db.h"),
    ("python3", "for its module sqlite3, which loads SQLite on libtp"),
    ("binutils", "lists the names that a library exports"),
    ("tcl-dev", "runs SQLite's own test scripts"),
];

/// Packages of the warm-reboot lab.
const PACKAGES_OF_LAB: &[(&str, &str)] = &[
    ("qemu-system-x86", "a machine that can be crashed"),
    ("lz4", "unpacks its kernel"),
    ("e2fsprogs", "makes its file systems"),
];

/// The package that adds up the counts of branches.
const PACKAGES_OF_COVERAGE: &[(&str, &str)] = &[("llvm-19", "reads the counts of branches")];

/// The package that counts instructions.
const PACKAGES_OF_COUNTS: &[(&str, &str)] = &[("valgrind", "counts instructions")];

/// The package that SQLite and LMDB are compiled with.
const PACKAGES_OF_LIGHT_PEERS: &[(&str, &str)] = &[("gcc", "a C compiler, for SQLite and LMDB")];

/// The packages of all peers.
const PACKAGES_OF_ALL_PEERS: &[(&str, &str)] = &[
    ("gcc", "a C compiler, for SQLite, LMDB and the calls of the other peers"),
    ("librocksdb-dev", "RocksDB"),
    ("libdb5.3-dev", "Berkeley DB"),
    ("libpmemobj-dev", "libpmemobj, the library for persistent memory"),
];

const LISTS: &str = "/var/lib/apt/lists";

/// Returns whether every package that the peers need is installed.
pub fn packages_of_all_peers_present() -> bool {
    missing(PACKAGES_OF_ALL_PEERS).is_empty()
}

/// Installs the packages that are missing.
///
/// Without them, suites would fail or silently do less. So a package that cannot be installed is reported loudly, and
/// under `CI=true` it is a failure.
pub fn packages(logs: &Path) -> io::Result<Counts> {
    all_installed(PACKAGES, logs)
}

/// Installs the missing packages of the warm-reboot lab, as [`packages`] does.
pub fn packages_for_lab(logs: &Path) -> io::Result<Counts> {
    all_installed(PACKAGES_OF_LAB, logs)
}

/// Installs the missing packages of `cargo xtask coverage`, as [`packages`] does.
pub fn packages_for_coverage(logs: &Path) -> io::Result<Counts> {
    all_installed(PACKAGES_OF_COVERAGE, logs)
}

/// Installs the missing packages of `cargo xtask bench counts`, as [`packages`] does.
pub fn packages_for_counts(logs: &Path) -> io::Result<Counts> {
    all_installed(PACKAGES_OF_COUNTS, logs)
}

/// Installs the missing packages of the peers whose source cargo fetches, as [`packages`] does.
pub fn packages_for_light_peers(logs: &Path) -> io::Result<Counts> {
    all_installed(PACKAGES_OF_LIGHT_PEERS, logs)
}

/// Installs the missing packages of all peers, as [`packages`] does.
pub fn packages_for_all_peers(logs: &Path) -> io::Result<Counts> {
    all_installed(PACKAGES_OF_ALL_PEERS, logs)
}

fn all_installed(packages: &[(&'static str, &str)], logs: &Path) -> io::Result<Counts> {
    let missing = missing(packages);
    if missing.is_empty() {
        return Ok(Counts::ONE_PASSED);
    }
    let refusal = match install(&missing, logs)? {
        None => return Ok(Counts::ONE_PASSED),
        Some(refusal) => refusal,
    };
    println!("  NOT INSTALLED: {refusal}");
    for (package, purpose) in packages.iter().filter(|(package, _)| missing.contains(package)) {
        println!("  {package}: {purpose}");
    }
    println!("  as root: apt-get update && apt-get install -y {}", missing.join(" "));
    Ok(if in_ci() { Counts::ONE_FAILED } else { Counts::ONE_SKIPPED })
}

/// Installs packages. Returns the reason if they cannot be installed.
fn install(missing: &[&str], logs: &Path) -> io::Result<Option<String>> {
    if fs::metadata("/proc/self").map_or(true, |process| process.uid() != 0) {
        return Ok(Some("only root can install packages".into()));
    }
    if !runs(Command::new("apt-get").arg("--version")) {
        return Ok(Some("this machine has no apt-get".into()));
    }
    if lists_empty(Path::new(LISTS)) {
        child::run("packages", &mut apt(&["update"]), logs)?;
    }
    let arguments: Vec<&str> = ["install", "-y", "--no-install-recommends"].iter().chain(missing).copied().collect();
    if !child::run("packages", &mut apt(&arguments), logs)?.success {
        // The lists may name packages that the mirror no longer has.
        child::run("packages", &mut apt(&["update"]), logs)?;
        if !child::run("packages", &mut apt(&arguments), logs)?.success {
            return Ok(Some("apt-get install failed, see above".into()));
        }
    }
    Ok(None)
}

/// Adds rustfmt or clippy to a toolchain that was installed without them.
pub fn component(cargo_verb: &str, component: &str) {
    if !runs(cargo().args([cargo_verb, "--version"])) {
        println!("  adding {component} to the toolchain");
        // If this fails, the suite that needs the component fails with cargo's own message.
        let _ = Command::new("rustup").args(["component", "add", component]).status();
    }
}

/// Returns whether this is continuous integration, where nothing may be skipped.
pub fn in_ci() -> bool {
    std::env::var("CI").is_ok_and(|value| value == "true")
}

fn missing(packages: &[(&'static str, &str)]) -> Vec<&'static str> {
    packages.iter().map(|(package, _)| *package).filter(|package| !installed(package)).collect()
}

fn installed(package: &str) -> bool {
    Command::new("dpkg-query")
        .args(["-W", "-f=${Status}", package])
        .output()
        .is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains("ok installed"))
}

fn lists_empty(lists: &Path) -> bool {
    let is_list = |entry: fs::DirEntry| entry.file_name().to_string_lossy().contains("_Packages");
    fs::read_dir(lists).map_or(true, |entries| !entries.flatten().any(is_list))
}

fn apt(arguments: &[&str]) -> Command {
    let mut command = Command::new("apt-get");
    command.args(arguments).env("DEBIAN_FRONTEND", "noninteractive");
    command
}

fn runs(command: &mut Command) -> bool {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn package_lists_are_empty_until_apt_has_fetched_one() {
        let lists = std::env::temp_dir().join(format!("xtask-lists-{}", std::process::id()));
        fs::create_dir_all(lists.join("partial")).expect("the temporary directory is writable");
        assert!(lists_empty(&lists));
        fs::write(lists.join("deb.debian.org_main_binary-amd64_Packages.lz4"), b"").expect("the list is writable");
        assert!(!lists_empty(&lists));
        fs::remove_dir_all(&lists).expect("we made it");
        assert!(lists_empty(&lists), "a missing directory holds no lists");
    }
}

//! Sources of Debian packages, fetched with `apt-get` from the servers of this machine's packages.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use super::told;

/// The reason why there is no source.
pub enum Missing {
    /// The source could not be fetched: no network, or a mirror without sources.
    Unfetched(String),
    /// A program that fetches the source is missing, or the fetched source is not the expected source.
    Broken(String),
}

/// Reports that a program was not tested.
pub fn skipped(program: &str, what: &str) {
    // `eprintln!` would be captured, and not shown for a test that passes. So the message is written to the descriptor.
    let message = format!("\n!!! SKIPPED: {program} was not tested: {what} !!!\n");
    let _ = std::io::stderr().write_all(message.as_bytes());
}

/// Runs a program that fetches or unpacks a source.
pub fn run(command: &mut Command) -> Result<Output, Missing> {
    command.output().map_err(|error| Missing::Broken(format!("{command:?}: {error}")))
}

/// Fails if a program has failed.
pub fn succeeded(output: &Output) -> Result<(), String> {
    match output.status.success() {
        true => Ok(()),
        false => Err(told(output)),
    }
}

/// Returns `apt-get` or `apt-cache` with separate package lists in `folder`. These lists have the source packages of
/// the servers of the machine's binary packages.
fn apt(tool: &str, folder: &Path) -> Command {
    let option = |name: &str, path: PathBuf| format!("{name}={}", path.display());
    let mut command = Command::new(tool);
    command.arg("-o").arg(option("Dir::Etc::SourceParts", folder.join("sources")));
    command.args(["-o", "Dir::Etc::SourceList=/dev/null", "-o", "APT::Sandbox::User="]);
    command.arg("-o").arg(option("Dir::State::Lists", folder.join("lists")));
    command.arg("-o").arg(option("Dir::Cache", folder.join("cache")));
    command.current_dir(folder).env("LC_ALL", "C");
    command
}

/// Writes the machine's package list into `folder`, changed to source packages.
fn write_sources(folder: &Path) {
    for made in ["sources", "lists/partial", "cache/archives/partial"] {
        fs::create_dir_all(folder.join(made)).unwrap();
    }
    let mut files = vec![PathBuf::from("/etc/apt/sources.list")];
    files.extend(fs::read_dir("/etc/apt/sources.list.d").into_iter().flatten().flatten().map(|entry| entry.path()));
    for (number, file) in files.iter().enumerate() {
        let Ok(text) = fs::read_to_string(file) else { continue };
        let of_source = |line: &str| match line.split_whitespace().next() {
            Some("Types:") => "Types: deb-src".to_owned(),
            Some("deb") => line.replacen("deb", "deb-src", 1),
            _ => line.to_owned(),
        };
        let ending = match file.extension().and_then(|ending| ending.to_str()) {
            Some(ending @ ("list" | "sources")) => ending,
            _ => continue,
        };
        let text: Vec<String> = text.lines().map(of_source).collect();
        fs::write(folder.join(format!("sources/{number}.{ending}")), text.join("\n") + "\n").unwrap();
    }
}

/// Fetches the original source of a Debian package into `folder`, and returns the archive. `apt-get` checks each file of
/// the source before the file gets its name. So the archive is good even if `apt-get` fails afterwards because the mirror
/// lacks Debian's changes, which are a file of their own.
pub fn fetched(package: &str, folder: &Path) -> Result<PathBuf, Missing> {
    write_sources(folder);
    run(apt("apt-get", folder).arg("update"))?;
    let shown = run(apt("apt-cache", folder).args(["showsrc", package]))?;
    let text = String::from_utf8_lossy(&shown.stdout).into_owned();
    let mut why = format!("the machine's package lists have no source of {package}");
    // A mirror may not have the newest version, so all versions are tried, the newest first.
    for version in text.lines().filter_map(|line| line.strip_prefix("Version: ")) {
        let source = format!("{package}={version}");
        let got = run(apt("apt-get", folder).args(["source", "--download-only", &source]))?;
        let archive = fs::read_dir(folder).unwrap().flatten().map(|entry| entry.path()).find(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            name.starts_with(&format!("{package}_")) && name.contains(".orig.tar.") && !name.ends_with(".asc")
        });
        match (archive, succeeded(&got)) {
            (Some(archive), _) => return Ok(archive),
            (None, Err(what)) => why = what,
            (None, Ok(())) => {
                let what = format!("apt-get says that it has fetched {source}, and there is no archive");
                return Err(Missing::Broken(what));
            }
        }
    }
    Err(Missing::Unfetched(why))
}

/// Removes all files in a folder but one.
pub fn remove_all_but(kept: &Path, folder: &Path) {
    for entry in fs::read_dir(folder).unwrap().flatten().filter(|entry| entry.path() != kept) {
        let _ = fs::remove_dir_all(entry.path()).or_else(|_| fs::remove_file(entry.path()));
    }
}

//! Fetches the source of SQLite with its test scripts: Debian's source package `sqlite3`.
//!
//! The scripts must be about as new as the SQLite of this crate. So the machine's package lists are extended by the
//! newest suite of Debian. The source is kept for later runs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The suite of Debian whose source package is used.
const SUITE: &str = "sid";
/// The versions whose exceptions are listed. Other versions have other test cases.
const VERSIONS: &str = "3.53.";
/// The directories with scripts.
const SCRIPTS: [&str; 4] = ["test", "ext/fts5/test", "ext/rtree", "ext/session"];
/// Names a directory with an unpacked source of SQLite. Nothing is fetched then.
const CHOSEN: &str = "LIBTP_TEST_SQLITE_TREE";
/// The name of the kept source.
const KEPT: &str = "source";

/// The reason why there is no source.
pub enum Missing {
    /// The source could not be fetched: no network, or a mirror without sources.
    Unfetched(String),
    /// A source was fetched, but it is not the expected source.
    Broken(String),
}

/// Returns whether a program can be started.
pub fn is_installed(program: &str) -> bool {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&paths).any(|folder| folder.join(program).exists())
}

/// Returns the source of SQLite, and fetches it into `folder` if it is not there.
pub fn fetched(folder: &Path) -> Result<PathBuf, Missing> {
    let kept = folder.join(KEPT);
    if kept.join("test/tester.tcl").exists() {
        add_hook(&kept)?;
        return Ok(kept);
    }
    let unpacked = folder.join("unpacked");
    let _ = fs::remove_dir_all(&unpacked);
    fs::create_dir_all(&unpacked).unwrap();
    match std::env::var_os(CHOSEN) {
        Some(chosen) => {
            let mut copy = Command::new("cp");
            copy.arg("-r").arg(Path::new(&chosen).join(".")).arg(&unpacked);
            run(&mut copy).map_err(Missing::Broken)?;
        }
        None => unpack(&download(folder)?, &unpacked)?,
    }
    add_hook(&unpacked)?;
    fs::rename(&unpacked, &kept).unwrap();
    Ok(kept)
}

/// Returns all scripts, in the order of their names.
pub fn scripts(source: &Path) -> Vec<PathBuf> {
    let files = SCRIPTS.iter().flat_map(|folder| fs::read_dir(source.join(folder)).into_iter().flatten().flatten());
    let is_script = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "test");
    let mut scripts: Vec<PathBuf> = files.map(|entry| entry.path()).filter(is_script).collect();
    scripts.sort();
    scripts
}

/// Appends `hook.tcl` to the file that all scripts read first. A kept source may have an older `hook.tcl` there.
fn add_hook(source: &Path) -> Result<(), Missing> {
    let (path, original) = (source.join("test/tester.tcl"), source.join("test/tester.orig"));
    if !original.exists() {
        fs::copy(&path, &original).map_err(|error| Missing::Broken(format!("{}: {error}", path.display())))?;
    }
    let tester = fs::read(&original).map_err(|error| Missing::Broken(format!("{}: {error}", original.display())))?;
    fs::write(&path, [&tester[..], include_bytes!("hook.tcl")].concat()).unwrap();
    Ok(())
}

/// Downloads the archive of the source.
fn download(folder: &Path) -> Result<PathBuf, Missing> {
    let place = folder.join("apt");
    let _ = fs::remove_dir_all(&place);
    write_sources(&place);
    run(apt("apt-get", &place).arg("update")).map_err(Missing::Unfetched)?;
    let shown = run(apt("apt-cache", &place).args(["showsrc", "sqlite3"])).map_err(Missing::Unfetched)?;
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    let mut why =
        format!("the package lists have no source of sqlite3 {VERSIONS}*, for which exceptions.txt is written");
    // A mirror may not have the newest version, so all versions are tried, the newest first.
    let all = shown.lines().filter_map(|line| line.strip_prefix("Version: "));
    let mut versions: Vec<&str> = all.filter(|version| version.starts_with(VERSIONS)).collect();
    versions.sort_by_key(|version| std::cmp::Reverse(numbers(version)));
    for version in versions {
        let package = format!("sqlite3={version}");
        if let Err(what) = run(apt("apt-get", &place).args(["source", "--download-only", &package])) {
            why = what;
            continue;
        }
        let archive = fs::read_dir(&place).unwrap().flatten().map(|entry| entry.path()).find(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            name.starts_with("sqlite3_") && name.contains(".orig.tar.")
        });
        let what = format!("apt-get says that it has fetched {package}, and there is no archive");
        return archive.ok_or(Missing::Broken(what));
    }
    Err(Missing::Unfetched(why))
}

fn unpack(archive: &Path, to: &Path) -> Result<(), Missing> {
    let mut tar = Command::new("tar");
    tar.arg("-xf").arg(archive).args(["--strip-components=1", "-C"]).arg(to);
    run(&mut tar).map_err(Missing::Broken)?;
    let place = archive.parent().unwrap_or(to);
    let _ = fs::remove_dir_all(place);
    Ok(())
}

/// Returns the numbers of a version, so that versions can be compared.
fn numbers(version: &str) -> Vec<u32> {
    version.split(|letter: char| !letter.is_ascii_digit()).filter_map(|number| number.parse().ok()).collect()
}

/// Returns `apt-get` or `apt-cache` with separate package lists in `folder`.
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

/// Writes the machine's lists of Debian's main archive into `folder`, changed to source packages of [`SUITE`].
fn write_sources(folder: &Path) {
    for made in ["sources", "lists/partial", "cache/archives/partial"] {
        fs::create_dir_all(folder.join(made)).unwrap();
    }
    let mut files = vec![PathBuf::from("/etc/apt/sources.list")];
    files.extend(fs::read_dir("/etc/apt/sources.list.d").into_iter().flatten().flatten().map(|entry| entry.path()));
    for (number, file) in files.iter().enumerate() {
        let Ok(text) = fs::read_to_string(file) else { continue };
        match file.extension().and_then(|ending| ending.to_str()) {
            Some("sources") => {
                let parts = text.split("\n\n").filter(|part| part.lines().any(is_of_debian)).map(part_of_sources);
                let parts: Vec<String> = parts.collect();
                fs::write(folder.join(format!("sources/{number}.sources")), parts.join("\n\n") + "\n").unwrap();
            }
            Some("list") => {
                let lines: Vec<String> = text.lines().filter_map(line_of_sources).collect();
                fs::write(folder.join(format!("sources/{number}.list")), lines.join("\n") + "\n").unwrap();
            }
            _ => {}
        }
    }
}

/// Returns whether a line names a server of Debian's main archive. Its other archives have no suite [`SUITE`].
fn is_of_debian(line: &str) -> bool {
    let mut words = line.split_whitespace();
    words.next() == Some("URIs:") && words.any(|word| word.trim_end_matches('/').ends_with("/debian"))
}

fn part_of_sources(part: &str) -> String {
    let changed = |line: &str| match line.split_whitespace().next() {
        Some("Types:") => "Types: deb-src".to_owned(),
        Some("Suites:") => format!("Suites: {SUITE}"),
        _ => line.to_owned(),
    };
    part.lines().map(changed).collect::<Vec<_>>().join("\n")
}

/// Returns a line of the older format, changed to source packages of [`SUITE`].
fn line_of_sources(line: &str) -> Option<String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let server = words.iter().position(|word| word.contains("://"))?;
    let is_of_debian = words[0] == "deb" && words[server].trim_end_matches('/').ends_with("/debian");
    is_of_debian.then(|| format!("deb-src {} {SUITE} main", words[1..=server].join(" ")))
}

/// Runs a command.
///
/// # Errors
/// What the command printed, if it failed.
pub fn run(command: &mut Command) -> Result<Output, String> {
    let output = command.output().map_err(|error| format!("{:?}: {error}", command.get_program()))?;
    let printed = || format!("{command:?}: {}{}", text(&output.stdout), text(&output.stderr));
    match output.status.success() {
        true => Ok(output),
        false => Err(printed()),
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_package_list_is_changed_to_sources() {
    let part = "Types: deb\nURIs: http://mirror.example/debian\nSuites: bookworm bookworm-updates\nComponents: main";
    let changed = "Types: deb-src\nURIs: http://mirror.example/debian\nSuites: sid\nComponents: main";
    assert_eq!(part_of_sources(part), changed);
    assert!(part.lines().any(is_of_debian) && !is_of_debian("URIs: http://mirror.example/debian-security"));
    let line = "deb [trusted=yes] http://mirror/debian/ bookworm main contrib";
    assert_eq!(line_of_sources(line).unwrap(), "deb-src [trusted=yes] http://mirror/debian/ sid main");
    assert_eq!(line_of_sources("deb http://mirror/other stable main"), None);
    assert!(numbers("3.53.4-2") > numbers("3.46.1-7+deb13u2"));
}

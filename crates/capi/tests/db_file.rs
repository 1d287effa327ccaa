//! Builds a real program for db 1.85, Perl's module `DB_File`, from Debian's source with this crate's `db.h`, and runs
//! the module's own test suite. The suite tests trees with cursors, several values of a key and comparison functions in
//! Perl, hash files with hash functions in Perl, text files as arrays, filters, and threads.
//!
//! `apt-get` fetches the source from the servers of this machine's packages, and the test keeps the source for later
//! runs. If the source cannot be fetched, the test is skipped with a conspicuous message, in CI, too: a mirror may have
//! no sources. If anything else is missing, the test fails in CI, where it could be installed.
//!
//! The module is built with the header's second name, `db_185.h`. If it were built with `db.h`, two of its tests would
//! expect the values of one key in the order of db 1.85. The manual of db 1.85 calls that order undefined; here it is
//! the order of the puts.
#![allow(clippy::unwrap_used)]

mod c;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use c::{built, home, is_installed, told};

/// The least number of tests in the suite.
const TESTS_LEAST: u32 = 500;

fn skipped(what: &str) {
    // `eprintln!` would be captured, and not shown for a test that passes. So the message is written to the descriptor.
    let message = format!("\n!!! SKIPPED: DB_File was not tested: {what} !!!\n");
    let _ = std::io::stderr().write_all(message.as_bytes());
}

/// The reason why there is no source.
enum Missing {
    /// The source could not be fetched: no network, or a mirror without sources.
    Unfetched(String),
    /// A program that fetches the source is missing, or the fetched source is not the expected source.
    Broken(String),
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

fn succeeded(output: &Output) -> Result<(), String> {
    match output.status.success() {
        true => Ok(()),
        false => Err(told(output)),
    }
}

/// Returns the module's source, and fetches it into `folder` if it is not there.
fn fetched(folder: &Path) -> Result<PathBuf, Missing> {
    let module = folder.join("DB_File");
    if module.join("Makefile.PL").exists() {
        return Ok(module);
    }
    write_sources(folder);
    let run = |command: &mut Command| command.output().map_err(|error| Missing::Broken(error.to_string()));
    run(apt("apt-get", folder).arg("update"))?;
    let shown = run(apt("apt-cache", folder).args(["showsrc", "perl"]))?;
    let text = String::from_utf8_lossy(&shown.stdout).into_owned();
    let mut why = "the machine's package lists have no source of perl".to_owned();
    // A mirror may not have the newest version, so all versions are tried, the newest first.
    for version in text.lines().filter_map(|line| line.strip_prefix("Version: ")) {
        let package = format!("perl={version}");
        let got = run(apt("apt-get", folder).args(["source", "--download-only", &package]))?;
        if let Err(what) = succeeded(&got) {
            why = what;
            continue;
        }
        let archive = fs::read_dir(folder).unwrap().flatten().map(|entry| entry.path()).find(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            name.starts_with("perl_") && name.contains(".orig.tar.")
        });
        let what = format!("apt-get says that it has fetched {package}, and there is no archive");
        let archive = archive.ok_or(Missing::Broken(what))?;
        let mut tar = Command::new("tar");
        tar.arg("-xf").arg(&archive).args(["--wildcards", "--strip-components=2", "*/cpan/DB_File"]);
        let apart = run(tar.current_dir(folder))?;
        succeeded(&apart).map_err(Missing::Broken)?;
        // The module is a hundredth of the source of Perl. All else is removed.
        for entry in fs::read_dir(folder).unwrap().flatten().filter(|entry| entry.path() != module) {
            let _ = fs::remove_dir_all(entry.path()).or_else(|_| fs::remove_file(entry.path()));
        }
        return Ok(module);
    }
    Err(Missing::Unfetched(why))
}

/// Makes a copy of the module that uses this crate's header and library.
fn prepared(source: &Path, workshop: &Path) -> PathBuf {
    let module = workshop.join("DB_File");
    let copied = Command::new("cp").args(["-r", "--no-preserve=mode"]).arg(source).arg(&module).status().unwrap();
    assert!(copied.success());
    let told_so = fs::read_to_string(module.join("config.in")).unwrap();
    let line = |line: &str| match line.split_whitespace().next() {
        Some("INCLUDE") => format!("INCLUDE = {}", home().join("include").display()),
        Some("LIB") => format!("LIB = {}", workshop.display()),
        _ if line.starts_with("#DBNAME") => "DBNAME = -ltp".to_owned(),
        _ => line.to_owned(),
    };
    let config: Vec<String> = told_so.lines().map(line).collect();
    fs::write(module.join("config.in"), config.join("\n") + "\n").unwrap();
    module
}

#[test]
fn the_test_suite_of_perls_db_file_passes() {
    if !(is_installed("apt-get", "apt") && is_installed("perl", "perl") && is_installed("make", "make")) {
        return;
    }
    let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join("perl-source");
    fs::create_dir_all(&kept).unwrap();
    let source = match fetched(&kept) {
        Ok(source) => source,
        Err(Missing::Unfetched(why)) => return skipped(&format!("its source cannot be fetched: {why}")),
        Err(Missing::Broken(why)) => panic!("the source of DB_File: {why}"),
    };
    let header = Command::new("perl").args(["-MConfig", "-e", "exit !-f \"$Config{archlibexp}/CORE/perl.h\""]).status();
    if !header.unwrap().success() {
        let what = "the headers of perl are not installed (Debian: libperl-dev)";
        assert!(std::env::var("CI").as_deref() != Ok("true"), "{what}");
        return skipped(what);
    }
    let workshop = c::workshop();
    let module = prepared(&source, workshop.path());
    assert!(built("libtp.so").exists());
    let run = |program: &str, arguments: &[&str]| {
        let mut command = Command::new(program);
        command.args(arguments).current_dir(&module).env("DB_FILE_COMPAT185", "1").env("LC_ALL", "C");
        let output = command.env("LD_LIBRARY_PATH", workshop.path()).output().unwrap();
        assert!(output.status.success(), "{program} {arguments:?}: {}", told(&output));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    run("perl", &["-MDevel::PPPort", "-e", "Devel::PPPort::WriteFile('ppport.h')"]);
    run("perl", &["Makefile.PL"]);
    run("make", &[]);
    let message = run("make", &["test"]);
    let summary = message.lines().find(|line| line.starts_with("Files=")).unwrap_or_else(|| panic!("{message}"));
    let count = summary.split("Tests=").nth(1).and_then(|rest| rest.split(',').next()?.parse::<u32>().ok());
    assert!(count >= Some(TESTS_LEAST) && message.contains("All tests successful"), "{message}");
    assert!(!message.contains("skipped"), "{message}");
    println!("figures: DB_File of perl, {} tests passed", count.unwrap_or_default());
}

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
use std::path::{Path, PathBuf};
use std::process::Command;

use c::source::{self, skipped, Missing};
use c::{built, home, is_installed, told};

/// The least number of tests in the suite.
const TESTS_LEAST: u32 = 500;

/// Returns the module's source, and fetches it into `folder` if it is not there.
fn module_in(folder: &Path) -> Result<PathBuf, Missing> {
    let module = folder.join("DB_File");
    if module.join("Makefile.PL").exists() {
        return Ok(module);
    }
    let archive = source::fetched("perl", folder)?;
    let mut tar = Command::new("tar");
    tar.arg("-xf").arg(&archive).args(["--wildcards", "--strip-components=2", "*/cpan/DB_File"]);
    let apart = source::run(tar.current_dir(folder))?;
    source::succeeded(&apart).map_err(Missing::Broken)?;
    // The module is a hundredth of the source of Perl.
    source::remove_all_but(&module, folder);
    Ok(module)
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
    let source = match module_in(&kept) {
        Ok(source) => source,
        Err(Missing::Unfetched(why)) => return skipped("DB_File", &format!("its source cannot be fetched: {why}")),
        Err(Missing::Broken(why)) => panic!("the source of DB_File: {why}"),
    };
    let header = Command::new("perl").args(["-MConfig", "-e", "exit !-f \"$Config{archlibexp}/CORE/perl.h\""]).status();
    if !header.unwrap().success() {
        let what = "the headers of perl are not installed (Debian: libperl-dev)";
        assert!(std::env::var("CI").as_deref() != Ok("true"), "{what}");
        return skipped("DB_File", what);
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

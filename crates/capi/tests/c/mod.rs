//! What the tests in C stand on: the library as C links it, a compiler with every warning on, and valgrind.
#![allow(dead_code, clippy::unwrap_used)]

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Where the sources of this crate lie.
pub fn home() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A file of the library as cargo has built it: beside the test, or one above.
pub fn built(name: &str) -> PathBuf {
    let here = std::env::current_exe().unwrap();
    let found = here.ancestors().skip(1).take(2).map(|folder| folder.join(name)).find(|file| file.exists());
    found.unwrap_or_else(|| panic!("cargo builds {name} with the tests"))
}

/// Every warning, and each an error.
pub const WARNINGS: [&str; 5] = ["-Wall", "-Wextra", "-Wshadow", "-pedantic", "-Werror"];

/// A compiler, as an environment variable says, or by its usual name.
pub fn compiler(variable: &str, usual: &str) -> Command {
    Command::new(std::env::var(variable).unwrap_or_else(|_| usual.into()))
}

/// How a program finds the library.
#[derive(Clone, Copy)]
pub enum Link {
    Static,
    Shared,
}

/// A directory for programs, with the shared library under the names that it has when it is installed.
pub fn workshop() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let stripped = directory.path().join("libtp.so.0");
    // Without what debuggers read: valgrind would read all of it at each start.
    let strip = Command::new("strip").args(["--strip-debug", "-o"]).arg(&stripped).arg(built("libtp.so")).status();
    if !strip.is_ok_and(|status| status.success()) {
        symlink(built("libtp.so"), &stripped).unwrap();
    }
    symlink("libtp.so.0", directory.path().join("libtp.so")).unwrap();
    directory
}

/// Compiles a source under this crate into a program in the workshop, and returns that.
pub fn compiled(source: &str, workshop: &Path, link: Link) -> PathBuf {
    let source = home().join(source);
    let program = workshop.join(source.file_stem().unwrap());
    let mut command = compiler("CC", "cc");
    command.args(["-std=c99", "-D_DEFAULT_SOURCE", "-g", "-O1"]).args(WARNINGS);
    command.arg("-I").arg(home().join("include")).arg(&source);
    match link {
        Link::Static => command.arg(built("libtp.a")),
        Link::Shared => command.arg("-L").arg(workshop).arg("-ltp").arg(format!("-Wl,-rpath,{}", workshop.display())),
    };
    let status = command.args(["-lpthread", "-ldl", "-lm", "-o"]).arg(&program).status();
    assert!(status.expect("a C compiler is installed").success(), "{} does not compile", source.display());
    program
}

/// What it said, with its code.
pub fn told(output: &Output) -> String {
    let (out, error) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    format!("{}\n{out}{error}", output.status)
}

/// A program with its arguments.
pub fn plainly(program: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments);
    command
}

/// Runs a program that has to succeed, and returns what it prints.
pub fn says(program: &Path, arguments: &[&str]) -> String {
    succeeded(&mut plainly(program, arguments))
}

/// As `says`, under valgrind, which has to find nothing. Not where it is not installed.
pub fn says_under_valgrind(program: &Path, arguments: &[&str]) -> String {
    succeeded(&mut under_valgrind(program, arguments))
}

/// So a program ends in which valgrind has found something.
pub const FOUND: i32 = 99;

/// What valgrind does about leaks at a program's end.
#[derive(Clone, Copy)]
pub enum Leaks {
    /// Each leak is an error.
    Errors,
    /// valgrind looks for leaks and reports none. An open environment's tables have only pointers into their blocks. The child of a fork
    /// has the memory of its parent's threads.
    Sought,
    /// valgrind does not look for leaks: an open segment may use all addresses that the segment may grow into, and valgrind would read
    /// all of these addresses.
    Unsought,
}

/// A program with its children, under valgrind if that is installed.
pub fn under_valgrind(program: &Path, arguments: &[&str]) -> Command {
    let ends_with_it = ["fork", "apart"].iter().any(|name| program.ends_with(name))
        || ["fork", "forked", "die"].iter().any(|word| arguments.contains(word));
    valgrind(program, arguments, if ends_with_it { Leaks::Sought } else { Leaks::Errors })
}

/// As [`under_valgrind`].
pub fn valgrind(program: &Path, arguments: &[&str], leaks: Leaks) -> Command {
    let mut command = Command::new("valgrind");
    if !is_installed("valgrind", "valgrind") {
        return plainly(program, arguments);
    }
    command.args(["--quiet", "--trace-children=yes", &format!("--error-exitcode={FOUND}")]);
    match leaks {
        Leaks::Errors => command.args(["--leak-check=full", "--errors-for-leak-kinds=definite,indirect,possible"]),
        Leaks::Sought => command.args(["--leak-check=summary", "--errors-for-leak-kinds=none"]),
        Leaks::Unsought => command.arg("--leak-check=no"),
    };
    command.arg(format!("--suppressions={}", home().join("tests/c/valgrind.supp").display()));
    command.arg(program).args(arguments);
    command
}

/// Whether a program runs under valgrind, which takes seconds each time: under `cargo xtask test --deep` always; under `test` on
/// one day of so many, by the program's `number` and the day's seed.
pub fn is_turn_of_valgrind(number: usize, days: usize) -> bool {
    let seed = std::env::var("LIBTP_TEST_SEED").ok().and_then(|seed| seed.parse::<usize>().ok());
    is_deep() || seed.is_none_or(|seed| (seed + number) % days == 0)
}

fn is_deep() -> bool {
    std::env::var_os("LIBTP_TEST_DEEP").is_some()
}

/// The runs of such a program: as it is, or under valgrind; under `--deep` both.
pub fn by_turns(number: usize, days: usize) -> Vec<fn(&Path, &[&str]) -> String> {
    match (is_deep(), is_turn_of_valgrind(number, days)) {
        (true, _) => vec![says, says_under_valgrind],
        (false, true) => vec![says_under_valgrind],
        (false, false) => vec![says],
    }
}

fn succeeded(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", told(&output));
    String::from_utf8(output.stdout).unwrap()
}

/// Whether a tool is there. What is not is said loudly, and is a failure where nothing may be skipped.
pub fn is_installed(tool: &str, package: &str) -> bool {
    let found = std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|folder| folder.join(tool).exists()));
    if !found {
        assert!(std::env::var("CI").as_deref() != Ok("true"), "{tool} is not installed (Debian: {package})");
        eprintln!("\n!!! SKIPPED: {tool} is not installed (Debian: {package}) !!!\n");
    }
    found
}

//! Common code of the tests in C: the library in the form that C programs link, a compiler with all warnings, and
//! valgrind.
#![allow(dead_code, clippy::unwrap_used)]

pub mod source;

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Returns this crate's directory.
pub fn home() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns a file of the library that cargo has built: in the test's directory, or in the directory above.
pub fn built(name: &str) -> PathBuf {
    let here = std::env::current_exe().unwrap();
    let found = here.ancestors().skip(1).take(2).map(|folder| folder.join(name)).find(|file| file.exists());
    found.unwrap_or_else(|| panic!("cargo builds {name} with the tests"))
}

/// All warnings, each an error.
pub const WARNINGS: [&str; 5] = ["-Wall", "-Wextra", "-Wshadow", "-pedantic", "-Werror"];

/// Returns the compiler that the environment variable names, or the usual compiler.
pub fn compiler(variable: &str, usual: &str) -> Command {
    Command::new(std::env::var(variable).unwrap_or_else(|_| usual.into()))
}

/// Returns the compiler of C with all warnings as errors, for a program that includes the headers of this crate.
fn strict_compiler() -> Command {
    let mut command = compiler("CC", "cc");
    command.args(["-std=c99", "-D_DEFAULT_SOURCE", "-g", "-O1"]).args(WARNINGS).arg("-I").arg(home().join("include"));
    command
}

/// How a program finds the library.
#[derive(Clone, Copy)]
pub enum Link {
    Static,
    Shared,
}

/// Returns a directory for programs, with the shared library under the names of an installation.
pub fn workshop() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let stripped = directory.path().join("libtp.so.0");
    // The copy has no debug information, which valgrind would read at each start.
    let strip = Command::new("strip").args(["--strip-debug", "-o"]).arg(&stripped).arg(built("libtp.so")).status();
    if !strip.is_ok_and(|status| status.success()) {
        symlink(built("libtp.so"), &stripped).unwrap();
    }
    symlink("libtp.so.0", directory.path().join("libtp.so")).unwrap();
    directory
}

/// Compiles a source of this crate into a program in the workshop, and returns the program's path.
pub fn compiled(source: &str, workshop: &Path, link: Link) -> PathBuf {
    let source = home().join(source);
    let program = workshop.join(source.file_stem().unwrap());
    let mut command = strict_compiler();
    command.arg(&source);
    linked(command, workshop, link, program)
}

/// Compiles several programs of this crate into one program, which runs the programs that its arguments name, one after
/// the other (`together.c`).
pub fn compiled_together(sources: &[&str], workshop: &Path) -> PathBuf {
    let mut command = strict_compiler();
    let mut programs = String::new();
    for source in sources.iter().map(|source| home().join(source)) {
        let name = source.file_stem().unwrap().to_str().unwrap();
        let renamed = workshop.join(format!("main_of_{name}.c"));
        let text = format!(
            "int main_of_{name}(int argc, char **argv);\n#define main main_of_{name}\n#include \"{}\"\n",
            source.display()
        );
        std::fs::write(&renamed, text).unwrap();
        command.arg(renamed);
        programs += &format!("PROGRAM({name})\n");
    }
    std::fs::write(workshop.join("programs.h"), programs).unwrap();
    command.arg("-I").arg(workshop).arg(home().join("tests/c/together.c"));
    linked(command, workshop, Link::Shared, workshop.join("together"))
}

/// Links a program, and returns its path.
fn linked(mut command: Command, workshop: &Path, link: Link, program: PathBuf) -> PathBuf {
    match link {
        // No debug information, as in `workshop`.
        Link::Static => command.arg(built("libtp.a")).arg("-Wl,--strip-debug"),
        Link::Shared => command.arg("-L").arg(workshop).arg("-ltp").arg(format!("-Wl,-rpath,{}", workshop.display())),
    };
    let status = command.args(["-lpthread", "-ldl", "-lm", "-o"]).arg(&program).status();
    assert!(status.expect("a C compiler is installed").success(), "{} does not compile", program.display());
    program
}

/// Runs, in one process, programs that were compiled together; under valgrind if it is installed. valgrind must find no
/// error. Returns the output of each program.
pub fn say_together_under_valgrind(program: &Path, arguments: &[Vec<String>]) -> Vec<String> {
    let all = arguments.join(&"--".to_owned());
    let message = says_under_valgrind(program, &all.iter().map(String::as_str).collect::<Vec<_>>());
    let mut outputs: Vec<String> = message.split("---- next program\n").map(str::to_owned).collect();
    assert_eq!(outputs.pop().as_deref(), Some(""), "the last program's output ends with the line");
    outputs
}

/// Returns a program's exit status and output as a text, for messages.
pub fn told(output: &Output) -> String {
    let (out, error) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    format!("{}\n{out}{error}", output.status)
}

/// Returns the command for a program with its arguments, without valgrind.
pub fn plainly(program: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments);
    command
}

/// Runs a program that must succeed, and returns its output.
pub fn says(program: &Path, arguments: &[&str]) -> String {
    succeeded(&mut plainly(program, arguments))
}

/// Runs a program, under valgrind if it is installed, and returns its output. valgrind must find no error.
pub fn says_under_valgrind(program: &Path, arguments: &[&str]) -> String {
    succeeded(&mut under_valgrind(program, arguments))
}

/// The exit code of valgrind if it has found an error.
pub const FOUND: i32 = 99;

/// The treatment of leaks at a program's end.
#[derive(Clone, Copy)]
pub enum Leaks {
    /// Each leak is an error.
    Errors,
    /// valgrind looks for leaks, but no leak is an error. This treatment is for a program that ends with an open
    /// environment, whose tables have only pointers into the middle of blocks, and for the child of a fork, which has
    /// the memory of its parent's threads.
    Sought,
    /// valgrind does not look for leaks. This treatment is for a program that ends with an open segment: valgrind would
    /// read all addresses into which the segment can grow.
    Unsought,
}

/// Returns the command for a program and its children, under valgrind if it is installed.
pub fn under_valgrind(program: &Path, arguments: &[&str]) -> Command {
    let ends_with_open_handles = ["fork", "apart"].iter().any(|name| program.ends_with(name))
        || ["fork", "forked", "die"].iter().any(|word| arguments.contains(word));
    valgrind(program, arguments, if ends_with_open_handles { Leaks::Sought } else { Leaks::Errors })
}

/// Returns the command for a program and its children, under valgrind if it is installed, with this treatment of leaks.
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

/// Returns whether an expensive test runs: always under `cargo xtask test --deep`; otherwise on one of `days` days. The
/// test's `number` and the day's seed decide which day.
pub fn is_turn_of(number: usize, days: usize) -> bool {
    let seed = std::env::var("LIBTP_TEST_SEED").ok().and_then(|seed| seed.parse::<usize>().ok());
    is_deep() || seed.is_none_or(|seed| (seed + number) % days == 0)
}

/// Returns whether all programs run twice: directly, and under valgrind.
pub fn is_deep() -> bool {
    std::env::var_os("LIBTP_TEST_DEEP").is_some()
}

fn succeeded(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", told(&output));
    String::from_utf8(output.stdout).unwrap()
}

/// Returns whether a tool is installed. If it is missing, prints a conspicuous message, and in CI panics.
pub fn is_installed(tool: &str, package: &str) -> bool {
    let found = std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|folder| folder.join(tool).exists()));
    if !found {
        assert!(std::env::var("CI").as_deref() != Ok("true"), "{tool} is not installed (Debian: {package})");
        eprintln!("\n!!! SKIPPED: {tool} is not installed (Debian: {package}) !!!\n");
    }
    found
}

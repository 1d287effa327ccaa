//! What the tests in C stand on: the library as C links it, a compiler with every warning on, and valgrind.
#![allow(dead_code, clippy::unwrap_used)]

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

/// How a program finds the library.
#[derive(Clone, Copy)]
pub enum Link {
    Static,
    Shared,
}

/// Every warning, and each an error.
pub const WARNINGS: [&str; 5] = ["-Wall", "-Wextra", "-Wshadow", "-pedantic", "-Werror"];

/// Compiles a source under this crate into a program in `directory`, and returns that.
pub fn compiled(source: &str, directory: &Path, link: Link) -> PathBuf {
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".into());
    let source = home().join(source);
    let program = directory.join(source.file_stem().unwrap());
    let mut command = Command::new(compiler);
    command.args(["-std=c99", "-D_DEFAULT_SOURCE", "-g", "-O1"]).args(WARNINGS);
    command.arg("-I").arg(home().join("include")).arg(&source);
    match link {
        Link::Static => {
            command.arg(built("libtp.a"));
        }
        Link::Shared => {
            let name = directory.join("libtp.so.0");
            if !name.exists() {
                std::os::unix::fs::symlink(built("libtp.so"), &name).unwrap();
            }
            let shared = directory.join("libtp.so");
            if !shared.exists() {
                std::os::unix::fs::symlink(built("libtp.so"), &shared).unwrap();
            }
            command.arg("-L").arg(directory).arg("-ltp");
            command.arg(format!("-Wl,-rpath,{}", directory.display()));
        }
    }
    let status = command.args(["-lpthread", "-ldl", "-lm", "-o"]).arg(&program).status();
    assert!(status.expect("a C compiler is installed").success(), "{} does not compile", source.display());
    program
}

/// What it said, with its code.
pub fn told(output: &Output) -> String {
    let (out, error) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    format!("{}\n{out}{error}", output.status)
}

/// Runs a program that has to succeed, and returns what it prints.
pub fn says(program: &Path, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", told(&output));
    String::from_utf8(output.stdout).unwrap()
}

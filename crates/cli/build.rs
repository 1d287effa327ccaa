//! Notes what `tp` is made from, which its reports say: the commit, if git knows this file, and the compiler.

use std::path::Path;
use std::process::Command;

fn main() {
    let commit = match output_of("git", &["ls-files", "--error-unmatch", "build.rs"]) {
        Some(_) => output_of("git", &["describe", "--always", "--exclude=*", "--abbrev=12", "--dirty= and changes"]),
        None => None,
    };
    // What changes when something is committed or checked out; and the source, of which a change is to be said.
    for name in ["HEAD", "logs/HEAD"] {
        let path = output_of("git", &["rev-parse", "--git-path", name]).filter(|path| Path::new(path).exists());
        path.iter().for_each(|path| println!("cargo::rerun-if-changed={path}"));
    }
    ["..", "../../Cargo.lock"].iter().for_each(|path| println!("cargo::rerun-if-changed={path}"));
    let compiler = std::env::var("RUSTC").ok().and_then(|rustc| output_of(&rustc, &["--version"]));
    let unknown = || "unknown".to_owned();
    println!("cargo::rustc-env=TP_COMMIT={}", commit.unwrap_or_else(unknown));
    println!("cargo::rustc-env=TP_COMPILER={}", compiler.unwrap_or_else(unknown));
}

/// What a program says in a line, if it ends well.
fn output_of(program: &str, words: &[&str]) -> Option<String> {
    // Git is to look, and not to write what it has seen into its index.
    let mut command = Command::new(program);
    let ended =
        command.args(words).env("GIT_OPTIONAL_LOCKS", "0").output().ok().filter(|ended| ended.status.success())?;
    let line = String::from_utf8(ended.stdout).ok()?.trim().to_owned();
    Some(line).filter(|line| !line.is_empty())
}

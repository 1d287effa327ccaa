//! `cargo xtask install`: puts all files that programs in C need into their usual places. Also installs the commands
//! `tp`, `tp-bench` and `tp-sql`, their manual page, and the completions for shells, in the directories where Debian
//! has such files.
//!
//! `lib/libtp.so.0` is the name stored in programs (crates/capi/build.rs sets it); the linker looks for `lib/libtp.so`.
//! SQLite on libtp has the name of stock SQLite, `libsqlite3.so.0`, in a directory that no linker searches by default:
//! a program loads it only if `LD_LIBRARY_PATH` names that directory.

use crate::manual;
use crate::workspace::{cargo, Workspace};
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// Package and name of each command, and cargo's features for it.
const PROGRAMS: [(&str, &str, &str); 3] =
    [("libtp-cli", "tp", ""), ("libtp-bench", "tp-bench", "sql"), ("libtp-sql", "tp-sql", "")];

/// The shared libraries, each with its package. The linker strips them: they keep only the names that programs may call.
const LIBRARIES: [(&str, &str); 2] = [("libtp-capi", "libtp.so"), ("libtp-sqlite", SQLITE_BUILT)];

/// SQLite on libtp as cargo names it.
const SQLITE_BUILT: &str = "liblibtp_sqlite.so";

/// SQLite on libtp as programs name it, below the prefix.
const SQLITE: &str = "lib/libtp-sqlite/libsqlite3.so.0";

/// Builds the library and installs everything under `prefix`.
///
/// # Errors
/// When the library does not build, or a file cannot be written.
pub fn install(workspace: &Workspace, prefix: &Path) -> Result<ExitCode, String> {
    // The linker strips the shared libraries, which keep only the names that the headers declare.
    for (package, library) in LIBRARIES {
        build(library, &["rustc", "--release", "--package", package, "--lib", "--", "-C", "strip=symbols"])?;
    }
    // The programs are built one after another. In one build, cargo would give `tp` the library's features that only
    // the benchmarks need.
    for (package, program, features) in PROGRAMS {
        build(program, &["build", "--release", "--package", package, "--bin", program, "--features", features])?;
    }
    let prefix = std::path::absolute(prefix).map_err(|error| error.to_string())?;
    let version = version(&workspace.root)?;
    let release = workspace.target.join("release");
    let texts = texts_of_command(&release.join("tp"), &prefix)?;
    let count = lay_out(&workspace.root.join("crates/capi"), &release, &prefix, &version, &today()?)
        .and_then(|count| Ok(count + lay_out_command(&release, &prefix, &texts)? + lay_out_sqlite(&release, &prefix)?))
        .map_err(|error| format!("the installation under {} is not complete: {error}", prefix.display()))?;
    println!("{count} files and links under {}", prefix.display());
    println!("if the dynamic loader searches this directory, run `ldconfig` now");
    let sqlite = prefix.join(SQLITE);
    println!("a program uses SQLite on libtp with LD_LIBRARY_PATH={}", sqlite.parent().unwrap_or(&sqlite).display());
    Ok(ExitCode::SUCCESS)
}

/// Lets cargo build a file.
fn build(file: &str, words: &[&str]) -> Result<(), String> {
    let built = cargo().args(words).status().map_err(|error| format!("cargo cannot be started: {error}"))?;
    match built.success() {
        true => Ok(()),
        false => Err(format!("{file} does not build; nothing was installed")),
    }
}

/// Returns the version of the workspace.
fn version(root: &Path) -> Result<String, String> {
    let manifest = fs::read_to_string(root.join("Cargo.toml")).map_err(|error| error.to_string())?;
    let version = manifest.lines().find_map(|line| line.strip_prefix("version = \"")?.strip_suffix('"'));
    version.map(str::to_owned).ok_or_else(|| "Cargo.toml has no version".into())
}

/// Copies the files, and makes the manual pages and the links. Returns their number.
fn lay_out(home: &Path, built: &Path, prefix: &Path, version: &str, date: &str) -> io::Result<usize> {
    let mut count = 0;
    let mut put = |from: &Path, to: &Path| -> io::Result<()> {
        count += 1;
        replaced(to, |to| fs::copy(from, to).map(|_| ()))
    };
    let lib = prefix.join("lib");
    let (shared, full) = (built.join("libtp.so"), format!("libtp.so.{version}"));
    put(&shared, &lib.join(&full))?;
    put(&built.join("libtp.a"), &lib.join("libtp.a"))?;
    for header in ["libtp.h", "vista.h", "db.h", "db_185.h"] {
        put(&home.join("include").join(header), &prefix.join("include").join(header))?;
    }
    let mut links = vec![(lib.join("libtp.so.0"), full), (lib.join("libtp.so"), "libtp.so.0".to_owned())];
    let directory = prefix.join("share/man/man3");
    for page in manual::pages(home, version, date)? {
        let mut files = page.names.iter().map(|name| format!("{name}.3"));
        let own = files.next().unwrap_or_default();
        replaced(&directory.join(&own), |to| fs::write(to, &page.text))?;
        count += 1;
        links.extend(files.map(|other| (directory.join(other), own.clone())));
    }
    let template = fs::read_to_string(home.join("libtp.pc.in"))?;
    let text = template.replace("@PREFIX@", &prefix.to_string_lossy()).replace("@VERSION@", version);
    replaced(&lib.join("pkgconfig/libtp.pc"), |to| fs::write(to, &text))?;
    for (link, to) in &links {
        replaced(link, |link| symlink(to, link))?;
    }
    Ok(count + 1 + links.len())
}

/// A file that the command prints, and its text.
struct Text {
    to: PathBuf,
    text: Vec<u8>,
}

/// Returns the words by which the command prints its manual page and the scripts of the shells, each with its file.
fn texts(prefix: &Path) -> [(&'static [&'static str], PathBuf); 4] {
    let share = prefix.join("share");
    // Debian reserves `vendor-completions` for its packages. Debian's zsh looks for the completions of other programs
    // below /usr/local.
    let zsh = if prefix == Path::new("/usr") { "zsh/vendor-completions/_tp" } else { "zsh/site-functions/_tp" };
    [
        (&["man"], share.join("man/man1/tp.1")),
        (&["completions", "bash"], share.join("bash-completion/completions/tp")),
        (&["completions", "zsh"], share.join(zsh)),
        (&["completions", "fish"], share.join("fish/vendor_completions.d/tp.fish")),
    ]
}

/// Lets the command print its texts.
fn texts_of_command(command: &Path, prefix: &Path) -> Result<Vec<Text>, String> {
    let print = |(words, to): (&[&str], PathBuf)| {
        let said = Command::new(command).args(words).output();
        let said = said.map_err(|error| format!("{} cannot be started: {error}", command.display()))?;
        match said.status.success() {
            true => Ok(Text { to, text: said.stdout }),
            false => Err(format!("tp {} failed: {}", words.join(" "), String::from_utf8_lossy(&said.stderr))),
        }
    };
    texts(prefix).into_iter().map(print).collect()
}

/// Copies the commands and writes the texts of `tp`. Returns the number of files.
fn lay_out_command(built: &Path, prefix: &Path, texts: &[Text]) -> io::Result<usize> {
    for (_, program, _) in PROGRAMS {
        replaced(&prefix.join("bin").join(program), |to| fs::copy(built.join(program), to).map(|_| ()))?;
    }
    for Text { to, text } in texts {
        replaced(to, |to| fs::write(to, text))?;
    }
    Ok(PROGRAMS.len() + texts.len())
}

/// Copies SQLite on libtp into its own directory. Returns the number of files.
fn lay_out_sqlite(built: &Path, prefix: &Path) -> io::Result<usize> {
    replaced(&prefix.join(SQLITE), |to| fs::copy(built.join(SQLITE_BUILT), to).map(|_| ()))?;
    Ok(1)
}

/// Replaces a file by a new file. A running program that has mapped the old file keeps it.
fn replaced(to: &Path, make: impl FnOnce(&Path) -> io::Result<()>) -> io::Result<()> {
    fs::create_dir_all(to.parent().unwrap_or(Path::new("/")))?;
    match fs::remove_file(to) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => make(to),
    }
}

/// Returns today's date, for the footers of the manual pages.
fn today() -> Result<String, String> {
    let said = Command::new("date").args(["-u", "+%F"]).output();
    let said = said.map_err(|error| format!("date cannot be started: {error}"))?;
    Ok(String::from_utf8_lossy(&said.stdout).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_for_programs_in_c_are_installed_where_compilers_and_loaders_look() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is in the workspace");
        let scratch = std::env::temp_dir().join(format!("xtask-install-{}", std::process::id()));
        let (built, prefix) = (scratch.join("built"), scratch.join("prefix"));
        fs::create_dir_all(&built).expect("the temporary directory is writable");
        for library in ["libtp.so", "libtp.a"] {
            fs::write(built.join(library), library).expect("the directory is writable");
        }
        let version = version(root).expect("the workspace has a version");
        for _ in 0..2 {
            lay_out(&root.join("crates/capi"), &built, &prefix, &version, "2026-01-01")
                .expect("the files can be installed, also over an earlier installation");
        }
        for file in ["lib/libtp.so", "lib/libtp.so.0", "lib/libtp.a", "include/libtp.h", "share/man/man3/tp_abort.3"] {
            assert!(fs::metadata(prefix.join(file)).is_ok_and(|found| found.len() > 0), "{file}");
        }
        let text = fs::read_to_string(prefix.join("lib/pkgconfig/libtp.pc")).expect("the file was written");
        assert!(text.starts_with(&format!("prefix={}\n", prefix.display())) && !text.contains('@'), "{text}");
        fs::remove_dir_all(&scratch).expect("we made it");
    }

    #[test]
    fn the_command_its_page_and_the_completions_are_where_a_system_looks() {
        let scratch = std::env::temp_dir().join(format!("xtask-install-command-{}", std::process::id()));
        let (built, prefix) = (scratch.join("built"), scratch.join("prefix"));
        fs::create_dir_all(&built).expect("the temporary directory is writable");
        for (_, program, _) in PROGRAMS {
            fs::write(built.join(program), program).expect("the directory is writable");
        }
        // A program that prints its words, in place of the command.
        let texts = texts_of_command(Path::new("/bin/echo"), &prefix).expect("the program prints");
        for _ in 0..2 {
            assert_eq!(lay_out_command(&built, &prefix, &texts).expect("it also replaces an earlier installation"), 7);
        }
        for (file, text) in [
            ("share/man/man1/tp.1", "man\n"),
            ("share/bash-completion/completions/tp", "completions bash\n"),
            ("share/zsh/site-functions/_tp", "completions zsh\n"),
            ("share/fish/vendor_completions.d/tp.fish", "completions fish\n"),
        ] {
            assert_eq!(fs::read_to_string(prefix.join(file)).ok().as_deref(), Some(text), "{file}");
        }
        assert!(
            prefix.join("bin/tp").is_file()
                && prefix.join("bin/tp-bench").is_file()
                && prefix.join("bin/tp-sql").is_file()
        );
        let [_, _, (_, zsh), _] = super::texts(Path::new("/usr"));
        assert_eq!(zsh, Path::new("/usr/share/zsh/vendor-completions/_tp"));
        assert!(texts_of_command(&scratch.join("missing"), &prefix).is_err());
        fs::remove_dir_all(&scratch).expect("we made it");
    }

    /// Programs that link stock SQLite keep it: no linker searches a directory below `lib`.
    #[test]
    fn sqlite_on_libtp_is_installed_in_a_separate_directory() {
        let scratch = std::env::temp_dir().join(format!("xtask-install-sqlite-{}", std::process::id()));
        let (built, prefix) = (scratch.join("built"), scratch.join("prefix"));
        fs::create_dir_all(&built).expect("the temporary directory is writable");
        assert!(lay_out_sqlite(&built, &prefix).is_err(), "the library was not built");
        for text in ["older", "newer"] {
            fs::write(built.join(SQLITE_BUILT), text).expect("it is still writable");
            assert_eq!(lay_out_sqlite(&built, &prefix).expect("it also replaces an earlier installation"), 1);
            let found = fs::read_to_string(prefix.join("lib/libtp-sqlite/libsqlite3.so.0"));
            assert_eq!(found.ok().as_deref(), Some(text));
        }
        let lib = fs::read_dir(prefix.join("lib")).expect("it was made");
        assert_eq!(lib.count(), 1, "`lib` has nothing but that directory");
        fs::remove_dir_all(&scratch).expect("we made it");
    }
}

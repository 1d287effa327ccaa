//! `tp sql --check`: reports which SQLite a program uses.
//!
//! A program that is linked to `libsqlite3.so.0` uses the file that the dynamic linker finds. `LD_LIBRARY_PATH` makes
//! the linker find SQLite on libtp. A program that contains an SQLite always uses this SQLite. The check only reads
//! files and does not run them. Python is an exception: it is run to learn the file of its SQLite module.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use libtp_console::failure::{Ending, Failure, Result};
use libtp_console::output::Output;

use crate::elf::Elf;
use crate::linker::Linker;

/// The system's SQLite library.
pub const LIBRARY: &str = "libsqlite3.so.0";

/// An SQLite that a program uses.
struct Found {
    /// The file that contains the SQLite. If the linker does not find `libsqlite3.so.0`, this is the file that is
    /// linked to the library.
    file: PathBuf,
    /// The name of the SQLite, for the report.
    version: String,
    /// Whether this is SQLite on libtp.
    is_ours: bool,
    /// Whether the program is linked to `libsqlite3.so.0`, for which `LD_LIBRARY_PATH` can select another file.
    is_linked: bool,
}

/// Checks programs. Returns `Disagrees` if a program uses an SQLite without libtp, or no SQLite.
pub fn run(programs: &[PathBuf], output: &mut Output) -> Result<Ending> {
    let linker = Linker::of_system();
    let mut all_ours = true;
    for program in programs {
        let files = files_of(program)?;
        let mut found = Vec::new();
        for file in &files {
            search(file, &linker, &mut found)?;
        }
        let shown = program.display();
        all_ours &= !found.is_empty() && found.iter().all(|found| found.is_ours);
        if found.is_empty() {
            output.line(format!(
                "{shown}: has no SQLite in its file or its libraries. If it loads SQLite while it runs, check the loaded file"
            ))?;
            output.object(&serde_json::json!({ "program": program, "file": null }))?;
        }
        for found in &found {
            output.line(format!("{shown}: {}", sentence(found, files.first() == Some(&found.file))))?;
            output.object(&serde_json::json!({
                "program": program, "file": found.file, "version": found.version, "libtp": found.is_ours, "linked": found.is_linked,
            }))?;
        }
    }
    Ok(Ending::of(all_ours))
}

fn sentence(found: &Found, is_program: bool) -> String {
    let Found { file, version, is_ours, is_linked } = found;
    let place = match (is_program, is_linked) {
        (true, false) => "in its own file".to_owned(),
        (_, true) => format!("dynamically linked: {}", file.display()),
        (false, false) => format!("in {}", file.display()),
    };
    let advice = match (is_ours, is_linked) {
        (true, _) => "",
        (false, true) => "; LD_LIBRARY_PATH=PREFIX/lib/libtp-sqlite selects SQLite on libtp",
        (false, false) => "; LD_LIBRARY_PATH has no effect on it: link the program to libsqlite3.so.0",
    };
    format!("has {version}, {place}{advice}")
}

/// Returns the files to search. `program` is a path, a name in `PATH`, or a directory, of which all files are returned.
/// For a script, the file is that of its interpreter.
fn files_of(program: &Path) -> Result<Vec<PathBuf>> {
    let path = match program.exists() {
        true => program.to_owned(),
        false => {
            in_path(program).ok_or_else(|| Failure::Failed(format!("there is no program {}", program.display())))?
        }
    };
    if path.is_dir() {
        let mut files = Vec::new();
        walk(&path, &mut files)?;
        return Ok(files);
    }
    // The file named `python` may be a script that starts the real Python, so Python is started under this name, and
    // asked for the file of its module.
    let module = module_of_python(&path);
    let path = fs::canonicalize(&path).map_err(Failure::doing(format!("open {}", path.display())))?;
    let bytes = read(&path)?;
    let mut files = match bytes.strip_prefix(b"#!").and_then(|rest| rest.split(|byte| *byte == b'\n').next()) {
        Some(line) => interpreter(&String::from_utf8_lossy(line))?,
        None => vec![path],
    };
    files.extend(module);
    Ok(files)
}

/// Returns the files of a script's interpreter. After `env`, the name of the interpreter is searched in `PATH`.
fn interpreter(line: &str) -> Result<Vec<PathBuf>> {
    let mut words = line.split_whitespace().filter(|word| !word.ends_with("/env") && !word.starts_with('-'));
    words.next().map_or(Ok(Vec::new()), |word| files_of(Path::new(word)))
}

fn in_path(program: &Path) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|directory| directory.join(program)).find(|found| found.is_file())
}

/// Adds the regular files of a directory and of its subdirectories.
fn walk(directory: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    let shown = || format!("read {}", directory.display());
    for entry in fs::read_dir(directory).map_err(Failure::doing(shown()))? {
        let entry = entry.map_err(Failure::doing(shown()))?;
        let kind = entry.file_type().map_err(Failure::doing(shown()))?;
        if kind.is_dir() {
            walk(&entry.path(), files)?;
        } else if kind.is_file() {
            files.push(entry.path());
        }
    }
    Ok(())
}

/// Asks Python for the file of its SQLite module. Returns `None` if the program is not Python.
fn module_of_python(program: &Path) -> Option<PathBuf> {
    let name = program.file_name()?.to_str()?;
    name.starts_with("python").then_some(())?;
    let printed = Command::new(program).args(["-c", "import _sqlite3; print(_sqlite3.__file__)"]).output().ok()?;
    let file = PathBuf::from(String::from_utf8(printed.stdout).ok()?.trim());
    file.is_file().then_some(file)
}

fn read(file: &Path) -> Result<Vec<u8>> {
    fs::read(file).map_err(Failure::doing(format!("read {}", file.display())))
}

/// Searches a file, and the libraries to which it is linked, for SQLite.
fn search(file: &Path, linker: &Linker, found: &mut Vec<Found>) -> Result<()> {
    let (mut seen, mut next) = (BTreeSet::new(), vec![(file.to_owned(), false)]);
    while let Some((file, is_linked)) = next.pop() {
        let file = fs::canonicalize(&file).unwrap_or(file);
        if !seen.insert(file.clone()) {
            continue;
        }
        let bytes = read(&file)?;
        let Some(elf) = Elf::read(&bytes) else { continue };
        if let Some((version, is_ours)) = elf.sqlite() {
            found.push(Found { file: file.clone(), version, is_ours, is_linked });
            continue;
        }
        for library in &elf.libraries {
            if let Some(path) = linker.find(library, &file, &elf) {
                next.push((path, library == LIBRARY));
            } else if library == LIBRARY {
                let version = format!("an unknown SQLite, because the linker does not find {LIBRARY}");
                found.push(Found { file: file.clone(), version, is_ours: false, is_linked: true });
            }
        }
    }
    Ok(())
}

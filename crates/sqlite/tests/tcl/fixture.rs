//! Builds SQLite's test program `testfixture`: an interpreter of Tcl with SQLite and with functions for its tests.
//!
//! The test program reads structs of SQLite. So its files are compiled with headers that are cut from the amalgamation
//! that it is linked with. The amalgamation is compiled with `SQLITE_TEST`, which counts steps and searches for the
//! tests. The program for environments has this crate's static library, too, of which it uses only the part in Rust.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Mutex;

use crate::source::run;

/// The directory with the amalgamation of the package `libsqlite3-sys`, and the options of this crate's SQLite.
const AMALGAMATION: &str = env!("TPSQL_SOURCE");
const OPTIONS: &str = env!("TPSQL_OPTIONS");
/// The varied amalgamation.
const VARIED: &str = concat!(env!("OUT_DIR"), "/sqlite3.c");

/// The options that SQLite's own build has for the test program. The last four are names of SQLite's source that the
/// amalgamation does not have.
const TEST_OPTIONS: [&str; 20] = [
    "SQLITE_TEST=1",
    "SQLITE_CRASH_TEST=1",
    "TCLSH_INIT_PROC=sqlite3TestInit",
    "SQLITE_SERVER=1",
    "BUILD_sqlite",
    "SQLITE_SERIES_CONSTRAINT_VERIFY=1",
    "SQLITE_DEFAULT_PAGE_SIZE=1024",
    "SQLITE_CKSUMVFS_STATIC",
    "SQLITE_STATIC_RANDOMJSON",
    "SQLITE_STRICT_SUBTYPE=1",
    "SQLITE_NO_SYNC=1",
    "SQLITE_ENABLE_DBPAGE_VTAB",
    "SQLITE_ENABLE_BYTECODE_VTAB",
    "SQLITE_ENABLE_CARRAY",
    "SQLITE_ENABLE_PERCENTILE",
    "TP_VERSION=\"test\"",
    "SQLITE_FactorOutConst=0",
    "getVarint=sqlite3GetVarint",
    "putVarint=sqlite3PutVarint",
    "SQLITE_HAVE_ZLIB=1",
];
/// The headers that are cut from the amalgamation.
const HEADERS: [&str; 4] = ["sqliteInt.h", "sqliteLimit.h", "vdbeInt.h", "btreeInt.h"];
/// The directories of the source with headers.
const INCLUDED: [&str; 9] = [
    "ext/session",
    "ext/recover",
    "ext/intck",
    "ext/rbu",
    "ext/expert",
    "ext/fts3",
    "ext/fts5",
    "ext/rtree",
    "ext/misc",
];
/// The parts of SQLite's interface for Tcl, which its build joins.
const TCL: [&str; 3] = ["ext/qrf/qrf.h", "ext/qrf/qrf.c", "src/tclsqlite.c"];
/// The libraries of the part in Rust, and of the test program.
const LIBRARIES: [&str; 5] = ["-lz", "-lm", "-lpthread", "-ldl", "-lgcc_s"];

/// What the databases of a test program are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Files of stock SQLite.
    Stock,
    /// Environments.
    Environments,
}

/// A test program.
pub struct Fixture {
    pub kind: Kind,
    pub program: PathBuf,
}

/// Builds a test program from SQLite's source in `kept`, unless it is there already.
///
/// # Errors
/// What the compiler printed.
pub fn built(kind: Kind, source: &Path, kept: &Path) -> Result<Fixture, String> {
    let amalgamation = match kind {
        Kind::Stock => Path::new(AMALGAMATION).join("sqlite3.c"),
        Kind::Environments => VARIED.into(),
    };
    let folder = kept.join(format!("{kind:?}"));
    let program = folder.join("testfixture");
    let library = std::env::current_exe().map_err(|error| error.to_string())?.with_file_name("liblibtp_sqlite.a");
    let fresh = fingerprint(&amalgamation)?;
    if fs::read_to_string(folder.join("built")).is_ok_and(|built| built == fresh) {
        link(kind, &folder, &library)?;
        return Ok(Fixture { kind, program });
    }
    let _ = fs::remove_dir_all(&folder);
    for made in ["include", "source", "objects"] {
        fs::create_dir_all(folder.join(made)).map_err(|error| error.to_string())?;
    }
    write_headers(&amalgamation, &folder.join("include"))?;
    let files = write_sources(source, &folder)?;
    compile(&amalgamation, &files, source, &folder)?;
    link(kind, &folder, &library)?;
    fs::write(folder.join("built"), fresh).map_err(|error| error.to_string())?;
    Ok(Fixture { kind, program })
}

/// Returns a text that changes with the amalgamation, the shim and the options.
fn fingerprint(amalgamation: &Path) -> Result<String, String> {
    let shim = Path::new(env!("CARGO_MANIFEST_DIR")).join("c");
    let shim = fs::read_dir(shim).map_err(|error| error.to_string())?.flatten().map(|entry| entry.path());
    let mut files: Vec<PathBuf> = shim.chain([amalgamation.to_owned()]).collect();
    files.sort();
    let mut sum: u64 = 0;
    let mut add = |bytes: &[u8]| {
        for byte in bytes {
            sum = (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    };
    for file in files {
        add(&fs::read(&file).map_err(|error| format!("{}: {error}", file.display()))?);
    }
    add(OPTIONS.as_bytes());
    add(include_bytes!("fixture.rs"));
    Ok(format!("{sum:016x}"))
}

/// Cuts the headers out of an amalgamation.
fn write_headers(amalgamation: &Path, to: &Path) -> Result<(), String> {
    let text = fs::read_to_string(amalgamation).map_err(|error| format!("{}: {error}", amalgamation.display()))?;
    for header in HEADERS {
        let missing = || format!("the amalgamation has no {header}");
        let begin = text.find(&format!("/************** Begin file {header} ")).ok_or_else(missing)?;
        let end = text[begin..].find(&format!("/************** End of {header} ")).ok_or_else(missing)?;
        // The amalgamation defines its variables at their declarations in a header.
        let declared = |line: &str| match line {
            _ if line.starts_with("SQLITE_API const char sqlite3_version[]") => {
                "extern const char sqlite3_version[];".into()
            }
            _ if line.starts_with("SQLITE_API ") && line.ends_with(';') && !line.contains('(') => {
                format!("extern {line}")
            }
            _ => line.to_owned(),
        };
        let lines: Vec<String> = text[begin..begin + end].lines().map(declared).collect();
        let first = if header.starts_with("sqlite") { "" } else { "#include \"sqliteInt.h\"\n" };
        write(&to.join(header), &format!("{first}{}\n", lines.join("\n")))?;
    }
    for header in ["sqlite3.h", "sqlite3ext.h"] {
        fs::copy(Path::new(AMALGAMATION).join(header), to.join(header)).map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// Copies the files of the test program's own directory, away from the headers beside them. Returns all files to
/// compile: those that SQLite's makefile lists.
fn write_sources(source: &Path, folder: &Path) -> Result<Vec<PathBuf>, String> {
    let copies = folder.join("source");
    let own = fs::read_dir(source.join("src")).map_err(|error| error.to_string())?.flatten();
    for entry in own {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with("test") || name == "tclsqlite.h" {
            fs::copy(entry.path(), copies.join(&name)).map_err(|error| error.to_string())?;
        }
    }
    let joined = copies.join("tclsqlite-ex.c");
    run(Command::new("tclsh").arg("tool/mkcombo.tcl").args(TCL).arg("-o").arg(&joined).current_dir(source))?;
    let makefile = fs::read_to_string(source.join("main.mk")).map_err(|error| error.to_string())?;
    let mut files = vec![joined];
    let (begin, end) = (makefile.find("\nTESTSRC = "), makefile.find("\nTESTSRC2 = "));
    let list = begin.zip(end).and_then(|(begin, end)| makefile.get(begin..end)).ok_or("main.mk has no TESTSRC")?;
    for file in list.split_whitespace().filter_map(|word| word.strip_prefix("$(TOP)/")) {
        files.push(match file.strip_prefix("src/") {
            Some(own) => copies.join(own),
            None => source.join(file),
        });
    }
    Ok(files)
}

/// Compiles the amalgamation and the test program's files, several at a time.
fn compile(amalgamation: &Path, files: &[PathBuf], source: &Path, folder: &Path) -> Result<(), String> {
    let all: Vec<&Path> = std::iter::once(amalgamation).chain(files.iter().map(PathBuf::as_path)).collect();
    let (next, failures) = (AtomicUsize::new(0), Mutex::new(String::new()));
    let workers = std::thread::available_parallelism().map_or(2, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some(file) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let own = if *file == amalgamation { "" } else { "extern" };
                    let mut command = compiler(source, folder);
                    command.arg(format!("-DSQLITE_PRIVATE={own}")).arg("-c").arg(file);
                    command.arg("-o").arg(object(folder, file));
                    if let Err(printed) = run(&mut command) {
                        failures.lock().unwrap().push_str(&printed);
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().unwrap();
    if failures.is_empty() {
        Ok(())
    } else {
        Err(failures)
    }
}

fn object(folder: &Path, file: &Path) -> PathBuf {
    folder.join("objects").join(file.file_name().unwrap_or_default()).with_extension("o")
}

fn compiler(source: &Path, folder: &Path) -> Command {
    let mut command = Command::new("gcc");
    // The test program runs short, so a quick build matters more than quick code.
    command.args(["-O0", "-pipe", "-w", "-I/usr/include/tcl8.6", "-I/usr/include/tcl"]);
    let options = OPTIONS.split_whitespace().chain(TEST_OPTIONS);
    command.args(options.map(|option| format!("-D{option}")));
    command.arg("-I").arg(folder.join("include")).arg("-I").arg(folder.join("source"));
    command.arg("-I").arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("c"));
    for included in INCLUDED {
        command.arg("-I").arg(source.join(included));
    }
    command
}

/// Links the program. The library in Rust may be newer than the objects.
fn link(kind: Kind, folder: &Path, library: &Path) -> Result<(), String> {
    let mut command = Command::new("gcc");
    let objects = fs::read_dir(folder.join("objects")).map_err(|error| error.to_string())?.flatten();
    command.arg("-o").arg(folder.join("testfixture")).args(objects.map(|entry| entry.path()));
    if kind == Kind::Environments {
        command.arg(library);
    }
    command.arg("-ltcl8.6").args(LIBRARIES);
    run(&mut command).map(|_| ())
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}

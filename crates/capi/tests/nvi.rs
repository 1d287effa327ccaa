//! Builds nvi, the editor of 4.4BSD, from Debian's source over this crate's `db.h`. nvi then edits and saves a file, is
//! killed in the middle of an edit, and recovers the file.
//!
//! nvi 1.81 calls Berkeley DB 3. `tests/c/nvi_db.c` carries these calls out with `db.h`: each file in nvi is a
//! `DB_RECNO` that reads the text with `O_RDONLY` and keeps the lines in a file of `bfname`, from which nvi recovers
//! them. nvi's own source is unchanged.
//!
//! The first run fetches the source (`tests/c/source.rs`) and builds nvi, which takes a minute. The target directory
//! keeps both. The adapter is built in each run, with the present header and library. If the source cannot be fetched,
//! the test is skipped with a conspicuous message, in CI, too.
#![allow(clippy::unwrap_used)]

mod c;

use std::fs;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use c::source::{self, skipped, Missing};
use c::{compiler, home, is_installed, told, WARNINGS};
use libtp_sim::Random;

/// The directory of nvi's files for recovery, in the working directory.
const KEPT: &str = "recover";
/// The kills at a random moment.
const KILLS: u64 = 6;
/// The longest wait for an answer of nvi.
const PATIENCE: Duration = Duration::from_secs(120);

/// Returns nvi's source, and fetches it into `folder` if it is not there.
fn source_in(folder: &Path) -> Result<PathBuf, Missing> {
    let unpacked = folder.join("source");
    if unpacked.join("dist/configure").exists() {
        return Ok(unpacked);
    }
    let archive = source::fetched("nvi", folder)?;
    fs::create_dir_all(&unpacked).unwrap();
    let mut tar = Command::new("tar");
    tar.arg("-xf").arg(&archive).args(["--strip-components=1", "-C"]).arg(&unpacked);
    source::succeeded(&source::run(&mut tar)?).map_err(Missing::Broken)?;
    source::remove_all_but(&unpacked, folder);
    match unpacked.join("dist/configure").exists() {
        true => Ok(unpacked),
        false => Err(Missing::Broken(format!("{} has no dist/configure", archive.display()))),
    }
}

/// Compiles the interface of Berkeley DB 3 over `db.h` into a shared library in the workshop.
fn compile_adapter(workshop: &Path) {
    let mut command = compiler("CC", "cc");
    command.args(["-std=c99", "-D_DEFAULT_SOURCE", "-g", "-O1", "-fPIC", "-shared", "-Wl,-soname,libdb.so"]);
    command.args(WARNINGS).arg("-I").arg(home().join("include")).arg(home().join("tests/c/nvi_db.c"));
    command.arg("-o").arg(workshop.join("libdb.so")).arg("-L").arg(workshop).arg("-ltp");
    assert!(command.status().unwrap().success(), "nvi_db.c does not compile");
}

/// Builds nvi in `folder` if it is not there, and returns the program.
fn built_nvi(source: &Path, folder: &Path, workshop: &Path) -> PathBuf {
    let header = fs::read(home().join("tests/c/nvi_db.h")).unwrap();
    let (build, given) = (folder.join("build"), folder.join("given"));
    let (program, used) = (build.join("vi"), build.join("nvi_db.h"));
    // The build's last step stores the header that the build has used.
    if fs::read(&used).is_ok_and(|bytes| bytes == header) {
        return program;
    }
    let _ = fs::remove_dir_all(&build);
    let _ = fs::remove_dir_all(&given);
    for made in [build.clone(), given.join("include"), given.join("lib")] {
        fs::create_dir_all(made).unwrap();
    }
    fs::write(given.join("include/db.h"), &header).unwrap();
    let run = |program: &Path, arguments: &[String]| {
        let mut command = Command::new(program);
        command.args(arguments).current_dir(&build).env("LC_ALL", "C").env("LD_LIBRARY_PATH", workshop);
        // configure finds the terminals of System V, whose header Linux does not have.
        let output = command.env("vi_cv_path_preserve", KEPT).env("vi_cv_sys5_pty", "no").output().unwrap();
        assert!(output.status.success(), "{} {arguments:?}: {}", program.display(), told(&output));
    };
    let options = [
        "--disable-shared".to_owned(),
        format!("--with-db-prefix={}", given.display()),
        // The source calls functions that it does not declare.
        "CC=gcc -std=gnu89".to_owned(),
        format!("LDFLAGS=-L{}", workshop.display()),
        "LIBS=-ltp".to_owned(),
    ];
    run(&source.join("dist/configure"), &options);
    run(Path::new("make"), &[]);
    assert!(program.exists(), "the build of nvi has made no {}", program.display());
    fs::write(used, header).unwrap();
    program
}

/// The built editor.
struct Editor {
    workshop: tempfile::TempDir,
}

impl Editor {
    /// Starts nvi as `ex -s` in a directory, with these arguments.
    fn started(&self, directory: &Path, arguments: &[&str]) -> Child {
        let mut command = Command::new(self.workshop.path().join("ex"));
        command.arg("-s").args(arguments).current_dir(directory);
        command.env("LC_ALL", "C").env("HOME", directory).env("LD_LIBRARY_PATH", self.workshop.path());
        command.env_remove("EXINIT").env_remove("NEXINIT");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// Lets nvi carry out commands, and end.
    fn done(&self, directory: &Path, arguments: &[&str], commands: &str) -> Output {
        let mut child = self.started(directory, arguments);
        // nvi may end before it has read all commands.
        let _ = child.stdin.take().unwrap().write_all(commands.as_bytes());
        child.wait_with_output().unwrap()
    }

    /// Lets nvi recover the file `text` and save it. Returns the lines of the file, and the output of nvi.
    fn recovered(&self, directory: &Path) -> (Vec<String>, String) {
        let output = self.done(directory, &["-r", "text"], "w!\nq!\n");
        (read(&directory.join("text")), told(&output))
    }
}

fn read(file: &Path) -> Vec<String> {
    fs::read_to_string(file).unwrap().lines().map(str::to_owned).collect()
}

/// Writes the lines of a file `text`, and returns them.
fn write_text(directory: &Path) -> Vec<String> {
    let lines: Vec<String> = (1..=3000).map(|number| format!("line {number} {}", "x".repeat(number % 90))).collect();
    fs::write(directory.join("text"), lines.join("\n") + "\n").unwrap();
    lines
}

fn ends_with_newline(file: &Path) -> bool {
    fs::read(file).is_ok_and(|bytes| bytes.last() == Some(&b'\n'))
}

/// Kills a process as `kill -9` does.
fn kill(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

/// nvi changes lines, deletes, moves, copies and inserts them, undoes a change, and saves the file.
fn edits_and_saves(editor: &Editor) {
    let directory = tempfile::tempdir().unwrap();
    let mut lines = write_text(directory.path());
    let commands =
        "%s/7/seven/g\n3,5d\n0a\nfirst\nsecond\n.\n$a\nlast\n.\n100,110m5\n50,60co$\n200d\nu\n1000s/$/ end/\nw\nq\n";
    let output = editor.done(directory.path(), &["text"], commands);
    assert!(output.status.success(), "{}", told(&output));
    lines.iter_mut().for_each(|line| *line = line.replace('7', "seven"));
    lines.drain(2..5);
    lines.splice(0..0, ["first".to_owned(), "second".to_owned()]);
    lines.push("last".to_owned());
    let moved: Vec<String> = lines.drain(99..110).collect();
    lines.splice(5..5, moved);
    lines.extend_from_within(49..60);
    lines[999] += " end";
    assert!(read(&directory.path().join("text")) == lines, "nvi has saved other lines");
    let left: Vec<_> = fs::read_dir(directory.path().join(KEPT)).unwrap().flatten().collect();
    assert!(left.is_empty(), "nvi has saved the file, and has left {left:?}");
}

/// nvi is killed after it has preserved the file and while it edits further. It recovers the preserved lines.
fn recovers_what_it_has_preserved(editor: &Editor) {
    let directory = tempfile::tempdir().unwrap();
    let mut lines = write_text(directory.path());
    let mut child = editor.started(directory.path(), &["text"]);
    let mut commands = child.stdin.take().unwrap();
    commands.write_all(b"1s/^/changed /\n10,500d\n$a\nthe last\n.\npreserve\n2,$s/^/lost /\nw! sign\n").unwrap();
    commands.flush().unwrap();
    wait_for(&directory.path().join("sign"), &mut child);
    kill(child);
    let original = read(&directory.path().join("text"));
    assert!(original == lines, "nvi has changed the file without a command to save it");
    lines[0].insert_str(0, "changed ");
    lines.drain(9..500);
    lines.push("the last".to_owned());
    let (found, output) = editor.recovered(directory.path());
    assert!(found == lines, "nvi has recovered {} other lines: {output}", found.len());
}

/// Waits until nvi has written a file.
fn wait_for(file: &Path, child: &mut Child) {
    let begun = Instant::now();
    while !ends_with_newline(file) {
        assert!(child.try_wait().unwrap().is_none(), "nvi has ended before it has written {}", file.display());
        assert!(begun.elapsed() < PATIENCE, "nvi has not written {} for two minutes", file.display());
        thread::sleep(Duration::from_millis(2));
    }
}

/// nvi is killed at a random moment. It recovers all changes or none of the changes after the first, and all of them if
/// it has said that they are preserved.
fn recovers_from_any_kill(editor: &Editor) {
    let seed = std::env::var("LIBTP_TEST_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    let mut random = Random::new(seed);
    let (mut seen, mut whole) = ([0; 3], Duration::ZERO);
    for round in 0..KILLS {
        let directory = tempfile::tempdir().unwrap();
        let original = write_text(directory.path());
        let mut first = original.clone();
        first[0].insert_str(0, "changed ");
        let mut all = first.clone();
        all.iter_mut().skip(1).for_each(|line| line.insert_str(0, "edited "));
        let sign = directory.path().join("sign");
        let begun = Instant::now();
        let mut child = editor.started(directory.path(), &["text"]);
        let mut commands = child.stdin.take().unwrap();
        commands.write_all(b"1s/^/changed /\n2,$s/^/edited /\npreserve\nw! sign\n").unwrap();
        commands.flush().unwrap();
        // The first round measures how long nvi works.
        if round == 0 {
            wait_for(&sign, &mut child);
            whole = begun.elapsed();
        } else {
            thread::sleep(whole * u32::try_from(random.below(100)).unwrap() / 100);
        }
        let is_preserved = sign.exists();
        kill(child);
        // Before the first change, nvi has nothing to recover, and says so.
        let (found, output) = editor.recovered(directory.path());
        let state = [&original, &first, &all].iter().position(|lines| **lines == found);
        let what = format!("LIBTP_TEST_SEED={seed}, kill {round}, preserved: {is_preserved}");
        let state = state.unwrap_or_else(|| panic!("{what}: {} other lines were recovered: {output}", found.len()));
        assert!(!is_preserved || state == 2, "{what}: changes that were preserved are lost (state {state}): {output}");
        seen[state] += 1;
    }
    println!(
        "figures: nvi, {KILLS} kills: {} before a change, {} after the first change, {} after all",
        seen[0], seen[1], seen[2]
    );
}

#[test]
fn nvi_edits_saves_and_recovers_a_file() {
    if !(is_installed("apt-get", "apt") && is_installed("make", "make") && is_installed("gcc", "gcc")) {
        return;
    }
    if !Path::new("/usr/include/curses.h").exists() {
        let what = "the headers of curses are not installed (Debian: libncurses-dev)";
        assert!(std::env::var("CI").as_deref() != Ok("true"), "{what}");
        return skipped("nvi", what);
    }
    let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join("nvi");
    fs::create_dir_all(&kept).unwrap();
    let source = match source_in(&kept) {
        Ok(source) => source,
        Err(Missing::Unfetched(why)) => return skipped("nvi", &format!("its source cannot be fetched: {why}")),
        Err(Missing::Broken(why)) => panic!("the source of nvi: {why}"),
    };
    let workshop = c::workshop();
    compile_adapter(workshop.path());
    let program = built_nvi(&source, &kept, workshop.path());
    symlink(program, workshop.path().join("ex")).unwrap();
    let editor = Editor { workshop };
    edits_and_saves(&editor);
    recovers_what_it_has_preserved(&editor);
    recovers_from_any_kill(&editor);
}

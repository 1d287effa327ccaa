//! `tp sql --import`: a file of SQLite becomes an environment.
//!
//! The import has the file to itself: while another program works on the file, the import is refused, and during the
//! import no program can begin. The environment is made under another name beside its place, is compared with the file,
//! and takes its place only then; the file is renamed last. If the import is refused, fails or is interrupted, its
//! environment is removed, and the file is as it was.
//!
//! If we are killed here: an environment is left under the other name. The next import of the file removes it. If we
//! are killed between the two renames, both the file and the environment are there, and the file is still the program's
//! database. An environment that takes the file's own name exchanges its name with the file: the name always has one of
//! both. If we are killed then, the file keeps the other name, `FILE.importing-NUMBER`.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use libtp_console::failure::{Ending, Failure, Result};
use libtp_console::output::Output;
use rustix::fs::{renameat_with, RenameFlags, CWD};

use crate::interrupts::{Interrupts, Work};
use crate::names::{self, Access};
use crate::rusqlite::{Connection, ErrorCode};
use crate::{comparison, copy, sentence};

/// The files that SQLite keeps beside a database.
const COMPANIONS: [&str; 3] = ["-wal", "-shm", "-journal"];

/// Imports a file.
pub fn run(file: &Path, name: Option<&Path>, wait: Duration, output: &mut Output) -> Result<Ending> {
    let interrupts = Interrupts::default();
    interrupts.listen(Work::Copy)?;
    let shown = file.display();
    let file = fs::canonicalize(file).map_err(Failure::doing(format!("open {shown}")))?;
    let found = fs::metadata(&file).map_err(Failure::doing(format!("open {shown}")))?;
    if !found.is_file() {
        return refuse(format!("{shown} is no file of SQLite"));
    }
    let place = std::path::absolute(name.map_or_else(|| file.with_extension("tp"), Path::to_owned))
        .map_err(Failure::doing("find the current directory"))?;
    let aside = beside(&file, ".imported");
    for taken in [&place, &aside] {
        if *taken != file && fs::symlink_metadata(taken).is_ok() {
            return refuse(format!("{} exists", taken.display()));
        }
    }
    let from = interrupts.while_opening(|| lock(&file, wait))?;
    let unfinished = UnfinishedEnvironment::new(beside(&place, &format!(".importing-{}", found.ino())));
    let to = names::open(Path::new(&names::uri(&unfinished.0, true)), Access::Create, wait)?;
    let (tables, rows) = {
        let _running = interrupts.while_running(&[&from, &to]);
        let copied = copy::copy(&from, &to, output.may_draw())?;
        close(to)?;
        let to = names::open(Path::new(&names::uri(&unfinished.0, true)), Access::Write, wait)?;
        comparison::check(&from, &to, &copied)?;
        close(to)?;
        from.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").map_err(sentence)?;
        (copied.len(), copied.iter().map(|(_, sum)| sum.rows).sum::<u64>())
    };
    exchange(&unfinished.0, &place, &file, &aside)?;
    drop(from);
    // SQLite has looked for its log under the old name.
    let log = beside(&aside, "-wal");
    if fs::metadata(&log).is_ok_and(|log| log.len() == 0) {
        let _ = fs::remove_file(log);
    }
    output.object(&serde_json::json!({ "imported": place, "file": aside, "tables": tables, "rows": rows }))?;
    output.line(format!(
        "{} has the {rows} rows in {tables} tables of {shown}, which is now {}",
        place.display(),
        aside.display()
    ))?;
    Ok(Ending::Done)
}

fn refuse<T>(why: String) -> Result<T> {
    Err(Failure::Failed(format!("{why}; nothing was changed")))
}

/// Returns the path with something behind its name.
pub fn beside(path: &Path, behind: &str) -> PathBuf {
    let mut beside = path.as_os_str().to_owned();
    beside.push(behind);
    beside.into()
}

/// Opens a file and keeps every other program out until the connection is closed.
fn lock(file: &Path, wait: Duration) -> Result<Connection> {
    let from = names::open(Path::new(&(names::uri(file, false) + "?tp=0")), Access::Write, wait)?;
    match from.execute_batch("PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE; COMMIT") {
        Ok(()) => Ok(from),
        Err(error) => {
            let is_busy = error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy);
            let advice = if is_busy { ". Stop the programs that use the file, and import again" } else { "" };
            refuse(format!("{}: {}{advice}", file.display(), sentence(error)))
        }
    }
}

/// Closes a connection, whose environment is whole on the disk then.
fn close(connection: Connection) -> Result<()> {
    connection.close().map_err(|(_, error)| sentence(error))
}

/// The place where the environment is made. Dropping it removes all that is there.
struct UnfinishedEnvironment(PathBuf);

impl UnfinishedEnvironment {
    /// Clears the place. The remains of a killed import have no user, for this import has the file to itself.
    fn new(path: PathBuf) -> UnfinishedEnvironment {
        if path.exists() {
            // The library removes the shared memory of an environment when it is closed.
            drop(names::open(Path::new(&names::uri(&path, true)), Access::Write, Duration::ZERO));
        }
        let unfinished = UnfinishedEnvironment(path);
        unfinished.clear();
        unfinished
    }

    fn clear(&self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Drop for UnfinishedEnvironment {
    fn drop(&mut self) {
        self.clear();
    }
}

/// Puts the environment into its place, and the file aside. The file is moved last. An environment that takes the
/// file's name exchanges its name with the file first.
fn exchange(unfinished: &Path, place: &Path, file: &Path, aside: &Path) -> Result<()> {
    let swap = || renameat_with(CWD, unfinished, CWD, file, RenameFlags::EXCHANGE);
    let mut moves = Vec::new();
    if place == file {
        swap().map_err(|error| {
            let (unfinished, file) = (unfinished.display(), file.display());
            Failure::Failed(format!("{unfinished} and {file} cannot exchange their names: {error}; nothing was changed. Give the environment another name"))
        })?;
        moves.push((unfinished.to_owned(), aside.to_owned()));
    } else {
        moves.extend([(unfinished.to_owned(), place.to_owned()), (file.to_owned(), aside.to_owned())]);
    }
    for companion in COMPANIONS {
        let from = beside(file, companion);
        if from.exists() {
            moves.push((from, beside(aside, companion)));
        }
    }
    for (number, (from, to)) in moves.iter().enumerate() {
        let moved = fs::rename(from, to).and_then(|()| sync_directory(to));
        if let Err(error) = moved {
            // The rename may have been done, and its sync have failed.
            for (from, to) in moves[..=number].iter().rev() {
                let _ = fs::rename(to, from);
            }
            if place == file {
                let _ = swap();
            }
            return refuse(format!("{} cannot be renamed to {}: {error}", from.display(), to.display()));
        }
    }
    Ok(())
}

/// Makes the names in a file's directory survive a power cut.
pub fn sync_directory(file: &Path) -> std::io::Result<()> {
    let directory = file.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::File::open(directory)?.sync_all()
}

//! `tp sql --import`: copies an SQLite file into a new environment.
//!
//! The import locks the file exclusively: it is refused while another program uses the file, and no program can use the
//! file during the import. The environment is built under a temporary name in the directory of its final name. After
//! the comparison with the file, the environment is renamed to its final name. The file is renamed last. If the import
//! is refused, fails or is interrupted, the environment is removed and the file is unchanged.
//!
//! If we are killed here: the environment remains under its temporary name, and the next import of the file removes the
//! remains. If we are killed between the two renames, the environment has its final name, and the file still has its
//! own name, under which programs continue to use it. If the environment gets the file's own name, the environment and
//! the file exchange their names in one system call, so the name exists at all times. If we are killed after the
//! exchange, the file has the temporary name `FILE.importing-NUMBER`.

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

/// The suffixes of the files that SQLite creates next to a database file.
const COMPANIONS: [&str; 3] = ["-wal", "-shm", "-journal"];

/// Imports `file` into the environment `name`. Without `name`, the environment has the file's name with the suffix .tp.
pub fn run(file: &Path, name: Option<&Path>, wait: Duration, output: &mut Output) -> Result<Ending> {
    let interrupts = Interrupts::default();
    interrupts.listen(Work::Copy)?;
    let shown = file.display();
    let file = fs::canonicalize(file).map_err(Failure::doing(format!("open {shown}")))?;
    let found = fs::metadata(&file).map_err(Failure::doing(format!("open {shown}")))?;
    if !found.is_file() {
        return refuse(format!("{shown} is not an SQLite file"));
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
    // Closing removes the log only under its old name, so an empty log may remain under the new name.
    let log = beside(&aside, "-wal");
    if fs::metadata(&log).is_ok_and(|log| log.len() == 0) {
        let _ = fs::remove_file(log);
    }
    output.object(&serde_json::json!({ "imported": place, "file": aside, "tables": tables, "rows": rows }))?;
    output.line(format!(
        "{} has the {rows} rows of the {tables} tables of {shown}, which was renamed to {}",
        place.display(),
        aside.display()
    ))?;
    Ok(Ending::Done)
}

/// Returns the failure of an import that has changed no file.
fn refuse<T>(why: String) -> Result<T> {
    Err(Failure::Failed(format!("{why}; nothing was changed")))
}

/// Returns the path with a suffix appended to its name.
pub fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut beside = path.as_os_str().to_owned();
    beside.push(suffix);
    beside.into()
}

/// Opens a file and locks it exclusively, until the connection is closed.
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

/// Closes a connection. Then the whole environment is on the disk.
fn close(connection: Connection) -> Result<()> {
    connection.close().map_err(|(_, error)| sentence(error))
}

/// The temporary path of the new environment. Dropping this value removes the directory at this path, if any.
struct UnfinishedEnvironment(PathBuf);

impl UnfinishedEnvironment {
    /// Removes the remains of a killed import. No other import can use them, because this import has locked the file.
    fn new(path: PathBuf) -> UnfinishedEnvironment {
        if path.exists() {
            // Closing the environment removes its shared memory.
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

/// Renames the environment to `place`, and then the file and its companions to `aside`. If `place` is the file's name,
/// the environment and the file first exchange their names.
fn exchange(unfinished: &Path, place: &Path, file: &Path, aside: &Path) -> Result<()> {
    let swap = || renameat_with(CWD, unfinished, CWD, file, RenameFlags::EXCHANGE);
    let mut moves = Vec::new();
    if place == file {
        swap().map_err(|error| {
            let (unfinished, file) = (unfinished.display(), file.display());
            Failure::Failed(format!("{unfinished} and {file} cannot exchange their names: {error}; nothing was changed. Choose another name for the environment"))
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
            // The loop includes the failed step, because its rename may have succeeded before its sync failed.
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

/// Syncs the directory of a file, so that the names in the directory survive a power loss.
pub fn sync_directory(file: &Path) -> std::io::Result<()> {
    let directory = file.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::File::open(directory)?.sync_all()
}

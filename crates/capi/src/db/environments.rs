//! The environments of shared files. A directory that has shared files is an environment. A process opens each
//! environment once. The environment stays open while one of its files is open or a transaction runs in it.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError, Weak};
use std::time::{Duration, Instant};

use libtp::{Bytes, Env, Error};

use crate::db::refusal::{Answer, Refusal};
use crate::log_types::with_log_types;

/// An open environment.
pub(crate) struct OpenEnvironment {
    pub(crate) env: Env,
    pub(crate) directory: PathBuf,
}

type Opened = Vec<(u32, Weak<OpenEnvironment>)>;

/// The open environments, each with the process that opened it: a child of a fork inherits the list, but must not use
/// its parent's environments.
static OPEN: Mutex<Opened> = Mutex::new(Vec::new());

/// Every thread locks the list for very short times only. If a process does not get the lock within this time, it is a
/// child of a fork that was made while another thread held the lock. Such a child never gets the lock.
const LONGEST: Duration = Duration::from_secs(2);

fn list() -> Answer<MutexGuard<'static, Opened>> {
    let begun = Instant::now();
    loop {
        match OPEN.try_lock() {
            Ok(list) => return Ok(list),
            Err(TryLockError::Poisoned(list)) => return Ok(PoisonError::into_inner(list)),
            Err(TryLockError::WouldBlock) if begun.elapsed() > LONGEST => {
                let what = "this process was forked while another thread of its parent was opening a file, so it cannot open files: start a program in it (exec)";
                return Err(Refusal::new(libc::EAGAIN, what));
            }
            Err(TryLockError::WouldBlock) => std::thread::yield_now(),
        }
    }
}

/// Returns the environment of a directory, if this process has it open.
fn find(list: &[(u32, Weak<OpenEnvironment>)], directory: &Path) -> Option<Arc<OpenEnvironment>> {
    let ours = list.iter().filter(|(process, _)| *process == std::process::id());
    ours.filter_map(|(_, home)| home.upgrade()).find(|home| home.directory == directory)
}

/// Returns the canonical directory of a file of shared mode, and the name of its database.
pub(crate) fn of_path(path: &Path) -> Answer<(PathBuf, String)> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let full = directory.canonicalize();
    let full = full.map_err(|error| Refusal::io(&format!("the directory {}", directory.display()), &error))?;
    let name = path.file_name().and_then(|name| name.to_str());
    let name = name.ok_or_else(|| Refusal::invalid(format!("{} names no file", path.display())))?;
    Ok((full, name.strip_suffix(".tp").unwrap_or(name).to_owned()))
}

/// The program's settings for an environment that is not open yet.
pub(crate) struct Wishes<'a> {
    pub(crate) create: bool,
    pub(crate) database: &'a str,
    /// Page size of the database if it is made, in bytes; zero if the program asks for none. Used only if the
    /// environment is not open yet.
    pub(crate) page_bytes: u64,
}

/// Returns the environment of a directory, and opens it if it is not open.
pub(crate) fn environment(directory: &Path, wishes: &Wishes<'_>) -> Answer<Arc<OpenEnvironment>> {
    let there = find(&list()?, directory);
    if let Some(home) = there {
        return Ok(home);
    }
    let mut builder = with_log_types(Env::builder()).create(wishes.create);
    if wishes.page_bytes != 0 {
        let bytes = page_bytes_for(wishes.page_bytes);
        builder = builder.page_size(wishes.database, Bytes(bytes));
    }
    let env = builder.open(directory).map_err(|error| {
        let is_missing = matches!(error, Error::Environment { .. }) && !wishes.create;
        let mut refusal = Refusal::from(error);
        if is_missing && !directory.join(format!("{}.tp", wishes.database)).exists() {
            refusal.errno = libc::ENOENT;
        }
        refusal
    })?;
    let home = Arc::new(OpenEnvironment { env, directory: directory.into() });
    let mut list = list()?;
    // Another thread may have opened the environment meanwhile.
    if let Some(other) = find(&list, directory) {
        // The environment opened here is not needed. It is closed after the list is unlocked.
        drop(list);
        return Ok(other);
    }
    list.retain(|(_, home)| home.strong_count() > 0);
    list.push((std::process::id(), Arc::downgrade(&home)));
    Ok(home)
}

/// Returns the page size of a shared database, in bytes, for the `psize` that the program asks for.
pub(crate) fn page_bytes_for(wish: u64) -> u64 {
    wish.next_power_of_two().clamp(4 << 10, 64 << 10)
}

//! The environments of the directories in which files of shared mode lie: each is opened once in a process, and stays open for
//! as long as one of its files does, or a transaction.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError, Weak};
use std::time::{Duration, Instant};

use libtp::{Bytes, Env, Error};

use crate::db::refusal::{Answer, Refusal};
use crate::primitives::with_log_types;

/// An environment that is open.
pub(crate) struct Home {
    pub(crate) env: Env,
    pub(crate) directory: PathBuf,
}

type Opened = Vec<(u32, Weak<Home>)>;

/// Those that were opened, with the process, because what a child of a fork inherits is not its own.
static OPEN: Mutex<Opened> = Mutex::new(Vec::new());

/// The list is looked at and changed in no time. Who does not get it for so long is the child of a fork that another thread had
/// it at, and will never get it.
const LONGEST: Duration = Duration::from_secs(2);

fn list() -> Answer<MutexGuard<'static, Opened>> {
    let begun = Instant::now();
    loop {
        match OPEN.try_lock() {
            Ok(list) => return Ok(list),
            Err(TryLockError::Poisoned(list)) => return Ok(PoisonError::into_inner(list)),
            Err(TryLockError::WouldBlock) if begun.elapsed() > LONGEST => {
                let what = "this process was forked from one of which another thread was just opening a file: begin a program anew in it (exec)";
                return Err(Refusal::new(libc::EAGAIN, what));
            }
            Err(TryLockError::WouldBlock) => std::thread::yield_now(),
        }
    }
}

/// The one of a directory, if this process has it open.
fn find(list: &[(u32, Weak<Home>)], directory: &Path) -> Option<Arc<Home>> {
    let ours = list.iter().filter(|(process, _)| *process == std::process::id());
    ours.filter_map(|(_, home)| home.upgrade()).find(|home| home.directory == directory)
}

/// Where a file of shared mode lies: the directory, as everybody calls it, and the database's name.
pub(crate) fn of_path(path: &Path) -> Answer<(PathBuf, String)> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let full = directory.canonicalize();
    let full = full.map_err(|error| Refusal::io(&format!("the directory {}", directory.display()), &error))?;
    let name = path.file_name().and_then(|name| name.to_str());
    let name = name.ok_or_else(|| Refusal::invalid(format!("{} names no file", path.display())))?;
    Ok((full, name.strip_suffix(".tp").unwrap_or(name).to_owned()))
}

/// How an environment is opened that is not open yet.
pub(crate) struct Wishes<'a> {
    pub(crate) create: bool,
    pub(crate) database: &'a str,
    /// Bytes of the database's pages, if it is made; zero for no wish. It is heard where the environment is not open yet.
    pub(crate) page_bytes: u64,
}

/// The environment of a directory.
pub(crate) fn environment(directory: &Path, wishes: &Wishes<'_>) -> Answer<Arc<Home>> {
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
    let home = Arc::new(Home { env, directory: directory.into() });
    let mut list = list()?;
    // Another thread may have been as fast.
    if let Some(other) = find(&list, directory) {
        // Which is not closed while the list is held.
        drop(list);
        return Ok(other);
    }
    list.retain(|(_, home)| home.strong_count() > 0);
    list.push((std::process::id(), Arc::downgrade(&home)));
    Ok(home)
}

/// Bytes of a page of a shared database, from the `psize` that the program asks for.
pub(crate) fn page_bytes_for(wish: u64) -> u64 {
    wish.next_power_of_two().clamp(4 << 10, 64 << 10)
}

//! The environments of shared files. A directory that has shared files is an environment. A process opens each
//! environment once. The environment stays open while one of its files is open or a transaction runs in it. If an
//! environment is removed and a new one is made under the same path, the control file distinguishes the two.

use std::os::unix::fs::MetadataExt;
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
    /// Device and inode number of the control file. The environment has the file open, so no other file gets the same
    /// numbers.
    control: Option<(u64, u64)>,
}

/// The name of the control file (docs/formats/control.md).
const CONTROL: &str = "control";

type Opened = Vec<(u32, Weak<OpenEnvironment>)>;

/// The open environments, each with the process that opened it: a child of a fork inherits the list, but must not use
/// its parent's environments.
static OPEN: Mutex<Opened> = Mutex::new(Vec::new());

/// The longest wait for the lock of the list. Every thread locks the list for a very short time. A process that does
/// not get the lock within this time is the child of a fork that was made while another thread held the lock. Such a
/// child never gets the lock.
const LONGEST: Duration = Duration::from_secs(2);

fn list() -> Answer<MutexGuard<'static, Opened>> {
    let begun = Instant::now();
    loop {
        match OPEN.try_lock() {
            Ok(list) => return Ok(list),
            Err(TryLockError::Poisoned(list)) => return Ok(PoisonError::into_inner(list)),
            Err(TryLockError::WouldBlock) if begun.elapsed() > LONGEST => {
                let what = "this process was forked while another thread of its parent was opening a file, so it can open no file: use exec to start a program in it";
                return Err(Refusal::new(libc::EAGAIN, what));
            }
            Err(TryLockError::WouldBlock) => std::thread::yield_now(),
        }
    }
}

/// Returns the environment of a directory, if this process has it open.
fn find(list: &[(u32, Weak<OpenEnvironment>)], directory: &Path) -> Option<Arc<OpenEnvironment>> {
    let control = control_of(directory);
    let ours = list.iter().filter(|(process, _)| *process == std::process::id());
    ours.filter_map(|(_, home)| home.upgrade()).find(|home| home.directory == directory && home.control == control)
}

/// Returns device and inode number of the control file in a directory.
fn control_of(directory: &Path) -> Option<(u64, u64)> {
    let metadata = directory.join(CONTROL).metadata().ok()?;
    Some((metadata.dev(), metadata.ino()))
}

/// Returns the canonical directory of a file of shared mode, and the name of its database.
pub(crate) fn of_path(path: &Path) -> Answer<(PathBuf, String)> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let full = directory.canonicalize();
    let full = full.map_err(|error| Refusal::io(&format!("the directory {}", directory.display()), &error))?;
    let name = path.file_name().and_then(|name| name.to_str());
    let name = name.ok_or_else(|| Refusal::invalid(format!("the path {} names no file", path.display())))?;
    Ok((full, name.strip_suffix(".tp").unwrap_or(name).to_owned()))
}

/// The program's settings for an environment that is not open yet.
pub(crate) struct Wishes<'a> {
    pub(crate) create: bool,
    pub(crate) database: &'a str,
    /// Page size, in bytes, of the database if the program makes it; zero for the default.
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
    let before = control_of(directory);
    let env = builder.open(directory).map_err(|error| {
        let is_missing = matches!(error, Error::Environment { .. }) && !wishes.create;
        let mut refusal = Refusal::from(error);
        if is_missing && !directory.join(format!("{}.tp", wishes.database)).exists() {
            refusal.errno = libc::ENOENT;
        }
        refusal
    })?;
    // If the control file was replaced during the opening, it is unknown which of the two files belongs to the opened
    // environment.
    let control = control_of(directory).filter(|control| before.is_none_or(|before| before == *control));
    let home = Arc::new(OpenEnvironment { env, directory: directory.into(), control });
    let mut list = list()?;
    // Another thread may have opened the environment during this opening.
    if let Some(other) = find(&list, directory) {
        // The environment that was opened here is not needed. The list is unlocked before this environment is closed.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_environment_under_the_path_of_a_removed_one_is_opened() {
        let place = tempfile::tempdir().unwrap();
        let wishes = Wishes { create: true, database: "kv", page_bytes: 0 };
        let first = environment(place.path(), &wishes).unwrap();
        assert!(Arc::ptr_eq(&first, &environment(place.path(), &wishes).unwrap()));
        let put = |home: &OpenEnvironment, value: &[u8]| {
            let db = home.env.btree("kv").unwrap();
            home.env.run(|txn| db.put(txn, b"key", value)).unwrap();
        };
        put(&first, b"old");
        for entry in std::fs::read_dir(place.path()).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                std::fs::remove_dir_all(path).unwrap()
            } else {
                std::fs::remove_file(path).unwrap()
            }
        }
        let second = environment(place.path(), &wishes).unwrap();
        assert!(!Arc::ptr_eq(&first, &second));
        put(&second, b"new");
        assert!(place.path().join("kv.tp").is_file(), "the database is in the environment that has the path now");
    }
}

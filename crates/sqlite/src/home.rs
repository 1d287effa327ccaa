//! An environment that is open in this process.
//!
//! All connections of a process to an environment share one handle. The handle is found by the inodes of the directory
//! and of its control file, not by the path, because an environment that was removed and made again is another
//! environment. An open environment has a descriptor of its control file, so no other file gets the same inode number.
//! A connection to a removed environment can still read, but not write. The child of a fork opens the environment
//! again.

use std::collections::HashMap;
use std::fs::{File, Metadata, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use libtp::{Db, Env};

use crate::answer::{Outcome, Refusal, CANTOPEN, READONLY_DBMOVED};

/// Linux's `O_PATH`: a descriptor that only refers to a file. Closing it does not release the process's locks on the
/// file.
const O_PATH: i32 = 0o10_000_000;

/// The environment of a connection.
pub(crate) struct Home {
    env: Env,
    /// The control file. Its link count shows whether the environment was removed.
    control: File,
    /// The header values, the next root, and the roots that are free.
    meta: Arc<Db>,
    /// For each table, by root, the last rowid that was given out. These rowids are not in `meta`, because separate
    /// transactions change them while the connection's transaction may have locked key ranges of `meta`.
    numbers: Arc<Db>,
    trees: Mutex<HashMap<u32, Arc<Db>>>,
}

/// The percentage of a page that VACUUM fills. The rest is room for later inserts.
const FILL_PERCENT: u8 = 90;
/// The name of the control file (docs/formats/control.md).
const CONTROL: &str = "control";

#[derive(PartialEq, Eq)]
struct Identity {
    process: u32,
    is_read_only: bool,
    directory: (u64, u64),
    control: (u64, u64),
}

static HOMES: Mutex<Vec<(Identity, Weak<Home>)>> = Mutex::new(Vec::new());

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic leaves these collections usable, because each change of them is one call.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Home {
    /// Opens the environment in a directory. Makes a missing environment if `may_create`, or if an empty file has the
    /// name. Waits at most for the time `wait` for another process that opens or makes the same trees.
    pub(crate) fn open(directory: &Path, is_read_only: bool, may_create: bool, wait: Duration) -> Outcome<Arc<Home>> {
        let may_create = takes_the_place_of_an_empty_file(directory, is_read_only) || may_create;
        check_place(directory)?;
        let mut homes = locked(&HOMES);
        homes.retain(|(_, home)| home.strong_count() > 0);
        let known = identity(directory, is_read_only);
        let known = known.and_then(|known| homes.iter().find(|(identity, _)| *identity == known));
        if let Some(home) = known.and_then(|(_, home)| home.upgrade()) {
            return Ok(home);
        }
        let builder = Env::builder().create(may_create && !is_read_only).read_only(is_read_only);
        let env = builder.open(directory)?;
        let control = OpenOptions::new().read(true).custom_flags(O_PATH).open(env.path().join(CONTROL));
        let control = control.and_then(above_standard);
        let control = control.map_err(|error| Refusal::new(CANTOPEN, format!("{}: {error}", directory.display())))?;
        let open = |name| env.btree_within(name, wait);
        let (meta, numbers) = (Arc::new(open("sql.meta")?), Arc::new(open("sql.rowid")?));
        let home = Arc::new(Home { env, control, meta, numbers, trees: Mutex::default() });
        if let Some(identity) = identity(directory, is_read_only) {
            homes.push((identity, Arc::downgrade(&home)));
        }
        Ok(home)
    }

    pub(crate) fn env(&self) -> &Env {
        &self.env
    }

    pub(crate) fn meta(&self) -> &Db {
        &self.meta
    }

    pub(crate) fn numbers(&self) -> &Db {
        &self.numbers
    }

    /// Returns the tree with the number that SQLite takes for a root page. The first call for a tree opens it, and waits
    /// at most for the time `wait` for another process that opens or makes the same tree.
    pub(crate) fn tree(&self, root: u32, wait: Duration) -> Outcome<Arc<Db>> {
        if let Some(tree) = locked(&self.trees).get(&root) {
            return Ok(Arc::clone(tree));
        }
        // The mutex is unlocked during the opening, which may wait for a transaction of another thread.
        let tree = Arc::new(self.env.btree_within(&format!("sql.{root}"), wait)?);
        Ok(Arc::clone(locked(&self.trees).entry(root).or_insert(tree)))
    }

    /// Compacts all trees, outside of the connection's transaction. Waits for each lock no longer than `wait`.
    pub(crate) fn compact(&self, wait: Duration) -> Outcome<()> {
        for listed in self.env.list_databases()? {
            if let Some(Ok(root)) = listed.name.strip_prefix("sql.").map(str::parse::<u32>) {
                self.tree(root, wait)?.compact_within(FILL_PERCENT, wait)?;
            }
        }
        Ok(())
    }

    /// Returns whether the environment was removed: no name refers to its control file.
    pub(crate) fn is_removed(&self) -> bool {
        self.control.metadata().is_ok_and(|control| control.nlink() == 0)
    }

    /// Called before a write. Fails if the environment was removed.
    pub(crate) fn refuse_removed(&self) -> Outcome<()> {
        match self.is_removed() {
            false => Ok(()),
            true => Err(Refusal::new(
                READONLY_DBMOVED,
                format!("{} was removed while this connection was open; nothing was changed. Close the connection and open the database again", self.env.path().display()),
            )),
        }
    }

    /// Returns the length of all trees' files, in bytes.
    pub(crate) fn bytes(&self) -> i64 {
        let files = std::fs::read_dir(self.env.path()).into_iter().flatten().flatten();
        let trees = files.filter(|file| file.file_name().to_string_lossy().starts_with("sql."));
        let bytes: u64 = trees.filter_map(|file| file.metadata().ok()).map(|metadata| metadata.len()).sum();
        i64::try_from(bytes).unwrap_or(i64::MAX)
    }
}

/// Fails if the directory certainly is no environment, and no environment may be made there.
fn check_place(directory: &Path) -> Outcome<()> {
    let shown = directory.display();
    let refuse = |what: String| Err(Refusal::new(CANTOPEN, what));
    match directory.metadata() {
        Ok(found) if !found.is_dir() => refuse(format!(
            "{shown} is a file, and its name, ?tp=1 or LIBTP_SQLITE demands an environment; nothing was changed. `tp sql --import` makes an environment from an SQLite file"
        )),
        Ok(_) if control(directory).is_none() && (!is_named(directory) || has_files(directory)) => {
            refuse(format!("{shown} is a directory and no environment; nothing was changed"))
        }
        _ => Ok(()),
    }
}

/// Returns whether a directory has files other than `libtp.toml`, which has the settings for a new environment.
fn has_files(directory: &Path) -> bool {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    entries.into_iter().any(|entry| entry.file_name() != "libtp.toml")
}

/// Moves a file to a descriptor above the descriptors of the standard streams. A program may have closed the standard
/// streams, and may use their descriptors later for files of its own.
fn above_standard(file: File) -> std::io::Result<File> {
    match file.as_raw_fd() {
        // A cloned descriptor is always above the standard streams.
        0..=2 => file.try_clone(),
        _ => Ok(file),
    }
}

/// Removes an empty file under an environment's name. Programs make such a file to get an unused name (`mkstemp`), and
/// SQLite, too, takes it for a new database. Returns whether a file was removed.
fn takes_the_place_of_an_empty_file(place: &Path, is_read_only: bool) -> bool {
    let is_empty = |file: &Path| file.symlink_metadata().is_ok_and(|found| found.is_file() && found.len() == 0);
    if is_read_only || !is_empty(place) {
        return false;
    }
    let mut second = place.as_os_str().to_owned();
    second.push(format!(".empty-{}", std::process::id()));
    let second = Path::new(&second);
    let has_second = std::fs::hard_link(place, second).is_ok();
    // If another process has already made the environment, the name is a directory, which this call does not remove.
    let mut removed = std::fs::remove_file(place).is_ok();
    if has_second {
        // If a program has written to the file in the meantime, the file gets its name again.
        if removed && !is_empty(second) {
            removed = std::fs::hard_link(second, place).is_err();
        }
        let _ = std::fs::remove_file(second);
    }
    removed
}

fn is_named(directory: &Path) -> bool {
    directory.extension().is_some_and(|extension| extension == "tp")
}

fn control(directory: &Path) -> Option<Metadata> {
    directory.join(CONTROL).metadata().ok()
}

fn identity(directory: &Path, is_read_only: bool) -> Option<Identity> {
    let of = |metadata: Metadata| (metadata.dev(), metadata.ino());
    let control = of(control(directory)?);
    let directory = of(directory.metadata().ok()?);
    Some(Identity { process: std::process::id(), is_read_only, directory, control })
}

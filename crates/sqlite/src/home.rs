//! An environment, open in this process for all connections to it.
//!
//! The connections of a process share one handle. It is found by the identity of the directory and of the control file
//! in it, not by the path: a directory that was removed and made again is another environment. The control file of an
//! open environment is held, so no other file has its identity. A connection to an environment that was removed can
//! still read, but not write. A child of `fork` opens the environment anew.

use std::collections::HashMap;
use std::fs::{File, Metadata, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use libtp::{Db, Env};

use crate::answer::{Outcome, Refusal, CANTOPEN, READONLY_DBMOVED};

/// Linux's `O_PATH`: a descriptor that names a file and has no access to it. Closing it gives up no lock.
const O_PATH: i32 = 0o10_000_000;

/// The environment of a connection.
pub(crate) struct Home {
    env: Env,
    /// The control file, for a look at its links.
    control: File,
    /// The header values, the next root, and the roots that are free.
    meta: Arc<Db>,
    /// The last rowid that was given out, by root. It is apart from `meta`: a transaction beside the main one changes
    /// it, and would wait for ranges that the main one holds there.
    numbers: Arc<Db>,
    trees: Mutex<HashMap<u32, Arc<Db>>>,
}

/// The part of a page that VACUUM fills: later inserts find room.
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
    // Each change of these maps is one call.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Home {
    /// Opens the environment in a directory; makes one that is missing if `may_create`.
    pub(crate) fn open(directory: &Path, is_read_only: bool, may_create: bool) -> Outcome<Arc<Home>> {
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
        let (meta, numbers) = (Arc::new(env.btree("sql.meta")?), Arc::new(env.btree("sql.rowid")?));
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

    /// Returns the tree with the number that SQLite takes for a root page.
    pub(crate) fn tree(&self, root: u32) -> Outcome<Arc<Db>> {
        if let Some(tree) = locked(&self.trees).get(&root) {
            return Ok(Arc::clone(tree));
        }
        // Not under the mutex: opening may wait for a transaction of another thread.
        let tree = Arc::new(self.env.btree(&format!("sql.{root}"))?);
        Ok(Arc::clone(locked(&self.trees).entry(root).or_insert(tree)))
    }

    /// Compacts all trees, in transactions of their own. Waits for each lock no longer than `wait`.
    pub(crate) fn compact(&self, wait: Duration) -> Outcome<()> {
        for listed in self.env.list_databases()? {
            if let Some(Ok(root)) = listed.name.strip_prefix("sql.").map(str::parse::<u32>) {
                self.tree(root)?.compact_within(FILL_PERCENT, wait)?;
            }
        }
        Ok(())
    }

    /// Returns whether the environment's files were removed.
    pub(crate) fn is_removed(&self) -> bool {
        self.control.metadata().is_ok_and(|control| control.nlink() == 0)
    }

    /// Refuses to write to an environment that was removed: its place may have another one already.
    pub(crate) fn refuse_removed(&self) -> Outcome<()> {
        match self.is_removed() {
            false => Ok(()),
            true => Err(Refusal::new(
                READONLY_DBMOVED,
                format!("{} was removed while this connection was open; nothing was changed. Close the connection and open the database again", self.env.path().display()),
            )),
        }
    }

    /// Returns the bytes of the trees' files.
    pub(crate) fn bytes(&self) -> i64 {
        let files = std::fs::read_dir(self.env.path()).into_iter().flatten().flatten();
        let trees = files.filter(|file| file.file_name().to_string_lossy().starts_with("sql."));
        let bytes: u64 = trees.filter_map(|file| file.metadata().ok()).map(|metadata| metadata.len()).sum();
        i64::try_from(bytes).unwrap_or(i64::MAX)
    }
}

/// Refuses a place that is certainly no environment.
fn check_place(directory: &Path) -> Outcome<()> {
    let shown = directory.display();
    let refuse = |what: String| Err(Refusal::new(CANTOPEN, what));
    match directory.metadata() {
        Ok(found) if !found.is_dir() => refuse(format!(
            "{shown} is a file, and its name, ?tp=1 or LIBTP_SQLITE asks for an environment; nothing was changed. `tp sql --import` makes an environment of a file of SQLite"
        )),
        Ok(_) if control(directory).is_none() && (!is_named(directory) || has_files(directory)) => {
            refuse(format!("{shown} is a directory and no environment; nothing was changed"))
        }
        _ => Ok(()),
    }
}

/// Returns whether a directory has other files than the settings of an environment that is to be made.
fn has_files(directory: &Path) -> bool {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    entries.into_iter().any(|entry| entry.file_name() != "libtp.toml")
}

/// Moves a file from the descriptors of the standard streams, which a program may have closed and may use for files of
/// its own.
fn above_standard(file: File) -> std::io::Result<File> {
    match file.as_raw_fd() {
        // The copy of a descriptor is above the standard streams.
        0..=2 => file.try_clone(),
        _ => Ok(file),
    }
}

/// Removes an empty file, as programs make one to have a name of their own (`mkstemp`). SQLite takes it for a new
/// database, too. Returns whether there was one.
fn takes_the_place_of_an_empty_file(place: &Path, is_read_only: bool) -> bool {
    let is_empty = |file: &Path| file.symlink_metadata().is_ok_and(|found| found.is_file() && found.len() == 0);
    if is_read_only || !is_empty(place) {
        return false;
    }
    let mut second = place.as_os_str().to_owned();
    second.push(format!(".empty-{}", std::process::id()));
    let second = Path::new(&second);
    let has_second = std::fs::hard_link(place, second).is_ok();
    // Another process may be faster: then there is a directory, which this call leaves alone.
    let mut removed = std::fs::remove_file(place).is_ok();
    if has_second {
        // A program may have written the file meanwhile: its file gets the name back.
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

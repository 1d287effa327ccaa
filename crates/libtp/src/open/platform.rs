//! The directories of an environment: those of its files, and the *homes*, the directories that may have its region.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use libtp_io::{Directory, OpenMode, PosixDirectory};
use libtp_log::CONTROL_NAME;
use rio::{planted, Access, Identity, Lasting, Region, Survives};
use rustix::fs::{Mode, OFlags};

use crate::ground::mutex::lock;
use crate::ground::settings::{self, Settings, SETTINGS_NAME};
use crate::open::left_memory::{sweep, OrphanedMemory, PREFIX};
use crate::open::log_type::LogType;
use crate::{Error, Result};

/// The default directory of shared memory.
const SHARED_MEMORY: &str = "/dev/shm";
/// A filesystem with less free room than this is not used for shared memory (a container's 64 MiB would soon be full).
pub(super) const ROOM_MIN: u64 = 96 << 20;
/// The region's name in the environment's own directory.
pub(crate) const REGION_NAME: &str = "region";
/// Address space reserved for a region: the limit of its growth.
const RESERVE_BYTES: u64 = 1 << 38;

/// The homes that this process has already swept (`left_memory.rs`).
static SWEPT: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// The directories and the memory of an environment.
#[derive(Clone)]
pub struct Platform {
    /// The environment's directory, for messages.
    pub path: PathBuf,
    /// Data files, control file, double-write file.
    pub directory: Arc<dyn Directory>,
    /// The log's segment files.
    pub log_directory: Arc<dyn Directory>,
    /// Where the region is.
    pub memory: Memory,
    /// The log-record types of the program.
    pub log_types: Arc<[LogType]>,
}

impl std::fmt::Debug for Platform {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Platform({})", self.path.display())
    }
}

/// Where a region is.
#[derive(Clone, Debug)]
pub enum Memory {
    /// The region is in a file of one of these directories; the last is the environment's own.
    Files(Vec<PathBuf>),
    /// The region is in the memory of this process: simulated processes share it.
    #[cfg_attr(not(any(test, feature = "testing")), allow(dead_code))]
    Shared(SharedMemory),
}

/// Memory that simulated processes share, and that a simulated power cut loses.
#[cfg_attr(not(any(test, feature = "testing")), allow(dead_code))]
#[derive(Clone, Default)]
pub struct SharedMemory(Arc<Mutex<Option<Region>>>, Lasting);

impl std::fmt::Debug for SharedMemory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SharedMemory")
    }
}

#[cfg_attr(not(any(test, feature = "testing")), allow(dead_code))]
impl SharedMemory {
    /// Returns empty memory.
    pub fn new() -> SharedMemory {
        SharedMemory::default()
    }

    /// Returns empty memory that survives the events of `lasting`.
    pub fn lasting(lasting: Lasting) -> SharedMemory {
        SharedMemory(Arc::default(), lasting)
    }

    /// Simulates a restart of the machine that preserves the memory.
    pub fn warm_start(&self) {
        if let Some(region) = &*lock(&self.0) {
            region.pretend_earlier_start();
        }
    }

    /// Sets the region, as if it had been there before.
    pub fn put(&self, region: Region) {
        *lock(&self.0) = Some(region);
    }

    /// Returns the region.
    pub fn region(&self) -> Option<Region> {
        lock(&self.0).clone()
    }

    /// Simulates the loss of the memory.
    pub fn lose(&self) {
        *lock(&self.0) = None;
    }
}

impl Platform {
    /// Returns the platform of the machine's files and memory.
    ///
    /// # Errors
    /// `Environment` when the directory cannot be used, with the remedy.
    pub(crate) fn posix(path: &Path, settings: &Settings, create: bool) -> Result<Platform> {
        let refuse = |what: String| Error::Environment { environment: path.to_path_buf(), what };
        let directory = if create { PosixDirectory::create(path) } else { PosixDirectory::open(path) };
        let directory = directory.map_err(|error| refuse(error.to_string()))?;
        let directory: Arc<dyn Directory> = Arc::new(directory);
        if !create && !directory.exists(CONTROL_NAME).map_err(|error| refuse(error.to_string()))? {
            return Err(refuse(format!(
                "it has no file `{CONTROL_NAME}`, so it is not an environment, and this call makes no new one. Check the directory, or make an environment (`tp put` and `tp load` make one; in a program, `Env::create`)"
            )));
        }
        let log_directory = match &settings.log_directory {
            None => Arc::clone(&directory),
            Some(log) => {
                let log = if log.is_absolute() { log.clone() } else { path.join(log) };
                // The log directory of an existing environment must exist: a missing one may be on a disk that is not
                // mounted.
                let is_new = !has_control(directory.as_ref()).map_err(|error| refuse(error.to_string()))?;
                let found = if is_new { PosixDirectory::create(&log) } else { PosixDirectory::open(&log) };
                Arc::new(found.map_err(|error| refuse(format!("its log directory cannot be used: {error}")))?)
                    as Arc<dyn Directory>
            }
        };
        let mut homes = vec![settings.region_directory.clone().unwrap_or_else(|| SHARED_MEMORY.into())];
        homes.push(path.to_path_buf());
        Ok(Platform {
            path: path.to_path_buf(),
            directory,
            log_directory,
            memory: Memory::Files(homes),
            log_types: Arc::default(),
        })
    }

    /// Refuses directories on a network filesystem.
    pub(crate) fn check_local(&self) -> Result<()> {
        let refuse = |what: String| Error::Environment { environment: self.path.clone(), what };
        for (directory, whose) in [(&self.directory, "it"), (&self.log_directory, "its log directory")] {
            if directory.is_network().map_err(|error| refuse(error.to_string()))? {
                return Err(refuse(format!(
                    "{whose} is on a network filesystem, where file locks, shared memory and syncs do not work as the library needs them. Put the environment on a local disk"
                )));
            }
        }
        Ok(())
    }

    /// Reads `libtp.toml`; returns the defaults if it is missing.
    pub(crate) fn settings_file(&self) -> Result<Settings> {
        let Some(text) = settings::file_bytes(&*self.directory)? else { return Ok(Settings::default()) };
        let text = String::from_utf8(text).map_err(|_| Error::Settings {
            what: format!(
                "{} is not UTF-8 text; nothing was changed. Write the settings again",
                self.directory.describe(SETTINGS_NAME)
            ),
        })?;
        let parsed = Settings::parse(&text);
        parsed.map_err(|error| Error::Settings {
            what: format!("{}, {error}; nothing was changed", self.directory.describe(SETTINGS_NAME)),
        })
    }

    /// Looks for the region; if there is one that cannot be used, returns the reason.
    ///
    /// # Errors
    /// A region exists but cannot be opened just now: it may hold commits that exist nowhere else.
    pub(crate) fn find_region(&self, identity: &Identity) -> Result<RegionState> {
        let found = match &self.memory {
            Memory::Shared(shared) => match &*lock(&shared.0) {
                // Simulated processes map the region at different addresses, as real processes do.
                Some(region) => match region.attach_again(identity) {
                    Ok(region) => RegionState::Good(region),
                    Err(rio::Error::Broken { .. }) => RegionState::Broken(region.map_again()?),
                    Err(error) => left(region.attach_left_again(identity), identity, &error)?,
                },
                None => RegionState::None,
            },
            Memory::Files(homes) => {
                let access = self.access()?;
                let mut found = RegionState::None;
                for home in homes {
                    let path = home.join(self.region_name(home, identity));
                    match Region::attach(&path, identity, RESERVE_BYTES, &access) {
                        Ok(region) => return Ok(RegionState::Good(region)),
                        Err(rio::Error::Broken { .. }) => {
                            return Ok(RegionState::Broken(Region::attach_broken(
                                &path,
                                identity,
                                RESERVE_BYTES,
                                &access,
                            )?));
                        }
                        Err(rio::Error::System { source, .. }) if source.kind() == ErrorKind::NotFound => {}
                        Err(error) if may_pass(&error) => return Err(error.into()),
                        Err(error) => {
                            let looked = Region::attach_stale(&path, identity, RESERVE_BYTES, &access);
                            found = left(looked, identity, &error)?;
                            if !matches!(found, RegionState::Unusable(_)) {
                                return Ok(found);
                            }
                            if matches!(error, rio::Error::Planted { .. }) {
                                tracing::warn!(%error, "the file with the name of the shared memory is left as it is");
                            }
                        }
                    }
                }
                found
            }
        };
        Ok(found)
    }

    /// Makes a new region of at most `reserve` bytes in the first home that has room. Removes an earlier region of this
    /// environment.
    pub(crate) fn make_region(&self, identity: &Identity, reserve: u64) -> Result<Region> {
        match &self.memory {
            Memory::Shared(shared) => {
                let region = Region::anonymous_as(identity, 1 << 30)?;
                *lock(&shared.0) = Some(region.map_again()?);
                Ok(region)
            }
            Memory::Files(homes) => {
                let access = self.access()?;
                let mut refused = None;
                for home in homes {
                    let own = *home == self.path;
                    let path = home.join(self.region_name(home, identity));
                    // If a file of another user has the name, only this home cannot be used.
                    if let Err(error) = self.remove(&path) {
                        refused = Some(error);
                        continue;
                    }
                    if !own && !has_room(home) {
                        continue;
                    }
                    match Region::create(&path, identity, reserve, &access) {
                        Ok(region) => {
                            self.note_directory(&region);
                            self.only_region(homes, identity, &region);
                            return Ok(region);
                        }
                        Err(error) => refused = Some(error.into()),
                    }
                }
                Err(refused.expect("the last home is the environment's own directory and is always tried"))
            }
        }
    }

    /// Returns the number of bytes that a region has for pages: half of its address space, or half of the room on the
    /// filesystem of its file if that is less. The other half is for everything else in the region.
    pub(crate) fn memory_for_pages(&self, region: &Region) -> u64 {
        let room = match (&self.memory, region.path().parent()) {
            (Memory::Files(_), Some(home)) if !planted("libtp: the free space for shared memory is ignored") => {
                free_bytes(home).map_or(u64::MAX, |free| free.saturating_add(region.allocated_bytes().unwrap_or(0)))
            }
            _ => u64::MAX,
        };
        region.reserved().min(room) / 2
    }

    /// Returns what the memory of a region survives, as detected or as declared. The declaration applies to the first
    /// home only: a region that found no room there is in other memory.
    pub(crate) fn lasting(&self, region: &Region, declared: Option<Survives>) -> Lasting {
        match &self.memory {
            Memory::Shared(shared) => shared.1,
            Memory::Files(homes) => {
                let is_there = region.path().parent() == homes.first().map(PathBuf::as_path)
                    || planted("libtp: the setting of surviving memory applies to any directory");
                region.find_lasting(declared.filter(|_| is_there))
            }
        }
    }

    /// Returns the path of a new region, and what the region would survive there. `None` if that cannot be known before
    /// the region is created.
    pub(crate) fn lasting_of_new(&self, identity: &Identity, declared: Option<Survives>) -> Option<(PathBuf, Lasting)> {
        let homes = match &self.memory {
            Memory::Shared(shared) => return Some((self.path.clone(), shared.1)),
            Memory::Files(homes) => homes,
        };
        // An existing region of this environment is removed first, which frees its room.
        let can_be_had = |home: &&PathBuf| {
            **home == self.path || has_room(home) || home.join(self.region_name(home, identity)).exists()
        };
        let home = homes.iter().find(can_be_had)?;
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        let file = rustix::fs::open(home, flags, Mode::RUSR | Mode::WUSR).ok()?;
        let declared = declared.filter(|_| homes.first() == Some(home));
        Some((home.join(self.region_name(home, identity)), Lasting::of(&file.into(), declared)))
    }

    /// Returns the first path of this environment's region in the order of the search, for messages.
    pub(crate) fn first_place(&self, identity: &Identity) -> PathBuf {
        match &self.memory {
            Memory::Files(homes) if !homes.is_empty() => homes[0].join(self.region_name(&homes[0], identity)),
            _ => self.path.clone(),
        }
    }

    /// Removes the files with the region's name from the other homes, so that no search mistakes such a file for the
    /// new region.
    fn only_region(&self, homes: &[PathBuf], identity: &Identity, made: &Region) {
        for path in homes.iter().map(|home| home.join(self.region_name(home, identity))) {
            if path != made.path() {
                // Another user's file may stay: it is no region, or a region of an older incarnation, and is not used.
                if let Err(error) = self.remove(&path) {
                    tracing::warn!(%error, "an old file of shared memory cannot be removed, and stays");
                }
            }
        }
    }

    /// Notes the environment's directory in the region, so that [`sweep`] can find out that the directory is gone.
    /// Called while the door is held.
    pub(crate) fn note_directory(&self, region: &Region) {
        if let Ok(path) = std::fs::canonicalize(&self.path) {
            region.header().set_directory(&path);
        }
    }

    /// Returns the directories in which this process looks for the environment's memory.
    pub(crate) fn describe_homes(&self) -> String {
        match &self.memory {
            Memory::Files(homes) => {
                homes.iter().map(|home| home.display().to_string()).collect::<Vec<_>>().join(" or ")
            }
            Memory::Shared(_) => "the memory".into(),
        }
    }

    /// Removes regions whose environments are gone; returns those that may hold commits that exist nowhere else.
    pub(crate) fn sweep(&self) -> Vec<OrphanedMemory> {
        self.others_homes().flat_map(|home| sweep(home)).collect()
    }

    /// Sweeps only the homes that this process has not swept yet, because each region in a home costs a dozen system
    /// calls.
    pub(crate) fn sweep_once(&self) {
        for home in self.others_homes() {
            // This call does not wait for the mutex: in a forked child, the thread that holds the mutex may not exist.
            // Then another process sweeps.
            let is_first = SWEPT.try_lock().is_ok_and(|mut swept| swept.insert(home.clone()));
            if is_first {
                drop(sweep(home));
            }
        }
    }

    /// Returns the homes that other environments share. A region in the environment's own directory is deleted with
    /// that directory.
    fn others_homes(&self) -> impl Iterator<Item = &PathBuf> {
        let homes = match &self.memory {
            Memory::Shared(_) => &[][..],
            Memory::Files(homes) => homes,
        };
        homes.iter().filter(|home| **home != self.path)
    }

    /// Returns the regions that were made for earlier files of this environment: for another control file in the same
    /// directory, or for another incarnation. For a region whose log only another build can read, returns only the
    /// path.
    pub(crate) fn survived(&self, identity: &Identity) -> Result<(Vec<Region>, Vec<PathBuf>)> {
        let Memory::Files(homes) = &self.memory else { return Ok((Vec::new(), Vec::new())) };
        let access = self.access()?;
        let here = std::fs::canonicalize(&self.path).ok();
        let is_survivor = |region: &Region| {
            let header = region.header();
            let is_own = header.control_inode.get() == identity.control_inode
                && header.control_birth.get() == identity.control_birth;
            header.environment.iter().map(rio::Word::get).eq(identity.environment)
                && (is_own || (header.directory() == here && here.is_some()))
        };
        let (mut found, mut unreadable) = (Vec::new(), Vec::new());
        for home in homes {
            let is_own_home = *home == self.path;
            for path in
                if is_own_home { vec![home.join(REGION_NAME)] } else { beginning_with(home, &name_of_any(identity)) }
            {
                if is_own_home && !path.exists() {
                    continue;
                }
                let attached = match Region::attach_any(&path, identity.layout, RESERVE_BYTES, &access) {
                    Ok(region) => Some(region),
                    Err(error) if may_pass(&error) => return Err(error.into()),
                    // A copy, a region of an earlier start of the machine, or an unfinished region is not trusted.
                    Err(error) => {
                        let looked = || Region::attach_any_left(&path, RESERVE_BYTES, &access);
                        match left(looked(), identity, &error)? {
                            RegionState::Left(region, _) => Some(region),
                            RegionState::Unreadable(_) => {
                                unreadable.extend(looked().ok().filter(is_survivor).map(|_| path));
                                None
                            }
                            _ => None,
                        }
                    }
                };
                found.extend(attached.filter(is_survivor));
            }
        }
        Ok((found, unreadable))
    }

    /// Removes the region's file, after all processes have detached and everything in the region is in the
    /// environment's files. If another user made the file, this process may lack the right to remove it. Then the file
    /// stays; the next opening finds it, with nothing to repair.
    pub(crate) fn remove_region(&self, region: &Region) -> Result<()> {
        match &self.memory {
            Memory::Shared(shared) => {
                *lock(&shared.0) = None;
                Ok(())
            }
            Memory::Files(_) => match rio::remove_region(region.path()) {
                Err(error) if error.kind() == ErrorKind::PermissionDenied => Ok(()),
                _ => self.remove(region.path()),
            },
        }
    }

    fn remove(&self, path: &Path) -> Result<()> {
        match rio::remove_region(path) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(self.not_removable(path, &error)),
            _ => Ok(()),
        }
    }

    /// Returns the name of the region. A copy of an environment has the environment's id, but another control file: the
    /// copy gets a region of its own (PROTOCOLS F1).
    pub(super) fn region_name(&self, home: &Path, identity: &Identity) -> String {
        if home == self.path {
            return REGION_NAME.into();
        }
        format!("{}{:x}", name_of_any(identity), identity.control_inode)
    }

    /// Returns the rights for the shared memory: the same as for the directory.
    pub(super) fn access(&self) -> Result<Access> {
        Access::of_directory(&self.path).map_err(|error| {
            let what = format!("the owner and mode of the directory cannot be read: {error}. Give this user the right to read the directory");
            Error::Environment { environment: self.path.clone(), what }
        })
    }
}

/// Returns the files of a directory whose names begin with `prefix`.
fn beginning_with(directory: &Path, prefix: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().filter_map(std::result::Result::ok);
    let ours = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(prefix));
    ours.map(|entry| entry.path()).collect()
}

/// Returns the prefix of the names of this environment's regions, whatever control file they were made for.
fn name_of_any(identity: &Identity) -> String {
    let [high, low] = identity.environment;
    format!("{PREFIX}{high:016x}{low:016x}-")
}

/// Returns the address space of a region that replaces `broken`, or of a first region. The new address space is not
/// larger than that of `broken`, because some attached process may be unable to map more.
pub(crate) fn reserve_after(broken: Option<&Region>) -> u64 {
    let reserve = broken.map_or(RESERVE_BYTES, |broken| broken.header().reserve.get());
    // The maker of a region halves `RESERVE_BYTES` as often as necessary: any other value comes from a wild store.
    if reserve.is_power_of_two() && !planted("libtp: a rebuilt region is as large as its maker can map") {
        reserve.min(RESERVE_BYTES)
    } else {
        RESERVE_BYTES
    }
}

/// The result of looking for the region.
pub(crate) enum RegionState {
    /// No file.
    None,
    /// A region of this environment, build and boot.
    Good(Region),
    /// A broken region of this environment, build and boot.
    Broken(Region),
    /// A region whose log can be taken, because its memory survived a restart of the machine, or another build made it;
    /// with the reason why it cannot be attached.
    Left(Region, String),
    /// A region of another build, made since the machine started, whose log this build cannot read; with the reason.
    Unreadable(String),
    /// Anything else; with the reason.
    Unusable(String),
}

/// Returns the result of a second look at a region that cannot be attached because of `error`.
///
/// # Errors
/// The region cannot be inspected just now.
fn left(looked: rio::Result<Region>, identity: &Identity, error: &rio::Error) -> rio::Result<RegionState> {
    let unusable = Ok(RegionState::Unusable(error.to_string()));
    let region = match looked {
        Ok(region) => region,
        Err(error) if may_pass(&error) => return Err(error),
        Err(_) => return unusable,
    };
    let (is_earlier, header) = (region.is_of_earlier_start(), region.header());
    let is_log_known = header.log_layout.get() == identity.log_layout;
    let is_other_build = header.layout.get() != identity.layout;
    if planted("libtp: the log of another build is dropped") && !is_earlier {
        return unusable;
    }
    match (is_earlier, is_log_known) {
        (true, true) if libtp_log::lasting_of(&region).is_lasting() || libtp_log::is_lasting_hit(&region) => {
            Ok(RegionState::Left(region, error.to_string()))
        }
        (false, true) if is_other_build => Ok(RegionState::Left(region, error.to_string())),
        (false, false) if is_other_build => Ok(RegionState::Unreadable(error.to_string())),
        _ => unusable,
    }
}

/// Returns whether opening failed for a reason outside the region: descriptors, memory, rights.
fn may_pass(error: &rio::Error) -> bool {
    let source = match error {
        rio::Error::System { source, .. } => source,
        // The region's contents may be good: only the mode of its file, or this process's limits, must be corrected.
        rio::Error::TooWide { .. } | rio::Error::Narrow { .. } => return true,
        _ => return false,
    };
    // `ErrorKind` has no kind for EMFILE and ENFILE.
    let descriptors = [rustix::io::Errno::MFILE, rustix::io::Errno::NFILE].map(rustix::io::Errno::raw_os_error);
    source.raw_os_error().is_some_and(|number| descriptors.contains(&number))
        || matches!(source.kind(), ErrorKind::OutOfMemory | ErrorKind::PermissionDenied | ErrorKind::Interrupted)
}

fn has_room(home: &Path) -> bool {
    free_bytes(home).is_some_and(|free| free >= ROOM_MIN)
}

/// Returns the number of free bytes on the filesystem of a directory.
pub(super) fn free_bytes(home: &Path) -> Option<u64> {
    rustix::fs::statvfs(home).ok().map(|stat| stat.f_bavail.saturating_mul(stat.f_frsize))
}

/// Returns whether the directory has a control file that is not empty.
pub(crate) fn has_control(directory: &dyn Directory) -> Result<bool> {
    match directory.open(CONTROL_NAME, OpenMode::ReadOnly) {
        Err(libtp_io::Error::NotFound { .. }) => Ok(false),
        file => Ok(file?.len()? > 0),
    }
}

#[cfg(test)]
mod tests {
    use rio::Identity;

    use super::{left, RegionState};
    use crate::Env;

    #[test]
    fn a_region_that_cannot_be_inspected_without_free_descriptors_or_memory_is_not_given_up() {
        let refused = |number: rustix::io::Errno| {
            let error = || {
                let source = std::io::Error::from_raw_os_error(number.raw_os_error());
                rio::Error::System { path: "region".into(), call: "mapping", source }
            };
            left(Err(error()), &Identity::default(), &error())
        };
        for number in [rustix::io::Errno::MFILE, rustix::io::Errno::NFILE, rustix::io::Errno::NOMEM] {
            assert!(refused(number).is_err(), "{number}");
        }
        assert!(matches!(refused(rustix::io::Errno::NOENT), Ok(RegionState::Unusable(_))));
    }

    #[test]
    fn a_copy_of_an_open_environment_does_not_touch_the_shared_memory_of_the_original() {
        let parent = tempfile::tempdir().unwrap();
        let (original, copy) = (parent.path().join("original"), parent.path().join("copy"));
        let first = Env::open_or_create(&original).unwrap();
        let put = |env: &Env, key: &[u8]| {
            let names = env.btree("names").unwrap();
            env.run(|txn| names.put(txn, key, b"")).unwrap();
        };
        put(&first, b"before");
        std::fs::create_dir(&copy).unwrap();
        for entry in std::fs::read_dir(&original).unwrap() {
            let entry = entry.unwrap();
            std::fs::copy(entry.path(), copy.join(entry.file_name())).unwrap();
        }
        let of_copy = Env::open_or_create(&copy).unwrap();
        put(&of_copy, b"in the copy");
        let second = Env::open_or_create(&original).unwrap();
        put(&second, b"after");
        let count = |env: &Env| {
            let names = env.btree("names").unwrap();
            env.run(|txn| {
                let mut cursor = names.cursor(txn);
                let mut count = 0;
                while cursor.next()?.is_some() {
                    count += 1;
                }
                Ok(count)
            })
        };
        assert_eq!((count(&first).unwrap(), count(&of_copy).unwrap()), (2, 2));
        drop(of_copy);
        assert_eq!(count(&second).unwrap(), 2);
    }
}

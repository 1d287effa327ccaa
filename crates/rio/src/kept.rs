//! A region that is kept: its own only truth from one run to the next, and had by one process at a time.
//!
//! An environment's region can be made again from the log, so a doubtful one is thrown away. A kept one cannot: it may be a
//! copy, it may be of another boot, and what its memory survives decides whether it is believed. Its file is complete as
//! soon as it has its name, blocks and directory entry on the disk before anything is stored in it, since they would
//! otherwise lie in ordinary memory for a while and be lost in a crash that the stores survive.
//!
//! If we die here: a file under a passing name is left, which the next thread of that number removes.

use std::fs::File;
use std::mem::offset_of;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::fs::{flock, FlockOperation};
use FlockOperation::NonBlockingLockExclusive as Exclusive;

use crate::region::{system, unusable, BYTES_MAX};
use crate::{
    failpoint, planted, Access, Anchor, Error, ForkMark, Identity, Region, RegionHeader, Result, Survives, WriteBack,
    HEADER_BYTES,
};

mod nameless;
mod shared;

pub use nameless::Nameless;

/// So long a child may have what its parent has let go, before it is another program: another thread made it while the parent
/// opened that.
const SOON: Duration = Duration::from_millis(100);
const MOMENT: Duration = Duration::from_millis(1);

/// A region that this process has and nobody else, unless all who have it share it.
pub struct Kept {
    region: Region,
    lock: Lock,
    survives: Survives,
    /// Of when it was left in good order; zero if it was not.
    pub(crate) seal: u64,
    /// Tells the process that has it from its children, which have a copy of this, and not the region.
    mark: ForkMark,
    /// Whether it says of itself that it is in use: else nothing in it was changed.
    has_begun: bool,
    /// A sync has failed as it was left: what is on the disk nobody knows, and the next sync would say nothing of it.
    could_not_leave: AtomicBool,
    /// Whether others may have it, too.
    is_shared: bool,
}

/// What has the lock: the same file, opened for it alone. The region's own mapping would keep the lock of what it maps, also in a
/// child (PROTOCOLS D9).
enum Lock {
    /// This process has it, and no child.
    Alone { _anchor: Anchor },
    /// A child has it, too, until it gives up the descriptor: of a file that several have, or on a filesystem where it cannot be
    /// otherwise.
    Open(File),
}

impl Lock {
    fn of(file: File, is_shared: bool) -> Lock {
        let is_left = planted("rio: a child keeps its parent's lock");
        if is_shared || is_left || !Anchor::holds_locks_of(&file) {
            return Lock::Open(file);
        }
        // A child that another thread makes just now still has the descriptor; most of those are soon other programs.
        match Anchor::new(&file) {
            Ok(anchor) => Lock::Alone { _anchor: anchor },
            Err(_) => Lock::Open(file),
        }
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        if let (true, Lock::Open(file)) = (self.is_ours(), &self.lock) {
            // Not left to the closing, which a child of a fork would put off. Closing it does the same, nearly always.
            let _ = flock(file, FlockOperation::Unlock);
        }
    }
}

/// What is wanted of a kept region.
#[derive(Clone, Debug)]
pub struct Keeping {
    /// What lies in it: another number is refused.
    pub layout: u64,
    /// The address space it may grow into, in bytes.
    pub reserve: u64,
    /// What the operator says its memory survives, where that is more than can be found out.
    pub declared: Option<Survives>,
    /// Whether cache lines are written back, if that is not to be found out.
    pub write_back: Option<bool>,
    /// Whether several handles may have it at once, all of which say so; who of them stores is their own business.
    pub is_shared: bool,
}

impl Keeping {
    /// Opens the region in the file at `path`; where there is none `build` makes what lies in it. Nothing is to be stored in it
    /// before [`Kept::begin`].
    ///
    /// # Errors
    /// `InUse` if another handle has it; `Torn` if it was in use when the machine went down and its memory does not survive
    /// that; as [`Region::create`] and [`Region::attach`]; what `build` returns.
    pub fn open<E: From<Error>>(
        &self,
        path: &Path,
        build: impl FnOnce(&Region) -> std::result::Result<(), E>,
    ) -> std::result::Result<Kept, E> {
        let kept = match self.take(path)? {
            Some(kept) => kept,
            None => {
                self.make(path, build)?;
                let nobody = || system(path, "opening", std::io::ErrorKind::NotFound.into());
                self.take(path)?.ok_or_else(nobody)?
            }
        };
        kept.check(self.layout)?;
        Ok(kept)
    }

    /// Takes the file for this handle, by the lock that says of any region that it is used; none if there is no such file.
    /// Nothing of it is checked.
    pub(crate) fn take(&self, path: &Path) -> Result<Option<Kept>> {
        let access =
            Access::of_directory(directory_of(path)).map_err(|source| system(path, "finding the directory", source))?;
        let locked = if self.is_shared { shared::lock(path, &access)? } else { lock_alone(path, &access)? };
        let Some(lock) = locked else { return Ok(None) };
        let file = access.open(path)?;
        if !is_same(&file, &lock).map_err(|source| system(path, "stat", source))? {
            return Err(system(path, "opening", std::io::ErrorKind::NotFound.into()));
        }
        let region = self.map(file, path)?;
        let survives = self.prepare(&region);
        let header = region.header();
        let seal = if header.clean.get() == 0 { 0 } else { header.seal.get() };
        Ok(Some(Kept {
            region,
            lock: Lock::of(lock, self.is_shared),
            survives,
            seal,
            mark: ForkMark::of_this_process(),
            has_begun: false,
            could_not_leave: AtomicBool::new(false),
            is_shared: self.is_shared,
        }))
    }

    /// Maps a region that is there: as much as it says that it may become.
    pub(crate) fn map(&self, file: File, path: &Path) -> Result<Region> {
        let mut said = [0; 8];
        // One that is too short is refused by the mapping, and what was not to be believed by the look at its sizes.
        let is_said = file.read_exact_at(&mut said, offset_of!(RegionHeader, reserve) as u64).is_ok();
        let said = Some(u64::from_ne_bytes(said)).filter(|said| is_said && (HEADER_BYTES..=BYTES_MAX).contains(said));
        Region::map(file, path, said.unwrap_or(self.reserve))
    }

    /// Has the region kept as safe as its memory is; what that survives.
    fn prepare(&self, region: &Region) -> Survives {
        let (found, is_needed) = (Survives::of(region.file()), Survives::needs_write_back(region.file()));
        let (survives, how) = self.survives(found, is_needed, WriteBack::best());
        region.set_write_back(how);
        if survives >= Survives::System || how != WriteBack::None {
            region.set_filled();
        }
        survives
    }

    /// What memory survives of which this was found, and how its cache lines are written back.
    pub(crate) fn survives(&self, found: Survives, is_needed: bool, best: Option<WriteBack>) -> (Survives, WriteBack) {
        // Without an instruction for it, what is in the cache may be lost in any crash but that of a process.
        let found = if is_needed && best.is_none() { Survives::Process } else { found };
        let declared = self.declared.unwrap_or(found);
        // Only who knows of more than was found out knows that the cache survives, too.
        let is_wanted = self.write_back.unwrap_or(is_needed && declared <= found);
        (found.max(declared), best.filter(|_| is_wanted).unwrap_or_default())
    }

    fn make<E: From<Error>>(
        &self,
        path: &Path,
        build: impl FnOnce(&Region) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        let passing = passing_name(path);
        // A thread of this number died here.
        let _ = std::fs::remove_file(&passing);
        let identity = Identity { layout: self.layout, ..Identity::default() };
        let access =
            Access::of_directory(directory_of(path)).map_err(|source| system(path, "finding the directory", source))?;
        let region = Region::create(&passing, &identity, self.reserve, &access)?;
        self.prepare(&region);
        let filled = match planted("rio: a new region's first blocks are only set aside") {
            true => Ok(()),
            false => region.fill_rest().map_err(E::from),
        };
        let made = filled.and_then(|()| build(&region)).and_then(|()| {
            region.set_ready();
            region.header().clean.publish(1);
            if !planted("rio: a new region is named before it is on its disk") {
                region.sync()?;
            }
            match std::fs::hard_link(&passing, path) {
                // Somebody else has made one: that one it is.
                Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
                    Err(system(path, "naming", error).into())
                }
                _ => Ok(()),
            }
        });
        drop(region);
        let _ = std::fs::remove_file(&passing);
        if planted("rio: a new region's name is not synced") {
            return made;
        }
        made.and_then(|()| Ok(sync_directory(path)?))
    }
}

impl Kept {
    /// The region.
    pub fn region(&self) -> &Region {
        &self.region
    }

    /// The open file that holds the lock, and nothing else, where a child of a fork would keep it.
    pub fn lock(&self) -> Option<&File> {
        match &self.lock {
            Lock::Alone { .. } => None,
            Lock::Open(file) => Some(file),
        }
    }

    fn shared_lock(&self) -> &File {
        self.lock().expect("what several have is locked by an open file")
    }

    /// What the memory survives.
    pub fn survives(&self) -> Survives {
        self.survives
    }

    /// Whether this process has it: a child of a fork has a copy of this, and not the region.
    pub fn is_ours(&self) -> bool {
        self.mark.is_current()
    }

    /// Refuses a child of the process that has it.
    ///
    /// # Errors
    /// `Forked`.
    #[inline]
    pub fn check_process(&self) -> Result<()> {
        if self.is_ours() {
            return Ok(());
        }
        Err(Error::Forked { path: self.region.path().to_path_buf(), process: self.mark.process() })
    }

    pub(crate) fn check(&self, layout: u64) -> Result<()> {
        let header = self.region.header();
        header.check_kind(layout).map_err(|what| unusable(self.region.path(), what))?;
        // Before its sizes: what a crash has torn may be longer or shorter than it says, and goes back to its checkpoint, too.
        if !header.is_of_this_boot() && header.clean.get() == 0 && self.survives < Survives::System {
            return Err(Error::Torn { path: self.region.path().to_path_buf() });
        }
        self.region.check_sizes()
    }

    /// Whether who had it before has left it in good order, with a sum of what was to be sealed.
    pub fn was_sealed(&self) -> bool {
        self.seal != 0
    }

    /// Something in it is not as it should be: no sum is to say that it is, when it is left.
    pub fn leave_unsealed(&self) {
        // Relaxed: this thread's own, or handed over with the handle.
        self.could_not_leave.store(true, Ordering::Relaxed);
    }

    /// Says that it is in use: once all of it was looked at, and before anything is stored.
    ///
    /// # Errors
    /// `System` if the disk refuses.
    pub fn begin(&mut self) -> Result<()> {
        let header = self.region.header();
        header.clean.publish(0);
        header.set_boot();
        let synced = self.sync_begun();
        header.set_doubtful(synced.is_err());
        synced?;
        self.has_begun = true;
        if self.is_shared {
            shared::let_others_in(self.shared_lock(), self.region.path())?;
        }
        Ok(())
    }

    fn sync_begun(&self) -> Result<()> {
        let is_doubtful = self.region.header().is_doubtful();
        if is_doubtful {
            // The system told that once, and holds what it could not write for written: all is stored again, so that it is written.
            self.region.touch_all()?;
        }
        if self.survives < Survives::System || is_doubtful {
            return self.region.sync();
        }
        // Memory that survives has it when it has left the cache; a file of ordinary storage, once it is written.
        self.region.sync_header()
    }

    /// Makes everything that was stored safe on the disk behind the file, if there is one, and says that it was left in
    /// good order, with these parts as they are now. One that was refused before [`Kept::begin`] stays as it was.
    ///
    /// # Errors
    /// `System` if it could not be written: what was stored is there until the machine goes down.
    pub fn leave(&self, sealed: impl FnOnce() -> Vec<(u64, u64)>) -> Result<()> {
        let has_failed = self.could_not_leave.load(Ordering::Relaxed);
        if !self.is_ours() || !self.has_begun || has_failed || (self.is_shared && !shared::is_last(self.shared_lock()))
        {
            return Ok(());
        }
        let left = self.seal_and_sync(sealed);
        if left.is_err() {
            // The system tells of a failed write once, and holds what it could not write for written then: it is left as one that
            // the machine went down with, by this handle and by whoever opens it until the machine does (`begin`).
            self.could_not_leave.store(true, Ordering::Relaxed);
            // In this order: who opens one that is doubtful has it all written again, whatever else it says of itself, and one that
            // was only not in good order he has not.
            self.region.header().set_doubtful(true);
            self.region.header().clean.publish(0);
        }
        left
    }

    fn seal_and_sync(&self, sealed: impl FnOnce() -> Vec<(u64, u64)>) -> Result<()> {
        failpoint("rio: kept region left alone, not sealed");
        // Somebody may have cut the file off: what is to be read has to be there.
        self.region.check_sizes()?;
        self.region.sync()?;
        self.region.header().seal.publish(self.region.seal_of(&sealed()));
        // The two lie in lines of their own, which get to memory in any order.
        self.region.sync_header()?;
        failpoint("rio: kept region sealed, not said so");
        self.region.header().clean.publish(1);
        self.region.sync()
    }
}

/// The directory of a file.
pub(crate) fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|it| !it.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// A name beside `path`, for what shall have that name when it is whole.
pub(crate) fn passing_name(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    // A thread's number, which is no other's, so that two of one process are not in each other's way.
    name.push(format!(".new-{}", rustix::thread::gettid().as_raw_nonzero()));
    PathBuf::from(name)
}

pub(crate) fn sync_directory(path: &Path) -> Result<()> {
    let synced = File::open(directory_of(path)).and_then(|directory| directory.sync_all());
    synced.map_err(|source| system(path, "making the name safe", source))
}

/// Whether two open files are one.
fn is_same(one: &File, other: &File) -> std::io::Result<bool> {
    let (one, other) = (one.metadata()?, other.metadata()?);
    Ok((one.dev(), one.ino()) == (other.dev(), other.ino()))
}

/// Locks the file for this handle alone, as soon as no child has it that will soon be another program.
fn lock_alone(path: &Path, access: &Access) -> Result<Option<File>> {
    let begun = Instant::now();
    loop {
        match lock(path, access, Exclusive) {
            Err(Error::InUse { .. }) if begun.elapsed() < SOON => std::thread::sleep(MOMENT),
            locked => return locked,
        }
    }
}

fn lock(path: &Path, access: &Access, how: FlockOperation) -> Result<Option<File>> {
    loop {
        match std::fs::symlink_metadata(path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(system(path, "looking for it", source)),
            Ok(_) => {}
        }
        let file = access.open(path)?;
        match flock(&file, how) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => return Err(Error::InUse { path: path.to_path_buf() }),
            Err(errno) => return Err(system(path, "locking", errno.into())),
        }
        let locked = file.metadata().map_err(|source| system(path, "stat", source))?;
        // It may have been replaced by its checkpoint while we came.
        if std::fs::symlink_metadata(path).is_ok_and(|named| (named.dev(), named.ino()) == (locked.dev(), locked.ino()))
        {
            return Ok(Some(file));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_somebody_lets_go_in_a_moment_is_waited_for_and_no_longer() {
        let path = std::env::temp_dir().join(format!("libtp-rio-{}-soon", std::process::id()));
        let access = Access::of_directory(&std::env::temp_dir()).unwrap();
        let other = File::create(&path).unwrap();
        flock(&other, Exclusive).unwrap();
        assert!(matches!(lock_alone(&path, &access), Err(Error::InUse { .. })));
        std::thread::scope(|scope| {
            scope.spawn(move || {
                std::thread::sleep(SOON / 5);
                drop(other);
            });
            assert!(lock_alone(&path, &access).unwrap().is_some(), "as a child that becomes another program");
        });
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn what_could_not_be_left_once_is_not_said_to_be_in_good_order_later() {
        let path = std::env::temp_dir().join(format!("libtp-rio-{}-left", std::process::id()));
        let keeping = Keeping { layout: 7, reserve: 1 << 20, declared: None, write_back: None, is_shared: false };
        let mut kept = keeping.open(&path, |_| Ok::<(), Error>(())).unwrap();
        kept.begin().unwrap();
        let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
        let length = file.metadata().unwrap().len();
        file.set_len(length / 4096 * 4096 - 4096).unwrap();
        kept.leave(Vec::new).unwrap_err();
        // Whatever it was that did not reach the disk: that it can be written to now does not say that it is there.
        file.set_len(length).unwrap();
        kept.leave(Vec::new).unwrap();
        assert_eq!(kept.region().header().clean.get(), 0);
        drop(kept);
        std::fs::remove_file(&path).unwrap();
    }

    /// Bytes that this process has had pages stored to for, that were as they are on the disk.
    fn dirtied() -> u64 {
        let said = std::fs::read_to_string("/proc/self/io").unwrap();
        said.lines().find_map(|line| line.strip_prefix("write_bytes: ")).unwrap().parse().unwrap()
    }

    #[test]
    fn what_could_not_be_left_is_all_written_again_before_anybody_says_that_it_is_in_good_order() {
        const BYTES: u64 = 4 << 20;
        let path = std::env::temp_dir().join(format!("libtp-rio-{}-again", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let keeping = Keeping { layout: 7, reserve: 1 << 24, declared: None, write_back: None, is_shared: false };
        let build = |region: &Region| {
            region.allocate_bytes(BYTES, 64).map(|at| {
                region
                    .undo_words(at.raw(), usize::try_from(BYTES).unwrap())
                    .iter()
                    .for_each(|word| word.store(7, Ordering::Relaxed));
            })
        };
        let mut kept = keeping.open(&path, build).unwrap();
        let before = dirtied();
        kept.begin().unwrap();
        let few = dirtied() - before;
        let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
        let length = file.metadata().unwrap().len();
        file.set_len(length - 4096).unwrap();
        kept.leave(Vec::new).unwrap_err();
        file.set_len(length).unwrap();
        drop(kept);

        // Since the machine was started nobody else has told that the disk refused.
        let mut kept = keeping.open(&path, build).unwrap();
        assert!(kept.region().header().is_doubtful(), "whoever opens it is told");
        let before = dirtied();
        kept.begin().unwrap();
        let all = dirtied() - before;
        assert!(!kept.region().header().is_doubtful());
        // A filesystem in memory counts nothing.
        assert!(few == 0 || all >= BYTES, "{all} bytes were written again, {few} before");
        println!("figures: {few} bytes stored to when it is begun, {all} when it could not be left before");
        kept.leave(Vec::new).unwrap();
        assert_eq!(kept.region().header().clean.get(), 1);
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn cache_lines_are_written_back_unless_somebody_knows_of_more_than_was_found() {
        use Survives::{Power, Process, System};
        let keeping = |declared| Keeping { layout: 0, reserve: 0, declared, write_back: None, is_shared: false };
        let (how, none) = (WriteBack::Clflush, WriteBack::None);
        // Power is found of memory that keeps its contents if they are written back.
        for less in [None, Some(Process), Some(System), Some(Power)] {
            assert_eq!(keeping(less).survives(Power, true, Some(how)), (Power, how), "{less:?}");
        }
        assert_eq!(keeping(Some(Power)).survives(System, true, Some(how)), (Power, none), "an operator knows more");
        assert_eq!(keeping(None).survives(Process, false, Some(how)), (Process, none));
        assert_eq!(keeping(None).survives(Power, true, None), (Process, none), "no instruction for it");
        assert_eq!(keeping(Some(System)).survives(Power, true, None), (System, none));
        let asked = Keeping { write_back: Some(true), ..keeping(None) };
        assert_eq!(asked.survives(Process, false, Some(how)), (Process, how));
    }
}

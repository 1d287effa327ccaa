//! A kept region: between two runs its data exist nowhere else, and only one process at a time uses it.
//!
//! An environment's region can be rebuilt from the log, so a doubtful region is discarded. A kept region cannot be
//! rebuilt. So it is accepted even if it is a copy of another file, or was made before the machine was restarted. If it
//! was in use when the machine stopped, it is opened only if its memory survives this. The region's file gets its name
//! only when the file is complete. The file's blocks and directory entry are on the disk before anything is stored in
//! the region. Otherwise blocks and entry would be only in ordinary memory for a while, and a crash that the stores
//! survive would lose them.
//!
//! If we die here: a file under a temporary name is left. The next thread with the same number removes it.

use std::fs::{File, Metadata};
use std::mem::offset_of;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::fs::{flock, FlockOperation};
use FlockOperation::NonBlockingLockExclusive as Exclusive;

use crate::error::{system, unusable};
use crate::names::{access_beside, passing_name, sync_directory};
use crate::region::use_lock::patiently;
use crate::region::BYTES_MAX;
use crate::{
    failpoint, planted, Access, Anchor, Error, ForkMark, Identity, Region, RegionHeader, Result, Survives, WriteBack,
    HEADER_BYTES,
};

mod nameless;
mod shared;

pub use nameless::Nameless;

/// The longest wait for a child that inherited its parent's lock and is about to become another program. Such a child
/// exists if another thread made it while the parent opened the region.
const EXEC_TIMEOUT: Duration = Duration::from_millis(100);
const RETRY_PAUSE: Duration = Duration::from_millis(1);

/// A region that only this handle has open, unless all its users share it ([`Keeping::is_shared`]).
pub struct Kept {
    region: Region,
    lock: Lock,
    survives: Survives,
    /// The seal of the last orderly close; zero if the last close was not orderly.
    pub(crate) seal: u64,
    /// The mark of the process that has the region. A child of that process has a copy of this value but not the
    /// region.
    mark: ForkMark,
    /// Whether the header states that the region is in use. Before the header states this, nothing in the region is
    /// changed.
    has_begun: bool,
    /// Whether the region must not be marked as left in good order: it has a fault, or a sync failed at the close.
    /// After a failed sync the content of the disk is unknown, and the next sync would not report the failure.
    could_not_leave: AtomicBool,
    /// Whether other handles may have the region too.
    is_shared: bool,
}

/// The holder of the lock: the region's file, opened a second time only for the lock. A lock of the open file that is
/// mapped would live as long as the mapping, in a child too (PROTOCOLS D9).
enum Lock {
    /// This process has the lock, and no child has it.
    Alone { _anchor: Anchor },
    /// A child has the lock too, until it closes the descriptor. Used for a shared region, or where an [`Anchor`] is
    /// not possible.
    Open(File),
}

impl Lock {
    fn of(file: File, is_shared: bool) -> Lock {
        let is_left = planted("rio: a forked child keeps its parent's lock");
        if is_shared || is_left || !Anchor::holds_locks_of(&file) {
            return Lock::Open(file);
        }
        // A child that another thread makes at this moment has the descriptor, too. Most such children soon become
        // other programs, and then the kernel closes the descriptor.
        match Anchor::new(&file) {
            Ok(anchor) => Lock::Alone { _anchor: anchor },
            Err(_) => Lock::Open(file),
        }
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        if let (true, Lock::Open(file)) = (self.is_ours(), &self.lock) {
            // A close is not enough: a child of a fork with the same descriptor would delay the unlock. If this call
            // fails, the close still unlocks the file, unless there is such a child.
            let _ = flock(file, FlockOperation::Unlock);
        }
    }
}

/// The requirements on a kept region.
#[derive(Clone, Debug)]
pub struct Keeping {
    /// The layout of the region's content: a region with another layout number is refused.
    pub layout: u64,
    /// The address space that the region may grow into, in bytes.
    pub reserve: u64,
    /// What the region's memory survives according to the operator, if that is more than can be detected.
    pub declared: Option<Survives>,
    /// Whether cache lines are written back; `None` if the library detects that.
    pub write_back: Option<bool>,
    /// Whether several handles may have the region at once. If so, all of them must set this, and they must coordinate
    /// their stores themselves.
    pub is_shared: bool,
}

impl Keeping {
    /// Opens the region in the file at `path`. If there is no file, `build` makes the content of a new one. Nothing
    /// may be stored in the region before [`Kept::begin`].
    ///
    /// # Errors
    /// `InUse` if another handle has the region. `Torn` if the region was in use when the machine stopped and its
    /// memory does not survive that. Further the errors of [`Region::create`] and [`Region::attach`], and the errors of
    /// `build`.
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

    /// Takes the file for this handle, by the lock that marks any region as used. Returns `None` if there is no such
    /// file. Checks nothing in the file.
    pub(crate) fn take(&self, path: &Path) -> Result<Option<Kept>> {
        let access = access_beside(path)?;
        let locked = if self.is_shared { shared::lock(path, &access)? } else { lock_alone(path, &access)? };
        let Some(lock) = locked else { return Ok(None) };
        let file = access.open(path)?;
        let stat = |file: &File| file.metadata().map_err(|source| system(path, "stat", source));
        if !is_same(&stat(&file)?, &stat(&lock)?) {
            return Err(system(path, "opening", std::io::ErrorKind::NotFound.into()));
        }
        let region = self.map(file, path)?;
        let survives = self.prepare(&region);
        let header = region.header();
        let seal = if header.clean.get() == 0 { 0 } else { header.seal.get() };
        let mut kept = Kept::new(region, Lock::of(lock, self.is_shared), survives);
        (kept.seal, kept.is_shared) = (seal, self.is_shared);
        Ok(Some(kept))
    }

    /// Maps an existing region, with as much address space as its header states.
    pub(crate) fn map(&self, file: File, path: &Path) -> Result<Region> {
        let mut said = [0; 8];
        // The mapping refuses a file that is too short, and `check_sizes` refuses an implausible number.
        let is_said = file.read_exact_at(&mut said, offset_of!(RegionHeader, reserve) as u64).is_ok();
        let said = Some(u64::from_ne_bytes(said)).filter(|said| is_said && (HEADER_BYTES..=BYTES_MAX).contains(said));
        Region::map(file, path, said.unwrap_or(self.reserve))
    }

    /// Chooses how stores are written back and whether blocks are filled, so that the region survives as much as its
    /// memory. Returns what the memory survives.
    fn prepare(&self, region: &Region) -> Survives {
        let (survives, how) = Survives::decide(region.file(), self.declared, self.write_back);
        region.set_write_back(how);
        if survives >= Survives::System || how != WriteBack::None {
            region.set_filled();
        }
        survives
    }

    fn make<E: From<Error>>(
        &self,
        path: &Path,
        build: impl FnOnce(&Region) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        let passing = passing_name(path);
        // A thread with the same number may have died and left this file.
        let _ = std::fs::remove_file(&passing);
        let identity = Identity { layout: self.layout, ..Identity::default() };
        let access = access_beside(path)?;
        let region = Region::create(&passing, &identity, self.reserve, &access)?;
        self.prepare(&region);
        let filled = match planted("rio: a new region's first blocks are not filled") {
            true => Ok(()),
            false => region.fill_rest().map_err(E::from),
        };
        let made = filled.and_then(|()| build(&region)).and_then(|()| {
            region.set_ready();
            region.header().clean.publish(1);
            if !planted("rio: a new region is named before it is synced") {
                region.sync()?;
            }
            match std::fs::hard_link(&passing, path) {
                // Another process has made the region. The caller uses that region.
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
    /// Makes the handle of a region without a seal. Only this process has the region.
    fn new(region: Region, lock: Lock, survives: Survives) -> Kept {
        Kept {
            region,
            lock,
            survives,
            seal: 0,
            mark: ForkMark::of_this_process(),
            has_begun: false,
            could_not_leave: AtomicBool::new(false),
            is_shared: false,
        }
    }

    /// Returns the region.
    pub fn region(&self) -> &Region {
        &self.region
    }

    /// Returns the open file that serves only to hold the lock; `None` if a child of a fork does not inherit the lock.
    pub fn lock(&self) -> Option<&File> {
        match &self.lock {
            Lock::Alone { .. } => None,
            Lock::Open(file) => Some(file),
        }
    }

    fn shared_lock(&self) -> &File {
        self.lock().expect("a region that several handles have is locked by an open file")
    }

    /// Returns what the memory survives.
    pub fn survives(&self) -> Survives {
        self.survives
    }

    /// Returns whether this process has the region. A child of a fork has a copy of this value, but not the region.
    pub fn is_ours(&self) -> bool {
        self.mark.is_current()
    }

    /// Refuses a child of the process that has the region.
    ///
    /// # Errors
    /// `Forked` in such a child.
    #[inline]
    pub fn check_process(&self) -> Result<()> {
        self.mark.refuse_child(self.region.path())
    }

    pub(crate) fn check(&self, layout: u64) -> Result<()> {
        let header = self.region.header();
        header.check_kind(layout).map_err(|what| unusable(self.region.path(), what))?;
        // Checked before the sizes: a torn region may be longer or shorter than its header states, and is to be
        // restored from its checkpoint anyway.
        if !header.is_of_this_boot() && header.clean.get() == 0 && self.survives < Survives::System {
            return Err(Error::Torn { path: self.region.path().to_path_buf() });
        }
        self.region.check_sizes()
    }

    /// Compares the parts with the seal of the last close. Does nothing if that close was not orderly.
    ///
    /// # Errors
    /// `Unusable` if the sums differ.
    pub fn check_seal(&self, parts: &[(u64, u64)]) -> Result<()> {
        self.region.check_seal(self.seal, parts)
    }

    /// Returns whether the previous user left the region in good order, with a seal.
    pub fn was_sealed(&self) -> bool {
        self.seal != 0
    }

    /// Makes the close leave no seal. Called if the region has a fault.
    pub fn leave_unsealed(&self) {
        // Relaxed: only the handle's own thread reads the flag, or a thread to which the handle was passed.
        self.could_not_leave.store(true, Ordering::Relaxed);
    }

    /// Marks the region as in use. Called after all checks of the region, and before the first store.
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
        let had_failed_sync = self.region.header().had_failed_sync();
        if had_failed_sync {
            // The system reports a failure once and then takes the unwritten pages for written. So all pages are stored
            // to again, and the next sync writes them.
            self.region.touch_all()?;
        }
        if self.survives < Survives::System || had_failed_sync {
            return self.region.sync();
        }
        // If the memory survives a crash of the system, the header is safe once it has left the cache. If the region is
        // a file of ordinary storage, the header is safe once it is written.
        self.region.sync_header()
    }

    /// Makes all stores safe on the disk behind the file, if there is one. Then marks the region as left in good order,
    /// with a seal over the parts `sealed`. A region whose [`Kept::begin`] did not succeed stays as it was.
    ///
    /// # Errors
    /// `System` if the disk refuses: the stores then stay until the machine goes down.
    pub fn leave(&self, sealed: impl FnOnce() -> Vec<(u64, u64)>) -> Result<()> {
        let has_failed = self.could_not_leave.load(Ordering::Relaxed);
        if !self.is_ours() || !self.has_begun || has_failed || (self.is_shared && !shared::is_last(self.shared_lock()))
        {
            return Ok(());
        }
        let left = self.seal_and_sync(sealed);
        if left.is_err() {
            // The system reports a failed write once and then takes the unwritten pages for written. So the region
            // stays marked as after a crash, for this handle and for later ones, until `begin` has written all of it
            // again or the machine goes down.
            self.could_not_leave.store(true, Ordering::Relaxed);
            // The order matters: the next opener of a doubtful region writes the whole region again, whatever else the
            // header states. If the header stated only that the region was not left in good order, the next opener
            // would not write it again.
            self.region.header().set_doubtful(true);
            self.region.header().clean.publish(0);
        }
        left
    }

    fn seal_and_sync(&self, sealed: impl FnOnce() -> Vec<(u64, u64)>) -> Result<()> {
        failpoint("rio: kept region unused, not sealed");
        // The seal reads the region's bytes, and another program may have truncated the file.
        self.region.check_sizes()?;
        self.region.sync()?;
        self.region.header().seal.publish(self.region.seal_of(&sealed()));
        // The seal and `clean` are in different cache lines, which are written back to memory in any order.
        self.region.sync_header()?;
        failpoint("rio: kept region sealed, not marked as sealed");
        self.region.header().clean.publish(1);
        self.region.sync()
    }
}

/// Returns whether both are the metadata of the same file.
fn is_same(one: &Metadata, other: &Metadata) -> bool {
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

/// Takes the exclusive lock on the file. If a child that is about to become another program holds the lock, waits a
/// moment for the child.
fn lock_alone(path: &Path, access: &Access) -> Result<Option<File>> {
    patiently(
        EXEC_TIMEOUT,
        RETRY_PAUSE,
        |refused| matches!(refused, Error::InUse { .. }),
        || lock(path, access, Exclusive),
    )
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
        // A restored checkpoint may have replaced the file before the lock was taken.
        if std::fs::symlink_metadata(path).is_ok_and(|named| is_same(&named, &locked)) {
            return Ok(Some(file));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lock_of_a_file_is_waited_for_only_a_moment() {
        let path = std::env::temp_dir().join(format!("libtp-rio-{}-soon", std::process::id()));
        let access = Access::of_directory(&std::env::temp_dir()).unwrap();
        let other = File::create(&path).unwrap();
        flock(&other, Exclusive).unwrap();
        assert!(matches!(lock_alone(&path, &access), Err(Error::InUse { .. })));
        std::thread::scope(|scope| {
            scope.spawn(move || {
                std::thread::sleep(EXEC_TIMEOUT / 5);
                drop(other);
            });
            assert!(
                lock_alone(&path, &access).unwrap().is_some(),
                "the lock is not waited for, though its holder drops the lock in a moment"
            );
        });
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_file_that_could_not_be_left_is_not_marked_as_left_in_good_order() {
        let path = std::env::temp_dir().join(format!("libtp-rio-{}-left", std::process::id()));
        let keeping = Keeping { layout: 7, reserve: 1 << 20, declared: None, write_back: None, is_shared: false };
        let mut kept = keeping.open(&path, |_| Ok::<(), Error>(())).unwrap();
        kept.begin().unwrap();
        let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
        let length = file.metadata().unwrap().len();
        file.set_len(length / 4096 * 4096 - 4096).unwrap();
        kept.leave(Vec::new).unwrap_err();
        // The writes succeed now, but that does not prove that the earlier, lost writes are on the disk.
        file.set_len(length).unwrap();
        kept.leave(Vec::new).unwrap();
        assert_eq!(kept.region().header().clean.get(), 0);
        drop(kept);
        std::fs::remove_file(&path).unwrap();
    }

    /// Returns the number of bytes in pages that this process has changed from clean to dirty.
    fn dirtied() -> u64 {
        let said = std::fs::read_to_string("/proc/self/io").unwrap();
        said.lines().find_map(|line| line.strip_prefix("write_bytes: ")).unwrap().parse().unwrap()
    }

    #[test]
    fn a_file_that_could_not_be_left_is_written_completely_before_it_is_marked_as_in_good_order() {
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

        // The refused write is recorded only in the header, and only until the machine is started again.
        let mut kept = keeping.open(&path, build).unwrap();
        assert!(kept.region().header().had_failed_sync(), "the next opening reports the failure");
        let before = dirtied();
        kept.begin().unwrap();
        let all = dirtied() - before;
        assert!(!kept.region().header().had_failed_sync());
        // A filesystem in memory counts no written bytes.
        assert!(few == 0 || all >= BYTES, "{all} bytes were written again, {few} before");
        println!("figures: `begin` stores to {few} bytes, and to {all} bytes after a failed `leave`");
        kept.leave(Vec::new).unwrap();
        assert_eq!(kept.region().header().clean.get(), 1);
        std::fs::remove_file(path).unwrap();
    }
}

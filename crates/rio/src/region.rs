//! A region: a file that every process maps, with a header that states its owner.
//!
//! Each process maps the file once, at the greatest length that the file may reach; the file grows by `fallocate`. Its
//! first 4096 bytes are the [`RegionHeader`]. The region hands out the memory after the header and never takes it
//! back; the managers reuse their own memory.
//!
//! If we die here: in `create`, `ready` is still zero, and the next process that opens the file discards it. In
//! `allocate`, between the growth and the store of `used`, no memory was handed out.

use std::fs::{File, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use rustix::fs::{fallocate, FallocateFlags};

use crate::error::{system, unusable};
use crate::map::HUGE_BYTES;
use crate::{failpoint, planted, Access, Bytes, Error, Mapping, Offset, Result, Shared};

mod address_space;
mod file;
mod header;
mod lasting;
mod reference;
mod remembered;
mod safe;
#[cfg(feature = "planted")]
pub mod simulated_cache;
mod trial;
mod unused;
pub(crate) mod use_lock;

use safe::Safe;

pub use header::{boot_id, Identity, RegionHeader, RootSlot, HEADER_BYTES, SIZES};
pub use lasting::Lasting;
pub use reference::{Broken, Held, HeldSlice};
pub use remembered::{Place, Remembered};
pub use unused::{remove_region, UnusedRegion};

/// The path of a region in memory without a name.
const ANONYMOUS: &str = "(memory)";
const GROW_STEP: u64 = 64 << 10;
const GROW_MAX: u64 = 16 << 20;
/// The largest size of a region: an undo log's record has 40 bits for a place.
pub(crate) const BYTES_MAX: u64 = 1 << 40;

/// One process's mapping of a region. Cloning it is cheap and shares the mapping.
#[derive(Clone)]
pub struct Region(Arc<Inner>);

struct Inner {
    /// The mapping also remembers the file's size as this process last read it, so that most dereferences need not read
    /// the shared header.
    mapping: Mapping,
    file: File,
    path: PathBuf,
    /// Bytes of address space asked for. A limit may have granted fewer.
    asked: u64,
    /// How the region is kept usable if its memory survives a system crash: how cache lines are written back, and
    /// whether the file's length and new blocks are synced.
    safe: Safe,
    /// The owner: set when the region is created, or when its owner is checked.
    identity: OnceLock<Identity>,
}

impl Region {
    /// Makes a region in a new file at `path`, for the users in `access`.
    ///
    /// # Errors
    /// `System` if the file exists or cannot be made, `Full` if there is no room for the header.
    pub fn create(path: &Path, identity: &Identity, reserve: u64, access: &Access) -> Result<Region> {
        let file = access.create(path)?;
        use_lock::lock_shared(&file).map_err(|source| system(path, "stat", source))?;
        let made = Region::build(file, path, identity, reserve);
        if made.is_err() {
            // No process can be attached yet. If the file cannot be removed, the next process that opens it discards
            // it.
            let _ = std::fs::remove_file(path);
        }
        made
    }

    /// Makes a region in memory without a name: for tests, and for simulated processes. Use [`Region::map_again`] or
    /// a clone to share it.
    ///
    /// # Errors
    /// `System` if the kernel gives no memory file, `Full` if there is no room for the header.
    pub fn anonymous(reserve: u64) -> Result<Region> {
        Region::anonymous_as(&Identity::default(), reserve)
    }

    /// As [`Region::anonymous`], made for `identity`.
    ///
    /// # Errors
    /// As [`Region::anonymous`].
    pub fn anonymous_as(identity: &Identity, reserve: u64) -> Result<Region> {
        let path = Path::new(ANONYMOUS);
        let fd = rustix::fs::memfd_create("libtp", rustix::fs::MemfdFlags::CLOEXEC)
            .map_err(|source| system(path, "creation", source.into()))?;
        let file = crate::above_standard(File::from(fd)).map_err(|source| system(path, "creation", source))?;
        Region::build(file, path, identity, reserve)
    }

    /// Opens the region at `path` and checks that a user in `access` made it, that no other user may write it, that
    /// it is whole, and that it belongs to `identity` and this boot.
    ///
    /// # Errors
    /// `System` if the file cannot be opened or mapped; `Narrow` if this process can map less than the other processes;
    /// `Planted`; `TooWide`; `Unusable` with the check that failed; `Broken`.
    pub fn attach(path: &Path, identity: &Identity, reserve: u64, access: &Access) -> Result<Region> {
        let region = Region::attach_broken(path, identity, reserve, access)?;
        region.check_whole()?;
        Ok(region)
    }

    /// As [`Region::attach`], but accepts a region that is marked broken: to save the good data in it.
    ///
    /// # Errors
    /// As [`Region::attach`], but not `Broken`.
    pub fn attach_broken(path: &Path, identity: &Identity, reserve: u64, access: &Access) -> Result<Region> {
        let region = Region::open(path, reserve, access)?;
        region.check(identity)?;
        Ok(region)
    }

    /// As [`Region::attach_broken`], for the region of any environment. Used to inspect a region before it is
    /// abandoned.
    ///
    /// # Errors
    /// As [`Region::attach`], but not `Broken`.
    pub fn attach_any(path: &Path, layout: u64, reserve: u64, access: &Access) -> Result<Region> {
        let region = Region::open(path, reserve, access)?;
        region.check_maker(layout)?;
        Ok(region)
    }

    fn open(path: &Path, reserve: u64, access: &Access) -> Result<Region> {
        loop {
            let file = access.open(path)?;
            if use_lock::lock_shared(&file).map_err(|source| system(path, "stat", source))? {
                return Region::map(file, path, reserve);
            }
            // The file was removed before this process had its lock. The name may lead to another file now.
        }
    }

    /// Returns whether no other process is attached, judging by the locks on the file. A child that an attached process
    /// has forked may still hold such a lock.
    pub fn is_alone(&self) -> bool {
        use_lock::is_alone(&self.0.file)
    }

    /// Returns whether the region's file was removed, so that no other process can open it. Always false for a region
    /// made without a name.
    pub fn has_lost_name(&self) -> bool {
        self.0.path != Path::new(ANONYMOUS) && matches!(use_lock::has_name(&self.0.file), Ok(false))
    }

    /// Sets whether core dumps contain the region's memory. By default they do not. Ignores a refusal of the kernel.
    pub fn set_dumped(&self, is_dumped: bool) {
        let _ = self.0.mapping.set_dumped(is_dumped);
    }

    /// Maps the same file again, at another address.
    ///
    /// # Errors
    /// `System` if the kernel refuses.
    pub fn map_again(&self) -> Result<Region> {
        let file = self.0.file.try_clone().map_err(|source| system(&self.0.path, "opening", source))?;
        Region::map(file, &self.0.path, self.0.mapping.bytes() as u64)
    }

    /// Returns the region's file.
    pub(crate) fn file(&self) -> &File {
        &self.0.file
    }

    fn metadata(&self) -> Result<Metadata> {
        self.0.file.metadata().map_err(|source| system(&self.0.path, "stat", source))
    }

    /// Makes another mapping of the file, of the same length.
    pub(crate) fn map_file(&self, address: Option<usize>) -> Result<Mapping> {
        let bytes = self.0.mapping.bytes();
        let made = match address {
            Some(address) => Mapping::at(&self.0.file, bytes, address),
            None => Mapping::new(&self.0.file, bytes),
        };
        made.map_err(|source| system(&self.0.path, "mapping", source))
    }

    /// As [`Region::map_again`], with the checks of [`Region::attach`].
    ///
    /// # Errors
    /// As [`Region::attach`].
    pub fn attach_again(&self, identity: &Identity) -> Result<Region> {
        let region = self.map_again()?;
        region.check(identity)?;
        region.check_whole()?;
        Ok(region)
    }

    fn check_whole(&self) -> Result<()> {
        if self.is_broken() {
            return Err(Error::Broken { path: self.0.path.clone() });
        }
        Ok(())
    }

    pub(crate) fn build(file: File, path: &Path, identity: &Identity, reserve: u64) -> Result<Region> {
        extend(&file, path, 0, GROW_STEP)?;
        let region = Region::map(file, path, reserve)?;
        let own = region.metadata()?;
        region.header().fill(identity, own.ino(), GROW_STEP, region.0.mapping.bytes() as u64);
        region.remember(identity);
        Ok(region)
    }

    pub(crate) fn map(file: File, path: &Path, reserve: u64) -> Result<Region> {
        let size = file.metadata().map_err(|source| system(path, "stat", source))?.len();
        if size < HEADER_BYTES {
            return Err(unusable(
                path,
                format!(
                    "it has {size} bytes, and its header alone has {HEADER_BYTES}; restore a segment from a checkpoint"
                ),
            ));
        }
        let wanted = usize::try_from(reserve.min(BYTES_MAX).max(size))
            .map_err(|_| unusable(path, "it is larger than the address space of this process".into()))?;
        if size > BYTES_MAX {
            return Err(unusable(path, format!("it has {size} bytes, and such a file has at most {BYTES_MAX}")));
        }
        let mapping = address_space::reserve(&file, wanted, size).map_err(|source| system(path, "mapping", source))?;
        let asked = (wanted as u64).max(mapping.bytes() as u64);
        mapping.forbid_unseen().map_err(|source| system(path, "mapping", source))?;
        mapping.allow(usize::try_from(size).unwrap_or(usize::MAX));
        // A core dump with a region could be as large as the machine's memory, and would show the records' contents.
        if !planted("rio: shared memory is in core dumps") {
            let _ = mapping.set_dumped(false);
        }
        let (path, identity, safe) = (path.to_path_buf(), OnceLock::new(), Safe::default());
        let inner = Inner { mapping, asked, file, path, identity, safe };
        Ok(Region(Arc::new(inner)))
    }

    fn remember(&self, identity: &Identity) {
        // A region has one identity for life, so a second one is ignored.
        let _ = self.0.identity.set(*identity);
    }

    fn check(&self, identity: &Identity) -> Result<()> {
        self.check_maker(identity.layout)?;
        self.header().check_owner(identity).map_err(|what| unusable(&self.0.path, what))?;
        self.remember(identity);
        Ok(())
    }

    /// Checks that this build made the region, in this file and since the machine was started. Also checks the header's
    /// sizes.
    fn check_maker(&self, layout: u64) -> Result<()> {
        let own = self.metadata()?;
        self.header().check_maker(layout, own.ino()).map_err(|what| unusable(&self.0.path, what))?;
        self.check_sizes()
    }

    pub(crate) fn check_sizes(&self) -> Result<()> {
        let refuse = |what: String| Err(unusable(&self.0.path, what));
        let header = self.header();
        if header.ready.load() == 0 {
            return refuse("the file was not made completely".into());
        }
        // The order matters, since other processes may make the region grow meanwhile: each value is at least as large
        // as the value read before it.
        let used = header.used.load();
        let size = header.size.load();
        let file = self.metadata()?.len();
        if size > file || used > size || used < HEADER_BYTES {
            return refuse(format!(
                "its sizes contradict each other: {used} bytes used of {size}, in a file of {file}"
            ));
        }
        self.check_reserve(size)
    }

    /// Checks that this process has mapped as much as the other processes. Otherwise this process would refuse valid
    /// places beyond its mapping.
    fn check_reserve(&self, size: u64) -> Result<()> {
        let (reserve, mapped) = (self.header().reserve.get(), self.0.mapping.bytes() as u64);
        let refuse = |what: String| Err(unusable(&self.0.path, what));
        if reserve < size {
            return refuse(format!("it has {size} bytes, and its header allows at most {reserve}"));
        }
        if reserve > self.0.asked {
            let asked = self.0.asked;
            return refuse(format!("its header allows {reserve} bytes, and this process expects at most {asked}"));
        }
        if mapped < reserve && !planted("rio: a region is mapped only partly") {
            return Err(Error::Narrow { path: self.0.path.clone(), reserve, mapped });
        }
        Ok(())
    }

    /// Marks the region broken, permanently: it must be rebuilt. From now on no process can attach, and every attached
    /// process leaves when it next reads the mark.
    pub fn mark_broken(&self) {
        self.header().panic.publish(1);
    }

    /// Unmaps the address space that the region has not grown into. Called for a region that is abandoned, because
    /// under a limit (`RLIMIT_AS`) the next region needs the address space. If the region grows anyway, this
    /// mapping does not show the new part.
    pub fn give_up_growth(&self) {
        // All of the file stays accessible, also the parts not yet read: the log in it is still needed.
        if let Ok(metadata) = self.0.file.metadata() {
            self.0.mapping.allow(usize::try_from(metadata.len()).unwrap_or(usize::MAX));
            // If the kernel refuses, the next region has less address space and reports the lack.
            let _ = self.0.mapping.cut();
        }
    }

    /// Returns whether the region is marked broken.
    #[inline]
    pub fn is_broken(&self) -> bool {
        self.header().panic.load() != 0
    }

    /// Declares the region complete: from now on other processes may attach.
    pub fn set_ready(&self) {
        self.header().ready.publish(1);
    }

    /// Returns the header.
    #[inline]
    pub fn header(&self) -> &RegionHeader {
        self.header_at_base()
    }

    /// Returns the path of the region's file.
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// Returns the region's size in bytes.
    pub fn size(&self) -> u64 {
        self.header().size.load()
    }

    /// Returns the bytes handed out.
    pub fn used(&self) -> u64 {
        self.header().used.load()
    }

    /// Returns the bytes of address space that this process has mapped. The region grows at most to this size.
    pub fn reserved(&self) -> u64 {
        self.0.mapping.bytes() as u64
    }

    /// Returns whether the region's file has memory up to `end`, whatever size the header states now.
    pub fn reaches(&self, end: u64) -> bool {
        self.place(0, usize::try_from(end).unwrap_or(usize::MAX), 1).is_some()
    }

    /// Returns the number of bytes of the file that have blocks.
    ///
    /// # Errors
    /// `System` if the file's metadata cannot be read.
    pub fn allocated_bytes(&self) -> Result<u64> {
        let metadata = self.metadata()?;
        Ok(metadata.blocks() * 512)
    }

    /// Returns the place of a manager's header, if it was set.
    pub fn root<T: Shared>(&self, slot: RootSlot) -> Option<Offset<T>> {
        self.header().roots[slot as usize].load().map(Offset::cast)
    }

    /// Sets the place of a manager's header.
    pub fn set_root<T: Shared>(&self, slot: RootSlot, offset: Offset<T>) {
        self.header().roots[slot as usize].publish(Some(offset.cast()));
    }

    /// Hands out zeroed room for `count` values of `T`, aligned to 64 bytes, and grows the file if needed.
    ///
    /// # Errors
    /// `Full` if the filesystem is full, `Reserve` if the address range is used up. Nothing was changed.
    pub fn allocate<T: Shared>(&self, count: u64) -> Result<Offset<T>> {
        let bytes = count.checked_mul(size_of::<T>() as u64).ok_or_else(|| self.reserve_error())?;
        Ok(self.allocate_bytes(bytes, 64)?.cast())
    }

    /// Hands out zeroed bytes at a multiple of `align`, a power of two.
    ///
    /// # Errors
    /// As [`Region::allocate`].
    pub fn allocate_bytes(&self, bytes: u64, align: u64) -> Result<Offset<Bytes>> {
        let header = self.header();
        loop {
            let used = header.used.load();
            let start = used.next_multiple_of(align.max(8));
            let end = start.checked_add(bytes).ok_or_else(|| self.reserve_error())?;
            let size = header.size.load();
            if end > size {
                self.grow(size, end)?;
                continue;
            }
            // This is the last store of the change. Other threads read the word without a latch, so the store is never
            // rolled back (PROTOCOLS D2).
            if header.used.compare_exchange(used, end).is_ok() {
                failpoint("rio: memory allocated, not used");
                // Links to the new memory are stored after this.
                if !planted("rio: a link precedes the write-back of the allocation") {
                    self.write_back_and_fence(SIZES);
                }
                return Ok(Offset::from_raw(start).expect("the header is before it"));
            }
        }
    }

    /// Checks that the address space has room for `bytes` more. For callers whose next steps are useless without these
    /// bytes.
    ///
    /// # Errors
    /// `Reserve` if there is no such room.
    pub fn check_room(&self, bytes: u64) -> Result<()> {
        let is_there = self.used().checked_add(bytes).is_some_and(|end| end <= self.reserve());
        is_there.then_some(()).ok_or_else(|| self.reserve_error())
    }

    /// Extends the file, normally to at least `end` bytes. If another thread has extended the file first, the file may
    /// still be shorter, so the caller checks the size again. Several processes may do this at once: extending is
    /// idempotent.
    fn grow(&self, size: u64, end: u64) -> Result<()> {
        let _alone = self.0.safe.alone();
        if self.size() > size {
            // Another thread has extended the file first.
            return Ok(());
        }
        let step = (size / 8).clamp(GROW_STEP, GROW_MAX);
        let reserve = self.reserve();
        if end > reserve {
            return Err(self.reserve_error());
        }
        let mut target = (end.max(size + step)).next_multiple_of(GROW_STEP).min(reserve);
        if let Err(error) = self.make_blocks(size, target) {
            if !matches!(error, Error::Full { .. }) {
                return Err(error);
            }
            // A filesystem without room for a whole step may still have room up to `end`.
            target = end.next_multiple_of(4096).min(reserve);
            self.make_blocks(size, target)?;
        }
        failpoint("rio: file larger, size not published");
        self.header().size.fetch_max(target);
        self.write_back_and_fence(SIZES);
        failpoint("rio: region larger");
        Ok(())
    }

    /// Moves the next part of the region into huge pages, in all processes' mappings: at most 8 MiB from `from` on, and
    /// only memory that is handed out. `from` is zero or the result of the previous call. Returns the end of the moved
    /// part, or `None` if huge pages are impossible here.
    ///
    /// Accesses to the region's pages are random, and without huge pages most of them begin with a walk through the
    /// processor's page tables. A move costs one copy of the bytes. One call moves several huge pages: in each call,
    /// the kernel first runs a task on every processor and waits for all of these tasks. On busy processors this wait
    /// takes ten times as long as the rest of the call.
    pub fn use_huge_pages(&self, from: u64) -> Option<u64> {
        const HUGE: u64 = HUGE_BYTES as u64;
        let to = (self.used() / HUGE * HUGE).min(from + 4 * HUGE);
        if to <= from {
            return Some(from);
        }
        if to > self.0.mapping.bytes() as u64 {
            return None;
        }
        let bytes = usize::try_from(to - from).ok()?;
        match self.0.mapping.use_huge_pages(usize::try_from(from).ok()?, bytes) {
            Ok(()) => Some(to),
            Err(error) if error.kind() == std::io::ErrorKind::InvalidInput => None,
            // No memory for a huge page is free, or another user of the pages is in the way. This part stays as it is.
            Err(_) => Some(to),
        }
    }

    fn reserve_error(&self) -> Error {
        Error::Reserve { path: self.0.path.clone(), reserve: self.reserve() }
    }

    /// Returns the greatest size that the region may have: every process has mapped that much.
    fn reserve(&self) -> u64 {
        // Never more than this mapping has, even if a wild store has changed the header.
        self.header().reserve.get().min(self.0.mapping.bytes() as u64)
    }

    /// Returns the address of `bytes` at `offset`, if they are inside the region and aligned.
    #[inline]
    pub(crate) fn place(&self, offset: u64, bytes: usize, align: usize) -> Option<*mut u8> {
        let inner = &*self.0;
        let end = offset.checked_add(bytes as u64)?;
        // The size only grows, so an old value is at worst too small. If it is too small, the header decides.
        if end > inner.mapping.accessible() as u64 && !self.size_reaches(end) {
            return None;
        }
        // A mapping begins at a page, so an aligned offset is an aligned address.
        let offset = usize::try_from(offset).ok()?;
        (offset % align == 0).then(|| inner.mapping.base().as_ptr().wrapping_add(offset))
    }

    #[cold]
    fn size_reaches(&self, end: u64) -> bool {
        // The file's own length is read too, once each time the file has grown. An access after the file's end raises
        // a signal, and a wild store may have changed the header's size.
        let file = self.0.file.metadata().map_or(0, |metadata| metadata.len());
        let size = self.header().size.load().min(file);
        end <= self.0.mapping.allow(usize::try_from(size).unwrap_or(usize::MAX)) as u64
    }

    /// Checks the header while other processes work: the sizes, the maker and the owner.
    ///
    /// # Errors
    /// The fault, as half a sentence.
    pub fn check_header(&self) -> std::result::Result<(), String> {
        // The order matters: each value is at least as large as the value read before it.
        let used = self.used();
        let size = self.size();
        let Ok(metadata) = self.0.file.metadata() else { return Ok(()) };
        let file = metadata.len();
        if used < HEADER_BYTES || used > size || size > file {
            return Err(format!("the region says that {used} of its {size} bytes are used, and its file has {file}"));
        }
        let (reserve, mapped) = (self.header().reserve.get(), self.0.mapping.bytes() as u64);
        if size > reserve {
            return Err(format!("the region says that it has {size} bytes, and that it may have at most {reserve}"));
        }
        if reserve > mapped {
            return Err(format!("the region says that it may have {reserve} bytes, of which {mapped} are mapped here"));
        }
        let Some(identity) = self.0.identity.get() else { return Ok(()) };
        self.header().check_maker(identity.layout, metadata.ino())?;
        self.header().check_owner(identity)
    }

    /// Returns the offset of a value in this mapping.
    ///
    /// # Panics
    /// If the value is not in this mapping.
    #[inline]
    pub fn offset_of<T: Shared>(&self, thing: &T) -> Offset<T> {
        let offset = self.offset_of_address(std::ptr::from_ref(thing).addr());
        Offset::from_raw(offset).expect("only the header is at zero")
    }

    #[inline]
    pub(crate) fn offset_of_address(&self, address: usize) -> u64 {
        let offset = address.wrapping_sub(self.0.mapping.base().as_ptr().addr());
        assert!(offset < self.0.mapping.bytes(), "a section changes words of its own region only");
        offset as u64
    }
}

impl std::fmt::Debug for Region {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Region({})", self.0.path.display())
    }
}

pub(crate) fn extend(file: &File, path: &Path, from: u64, to: u64) -> Result<()> {
    let bytes = to - from;
    // If a signal interrupts the call, tmpfs frees the blocks that it has allocated and returns `EINTR`.
    match rustix::io::retry_on_intr(|| fallocate(file, FallocateFlags::empty(), from, bytes)) {
        Ok(()) => Ok(()),
        Err(rustix::io::Errno::NOSPC | rustix::io::Errno::DQUOT) => {
            Err(Error::Full { path: path.to_path_buf(), bytes })
        }
        Err(errno) => Err(system(path, "growing", errno.into())),
    }
}

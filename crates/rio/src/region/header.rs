//! A region's header: the region's maker, its owner, and the places of the managers' headers.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::{Link, Word};

/// Bytes of the header, and the first offset that is handed out.
pub const HEADER_BYTES: u64 = 4096;
const MAGIC: u64 = u64::from_le_bytes(*b"libtprio");
const VERSION: u64 = 1;

crate::shared! {
    /// The first bytes of a region. Times and numbers of files are as `stat` gives them.
    pub struct RegionHeader {
        /// "libtprio".
        pub magic: Word<u64>,
        /// Version of this header.
        pub version: Word<u64>,
        /// Hash of every shared type of the build that made the region.
        pub layout: Word<u64>,
        /// Non-zero once the region is complete.
        pub ready: Word<u64>,
        /// The machine's boot id when the region was made.
        pub boot: [Word<u64>; 2],
        /// The environment that the region belongs to.
        pub environment: [Word<u64>; 2],
        /// The log's incarnation for which the region was made (PROTOCOLS L1).
        pub incarnation: Word<u64>,
        /// Inode of the environment's control file (PROTOCOLS F1).
        pub control_inode: Word<u64>,
        /// Birth time of the control file, nanoseconds.
        pub control_birth: Word<u64>,
        /// Inode of this region's own file.
        pub own_inode: Word<u64>,
        /// Bytes of the file; stored after `fallocate` succeeded.
        pub size: Word<u64>,
        /// First byte not handed out.
        pub used: Word<u64>,
        /// Non-zero once the region was found broken and must be rebuilt. Written once, read without a latch.
        pub panic: Word<u64>,
        /// Non-zero if the last process left in good order.
        pub clean: Word<u64>,
        /// The place of each manager's header.
        pub roots: [Link<Word<u64>>; 16],
        /// Device number of the filesystem of the control file.
        pub control_device: Word<u64>,
        /// Bytes of the path below; zero: not known, or being changed.
        pub directory_bytes: Word<u64>,
        /// The path of the environment's directory at the last attach.
        pub directory: [Word<u64>; 448],
        /// Checksum of a kept region's tables, made when the last user left the region in good order; 0 if the last
        /// user did not.
        pub seal: Word<u64>,
        /// Bytes of address space that every process has mapped: the greatest size of the region.
        pub reserve: Word<u64>,
        /// Hash of the layouts that a build must share in order to read the log from this region. A build that only
        /// takes the log out of the region may differ in all other layouts.
        pub log_layout: Word<u64>,
        /// The first word is non-zero if a sync of a kept region has failed and no sync of all of it has succeeded
        /// since. The rest is zero, kept for later.
        pub spare: [Word<u64>; 27],
    } size 4096
}

/// The owner of a region; checked when the region is opened (PROTOCOLS F1, L6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Identity {
    /// Hash of every shared type of this build.
    pub layout: u64,
    /// Hash of the layouts that are read to take only the log out of a region.
    pub log_layout: u64,
    /// The environment's id.
    pub environment: [u64; 2],
    /// The log's incarnation.
    pub incarnation: u64,
    /// Inode of the control file.
    pub control_inode: u64,
    /// Birth time of the control file, nanoseconds.
    pub control_birth: u64,
    /// Device number of the control file's filesystem. Not checked: the same file can have different device numbers
    /// under different mounts.
    pub control_device: u64,
}

/// The header's places for the managers' own headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum RootSlot {
    /// Process manager.
    Process = 0,
    /// Log manager.
    Log = 1,
    /// Lock manager.
    Lock = 2,
    /// Buffer manager.
    Buffer = 3,
    /// Transaction manager.
    Txn = 4,
    /// The table of database files.
    Files = 5,
    /// The environment itself.
    Environment = 6,
    /// The party that decides about unfinished transactions, if that is not the region's own library.
    Owner = 7,
    /// Tests, and applications with structures of their own.
    Spare = 15,
}

/// Place and length of the header's `size` and `used`.
pub const SIZES: (u64, u64) = (std::mem::offset_of!(RegionHeader, size) as u64, 16);

impl RegionHeader {
    /// Fills the header of a new region in a file with that inode. The region's creation is not finished yet.
    pub(super) fn fill(&self, identity: &Identity, own_inode: u64, size: u64, reserve: u64) {
        self.magic.init(MAGIC);
        self.version.init(VERSION);
        self.layout.init(identity.layout);
        self.log_layout.init(identity.log_layout);
        init_pair(&self.boot, boot_id());
        init_pair(&self.environment, identity.environment);
        self.incarnation.init(identity.incarnation);
        self.control_inode.init(identity.control_inode);
        self.control_birth.init(identity.control_birth);
        self.control_device.init(identity.control_device);
        self.own_inode.init(own_inode);
        self.size.init(size);
        self.reserve.init(reserve);
        self.used.init(HEADER_BYTES);
    }

    /// Checks that this is a region of that layout. The error is half a sentence.
    pub(crate) fn check_kind(&self, layout: u64) -> Result<(), String> {
        same(&[
            ("magic", self.magic.get(), MAGIC),
            ("header version", self.version.get(), VERSION),
            ("layout hash (another program or another version of the library made it)", self.layout.get(), layout),
        ])
    }

    /// Returns whether the region was made, or last taken into use, since the machine was started.
    pub(crate) fn is_of_this_boot(&self) -> bool {
        let now = boot_id();
        [self.boot[0].get(), self.boot[1].get()] == now && now != [0; 2]
    }

    /// Records that the region is in use since this start of the machine.
    pub(crate) fn set_boot(&self) {
        init_pair(&self.boot, boot_id());
    }

    /// Returns whether a sync of the region has failed and no sync of all of it has succeeded since.
    pub(crate) fn had_failed_sync(&self) -> bool {
        self.spare[0].get() != 0
    }

    /// Records whether a sync of the region has failed.
    pub(crate) fn set_doubtful(&self, had_failed_sync: bool) {
        // Only a change is stored: for most regions the value never changes.
        if had_failed_sync != self.had_failed_sync() {
            self.spare[0].publish(u64::from(had_failed_sync));
        }
    }

    /// Checks that this build made the region, in the file with that inode, since the machine was started. The error
    /// is half a sentence.
    pub(super) fn check_maker(&self, layout: u64, own_inode: u64) -> Result<(), String> {
        self.check_file(own_inode)?;
        same(&[("layout hash (another build of the library made it)", self.layout.get(), layout)])?;
        let boot = [self.boot[0].get(), self.boot[1].get()];
        if boot_id() == [0; 2] {
            return Err("/proc does not show when the machine was started; mount /proc".into());
        }
        if boot != boot_id() {
            return Err("the machine was started again since the file was made".into());
        }
        Ok(())
    }

    /// Checks that the region was made in the file with that inode, by any build and at any time. The error is half a
    /// sentence.
    pub(super) fn check_file(&self, own_inode: u64) -> Result<(), String> {
        same(&[
            ("magic", self.magic.get(), MAGIC),
            ("header version", self.version.get(), VERSION),
            ("own inode (it is a copy)", self.own_inode.get(), own_inode),
        ])
    }

    /// Checks that the region was made for this environment and this incarnation of its log. The error is half a
    /// sentence.
    pub(super) fn check_owner(&self, identity: &Identity) -> Result<(), String> {
        same(&[
            ("environment id", self.environment[0].get(), identity.environment[0]),
            ("environment id", self.environment[1].get(), identity.environment[1]),
            ("log incarnation", self.incarnation.get(), identity.incarnation),
            ("control file's inode", self.control_inode.get(), identity.control_inode),
            ("control file's birth time", self.control_birth.get(), identity.control_birth),
        ])
    }

    /// Returns the path of the environment's directory at the last attach, if it is known.
    pub fn directory(&self) -> Option<PathBuf> {
        let length = usize::try_from(self.directory_bytes.load()).ok().filter(|length| *length > 0)?;
        let bytes: Vec<u8> = self.directory.iter().flat_map(|word| word.get().to_le_bytes()).collect();
        Some(PathBuf::from(OsStr::from_bytes(bytes.get(..length)?)))
    }

    /// Stores the path of the environment's directory; ignores a path that is too long. One process at a time does
    /// this.
    ///
    /// If we die here: the path is not known until the next process attaches.
    pub fn set_directory(&self, path: &Path) {
        if self.directory().as_deref() == Some(path) {
            return;
        }
        let bytes = path.as_os_str().as_bytes();
        self.directory_bytes.publish(0);
        if bytes.len() > self.directory.len() * 8 {
            return;
        }
        for (word, piece) in self.directory.iter().zip(bytes.chunks(8)) {
            let mut whole = [0; 8];
            whole[..piece.len()].copy_from_slice(piece);
            word.publish(u64::from_le_bytes(whole));
        }
        self.directory_bytes.publish(bytes.len() as u64);
    }
}

fn same(words: &[(&str, u64, u64)]) -> Result<(), String> {
    match words.iter().find(|(_, found, expected)| found != expected) {
        Some(("magic", ..)) => Err("it does not begin like a file of recoverable memory; check the path".into()),
        Some((what, found, expected)) => Err(format!("its {what} is {found:#x}, expected {expected:#x}")),
        None => Ok(()),
    }
}

fn init_pair(words: &[Word<u64>; 2], values: [u64; 2]) {
    words[0].init(values[0]);
    words[1].init(values[1]);
}

/// Returns the random number of this start of the machine (the kernel's boot id), or zeros if it cannot be read.
pub fn boot_id() -> [u64; 2] {
    // The number is kept: a process that has run out of descriptors still knows it.
    static KNOWN: OnceLock<[u64; 2]> = OnceLock::new();
    if let Some(known) = KNOWN.get() {
        return *known;
    }
    let read = read_boot_id();
    if read == [0; 2] {
        return read;
    }
    *KNOWN.get_or_init(|| read)
}

fn read_boot_id() -> [u64; 2] {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let digits: String = text.chars().filter(char::is_ascii_hexdigit).collect();
    let half = |range: std::ops::Range<usize>| {
        digits.get(range).and_then(|half| u64::from_str_radix(half, 16).ok()).unwrap_or(0)
    };
    [half(0..16), half(16..32)]
}

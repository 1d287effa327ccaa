//! What a region says of itself: who made it, for whom, and where its managers' headers lie.

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
        /// The machine's boot id when it was made.
        pub boot: [Word<u64>; 2],
        /// The environment it belongs to.
        pub environment: [Word<u64>; 2],
        /// The log's incarnation it was made for (PROTOCOLS L1).
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
        /// Where each manager's header lies.
        pub roots: [Link<Word<u64>>; 16],
        /// Device number of the filesystem of the control file.
        pub control_device: Word<u64>,
        /// Bytes of the path below; zero: not known, or being changed.
        pub directory_bytes: Word<u64>,
        /// Where the environment's directory was when somebody last attached.
        pub directory: [Word<u64>; 448],
        /// Checksum of what a library keeps in a kept region, of when it was left in good order; 0: there is none.
        pub seal: Word<u64>,
        /// Bytes of address space that everybody has mapped, and so as much as it may ever become.
        pub reserve: Word<u64>,
        /// Hash of what another build has to know alike to take the log out of this region, and no more than that.
        pub log_layout: Word<u64>,
        /// The first: non-zero if a sync of a kept region has failed, and none was done since of all that it has. Zero, kept for
        /// later.
        pub spare: [Word<u64>; 27],
    } size 4096
}

/// Whose region this is; checked when one is opened (PROTOCOLS F1, L6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Identity {
    /// Hash of every shared type of this build.
    pub layout: u64,
    /// Hash of what is looked at in a region of which the log alone is taken.
    pub log_layout: u64,
    /// The environment's id.
    pub environment: [u64; 2],
    /// The log's incarnation.
    pub incarnation: u64,
    /// Inode of the control file.
    pub control_inode: u64,
    /// Birth time of the control file, nanoseconds.
    pub control_birth: u64,
    /// Device number of its filesystem. Not checked: the same file can have several, seen through several mounts.
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
    /// Who decides what becomes of what is unfinished, where that is somebody else's.
    Owner = 7,
    /// Tests, and applications with structures of their own.
    Spare = 15,
}

/// Where a region says how long it is and how much is handed out, and how many bytes that takes.
pub const SIZES: (u64, u64) = (std::mem::offset_of!(RegionHeader, size) as u64, 16);

impl RegionHeader {
    /// Of a new region in a file with that inode, whose creation is not finished.
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

    /// Half a sentence, if it is no region, or one in which something else lies.
    pub(crate) fn check_kind(&self, layout: u64) -> Result<(), String> {
        same(&[
            ("magic", self.magic.get(), MAGIC),
            ("header version", self.version.get(), VERSION),
            ("layout (something else, or another version, made it)", self.layout.get(), layout),
        ])
    }

    /// Whether it was made, or last begun to be used, since the machine was started.
    pub(crate) fn is_of_this_boot(&self) -> bool {
        let now = boot_id();
        [self.boot[0].get(), self.boot[1].get()] == now && now != [0; 2]
    }

    /// Says that it is used since the machine was started.
    pub(crate) fn set_boot(&self) {
        init_pair(&self.boot, boot_id());
    }

    /// Whether a sync of it has failed, and nobody has had all of it written since.
    pub(crate) fn is_doubtful(&self) -> bool {
        self.spare[0].get() != 0
    }

    /// Says whether a sync of it has failed.
    pub(crate) fn set_doubtful(&self, is_doubtful: bool) {
        // Most have nothing to say, and then nothing is stored.
        if is_doubtful != self.is_doubtful() {
            self.spare[0].publish(u64::from(is_doubtful));
        }
    }

    /// Half a sentence, if it was not made by this build, in the file with that inode, since the machine was started.
    pub(super) fn check_maker(&self, layout: u64, own_inode: u64) -> Result<(), String> {
        self.check_file(own_inode)?;
        same(&[("layout hash (another build of the library made it)", self.layout.get(), layout)])?;
        let boot = [self.boot[0].get(), self.boot[1].get()];
        if boot_id() == [0; 2] {
            return Err("/proc does not say which start of the machine this is".into());
        }
        if boot != boot_id() {
            return Err("the machine was started again since it was made".into());
        }
        Ok(())
    }

    /// Half a sentence, if it was not made in the file with that inode, by whatever build and whenever that was.
    pub(super) fn check_file(&self, own_inode: u64) -> Result<(), String> {
        same(&[
            ("magic", self.magic.get(), MAGIC),
            ("header version", self.version.get(), VERSION),
            ("own inode (it is a copy)", self.own_inode.get(), own_inode),
        ])
    }

    /// Half a sentence, if it was made for another environment, or another life of it.
    pub(super) fn check_owner(&self, identity: &Identity) -> Result<(), String> {
        same(&[
            ("environment id", self.environment[0].get(), identity.environment[0]),
            ("environment id", self.environment[1].get(), identity.environment[1]),
            ("log incarnation", self.incarnation.get(), identity.incarnation),
            ("control file's inode", self.control_inode.get(), identity.control_inode),
            ("control file's birth time", self.control_birth.get(), identity.control_birth),
        ])
    }

    /// Where the environment's directory was when somebody last attached, if that is known.
    pub fn directory(&self) -> Option<PathBuf> {
        let length = usize::try_from(self.directory_bytes.load()).ok().filter(|length| *length > 0)?;
        let bytes: Vec<u8> = self.directory.iter().flat_map(|word| word.get().to_le_bytes()).collect();
        Some(PathBuf::from(OsStr::from_bytes(bytes.get(..length)?)))
    }

    /// Notes where the environment's directory is; a path that is too long is not noted. One process at a time does this.
    ///
    /// If we die here: it is not known, until the next attaches.
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
        Some((what, found, expected)) => Err(format!("its {what} is {found:#x}, expected {expected:#x}")),
        None => Ok(()),
    }
}

fn init_pair(words: &[Word<u64>; 2], values: [u64; 2]) {
    words[0].init(values[0]);
    words[1].init(values[1]);
}

/// The number the kernel drew when the machine was started, or zeros where it gives none.
pub fn boot_id() -> [u64; 2] {
    // Once read it stays: a process that can open no file any more knows it all the same.
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

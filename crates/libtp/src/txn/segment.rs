//! Segments of recoverable memory that belong to an environment, as a program holds them.
//!
//! A segment is a file of vista; its header names its environment. One handle of a process has it mapped, and lends it
//! to one transaction at a time, the holder of its lock (`joined.rs`).
//!
//! A handle keeps a byte of the segment's file locked as long as it lives. The segment holds the handle's number while
//! a transaction works there. So every process can ask the kernel whether the handle still exists, whatever has become
//! of the environment's shared memory.

use std::hash::BuildHasher;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};

use libtp_io::{Directory, File, LockMode, OpenMode, PosixDirectory, Uninherited};
use libtp_process::{ProcessNumber, Session};
use libtp_txn::Managers;
use rio::{failpoint, planted};
use vista::{Holder, Member, Membership, Survives};

use crate::environment::Inner;
use crate::ground::mutex::lock;
use crate::{Durability, Error, Result};

/// The suffix of the names of segment files in the environment's directory.
const ENDING: &str = ".vista";
/// The first of the bytes that handles lock, far beyond the end of any file.
const HANDLES: u64 = 1 << 62;
/// The number of these bytes.
const HANDLE_COUNT: u64 = 1 << 31;

/// A segment of recoverable memory that belongs to an environment. Cloning it is cheap; all clones are one handle,
/// which any thread may use.
///
/// A transaction [joins](crate::Txn::join) it, and stores to it directly. Its commit record then decides for records
/// and memory together.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// let env = libtp::Env::open(dir.path())?;
/// let counter = env.segment("counter", 8)?;
/// let names = env.btree("names")?;
/// let number = env.run(|txn| {
///     let mut memory = txn.join(&counter)?;
///     let place = memory.set_range(0, 8)?;
///     let next = u64::from_le_bytes(place[..].try_into().unwrap()) + 1;
///     place.copy_from_slice(&next.to_le_bytes());
///     names.put(txn, &next.to_be_bytes(), b"a name for each number")?;
///     Ok(next)
/// })?;
/// assert_eq!(number, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Segment(pub(crate) Arc<OpenSegment>);

/// The state shared by all clones.
pub(crate) struct OpenSegment {
    pub(crate) env: Arc<Inner>,
    /// Keeps a forked child from keeping the lock of the member below. Dropped before the member.
    _lock: Option<Uninherited>,
    /// `None` while a transaction has it.
    member: Mutex<Option<Box<Member>>>,
    pub(crate) number: u32,
    pub(crate) path: PathBuf,
    pub(crate) survives: Survives,
    /// The handle's own number, and that of this process.
    pub(crate) holder: Holder,
    /// The segment's row in the table of unresolved transactions, as far as this process knows.
    row: AtomicU32,
    /// A second handle to the segment's file, with the handle's byte locked.
    file: Arc<dyn File>,
}

/// The segments that an environment's handle has open, by path.
pub(crate) type OpenSegments = Mutex<std::collections::HashMap<PathBuf, Weak<OpenSegment>>>;

impl Segment {
    /// Opens the segment `name` of the environment, in its directory.
    pub(crate) fn named(env: &Arc<Inner>, name: &str, options: &vista::Options) -> Result<Segment> {
        let path = env.platform.path.join(format!("{name}{ENDING}"));
        if name.is_empty() || name.contains(['/', '\0']) || name.starts_with('.') {
            let what = format!("`{name}` cannot be a file's name. Nothing was changed");
            return Err(Error::Segment { path, what });
        }
        Segment::open(env, &path, options)
    }

    pub(crate) fn open(env: &Arc<Inner>, path: &Path, options: &vista::Options) -> Result<Segment> {
        env.check_process()?;
        let path = &std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
        // Held to the end: a process maps a segment once.
        let mut segments = lock(&env.segments);
        if let Some(open) = segments.get(path).and_then(Weak::upgrade) {
            return Ok(Segment(open));
        }
        let number = match path.exists() {
            true => 0,
            false => env.with_session(|managers, txn| Ok(managers.next_file_id(txn.session())?))?,
        };
        failpoint("segment: has a number, not made");
        let membership = Membership { environment: environment_id(env)?, number };
        let member = Box::new(options.open_member(path, membership)?);
        let is_given_up = !planted("libtp: a child of a fork keeps its parent's segments");
        let lock = is_given_up.then(|| Uninherited::new(member.lock()));
        failpoint("segment: open, not said so");
        let (handle, file) = say_so(path)?;
        let refuse = |what: &str| Error::Segment { path: path.clone(), what: what.into() };
        let number = u32::try_from(member.number()).ok().filter(|&number| number != 0);
        let open = OpenSegment {
            env: Arc::clone(env),
            number: number.ok_or_else(|| refuse("its number is none that an environment gave. Nothing was changed"))?,
            path: path.clone(),
            survives: member.survives(),
            _lock: lock,
            member: Mutex::new(Some(member)),
            holder: Holder { handle, process: ProcessNumber::this().raw() },
            row: AtomicU32::new(0),
            file,
        };
        open.warn_of_less_than_is_promised();
        let open = Arc::new(open);
        segments.retain(|_, open| open.strong_count() != 0);
        segments.insert(path.clone(), Arc::downgrade(&open));
        Ok(Segment(open))
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// Returns what the memory survives.
    pub fn survives(&self) -> Survives {
        self.0.survives
    }
}

impl std::fmt::Debug for Segment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Segment({})", self.path().display())
    }
}

impl OpenSegment {
    /// Warns if the environment's commits outlive more than their stores here: no later call reports that in time.
    fn warn_of_less_than_is_promised(&self) {
        if self.env.durability == Durability::Relaxed || self.is_lasting() {
            return;
        }
        tracing::warn!(
            segment = %self.path.display(),
            "the environment's commits outlive the machine, and what they store in this segment does not: when it goes down \
             while the segment is in use, the segment is refused afterwards, and the records are there. Keep in records what \
             has to stay, or the segment where memory survives (`Env::segment_at`)"
        );
    }

    /// Takes the member of this process; `None` while a transaction has it.
    pub(crate) fn take(&self) -> Option<Box<Member>> {
        lock(&self.member).take()
    }

    pub(crate) fn give_back(&self, member: Box<Member>) {
        *lock(&self.member) = Some(member);
    }

    /// Makes sure that the table of unresolved transactions has a row for this segment.
    pub(crate) fn keep_row(&self, managers: &Managers, session: &Session) -> Result<()> {
        // Relaxed: the row is checked before use.
        let known = self.row.load(Ordering::Relaxed);
        let row = managers.keep_row(session, self.number, known)?;
        if row != known {
            self.row.store(row, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Returns whether the handle is another one that still exists.
    pub(crate) fn is_there(&self, holder: Holder) -> Result<bool> {
        if holder.handle == 0 || holder.handle == self.holder.handle {
            return Ok(false);
        }
        if self.file.locked_by_other(HANDLES + holder.handle % HANDLE_COUNT, 1)?.is_none() {
            return Ok(false);
        }
        // A child forked without the C library's knowledge may still have the lock (PROTOCOLS D9).
        Ok(!ProcessNumber::from_raw(holder.process).has_ended() || planted("libtp: a ghost is at work in a segment"))
    }
}

fn environment_id(env: &Arc<Inner>) -> Result<[u8; 16]> {
    let generation = env.generation()?;
    let mut id = [0; 16];
    for (half, word) in id.chunks_exact_mut(8).zip(&generation.managers.region.header().environment) {
        half.copy_from_slice(&word.get().to_le_bytes());
    }
    Ok(id)
}

/// Locks a free byte of the segment's file; returns its number, and the file.
fn say_so(path: &Path) -> Result<(u64, Arc<dyn File>)> {
    static DRAWN: AtomicU64 = AtomicU64::new(0);
    let directory = PosixDirectory::open(path.parent().unwrap_or(Path::new(".")))?;
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let file = directory.open(&name, OpenMode::Existing)?;
    let state = std::hash::RandomState::new();
    loop {
        // Relaxed: each caller gets a different number, in any order.
        let drawn = state.hash_one((std::process::id(), DRAWN.fetch_add(1, Ordering::Relaxed)));
        let handle = drawn % HANDLE_COUNT;
        if handle != 0 && file.lock(HANDLES + handle, LockMode::Exclusive, false)? {
            return Ok((handle, file));
        }
    }
}

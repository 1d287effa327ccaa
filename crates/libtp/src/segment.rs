//! Segments of recoverable memory that belong to an environment, as a program holds them.
//!
//! A segment is vista's, a file of its own; its header says whose it is. One handle of a process has it mapped, and lends it
//! to one transaction at a time: the one that has its lock (`joined.rs`).
//!
//! A handle has a byte of the segment's file locked for as long as it lives. Its number stands in the segment while a
//! transaction works there, so anyone can ask the kernel whether who began that is still there, whatever has become of the
//! environment's shared memory meanwhile.

use std::hash::BuildHasher;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};

use libtp_io::{Directory, File, LockMode, OpenMode, PosixDirectory, Uninherited};
use libtp_process::{Passer, Session};
use libtp_txn::Managers;
use rio::{failpoint, planted};
use vista::{Holder, Member, Membership, Survives};

use crate::environment::{lock, Inner};
use crate::{Durability, Error, Result};

/// What a segment's file is called in the environment's directory, behind its name.
const ENDING: &str = ".vista";
/// The bytes that handles lock lie from here on, far beyond anything a file holds.
const HANDLES: u64 = 1 << 62;
/// So many there are.
const HANDLE_COUNT: u64 = 1 << 31;

/// A segment of recoverable memory that belongs to an environment. Cloning it is cheap; all clones are one handle, which any
/// thread may use.
///
/// A transaction [joins](crate::Txn::join) it, and stores to it directly. Its commit record then decides for records and
/// memory together.
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

/// What all clones share.
pub(crate) struct OpenSegment {
    pub(crate) env: Arc<Inner>,
    /// Children of a fork do not keep the lock of the member below. Goes before that.
    _lock: Option<Uninherited>,
    /// None while a transaction has it.
    member: Mutex<Option<Box<Member>>>,
    pub(crate) number: u32,
    pub(crate) path: PathBuf,
    pub(crate) survives: Survives,
    /// The handle's own number, and that of this process.
    pub(crate) holder: Holder,
    /// The row of the table of unresolved transactions that is the segment's, as far as is known here.
    row: AtomicU32,
    /// The segment's file once more, with the handle's byte locked.
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
            false => env.with_session(|managers, who| Ok(managers.next_file_id(who.session())?))?,
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
            holder: Holder { handle, process: Passer::this().raw() },
            row: AtomicU32::new(0),
            file,
        };
        open.warn_of_less_than_is_promised();
        let open = Arc::new(open);
        segments.retain(|_, open| open.strong_count() != 0);
        segments.insert(path.clone(), Arc::downgrade(&open));
        Ok(Segment(open))
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// What the memory survives.
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
    /// Says that the environment's commits outlive more than what they store here: nobody else says it before it is too late.
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

    /// Takes what this process has of it; none while a transaction has it.
    pub(crate) fn take(&self) -> Option<Box<Member>> {
        lock(&self.member).take()
    }

    pub(crate) fn give_back(&self, member: Box<Member>) {
        *lock(&self.member) = Some(member);
    }

    /// Sees to it that the segment can be named as one that may not know of a commit.
    pub(crate) fn keep_row(&self, managers: &Managers, session: &Session) -> Result<()> {
        // Relaxed: it is looked at before it is believed.
        let known = self.row.load(Ordering::Relaxed);
        let row = managers.keep_row(session, self.number, known)?;
        if row != known {
            self.row.store(row, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Whether the handle is another's, who is still there.
    pub(crate) fn is_there(&self, holder: Holder) -> Result<bool> {
        if holder.handle == 0 || holder.handle == self.holder.handle {
            return Ok(false);
        }
        if self.file.locked_by_other(HANDLES + holder.handle % HANDLE_COUNT, 1)?.is_none() {
            return Ok(false);
        }
        // A child of it that the C library knows nothing of may have the lock still (PROTOCOLS D9).
        Ok(!Passer::from_raw(holder.process).has_ended() || planted("libtp: a ghost is at work in a segment"))
    }
}

fn environment_id(env: &Arc<Inner>) -> Result<[u8; 16]> {
    let life = env.life()?;
    let mut id = [0; 16];
    for (half, word) in id.chunks_exact_mut(8).zip(&life.managers.region.header().environment) {
        half.copy_from_slice(&word.get().to_le_bytes());
    }
    Ok(id)
}

/// Locks a byte of the segment's file that nobody else has; which.
fn say_so(path: &Path) -> Result<(u64, Arc<dyn File>)> {
    static DRAWN: AtomicU64 = AtomicU64::new(0);
    let directory = PosixDirectory::open(path.parent().unwrap_or(Path::new(".")))?;
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let file = directory.open(&name, OpenMode::Existing)?;
    let state = std::hash::RandomState::new();
    loop {
        // Relaxed: a number of its own, whatever the order.
        let drawn = state.hash_one((std::process::id(), DRAWN.fetch_add(1, Ordering::Relaxed)));
        let handle = drawn % HANDLE_COUNT;
        if handle != 0 && file.lock(HANDLES + handle, LockMode::Exclusive, false)? {
            return Ok((handle, file));
        }
    }
}
